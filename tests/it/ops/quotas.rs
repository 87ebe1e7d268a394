//! Limits of clients, by identity and by address, and priorities.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use ovms::proto::kserve::{InferParameter, infer_parameter::ParameterChoice};
use serde_json::json;
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use crate::support::{
    Server, busy, cli, eventually, fixture,
    graphs::{self, LIST, PASS},
    grpc::{self, Grpc, dummy},
    http::{Answer, JSON_LENGTH, connect, exchange, get, head, read, send},
    model,
    pipelines::Config,
    sequence::{Ask, Client, Wire},
    streams::{Came, Talk},
};

use super::{
    BODY, INFER,
    identities::{bearer, identity, key, sha256},
};

/// A rate that no second of these tests gives another request.
const ONE_IN_A_WHILE: &str = "requests-per-second=0.01,burst=2";

fn limited(model: &str, limits: &str) -> Server {
    Server::start_with(model, &["--client-limits", limits, "--metrics_enable"])
}

fn infer(server: &Server, headers: &[(&str, &str)]) -> Answer {
    send(server, "POST", INFER, headers, BODY)
}

/// Returns what the page of figures counts for a limit.
fn refused(server: &Server, limit: &str) -> u64 {
    let page = get(server, "/metrics").text();
    let line = format!("ovms_requests_limited{{identity=\"\",limit=\"{limit}\"}} ");
    let mut lines = page.lines();
    let value = lines.find_map(|it| it.strip_prefix(&line));
    value
        .unwrap_or_else(|| panic!("{line}: {page}"))
        .parse()
        .unwrap()
}

fn metadata(status: &Status, name: &str) -> Option<u64> {
    status.metadata().get(name)?.to_str().ok()?.parse().ok()
}

#[test]
fn an_address_has_its_rate_over_both_protocols() {
    let server = limited("dummy", ONE_IN_A_WHILE);
    let mut connection = connect(&server);
    let mut ask = || {
        let head = head("POST", INFER, BODY.len(), &[]);
        exchange(&mut connection, &head, BODY)
    };
    assert_eq!(ask().status, 200);
    let grpc = Grpc::connect(&server);
    grpc.answered(dummy());
    let begun = Instant::now();
    let answer = ask();
    assert_eq!(answer.status, 429);
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((90..=100).contains(&seconds), "{seconds}");
    let error = answer.error();
    let begin = "429: Too many requests - the limit of 127.0.0.1 is 0.01 requests/s; try again in ";
    assert!(
        error.starts_with(begin) && error.ends_with(" ms"),
        "{error}"
    );
    let status = grpc.infer(dummy()).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!((90..=100).contains(&metadata(&status, "retry-after").unwrap()));
    let pushback = metadata(&status, "grpc-retry-pushback-ms").unwrap();
    assert!((90_000..=100_000).contains(&pushback), "{pushback}");
    // The first refusal is answered at once, and others late.
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // A connection stays open when its request is refused.
    assert_eq!(ask().status, 429);
    // Metadata and other APIs count, probes and figures do not.
    assert_eq!(get(&server, "/v2/models/dummy").status, 429);
    let predict = br#"{"instances":[[0,1,2,3,4,5,6,7,8,9]]}"#;
    let answer = send(&server, "POST", "/v1/models/dummy:predict", &[], predict);
    assert_eq!(answer.status, 429);
    for _ in 0..3 {
        assert_eq!(get(&server, "/v2/health/ready").status, 200);
        grpc.round_trip();
    }
    assert!(refused(&server, "requests_per_second") >= 4);
    assert_eq!(refused(&server, "streams"), 0);
}

