//! `ovms serve --check` of pipelines and graphs: it finds those that cannot be served, as their own
//! checks do, and creates no handler object.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::support::{
    checks::{Case, dummy, entry, file, library, node, pipeline, shown, sound},
    cli::{self, Run},
    graphs::{PASS, PYTHON, write},
    model,
};

/// Checks the configuration file of a case, as a server with more flags would.
fn check_with(case: &Case, mut command: Command, flags: &[&str]) -> Run {
    command.current_dir(case.path()).args(["serve", "--check"]);
    let mut run = cli::run(command.args(flags));
    let folder = case.path().to_str().unwrap();
    run.stderr = run.stderr.replace(folder, "<folder>");
    run
}

fn check(case: &Case) -> Run {
    check_with(case, cli::command(), &["--config_path=config.json"])
}

/// Writes a configuration file of graphs, each in a folder of its name.
fn graphs(case: &Case, names: &[&str]) {
    let entries = names.iter().map(|name| format!("{{\"name\": \"{name}\"}}"));
    let entries: Vec<String> = entries.collect();
    case.config(&format!(
        "{{\"model_config_list\": [\n{}],\n\"mediapipe_config_list\": [\n{}]}}\n",
        dummy(),
        entries.join(",\n")
    ));
}

#[test]
fn pipelines_that_cannot_be_served_are_errors() {
    let case = Case::new();
    let total = entry("total", &model("running_total"), ", \"stateful\": true");
    let over = |name: &str, runs: &str, tensors: (&str, &str)| {
        let inner = node(
            "a",
            runs,
            &[&format!("{} < request.x", tensors.0)],
            &[tensors.1],
            "",
        );
        pipeline(name, &[inner], &[&format!("y < a.{}", tensors.1)], "")
    };
    let pipelines = [
        sound("good"),
        over("unknown", "dumy", ("b", "a")),
        over("stateful", "total", ("x", "total")),
        over("library", "@lib", ("b", "a")),
        over("input", "dummy", ("c", "a")),
    ];
    let libraries = [library("lib", Path::new("lib.so"))];
    case.config(&file(&[dummy(), total], &libraries, &pipelines));
    insta::assert_snapshot!(shown(&check(&case)), @r#"
    name      kind      versions  state
    dummy     model     1         ok
    total     model     1         ok
    good      pipeline  1         ok
    unknown   pipeline  -         error
    stateful  pipeline  -         error
    library   pipeline  1         not checked
    input     pipeline  -         error
    exit 1
    error: the check found 4 errors
      error: config.json: custom_node_library_config_list: library `lib`: <folder>/lib.so: cannot open shared object file: No such file or directory
      error: config.json:15:49 pipeline_config_list[1].nodes[0].model_name: pipeline `unknown`, node `a`: Pipeline definition has reference to missing model - found the model `dumy`, which is not there; expected a model of model_config_list: dummy, total; did you mean `dummy`?
      error: config.json:21:49 pipeline_config_list[2].nodes[0].model_name: pipeline `stateful`, node `a`: Stateful model cannot be subscribed to pipeline - found a stateful model; expected a model without state; send requests to the stateful model directly
      error: config.json:34:13 pipeline_config_list[4].nodes[0].inputs[0]: pipeline `input`, node `a`: Pipeline definition has connection to non existing model input - found the input `c`; expected an input of what it runs: b; take it away, or rename it
    hint: `ovms pipeline check config.json` shows the lines that are meant
    "#);
    // Without the messages of the runtime; all else is there.
    let bare = || cli::bare(&case.path().join("home"));
    let run = check_with(&case, bare(), &["--config_path=config.json"]);
    assert_eq!(run.code, Some(1));
    for text in [
        "`dumy`, which is not there",
        "Stateful model cannot",
        "lib.so",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    case.config(&file(&[dummy()], &[], &[sound("good")]));
    let run = check_with(&case, bare(), &["--config_path=config.json"]);
    insta::assert_snapshot!(shown(&run), @"
    name   kind      versions  state
    dummy  model     1         not checked
    good   pipeline  1         not checked
    exit 2
    warning: no error was found, but 2 things could not be checked
      not checked: model `dummy`: no OpenVINO runtime found
      not checked: config.json:8:49 pipeline_config_list[0].nodes[0].model_name: pipeline `good`, node `a`: no OpenVINO runtime found
    hint: run `ovms setup` for a runtime, which models are read with
    ");
}

#[test]
fn graphs_that_cannot_be_served_are_errors() {
    let case = Case::new();
    let at = |name: &str| case.path().join(name);
    write(&at("good"), PASS);
    write(&at("nobody"), PYTHON);
    write(
        &at("left_out"),
        &PASS.replace("PassThroughCalculator", "HttpLLMCalculator"),
    );
    graphs(&case, &["good", "nobody", "left_out", "nowhere"]);
    insta::assert_snapshot!(shown(&check(&case)), @r#"
    name      kind   versions  state
    dummy     model  1         ok
    good      graph  1         ok
    nobody    graph  -         error
    left_out  graph  -         error
    nowhere   graph  -         error
    exit 1
    error: the check found 3 errors
      error: <folder>/nobody/graph.pbtxt:3:6: graph `nobody`, node `py`: The Python Node file path does not exist - there is no handler file <folder>/nobody/handler.py; handler_path is relative to the folder of the graph
      error: <folder>/left_out/graph.pbtxt:3:6: graph `left_out`, node `HttpLLMCalculator`: Failed to initialize mediapipe graph - Unable to find Calculator "HttpLLMCalculator"; graphs for large language models are absent from this server on purpose; docs/moving.md lists what is
      error: config.json:7:1 mediapipe_config_list[3]: graph `nowhere`: File not found or cannot open - <folder>/nowhere/graph.pbtxt: No such file or directory (os error 2); name a folder with a graph.pbtxt in base_path, or the file in graph_path
    hint: `ovms graph check config.json` shows the lines that are meant
    "#);
    let run = check_with(
        &case,
        cli::command(),
        &["--model_name=g", "--model_path=nobody"],
    );
    insta::assert_snapshot!(shown(&run), @"
    name  kind   versions  state
    g     graph  -         error
    exit 1
    error: the check found 1 error
      error: <folder>/nobody/graph.pbtxt:3:6: graph `g`, node `py`: The Python Node file path does not exist - there is no handler file <folder>/nobody/handler.py; handler_path is relative to the folder of the graph
    ");
}

#[test]
fn code_that_does_not_come_back_ends_the_check() {
    let case = Case::new();
    write(&case.path().join("slow"), PYTHON);
    let handler = case.path().join("slow/handler.py");
    fs::write(handler, "import time\ntime.sleep(600)\n").unwrap();
    graphs(&case, &["slow"]);
    let flags = ["--config_path=config.json", "--graph_load_seconds=1"];
    insta::assert_snapshot!(shown(&check_with(&case, cli::command(), &flags)), @"
    exit 1
    error: the handlers of graph `slow` took longer than 1s
    hint: see what they do when they begin, or raise --graph_load_seconds
    ");
}

#[test]
fn models_of_graphs_are_looked_at() {
    let case = Case::new();
    for (name, subconfig) in [
        (
            "key",
            r#"{"config": {"name": "a", "base_path": "a", "nirek": 2}}"#,
        ),
        ("path", r#"{"config": {"name": "b", "base_path": "b"}}"#),
        (
            "shape",
            r#"{"config": {"name": "c", "base_path": "c", "shape": "[1]"}}"#,
        ),
        (
            "taken",
            r#"{"config": {"name": "dummy", "base_path": "d"}}"#,
        ),
        ("json", "{"),
    ] {
        let folder = case.path().join(name);
        write(&folder, PASS);
        let text = format!("{{\"model_config_list\": [{subconfig}]}}");
        fs::write(folder.join("subconfig.json"), text).unwrap();
    }
    graphs(&case, &["key", "path", "shape", "taken", "json"]);
    insta::assert_snapshot!(shown(&check(&case)), @"
    name   kind   versions  state
    dummy  model  1         ok
    b      model  -         error
    c      model  -         refused
    key    graph  1         ok
    path   graph  1         ok
    shape  graph  1         ok
    taken  graph  1         ok
    json   graph  1         ok
    exit 1
    error: the check found 4 errors and 1 warning
      error: <folder>/key/subconfig.json:1:67 model_config_list[0].config.nirek: found the unknown key `nirek`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup (did you mean `nireq`?)
      error: <folder>/json/subconfig.json:1:25: found `]` (unexpected token in object); expected JSON
      error: <folder>/path/subconfig.json: model `b`: The provided base path is invalid or doesn't exists - <folder>/path/b: No such file or directory (os error 2)
      error: <folder>/shape/subconfig.json:1:76 model_config_list[0].config.shape: The provided shape is in wrong format - found `[1]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
      warning: <folder>/taken/subconfig.json: the model `dummy` is left out, since its name is taken; the first counts
    ");
    let run = check_with(
        &case,
        cli::command(),
        &["--model_name=g", "--model_path=path"],
    );
    insta::assert_snapshot!(shown(&run), @"
    name  kind   versions  state
    b     model  -         error
    g     graph  1         ok
    exit 1
    error: the check found 1 error
      error: <folder>/path/subconfig.json: model `b`: The provided base path is invalid or doesn't exists - <folder>/path/b: No such file or directory (os error 2)
    ");
}

/// A handler that prints a line when it is instantiated.
const WITNESS: &str = "print('hello from the handler')
class OvmsPythonModel:
    def initialize(self, kwargs):
        raise RuntimeError('an object is made')
    def execute(self, inputs):
        return inputs
";

#[test]
fn handlers_are_imported_and_no_object_of_them_is_made() {
    let case = Case::new();
    let path = |name: &str| case.path().join(name);
    write(&path("g"), PYTHON);
    fs::write(path("g/handler.py"), WITNESS).unwrap();
    fs::write(path("node.py"), WITNESS).unwrap();
    let inner = node("a", "@node", &["b < request.x"], &["a"], "");
    let p = pipeline("p", &[inner], &["y < a.a"], "");
    let text = file(&[], &[library("node", Path::new("node.py"))], &[p]);
    let list = "\"mediapipe_config_list\": [{\"name\": \"g\"}], \"pipeline_config_list\"";
    case.config(&text.replace("\"pipeline_config_list\"", list));
    let run = check(&case);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    assert!(
        run.stderr.contains("hello from the handler"),
        "{}",
        run.stderr
    );
    let json = check_with(
        &case,
        cli::command(),
        &["--config_path=config.json", "--output=json"],
    );
    let reported: Value = serde_json::from_slice(&json.stdout).expect("nothing but our own words");
    assert_eq!(reported["verdict"], "ok");
    for file in ["g/handler.py", "node.py"] {
        fs::write(path(file), "import no_such_module\n").unwrap();
    }
    insta::assert_snapshot!(shown(&check(&case)), @"
    name  kind      versions  state
    p     pipeline  -         error
    g     graph     -         error
    exit 1
    error: the check found 2 errors
      error: config.json:8:49 pipeline_config_list[0].nodes[0].library_name: pipeline `p`, node `a`: Failure during custom node library initialization - found Error during python node initialization for handler_path: <folder>/node.py - ModuleNotFoundError: No module named 'no_such_module'; expected a handler that loads and initializes; correct the handler; the log has where it was raised
      error: <folder>/g/graph.pbtxt:3:6: graph `g`, node `py`: The Python Node state initialization failed - <folder>/g/handler.py raises ModuleNotFoundError: No module named 'no_such_module'; install it into the Python environment that the server is started with, or name another with --python_environment
    hint: `ovms pipeline check config.json` and `ovms graph check config.json` show the lines that are meant
    ");
}
