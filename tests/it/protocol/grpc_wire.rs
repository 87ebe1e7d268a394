//! gRPC as bytes: messages in any pieces are read, and invalid ones are refused with a
//! status, after which the connection stays usable.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::ZlibEncoder};
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use ovms::proto::kserve::{ModelInferResponse, ModelStreamInferResponse};
use prost::Message as _;
use tonic::{
    body::Body,
    codegen::{Service as _, http::Request},
};

use crate::support::{
    Server,
    grpc::{Grpc, dummy, floats, raw, to_floats, wanted},
};

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";

/// Prefixes a message with the flag and the length.
fn framed(flag: u8, length: usize, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![flag];
    frame.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// Returns a valid request for `dummy`.
fn good() -> Vec<u8> {
    let message = dummy().encode_to_vec();
    framed(0, message.len(), &message)
}

/// Sends a body to `ModelInfer` in pieces of a length; returns the status in one line, and the response body.
fn send(grpc: &Grpc, body: &[u8], piece: usize, headers: &[(&str, &str)]) -> (String, Vec<u8>) {
    call(grpc, INFER, body, piece, headers)
}

fn call(
    grpc: &Grpc,
    path: &str,
    body: &[u8],
    piece: usize,
    headers: &[(&str, &str)],
) -> (String, Vec<u8>) {
    let pieces: Vec<Result<_, std::io::Error>> = body
        .chunks(piece)
        .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let mut request = Request::post(path).header("te", "trailers");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Body::new(StreamBody::new(stream::iter(pieces))))
        .unwrap();
    let mut channel = grpc.channel.clone();
    grpc.runtime.block_on(async move {
        std::future::poll_fn(|context| channel.poll_ready(context))
            .await
            .unwrap();
        let (head, body) = channel
            .call(request)
            .await
            .expect("there is an answer")
            .into_parts();
        let body = body.collect().await.expect("the answer is whole");
        let trailers = body.trailers().cloned().unwrap_or_default();
        let header = |name: &str| {
            let value = trailers.get(name).or_else(|| head.headers.get(name));
            value
                .map_or("none", |value| value.to_str().unwrap())
                .to_owned()
        };
        let status = format!(
            "HTTP {}, status {}, message {}",
            head.status.as_u16(),
            header("grpc-status"),
            header("grpc-message")
        );
        (status, body.to_bytes().to_vec())
    })
}

