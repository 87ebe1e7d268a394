//! `ovms graph check`: errors of the file and of the handlers, with their locations.

use std::{fs, path::Path};

use serde_json::json;

use super::shared;
use crate::graphs::new::{graph, shown};
use crate::support::{
    graphs::{PYTHON, add_python},
    pipelines::{Config, status},
    repository,
};

/// Writes a graph with a handler.
fn write(folder: &Path, text: &str, handler: &str) {
    super::run::write(&folder.join("g"), text, handler);
}

/// Checks graphs `g0`, `g1`, and so on with these handlers, which all have errors, in one run; returns the report of
/// each.
fn checked_together(folder: &Path, handlers: &[&str], flags: &[&str]) -> Vec<String> {
    let names: Vec<String> = (0..handlers.len()).map(|it| format!("g{it}")).collect();
    for (name, handler) in names.iter().zip(handlers) {
        super::run::write(&folder.join(name), PYTHON, handler);
    }
    let entries: Vec<_> = names.iter().map(|it| json!({"name": it})).collect();
    let config = json!({"model_config_list": [], "mediapipe_config_list": entries});
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let run = graph(folder, &[&["check", "config.json"], flags].concat());
    assert_eq!(run.code, Some(1), "{}", shown(&run));
    let text = run.text();
    // A traceback may stand before each.
    let begun = format!("\n{text}");
    let reports = begun.split("\ngraph `").skip(1).map(str::to_owned);
    let reports: Vec<String> = reports.collect();
    assert_eq!(reports.len(), handlers.len(), "{text}");
    for report in &reports {
        let counts = report.lines().next().unwrap_or_default();
        assert!(
            counts.contains(" error") && !counts.contains("no error"),
            "{text}"
        );
    }
    reports
}

/// Adds the graphs that a server has as well.
pub(super) fn add_graphs(config: &mut Config) {
    let handler = "class OvmsPythonModel:\n    def execute(self, inputs): return inputs\n    def finalize(self, x): pass\n";
    add_python(config, "warned", handler);
    let latin = config.beside("latin");
    super::run::write(&latin, PYTHON, ECHO);
    fs::write(latin.join("graph.pbtxt"), in_latin()).unwrap();
    let entry = json!({"config": {"name": "latin", "base_path": "latin"}});
    config.put("model_config_list", entry);
}

/// Returns a graph with a comment in another encoding.
fn in_latin() -> Vec<u8> {
    let text = ["# \u{e9}t\u{e9}\n", PYTHON].concat();
    text.chars().map(|c| u8::try_from(c).unwrap()).collect()
}

const SESSION: &str = r#"node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "dumy" }
  }
}
"#;

const ECHO: &str =
    "class OvmsPythonModel:\n    def execute(self, inputs):\n        return inputs\n";

#[test]
fn a_graph_that_is_not_there_is_an_error_of_the_document_too() {
    let folder = repository::folder();
    let run = graph(folder.path(), &["check", "none", "--output", "json"]);
    assert_eq!(run.code, Some(1));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let error = &report["faults"][0];
    assert_eq!(error["message"], "there is no graph in none", "{report}");
    assert!(error["hint"].is_string(), "{report}");
    // As with a name, and in a folder that has none.
    fs::create_dir(folder.path().join("empty")).unwrap();
    for path in ["none", "empty"] {
        let run = graph(folder.path(), &["check", path, "echo"]);
        assert_eq!(run.code, Some(1));
        let first = run.stderr.lines().next().unwrap().to_owned();
        assert_eq!(first, format!("error: there is no graph in {path}"));
    }
}

#[test]
fn errors_of_streams_and_of_handlers_are_reported_together() {
    let folder = repository::folder();
    let text = PYTHON.replace("\"IN:in\"", "\"IN:inn\"");
    write(folder.path(), &text, "import no_such_module\n");
    let run = graph(folder.path(), &["check", "g"]);
    assert_eq!(run.code, Some(1));
    let reported = shown(&run);
    insta::assert_snapshot!(reported);
    let run = graph(folder.path(), &["check", "g", "--output", "json"]);
    assert_eq!(run.code, Some(1));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let errors = &report["graphs"][0]["faults"];
    assert_eq!(
        (&errors[0]["line"], &errors[0]["column"]),
        (&7.into(), &17.into())
    );
    assert_eq!(errors[0]["rule"], 12);
    assert_eq!(errors[1]["rule"], 13);
}

