//! Tests of the modules of a handler: its own before others of the same name, and fresh ones
//! after a reload.

use super::support::{Folder, Instance, group, handler, load, load_into, outputs, text};
use crate::python::PythonHandler;
use std::sync::Arc;

/// Returns a handler that returns the result of its function `answer`.
fn answers(head: &str, answer: &str) -> String {
    format!(
        "{head}\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        return [Tensor('out', str(self.answer()).encode())]\n    def answer(self):\n        {answer}\n"
    )
}

fn answer(handler: &Arc<PythonHandler>) -> String {
    let out = outputs(Instance::new(handler).execute(&[], true));
    text(&out[0]).to_owned()
}

#[test]
fn equal_file_names_are_different_handlers() {
    let folder = Folder::new()
        .with("a/model.py", &answers("", "return 'a'"))
        .with("b/model.py", &answers("", "return 'b'"));
    let (a, b) = (
        folder.load("a/model.py").unwrap(),
        folder.load("b/model.py").unwrap(),
    );
    assert_eq!((answer(&a), answer(&b)), ("a".to_owned(), "b".to_owned()));
    let again = folder.load("a/model.py").unwrap();
    assert_eq!(
        (answer(&again), answer(&b)),
        ("a".to_owned(), "b".to_owned())
    );
}

#[test]
fn each_node_has_an_object_of_its_own() {
    let folder = Folder::new().with(
        "model.py",
        &answers(
            "",
            "self.count = getattr(self, 'count', 0) + 1; return self.count",
        ),
    );
    let (a, b) = (
        folder.load("model.py").unwrap(),
        folder.load("model.py").unwrap(),
    );
    assert_eq!(answer(&a), "1");
    assert_eq!(answer(&a), "2");
    assert_eq!(answer(&b), "1");
}

#[test]
fn helpers_of_equal_names_are_different() {
    let head = "import helper\nfrom helper import name as direct\nimport package\nfrom package import inner\nimport package.other as other\n";
    let body = "return (helper.name, direct, package.name, inner.name, other.helper_name)";
    let mut folder = Folder::new();
    for name in ["a", "b"] {
        folder = folder
            .with(&format!("{name}/model.py"), &answers(head, body))
            .with(&format!("{name}/helper.py"), &format!("name = 'helper {name}'"))
            .with(
                &format!("{name}/package/__init__.py"),
                &format!("from .inner import name as inner_name\nname = 'package {name}'"),
            )
            .with(&format!("{name}/package/inner.py"), &format!("name = 'inner {name}'"))
            .with(
                &format!("{name}/package/other.py"),
                "import helper\nfrom . import inner\nfrom ..helper import name\nhelper_name = helper.name",
            );
    }
    let (a, b) = (
        folder.load("a/model.py").unwrap(),
        folder.load("b/model.py").unwrap(),
    );
    assert_eq!(
        answer(&a),
        "('helper a', 'helper a', 'package a', 'inner a', 'helper a')"
    );
    assert_eq!(answer(&b), answer(&a).replace(" a'", " b'"));
}

#[test]
fn helpers_can_be_imported_late() {
    let mut folder = Folder::new();
    for name in ["a", "b"] {
        folder = folder
            .with(
                &format!("{name}/model.py"),
                &answers(
                    "",
                    "import late; from latest import deep; import importlib; third = importlib.import_module('third'); return (late.name, deep(), third.name)",
                ),
            )
            .with(&format!("{name}/late.py"), &format!("name = '{name}'"))
            .with(
                &format!("{name}/latest.py"),
                "def deep():\n    import last.most as most\n    return most.name",
            )
            .with(&format!("{name}/last/most.py"), &format!("name = 'most {name}'"))
            .with(&format!("{name}/third.py"), &format!("name = 'third {name}'"));
    }
    let (a, b) = (
        folder.load("a/model.py").unwrap(),
        folder.load("b/model.py").unwrap(),
    );
    assert_eq!(answer(&a), "('a', 'most a', 'third a')");
    assert_eq!(answer(&b), "('b', 'most b', 'third b')");
    assert_eq!(answer(&a), "('a', 'most a', 'third a')");
}

#[test]
fn a_reload_runs_what_is_in_the_files_now() {
    let folder = Folder::new();
    for number in 0..5 {
        folder.write(
            "model.py",
            &answers(
                "import helper",
                &format!("return ({number}, helper.value, helper.late())"),
            ),
        );
        folder.write(
            "helper.py",
            &format!("value = {number}\ndef late():\n    import later\n    return later.value"),
        );
        folder.write("later.py", &format!("value = {number}"));
        let handler = folder.load("model.py").unwrap();
        assert_eq!(answer(&handler), format!("({number}, {number}, {number})"));
    }
    assert!(!folder.file("__pycache__").exists());
}

