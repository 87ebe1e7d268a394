//! Python nodes that cannot be loaded: log, responses to clients, and no effect on other servables.

use std::fs;

use super::shared;
use crate::support::{
    graphs::{
        CODE, LIST, PASS, PYTHON, add, add_python, code, file, generative, graph, next, python,
        reported, rest,
    },
    grpc::{Grpc, raw},
    pipelines::{Config, lines, status, wait_lines},
    streams::Talk,
};

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    let text = generative(PYTHON);
    let begin = text.find("  input_stream_handler").unwrap();
    let end = text.find("  node_options").unwrap();
    let without = format!("{}{}", &text[..begin], &text[end..]);
    add(config, "without_handler", &without);
    // Further indexes of the tag are neither read nor written.
    let more = text.replace(
        "  output_stream: \"LOOPBACK:loopback\"",
        "  output_stream: \"LOOPBACK:loopback\"\n  output_stream: \"LOOPBACK:1:unused\"",
    );
    add(config, "more", &more);
    for name in ["without_handler", "more"] {
        file(config, &format!("{name}/handler.py"), CODE);
    }
    add_python(config, "only", &format!("import only_there\n{CODE}"));
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
    wait_lines(&log, "end a", 1);
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
    let (server, client) = shared::connect();
    let two = "yield [Tensor('out', b'a')]\nyield [Tensor('out', b'b')]";
    let mut talk = Talk::open(&client);
    talk.send(code("more", two));
    assert_eq!(next(&mut talk), "0: out UINT8 [1] a");
    assert_eq!(rest(talk), ["1: out UINT8 [1] b", "end: Ok: "]);
    assert_eq!(status(server, "without_handler"), "AVAILABLE OK");
    let talk = Talk::open(&client);
    talk.send(code("without_handler", "return [Tensor('out', b'late')]"));
    let came = rest(talk);
    assert_eq!(came, ["0: out UINT8 [4] late", "end: Ok: "]);
}

#[test]
fn large_and_deep_files_are_refused_or_read_in_time() {
    let mut config = Config::of(&["dummy"]);
    let comment = format!("# {}\n", "x".repeat(98)).repeat(50_000);
    add(&mut config, "comments", &format!("{comment}{PASS}"));
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
    add(&mut config, "strings", &format!("type: {strings}\n{PASS}"));
    config.put(LIST, serde_json::json!({"name": "absent"}));
    let server = config.begin(&[]);
    // Each in time, however many there are.
    for name in [
        "comments", "chain", "braces", "angles", "lists", "open", "name", "strings",
    ] {
        server.wait_log(&format!("Mediapipe: {name} state changed to: "));
    }
    server.wait_ready();
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
        let asked = raw(name, input, "UINT8", &[1], b"a");
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
    let (without, _) = shared::connect();
    without.wait_log("No module named 'only_there'");
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