#[test]
fn what_is_wrong_with_a_handler_is_reported() {
    let folder = repository::folder();
    let rows = [
        ("def f(:\n", "SyntaxError", "handler.py:1:"),
        ("x = 1\n", "has no class OvmsPythonModel", "handler.py:1:"),
        (
            "\nclass OvmsPythonModel:\n    pass\n",
            "has no method `execute`",
            "handler.py:2:",
        ),
        (
            "raise ValueError('now')\n",
            "raises ValueError: now",
            "handler.py:1:",
        ),
        (
            "import sys\nsys.exit(3)\n",
            "raises SystemExit",
            "handler.py:2:",
        ),
        (
            "\nimport no_such_module\n",
            "ModuleNotFoundError",
            "handler.py:2:",
        ),
    ];
    let reports = checked_together(folder.path(), &rows.map(|row| row.0), &[]);
    for (index, (report, (_, expected, place))) in reports.iter().zip(rows).enumerate() {
        assert!(report.contains(expected), "{report}");
        assert!(report.contains(&format!("g{index}/{place}")), "{report}");
    }
    write(folder.path(), PYTHON, ECHO);
    let (from, to) = ("g/handler.py", "g/handlers.py");
    fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    fs::remove_file(folder.path().join("config.json")).unwrap();
    let run = graph(folder.path(), &["check", "g"]);
    // The place is that of the path, and the path the whole one.
    for expected in [
        "there is no handler file <folder>/g/handler.py",
        "did you mean `handlers.py`? handler_path is relative to the folder of the graph",
    ] {
        assert!(run.text().contains(expected), "{}", run.text());
    }
    let graph_file = fs::read_to_string(folder.path().join("g/graph.pbtxt")).unwrap();
    let mut lines = graph_file.lines().zip(1..);
    let (_, line) = lines
        .find(|(line, _)| line.contains("handler_path"))
        .unwrap();
    let place = format!("g/graph.pbtxt:{line}:");
    assert!(run.text().contains(&place), "{}", run.text());
    assert_eq!(run.code, Some(1));
}

/// A handler whose methods cannot be called as they are, but for one.
const MISFITS: &str = "\
def kept(function):
    return function
class Base:
    @kept
    def finalize(
        self, x: int = 1, *, y
    ):
        pass
class OvmsPythonModel(Base):
    def __init__(self, *path):
        pass
    def initialize(self):
        pass
    @staticmethod
    def execute(self, inputs):
        return inputs
    create_state = len
    def destroy_state(self):
        pass
";