#[test]
fn standard_and_installed_modules_stay_what_they_are() {
    let folder = Folder::new()
        .with(
            "json.py",
            &answers(
                "import json, numpy",
                "return (json.dumps([]), numpy.zeros(1).shape)",
            ),
        )
        .with(
            "numpy.py",
            &answers(
                "import json, numpy as np",
                "return (json.dumps([]), np.zeros(1).shape)",
            ),
        )
        .with("queue.py", "raise ValueError('not the standard one')");
    let (a, b) = (
        folder.load("json.py").unwrap(),
        folder.load("numpy.py").unwrap(),
    );
    assert_eq!(answer(&a), "('[]', (1,))");
    assert_eq!(answer(&b), "('[]', (1,))");
    let made = handler(&answers(
        "import json, numpy, queue",
        "return json.dumps([]), numpy.zeros(1).shape",
    ));
    assert_eq!(answer(&made.handler), "('[]', (1,))");
}

#[test]
fn nothing_of_a_handler_is_left_in_the_table_of_modules() {
    let folder = Folder::new()
        .with("model.py", &answers("import sys, helper_of_this_test", "return [name for name in sys.modules if 'helper_of_this_test' in name and not name.startswith('_ovms_handler_')]"))
        .with("helper_of_this_test.py", "import importlib, pickle\n");
    let workers = group();
    let handler = load_into(&workers, folder.file("model.py")).unwrap();
    assert_eq!(answer(&handler), "[]");
    let looks = Folder::new()
        .with(
            "look.py",
            &answers(
                "import sys",
                "return [name for name in sys.modules if 'helper_of_this_test' in name]",
            ),
        )
        .with("paths.py", &answers("import sys", "return sys.path"));
    let look = load_into(&workers, looks.file("look.py")).unwrap();
    assert_ne!(answer(&look), "[]");
    handler.finalize();
    assert_eq!(answer(&look), "[]");
    let paths = load_into(&workers, looks.file("paths.py")).unwrap();
    assert!(!answer(&paths).contains(folder.path().to_str().unwrap()));
}

#[test]
fn the_working_directory_comes_behind_packages() {
    let made = handler(&answers(
        "import numpy, os, sys",
        "own = os.getcwd(); packages = os.path.dirname(os.path.dirname(numpy.__file__)); return (sys.path.index(own) == len(sys.path) - 1, sys.path.index(packages) < sys.path.index(own), '' in sys.path)",
    ));
    assert_eq!(answer(&made.handler), "(True, True, False)");
}

#[test]
fn the_command_line_is_not_that_of_the_worker() {
    let made = handler(&answers(
        "import argparse, sys\nargparse.ArgumentParser().parse_args()",
        "return sys.argv",
    ));
    assert_eq!(answer(&made.handler), "['']");
}

#[test]
fn the_folder_is_on_the_path_while_the_module_runs() {
    let made = handler(&answers(
        "import sys, os\nwas = os.path.dirname(__file__) in sys.path",
        "return (was, os.path.dirname(__file__) in sys.path)",
    ));
    assert_eq!(answer(&made.handler), "(True, False)");
}

#[test]
fn classes_know_their_module() {
    let folder = Folder::new()
        .with(
            "model.py",
            &answers(
                "from __future__ import annotations\nimport dataclasses, enum, pickle, sys, typing, copy\nimport shapes\n@dataclasses.dataclass\nclass Point:\n    x: int\n    y: typing.Optional[Point] = None\nclass Color(enum.Enum):\n    RED = 1\n",
                "p = Point(1, Point(2)); q = pickle.loads(pickle.dumps((p, Color.RED, shapes.Shape(3)))); assert q == (p, Color.RED, shapes.Shape(3)); assert copy.deepcopy(p) == p; return sorted(typing.get_type_hints(Point))",
            ),
        )
        .with("shapes.py", "import dataclasses\n@dataclasses.dataclass\nclass Shape:\n    n: int\n");
    assert_eq!(answer(&folder.load("model.py").unwrap()), "['x', 'y']");
}

