//! Open connections of clients do not delay the shutdown.

use std::{
    io::{Read as _, Write as _},
    thread::sleep,
    time::{Duration, Instant},
};

use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{
    Server,
    grpc::Grpc,
    http::{connect, exchange, head, read},
    thread,
};

/// Time limit of a shutdown with nothing to wait for, on a machine busy with other tests; far
/// below the configured limit, and below that of a refused client that goes on sending.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn clients_that_stay_do_not_hold_up_the_stop_and_watchers_hear_of_it() {
    let mut server = Server::start("dummy");
    // One that watches the health.
    let grpc = Grpc::connect(&server);
    let mut health = HealthClient::new(grpc.channel.clone());
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let watch = async { health.watch(request).await.unwrap().into_inner() };
    let mut watch = grpc.runtime.block_on(watch);
    let mut next = || grpc.runtime.block_on(watch.message());
    assert_eq!(next().unwrap().unwrap().status().as_str_name(), "SERVING");
    // Half a head after a request.
    let mut stream = connect(&server);
    let request = head("GET", "/v2", 0, &[]);
    assert_eq!(exchange(&mut stream, &request, b"").status, 200);
    let half = b"POST /v2/models/dummy/infer HTTP/1.1\r\nHost: te";
    stream.write_all(half).unwrap();
    // Answered after the half head has been sent, so that the server has most likely seen that.
    let mut other = connect(&server);
    assert_eq!(exchange(&mut other, &request, b"").status, 200);
    // One that was refused, and goes on sending.
    let mut refused = connect(&server);
    refused.write_all(b"\0\r\n\r\n").unwrap();
    assert_eq!(read(&mut refused).status, 400);
    let sends = thread(move || {
        while refused.write_all(b"x").is_ok() {
            sleep(Duration::from_millis(20));
        }
    });
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(
        next().unwrap().unwrap().status().as_str_name(),
        "NOT_SERVING"
    );
    assert!(matches!(next(), Ok(None)), "the stream is ended, not cut");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    assert_eq!(
        stream.read(&mut [0]).unwrap_or(0),
        0,
        "the connection is closed"
    );
    sends.join().unwrap();
}
