//! Streams to graphs: first requests, further requests, timestamps and responses.

use std::{fs, path::Path};

use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, infer_parameter::ParameterChoice,
    model_infer_request::InferRequestedOutputTensor,
};

use super::{pool::counting, shared};
use crate::support::{
    eventually,
    graphs::{
        CODE, PASS, accepted, add, add_python, at, code, failed, file, graph, next, node, python,
        reported, rest, time, with_parameter,
    },
    grpc::{Grpc, input, raw},
    pipelines::Config,
    repository,
    streams::{Talk, with_id},
};

const OK: &str = "end: Ok: ";

/// Lowest and highest timestamp of a packet.
const MIN_TIME: i64 = i64::MIN + 3;
const MAX_TIME: i64 = i64::MAX - 3;

/// Returns a request with one byte for the input `in`.
fn byte(graph: &str, byte: u8) -> ModelInferRequest {
    raw(graph, "in", "UINT8", &[1], &[byte])
}

/// Returns a request without inputs.
fn nothing(graph: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: graph.to_owned(),
        ..ModelInferRequest::default()
    }
}

/// Opens a stream with one request, and returns all its events.
fn opened(client: &Grpc, request: ModelInferRequest) -> Vec<String> {
    let talk = Talk::open(client);
    talk.send(request);
    rest(talk)
}

/// A handler that returns the names and contents of its inputs.
const NAMES: &str = r#"
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("out", " ".join(t.name + bytes(t).decode() for t in inputs).encode())]
"#;

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    for (name, handler) in [
        ("together", ""),
        (
            "at_once",
            "input_stream_handler { input_stream_handler: \"ImmediateInputStreamHandler\" }",
        ),
    ] {
        let text = graph(
            "OVMS_PY_TENSOR1:a OVMS_PY_TENSOR2:b",
            "OVMS_PY_TENSOR:out",
            &[python("n", "A:a B:b", "OUT:out", "handler.py", handler)],
        );
        add(config, name, &text);
        file(config, &format!("{name}/handler.py"), NAMES);
    }
    let text = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR1:one OVMS_PY_TENSOR2:two",
        &[python("py", "IN:in", "ONE:one TWO:two", "handler.py", "")],
    );
    add(config, "pair", &text);
    file(config, "pair/handler.py", CODE);
    add(config, "opens_broken", "nothing of this kind");
    add(
        config,
        "opens_pooled",
        &format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n{PASS}"),
    );
    add(
        config,
        "opens_side",
        &graph(
            "in",
            "out",
            &[node(
                "PassThroughCalculator",
                "in",
                "out",
                "input_side_packet: \"wanted\"\noutput_side_packet: \"given\"",
            )],
        ),
    );
    let gate = node(
        "GateCalculator",
        "in",
        "out",
        "input_side_packet: \"ALLOW:open\"",
    );
    add(config, "opens_gate", &graph("in", "out", &[gate]));
    let handler = counting(&config.beside("states.log"));
    add_python(config, "states", &handler);
    let text = graph(
        "in",
        "out OVMS_PY_TENSOR:more",
        &[
            node("PassThroughCalculator", "in", "out", ""),
            python("py", "IN:numbers", "OUT:more", "handler.py", ""),
            node(
                "CountingSourceCalculator",
                "",
                "numbers",
                "input_side_packet: \"MAX_COUNT:count\"",
            ),
        ],
    );
    add(config, "mixed", &text);
    file(config, "mixed/handler.py", CODE);
}

