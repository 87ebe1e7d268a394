//! Spans of requests: their trees, against a real receiver of traces.

use std::sync::LazyLock;

use opentelemetry_proto::tonic::trace::v1::Span;
use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse};
use serde_json::json;
use tonic::metadata::MetadataValue;

use crate::support::{
    Server, cli,
    collector::{Collector, attribute, hex, tree},
    eventually,
    graphs::{
        CODE, PYTHON, add, add_python, code, file, generative, graph, node, options, session,
    },
    grpc::{Call, Grpc, dummy, to_floats, wanted},
    http::{post, send},
    model,
    pipelines::{Config, custom, dl, request, ten, with},
    sequence::{self, Ask, rest_body},
    server::{free_ports, on},
    streams::Talk,
    tfs,
};

/// Span that requests say they belong to.
const PARENT: &str = "00f067aa0ba902b7";

/// A trace that a client has begun.
fn parent(number: u8) -> (String, String) {
    let id = format!("{number:032x}");
    let header = format!("00-{id}-{PARENT}-01");
    (id, header)
}

/// A collector, and a server whose traces go there at once, with everything that the tests here ask.
static SHARED: LazyLock<(Collector, Server)> = LazyLock::new(|| {
    let collector = Collector::grpc();
    let mut config = Config::of(&["dummy"]);
    let total = sequence::entry("running_total", "running_total");
    config.put("model_config_list", json!({"config": total}));
    let batched = config.model("perceptron", &model("perceptron"));
    batched["nireq"] = json!(1);
    batched["dynamic_batching"] = json!({"max_batch": 8});
    config.library("shaped", "shaped.c");
    let shapes = json!({"out": "2,1,10"});
    let split = custom("split", "shaped", &shapes, "in=request.x", "out=y");
    let nodes = [
        with(split, "demultiply_count", 2),
        dl("add", "dummy", "b=split.y", "a=y"),
    ];
    config.pipeline("parts", "x", &nodes, "out=add.y");
    let teller = file(&config, "teller.py", TELLER);
    config.library_at("py", &teller);
    let tell = custom("tell", "py", &json!({}), "in=request.x", "out=o");
    config.pipeline("p", "x", &[tell], "out=tell.o");
    add_python(&mut config, "py", CODE);
    add(&mut config, "g", &inference());
    add(&mut config, "gen", &generative(PYTHON));
    file(&config, "gen/handler.py", CODE);
    add(&mut config, "events", &generative(PYTHON));
    // A string is behind its length.
    let handler = CODE.replace("bytes(inputs[0])", "bytes(inputs[0])[4:]");
    file(&config, "events/handler.py", &handler);
    let server = serve(&collector, config);
    (collector, server)
});

/// Serves until this process ends.
fn serve(collector: &Collector, config: Config) -> Server {
    let ports = free_ports();
    let mut command = cli::command();
    command
        .args(["serve", "--config_path"])
        .arg(config.write())
        .args(on(ports))
        .args(["--otlp-endpoint", &collector.url()])
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_BSP_SCHEDULE_DELAY", "20");
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    config.keep(server)
}

/// Sends a request that belongs to a trace; returns also what the response says of that.
fn infer(grpc: &Grpc, request: ModelInferRequest, parent: &str) -> (ModelInferResponse, String) {
    let mut request = tonic::Request::new(request);
    let parent = parent.parse::<MetadataValue<_>>().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    let mut client = grpc.client.clone();
    let answer = client.model_infer(request);
    let answer = grpc.runtime.block_on(answer).unwrap();
    let given = answer.metadata().get("traceparent").unwrap();
    let given = given.to_str().unwrap().to_owned();
    (answer.into_inner(), given)
}

/// Returns the span of a request; asserts that it is below that of its client, and is the one that the response names.
fn joined<'a>(spans: &'a [Span], id: &str, given: &str) -> &'a Span {
    let is_below = |span: &&Span| hex(&span.parent_span_id) == PARENT;
    let root = spans
        .iter()
        .find(is_below)
        .expect("it belongs to its client");
    assert_eq!(given, format!("00-{id}-{}-01", hex(&root.span_id)));
    root
}

