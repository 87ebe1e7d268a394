//! Pools of graph instances kept between requests.

use std::{fs, path::Path};

use ovms::proto::kserve::{
    infer_parameter::ParameterChoice, model_infer_request::InferRequestedOutputTensor,
};

use super::shared;
use crate::support::{
    Server, cli, eventually,
    graphs::{
        CODE, PASS, PYTHON, add, add_python, at, code, failed, file, generative, graph, next, node,
        python, reported, rest, session, time, with_parameter,
    },
    grpc::{Grpc, floats, raw},
    http::{get, post},
    ir,
    pipelines::{Config, lines, status},
    repository,
    server::{free_ports, on},
    streams::Talk,
};

/// Prepends the pool directive to a graph.
fn pooled(size: &str, text: &str) -> String {
    format!("# the graph\n  #OVMS_GRAPH_QUEUE_MAX_SIZE:{size}\n{text}")
}

/// Writes a handler that runs code with a list as its state, and notes in a file when a state is made and destroyed.
/// None is made while there is a file with the ending `stop` beside that.
pub(super) fn counting(log: &Path) -> String {
    format!(
        r#"{}
    def create_state(self):
        if os.path.exists({stop:?}): raise ValueError("no state")
        note("create")
        return []
    def destroy_state(self, state):
        note("destroy " + str(len(state)))
def note(text):
    with open({log:?}, "a") as file: file.write(text + "\n")
"#,
        CODE.replace(
            "def execute(self, inputs)",
            "def execute(self, inputs, state)"
        )
        .replace("(self, inputs, None)", "(self, inputs, state)"),
        stop = log.with_extension("stop"),
    )
}

/// Handler that puts its inputs together.
pub(super) const JOINED: &str = "from pyovms import Tensor\nclass OvmsPythonModel:\n  def execute(self, inputs):\n    return [Tensor('out', b''.join(map(bytes, inputs)))]\n";

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    let text = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:out",
        &[
            python("a", "IN:in", "ONE:one TWO:two", "a.py", ""),
            python("b", "ONE:one TWO:two", "OUT:out", "b.py", ""),
        ],
    );
    add(config, "leftover", &pooled("1", &text));
    let text = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:first OVMS_PY_TENSOR2:out",
        &[
            python("a", "IN:in", "FIRST:first ONE:one TWO:two", "a.py", ""),
            python("b", "ONE:one TWO:two", "OUT:out", "b.py", ""),
        ],
    );
    add(config, "unasked", &pooled("1", &text));
    for name in ["leftover", "unasked"] {
        file(config, &format!("{name}/a.py"), CODE);
        file(config, &format!("{name}/b.py"), JOINED);
    }
    for (name, size) in [
        ("sized_zero", "0"),
        ("sized_auto", "AUTO"),
        ("sized_huge", " 100000"),
        ("sized_negative", "-1"),
        ("sized_words", "many"),
        ("sized_fraction", "1.5"),
        ("sized_empty", ""),
    ] {
        add(config, name, &pooled(size, PASS));
    }
    add(config, "sized_gen", &pooled("1", &generative(PYTHON)));
    file(config, "sized_gen/handler.py", CODE);
    add(config, "turn", &pooled("1", PYTHON));
    let handler = counting(&config.beside("turn.log"));
    file(config, "turn/handler.py", &handler);
    // The second of the states is not made.
    let handler = counting(&config.beside("half.log")).replace(
        "note(\"create\")",
        "note(\"create\")\n        open(LOG.replace('.log', '.stop'), 'w').close()",
    );
    let log = config.beside("half.log");
    file(
        config,
        "half/handler.py",
        &format!("LOG = {log:?}\n{handler}"),
    );
    add(config, "half", &pooled("2", PYTHON));
}

#[test]
fn a_graph_one_of_whose_instances_does_not_open_is_not_loaded() {
    let (server, _) = shared::connect();
    assert_eq!(status(server, "half"), "LOADING FAILED_PRECONDITION");
    server.wait_log(
        "Mediapipe graph: half initialization failed with message: Mediapipe execution failed. MP status - INTERNAL: \
         CalculatorGraph::Run() failed: ",
    );
    let log = shared::beside("half.log");
    eventually("the first state is destroyed", || {
        (lines(&log, "destroy").len() == 1).then_some(())
    });
    assert_eq!(lines(&log, "create").len(), 1);
}

const COUNT: &str = "state.append(1)\nreturn [Tensor('out', str(len(state)).encode())]";
const EMPTY: &str = "InvalidArgument: Mediapipe execution failed. MP status - Unknown error during \
                     mediapipe execution - node py returned no output \"out\"";