#[test]
fn the_first_request_opens_the_graph_or_ends_the_stream() {
    let (_, client) = shared::connect();
    let text = |value: &str| ParameterChoice::StringParam(value.to_owned());
    for (request, expected) in [
        (
            byte("stranger", 1),
            "end: NotFound: Model with requested name is not found",
        ),
        (
            byte("", 1),
            "end: NotFound: Model with requested name is not found",
        ),
        (
            byte("opens_broken", 1),
            "end: Unavailable: Mediapipe is not loaded yet",
        ),
        (
            with_parameter("py", text("x"), byte("pass", 1)),
            "end: FailedPrecondition: Failed to initialize mediapipe graph - Incoming input side packet: py is special reserved name and cannot be used",
        ),
        (
            with_parameter("x", text("x"), byte("opens_pooled", 1)),
            "end: FailedPrecondition: Failed to initialize mediapipe graph - Input side packets are not supported for graphs with queue enabled",
        ),
    ] {
        assert_eq!(opened(&client, request), [expected]);
    }
    let others = [
        Some(ParameterChoice::DoubleParam(1.0)),
        Some(ParameterChoice::Uint64Param(1)),
        None,
    ];
    for parameter_choice in others {
        let mut request = byte("pass", 1);
        let parameter = InferParameter { parameter_choice };
        request.parameters.insert("x".to_owned(), parameter);
        let refused = "InvalidArgument: Functionality not implemented - Handling parameters of other types than: bool, string, int64 is not supported";
        assert_eq!(reported(&client, request.clone()), refused);
        assert_eq!(opened(&client, request), [format!("end: {refused}")]);
    }
    let came = opened(&client, byte("opens_side", 1));
    assert_eq!(came.len(), 1, "{came:?}");
    assert!(
        came[0].starts_with("end: FailedPrecondition: Failed to start mediapipe graph - "),
        "{came:?}"
    );
    assert!(
        came[0].contains("Side packet \"wanted\" is required but was not provided."),
        "{came:?}"
    );
    // So does a gate that is controlled by one.
    let missing = "FailedPrecondition: Failed to start mediapipe graph - FAILED_PRECONDITION: Side packet \"open\" is required but was not provided.";
    assert_eq!(reported(&client, byte("opens_gate", 1)), missing);
    assert_eq!(
        opened(&client, byte("opens_gate", 1)),
        [format!("end: {missing}")]
    );
    let allowed = with_parameter(
        "open",
        ParameterChoice::BoolParam(true),
        byte("opens_gate", b'a'),
    );
    assert_eq!(reported(&client, allowed), "out UINT8 [1] a");
    // With it the stream lives; parameters of later requests do not matter.
    let mut talk = Talk::open(&client);
    talk.send(with_parameter(
        "wanted",
        text("x"),
        byte("opens_side", b'a'),
    ));
    assert_eq!(next(&mut talk), "0: out UINT8 [1] a");
    talk.send(with_parameter("py", text("x"), byte("opens_side", b'b')));
    talk.send(with_parameter(
        "x",
        ParameterChoice::DoubleParam(1.0),
        byte("opens_side", b'c'),
    ));
    assert_eq!(rest(talk), ["1: out UINT8 [1] b", "2: out UINT8 [1] c", OK]);
    // The version of the first does not matter; a time is nothing that a pool minds.
    let mut any = byte("pass", b'a');
    any.model_version = "77".to_owned();
    assert_eq!(opened(&client, any), ["0: out UINT8 [1] a", OK]);
    assert_eq!(
        opened(&client, at(5, byte("opens_pooled", b'a'))),
        ["5: out UINT8 [1] a", OK]
    );
    assert_eq!(
        opened(&client, byte("opens_pooled", b'a')),
        ["0: out UINT8 [1] a", OK]
    );
    assert_eq!(
        rest(Talk::open(&client)),
        ["end: InvalidArgument: Client disconnected during reading first streaming request"]
    );
}