#[test]
fn a_request_is_a_span_with_the_wait_and_the_inference_below() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let (id, header) = parent(1);
    let (_, given) = infer(&grpc, dummy(), &header);
    let spans = collector.trace_of(&id);
    insta::assert_snapshot!(tree(&spans), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=dummy ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      queue
      inference
    ");
    let client = attribute(joined(&spans, &id, &given), "client.address");
    assert_eq!(client.as_deref(), Some("127.0.0.1"));

    // The other APIs, and errors.
    let infer = "/v2/models/dummy/infer";
    let body =
        br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;
    let mut drawn = String::new();
    for (number, path, body) in [
        (2, infer, &body[..]),
        (
            3,
            "/v1/models/dummy/versions/1:predict",
            br#"{"inputs":[[0,1,2,3,4,5,6,7,8,9]]}"#,
        ),
        (4, "/v2/models/stranger/versions/7/infer", body),
        (5, infer, b"{"),
        (
            6,
            "/v2/models/dummy/generate",
            br#"{"b":[0,1,2,3,4,5,6,7,8,9]}"#,
        ),
    ] {
        let (id, header) = parent(number);
        let headers = [
            ("traceparent", &*header),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ];
        let answer = send(server, "POST", path, &headers, body);
        let spans = collector.trace_of(&id);
        assert!(spans.iter().all(|span| span.trace_state == "a=1,b=2"));
        let given = answer.header("traceparent").unwrap();
        assert!(given.starts_with(&format!("00-{id}-")), "{given}");
        drawn += &tree(&spans);
    }
    let mut predict = tonic::Request::new(tfs::dummy());
    let (id, header) = parent(7);
    predict
        .metadata_mut()
        .insert("traceparent", header.parse().unwrap());
    let answer = grpc
        .runtime
        .block_on(tfs::Tfs::over(&grpc).predict(predict));
    assert!(answer.unwrap().metadata().contains_key("traceparent"));
    drawn += &tree(&collector.trace_of(&id));
    insta::assert_snapshot!(drawn, @r"
    POST /v2/models/{model}/infer http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/infer ovms.api=KServe ovms.servable=dummy ovms.version=1 url.path=/v2/models/dummy/infer
      queue
      inference
    POST /v1/models/{model}/versions/{version}:predict http.request.method=POST http.response.status_code=200 http.route=/v1/models/{model}/versions/{version}:predict ovms.api=TensorFlowServing ovms.servable=dummy ovms.version=1 url.path=/v1/models/dummy/versions/1:predict
      queue
      inference
    POST /v2/models/{model}/versions/{version}/infer http.request.method=POST http.response.status_code=404 http.route=/v2/models/{model}/versions/{version}/infer ovms.api=KServe ovms.servable=stranger url.path=/v2/models/stranger/versions/7/infer
    POST /v2/models/{model}/infer http.request.method=POST http.response.status_code=412 http.route=/v2/models/{model}/infer ovms.api=KServe ovms.servable=dummy url.path=/v2/models/dummy/infer
    POST /v2/models/{model}/generate http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/generate ovms.api=KServe ovms.servable=dummy ovms.version=1 url.path=/v2/models/dummy/generate
      queue
      inference
    tensorflow.serving.PredictionService/Predict ovms.api=TensorFlowServing ovms.servable=dummy rpc.grpc.status_code=0 rpc.method=Predict rpc.service=tensorflow.serving.PredictionService rpc.system=grpc
      queue
      inference
    ");
}

#[test]
fn each_node_and_each_part_is_a_span() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let (id, header) = parent(8);
    infer(&grpc, ten("parts", 0.0), &header);
    insta::assert_snapshot!(tree(&collector.trace_of(&id)), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=parts ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      node split
      node add ovms.part=split_0
        queue
        inference
      node add ovms.part=split_1
        queue
        inference
    ");
}

#[test]
fn a_step_of_a_sequence_is_a_span() {
    let (collector, server) = &*SHARED;
    let mut drawn = String::new();
    for (number, ask) in [
        (9, Ask::new("running_total", 1.0).id(7).start()),
        (10, Ask::new("running_total", 2.0).id(7)),
        (11, Ask::new("running_total", 2.0).id(7).end()),
    ] {
        let (id, header) = parent(number);
        let (body, _) = rest_body(&ask, false);
        let path = "/v2/models/running_total/infer";
        let headers = [("traceparent", &*header)];
        let answer = send(server, "POST", path, &headers, body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        drawn += &tree(&collector.trace_of(&id));
    }
    insta::assert_snapshot!(drawn, @r"
    POST /v2/models/{model}/infer http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/infer ovms.api=KServe ovms.servable=running_total ovms.version=1 url.path=/v2/models/running_total/infer
      sequence step ovms.sequence.ends=false ovms.sequence.id=7 ovms.sequence.starts=true
        queue
        inference
    POST /v2/models/{model}/infer http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/infer ovms.api=KServe ovms.servable=running_total ovms.version=1 url.path=/v2/models/running_total/infer
      sequence step ovms.sequence.ends=false ovms.sequence.id=7 ovms.sequence.starts=false
        queue
        inference
    POST /v2/models/{model}/infer http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/infer ovms.api=KServe ovms.servable=running_total ovms.version=1 url.path=/v2/models/running_total/infer
      sequence step ovms.sequence.ends=true ovms.sequence.id=7 ovms.sequence.starts=false
        queue
        inference
    ");
}

/// Body of a function that gives its trace.
const TELL: &str =
    "import json, pyovms\nreturn [Tensor('out', json.dumps(pyovms.trace_context()).encode())]";

#[test]
fn calculators_and_handlers_are_spans_and_handlers_know_theirs() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let (id, header) = parent(12);
    let seen = |answer: &ModelInferResponse| -> serde_json::Value {
        serde_json::from_slice(&answer.raw_output_contents[0]).unwrap()
    };
    let (answer, _) = infer(&grpc, code("py", TELL), &header);
    let spans = collector.trace_of(&id);
    insta::assert_snapshot!(tree(&spans), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=py ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=0
        python execute ovms.node=py
    ");
    let execute = spans.iter().find(|span| span.name == "python execute");
    let own = format!("00-{id}-{}-01", hex(&execute.unwrap().span_id));
    assert_eq!(seen(&answer), json!({ "traceparent": own }));

    // A request that is not sampled, on a thread that has had one that is.
    let mut unsampled = tonic::Request::new(code("py", TELL));
    let header = format!("00-{:032x}-{PARENT}-00", 13);
    unsampled
        .metadata_mut()
        .insert("traceparent", header.parse().unwrap());
    let mut client = grpc.client.clone();
    let answer = client.model_infer(unsampled);
    let answer = grpc.runtime.block_on(answer).unwrap();
    assert!(!answer.metadata().contains_key("traceparent"));
    assert_eq!(seen(answer.get_ref()), json!({}));

    // One that fails.
    let (id, header) = parent(14);
    let mut raises = tonic::Request::new(code("py", "raise ValueError('x')"));
    raises
        .metadata_mut()
        .insert("traceparent", header.parse().unwrap());
    let mut client = grpc.client.clone();
    let answer = client.model_infer(raises);
    let status = grpc.runtime.block_on(answer).unwrap_err();
    assert!(status.metadata().contains_key("traceparent"));
    insta::assert_snapshot!(tree(&collector.trace_of(&id)), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=py rpc.grpc.status_code=3 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=0 failed: Error occurred during graph execution - ValueError: x
        python execute ovms.node=py failed: ValueError: x
    ");
    let ids = collector.spans();
    assert!(
        ids.iter()
            .all(|span| hex(&span.trace_id) != format!("{:032x}", 13))
    );
}

/// A handler of a pipeline that gives its trace.
const TELLER: &str = r#"
import json, pyovms
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output = kwargs["output_names"][0]
    def execute(self, inputs):
        text = json.dumps(pyovms.trace_context()).encode()
        return [pyovms.Tensor(self.output, text, [len(text)], "UINT8")]
"#;

#[test]
fn a_handler_of_a_pipeline_is_a_span_below_its_node_and_knows_it() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let (id, header) = parent(15);
    let (answer, _) = infer(&grpc, ten("p", 0.0), &header);
    let spans = collector.trace_of(&id);
    insta::assert_snapshot!(tree(&spans), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=p ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      node tell
        python execute ovms.node=tell
    ");
    let execute = spans.iter().find(|span| span.name == "python execute");
    let own = format!("00-{id}-{}-01", hex(&execute.unwrap().span_id));
    let seen: serde_json::Value = serde_json::from_slice(&answer.raw_output_contents[0]).unwrap();
    assert_eq!(seen, json!({ "traceparent": own }));
}

/// Writes a graph of one calculator that runs the model `dummy`.
fn inference() -> String {
    graph(
        "OVTENSOR:x",
        "OVTENSOR:y",
        &[
            session("dummy"),
            node(
                "OpenVINOInferenceCalculator",
                "OVTENSOR:x",
                "OVTENSOR:y",
                &format!(
                    "input_side_packet: \"SESSION:session\"\n{}",
                    options(
                        "OpenVINOInferenceCalculatorOptions",
                        "tag_to_input_tensor_names { key: \"OVTENSOR\" value: \"b\" } \
                         tag_to_output_tensor_names { key: \"OVTENSOR\" value: \"a\" }",
                    )
                ),
            ),
        ],
    )
}

#[test]
fn a_model_within_a_graph_is_below_its_calculator() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let (id, header) = parent(16);
    infer(&grpc, ten("g", 0.0), &header);
    insta::assert_snapshot!(tree(&collector.trace_of(&id)), @r"
    inference.GRPCInferenceService/ModelInfer ovms.api=KServe ovms.servable=g ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      calculator OpenVINOInferenceCalculator ovms.calculator=OpenVINOInferenceCalculator ovms.timestamp=0
        queue
        inference
    ");
}

/// Returns whether a span is that of a request with this name to a servable.
fn is_of(span: &Span, name: &str, servable: &str) -> bool {
    span.name == name && attribute(span, "ovms.servable").as_deref() == Some(servable)
}

/// Waits for the trace of a request to a servable whose client has none.
fn alone(collector: &Collector, name: &str, servable: &str) -> Vec<Span> {
    collector.trace(|span| span.parent_span_id.is_empty() && is_of(span, name, servable))
}

const STREAM: &str = "inference.GRPCInferenceService/ModelStreamInfer";

#[test]
fn a_stream_to_a_model_is_a_span_with_its_messages_below() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let speak = |mut talk: Talk<'_>| {
        talk.ask(dummy());
        talk.ask(request("dummy", &[("b", &[1, 3], &[0.0; 3])]));
        talk.close();
        talk.rest();
    };
    speak(Talk::open(&grpc));
    let alone = tree(&alone(collector, STREAM, "dummy"));
    insta::assert_snapshot!(alone, @r"
    inference.GRPCInferenceService/ModelStreamInfer ovms.api=KServe ovms.servable=dummy ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelStreamInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      message
        queue
        inference
      message  failed: Invalid input shape - Expected: (1,10); Actual: (1,3); input name: b
    ");
    let (id, header) = parent(17);
    let (talk, given) = Talk::open_below(&grpc, &header);
    speak(talk);
    let spans = collector.trace_of(&id);
    joined(&spans, &id, &given);
    assert_eq!(tree(&spans), alone);
}

#[test]
fn a_span_has_the_begin_of_what_is_long() {
    let (collector, server) = &*SHARED;
    let long = "A".repeat(100_000);
    let (id, header) = parent(19);
    let headers = [("traceparent", &*header)];
    let answer = send(server, &long, "/v2/models/dummy/infer", &headers, b"");
    assert_eq!(answer.status, 405);
    let span = &collector.trace_of(&id)[0];
    assert_eq!(span.name, "HTTP /v2/models/{model}/infer");
    let method = attribute(span, "http.request.method");
    assert_eq!(method.as_deref(), Some("_OTHER"));
    let sent = attribute(span, "http.request.method_original").unwrap();
    assert!(sent.starts_with("AAAA") && sent.len() < 2000, "{sent}");

    let (id, header) = parent(20);
    let grpc = Grpc::connect(server);
    let (mut talk, _) = Talk::open_below(&grpc, &header);
    let mut asked = dummy();
    asked.outputs = vec![wanted(&long)];
    talk.ask(asked);
    talk.close();
    talk.rest();
    let spans = collector.trace_of(&id);
    let failed = spans.iter().filter_map(|span| span.status.as_ref());
    let failed = failed
        .map(|status| &status.message)
        .max_by_key(|it| it.len());
    let failed = failed.unwrap();
    assert!(failed.starts_with("Invalid output name - "), "{failed}");
    assert!(failed.len() < 4000, "{}", failed.len());
}

#[test]
fn a_stream_to_a_graph_is_a_span_with_the_steps_below() {
    let (collector, server) = &*SHARED;
    let grpc = Grpc::connect(server);
    let speak = |mut talk: Talk<'_>| {
        talk.send(code(
            "gen",
            "import pyovms\nfor n in range(2):\n  yield [Tensor('out', pyovms.trace_context()['traceparent'].encode())]",
        ));
        let seen = [0; 2].map(|_| {
            let answer = talk.next().response();
            String::from_utf8(answer.raw_output_contents[0].to_vec()).unwrap()
        });
        talk.close();
        talk.rest();
        seen
    };
    // The sets of a generator belong to the call that has begun it.
    let own = |spans: &[Span]| {
        let execute = spans.iter().find(|span| span.name == "python execute");
        let execute = execute.unwrap();
        let own = format!("00-{}-{}-01", hex(&execute.trace_id), hex(&execute.span_id));
        [own.clone(), own]
    };
    let seen = speak(Talk::open(&grpc));
    let spans = alone(collector, STREAM, "gen");
    let alone = tree(&spans);
    insta::assert_snapshot!(alone, @r"
    inference.GRPCInferenceService/ModelStreamInfer ovms.api=KServe ovms.servable=gen ovms.version=1 rpc.grpc.status_code=0 rpc.method=ModelStreamInfer rpc.service=inference.GRPCInferenceService rpc.system=grpc
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=0
        python execute ovms.node=py
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=1
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=2
    ");
    assert_eq!(seen, own(&spans));

    let (id, header) = parent(18);
    let (talk, given) = Talk::open_below(&grpc, &header);
    let seen = speak(talk);
    let spans = collector.trace_of(&id);
    joined(&spans, &id, &given);
    assert_eq!(tree(&spans), alone);
    assert_eq!(seen, own(&spans));
}

#[test]
fn a_stream_of_events_is_a_span_as_well() {
    let (collector, server) = &*SHARED;
    let code = "yield [Tensor('out', b'\\x01\\0\\0\\0x', shape=(1,), datatype='BYTES')]";
    let body = json!({ "in": code }).to_string();
    let path = "/v2/models/events/generate_stream";
    let answer = post(server, path, body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let name = "POST /v2/models/{model}/generate_stream";
    insta::assert_snapshot!(tree(&alone(collector, name, "events")), @r"
    POST /v2/models/{model}/generate_stream http.request.method=POST http.response.status_code=200 http.route=/v2/models/{model}/generate_stream ovms.api=KServe ovms.servable=events ovms.version=1 url.path=/v2/models/events/generate_stream
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=0
        python execute ovms.node=py
      calculator py ovms.calculator=PythonExecutorCalculator ovms.timestamp=1
    ");
}

#[test]
fn a_batch_is_a_trace_with_links_to_its_requests() {
    const REQUESTS: u8 = 24;
    let (collector, server) = &*SHARED;
    server.wait_log("up to 8 rows run as one inference");
    let grpc = Grpc::connect(server);
    let x = [0.5; 16];
    let calls: Vec<Call<'_>> = (0..REQUESTS)
        .map(|_| grpc.call(request("perceptron", &[("x", &[1, 16], &x)])))
        .collect();
    for call in calls {
        assert_eq!(
            to_floats(&call.wait().unwrap().raw_output_contents[0]).len(),
            8
        );
    }
    let name = "inference.GRPCInferenceService/ModelInfer";
    let (spans, batch) = eventually("spans of all requests, and a batch", || {
        let spans = collector.spans();
        let is_batched = |span: &&Span| is_of(span, name, "perceptron");
        let requests = spans.iter().filter(is_batched).count();
        let batch = spans.iter().find(|span| span.name == "batch")?.clone();
        (requests == usize::from(REQUESTS)).then_some((spans, batch))
    });
    assert!(batch.parent_span_id.is_empty(), "{batch:?}");
    let requests = attribute(&batch, "ovms.batch.requests").unwrap();
    assert_eq!(batch.links.len().to_string(), requests);
    assert!(batch.links.len() > 1);
    assert_eq!(attribute(&batch, "ovms.batch.rows"), Some(requests));
    for link in &batch.links {
        let of = spans
            .iter()
            .find(|span| span.span_id == link.span_id)
            .unwrap();
        assert_eq!((&of.name[..], &of.trace_id), (name, &link.trace_id));
        let inference = spans
            .iter()
            .find(|span| span.parent_span_id == link.span_id && span.name == "inference");
        let [back] = &inference.unwrap().links[..] else {
            panic!("{inference:?}");
        };
        assert_eq!(
            (&back.span_id, &back.trace_id),
            (&batch.span_id, &batch.trace_id)
        );
    }
}
