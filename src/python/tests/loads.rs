//! Tests of every outcome of a load.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::support::{Folder, Instance, grouped, handler, load, load_into, outputs, text};
use crate::python::{HandlerLoad, HandlerLoadError, WorkerOptions};

const INITIALIZATION: &str = "The Python Node state initialization failed";

fn fails(text: &str) -> (String, HandlerLoadError) {
    let folder = Folder::new().with("model.py", text);
    let error = folder.load("model.py").unwrap_err();
    assert_eq!(error.status_text(), INITIALIZATION);
    let path = folder.file("model.py").display().to_string();
    (error.to_string().replace(&path, "<p>"), error)
}

/// Checks the error, whose first line ends with this.
fn raises(text: &str, expected: &str) {
    let (reported, error) = fails(text);
    let first = reported.lines().next().unwrap();
    assert_eq!(
        first,
        format!("Error during python node initialization for handler_path: <p> - {expected}")
    );
    assert!(error.raised().is_some());
}

#[test]
fn a_file_that_is_not_there() {
    let error = load(PathBuf::from("/nowhere/model.py")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Python node handler_path: /nowhere/model.py does not exist"
    );
    assert_eq!(
        error.status_text(),
        "The Python Node file path does not exist"
    );
    let folder = Folder::new();
    assert!(matches!(
        folder.load(""),
        Err(HandlerLoadError::NoFile { .. })
    ));
}

#[test]
fn code_that_is_none() {
    raises(
        "class OvmsPythonModel\n",
        "SyntaxError: expected ':' (model.py, line 1)",
    );
    let folder = Folder::new();
    fs::write(folder.file("model.py"), b"x = '\xff'\n").unwrap();
    let reported = folder.load("model.py").unwrap_err().to_string();
    assert!(reported.contains("SyntaxError: "), "{reported}");
    fs::write(folder.file("model.py"), b"x = 1\0\n").unwrap();
    let reported = folder.load("model.py").unwrap_err().to_string();
    assert!(reported.contains("null bytes"), "{reported}");
}

#[test]
fn a_module_that_raises() {
    raises("raise ValueError('bad day')", "ValueError: bad day");
    raises(
        "import not_a_module_anywhere",
        "ModuleNotFoundError: No module named 'not_a_module_anywhere'",
    );
    raises("from json import nothing", &import_error());
    raises("raise KeyboardInterrupt", "KeyboardInterrupt");
    raises("import sys; sys.exit(3)", "SystemExit: 3");
    raises("exit()", "SystemExit: None");
}

#[test]
fn a_module_that_ends_its_worker() {
    for (line, end) in [
        ("import os; os._exit(4)", "ended with status 4"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "was killed by SIGKILL",
        ),
    ] {
        let folder = Folder::new().with("model.py", line);
        let error = folder.load("model.py").unwrap_err().to_string();
        let reported = format!("worker of graph test {end} in node node");
        assert!(error.ends_with(&reported), "{error}");
    }
}

fn import_error() -> String {
    let made = handler(
        "import json\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        return [Tensor('out', json.__file__.encode())]\n",
    );
    let path = outputs(made.run(&[]));
    format!(
        "ImportError: cannot import name 'nothing' from 'json' ({})",
        text(&path[0])
    )
}

/// Returns an exception as the log has it.
fn for_log(error: &HandlerLoadError) -> String {
    let HandlerLoadError::Raised { path, .. } = error else {
        panic!("{error}");
    };
    error.for_log().replace(&path.display().to_string(), "<p>")
}

#[test]
fn the_traceback_is_logged_without_the_loader() {
    let (reported, error) = fails("def f():\n    raise ValueError('deep')\nf()\n");
    assert!(!reported.contains("Traceback"), "{reported}");
    let logged = for_log(&error);
    assert_eq!(
        logged.lines().collect::<Vec<_>>(),
        [
            "Traceback (most recent call last):",
            "  File \"<p>\", line 3, in <module>",
            "    f()",
            "  File \"<p>\", line 2, in f",
            "    raise ValueError('deep')",
            "ValueError: deep",
            "Error during python node initialization for handler_path: <p> - ValueError: deep",
        ]
    );
    assert!(error.raised().unwrap().traceback.contains("line 2, in f"));
}

