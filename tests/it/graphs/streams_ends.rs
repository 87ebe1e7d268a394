//! Ends of streams to graphs: by errors, by clients that leave or stall, by reloads and by shutdowns;
//! and their effect on others.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use ovms::proto::kserve::ModelInferRequest;
use serde_json::json;

use super::shared::{self, add_code, add_generator};
use crate::support::{
    eventually,
    graphs::{
        CODE, LIST, PASS, PYTHON, add, add_python, at, code, failed, generative, graph, next, node,
        reload, reported, rest,
    },
    grpc::{Grpc, input, raw},
    http::{get, post},
    pipelines::{Config, lines, wait_lines},
    repository,
    server::memory,
    streams::{Came, Talk},
};

const OK: &str = "end: Ok: ";
const STOPPED: &str = "end: Unavailable: Server is shutting down";

fn byte(graph: &str, byte: u8) -> ModelInferRequest {
    raw(graph, "in", "UINT8", &[1], &[byte])
}

/// Configures a generating graph `gen` and a plain one `py`.
fn lab() -> Config {
    let mut config = Config::of(&["dummy"]);
    add_code(&mut config, "py", &[]);
    add_generator(&mut config, "gen");
    config
}

/// Returns code that yields forever and counts in a file; its end is recorded there as well.
fn endless(log: &Path, pause: &str) -> String {
    format!(
        "log = open({log:?}, 'a', buffering=1)\ntry:\n  while True:\n    log.write('set\\n')\n    {pause}\n    yield [Tensor('out', b'x' * 1000)]\nexcept GeneratorExit:\n  log.write('closed\\n')\n  raise\n"
    )
}

#[test]
fn a_error_ends_its_stream_at_once_and_no_other() {
    let (_, client) = shared::connect();
    let good = |text: &str| code("py", &format!("return [Tensor('out', b'{text}')]"));
    let mut talks: Vec<Talk<'_>> = (0..100).map(|_| Talk::open(&client)).collect();
    for talk in &mut talks {
        talk.send(good("a"));
        assert_eq!(next(talk), "0: out UINT8 [1] a");
    }
    // Without another message of the client, and behind what came before.
    let failing = &mut talks[50];
    failing.send(good("b"));
    failing.send(code("py", "raise ValueError('bad \\ud800 data')"));
    assert_eq!(next(failing), "1: out UINT8 [1] b");
    let end = next(failing);
    assert!(
        end.starts_with(&format!(
            "end: InvalidArgument: {} - ValueError: bad ",
            failed("py")
        )),
        "{end}"
    );
    talks.remove(50);
    for mut talk in talks {
        talk.send(good("c"));
        assert_eq!(next(&mut talk), "1: out UINT8 [1] c");
        assert_eq!(rest(talk), [OK]);
    }
    assert_eq!(reported(&client, good("d")), "out UINT8 [1] d");
    // An error in the middle of many requests that nobody has answered yet.
    let talk = Talk::open(&client);
    for _ in 0..5 {
        talk.send(good("e"));
    }
    talk.send(code("py", "sys.exit(1)"));
    let came = rest(talk);
    assert_eq!(came.len(), 6, "{came:?}");
    assert_eq!(
        came[5],
        format!("end: InvalidArgument: {} - SystemExit: 1", failed("py"))
    );
}

