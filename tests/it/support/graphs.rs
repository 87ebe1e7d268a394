//! Configuration files with graphs, and requests to them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelInferResponse, infer_parameter::ParameterChoice,
};
use serde_json::json;

use super::{
    Server, fixture,
    grpc::{self, Grpc},
    http::{get, post},
    pipelines::Config,
    streams::{Came, Talk},
};

/// Key of the list of graphs.
pub(crate) const LIST: &str = "mediapipe_config_list";

/// A graph that passes its input on: `in` as `out`.
pub(crate) const PASS: &str = r#"input_stream: "OVTENSOR:in"
output_stream: "OVTENSOR:out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "OVTENSOR:in"
  output_stream: "OVTENSOR:out"
}
"#;

/// The same with two streams.
pub(crate) const TWO: &str = r#"input_stream: "OVTENSOR1:a"
input_stream: "OVTENSOR2:b"
output_stream: "OVTENSOR1:c"
output_stream: "OVTENSOR2:d"
node {
  calculator: "PassThroughCalculator"
  input_stream: "OVTENSOR1:a"
  input_stream: "OVTENSOR2:b"
  output_stream: "OVTENSOR1:c"
  output_stream: "OVTENSOR2:d"
}
"#;

/// A graph of one Python node with this handler beside it.
pub(crate) const PYTHON: &str = r#"input_stream: "OVMS_PY_TENSOR:in"
output_stream: "OVMS_PY_TENSOR:out"
node {
  name: "py"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:in"
  output_stream: "OUT:out"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "handler.py" }
  }
}
"#;

/// Writes a graph into the folder of its name beside the file, and lists it.
pub(crate) fn add(config: &mut Config, name: &str, text: &str) -> PathBuf {
    let path = write(&config.beside(name), text);
    if config.json.get(LIST).is_none() {
        config.json[LIST] = json!([]);
    }
    config.put(LIST, json!({"name": name}));
    path
}

/// Writes a graph of one Python node, and lists it. Returns the path of the handler.
pub(crate) fn add_python(config: &mut Config, name: &str, handler: &str) -> PathBuf {
    let graph = add(config, name, PYTHON);
    let path = graph.with_file_name("handler.py");
    fs::write(&path, handler).unwrap();
    path
}

/// Writes the graph of a folder atomically.
pub(crate) fn write(folder: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("graph.pbtxt");
    let next = folder.join("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, &path).unwrap();
    path
}

/// Returns the server of the example graphs, for all tests that leave them as they are.
pub(crate) fn examples() -> &'static Server {
    static EXAMPLES: LazyLock<Server> = LazyLock::new(|| {
        let server = Server::of_file(&fixture("graphs/config.json"), &[]);
        server.wait_ready();
        server.kept(None)
    });
    &EXAMPLES
}

/// Requests a reload of the unchanged configuration file; returns the status.
pub(crate) fn reload(server: &Server) -> u16 {
    post(server, "/v1/config/reload", b"").status
}

/// Returns the changes of state in the log: `STATE Event`.
pub(crate) fn changes(server: &Server, name: &str) -> Vec<String> {
    let begin = format!("Mediapipe: {name} state changed to: ");
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once(&begin));
    lines
        .map(|(_, rest)| rest.trim_end_matches(": ").replace(" after handling:", ""))
        .collect()
}

/// A handler that runs code from requests: the bytes of its first input are the body of a
/// function of `self`, `inputs` and `state`.
pub(crate) const CODE: &str = r#"
import array, os, struct, sys, threading, time
from pyovms import Tensor
def compiled(inputs):
    lines = bytes(inputs[0]).decode().splitlines()
    scope = dict(globals())
    body = "".join("    " + line + "\n" for line in lines)
    exec("def answer(self, inputs, state):\n" + body, scope)
    return scope["answer"]
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.kwargs = kwargs
    def execute(self, inputs):
        return compiled(inputs)(self, inputs, None)
"#;

/// Turns a graph of one node with this handler into one with a generator node.
pub(crate) fn generative(text: &str) -> String {
    let put = r#"  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  input_stream_info: { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
  }
  node_options"#;
    text.replace("  node_options", put)
}

/// Writes a graph: its inputs, its outputs and its nodes. Names are parted by spaces.
pub(crate) fn graph(inputs: &str, outputs: &str, nodes: &[String]) -> String {
    let mut text = String::new();
    for (field, names) in [("input_stream", inputs), ("output_stream", outputs)] {
        for name in names.split_whitespace() {
            text.extend([field, ": \"", name, "\"\n"]);
        }
    }
    text + &nodes.concat()
}

