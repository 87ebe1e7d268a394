//! Many small things at once: bodies, messages, and elements of no bytes.

use prost::Message as _;

use super::{
    http2::{
        ACK, DATA, HEADERS, Http2, INFER, INITIAL_WINDOW_SIZE, PING, STREAM_INFER, frame, framed,
    },
    memory::{Growth, WITH_BUDGET},
};
use crate::support::{
    Server, eventually,
    grpc::{Grpc, dummy, error, raw, typed},
};
use ovms::proto::kserve::{
    InferTensorContents, ModelInferRequest, model_infer_request::InferInputTensor,
};

/// Length of an incomplete message, which gets no response.
const LENGTH: usize = 60_000;

#[test]
fn bodies_below_a_buffer_count_from_their_first_byte() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    Grpc::connect(&server).check_serves();
    let growth = Growth::of(&server);
    let mut part = vec![0, 0, 1, 0, 0];
    part.resize(LENGTH / 4, 10);
    let mut connections: Vec<Http2> = (0..40).map(|_| Http2::connect(&server, &[])).collect();
    let mut refused = 0;
    for connection in &mut connections {
        for _ in 0..100 {
            let stream = connection.open(INFER);
            for _ in 0..4 {
                connection.frame(DATA, 0, stream, &part);
            }
        }
        // All that came before it has been read when this is answered.
        connection.ping();
        loop {
            let frame = connection.read().expect("the connection goes on");
            match frame.kind {
                HEADERS => refused += 1,
                PING if frame.flags & ACK != 0 => break,
                _ => {}
            }
        }
    }
    // 40 x 100 x 60 kB are 240 MB.
    assert!(refused > 1000, "{refused}");
    growth.check();
    drop(connections);
    let grpc = Grpc::connect(&server);
    eventually("there is room again", || grpc.infer(dummy()).ok());
}

/// Sends on streams whose responses the client does not read, so that the server stops reading too,
/// until the windows are exhausted; returns the connections and the number of bytes sent.
fn fill(server: &Server, piece: &[u8]) -> (Vec<Http2>, usize) {
    // A little less than what a stream may send ahead.
    const WINDOW: usize = 1_000_000;
    let mut sent = 0;
    let connections = (0..24).map(|_| {
        let mut connection = Http2::connect(server, &[(INITIAL_WINDOW_SIZE, 0)]);
        for _ in 0..8 {
            let stream = connection.open(STREAM_INFER);
            let data = frame(DATA, 0, stream, piece).repeat(WINDOW / piece.len());
            if !connection.push(&data) {
                break;
            }
            sent += WINDOW;
        }
        connection
    });
    (connections.collect(), sent)
}

#[test]
fn messages_that_are_not_read_count_while_they_are_with_the_connection() {
    let server = Server::start_with("dummy", &[WITH_BUDGET, "--max_streams=1000"]);
    Grpc::connect(&server).check_serves();
    let growth = Growth::of(&server);
    let (connections, sent) = fill(&server, &framed(&dummy()).repeat(100));
    assert!(sent > 40 << 20, "{sent}: as much as there is room for");
    growth.check();
    // What others hold does not keep a small request from an answer of some kind.
    match Grpc::connect(&server).infer(dummy()) {
        Ok(_) => {}
        Err(status) => assert_eq!(status.code(), tonic::Code::ResourceExhausted),
    }
    drop(connections);
    let grpc = Grpc::connect(&server);
    eventually("there is room again", || grpc.infer(dummy()).ok());
}

#[test]
fn strings_of_no_bytes_count_as_what_they_become() {
    let server = Server::start_with(
        "passthrough_string",
        &[WITH_BUDGET, "--max_string_elements=100000000"],
    );
    let grpc = Grpc::connect(&server);
    let count = 3 << 19;
    let length = i64::from(count);
    let raw_empty = raw(
        "passthrough_string",
        "in",
        "BYTES",
        &[length],
        &vec![0; 4 * count as usize],
    );
    let contents = InferTensorContents {
        bytes_contents: vec![bytes::Bytes::new(); count as usize],
        ..InferTensorContents::default()
    };
    let typed_empty = typed("passthrough_string", "in", "BYTES", &[length], contents);
    let growth = Growth::of(&server);
    for request in [raw_empty, typed_empty] {
        let calls: Vec<_> = (0..4).map(|_| grpc.call(request.clone())).collect();
        for call in calls {
            let status = call.wait().unwrap_err();
            assert_eq!(
                status.code(),
                tonic::Code::ResourceExhausted,
                "{}",
                error(&status)
            );
        }
    }
    growth.check();
}

#[test]
fn inputs_of_no_bytes_count_as_what_they_become() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    let grpc = Grpc::connect(&server);
    let request = ModelInferRequest {
        model_name: "dummy".to_owned(),
        inputs: vec![InferInputTensor::default(); 1 << 20],
        ..ModelInferRequest::default()
    };
    assert!(request.encoded_len() < 10 << 20);
    let growth = Growth::of(&server);
    let calls: Vec<_> = (0..2).map(|_| grpc.call(request.clone())).collect();
    for call in calls {
        let status = call.wait().unwrap_err();
        assert_eq!(
            status.code(),
            tonic::Code::ResourceExhausted,
            "{}",
            error(&status)
        );
    }
    growth.check();
}