#[test]
fn ten_thousand_requests_on_one_stream() {
    const COUNT: i64 = 10_000;
    let (_, client) = shared::connect();
    let mut talk = Talk::open(&client);
    let mut sent = 0;
    for expected in 0..COUNT {
        while sent < COUNT && sent < expected + 50 {
            talk.send(code("py", "return [Tensor('out', b'x')]"));
            sent += 1;
        }
        match talk.next() {
            Came::Response(response) => {
                assert_eq!(crate::support::graphs::time(&response), expected);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rest(talk), [OK]);
}

#[test]
fn a_generator_without_an_end_stops_when_its_client_leaves() {
    let (_, client) = shared::connect();
    let folder = repository::folder();
    for (name, pause) in [("quick", "pass"), ("slow", "time.sleep(0.01)")] {
        let log = folder.path().join(name);
        let mut talk = Talk::open(&client);
        talk.send(code("gen", &endless(&log, pause)));
        talk.next().response();
        talk.next().response();
        drop(talk);
        let left = Instant::now();
        wait_lines(&log, "closed", 1);
        assert!(
            left.elapsed() < Duration::from_secs(5),
            "{:?}",
            left.elapsed()
        );
        let sets = lines(&log, "set").len();
        assert_eq!(
            reported(&client, code("py", "return [Tensor('out', b'a')]")),
            "out UINT8 [1] a"
        );
        assert_eq!(lines(&log, "set").len(), sets, "it is over");
        assert_eq!(lines(&log, "closed").len(), 1);
    }
    // A unary client that leaves a slow one.
    let log = folder.path().join("unary");
    let call = client.call(code("gen", &format!("open({log:?}, 'a').write('begun\\n')\ntry:\n  while True:\n    time.sleep(0.01)\n    yield []\nfinally:\n  open({log:?}, 'a').write('closed\\n')")));
    wait_lines(&log, "begun", 1);
    drop(call);
    wait_lines(&log, "closed", 1);
    // One that half-closes waits for all of it.
    let mut talk = Talk::open(&client);
    talk.send(code("gen", &endless(&folder.path().join("half"), "pass")));
    talk.close();
    for _ in 0..1000 {
        talk.next().response();
    }
}

#[test]
fn a_generator_that_does_not_end_when_its_client_leaves_ends_its_worker() {
    let (server, client) = shared::connect();
    let folder = repository::folder();
    let worker = || {
        let text = reported(
            &client,
            code("stuck", "yield [Tensor('out', str(os.getpid()).encode())]"),
        );
        text.rsplit(' ').next().map(str::to_owned)
    };
    let before = worker();
    // One that ends in time, although its client has left, ends nothing else.
    let log = folder.path().join("calm");
    let brief = format!(
        "open({log:?}, 'a').write('begun\\n')\ntry:\n  while True:\n    yield [Tensor('out', b'x')]\nfinally:\n  time.sleep(0.1)\n  open({log:?}, 'a').write('closed\\n')"
    );
    let mut talk = Talk::open(&client);
    talk.send(code("stuck", &brief));
    talk.next().response();
    drop(talk);
    wait_lines(&log, "closed", 1);
    assert_eq!(worker(), before);
    let log = folder.path().join("stuck");
    let stuck = format!(
        "yield [Tensor('out', b'first')]\nopen({log:?}, 'a').write('begun\\n')\ntime.sleep(1000)"
    );
    let mut talk = Talk::open(&client);
    talk.send(code("stuck", &stuck));
    assert_eq!(next(&mut talk), "0: out UINT8 [5] first");
    wait_lines(&log, "begun", 1);
    drop(talk);
    let of = "of=\"graph stuck\"";
    server.wait_log(&format!(
        "Python worker was killed after 500 ms (python_timeout_ms) {of}"
    ));
    server.wait_log(&format!(
        "Python worker has restarted, with its handlers {of}"
    ));
    let mut talk = Talk::open(&client);
    talk.send(code("stuck", "yield [Tensor('out', b'a')]"));
    assert_eq!(next(&mut talk), "0: out UINT8 [1] a");
    assert_ne!(worker(), before);
}

#[test]
fn a_reader_that_stalls_costs_bounded_memory_and_holds_up_nobody() {
    let config = lab();
    let server = config.serve();
    let client = Grpc::connect(&server);
    let body = "for n in range(400):\n  yield [Tensor('out', bytes(1 << 20))]";
    let log = config.beside("log");
    let counted = format!(
        "log = open({log:?}, 'a', buffering=1)\nfor n in range(400):\n  log.write('set\\n')\n  yield [Tensor('out', bytes(1 << 20))]"
    );
    let mut first = Talk::open(&client);
    first.send(code("gen", body));
    first.next().response();
    drop(first);
    let before = memory(&server, "VmRSS:");
    let mut talk = Talk::open(&client);
    talk.send(code("gen", &counted));
    wait_lines(&log, "set", 1);
    let mut sets = 0;
    // Nothing is read: it comes to a stop by itself.
    let mut since = Instant::now();
    eventually("it stalls", || {
        let now = lines(&log, "set").len();
        if now != sets {
            (sets, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_millis(300)).then_some(())
    });
    assert!(sets < 40, "{sets} MiB were made and nothing was read");
    let grown = memory(&server, "VmRSS:").saturating_sub(before);
    assert!(grown < 150 << 20, "the server grew by {grown} bytes");
    // Others get on meanwhile, over the same connection and over another.
    let other = Grpc::connect(&server);
    assert_eq!(
        reported(&other, code("py", "return [Tensor('out', b'a')]")),
        "out UINT8 [1] a"
    );
    assert_eq!(
        reported(&other, code("gen", "yield [Tensor('out', b'a')]")),
        "out UINT8 [1] a"
    );
    other.check_serves();
    for _ in 0..400 {
        talk.next().response();
    }
    assert_eq!(rest(talk), [OK]);
    assert_eq!(lines(&log, "set").len(), 400);
}

#[test]
fn one_input_does_not_pile_up_while_another_is_missing() {
    let mut config = Config::of(&[]);
    let pass = node("PassThroughCalculator", "A:a B:b", "A:c B:d", "");
    let two = graph(
        "OVTENSOR_A:a OVTENSOR_B:b",
        "OVTENSOR_A:c OVTENSOR_B:d",
        &[pass],
    );
    add(&mut config, "two", &two);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let before = memory(&server, "VmRSS:");
    let mut talk = Talk::open(&client);
    // 4 MiB each; 64 MiB may wait.
    let large = raw("two", "a", "UINT8", &[4 << 20], &vec![0; 4 << 20]);
    let mut sent = 0;
    while sent < 100 && talk.try_send(large.clone(), Duration::from_secs(5)) {
        sent += 1;
    }
    let ends = next(&mut talk);
    assert!(
        ends.starts_with(
            "end: InvalidArgument: Mediapipe execution failed. MP status - RESOURCE_EXHAUSTED"
        ) && ends.contains("More than 64 MiB wait for other streams"),
        "{ends}"
    );
    let grown = memory(&server, "VmRSS:").saturating_sub(before);
    assert!(grown < 300 << 20, "the server grew by {grown} bytes");
    client_is_served(&client);
}

/// Checks that a request with both inputs is answered.
fn client_is_served(client: &Grpc) {
    let mut request = raw("two", "a", "UINT8", &[1], &[7]);
    request.inputs.push(input("b", "UINT8", &[1]));
    request.raw_input_contents.push(vec![8].into());
    assert_eq!(client.answered(request).outputs.len(), 2);
}

/// Returns a handler that reports its version, and logs its life cycle.
fn witness(version: &str, log: &Path) -> String {
    format!(
        r#"{CODE}
    def finalize(self):
        open({log:?}, "a").write("end {version}\n")
VERSION = b"{version}"
open({log:?}, "a").write("begin {version}\n")
"#
    )
}

const VERSION: &str = "return [Tensor('out', VERSION)]";

#[test]
fn streams_outlive_the_reload_of_their_graph() {
    let mut config = Config::of(&[]);
    let log = config.beside("log");
    let path = add_python(&mut config, "py", &witness("old", &log));
    add(&mut config, "keep", PASS);
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    let mut old: Vec<Talk<'_>> = (0..3).map(|_| Talk::open(&client)).collect();
    for talk in &mut old {
        talk.send(code("py", VERSION));
        assert_eq!(next(talk), "0: out UINT8 [3] old");
    }
    fs::write(&path, witness("new", &log)).unwrap();
    assert_eq!(reload(&server), 201);
    let mut new = Talk::open(&client);
    new.send(code("py", VERSION));
    assert_eq!(next(&mut new), "0: out UINT8 [3] new");
    // Not listed any more: what is open goes on, and nothing else is opened.
    let entry = config.remove(LIST, "py");
    assert_eq!(config.reload(&server), "201");
    assert_eq!(
        reported(&client, code("py", VERSION)),
        "NotFound: Mediapipe is retired"
    );
    let mut late = Talk::open(&client);
    late.send(code("py", VERSION));
    assert_eq!(next(&mut late), "end: NotFound: Mediapipe is retired");
    new.send(code("py", VERSION));
    assert_eq!(next(&mut new), "1: out UINT8 [3] new");
    for talk in &mut old {
        talk.send(code("py", VERSION));
        assert_eq!(next(talk), "1: out UINT8 [3] old");
    }
    assert_eq!(lines(&log, "end"), [""; 0]);
    // The last that ends takes the object with it, whatever its end.
    assert_eq!(rest(old.remove(0)), [OK]);
    drop(old.remove(0));
    let last = old.remove(0);
    last.send(code("py", "raise ValueError"));
    assert!(rest(last)[0].contains("ValueError"));
    wait_lines(&log, "end old", 1);
    assert_eq!(lines(&log, "end new"), [""; 0]);
    assert_eq!(rest(new), [OK]);
    wait_lines(&log, "end new", 1);
    config.put(LIST, entry);
    assert_eq!(config.reload(&server), "201");
    assert_eq!(reported(&client, code("py", VERSION)), "out UINT8 [3] new");
    // A stop ends what is open and finalizes, once.
    let mut open = Talk::open(&client);
    open.send(code("py", VERSION));
    next(&mut open);
    server.signal("TERM");
    assert_eq!(next(&mut open), STOPPED);
    assert!(server.wait().success());
    let all = fs::read_to_string(&log).unwrap();
    let reported: Vec<&str> = all.lines().collect();
    assert_eq!(
        reported,
        [
            "begin old",
            "begin new",
            "end old",
            "end new",
            "begin new",
            "end new"
        ]
    );
}

#[test]
fn a_stop_ends_generators_and_stalled_readers() {
    let mut config = lab();
    let log = config.beside("log");
    let path = add_python(&mut config, "seen", "");
    fs::write(path.with_file_name("graph.pbtxt"), generative(PYTHON)).unwrap();
    fs::write(&path, witness("it", &log)).unwrap();
    let mut server = config.serve_with(&["--shutdown_timeout_seconds", "2"]);
    let client = Grpc::connect(&server);
    let other = Grpc::connect(&server);
    let mut read = Talk::open(&client);
    read.send(code(
        "seen",
        &endless(&config.beside("a"), "time.sleep(0.01)"),
    ));
    read.next().response();
    let stalled = Talk::open(&other);
    stalled.send(code("seen", &endless(&config.beside("b"), "pass")));
    wait_lines(&config.beside("b"), "set", 10);
    let since = Instant::now();
    server.signal("TERM");
    let end = loop {
        match read.next() {
            Came::Response(_) => {}
            other => break other.reported(),
        }
    };
    assert_eq!(end, STOPPED);
    assert!(server.wait().success(), "{}", server.log());
    assert!(
        since.elapsed() < Duration::from_secs(12),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(lines(&log, "end it").len(), 1);
    for name in ["a", "b"] {
        assert_eq!(lines(&config.beside(name), "closed").len(), 1, "{name}");
    }
}

#[test]
fn a_stop_hears_finite_generators_out_and_ends_the_others() {
    let config = lab();
    let mut server = config.serve_with(&["--shutdown_timeout_seconds", "60"]);
    let client = Grpc::connect(&server);
    let log = config.beside("log");
    let go = config.beside("go");
    let finite = format!(
        "for n in range(3):\n  while n and not os.path.exists({go:?}): time.sleep(0.01)\n  yield [Tensor('out', b'%d' % n)]"
    );
    let (mut open, mut closed, mut whole) = (
        Talk::open(&client),
        Talk::open(&client),
        Talk::open(&client),
    );
    open.send(code("gen", &endless(&log, "time.sleep(0.01)")));
    closed.send(code("gen", &endless(&log, "pass")));
    whole.send(code("gen", &finite));
    for talk in [&mut open, &mut closed, &mut whole] {
        talk.next().response();
    }
    // The end of the requests of the first comes late. The other two want more than they are given.
    let two = finite.replace("range(3)", "range(2)");
    let mut late: Vec<Talk<'_>> = (0..3).map(|_| Talk::open(&client)).collect();
    for talk in &mut late {
        talk.send(code("gen", &two));
        talk.next().response();
    }
    // What these have asked for is all that they want.
    closed.close_heard();
    whole.close_heard();
    let since = Instant::now();
    server.signal("TERM");
    server.wait_log("stopping; waiting for the requests in flight");
    late[0].close_heard();
    late[1].send(code("gen", &two));
    late[1].close_heard();
    fs::write(&go, "").unwrap();
    for n in 1..3 {
        assert_eq!(next(&mut whole), format!("{n}: out UINT8 [1] {n}"));
    }
    assert_eq!(next(&mut whole), OK);
    for (mut talk, end) in late.into_iter().zip([OK, STOPPED, STOPPED]) {
        assert_eq!(next(&mut talk), "1: out UINT8 [1] 1");
        assert_eq!(next(&mut talk), end);
    }
    // These lack something.
    for mut talk in [open, closed] {
        let end = loop {
            match talk.next() {
                Came::Response(_) => {}
                other => break other.reported(),
            }
        };
        assert_eq!(end, STOPPED);
    }
    assert!(server.wait().success(), "{}", server.log());
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    assert!(!server.log().contains("the shutdown timeout has passed"));
    assert_eq!(lines(&log, "closed").len(), 2);
}

#[test]
fn others_are_answered_while_handlers_sleep_and_compute() {
    let (server, client) = shared::connect();
    let folder = repository::folder();
    let go = folder.path().join("go");
    let begun = folder.path().join("begun");
    let sleeps = format!(
        "open({begun:?}, 'a').write('sleeps\\n')\nwhile not os.path.exists({go:?}): time.sleep(0.1)\nreturn [Tensor('out', b'slept')]"
    );
    let computes = format!(
        "open({begun:?}, 'a').write('computes\\n')\nn = 0\nwhile n % 10000 or not os.path.exists({go:?}): n += 1\nreturn [Tensor('out', b'computed')]"
    );
    let calls = [
        client.call(code("works", &sleeps)),
        client.call(code("works", &computes)),
    ];
    wait_lines(&begun, "sleeps", 1);
    wait_lines(&begun, "computes", 1);
    let elsewhere = Grpc::connect(server);
    let mut talk = Talk::open(&elsewhere);
    for _ in 0..3 {
        let since = Instant::now();
        assert_eq!(get(server, "/v2/health/ready").status, 200);
        assert_eq!(get(server, "/v2/models/works").status, 200);
        elsewhere.check_serves();
        assert_eq!(
            reported(&elsewhere, code("py", "return [Tensor('out', b'a')]")),
            "out UINT8 [1] a"
        );
        assert_eq!(
            reported(&elsewhere, code("works", "return [Tensor('out', b'a')]")),
            "out UINT8 [1] a"
        );
        talk.send(code("gen", "return [Tensor('out', b'a')]"));
        talk.next().response();
        // Each takes milliseconds; this is for machines that are busy.
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "{:?}",
            since.elapsed()
        );
    }
    assert!(calls.iter().all(|call| !call.is_answered()));
    fs::write(&go, "").unwrap();
    for (call, text) in calls.into_iter().zip(["slept", "computed"]) {
        assert_eq!(
            call.wait().unwrap().raw_output_contents[0].as_ref(),
            text.as_bytes()
        );
    }
    // A client that leaves a handler that sleeps: it goes on, and nobody waits for it.
    let since = Instant::now();
    drop(client.call(code("works", "time.sleep(1)\nreturn []")));
    assert_eq!(
        reported(&client, code("works", "return [Tensor('out', b'a')]")),
        "out UINT8 [1] a"
    );
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn times_of_one_stream_are_not_those_of_another() {
    let (server, client) = shared::connect();
    let (mut one, mut two) = (Talk::open(&client), Talk::open(&client));
    one.send(at(100, byte("pass", b'a')));
    assert_eq!(next(&mut one), "100: out UINT8 [1] a");
    two.send(byte("pass", b'b'));
    assert_eq!(next(&mut two), "0: out UINT8 [1] b");
    one.send(byte("pass", b'c'));
    assert_eq!(next(&mut one), "101: out UINT8 [1] c");
    let rest_of = |talk| assert_eq!(rest(talk), [OK]);
    rest_of(one);
    rest_of(two);
    // Requests over REST know no streams.
    let body = json!({"inputs": [{"name": "in", "shape": [1], "datatype": "UINT8", "data": [7]}]});
    let answer = post(server, "/v2/models/pass/infer", body.to_string().as_bytes());
    assert_eq!(answer.json()["outputs"][0]["data"], json!([7]));
}