#[test]
fn each_identity_has_its_own_limits() {
    let limits = "[limits]\nrequests_per_second = 0.01\nburst = 2\n";
    let free = "infer = [\"*\"]\nlimits = {}";
    let auth = [
        limits.to_owned(),
        identity("one", "infer = [\"*\"]"),
        format!(
            "[[identity]]\nname = \"two\"\nkeys = [\"{}\", \"{}\"]\ninfer = [\"*\"]\n",
            sha256(&key("two")),
            sha256(&key("deux"))
        ),
        identity("free", free),
        identity("scraper", "metrics = true"),
    ];
    let guarded = super::identities::Guarded::with(
        &auth.concat(),
        &["--metrics_enable", "--file_system_poll_wait_seconds", "1"],
    );
    let server = &guarded.server;
    let ask = |name: &str| infer(server, &[("authorization", &bearer(name))]).status;
    assert_eq!([ask("one"), ask("one"), ask("one")], [200, 200, 429]);
    // All keys of an identity are one client.
    assert_eq!([ask("two"), ask("deux"), ask("two")], [200, 200, 429]);
    assert!((0..10).all(|_| ask("free") == 200));
    let header = [("authorization", &*bearer("scraper"))];
    for _ in 0..4 {
        assert_eq!(send(server, "GET", "/metrics", &header, b"").status, 200);
    }
    // A connection that is open has the new limits with its next request.
    let mut connection = connect(server);
    let mut again = || {
        let head = head(
            "POST",
            INFER,
            BODY.len(),
            &[("authorization", &bearer("two"))],
        );
        exchange(&mut connection, &head, BODY).status
    };
    let _ = again();
    guarded.rewrite(&identity(
        "two",
        "infer = [\"*\"]\nlimits = { requests_per_second = 1000 }",
    ));
    server.wait_log("rights are those of");
    assert!((0..10).all(|_| again() == 200));
}

#[test]
fn requests_in_flight_and_streams_are_bounded() {
    let mut config = Config::of(&["dummy"]);
    let busy = config.model("busy", &model("busy"));
    busy["plugin_config"] = busy::PLUGIN_CONFIG.parse().unwrap();
    busy["nireq"] = json!(1);
    let streamer = json!({"name": "streamer", "base_path": fixture("graphs/streamer")});
    config.json[LIST] = json!([streamer]);
    let pooled = format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n{PASS}");
    graphs::add(&mut config, "pooled", &pooled);
    let limits = ["--client-limits", "streams=1,concurrent_requests=1"];
    let server = config.serve_with(&limits);
    requests_in_flight_are_bounded(&server);
    a_pooled_graph_counts_for_nobody_between_requests(&server);
    a_request_whose_client_has_left_counts_until_its_inference_ends(&server);
    streams_are_bounded(&server);
}

fn requests_in_flight_are_bounded(server: &Server) {
    let head = head("POST", INFER, BODY.len(), &[("connection", "close")]);
    let open = || {
        let mut slow = connect(server);
        slow.write_all(head.as_bytes()).unwrap();
        slow
    };
    let mut slow = open();
    let refusal = eventually("the first is in flight", || {
        let answer = infer(server, &[]);
        // Which of the two the server reads first is for the network to say.
        slow.set_nonblocking(true).unwrap();
        let is_refused = slow.peek(&mut [0]).is_ok();
        slow.set_nonblocking(false).unwrap();
        if is_refused {
            slow = open();
        }
        (answer.status == 429 && !is_refused).then_some(answer)
    });
    insta::assert_snapshot!(refusal.error(), @"429: Too many requests - the limit of 127.0.0.1 is 1 requests in flight; try again in 100 ms");
    slow.write_all(BODY).unwrap();
    assert_eq!(read(&mut slow).status, 200);
    eventually("it is over", || {
        (infer(server, &[]).status == 200).then_some(())
    });
}

fn a_pooled_graph_counts_for_nobody_between_requests(server: &Server) {
    let grpc = Grpc::connect(server);
    for _ in 0..3 {
        grpc.infer(grpc::raw("pooled", "in", "UINT8", &[1], b"x"))
            .unwrap();
        assert_eq!(infer(server, &[]).status, 200);
    }
}