#[test]
fn instances_live_on_with_their_states_and_times() {
    let mut config = Config::of(&[]);
    let handler = counting(&config.beside("log"));
    let path = add_python(&mut config, "g", &handler);
    fs::write(path.with_file_name("graph.pbtxt"), pooled(" 1 ", PYTHON)).unwrap();
    let log = config.beside("log");
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    assert_eq!(lines(&log, "create").len(), 1, "with the load");
    for (count, at) in [("1", 0), ("2", 1), ("3", 2)] {
        let answer = client.answered(code("g", COUNT));
        assert_eq!(
            (answer.raw_output_contents[0].as_ref(), time(&answer)),
            (count.as_bytes(), at)
        );
    }
    let answer = client.answered(at(10, code("g", COUNT)));
    assert_eq!(time(&answer), 10);
    let answer = client.answered(code("g", COUNT));
    assert_eq!(
        (answer.raw_output_contents[0].as_ref(), time(&answer)),
        (&b"5"[..], 11)
    );
    // A request that does not come in changes nothing.
    let text = |value: &str| ParameterChoice::StringParam(value.to_owned());
    assert_eq!(
        reported(&client, with_parameter("x", text("y"), code("g", COUNT))),
        "FailedPrecondition: Failed to initialize mediapipe graph - Input side packets are not supported for graphs with queue enabled"
    );
    assert!(
        reported(&client, raw("g", "in", "FP32", &[1], b""))
            .starts_with("InvalidArgument: Invalid content size")
    );
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 6");
    assert_eq!(lines(&log, "create").len(), 1);
    // A stream has an instance of its own, while the pool serves others.
    let mut talk = Talk::open(&client);
    talk.send(code("g", COUNT));
    assert_eq!(next(&mut talk), "0: out UINT8 [1] 1");
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 7");
    assert_eq!(rest(talk), ["end: Ok: "]);
    eventually("its state is gone", || {
        (lines(&log, "destroy").len() == 1).then_some(())
    });
    // After an error it is another one.
    let body = "raise ValueError('no')";
    assert_eq!(
        reported(&client, code("g", body)),
        format!("InvalidArgument: {} - ValueError: no", failed("py"))
    );
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 1");
    assert_eq!(reported(&client, code("g", "return []")), EMPTY);
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 1");
    let stale = reported(&client, at(0, code("g", COUNT)));
    assert!(stale.contains("Packet timestamp mismatch"), "{stale}");
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 1");
    // What REST says about the answer is no side packet.
    let body = br#"{"parameters":{"binary_data_output":true},"inputs":[{"name":"in","shape":[1],"datatype":"UINT8","data":[32]}]}"#;
    assert_eq!(
        post(&server, "/v2/models/g/infer", body).status,
        400,
        "the handler returns nothing"
    );
    assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 1");
    server.signal("TERM");
    assert!(server.wait().success());
    assert_eq!(lines(&log, "create").len(), lines(&log, "destroy").len());
}

#[test]
fn what_is_left_of_one_request_is_not_given_to_the_next() {
    let (_, client) = shared::connect();
    let both = |text: &str| {
        code(
            "leftover",
            &format!("return [Tensor('one', b'{text}'), Tensor('two', b'{text}')]"),
        )
    };
    assert_eq!(reported(&client, both("a")), "out UINT8 [2] aa");
    assert_eq!(
        reported(
            &client,
            code("leftover", "return [Tensor('one', b'secret')]")
        ),
        EMPTY.replace("node py", "node b")
    );
    assert_eq!(reported(&client, both("b")), "out UINT8 [2] bb");
}

#[test]
fn what_is_left_of_a_request_that_is_answered_is_not_given_to_the_next() {
    let (_, client) = shared::connect();
    let body = "return [Tensor('first', b'1'), Tensor('one', b'secret')]";
    let mut request = code("unasked", body);
    request.outputs = vec![InferRequestedOutputTensor {
        name: "first".to_owned(),
        ..InferRequestedOutputTensor::default()
    }];
    assert_eq!(reported(&client, request), "first UINT8 [1] 1");
    let body = "return [Tensor(name, b'b') for name in ('first', 'one', 'two')]";
    for at in 0..2 {
        let answer = client.answered(code("unasked", body));
        let contents: Vec<_> = answer.raw_output_contents.iter().collect();
        assert_eq!(contents, [&b"b"[..], b"bb"]);
        assert_eq!(time(&answer), at, "an instance with nothing left is kept");
    }
}

#[test]
fn sizes_are_validated_when_the_graph_is_loaded() {
    let (server, client) = shared::connect();
    for name in ["sized_zero", "sized_auto", "sized_huge"] {
        for _ in 0..3 {
            assert_eq!(
                reported(&client, raw(name, "in", "UINT8", &[1], b"a")),
                "out UINT8 [1] a"
            );
        }
    }
    for name in [
        "sized_negative",
        "sized_words",
        "sized_fraction",
        "sized_empty",
    ] {
        assert_eq!(
            status(server, name),
            "LOADING FAILED_PRECONDITION",
            "{name}"
        );
    }
    server.wait_log("Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value");
    server.wait_log("100000 is more than the ");
    assert_eq!(status(server, "sized_gen"), "LOADING FAILED_PRECONDITION");
    server
        .wait_log("PythonExecutorCalculator with LOOPBACK stream is incompatible with graph queue");
    // Without a pool, parameters are side packets, or nothing at all.
    let with = |name| {
        with_parameter(
            "x",
            ParameterChoice::BoolParam(true),
            raw(name, "in", "UINT8", &[1], b"a"),
        )
    };
    assert_eq!(reported(&client, with("sized_zero")), "out UINT8 [1] a");
    assert!(reported(&client, with("sized_auto")).starts_with("FailedPrecondition: "));
}

