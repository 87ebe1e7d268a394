//! Lines of the log about what handlers have done wrong without an exception.

use super::shared;
use crate::support::{
    Server,
    graphs::{CODE, add, code, file, graph, node, options, python, reported, session},
    grpc::raw,
    pipelines::Config,
    streams::Talk,
};

/// Returns the warnings of a log.
fn warnings(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(" WARN "));
    lines.map(str::to_owned).collect()
}

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    let infers = |input: &str| {
        let options = options("OpenVINOInferenceCalculatorOptions", "");
        let rest = format!("name: \"model\"\ninput_side_packet: \"SESSION:session\"\n{options}");
        node("OpenVINOInferenceCalculator", input, "OVTENSOR:out", &rest)
    };
    let behind = [
        python("py", "IN:in", "OUT:mid", "handler.py", ""),
        node(
            "PyTensorOvTensorConverterCalculator",
            "OVMS_PY_TENSOR:mid",
            "OVTENSOR:x",
            "name: \"converter\"",
        ),
        session("dummy"),
        infers("OVTENSOR:x"),
    ];
    for name in ["refused_one", "refused_two"] {
        let text = graph("OVMS_PY_TENSOR:in", "OVTENSOR:out", &behind);
        add(config, name, &text);
        file(config, &format!("{name}/handler.py"), CODE);
    }
    let alone = [session("dummy"), infers("OVTENSOR:in")];
    add(
        config,
        "refused_alone",
        &graph("OVTENSOR:in", "OVTENSOR:out", &alone),
    );
}

#[test]
fn a_request_without_an_output_of_its_handler_is_logged_once_in_a_while() {
    let (server, client) = shared::connect();
    for _ in 0..3 {
        for name in ["empty1", "empty2"] {
            let came = reported(&client, code(name, "return []"));
            assert!(
                came.ends_with(" - node py returned no output \"out\""),
                "{came}"
            );
        }
    }
    for name in ["empty1", "empty2"] {
        let line = format!(
            "graph {name}: node py returned no output \"out\", so that a request without a stream has an error"
        );
        server.wait_log(&line);
        let found = warnings(server);
        let found = found.iter().filter(|it| it.contains(&line)).count();
        assert_eq!(found, 1, "{name}: {}", server.log());
    }
}

#[test]
fn what_a_model_behind_a_handler_refuses_is_logged_and_what_a_client_sends_is_not() {
    let (server, client) = shared::connect();
    let sent = |name, shape: &[i64]| {
        let count: i64 = shape.iter().product();
        let bytes = vec![0; count as usize * 4];
        raw(name, "in", "FP32", shape, &bytes)
    };
    assert!(client.infer(sent("refused_alone", &[1, 10])).is_ok());
    let refused = reported(&client, sent("refused_alone", &[1, 9]));
    assert!(refused.starts_with("InvalidArgument: "), "{refused}");
    let gives = |bytes: usize, width: usize| {
        format!("return [Tensor('mid', bytes({bytes}), shape=[1, {width}], datatype='FP32')]")
    };
    assert!(client.infer(code("refused_one", &gives(40, 10))).is_ok());
    let raised = reported(&client, code("refused_one", "raise ValueError('mine')"));
    assert!(raised.contains("mine"), "{raised}");
    assert!(
        warnings(server)
            .iter()
            .all(|line| !line.contains("behind a Python node") || !line.contains("graph refused_"))
    );

    for _ in 0..2 {
        let refused = reported(&client, code("refused_one", &gives(10, 10)));
        assert!(refused.contains("python buffer size: 10"), "{refused}");
        let refused = reported(&client, code("refused_one", &gives(36, 9)));
        assert!(refused.contains("for node \"model\" failed"), "{refused}");
    }
    // Over a stream as well.
    let talk = Talk::open(&client);
    talk.send(code("refused_two", &gives(36, 9)));
    let rest = talk.rest();
    assert!(rest[0].contains("for node \"model\" failed"), "{rest:?}");
    for (name, node, text) in [
        (
            "refused_one",
            "converter",
            "python buffer size: 10; OV tensor size: 40; mismatch",
        ),
        ("refused_one", "model", "(1,9)"),
        ("refused_two", "model", "(1,9)"),
    ] {
        let begin = format!(
            "graph {name}: behind a Python node, Calculator::Process() for node \"{node}\" failed: "
        );
        let line = server.wait_log(&begin);
        assert!(line.contains(text), "{line}");
        let found = warnings(server);
        let found = found.iter().filter(|it| it.contains(&begin)).count();
        assert_eq!(found, 1, "{name} {node}: {}", server.log());
    }
    assert!(
        warnings(server)
            .iter()
            .all(|line| !line.contains("graph refused_alone"))
    );
}

#[test]
fn an_output_with_other_bytes_than_it_says_is_logged_and_sent_as_it_is() {
    let (server, client) = shared::connect();
    let gives = |bytes: usize, shape: &str, datatype: &str| {
        format!("return [Tensor('out', b'x' * {bytes}, shape={shape}, datatype={datatype:?})]")
    };
    for (bytes, shape, datatype) in [
        (24, "[2, 3]", "FP32"),
        (10, "[2, 3]", "BYTES"),
        (10, "[2, 3]", "mine"),
    ] {
        client.answered(code("bytes1", &gives(bytes, shape, datatype)));
    }
    assert!(
        warnings(server)
            .iter()
            .all(|line| !line.contains("graph bytes1"))
    );
    for _ in 0..2 {
        let came = reported(&client, code("bytes1", &gives(10, "[2, 3]", "FP32")));
        assert_eq!(came, "out FP32 [2, 3] xxxxxxxxxx");
    }
    let talk = Talk::open(&client);
    talk.send(code("bytes2", &gives(10, "[-1]", "UINT8")));
    talk.rest();
    server.wait_log(
        "graph bytes1: node py gave output \"out\" as FP32 (2,3) with 10 bytes; expected 24; clients get it as it is",
    );
    server.wait_log(
        "graph bytes2: node py gave output \"out\" as UINT8 (-1) with 10 bytes; expected lengths of 0 or more that fit in \
         memory; clients get it as it is",
    );
    let found = warnings(server);
    let found = found
        .iter()
        .filter(|line| line.contains("graph bytes1"))
        .count();
    assert_eq!(found, 1, "{}", server.log());
}