fn a_request_whose_client_has_left_counts_until_its_inference_ends(server: &Server) {
    let grpc = Grpc::connect(server);
    drop(busy::running(server, &grpc, busy::SECONDS));
    let refused = grpc.refused(busy::request(1));
    assert!(refused.contains("is 1 requests in flight"), "{refused}");
    eventually("it has ended", || grpc.infer(busy::request(1)).ok());
}

fn bytes_in_flight_are_bounded(server: &Server) {
    let large = vec![b' '; 100_000];
    let answer = send(server, "POST", INFER, &[], &large);
    insta::assert_snapshot!(answer.error(), @"413: Request is too large - the limit of 127.0.0.1 is 65536 bytes in flight; send less at once");
    assert_eq!(answer.header("retry-after"), None);
    let grpc = Grpc::connect(server);
    let mut message = dummy();
    message.raw_input_contents[0] = large.into();
    insta::assert_snapshot!(grpc.refused(message), @"ResourceExhausted: Request is too large - the limit of 127.0.0.1 is 65536 bytes in flight; send less at once");
    // What an image becomes counts as well, before it is decoded.
    let image = image::RgbImage::new(300, 300);
    let mut file = std::io::Cursor::new(Vec::new());
    image.write_to(&mut file, image::ImageFormat::Png).unwrap();
    let file = file.into_inner();
    assert!(file.len() < 10_000);
    let length = u32::try_from(file.len()).unwrap().to_le_bytes();
    let of_image = grpc::raw(
        "image_any",
        "image",
        "BYTES",
        &[1],
        &[&length, &*file].concat(),
    );
    let refused_image = grpc.refused(of_image);
    assert!(
        refused_image.contains("is 65536 bytes in flight"),
        "{refused_image}"
    );
    // Over and over: what is refused leaves nothing behind.
    for _ in 0..20 {
        grpc.answered(dummy());
        assert_eq!(infer(server, &[]).status, 200);
    }
    assert!(refused(server, "bytes_in_flight") >= 2);
}