#[test]
fn a_message_in_pieces_is_put_together() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    for piece in [1, 3, 5, 6, 1000] {
        let (status, body) = send(&grpc, &good(), piece, &[]);
        assert_eq!(
            status, "HTTP 200, status 0, message none",
            "pieces of {piece}"
        );
        assert_eq!(body, framed(0, body.len() - 5, &body[5..]));
        let answer = ModelInferResponse::decode(&body[5..]).unwrap();
        assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let message = dummy().encode_to_vec();
    let length = message.len();
    let twice = [good(), good()].concat();
    let answers: String = [
        ("nothing", Vec::new()),
        ("part of the prefix", vec![0, 0, 0]),
        ("less than announced", framed(0, length + 1, &message)),
        ("4 GiB announced", framed(0, u32::MAX as usize, &message)),
        ("two messages", twice),
        ("part of a second message", [good(), vec![0, 0]].concat()),
        ("no protobuf", framed(0, 4, &[0xff; 4])),
        (
            "a model name that is no UTF-8",
            framed(0, 3, &[0x0a, 0x01, 0xff]),
        ),
        ("an empty message", framed(0, 0, b"")),
        ("compressed without saying how", framed(1, length, &message)),
        ("an unknown flag", framed(2, length, &message)),
    ]
    .into_iter()
    .map(|(what, body)| {
        let (status, _) = send(&grpc, &body, 1000, &[]);
        grpc.check_serves();
        format!("{what}: {status}\n")
    })
    .collect();
    insta::assert_snapshot!(answers, @"
    nothing: HTTP 200, status 13, message Unexpected%20EOF%20decoding%20stream.
    part of the prefix: HTTP 200, status 13, message Unexpected%20EOF%20decoding%20stream.
    less than announced: HTTP 200, status 13, message Unexpected%20EOF%20decoding%20stream.
    4 GiB announced: HTTP 200, status 8, message Error,%20decoded%20message%20length%20too%20large:%20found%204294967295%20bytes,%20the%20limit%20is:%201073741824%20bytes;%20see%20--max-message-size
    two messages: HTTP 200, status 13, message a%20call%20of%20ModelInfer%20takes%20one%20message,%20and%20another%20one%20followed
    part of a second message: HTTP 200, status 13, message a%20call%20of%20ModelInfer%20takes%20one%20message,%20and%20another%20one%20followed
    no protobuf: HTTP 200, status 13, message failed%20to%20decode%20Protobuf%20message:%20invalid%20varint
    a model name that is no UTF-8: HTTP 200, status 13, message failed%20to%20decode%20Protobuf%20message:%20ModelInferRequest.model_name:%20invalid%20string%20value:%20data%20is%20not%20UTF-8%20encoded
    an empty message: HTTP 200, status 5, message Model%20with%20requested%20name%20is%20not%20found
    compressed without saying how: HTTP 200, status 13, message protocol%20error:%20received%20message%20with%20compressed-flag%20but%20no%20grpc-encoding%20was%20specified
    an unknown flag: HTTP 200, status 13, message protocol%20error:%20received%20message%20with%20invalid%20compression%20flag:%202%20(valid%20flags%20are%200%20and%201)
    ");
}

#[test]
fn messages_may_be_compressed_with_deflate() {
    let grpc = Grpc::connect(Server::shared("dummy"));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&dummy().encode_to_vec()).unwrap();
    let packed = encoder.finish().unwrap();
    let one = framed(1, packed.len(), &packed);
    let deflate = [("grpc-encoding", "deflate")];
    let (status, body) = send(&grpc, &one, 1000, &deflate);
    assert_eq!(status, "HTTP 200, status 0, message none");
    let answer = ModelInferResponse::decode(&body[5..]).unwrap();
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
    // On a stream, between messages that are not compressed.
    let all = [good(), one, good()].concat();
    let (status, body) = call(&grpc, STREAM, &all, 1000, &deflate);
    assert_eq!(status, "HTTP 200, status 0, message none");
    let mut rest = &body[..];
    for _ in 0..3 {
        let (head, after) = rest.split_at(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let (message, after) = after.split_at(usize::try_from(length).unwrap());
        let answer = ModelStreamInferResponse::decode(message).unwrap();
        let answer = answer.infer_response.unwrap();
        assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
        rest = after;
    }
    assert!(rest.is_empty());
    let cut = framed(1, 10, &packed[..10]);
    insta::assert_snapshot!(send(&grpc, &cut, 1000, &deflate).0, @"HTTP 200, status 3, message request%20body%20is%20not%20valid%20deflate:%20unexpected%20end%20of%20file");
}

#[test]
fn a_message_that_is_no_inference_has_a_limit_that_no_flag_sets() {
    let grpc = Grpc::connect(Server::shared("dummy"));
    for path in [
        METADATA,
        "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
    ] {
        let (status, _) = call(&grpc, path, &framed(0, (4 << 20) + 1, b""), 1000, &[]);
        assert_eq!(
            status,
            "HTTP 200, status 8, message Error,%20decoded%20message%20length%20too%20large:%20found%204194305%20bytes,%20the%20limit%20is:%204194304%20bytes,%20the%20maximum%20of%20requests%20other%20than%20inference",
            "{path}"
        );
    }
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let answers: String = [
        ("grpc-encoding", "br"),
        ("grpc-encoding", "snappy"),
        ("grpc-encoding", "gzip"),
        ("content-type", "text/plain"),
        ("content-type", "application/grpc+json"),
        ("grpc-timeout", "soon"),
    ]
    .into_iter()
    .map(|(name, value)| {
        let mut body = good();
        body[0] = u8::from(value == "br");
        let (status, _) = send(&grpc, &body, 1000, &[(name, value)]);
        grpc.check_serves();
        format!("{name}: {value}: {status}\n")
    })
    .collect();
    insta::assert_snapshot!(answers, @"
    grpc-encoding: br: HTTP 200, status 12, message Content%20is%20compressed%20with%20%60br%60%20which%20isn't%20supported
    grpc-encoding: snappy: HTTP 200, status 0, message none
    grpc-encoding: gzip: HTTP 200, status 0, message none
    content-type: text/plain: HTTP 200, status 0, message none
    content-type: application/grpc+json: HTTP 200, status 0, message none
    grpc-timeout: soon: HTTP 200, status 0, message none
    ");
}

/// Requests as browsers send them for pages of other sites: with any type but that of gRPC.
#[test]
fn calls_that_manage_the_server_have_the_type_of_grpc() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let status = |path: &str, kind: &str| {
        let headers = [("content-type", kind)];
        call(&grpc, path, &framed(0, 0, b""), 1000, &headers).0
    };
    let forget = "/inference.GRPCInferenceService/SystemSharedMemoryUnregister";
    let reload = "/tensorflow.serving.ModelService/HandleReloadConfigRequest";
    for path in [forget, reload] {
        for kind in ["text/plain", "application/octet-stream", ""] {
            let status = status(path, kind);
            assert!(
                status.starts_with("HTTP 415, status 7, message Calls%20that%20manage"),
                "{path} {kind}: {status}"
            );
        }
        for kind in ["application/grpc", "application/grpc+proto"] {
            let status = status(path, kind);
            assert_eq!(status, "HTTP 200, status 0, message none", "{path} {kind}");
        }
    }
    let about = "/inference.GRPCInferenceService/ServerMetadata";
    let status = status(about, "text/plain");
    assert_eq!(status, "HTTP 200, status 0, message none");
}

#[test]
fn an_error_about_a_very_long_name_arrives() {
    let grpc = Grpc::connect(Server::shared("dummy"));
    let mut request = dummy();
    request.outputs = vec![wanted(&"x".repeat(1 << 20))];
    let refused = grpc.refused(request);
    assert!(
        refused.starts_with("InvalidArgument: Invalid output name"),
        "{refused}"
    );
    let long = raw(
        "dummy",
        "b",
        &"x".repeat(1 << 20),
        &[1, 10],
        &floats(&[0.0; 10]),
    );
    let refused = grpc.refused(long);
    assert!(
        refused.starts_with("InvalidArgument: Invalid input precision"),
        "{refused}"
    );
    grpc.check_serves();
}
