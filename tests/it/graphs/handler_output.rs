//! Output and exceptions of handlers in the log: only an event begins a line.

use serde_json::Value;

use crate::support::{
    graphs::add_python,
    grpc::{Grpc, raw},
    pipelines::Config,
    streams::Talk,
};

const CLASS: &str = "class OvmsPythonModel:\n  def execute(self, inputs): return []\n";

#[test]
fn what_handlers_print_is_an_event_of_a_json_log() {
    let mut config = Config::of(&[]);
    let prints = "import sys\nprint('one\\nERROR two')\nprint('three', file=sys.stderr)\n";
    add_python(&mut config, "g", &format!("{prints}{CLASS}"));
    let server = config.begin(&["--log_format", "json"]);
    for text in ["ERROR two", "three"] {
        server.wait_log(text);
    }
    let log = server.log();
    let events = log.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("each line is an event");
        event
    });
    let mut printed: Vec<String> = events
        .filter(|event| event["target"] == "ovms::python")
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
fn an_output_that_a_whole_stream_is_without_is_logged() {
    let mut config = Config::of(&[]);
    add_python(&mut config, "g", CLASS);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let talk = Talk::open(&client);
    talk.send(raw("g", "in", "UINT8", &[1], &[1]));
    assert_eq!(talk.rest(), ["end: Ok: "]);
    server.wait_log("graph g: node py returned no output \"out\" in a whole stream");
}

#[test]
fn a_traceback_does_not_begin_a_line() {
    let mut config = Config::of(&[]);
    let raises = "raise ValueError('first\\nERROR forged\\rERROR overwritten')\n";
    add_python(&mut config, "g", &format!("{raises}{CLASS}"));
    let server = config.serve();
    server.wait_log("Traceback");
    let log = server.log();
    let shown: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("forged") || line.contains("Traceback"))
        .collect();
    assert!(shown.len() >= 2, "{log}");
    for line in shown {
        let is_event = line.starts_with("20");
        assert!(is_event || line.starts_with("    "), "{line}");
        assert!(!line.contains('\r'), "{line:?}");
    }
}