#[test]
fn a_request_that_does_not_fit_is_reported_and_the_stream_goes_on() {
    let (_, client) = shared::connect();
    let version = |version: &str, letter: u8| ModelInferRequest {
        model_version: version.to_owned(),
        ..byte("pass", letter)
    };
    let text = |value: &str| ParameterChoice::StringParam(value.to_owned());
    let wrong = raw("pass", "in", "FP32", &[1], &[]);
    let stranger = raw("pass", "NONEXISTING", "UINT8", &[1], &[0]);
    let talk = Talk::open(&client);
    let first = "partial deserialization of first request";
    let later = "partial deserialization of subsequent requests";
    let size = "error: Invalid content size of tensor proto - Expected: 4 bytes; Actual: 0 bytes; input name: in";
    let name =
        "error: Subsequent request with incorrect servable name; validate subsequent requests";
    let versions =
        "error: Subsequent request with incorrect servable version; validate subsequent requests";
    let format = "error: Malformed packet timestamp - Invalid timestamp format in request parameter OVMS_MP_TIMESTAMP. Should be int64";
    let mut expected = Vec::new();
    let mut send = |request: ModelInferRequest, answer: String| {
        talk.send(request);
        expected.push(answer);
    };
    send(wrong.clone(), format!("{size}; {first}"));
    send(wrong, format!("{size}; {later}"));
    send(byte("pass", b'a'), "0: out UINT8 [1] a".to_owned());
    send(
        stranger,
        format!("error: Unexpected input - NONEXISTING is unexpected; {later}"),
    );
    send(byte("pass2", b'x'), name.to_owned());
    send(byte("", b'x'), name.to_owned());
    send(version("2", b'x'), versions.to_owned());
    send(version("x", b'x'), versions.to_owned());
    send(version("-1", b'x'), versions.to_owned());
    send(version("1", b'b'), "1: out UINT8 [1] b".to_owned());
    send(version("0", b'c'), "2: out UINT8 [1] c".to_owned());
    send(
        with_parameter("OVMS_MP_TIMESTAMP", text("7"), byte("pass", b'x')),
        format!("{format}; {later}"),
    );
    send(
        with_parameter(
            "OVMS_MP_TIMESTAMP",
            ParameterChoice::BoolParam(true),
            byte("pass", b'x'),
        ),
        format!("{format}; {later}"),
    );
    for (time, called) in [
        (i64::MIN, "Unset"),
        (i64::MIN + 1, "Unstarted"),
        (i64::MIN + 2, "PreStream"),
        (i64::MAX - 2, "PostStream"),
        (i64::MAX - 1, "OneOverPostStream"),
        (i64::MAX, "Done"),
    ] {
        send(
            at(time, byte("pass", b'x')),
            format!("error: Malformed packet timestamp - Timestamp::{called}(); {later}"),
        );
    }
    send(byte("pass", b'd'), "3: out UINT8 [1] d".to_owned());
    assert_eq!(rest(talk), [expected, vec![OK.to_owned()]].concat());
    // Packets added before the error stay in, and their timestamp is not given to another request.
    let talk = Talk::open(&client);
    let mut half = raw("two", "a", "UINT8", &[1], b"a");
    half.inputs.push(input("stranger", "UINT8", &[1]));
    half.raw_input_contents.push(b"x"[..].into());
    talk.send(at(5, half));
    talk.send(at(5, raw("two", "b", "UINT8", &[1], b"b")));
    let mut came = rest(talk);
    assert_eq!(
        came.remove(0),
        format!("error: Unexpected input - stranger is unexpected; {first}")
    );
    came.sort();
    assert_eq!(came, ["5: c UINT8 [1] a", "5: d UINT8 [1] b", OK]);
}

