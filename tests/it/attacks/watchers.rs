//! Streams of the health and reflection services.

use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{
    http2::{DATA, HEADERS, Http2, framed},
    memory::Growth,
    small,
};
use crate::support::{Server, eventually, grpc::Grpc};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

#[test]
fn what_a_stream_of_reflection_has_sent_is_not_held() {
    let server = small();
    Grpc::connect(&server).check_serves();
    let growth = Growth::of(&server);
    let mut attacker = Http2::connect(&server, &[]);
    let stream = attacker.open(REFLECTION);
    // `list_services` with a text of 60 kB, again and again: 6 MB.
    let question = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: "h".repeat(60_000),
        message_request: None,
    };
    let message = framed(&question);
    for _ in 0..100 {
        for piece in message.chunks(16 << 10) {
            attacker.frame(DATA, 0, stream, piece);
        }
        attacker.ping();
        attacker.until("an answer", |frame| frame.kind == super::http2::PING);
    }
    Grpc::connect(&server).check_serves();
    assert!(growth.bytes() < 20 << 20, "{}", growth.bytes());
}

#[test]
fn streams_that_say_nothing_and_watchers_have_places_and_checks_need_none() {
    let server = Server::start_with("dummy", &["--max_streams=3"]);
    let mut attacker = Http2::connect(&server, &[]);
    let silent = [STREAM; 3].map(|path| attacker.open(path));
    let fourth = attacker.open(STREAM);
    attacker.until("the end of the fourth", |frame| {
        let ends = frame.kind == HEADERS && frame.flags & super::http2::END_STREAM != 0;
        assert!(!(ends && silent.contains(&frame.stream)), "it has a place");
        ends && frame.stream == fourth
    });
    let grpc = Grpc::connect(&server);
    grpc.check_serves();
    drop(attacker);

    let request = HealthCheckRequest::default();
    // The places of a connection come back a moment after its end.
    let attacker = eventually("places for three watchers, and none for two", || {
        let mut attacker = Http2::connect(&server, &[]);
        let refused = (0..5).filter(|_| {
            let stream = attacker.call(WATCH, &request);
            let head = attacker.until("a head", |frame| {
                frame.kind == HEADERS && frame.stream == stream
            });
            head.flags & super::http2::END_STREAM != 0
        });
        let refused: Vec<i32> = refused.collect();
        assert!(refused.len() >= 2, "{refused:?}");
        (refused == [3, 4]).then_some(attacker)
    });
    let mut health = HealthClient::new(grpc.channel.clone());
    let answer = grpc.wait(async move { health.check(request).await });
    assert!(answer.is_ok(), "{answer:?}");
    grpc.check_serves();
    drop(attacker);
}

#[test]
fn checks_hold_no_long_questions() {
    let server = Server::shared("dummy");
    let mut attacker = Http2::connect(server, &[]);
    let question = HealthCheckRequest {
        service: "h".repeat(60_000),
    };
    // It would wait for the rest for as long as a pause may be, charged as a call of 8 KiB.
    let stream = attacker.open(CHECK);
    attacker.frame(DATA, 0, stream, &framed(&question)[..16 << 10]);
    attacker.until("its refusal", |frame| {
        frame.stream == stream && frame.flags & super::http2::END_STREAM != 0
    });
    let grpc = Grpc::connect(server);
    let mut health = HealthClient::new(grpc.channel.clone());
    let refused = grpc.wait(async move { health.check(question).await });
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    insta::assert_snapshot!(refused.message(), @"a check of health is longer than 4096 bytes");
    grpc.check_serves();
}