#[test]
fn no_class_of_that_name() {
    for text in [
        "",
        "class Model: pass",
        "OvmsPythonModel = 5",
        "def OvmsPythonModel(): pass",
    ] {
        let (reported, error) = fails(text);
        assert_eq!(reported, "No OvmsPythonModel class found in <p>");
        assert!(error.raised().is_none());
    }
}

#[test]
fn no_method_execute() {
    for text in [
        "class OvmsPythonModel: pass",
        "class OvmsPythonModel:\n    execute = 5\n",
        "class OvmsPythonModel:\n    def __init__(self): raise ValueError\n",
    ] {
        let (reported, _) = fails(text);
        assert_eq!(
            reported,
            "OvmsPythonModel class in <p> does not implement execute method"
        );
    }
}

#[test]
fn a_constructor_that_fails() {
    let body = "\n    def execute(self, inputs): return []\n";
    raises(
        &format!("class OvmsPythonModel:{body}    def __init__(self, size): pass\n"),
        "TypeError: OvmsPythonModel.__init__() missing 1 required positional argument: 'size'",
    );
    raises(
        &format!("class OvmsPythonModel:{body}    def __init__(self): raise OSError(5, 'disk')\n"),
        "OSError: [Errno 5] disk",
    );
}

#[test]
fn initialize_that_fails() {
    let body = "\n    def execute(self, inputs): return []\n";
    raises(
        &format!("class OvmsPythonModel:{body}    def initialize(self): pass\n"),
        "TypeError: OvmsPythonModel.initialize() takes 1 positional argument but 2 were given",
    );
    raises(
        &format!(
            "class OvmsPythonModel:{body}    def initialize(self, kwargs): kwargs['nothing']\n"
        ),
        "KeyError: 'nothing'",
    );
    raises(
        &format!(
            "import sys\nclass OvmsPythonModel:{body}    def initialize(self, kwargs): sys.exit('end')\n"
        ),
        "SystemExit: end",
    );
}