#[test]
fn times_count_up_from_the_last_request_that_was_good() {
    let (_, client) = shared::connect();
    let mut talk = Talk::open(&client);
    let mut times = Vec::new();
    for request in [
        byte("pass", 0),
        byte("pass", 0),
        at(43_166_520_112, byte("pass", 0)),
        byte("pass", 0),
        at((1 << 53) + 1, byte("pass", 0)),
        byte("pass", 0),
        at(MAX_TIME - 1, byte("pass", 0)),
        byte("pass", 0),
    ] {
        talk.send(request);
        times.push(time(&talk.next().response()));
    }
    let big = (1 << 53) + 1;
    assert_eq!(
        times,
        [
            0,
            1,
            43_166_520_112,
            43_166_520_113,
            big,
            big + 1,
            MAX_TIME - 1,
            MAX_TIME
        ]
    );
    talk.send(byte("pass", 0));
    assert_eq!(
        rest(talk),
        [
            "error: Malformed packet timestamp - Timestamp::PostStream(); partial deserialization of subsequent requests",
            OK
        ]
    );
    let talk = Talk::open(&client);
    talk.send(at(MIN_TIME, byte("pass", b'a')));
    talk.send(byte("pass", b'b'));
    talk.send(at(-1, byte("pass", b'c')));
    talk.send(byte("pass", b'd'));
    assert_eq!(
        rest(talk),
        [
            format!("{MIN_TIME}: out UINT8 [1] a"),
            format!("{}: out UINT8 [1] b", MIN_TIME + 1),
            "-1: out UINT8 [1] c".to_owned(),
            "0: out UINT8 [1] d".to_owned(),
            OK.to_owned()
        ]
    );
    // One that is not above the last is the end of the graph.
    for (first, second) in [(5, 5), (5, 4), (MAX_TIME, MIN_TIME)] {
        let talk = Talk::open(&client);
        talk.send(at(first, byte("pass", b'a')));
        talk.send(at(second, byte("pass", b'b')));
        let mut came = rest(talk);
        assert_eq!(came.remove(0), format!("{first}: out UINT8 [1] a"));
        let end = came.pop().unwrap();
        let begin = "end: InvalidArgument: Mediapipe execution failed. MP status - INVALID_ARGUMENT: CalculatorGraph::Run() failed: \nPacket timestamp mismatch on a calculator receiving from stream \"in\". Current minimum expected timestamp is ";
        assert!(end.starts_with(begin), "{end}");
        assert!(
            end.contains(&format!("but received {second}")) || first == MAX_TIME,
            "{end}"
        );
        let is_reported = |text: &String| {
            text.starts_with("error: Failed to add packet to mediapipe graph input stream - ")
        };
        assert!(came.iter().all(is_reported), "{came:?}");
    }
    // Unary requests may have a time as well.
    let answer = client.answered(at(77, byte("pass", b'a')));
    assert_eq!(time(&answer), 77);
    let edge = client.answered(at(MAX_TIME, byte("pass", b'a')));
    assert_eq!(time(&edge), MAX_TIME);
    assert_eq!(
        client.refused(at(i64::MAX, byte("pass", b'a'))),
        "InvalidArgument: Malformed packet timestamp - Timestamp::Done()"
    );
}

#[test]
fn requests_may_have_any_of_the_inputs() {
    let (_, client) = shared::connect();
    let one =
        |graph: &str, name: &str, text: &str| raw(graph, name, "UINT8", &[1], text.as_bytes());
    let both = |graph: &str, text: &str| {
        let mut request = one(graph, "b", text);
        request.inputs.push(input("a", "UINT8", &[1]));
        request
            .raw_input_contents
            .push(text.as_bytes().to_vec().into());
        request
    };
    // One time in two requests is one call.
    let mut talk = Talk::open(&client);
    talk.send(nothing("together"));
    talk.send(at(9, one("together", "b", "1")));
    talk.send(at(9, one("together", "a", "2")));
    assert_eq!(next(&mut talk), "9: out UINT8 [5] a2 b1");
    // Two times are two, the first as soon as the other input is past it.
    talk.send(at(11, one("together", "a", "3")));
    talk.send(at(12, one("together", "b", "4")));
    assert_eq!(next(&mut talk), "11: out UINT8 [2] a3");
    talk.send(at(13, both("together", "5")));
    assert_eq!(next(&mut talk), "12: out UINT8 [2] b4");
    assert_eq!(next(&mut talk), "13: out UINT8 [5] a5 b5");
    // The end settles what waits.
    talk.send(one("together", "a", "6"));
    assert_eq!(rest(talk), ["14: out UINT8 [2] a6", OK]);
    let mut talk = Talk::open(&client);
    talk.send(one("at_once", "a", "1"));
    assert_eq!(next(&mut talk), "0: out UINT8 [2] a1");
    talk.send(one("at_once", "b", "2"));
    assert_eq!(next(&mut talk), "1: out UINT8 [2] b2");
    talk.send(both("at_once", "3"));
    let came = rest(talk);
    assert!(came[0].starts_with("2: out "), "{came:?}");
    assert_eq!(came.last().unwrap(), OK);
}

