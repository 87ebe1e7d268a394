//! Python nodes that cannot be loaded: log, responses to clients, and no effect on other servables.

use std::fs;

use crate::support::{
    Server,
    graphs::{
        CODE, LIST, PYTHON, add, add_python, changes, code, file, generative, graph, python,
        reload, reported,
    },
    grpc::Grpc,
    http::get,
    pipelines::{Config, lines, status},
};

/// Checks the state of a graph that failed to load.
fn is_refused(server: &Server, client: &Grpc, name: &str) {
    assert_eq!(
        changes(server, name),
        ["LOADING_PRECONDITION_FAILED ValidationFailed"],
        "{name}"
    );
    assert_eq!(
        reported(client, code(name, "")),
        "Unavailable: Mediapipe is not loaded yet",
        "{name}"
    );
    assert_eq!(
        status(server, name),
        "LOADING FAILED_PRECONDITION",
        "{name}"
    );
}

const GOOD: &str = "class OvmsPythonModel:\n  def execute(self, inputs): return []\n";
const BEGIN: &str = "Error during python node initialization for handler_path: ";

#[test]
fn handlers_with_errors_fail_their_graph_alone() {
    let mut config = Config::of(&[]);
    // Name, handler, and what the log says besides the status.
    let errors: &[(&str, &str, &str)] = &[
        ("syntax", "class OvmsPythonModel(:\n", "SyntaxError"),
        (
            "tabs",
            "class OvmsPythonModel:\n\tdef execute(self, i):\n        return []\n",
            "TabError",
        ),
        (
            "import",
            "import no_such_module_anywhere\n",
            "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        ),
        (
            "raises",
            "raise ValueError('while it was read')\n",
            "ValueError: while it was read",
        ),
        ("exits", "import sys\nsys.exit(3)\n", "SystemExit: 3"),
        (
            "interrupts",
            "raise KeyboardInterrupt\n",
            "KeyboardInterrupt",
        ),
        ("surrogate", "raise ValueError('\\ud800 read')\n", "read"),
        ("endless", "def f(): f()\nf()\n", "RecursionError"),
        ("empty", "", "No OvmsPythonModel class found in "),
        (
            "misspelt",
            "class OVMSPythonModel: pass\n",
            "No OvmsPythonModel class found in ",
        ),
        (
            "function",
            "def OvmsPythonModel(): pass\n",
            "No OvmsPythonModel class found in ",
        ),
        (
            "number",
            "OvmsPythonModel = 5\n",
            "No OvmsPythonModel class found in ",
        ),
        (
            "no_execute",
            "class OvmsPythonModel:\n  def initialize(self, kwargs): pass\n",
            "does not implement execute method",
        ),
        (
            "not_callable",
            "class OvmsPythonModel:\n  execute = 5\n",
            "does not implement execute method",
        ),
        (
            "arguments",
            "class OvmsPythonModel:\n  def __init__(self, needed): pass\n  def execute(self, i): return []\n",
            "TypeError",
        ),
        (
            "constructor",
            "class OvmsPythonModel:\n  def __init__(self): raise OSError('in it')\n  def execute(self, i): return []\n",
            "OSError: in it",
        ),
        (
            "initialize",
            "class OvmsPythonModel:\n  def initialize(self, kwargs): raise KeyError('of it')\n  def execute(self, i): return []\n",
            "KeyError: 'of it'",
        ),
        (
            "quits",
            "class OvmsPythonModel:\n  def initialize(self, kwargs): exit()\n  def execute(self, i): return []\n",
            "Exit",
        ),
        (
            "signature",
            "class OvmsPythonModel:\n  def initialize(self): pass\n  def execute(self, i): return []\n",
            "TypeError",
        ),
    ];
    for (name, text, _) in errors {
        add_python(&mut config, name, text);
    }
    // Bytes that are no text, and paths that are no files.
    let path = add_python(&mut config, "bytes", "");
    fs::write(
        path,
        b"class OvmsPythonModel: execute = print; name = '\xff\xfe'\n",
    )
    .unwrap();
    let path = add_python(&mut config, "zero", "");
    fs::write(path, b"x = 1\0\n").unwrap();
    for name in ["nothing", "folder"] {
        add(&mut config, name, PYTHON);
    }
    fs::create_dir(config.beside("folder/handler.py")).unwrap();
    // Nodes without what they need.
    let options = "node_options: {";
    let (before, after) = PYTHON.split_once(options).unwrap();
    let (_, after) = after.split_once("  }\n").unwrap();
    let no_options = format!("{before}{after}");
    let one = python("one", "IN:in", "OUT:mid", "handler.py", "");
    let two = |name: &str| python(name, "IN:mid", "OUT:out", "handler.py", "");
    let chain = |last: String| {
        graph(
            "OVMS_PY_TENSOR:in",
            "OVMS_PY_TENSOR:out",
            &[one.clone(), last],
        )
    };
    let edited = |from: &str, to: &str| PYTHON.replace(from, to);
    let gen_text = generative(PYTHON);
    let loops = |from: &str, to: &str| {
        assert!(gen_text.contains(from), "{from}");
        gen_text.replace(from, to)
    };
    let texts: Vec<(&str, String, &str)> = vec![
        (
            "no_options",
            no_options,
            "Python node missing options in graph: no_options",
        ),
        (
            "no_name",
            edited("name: \"py\"", ""),
            "Python node name is missing in graph: no_name",
        ),
        (
            "repeated",
            chain(two("one")),
            "Python node name: one already used in graph: repeated",
        ),
        (
            "no_path",
            edited("handler_path: \"handler.py\"", ""),
            "no_path",
        ),
        (
            "no_file",
            edited("handler.py", "other.py"),
            "other.py does not exist",
        ),
        (
            "no_resources",
            edited("input_side_packet: \"PYTHON_NODE_RESOURCES:py\"", ""),
            "PYTHON_NODE_RESOURCES",
        ),
        (
            "to_ov",
            edited(
                "output_stream: \"OVMS_PY_TENSOR:out\"",
                "output_stream: \"OVTENSOR:out\"",
            ),
            "to_ov initialization failed",
        ),
        (
            "from_ov",
            edited(
                "input_stream: \"OVMS_PY_TENSOR:in\"",
                "input_stream: \"in\"",
            ),
            "from_ov initialization failed",
        ),
        (
            "no_output",
            loops("  output_stream: \"LOOPBACK:loopback\"\n", ""),
            "no_output initialization failed",
        ),
        (
            "no_input",
            loops("  input_stream: \"LOOPBACK:loopback\"\n", "").replace(
                "input_stream_info: { tag_index: \"LOOPBACK:0\" back_edge: true }",
                "",
            ),
            "If LOOPBACK is used, it must be defined on both input and output of the node",
        ),
        (
            "no_info",
            loops(
                "input_stream_info: { tag_index: \"LOOPBACK:0\" back_edge: true }",
                "",
            ),
            "no_info initialization failed",
        ),
        (
            "no_edge",
            loops("back_edge: true", "back_edge: false"),
            "no_edge initialization failed",
        ),
        (
            "wrong_index",
            loops(
                "input_stream_info: { tag_index: \"LOOPBACK:0\"",
                "input_stream_info: { tag_index: \"LOOPBACK:1\"",
            ),
            "wrong_index initialization failed",
        ),
        (
            "wrong_set",
            loops(
                "sync_set { tag_index: \"LOOPBACK:0\" }",
                "sync_set { tag_index: \"LOOPBACK:7\" }",
            ),
            "wrong_set initialization failed",
        ),
    ];
    for (name, text, ..) in &texts {
        add(&mut config, name, text);
        file(&config, &format!("{name}/handler.py"), GOOD);
    }
    add_python(&mut config, "good", CODE);
    let server = config.serve();
    let client = Grpc::connect(&server);
    for (name, _, log) in errors {
        is_refused(&server, &client, name);
        let path = config.beside(name).join("handler.py");
        let all = server.log();
        let is_reported = all
            .lines()
            .any(|line| line.contains(&path.display().to_string()) && line.contains(log));
        assert!(is_reported, "{name}: `{log}` beside {}", path.display());
    }
    for (name, log) in [("bytes", BEGIN), ("zero", BEGIN)] {
        is_refused(&server, &client, name);
        server.wait_log(&format!(
            "{log}{}",
            config.beside(name).join("handler.py").display()
        ));
    }
    for name in ["nothing", "folder"] {
        is_refused(&server, &client, name);
        let path = config.beside(name).join("handler.py");
        server.wait_log(&format!(
            "Python node handler_path: {} does not exist",
            path.display()
        ));
    }
    for (name, _, log) in &texts {
        is_refused(&server, &client, name);
        server.wait_log(log);
    }
    assert_eq!(
        reported(&client, code("good", "return [Tensor('out', b'a')]")),
        "out UINT8 [1] a"
    );
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
    // A fixed one is loaded.
    file(&config, "syntax/handler.py", CODE);
    file(&config, "no_file/other.py", CODE);
    assert!([201, 412].contains(&reload(&server)));
    for name in ["syntax", "no_file"] {
        assert_eq!(
            reported(&client, code(name, "return [Tensor('out', b'a')]")),
            "out UINT8 [1] a"
        );
    }
}

#[test]
fn nodes_before_the_one_that_fails_are_finalized_once() {
    let mut config = Config::of(&[]);
    let log = config.beside("log");
    let noted = |name: &str, fails: &str| {
        format!(
            "class OvmsPythonModel:\n  def initialize(self, kwargs):\n    note('begin')\n    {fails}\n  def execute(self, i): return []\n  def finalize(self):\n    note('end')\n    raise ValueError('at the end of {name}')\ndef note(text): open({log:?}, 'a').write(text + ' {name}\\n')\n"
        )
    };
    let text = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:out",
        &[
            python("a", "IN:in", "OUT:one", "a.py", ""),
            python("b", "IN:one", "OUT:two", "b.py", ""),
            python("c", "IN:two", "OUT:out", "c.py", ""),
        ],
    );
    add(&mut config, "g", &text);
    file(&config, "g/a.py", &noted("a", ""));
    file(&config, "g/b.py", &noted("b", "raise ValueError"));
    file(&config, "g/c.py", &noted("c", ""));
    // Two nodes of one file have an object each.
    let twice = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:out",
        &[
            python("x", "IN:in", "OUT:mid", "t.py", ""),
            python("y", "IN:mid", "OUT:out", "t.py", ""),
        ],
    );
    add(&mut config, "twice", &twice);
    file(&config, "twice/t.py", &noted("t", ""));
    let mut server = config.serve();
    assert_eq!(status(&server, "g"), "LOADING FAILED_PRECONDITION");
    crate::support::pipelines::wait_lines(&log, "end a", 1);
    assert_eq!(lines(&log, "begin t").len(), 2);
    server.wait_log("Failed to process python node finalize method");
    assert_eq!(status(&server, "twice"), "AVAILABLE OK");
    server.signal("TERM");
    assert!(server.wait().success());
    let mut all: Vec<String> = lines(&log, "");
    all.sort();
    let expected = [
        "begin a", "begin b", "begin t", "begin t", "end a", "end b", "end t", "end t",
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_generating_node_without_its_handler_waits_for_the_end() {
    let mut config = Config::of(&[]);
    let text = generative(PYTHON);
    let begin = text.find("  input_stream_handler").unwrap();
    let end = text.find("  node_options").unwrap();
    let without = format!("{}{}", &text[..begin], &text[end..]);
    add(&mut config, "without", &without);
    // Further indexes of the tag are neither read nor written.
    let more = text.replace(
        "  output_stream: \"LOOPBACK:loopback\"",
        "  output_stream: \"LOOPBACK:loopback\"\n  output_stream: \"LOOPBACK:1:unused\"",
    );
    add(&mut config, "more", &more);
    for name in ["without", "more"] {
        file(&config, &format!("{name}/handler.py"), CODE);
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    let two = "yield [Tensor('out', b'a')]\nyield [Tensor('out', b'b')]";
    let mut talk = crate::support::streams::Talk::open(&client);
    talk.send(code("more", two));
    assert_eq!(
        crate::support::graphs::next(&mut talk),
        "0: out UINT8 [1] a"
    );
    assert_eq!(
        crate::support::graphs::rest(talk),
        ["1: out UINT8 [1] b", "end: Ok: "]
    );
    assert_eq!(status(&server, "without"), "AVAILABLE OK");
    let talk = crate::support::streams::Talk::open(&client);
    talk.send(code("without", "return [Tensor('out', b'late')]"));
    let came = crate::support::graphs::rest(talk);
    assert_eq!(came, ["0: out UINT8 [4] late", "end: Ok: "]);
}

#[test]
fn large_and_deep_files_are_refused_or_read_in_time() {
    let mut config = Config::of(&["dummy"]);
    let comment = format!("# {}\n", "x".repeat(98)).repeat(50_000);
    add(
        &mut config,
        "comments",
        &format!("{comment}{}", crate::support::graphs::PASS),
    );
    let nodes: String = (0..20_000)
        .map(|n| format!("node {{ calculator: \"PassThroughCalculator\" input_stream: \"s{n}\" output_stream: \"s{}\" }}\n", n + 1))
        .collect();
    add(
        &mut config,
        "chain",
        &format!("input_stream: \"s0\"\noutput_stream: \"s20000\"\n{nodes}"),
    );
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    add(&mut config, "braces", &deep("node {", "}"));
    add(&mut config, "angles", &deep("options <", ">"));
    add(
        &mut config,
        "lists",
        &format!("input_stream: {}", deep("[", "]")),
    );
    add(&mut config, "open", &"node { options {".repeat(100_000));
    add(
        &mut config,
        "name",
        &format!("input_stream: \"{}\"", "x".repeat(5_000_000)),
    );
    let strings = "\"a\" ".repeat(1_000_000);
    add(
        &mut config,
        "strings",
        &format!("type: {strings}\n{}", crate::support::graphs::PASS),
    );
    config.put(LIST, serde_json::json!({"name": "absent"}));
    let server = config.serve();
    let client = Grpc::connect(&server);
    client.check_serves();
    for name in ["braces", "angles", "lists", "open", "name", "absent"] {
        assert_eq!(
            status(&server, name),
            "LOADING FAILED_PRECONDITION",
            "{name}"
        );
    }
    for (name, input) in [("comments", "in"), ("chain", "s0"), ("strings", "in")] {
        let asked = crate::support::grpc::raw(name, input, "UINT8", &[1], b"a");
        let came = reported(&client, asked);
        assert!(
            came.ends_with(" UINT8 [1] a"),
            "{name}: {}",
            &came[..came.len().min(300)]
        );
    }
    // No line of the log repeats such a file.
    let longest = server.log().lines().map(str::len).max();
    assert!(longest < Some(100_000), "a line of {longest:?} bytes");
}

#[test]
fn handlers_see_the_packages_of_the_environment() {
    let environment = crate::support::repository::folder();
    let own = concat!(env!("WORKSPACE_ROOT"), "/.venv/bin/python");
    let python = if fs::exists(own).unwrap() {
        own
    } else {
        "python3"
    };
    let mut command = std::process::Command::new(python);
    command
        .args(["-m", "venv", "--without-pip"])
        .arg(environment.path());
    assert!(command.status().unwrap().success());
    let folders = fs::read_dir(environment.path().join("lib")).unwrap();
    let folder = folders.flatten().next().unwrap().path();
    fs::write(
        folder.join("site-packages/only_there.py"),
        "SAYS = b'found'\n",
    )
    .unwrap();
    let mut config = Config::of(&[]);
    add_python(&mut config, "py", &format!("import only_there\n{CODE}"));
    let server = config.serve_with(&["--python_environment", environment.path().to_str().unwrap()]);
    let client = Grpc::connect(&server);
    assert_eq!(
        reported(
            &client,
            code("py", "return [Tensor('out', only_there.SAYS)]")
        ),
        "out UINT8 [5] found"
    );
    drop(server);
    let server = config.serve();
    server.wait_log("No module named 'only_there'");
}

#[test]
fn a_folder_without_python_is_no_environment() {
    let folder = crate::support::repository::folder();
    let path = folder.path().to_str().unwrap();
    let flags = [
        "serve",
        "--model_name=dummy",
        "--model_path=/nonexistent",
        "--port=9000",
        "--python_environment",
        path,
    ];
    assert_eq!(
        crate::support::cli::ovms(flags).failure(),
        format!(
            "exit 64\npython_environment is not usable: {path} is no Python environment: expected \
             {path}/bin/python3; make one with `python3 -m venv {path}`\n"
        )
    );
}