#[test]
fn messages_of_streams_come_at_the_rate() {
    let server = limited("dummy", "requests_per_second=20,burst=5");
    let grpc = Grpc::connect(&server);
    let mut stream = Talk::open(&grpc);
    let begun = Instant::now();
    for _ in 0..10 {
        stream.ask(dummy()).response();
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");

    // So do questions of reflection.
    let question = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..ServerReflectionRequest::default()
    };
    let begun = Instant::now();
    // Its head is counted too, and may come before the next is due.
    let mut answers = eventually("the stream is open", || {
        let mut client = ServerReflectionClient::new(grpc.channel.clone());
        let questions = tokio_stream::iter(vec![question.clone(); 10]);
        let open = async move { client.server_reflection_info(questions).await };
        grpc.wait(open).ok()
    });
    let count = grpc.runtime.block_on(async {
        let mut count = 0;
        while answers.message().await.unwrap().is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(count, 10);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
}

fn streams_are_bounded(server: &Server) {
    let grpc = Grpc::connect(server);
    let mut first = Talk::open(&grpc);
    first.ask(dummy()).response();
    // It is refused before it says anything.
    let mut second = Talk::open(&grpc);
    insta::assert_snapshot!(second.next().reported(), @"end: ResourceExhausted: Too many requests - the limit of 127.0.0.1 is 1 open streams; try again in 100 ms");
    // So is one that watches health.
    let watch = || {
        let mut health = HealthClient::new(grpc.channel.clone());
        grpc.wait(async move { health.watch(HealthCheckRequest::default()).await })
    };
    assert_eq!(watch().unwrap_err().code(), Code::ResourceExhausted);
    // And one of events.
    let path = "/v2/models/streamer/generate_stream";
    let answer = send(server, "POST", path, &[], br#"{"prompt":"hello"}"#);
    insta::assert_snapshot!(answer.error(), @"429: Too many requests - the limit of 127.0.0.1 is 1 open streams; try again in 100 ms");
    // A stream is no request in flight, and leaves room when it ends.
    eventually("the others are over", || grpc.infer(dummy()).ok());
    first.close();
    drop(first);
    eventually("there is room again", || {
        let mut next = Talk::open(&grpc);
        next.try_send(dummy(), Duration::from_secs(30));
        matches!(next.next(), Came::Response(_)).then_some(())
    });
}

#[test]
fn bytes_in_flight_and_sequences_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().display());
    let mut config = Config::of(&["dummy", "image_any"]);
    config.model("running_total", &model("running_total"))["stateful"] = json!(true);
    for more in [&[][..], &["--sequence_store", &store]] {
        let limits = ["--client-limits", "sequences=1,bytes-in-flight=64K"];
        let server = config.serve_with(&[&limits[..], &["--metrics_enable"], more].concat());
        if more.is_empty() {
            bytes_in_flight_are_bounded(&server);
        }
        let client = Client::connect(&server);
        for wire in Wire::ALL {
            let ask = |x| Ask::new("running_total", x);
            assert_eq!(client.total(wire, &ask(1.0).id(5).start()), (5, 1.0));
            let text = "Too many requests - the limit of 127.0.0.1 is 1 live sequences; try again in 100 ms";
            let expected = wire.error(Code::ResourceExhausted, 429, text);
            assert_eq!(client.refused(wire, &ask(1.0).id(6).start()), expected);
            assert_eq!(client.refused(wire, &ask(1.0).start()), expected);
            assert_eq!(client.total(wire, &ask(2.0).id(5)), (5, 3.0));
            // Nor does one begin with a state from elsewhere.
            let path = |id: u64| format!("/v1/models/running_total/sequences/{id}");
            let saved = get(&server, &path(5)).body;
            let restored = send(&server, "PUT", &path(8), &[], &saved);
            assert_eq!(restored.error(), format!("429: {text}"));
            assert_eq!(client.total(wire, &ask(0.0).id(5).end()), (5, 3.0));
            // A start that fails takes no place.
            assert!(!client.refused(wire, &ask(1.0).id(7)).is_empty());
        }
    }
}

#[test]
fn a_request_of_a_higher_priority_does_not_wait_behind_others() {
    let auth = [
        identity("anyone", "infer = [\"*\"]"),
        identity("urgent", "infer = [\"*\"]\nbest_priority = 1"),
        identity("scraper", "metrics = true"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.toml");
    fs::write(&file, auth.concat()).unwrap();
    // So long that nothing gets old enough while the test runs.
    let server = busy::serve(&[
        "--auth",
        file.to_str().unwrap(),
        "--priority-step-ms",
        "600000",
        "--metrics_enable",
    ]);
    let grpc = Grpc::connect(&server);
    let mut sent = 0;
    // Waits until the server has the request as well.
    let mut waits = |call: JoinHandle<Instant>| {
        sent += 1;
        let line = format!("ovms_pending_requests {sent}");
        let header = [("authorization", &*bearer("scraper"))];
        eventually("it waits", || {
            let page = send(&server, "GET", "/metrics", &header, b"").text();
            page.lines().any(|it| it == line).then_some(())
        });
        call
    };
    let over_grpc = |name: &str, metadata: Option<&str>, parameter: Option<i64>| {
        let mut message = busy::request(busy::SECONDS / 4);
        let parameter = parameter.map(|number| InferParameter {
            parameter_choice: Some(ParameterChoice::Int64Param(number)),
        });
        let parameters = parameter.map(|it| ("priority".to_owned(), it));
        message.parameters.extend(parameters);
        let mut request = Request::new(message);
        let headers = request.metadata_mut();
        headers.insert("authorization", bearer(name).parse().unwrap());
        if let Some(priority) = metadata {
            headers.insert("ovms-priority", priority.parse().unwrap());
        }
        let mut client = grpc.client.clone();
        grpc.runtime.spawn(async move {
            client.model_infer(request).await.unwrap();
            Instant::now()
        })
    };
    let over_stream = |name: &str, priority: &str| {
        let mut request = Request::new(futures::stream::iter([busy::request(busy::SECONDS / 4)]));
        let headers = request.metadata_mut();
        headers.insert("authorization", bearer(name).parse().unwrap());
        headers.insert("ovms-priority", priority.parse().unwrap());
        let mut client = grpc.client.clone();
        grpc.runtime.spawn(async move {
            let mut answers = client
                .model_stream_infer(request)
                .await
                .unwrap()
                .into_inner();
            let answer = answers.message().await.unwrap().unwrap();
            assert_eq!(answer.error_message, "");
            Instant::now()
        })
    };
    let over_rest = |name: &str, priority: &'static str| {
        let (length, body) = busy::body(busy::SECONDS / 4);
        let bearer = bearer(name);
        let mut connection = connect(&server);
        grpc.runtime.spawn_blocking(move || {
            let headers = [
                ("authorization", &*bearer),
                ("ovms-priority", priority),
                (JSON_LENGTH, &length),
            ];
            let head = head("POST", "/v2/models/busy/infer", body.len(), &headers);
            assert_eq!(exchange(&mut connection, &head, &body).status, 200);
            Instant::now()
        })
    };
    let calls = [
        ("running", waits(over_grpc("anyone", None, None))),
        ("usual", waits(over_grpc("anyone", None, None))),
        ("pretends", waits(over_grpc("anyone", Some("1"), None))),
        ("low", waits(over_grpc("urgent", None, Some(9)))),
        ("third", waits(over_stream("urgent", "3"))),
        ("second", waits(over_rest("urgent", "2"))),
        ("first", waits(over_grpc("urgent", None, Some(1)))),
    ];
    let order = calls.map(|(name, call)| (grpc.runtime.block_on(call).unwrap(), name));
    let names: Vec<_> = BTreeMap::from(order).into_values().collect();
    let expected = [
        "running", "first", "second", "third", "usual", "pretends", "low",
    ];
    assert_eq!(names, expected);
}

#[test]
fn limits_that_cannot_be_used_end_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let start = |flags: &[&str], auth: &str| {
        let file = folder.path().join("auth.toml");
        fs::write(&file, auth).unwrap();
        let mut command = cli::command();
        command.args(["serve", "--model-name", "dummy", "--model-path"]);
        command.arg(model("dummy")).args(flags);
        command
            .arg("--grpc-unix-socket")
            .arg(folder.path().join("socket"));
        if !auth.is_empty() {
            command.arg("--auth").arg(&file);
        }
        let failure = cli::run(&mut command).failure();
        failure.replace(&folder.path().display().to_string(), "FOLDER")
    };
    insta::assert_snapshot!(start(&["--client-limits", "stream=3"], ""), @r#"
    exit 64
    client_limits has invalid format: there is no limit `stream`; expected one of requests_per_second, burst, concurrent_requests, bytes_in_flight, streams, sequences
    "#);
    insta::assert_snapshot!(start(&["--client-limits", "requests-per-second=0"], ""), @r#"
    exit 64
    client_limits has invalid format: requests_per_second: expected requests in a second: a number from 0.001 to 1000000, got `0`
    "#);
    let rights = "infer = [\"*\"]\npriority = 3\nbest_priority = 4\nlimits = { burst = 3 }";
    insta::assert_snapshot!(start(&[], &identity("a", rights)), @r#"
    exit 1
    error: cannot use --auth FOLDER/auth.toml
      FOLDER/auth.toml:6:17: best_priority is behind priority, which is 3: nothing could have it
      FOLDER/auth.toml:7:10: burst needs requests_per_second
    "#);
    let rights = "infer = [\"*\"]\npriority = 11\nlimits = { bytes_in_flight = \"64 M\" }";
    insta::assert_snapshot!(start(&[], &identity("a", rights)), @r#"
    exit 1
    error: cannot use --auth FOLDER/auth.toml
      FOLDER/auth.toml:6:30: expected bytes: a whole number above 0, with an optional unit K, M, or G (powers of 1024)
    "#);
}
