//! Lengths that are declared and never sent.

use std::{io::Write as _, process::Command};

use super::{
    http2::{DATA, Http2, INFER},
    memory::{Growth, WITH_BUDGET},
};
use crate::support::{
    Server,
    grpc::{Grpc, dummy},
    http::{connect, head},
    server::memory,
};

/// Message length that each request declares.
const DECLARED: u32 = 16 << 20;

/// Limits the address space of a server to `more` bytes beyond its current size.
fn limit_addresses(server: &Server, more: usize) {
    let limit = memory(server, "VmSize:") + more;
    let status = Command::new("prlimit")
        .arg(format!("--pid={}", server.id()))
        .arg(format!("--as={limit}"))
        .status();
    assert!(status.expect("util-linux is there").success());
}

#[test]
fn a_thousand_messages_that_are_announced_reserve_nothing() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    Grpc::connect(&server).check_serves();
    // All of them together would be 16 GB for each path.
    limit_addresses(&server, 1 << 30);
    let growth = Growth::of(&server);
    let paths = [
        INFER,
        "/tensorflow.serving.PredictionService/Predict",
        "/inference.GRPCInferenceService/ModelStreamInfer",
        "/inference.GRPCInferenceService/ModelMetadata",
        "/grpc.health.v1.Health/Check",
    ];
    let mut announced = vec![0];
    announced.extend(DECLARED.to_be_bytes());
    announced.push(10);
    let connections: Vec<Http2> = paths
        .into_iter()
        .flat_map(|path| [path; 10])
        .map(|path| {
            let mut connection = Http2::connect(&server, &[]);
            for _ in 0..100 {
                let stream = connection.open(path);
                connection.frame(DATA, 0, stream, &announced);
            }
            // The answer to this is behind all of them.
            connection.call(INFER, &dummy());
            connection.until("its answer", |frame| {
                frame.kind == DATA && frame.payload.len() > 40
            });
            connection
        })
        .collect();
    let bodies: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = connect(&server);
            let length = DECLARED as usize;
            let text = head("POST", "/v2/models/dummy/infer", length, &[]);
            stream.write_all(text.as_bytes()).unwrap();
            stream.write_all(b"{").unwrap();
            stream
        })
        .collect();
    Grpc::connect(&server).check_serves();
    growth.check();
    drop((connections, bodies));
}