#[test]
fn finalize_runs_once_for_each_object() {
    let folder = Folder::new();
    let log = folder.file("log");
    let text = |init: &str, initialize: &str| {
        format!(
            "def note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def __init__(self):\n        note('made')\n        {init}\n    def initialize(self, kwargs):\n        note('initialized')\n        {initialize}\n    def execute(self, inputs): return []\n    def finalize(self): note('finalized')\n"
        )
    };
    let take = || {
        let reported = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        reported
    };
    folder.write("model.py", &text("pass", "pass"));
    let handler = folder.load("model.py").unwrap();
    assert_eq!(take(), "made initialized ");
    handler.finalize();
    handler.finalize();
    assert_eq!(take(), "finalized ");
    drop(handler);
    assert_eq!(take(), "");

    folder.write("model.py", &text("pass", "raise ValueError"));
    assert!(folder.load("model.py").is_err());
    assert_eq!(take(), "made initialized finalized ");

    folder.write("model.py", &text("raise ValueError", "pass"));
    assert!(folder.load("model.py").is_err());
    assert_eq!(take(), "made ");

    // Without an explicit call it is done all the same.
    folder.write("model.py", &text("pass", "pass"));
    drop(folder.load("model.py").unwrap());
    for _ in 0..6000 {
        if fs::read_to_string(&log).is_ok_and(|reported| reported.contains("finalized")) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(take(), "made initialized finalized ");
}

#[test]
fn what_finalize_misses_comes_behind_why_initialize_failed() {
    let (_, error) = fails(
        "class OvmsPythonModel:\n    def initialize(self, kwargs): self.file = open('/not/there')\n    def execute(self, inputs): return []\n    def finalize(self): self.file.close()\n",
    );
    let reported = for_log(&error);
    let places = [
        "\nFileNotFoundError: ",
        "\nFailed to process python node finalize method:\nTraceback ",
        "\nAttributeError: ",
        "handler_path: <p> - FileNotFoundError: ",
    ]
    .map(|part| {
        reported
            .find(part)
            .unwrap_or_else(|| panic!("{part}: {reported}"))
    });
    assert!(places.is_sorted(), "{reported}");
}

#[test]
fn what_finalize_raises_is_reported_once() {
    let made = handler(
        "class OvmsPythonModel:\n    def execute(self, inputs): return []\n    def finalize(self): raise OSError('busy')\n",
    );
    let raised = made.handler.finalize().unwrap();
    assert_eq!(raised.to_string(), "OSError: busy");
    assert_eq!(raised.line, Some(3));
    assert_eq!(made.handler.finalize(), None);
}

#[test]
fn methods_with_nearly_the_name_of_one_that_is_called_are_found() {
    let strays = |methods: &[&str]| {
        let methods = methods.iter();
        let methods = methods.map(|it| format!("    def {it}(self, *all): pass\n"));
        let made = handler(&format!(
            "class OvmsPythonModel:\n    def execute(self, inputs): return []\n{}",
            methods.collect::<String>()
        ));
        let class = made.handler.class();
        let found = class.strays.iter().map(|it| {
            let line = it.place.as_ref().unwrap().1;
            format!("{line}: {} for {}", it.found, it.expected)
        });
        found.collect::<Vec<_>>()
    };
    let written = ["initialise", "finalise", "createState", "Destroy_State"];
    assert_eq!(
        strays(&written),
        [
            "3: def initialise for def initialize(self, kwargs)",
            "4: def finalise for def finalize(self)",
            "5: def createState for def create_state(self)",
            "6: def Destroy_State for def destroy_state(self, state)",
        ]
    );
    // What is there is not missed, and others have names of their own.
    let own = [
        "initialize",
        "initialise",
        "is_finalized",
        "reset",
        "create",
    ];
    assert_eq!(strays(&own), [""; 0]);
}

#[test]
fn finalize_runs_once_whoever_calls_it() {
    let folder = Folder::new();
    let log = folder.file("log");
    folder.write(
        "model.py",
        &format!(
            "import time\nclass OvmsPythonModel:\n    def execute(self, inputs): return []\n    def finalize(self):\n        time.sleep(0.05)\n        open({log:?}, 'a').write('finalized ')\n"
        ),
    );
    let handler = folder.load("model.py").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| handler.finalize());
        }
    });
    assert_eq!(fs::read_to_string(&log).unwrap(), "finalized ");
}

#[test]
fn finalize_waits_for_calls() {
    let folder = Folder::new();
    let (log, began) = (folder.file("log"), folder.file("began"));
    folder.write(
        "model.py",
        &format!(
            "import time\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        open({began:?}, 'w').write('yes')\n        time.sleep(0.3)\n        open({log:?}, 'a').write('executed ')\n        return []\n    def finalize(self):\n        open({log:?}, 'a').write('finalized ')\n"
        ),
    );
    let handler = folder.load("model.py").unwrap();
    let instance = Instance::new(&handler);
    std::thread::scope(|scope| {
        scope.spawn(|| outputs(instance.execute(&[], true)));
        super::support::awaited(&began);
        handler.finalize();
        assert_eq!(fs::read_to_string(&log).unwrap(), "executed finalized ");
    });
    let raised = instance.execute(&[], true).unwrap_err();
    assert_eq!(
        raised.to_string(),
        "RuntimeError: the handler of node node is finalized"
    );
}

#[test]
fn finalize_that_fails_ends_the_handler_all_the_same() {
    for body in [
        "raise ValueError('no')",
        "import sys; sys.exit(1)",
        "raise KeyboardInterrupt",
    ] {
        let made = handler(&format!(
            "class OvmsPythonModel:\n    def execute(self, inputs): return []\n    def finalize(self): {body}\n"
        ));
        made.handler.finalize();
        assert!(Instance::new(&made.handler).execute(&[], true).is_err());
    }
}