/// Writes a node: its calculator, its inputs, its outputs and further fields.
pub(crate) fn node(calculator: &str, inputs: &str, outputs: &str, rest: &str) -> String {
    let streams = graph(inputs, outputs, &[]);
    format!("node {{\ncalculator: \"{calculator}\"\n{streams}{rest}\n}}\n")
}

/// Writes the options of a node.
pub(crate) fn options(kind: &str, fields: &str) -> String {
    format!("node_options: {{ [type.googleapis.com/mediapipe.{kind}]: {{ {fields} }} }}\n")
}

/// Writes a Python node.
pub(crate) fn python(name: &str, inputs: &str, outputs: &str, handler: &str, rest: &str) -> String {
    let options = options(
        "PythonExecutorCalculatorOptions",
        &format!("handler_path: {handler:?}"),
    );
    let rest = format!(
        "name: \"{name}\"\ninput_side_packet: \"PYTHON_NODE_RESOURCES:py\"\n{rest}\n{options}"
    );
    node("PythonExecutorCalculator", inputs, outputs, &rest)
}

/// Writes a node that outputs the session of a model.
pub(crate) fn session(model: &str) -> String {
    let options = options(
        "OpenVINOModelServerSessionCalculatorOptions",
        &format!("servable_name: {model:?}"),
    );
    let rest = format!("output_side_packet: \"SESSION:session\"\n{options}");
    node("OpenVINOModelServerSessionCalculator", "", "", &rest)
}

/// Adds files beside the configuration file.
pub(crate) fn file(config: &Config, path: &str, text: &str) -> PathBuf {
    let path = config.beside(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Creates a request whose input `in` is code for [`CODE`].
pub(crate) fn code(graph: &str, body: &str) -> ModelInferRequest {
    grpc::raw(graph, "in", "code", &[1], body.as_bytes())
}

/// Sets the timestamp of a request.
pub(crate) fn at(time: i64, request: ModelInferRequest) -> ModelInferRequest {
    with_parameter(TIMESTAMP, ParameterChoice::Int64Param(time), request)
}

/// Adds a parameter to a request.
pub(crate) fn with_parameter(
    name: &str,
    choice: ParameterChoice,
    mut request: ModelInferRequest,
) -> ModelInferRequest {
    let parameter = InferParameter {
        parameter_choice: Some(choice),
    };
    request.parameters.insert(name.to_owned(), parameter);
    request
}

/// Timestamp parameter of requests and responses.
pub(crate) const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Returns the timestamp of a response.
pub(crate) fn time(response: &ModelInferResponse) -> i64 {
    let parameter = response.parameters.get(TIMESTAMP);
    match parameter.and_then(|it| it.parameter_choice.as_ref()) {
        Some(ParameterChoice::Int64Param(time)) => *time,
        other => panic!("found {other:?}, expected a time"),
    }
}

/// Writes the outputs of a response: name, type, shape, and the bytes as text.
pub(crate) fn shown(response: &ModelInferResponse) -> String {
    let outputs = response.outputs.iter().zip(&response.raw_output_contents);
    let lines = outputs.map(|(output, data)| {
        let text = String::from_utf8_lossy(data);
        format!(
            "{} {} {:?} {text}",
            output.name, output.datatype, output.shape
        )
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Sends a request, and formats the response or error.
pub(crate) fn reported(client: &Grpc, request: ModelInferRequest) -> String {
    match client.infer(request) {
        Ok(response) => shown(&response),
        Err(status) => grpc::error(&status),
    }
}

/// Formats the next response of a stream: `time: outputs`, or the error.
pub(crate) fn next(talk: &mut Talk<'_>) -> String {
    match talk.next() {
        Came::Response(response) => format!("{}: {}", time(&response), shown(&response)),
        other => other.reported(),
    }
}

/// Half-closes the stream, and formats all further responses.
pub(crate) fn rest(mut talk: Talk<'_>) -> Vec<String> {
    talk.close();
    let mut all = Vec::new();
    loop {
        let text = next(&mut talk);
        let ends = text.starts_with("end: ");
        all.push(text);
        if ends {
            return all;
        }
    }
}

/// Returns the error text of a failed Python node, without the details.
pub(crate) fn failed(node: &str) -> String {
    format!(
        "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: \n\
         Calculator::Process() for node \"{node}\" failed: Error occurred during graph execution"
    )
}

/// Returns the number of requests on streams whose packets a graph has taken; needs metrics.
pub(crate) fn accepted(server: &Server, name: &str) -> u64 {
    let sample = format!(
        r#"ovms_requests_accepted{{api="KServe",interface="gRPC",method="ModelInferStream",name="{name}"}} "#
    );
    let page = get(server, "/metrics").text();
    let count = page.lines().find_map(|line| line.strip_prefix(&sample));
    let count = count.and_then(|count| count.parse().ok());
    count.expect("it is counted")
}
