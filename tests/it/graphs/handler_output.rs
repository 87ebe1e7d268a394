//! Output and exceptions of handlers in the log: only an event begins a line.

use std::sync::LazyLock;

use serde_json::Value;

use super::shared::{self, add_code};
use crate::support::{
    Server, eventually,
    graphs::{PYTHON, add, add_python, file, generative},
    grpc::{Grpc, raw},
    pipelines::Config,
    streams::Talk,
};

/// Graph that sends its input twice, whose instances are kept.
const LOOP: &str = r#"# OVMS_GRAPH_QUEUE_MAX_SIZE: 1
input_stream: "in"
output_stream: "out"
node {
  calculator: "ConcatenateOVTensorVectorCalculator"
  input_stream: "in"
  input_stream: "in"
  output_stream: "list"
}
node {
  calculator: "BeginLoopOVTensorCalculator"
  input_stream: "ITERABLE:list"
  output_stream: "ITEM:out"
  output_stream: "BATCH_END:end"
}
"#;

const CLASS: &str = "class OvmsPythonModel:\n  def execute(self, inputs): return []\n";

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    let handler = |execute: &str| {
        format!(
            "from pyovms import Tensor\nclass OvmsPythonModel:\n  def execute(self, inputs):\n    {execute}\n"
        )
    };
    add(config, "first_generator", &generative(PYTHON));
    let yields = handler("for tensor in inputs * 3: yield [Tensor('out', tensor)]");
    file(config, "first_generator/handler.py", &yields);
    add(config, "first_loop", LOOP);
    let list = handler("return [Tensor('out', inputs[0])]");
    add_python(config, "first_list", &list);
    add_python(config, "silent", CLASS);
    let raises = "raise ValueError('first\\nERROR forged\\rERROR overwritten')\n";
    add_python(config, "forges", &format!("{raises}{CLASS}"));
}

/// The server of the tests that read a log of JSON.
pub(super) static JSON: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    let prints = "import sys\nprint('one\\nERROR two')\nprint('three', file=sys.stderr)\n";
    add_python(&mut config, "g", &format!("{prints}{CLASS}"));
    let prints = "print('a' + '漢' * 2000)\n";
    add_python(&mut config, "wide", &format!("{prints}{CLASS}"));
    add_python(&mut config, "one", PRINTING);
    let second = r#"node {
  name: "second"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:out"
  output_stream: "END:end"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "handler.py" }
  }
}
"#;
    let two = PYTHON.replace(
        "output_stream: \"OVMS_PY_TENSOR:out\"",
        "output_stream: \"OVMS_PY_TENSOR:end\"",
    );
    add(&mut config, "two", &[&two, second].concat());
    file(&config, "two/handler.py", PRINTING);
    for name in ["takes", "ends"] {
        add_code(&mut config, name, &[]);
    }
    let server = config.begin(&["--log_format", "json"]);
    server.wait_log("\"ready\"");
    config.keep(server)
});

#[test]
fn what_handlers_print_is_an_event_of_a_json_log() {
    let server = &*JSON;
    for text in ["ERROR two", "three"] {
        server.wait_log(text);
    }
    let log = server.log();
    let events = log.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("each line is an event");
        event
    });
    let mut printed: Vec<String> = events
        .filter(|event| event["target"] == "ovms::python" && event["of"] == "graph g")
        .map(|event| {
            let [of, node, stream, text] =
                ["of", "node", "stream", "message"].map(|key| event[key].as_str().unwrap());
            format!("{of} {node} {stream} {text}")
        })
        .collect();
    // Each stream is in order.
    printed.sort_by_key(|line| line.contains("stderr"));
    assert_eq!(
        printed,
        [
            "graph g py stdout one",
            "graph g py stdout ERROR two",
            "graph g py stderr three",
        ]
    );
}

#[test]
fn a_long_line_is_cut_between_characters() {
    let server = &*JSON;
    let text = format!("a{}", "漢".repeat(2000));
    eventually("the whole line", || {
        let log = server.log();
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let ours = events.filter(|event: &Value| {
            event["target"] == "ovms::python" && event["of"] == "graph wide"
        });
        let pieces: Vec<String> = ours
            .filter_map(|event| event["message"].as_str().map(str::to_owned))
            .collect();
        (pieces.len() > 1 && pieces.concat() == text).then_some(())
    });
}