#[test]
fn file_names_of_all_kinds_work() {
    let text = "from pyovms import Tensor\nimport json, numpy\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        assert json.dumps([1]) == '[1]' and numpy.zeros(1).shape == (1,)\n        return [Tensor('out', __file__.encode())]\n";
    let folder = Folder::new();
    for name in [
        "model.py",
        "my-model.py",
        "model.v1.py",
        "json.py",
        "numpy.py",
        "pyovms.py",
        "1.py",
        "with space.py",
        "class.py",
        "日本.py",
        "handler",
        "sys.py",
        ".py",
        "__init__.py",
        "__main__.py",
        "__handler__.py",
    ] {
        folder.write(name, text);
    }
    let mut handlers = Vec::new();
    for name in fs::read_dir(folder.path()).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        let handler = folder
            .load(&name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let out = outputs(Instance::new(&handler).execute(&[], true));
        assert_eq!(
            super::support::text(&out[0]),
            folder.file(&name).to_str().unwrap()
        );
        handlers.push(handler);
    }
    for handler in handlers {
        outputs(Instance::new(&handler).execute(&[], true));
    }
}

#[test]
fn the_main_block_does_not_run() {
    handler(
        "class OvmsPythonModel:\n    def execute(self, inputs): return []\nif __name__ == '__main__':\n    raise ValueError('ran as a program')\n",
    );
}

/// Waits until a condition holds; for a minute at most.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_worker_that_starts_anew_has_the_limit_of_its_load() {
    let code = "import os, time\nwhile os.path.exists(__file__ + '.hangs'): time.sleep(0.01)\n\
                class OvmsPythonModel:\n  def execute(self, inputs): os._exit(3)\n";
    let folder = Folder::new().with("model.py", code);
    let load = HandlerLoad::new(Some(Duration::from_millis(300)));
    let group = grouped(WorkerOptions::default(), &load);
    let handler = load_into(&group, folder.file("model.py")).unwrap();
    fs::write(folder.file("model.py.hangs"), "").unwrap();
    let ended = Instance::new(&handler).called(&[], true).unwrap_err();
    assert!(ended.to_string().contains("ended with status 3"), "{ended}");
    eventually("it is given up", || {
        let obstacle = group.obstacle();
        obstacle.is_some_and(|text| text.ends_with("does not restart; the log says why"))
    });
    fs::remove_file(folder.file("model.py.hangs")).unwrap();
    eventually("it is tried again", || group.obstacle().is_none());
}

#[test]
fn a_load_is_ended_and_no_other_of_its_name() {
    // It goes on while the file is there; not for ever, whatever fails here.
    let code = "import os, time\nopen(__file__ + '.begun', 'w').close()\nend = time.monotonic() + 60\n\
                while os.path.exists(__file__ + '.hangs') and time.monotonic() < end: time.sleep(0.01)\n\
                class OvmsPythonModel:\n  def execute(self, inputs): return inputs\n";
    let folders = [(); 2].map(|()| {
        Folder::new()
            .with("model.py", code)
            .with("model.py.hangs", "")
    });
    let loads = [(); 2].map(|()| HandlerLoad::default());
    let [ended, other] = thread::scope(|scope| {
        let threads = [0, 1].map(|one: usize| {
            let group = grouped(WorkerOptions::default(), &loads[one]);
            let path = folders[one].file("model.py");
            scope.spawn(move || load_into(&group, path).map(drop))
        });
        for folder in &folders {
            eventually("a load has begun", || {
                folder.file("model.py.begun").exists()
            });
        }
        loads[0].end("was killed: its time is over");
        let [ended, other] = threads;
        let ended = ended.join().unwrap();
        fs::remove_file(folders[1].file("model.py.hangs")).unwrap();
        [ended, other.join().unwrap()]
    });
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("was killed: its time is over"), "{error}");
    other.unwrap();
}

#[test]
fn workers_that_come_after_the_end_of_their_load_run_no_handler() {
    let code = "open(__file__ + '.begun', 'w').close()\nimport time\ntime.sleep(1000)\n";
    let folder = Folder::new().with("model.py", code);
    let load = HandlerLoad::default();
    load.end("was killed: its time is over");
    let group = grouped(WorkerOptions::default(), &load);
    let error = load_into(&group, folder.file("model.py")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("was killed: its time is over"), "{error}");
    assert!(!folder.file("model.py.begun").exists());
}