#[test]
fn what_was_pickled_elsewhere_finds_the_helpers() {
    // A pickle that names the class `Shape` of a module `pickled_shapes`.
    let head = "import pickle, io\ntext = b'cpickled_shapes\\nShape\\n.'\n";
    let body = "return (self.shape.name, pickle.loads(text).name)";
    let more = "    def initialize(self, kwargs):\n        self.shape = pickle._Unpickler(io.BytesIO(text)).load()\n";
    let mut folder = Folder::new();
    for name in ["a", "b"] {
        folder = folder
            .with(&format!("{name}/model.py"), &(answers(head, body) + more))
            .with(
                &format!("{name}/pickled_shapes.py"),
                &format!("class Shape:\n    name = '{name}'\n"),
            );
    }
    let (a, b) = (
        folder.load("a/model.py").unwrap(),
        folder.load("b/model.py").unwrap(),
    );
    assert_eq!(answer(&a), "('a', 'a')");
    assert_eq!(answer(&b), "('b', 'b')");
    assert_eq!(answer(&a), "('a', 'a')");
}

#[test]
fn a_missing_helper_is_reported_by_its_name() {
    let folder = Folder::new()
        .with("model.py", "import package.missing")
        .with("package/__init__.py", "");
    let reported = folder.load("model.py").unwrap_err().to_string();
    assert!(
        reported.contains("ModuleNotFoundError: No module named 'package.missing'"),
        "{reported}"
    );
    let folder = Folder::new()
        .with("model.py", "import helper")
        .with("helper.py", "1/0");
    let reported = folder.load("model.py").unwrap_err().for_log();
    assert!(reported.contains("ZeroDivisionError"), "{reported}");
    assert!(reported.contains("helper.py\", line 1"), "{reported}");
}

#[test]
fn a_helper_may_import_the_handler() {
    let folder = Folder::new()
        .with("circle.py", &answers("value = 5\nimport helper", "return (helper.value(), helper.same(OvmsPythonModel))"))
        .with("helper.py", "import circle\ndef value(): return circle.value\ndef same(c):\n    from circle import OvmsPythonModel\n    return c is OvmsPythonModel");
    assert_eq!(answer(&folder.load("circle.py").unwrap()), "(5, True)");
}

#[test]
fn a_handler_may_derive_from_another() {
    let folder = Folder::new()
        .with("base.py", &answers("", "return 'base ' + self.name()"))
        .with("model.py", "import base\nclass OvmsPythonModel(base.OvmsPythonModel):\n    def name(self): return 'derived'\n");
    assert_eq!(answer(&folder.load("model.py").unwrap()), "base derived");
}

#[test]
fn a_handler_may_change_the_path_itself() {
    let folder = Folder::new()
        .with("model.py", &answers("import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib_of_this_test'))\nimport library_of_this_test", "return library_of_this_test.value"))
        .with("lib_of_this_test/library_of_this_test.py", "value = 'found'");
    assert_eq!(answer(&folder.load("model.py").unwrap()), "found");
}

#[test]
fn a_helper_may_be_written_after_a_failed_import() {
    let folder = Folder::new().with(
        "model.py",
        &answers("", "\n        try:\n            import plugin_of_this_test as p\n        except ImportError:\n            return 'none'\n        return p.value"),
    );
    let handler = folder.load("model.py").unwrap();
    assert_eq!(answer(&handler), "none");
    folder.write("plugin_of_this_test.py", "value = 'there'");
    assert_eq!(answer(&handler), "there");
}

#[test]
fn loads_at_the_same_time_do_not_mix() {
    let mut folder = Folder::new();
    for number in 0..12 {
        folder = folder
            .with(
                &format!("{number}/model.py"),
                &answers(
                    "import time\ntime.sleep(0.01)\nimport helper",
                    "import late; return helper.value + late.value",
                ),
            )
            .with(&format!("{number}/helper.py"), &format!("value = {number}"))
            .with(&format!("{number}/late.py"), &format!("value = {number}"));
    }
    let path = |number: usize| folder.file(&format!("{number}/model.py"));
    std::thread::scope(|scope| {
        for number in 0..12 {
            let path = path(number);
            scope.spawn(move || {
                let handler = load(path).unwrap();
                assert_eq!(answer(&handler), (2 * number).to_string());
            });
        }
    });
}

#[test]
fn children_of_a_handler_may_really_exit() {
    let made = handler(&answers(
        "import os",
        "\n        child = os.fork()\n        if child == 0:\n            os._exit(7)\n        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])",
    ));
    assert_eq!(answer(&made.handler), "7");
}