#[test]
fn a_line_that_is_not_ended_is_printed_at_the_end() {
    let handler = "\
import threading
from pyovms import Tensor
begun = threading.Event()
def beside():
    print('of a thread', end='')
    begun.set()
    threading.Event().wait()
class OvmsPythonModel:
    def initialize(self, kwargs):
        threading.Thread(target=beside, daemon=True).start()
        begun.wait()
    def execute(self, inputs):
        print('of a call', end='')
        return [Tensor('out', inputs[0])]
    def finalize(self):
        print('of the end', end='')
";
    let mut config = Config::of(&[]);
    add_python(&mut config, "g", handler);
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    client.answered(raw("g", "in", "UINT8", &[1], &[1]));
    server.signal("TERM");
    assert!(server.wait().success());
    let log = server.log();
    for text in ["of a thread", "of a call", "of the end"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

/// A handler whose threads and processes print.
const PRINTING: &str = "\
import concurrent.futures, multiprocessing, subprocess, sys, threading
from pyovms import Tensor
def say(what):
    print(what, 'of a thread')
    print(what, 'of a thread, to stderr', file=sys.stderr)
def deep():
    thread = threading.Thread(target=say, args=('deep',))
    thread.start()
    thread.join()
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.name = kwargs['node_name']
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.pool.submit(say, 'early').result()
    def execute(self, inputs):
        thread = threading.Thread(target=deep)
        thread.start()
        thread.join()
        self.pool.submit(say, 'late').result()
        process = multiprocessing.get_context('fork').Process(target=say, args=('fork',))
        process.start()
        process.join()
        subprocess.run(['echo', 'started by', self.name])
        return [Tensor('out' if self.name == 'py' else 'end', inputs[0])]
";

#[test]
fn what_threads_and_processes_of_a_handler_print_has_its_node() {
    let server = &*JSON;
    let client = Grpc::connect(server);
    for of in ["one", "two"] {
        client.answered(raw(of, "in", "UINT8", &[1], &[1]));
    }
    let printed = |of: &str| {
        let of = format!("graph {of}");
        let log = server.log();
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ours = events.filter(|it| it["target"] == "ovms::python" && it["of"] == *of);
        let lines = ours.map(|it| format!("{} {}", it["node"], it["message"]));
        lines.map(|it| it.replace('"', "")).collect::<Vec<_>>()
    };
    let has = |of: &str, line: &str| {
        eventually(line, || {
            printed(of).contains(&line.to_owned()).then_some(())
        });
    };
    for what in ["early", "deep", "late", "fork"] {
        for node in ["py", "second"] {
            has("two", &format!("{node} {what} of a thread"));
            has("two", &format!("{node} {what} of a thread, to stderr"));
        }
        has("one", &format!("py {what} of a thread"));
    }
    has("one", "py started by py");
    // Nobody can tell whose they are.
    has("two", "null started by py");
    has("two", "null started by second");
}

#[test]
fn an_output_that_a_whole_stream_is_without_is_logged() {
    let (server, client) = shared::connect();
    let talk = Talk::open(&client);
    talk.send(raw("silent", "in", "UINT8", &[1], &[1]));
    assert_eq!(talk.rest(), ["end: Ok: "]);
    server.wait_log("graph silent: node py returned no output \"out\" in a whole stream");
}

#[test]
fn a_unary_request_that_gets_the_first_outputs_alone_is_logged_once() {
    let (server, client) = shared::connect();
    for _ in 0..2 {
        for name in ["first_generator", "first_loop", "first_list"] {
            let answer = client.answered(raw(name, "in", "UINT8", &[1], &[7]));
            assert_eq!(answer.raw_output_contents, [vec![7]], "{name}");
        }
    }
    for name in ["first_generator", "first_loop"] {
        server.wait_log(&format!(
            "graph {name}: a unary request got only the first packet of output \"out\"; `ovms infer {name} --stream`, ModelStreamInfer, \
             and POST /v2/models/{name}/generate_stream return all of them"
        ));
    }
    let log = server.log();
    for (name, count) in [("generator", 1), ("loop", 1), ("list", 0)] {
        let line = format!("graph first_{name}: a unary request got");
        assert_eq!(log.matches(&line).count(), count, "{log}");
    }
}

#[test]
fn a_traceback_does_not_begin_a_line() {
    let (server, _) = shared::connect();
    server.wait_log("ERROR overwritten");
    let log = server.log();
    let shown: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("forged") || line.contains("Traceback"))
        .collect();
    for text in ["forged", "Traceback"] {
        assert!(shown.iter().any(|line| line.contains(text)), "{log}");
    }
    for line in shown {
        let is_event = line.starts_with("20");
        assert!(is_event || line.starts_with("    "), "{line}");
        assert!(!line.contains('\r'), "{line:?}");
    }
}