#[test]
fn outputs_come_one_by_one_without_the_ids_of_requests() {
    let (_, client) = shared::connect();
    let mut talk = Talk::open(&client);
    talk.send(with_id(
        "x",
        code("pair", "return [Tensor('two', b'a'), Tensor('one', b'b')]"),
    ));
    // In the order of the list.
    for expected in ["two", "one"] {
        let response = talk.next().response();
        assert_eq!(response.outputs.len(), 1);
        assert_eq!(response.raw_output_contents.len(), 1);
        assert_eq!(response.outputs[0].name, expected);
        assert_eq!(
            (
                response.model_name.as_str(),
                response.model_version.as_str(),
                response.id.as_str()
            ),
            ("pair", "1", "")
        );
        assert_eq!(time(&response), 0);
    }
    talk.send(code("pair", "return []"));
    talk.send(code("pair", "return [Tensor('two', b'c')]"));
    assert_eq!(rest(talk), ["2: two UINT8 [1] c", OK]);
}

#[test]
fn generators_give_sets_at_times_of_their_own() {
    let (server, client) = shared::connect();
    let folder = repository::folder();
    let count = |n: usize| {
        code(
            "sets",
            &format!("for n in range({n}):\n  yield [Tensor('out', str(n).encode())]"),
        )
    };
    let sets = |t0: i64, n: i64| {
        (0..n)
            .map(|k| format!("{}: out UINT8 [{}] {k}", t0 + k, k.to_string().len()))
            .collect::<Vec<_>>()
    };
    let wait = |talk: &mut Talk<'_>, expected: &[String]| {
        for line in expected {
            assert_eq!(next(talk), *line);
        }
    };
    // Half-closed at once, all sets come.
    assert_eq!(
        opened(&client, count(12)),
        [sets(0, 12), vec![OK.to_owned()]].concat()
    );
    assert_eq!(opened(&client, count(0)), [OK]);
    // Another request goes on where the last has ended, or at a time of its own behind that.
    let mut talk = Talk::open(&client);
    talk.send(at(100, count(3)));
    wait(&mut talk, &sets(100, 3));
    talk.send(at(103, count(2)));
    wait(&mut talk, &sets(103, 2));
    talk.send(at(200, code("sets", "return [Tensor('out', b'list')]")));
    assert_eq!(next(&mut talk), "200: out UINT8 [4] list");
    assert_eq!(rest(talk), [OK]);
    let mut talk = Talk::open(&client);
    talk.send(count(1));
    wait(&mut talk, &sets(0, 1));
    talk.send(count(1));
    assert_eq!(next(&mut talk), "1: out UINT8 [1] 0");
    assert_eq!(rest(talk), [OK]);
    let mut talk = Talk::open(&client);
    for (t0, n) in [(0, 3), (3, 5), (8, 1), (9, 2), (11, 4)] {
        talk.send(count(usize::try_from(n).unwrap()));
        wait(&mut talk, &sets(t0, n));
    }
    // One without sets takes its time all the same.
    talk.send(count(0));
    talk.send(count(2));
    wait(&mut talk, &sets(16, 2));
    assert_eq!(rest(talk), [OK]);
    let mut talk = Talk::open(&client);
    talk.send(count(3));
    wait(&mut talk, &sets(0, 3));
    talk.send(at(2, count(3)));
    let end = rest(talk).pop().unwrap();
    assert!(end.starts_with("end: InvalidArgument: Mediapipe execution failed. MP status - INVALID_ARGUMENT: CalculatorGraph::Run() failed: "), "{end}");
    assert!(end.contains("Packet timestamp mismatch"), "{end}");
    // Each set is sent as soon as it is there, also by a handler of which the steps are known to be short.
    let waits = |go: &Path| {
        let wait = format!("while not os.path.exists({go:?}): time.sleep(0.005)");
        let (first, second) = ("yield [Tensor('out', b'0')]", "yield [Tensor('out', b'1')]");
        code("sets", &format!("{first}\n{wait}\n{second}"))
    };
    assert_eq!(opened(&client, count(200)).len(), 201);
    let go = folder.path().join("first");
    let mut talk = Talk::open(&client);
    talk.send(waits(&go));
    wait(&mut talk, &sets(0, 1));
    fs::write(&go, "").unwrap();
    assert_eq!(rest(talk), ["1: out UINT8 [1] 1", OK]);
    // While it generates it takes nothing else. After a long step the next are not on the thread that
    // takes the requests.
    let long = "time.sleep(0.1)\nyield [Tensor('out', b'0')]";
    assert_eq!(
        opened(&client, code("sets", long)),
        [sets(0, 1), vec![OK.to_owned()]].concat()
    );
    let go = folder.path().join("go");
    let mut talk = Talk::open(&client);
    talk.send(waits(&go));
    wait(&mut talk, &sets(0, 1));
    let before = accepted(server, "sets");
    talk.send(count(1));
    eventually("the request is taken", || {
        (accepted(server, "sets") > before).then_some(())
    });
    // Another stream is not held up.
    assert_eq!(
        opened(&client, count(1)),
        [sets(0, 1), vec![OK.to_owned()]].concat()
    );
    fs::write(&go, "").unwrap();
    let came = rest(talk);
    let end = came.last().unwrap();
    // One whose time comes after that waits for the generator.
    let go = folder.path().join("later");
    let mut later = Talk::open(&client);
    later.send(waits(&go));
    wait(&mut later, &sets(0, 1));
    later.send(at(50, count(2)));
    later.send(at(60, count(1)));
    client.round_trip();
    fs::write(&go, "").unwrap();
    wait(&mut later, &["1: out UINT8 [1] 1".to_owned()]);
    wait(&mut later, &sets(50, 2));
    wait(&mut later, &sets(60, 1));
    assert_eq!(rest(later), [OK]);
    // It gets in at the time at which the generator would have gone on.
    let go = folder.path().join("next");
    let mut after = Talk::open(&client);
    after.send(waits(&go));
    wait(&mut after, &sets(0, 1));
    after.send(at(2, count(1)));
    client.round_trip();
    fs::write(&go, "").unwrap();
    wait(&mut after, &["1: out UINT8 [1] 1".to_owned()]);
    assert_eq!(rest(after), ["2: out UINT8 [1] 0", OK]);
    // Before that it does not.
    let mut within = Talk::open(&client);
    within.send(code("sets", "while True:\n  yield [Tensor('out', b'x')]"));
    assert_eq!(next(&mut within), "0: out UINT8 [1] x");
    within.send(at(3, count(1)));
    assert_eq!(rest(within).last(), Some(end));
    let busy = "end: InvalidArgument: Mediapipe execution failed. MP status - RESOURCE_EXHAUSTED: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"py\" failed: Node is already processing data. Create new stream for another request.";
    assert_eq!(end, busy);
    // What came before an exception is delivered.
    let came = opened(
        &client,
        code(
            "sets",
            "yield [Tensor('out', b'0')]\nyield [Tensor('out', b'1')]\nraise ValueError('late')",
        ),
    );
    assert_eq!(
        came,
        [
            "0: out UINT8 [1] 0".to_owned(),
            "1: out UINT8 [1] 1".to_owned(),
            format!("end: InvalidArgument: {} - ValueError: late", failed("py"))
        ]
    );
    // At the end of time there is none left for another set.
    for (t0, n) in [(MAX_TIME, 0), (MAX_TIME, 1), (MAX_TIME - 1, 2)] {
        let number = usize::try_from(n).unwrap();
        let expected = [sets(t0, n), vec![OK.to_owned()]].concat();
        assert_eq!(opened(&client, at(t0, count(number))), expected);
    }
    let came = opened(&client, at(MAX_TIME - 1, count(3)));
    assert_eq!(came[..2], sets(MAX_TIME - 1, 2));
    assert!(
        came.last()
            .unwrap()
            .ends_with("the sets have no time left after Timestamp::Max()"),
        "{came:?}"
    );
}