#[test]
fn more_requests_than_instances_wait_for_their_turn() {
    let (_, client) = shared::connect();
    let folder = repository::folder();
    let calls: Vec<_> = (0..50).map(|_| client.call(code("turn", COUNT))).collect();
    let mut counts: Vec<usize> = calls
        .into_iter()
        .map(|call| {
            let answer = call.wait().unwrap();
            String::from_utf8_lossy(&answer.raw_output_contents[0])
                .parse()
                .unwrap()
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=50).collect::<Vec<_>>());
    // Clients that leave take nothing along.
    let [go, begun] = ["go", "begun"].map(|name| folder.path().join(name));
    let waits = format!(
        "open({begun:?}, 'w')\nwhile not os.path.exists({go:?}): time.sleep(0.005)\nreturn []"
    );
    let call = client.call(code("turn", &waits));
    eventually("it runs", || begun.exists().then_some(()));
    drop(call);
    drop(client.call(code("turn", COUNT)));
    fs::write(&go, "").unwrap();
    let came = reported(&client, code("turn", COUNT));
    assert!(came.starts_with("out UINT8 [1] "), "{came}");
}

#[test]
fn instances_follow_a_model_that_is_loaded_with_other_names() {
    let mut config = Config::of(&[]);
    let (one, two) = (config.beside("one"), config.beside("two"));
    ir::relu(&one, "b", "a", &[1, 2]);
    ir::relu(&two, "x", "y", &[1, 2]);
    config.model("m", &one);
    let side = "input_side_packet: \"SESSION:session\"";
    let (input, output) = ("OVTENSOR:in", "OVTENSOR:out");
    let inference = node("OpenVINOInferenceCalculator", input, output, side);
    let text = graph(input, output, &[session("m"), inference]);
    add(&mut config, "g", &pooled("2", &text));
    let server = config.serve();
    let client = Grpc::connect(&server);
    let ask = || reported(&client, raw("g", "in", "FP32", &[1, 2], &floats(&[3.0; 2])));
    let before = ask();
    assert!(before.starts_with("out FP32 [1, 2] "), "{before}");
    config.remove("model_config_list", "m");
    config.model("m", &two);
    assert_eq!(config.reload(&server), "201");
    // Each of them is used.
    for _ in 0..4 {
        assert_eq!(ask(), before);
    }
}

#[test]
fn models_count_for_the_interface_of_the_request() {
    let mut config = Config::of(&["dummy"]);
    let side = "input_side_packet: \"SESSION:session\"";
    let inference = node("OpenVINOInferenceCalculator", "B:in", "A:out", side);
    let text = graph("in", "out", &[session("dummy"), inference]);
    add(&mut config, "g", &pooled("1", &text));
    let server = config.serve_with(&["--metrics_enable"]);
    let body = r#"{"inputs":[{"name":"in","shape":[1,10],"datatype":"FP32","data":[0,0,0,0,0,0,0,0,0,0]}]}"#;
    let rest = || post(&server, "/v2/models/g/infer", body.as_bytes()).status;
    assert_eq!([rest(), rest()], [200; 2]);
    let client = Grpc::connect(&server);
    let ones = floats(&[1.0; 10]);
    client
        .infer(raw("g", "in", "FP32", &[1, 10], &ones))
        .unwrap();
    let page = get(&server, "/metrics").text();
    for (interface, count) in [("REST", 2), ("gRPC", 1)] {
        let sample = format!(
            "ovms_requests_success{{api=\"KServe\",interface=\"{interface}\",method=\"ModelInfer\",name=\"dummy\",version=\"1\"}} {count}"
        );
        assert!(page.contains(&sample), "{page}");
    }
}

#[test]
fn pools_can_be_turned_off() {
    let mut config = Config::of(&[]);
    let handler = counting(&config.beside("log"));
    let path = add_python(&mut config, "g", &handler);
    fs::write(path.with_file_name("graph.pbtxt"), pooled("1", PYTHON)).unwrap();
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", "--config_path"]).arg(config.write());
    command.args(on(ports)).env("OVMS_GRAPH_QUEUE_OFF", "1");
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    let client = Grpc::connect(&server);
    for _ in 0..2 {
        assert_eq!(reported(&client, code("g", COUNT)), "out UINT8 [1] 1");
    }
}