#[test]
fn methods_that_cannot_be_called_as_they_are_are_errors_of_their_lines() {
    let folder = repository::folder();
    write(folder.path(), PYTHON, MISFITS);
    let run = graph(folder.path(), &["check", "g"]);
    insta::assert_snapshot!(shown(&run), @r#"
    graph `g`: 4 errors

    error: The Python Node state initialization failed [rule 13]
      --> <folder>/g/handler.py:12:1
       |
    12 |     def initialize(self):
       | ^
       |
       = node `py`
       = `initialize` cannot be called as it is: found `def initialize(self)`, expected `def initialize(self, kwargs)`
       = help: the server calls `initialize(kwargs)` once, with a dictionary of what it knows of the node

    error: The Python Node state initialization failed [rule 13]
      --> <folder>/g/handler.py:15:1
       |
    15 |     def execute(self, inputs):
       | ^
       |
       = node `py`
       = `execute` cannot be called as it is: found `def execute(self, inputs)`, expected `def execute(self, inputs, state)`
       = help: the server calls `execute(inputs, state=…)` for each request: a list of pyovms.Tensor, and what `create_state` has made

    error: The Python Node state initialization failed [rule 13]
      --> <folder>/g/handler.py:18:1
       |
    18 |     def destroy_state(self):
       | ^
       |
       = node `py`
       = `destroy_state` cannot be called as it is: found `def destroy_state(self)`, expected `def destroy_state(self, state)`
       = help: the server calls `destroy_state(state)` with what `create_state` has made, at the end of each request or stream

    error: The Python Node state initialization failed [rule 13]
     --> <folder>/g/handler.py:5:1
      |
    5 |     def finalize(
      | ^
      |
      = node `py`
      = `finalize` cannot be called as it is: found `def finalize(self, x=…, *, y)`, expected `def finalize(self)`
      = help: the server calls `finalize()` once at the end

    exit 1
    error: the graph `g` cannot be served: 4 errors
    "#);
    // What the server cannot call is no error of its start, if it may never be called.
    let fits = "\
import functools
class OvmsPythonModel:
    def wrapped(function):
        @functools.wraps(function)
        def call(*all, **named): return all[1]
        return call
    @wrapped
    def execute(self): pass
    @classmethod
    def create_state(cls): pass
    @staticmethod
    def destroy_state(state): pass
    def initialize(self, kwargs, more=1): pass
    def finalize(self, *all): pass
";
    write(folder.path(), PYTHON, fits);
    for depth in [&["check", "g"][..], &["check", "g", "--initialize"]] {
        let run = graph(folder.path(), depth);
        assert_eq!(run.code, Some(0), "{}", shown(&run));
    }
    let rows = [
        ("class OvmsPythonModel:\n    execute = 5\n", 2),
        (
            "class OvmsPythonModel:\n    finalize: int = 5\n    def execute(self, i): pass\n",
            2,
        ),
        ("class OvmsPythonModel:\n    def execute(self): pass\n", 2),
        (
            "class OvmsPythonModel:\n    def create_state(self): pass\n    def execute(self, i): pass\n",
            3,
        ),
        (
            "class OvmsPythonModel:\n    def execute(self, i): pass\n    def initialize(self): pass\n",
            3,
        ),
        (
            "class OvmsPythonModel:\n    async def execute(self, inputs): return []\n",
            2,
        ),
        (
            "class OvmsPythonModel:\n\n    async def execute(self, inputs): yield []\n",
            3,
        ),
    ];
    // The first two are looked at without their objects alone.
    for (rows, flags) in [(&rows[..], &[][..]), (&rows[2..], &["--initialize"][..])] {
        let handlers: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let reports = checked_together(folder.path(), &handlers, flags);
        for (index, (report, (_, line))) in reports.iter().zip(rows).enumerate() {
            let place = format!("g{index}/handler.py:{line}:1");
            assert!(report.contains(&place), "{report}");
            assert!(report.contains("cannot be called as it is"), "{report}");
        }
    }
}

#[test]
fn misspelt_methods_are_reported() {
    let folder = repository::folder();
    let handler = format!("{ECHO}\n    def initialise(self, kwargs):\n        pass\n");
    write(folder.path(), PYTHON, &handler);
    for depth in [&["check", "g"][..], &["check", "g", "--initialize"]] {
        let run = graph(folder.path(), depth);
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&run), @"
            graph `g`: 1 warning

            warning: `def initialise` is not a method that the server calls, and there is no `initialize`
             --> <folder>/g/handler.py:5:1
              |
            5 |     def initialise(self, kwargs):
              | ^
              |
              = node `py`
              = help: did you mean `def initialize(self, kwargs)`?

            exit 2
            warning: no errors, but 1 warning
            ");
        }
    }
    let handler = ECHO.replace("execute", "Execute");
    write(folder.path(), PYTHON, &handler);
    let run = graph(folder.path(), &["check", "g"]);
    insta::assert_snapshot!(shown(&run), @"
    graph `g`: 1 error

    error: The Python Node state initialization failed [rule 13]
     --> <folder>/g/handler.py:2:1
      |
    2 |     def Execute(self, inputs):
      | ^
      |
      = node `py`
      = `execute` cannot be called as it is: found `def Execute`, expected `def execute(self, inputs)`
      = help: the server calls `execute(inputs)` for each request, with a list of pyovms.Tensor

    exit 1
    error: the graph `g` cannot be served: 1 error
    ");
}

#[test]
fn a_traceback_comes_once_and_first() {
    let folder = repository::folder();
    let raises = "    def initialize(self, kwargs):\n        raise OSError('no disk')\n";
    let head = "Traceback (most recent call last):\n";
    for (handler, flags) in [
        (
            format!("{ECHO}\n{raises}"),
            &["check", "g", "--initialize"][..],
        ),
        (
            format!("import missing\n{ECHO}"),
            &["check", "g", "--initialize"],
        ),
        (format!("import missing\n{ECHO}"), &["check", "g"]),
    ] {
        write(folder.path(), PYTHON, &handler);
        let run = graph(folder.path(), flags);
        assert_eq!(run.code, Some(1), "{}", shown(&run));
        assert!(run.text().starts_with(head), "{}", shown(&run));
        assert_eq!(shown(&run).matches(head).count(), 1, "{}", shown(&run));
        assert!(!run.stderr.contains(head), "{}", shown(&run));
    }
}

#[test]
fn a_finalize_that_raises_is_a_warning() {
    let folder = repository::folder();
    let handler = format!("{ECHO}\n    def finalize(self):\n        raise OSError('busy')\n");
    write(folder.path(), PYTHON, &handler);
    let run = graph(folder.path(), &["check", "g"]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let run = graph(folder.path(), &["check", "g", "--initialize"]);
    insta::assert_snapshot!(run.text(), @r#"
    Traceback (most recent call last):
      File "<folder>/g/handler.py", line 6, in finalize
        raise OSError('busy')
    OSError: busy

    graph `g`: 1 warning

    warning: `finalize` in g/handler.py raises OSError: busy
     --> g/handler.py:6:1
      |
    6 |         raise OSError('busy')
      | ^
      |
      = node `py`
    "#);
    assert_eq!(run.code, Some(2));
}

#[test]
fn an_import_that_crashes_is_an_error_of_its_line() {
    let folder = repository::folder();
    let handler =
        format!("import ctypes\n\n\ndef load():\n    ctypes.string_at(0)\n\n\nload()\n{ECHO}");
    write(folder.path(), PYTHON, &handler);
    for more in [&[][..], &["--initialize"]] {
        let run = graph(folder.path(), &[&["check", "g"], more].concat());
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @"
            graph `g`: 1 error

            error: The Python Node state initialization failed [rule 13]
             --> g/handler.py:5:1
              |
            5 |     ctypes.string_at(0)
              | ^
              |
              = node `py`
              = worker of node py was killed by SIGSEGV in node py
            ");
        }
        let stacks = &run.stderr;
        assert_eq!(
            stacks.matches("threads of the worker at its end").count(),
            1,
            "{stacks}"
        );
        assert_eq!(run.code, Some(1));
    }
}

#[test]
fn a_model_of_triton_is_reported_as_one() {
    let folder = repository::folder();
    let class = "class TritonPythonModel:\n    def execute(self, requests):\n        pass\n";
    let import = "import triton_python_backend_utils as pb_utils\n";
    let imports = [import, class].concat();
    for report in checked_together(folder.path(), &[class, &imports], &[]) {
        let help = "= help: the file is a model of Triton's Python backend, which alone has TritonPythonModel";
        assert!(report.contains(help), "{report}");
        assert!(report.contains("docs/triton.md"), "{report}");
        assert!(!report.contains("install"), "{report}");
    }
}

#[test]
fn a_server_warns_of_methods_that_cannot_be_called() {
    let (server, _) = shared::connect();
    let line = server.wait_log("`finalize` cannot be called as it is");
    let place = format!("{}:3: ", shared::beside("warned/handler.py").display());
    assert!(line.contains(" WARN ") && line.contains(&place), "{line}");
}

#[test]
fn objects_are_made_only_if_that_is_asked_for() {
    let folder = repository::folder();
    let handler =
        format!("{ECHO}\n    def initialize(self, kwargs):\n        raise OSError('no disk')\n");
    write(folder.path(), PYTHON, &handler);
    let run = graph(folder.path(), &["check", "g"]);
    let note =
        "note: `initialize` was not called; add `--initialize` to call it, as the server does\n";
    assert_eq!(shown(&run), format!("graph `g`: no errors\nexit 0\n{note}"));
    let run = graph(folder.path(), &["check", "g", "--output=json"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let run = graph(folder.path(), &["check", "g", "--initialize"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.text().contains("raises OSError: no disk"),
        "{}",
        run.text()
    );
    // Nothing is run without Python.
    write(folder.path(), PYTHON, "open('ran', 'w')\n");
    let run = graph(folder.path(), &["check", "g", "--no-python"]);
    assert_eq!(run.code, Some(2), "{}", shown(&run));
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn what_sessions_name_is_looked_for_in_the_configuration() {
    let folder = repository::folder();
    let text = format!("{PYTHON}{SESSION}");
    write(folder.path(), &text, ECHO);
    let run = graph(folder.path(), &["check", "g"]);
    assert_eq!(run.code, Some(2), "{}", shown(&run));
    assert!(
        run.text().contains("no configuration file was named"),
        "{}",
        run.text()
    );
    let config = |models: &str| {
        let text = format!(
            r#"{{"model_config_list": [{models}], "mediapipe_config_list": [{{"name": "g"}}]}}"#
        );
        fs::write(folder.path().join("config.json"), text).unwrap();
        graph(folder.path(), &["check", "config.json"])
    };
    let run = config(r#"{"config": {"name": "dummy", "base_path": "m"}}"#);
    assert_eq!(run.code, Some(2));
    insta::assert_snapshot!(shown(&run));
    let good = r#"{"config": {"name": "dumy", "base_path": "m"}}"#;
    assert_eq!(shown(&config(good)), "graph `g`: no errors\nexit 0\n");
    // Instances of a pool open their sessions when the graph is loaded.
    let text = format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n{text}");
    write(folder.path(), &text, ECHO);
    assert_eq!(shown(&config(good)), "graph `g`: no errors\nexit 0\n");
    let run = config("");
    assert_eq!(run.code, Some(1), "{}", shown(&run));
    for expected in [
        "[rule 12]",
        "no model or pipeline of the configuration is called `dumy`",
        "add it, or the graph does not load",
    ] {
        assert!(run.text().contains(expected), "{}", shown(&run));
    }
}

#[test]
fn what_handlers_print_does_not_come_between() {
    let folder = repository::folder();
    write(folder.path(), PYTHON, &format!("print('loud')\n{ECHO}"));
    let run = graph(folder.path(), &["check", "g"]);
    assert_eq!(run.text(), "graph `g`: no errors\n");
    assert_eq!(run.stderr, "loud\n");
}

#[test]
fn models_of_other_graphs_are_known() {
    let folder = repository::folder();
    write(folder.path(), &[PYTHON, SESSION].concat(), ECHO);
    let other = folder.path().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("graph.pbtxt"), PYTHON).unwrap();
    fs::write(other.join("handler.py"), ECHO).unwrap();
    let own = r#"{"model_config_list": [{"config": {"name": "dumy", "base_path": "dumy"}}]}"#;
    fs::write(other.join("subconfig.json"), own).unwrap();
    let entries =
        r#"{"model_config_list": [], "mediapipe_config_list": [{"name": "g"}, {"name": "other"}]}"#;
    fs::write(folder.path().join("config.json"), entries).unwrap();
    let run = graph(folder.path(), &["check", "config.json"]);
    let reported = shown(&run);
    assert!(!reported.contains("no model or pipeline"), "{reported}");
    fs::remove_file(other.join("subconfig.json")).unwrap();
    let reported = shown(&graph(folder.path(), &["check", "config.json"]));
    assert!(reported.contains("no model or pipeline"), "{reported}");
}

#[test]
fn the_configuration_file_of_a_folder_is_used_if_it_lists_the_graph() {
    let folder = repository::folder();
    write(folder.path(), &[PYTHON, SESSION].concat(), ECHO);
    let config = |place: &str, graph: &str| {
        let text = format!(
            r#"{{"model_config_list": [{{"config": {{"name": "dumy", "base_path": "m"}}}}], "mediapipe_config_list": [{graph}]}}"#
        );
        fs::write(folder.path().join(place), text).unwrap();
    };
    let checked = |args: &[&str]| graph(folder.path(), &[&["check"], args].concat());
    // Others have files of that name, too.
    fs::write(folder.path().join("g/config.json"), r#"{"layers": 12}"#).unwrap();
    let run = checked(&["g"]);
    assert_eq!(run.code, Some(2), "{}", shown(&run));
    let unused = "since no configuration file was named, and g/config.json is not a valid configuration file\n";
    assert!(run.text().contains(unused), "{}", shown(&run));
    // In the folder of the graph, under another name.
    config("g/config.json", r#"{"name": "named", "base_path": "."}"#);
    for path in ["g", "g/graph.pbtxt"] {
        assert_eq!(
            shown(&checked(&[path])),
            "graph `named`: no errors\n  note: the configuration file g/config.json was used\nexit 0\n"
        );
    }
    let run = checked(&["g", "--output", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(
        report["graphs"][0]["notes"],
        serde_json::json!(["the configuration file g/config.json was used"])
    );
    // Beside that folder, or above the folder of a version.
    fs::remove_file(folder.path().join("g/config.json")).unwrap();
    config(
        "config.json",
        r#"{"name": "other", "base_path": "g/elsewhere"}"#,
    );
    let run = checked(&["g"]);
    let unused = "and config.json does not list this graph\n";
    assert!(run.text().contains(unused), "{}", shown(&run));
    config("config.json", r#"{"name": "g"}"#);
    let used =
        "graph `g`: no errors\n  note: the configuration file config.json was used\nexit 0\n";
    assert_eq!(shown(&checked(&["g"])), used);
    let within = graph(&folder.path().join("g"), &["check", "."]);
    assert_eq!(
        shown(&within),
        used.replace("config.json", "../config.json")
    );
    let version = folder.path().join("g/1");
    fs::create_dir(&version).unwrap();
    for file in ["graph.pbtxt", "handler.py"] {
        fs::rename(folder.path().join("g").join(file), version.join(file)).unwrap();
    }
    let entry = r#"{"model_config_list": [{"config": {"name": "g", "base_path": "g"}}, {"config": {"name": "dumy", "base_path": "m"}}]}"#;
    fs::write(folder.path().join("config.json"), entry).unwrap();
    assert_eq!(shown(&checked(&["g"])), used);
    // There a config.json has the models of the graph, as for the server.
    fs::remove_file(folder.path().join("config.json")).unwrap();
    let models = r#"{"model_config_list": [{"config": {"name": "dumy", "base_path": "m"}}]}"#;
    fs::write(version.join("config.json"), models).unwrap();
    assert_eq!(shown(&checked(&["g"])), "graph `g`: no errors\nexit 0\n");
}

/// The report is whole where the check cannot begin, and says what is on stderr.
#[test]
fn a_broken_configuration_file_beside_the_graph_is_reported() {
    let folder = repository::folder();
    write(folder.path(), PYTHON, ECHO);
    fs::write(
        folder.path().join("g/config.json"),
        r#"{"model_config_list": 7}"#,
    )
    .unwrap();
    let run = graph(folder.path(), &["check", "g", "--output", "json"]);
    assert_eq!(run.code, Some(1), "{}", shown(&run));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["verdict"], "faults");
    let error = report["faults"][0]["message"].as_str().unwrap();
    assert!(error.contains("g/config.json"), "{error}");
    assert!(run.stderr.contains("g/config.json"), "{}", run.stderr);
}

#[test]
fn a_comment_in_another_encoding_is_no_error() {
    let folder = repository::folder();
    write(folder.path(), PYTHON, ECHO);
    fs::write(folder.path().join("g/graph.pbtxt"), in_latin()).unwrap();
    let run = graph(folder.path(), &["check", "g", "--initialize"]);
    assert_eq!(shown(&run), "graph `g`: no errors\nexit 0\n");
    // The server reads it in the same way.
    let (server, _) = shared::connect();
    assert_eq!(status(server, "latin"), "AVAILABLE OK");
}

#[test]
fn initialization_adds_to_what_is_found_without() {
    let folder = repository::folder();
    let generator =
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        yield inputs\n";
    let raises = "    def initialize(self, kwargs):\n        raise OSError('no disk')\n";
    for (handler, code) in [(generator.to_owned(), 2), ([generator, raises].concat(), 1)] {
        write(folder.path(), PYTHON, &handler);
        let run = graph(folder.path(), &["check", "g"]);
        assert_eq!(run.code, Some(2), "{}", shown(&run));
        let found = run.text();
        let (_, warning) = found.split_once("warning: ").unwrap();
        assert!(warning.contains("has no LOOPBACK"), "{found}");
        let run = graph(folder.path(), &["check", "g", "--initialize"]);
        assert_eq!(run.code, Some(code), "{}", shown(&run));
        assert!(run.text().contains(warning.trim_end()), "{}", shown(&run));
        let is_raised = run.text().contains("raises OSError: no disk");
        assert_eq!(is_raised, code == 1, "{}", shown(&run));
    }
}

#[test]
fn a_generator_is_noted() {
    let folder = repository::folder();
    let new = graph(folder.path(), &["new", "words", "--generative"]);
    assert_eq!(new.code, Some(0), "{}", shown(&new));
    let note =
        "note: `initialize` was not called; add `--initialize` to call it, as the server does\n";
    for (flags, note) in [
        (&["check", "words"][..], note),
        (&["check", "words", "--initialize"], ""),
    ] {
        let run = graph(folder.path(), flags);
        let all = shown(&run);
        insta::allow_duplicates! {
            insta::assert_snapshot!(all.strip_suffix(note).expect("the note is the end"), @"
            graph `words`: no errors
              note: node `model` is a generator: a unary request gets its first outputs; `ovms infer words --stream`, ModelStreamInfer, and generate_stream return all of them
              note: the configuration file words/config.json was used
            exit 0
            ");
        }
    }
}