#[test]
fn outputs_that_a_request_asks_for_are_there() {
    let (_, client) = shared::connect();
    let asks = |name: &str| {
        let mut request = code("py", "return [Tensor('out', b'fine')]");
        request.outputs.push(InferRequestedOutputTensor {
            name: name.to_owned(),
            ..InferRequestedOutputTensor::default()
        });
        request
    };
    let mut talk = Talk::open(&client);
    talk.send(asks("other"));
    assert_eq!(
        next(&mut talk),
        "error: Invalid output name - Requested output: other; the graph has: out; partial deserialization of first request"
    );
    talk.send(asks("out"));
    assert_eq!(rest(talk), ["0: out UINT8 [4] fine", OK]);
}

#[test]
fn a_state_belongs_to_one_request_or_stream() {
    let (_, client) = shared::connect();
    let [log, stop] = ["states.log", "states.stop"].map(shared::beside);
    let count = "state.append(1)\nreturn [Tensor('out', str(len(state)).encode())]";
    let seen = |expected: &str| {
        eventually(expected, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            (text == expected).then_some(())
        });
        fs::write(&log, "").unwrap();
    };
    for _ in 0..2 {
        assert_eq!(reported(&client, code("states", count)), "out UINT8 [1] 1");
    }
    seen("create\ndestroy 1\ncreate\ndestroy 1\n");
    let (mut one, mut other) = (Talk::open(&client), Talk::open(&client));
    for expected in ["0: out UINT8 [1] 1", "1: out UINT8 [1] 2"] {
        for talk in [&mut one, &mut other] {
            talk.send(code("states", count));
            assert_eq!(next(talk), expected);
        }
    }
    seen("create\ncreate\n");
    assert_eq!(rest(one), [OK]);
    seen("destroy 2\n");
    // Also when the client leaves, and after errors.
    drop(other);
    seen("destroy 2\n");
    let end = format!("{} - ValueError: ", failed("py"));
    assert_eq!(
        opened(&client, code("states", "state.append(1)\nraise ValueError")),
        [format!("end: InvalidArgument: {end}")]
    );
    seen("create\ndestroy 1\n");
    client.refused(code("states", "raise ValueError"));
    seen("create\ndestroy 0\n");
    fs::write(&stop, "").unwrap();
    let open = "InvalidArgument: Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: \nCalculator::Open() for node \"py\" failed: Error occurred during graph execution - ValueError: no state";
    assert_eq!(client.refused(code("states", count)), open);
    assert_eq!(
        opened(&client, code("states", count)),
        [format!("end: {open}")]
    );
    fs::remove_file(&stop).unwrap();
    assert_eq!(reported(&client, code("states", count)), "out UINT8 [1] 1");
    seen("create\ndestroy 1\n");
}

#[test]
fn sources_stream_without_further_requests() {
    let (server, _) = shared::connect();
    // The numbers are no tensors; that a graph says so when it is loaded is enough here.
    server.wait_log("Mediapipe graph: mixed initialization failed with message: ");
}
