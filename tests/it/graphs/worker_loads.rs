//! Imports of handlers that hang: they delay no other graph, and not the end.

use std::{fs, time::Instant};

use super::workers::{AFTER, FINE, SLACK, is_fine};
use crate::support::{
    eventually,
    graphs::{CODE, add_python, code, file, reported},
    grpc::Grpc,
    pipelines::{Config, is_ready},
};

#[test]
fn an_import_that_never_ends_holds_up_neither_others_nor_the_end() {
    let mut config = Config::of(&[]);
    add_python(&mut config, "other", CODE);
    add_python(
        &mut config,
        "stuck",
        "import time\nwhile True: time.sleep(1000)\n",
    );
    let mut server = config.begin(&["--shutdown_timeout_seconds=1"]);
    server.wait_log("gRPC listens");
    let client = Grpc::connect(&server);
    eventually("the other one serves", || {
        client.infer(code("other", FINE)).ok()
    });
    let asked = Instant::now();
    server.signal("TERM");
    server.wait();
    // There is no request to wait for.
    let took = asked.elapsed();
    assert!(took < AFTER + SLACK, "{took:?}");
}

#[test]
fn imports_that_hang_delay_no_other_graph() {
    const STUCK: &str = "import time\nwhile True: time.sleep(1000)\n";
    let mut config = Config::of(&[]);
    // More than load at once.
    let stuck: Vec<String> = (0..9).map(|number| format!("stuck{number}")).collect();
    for name in &stuck {
        add_python(&mut config, name, CODE);
    }
    let last = add_python(&mut config, "zero", CODE);
    let mut server = config.serve_with(&[
        "--file_system_poll_wait_seconds",
        "1",
        "--shutdown_timeout_seconds=1",
    ]);
    let client = Grpc::connect(&server);
    for name in &stuck {
        file(&config, &format!("{name}/handler.py"), STUCK);
    }
    server.wait_log("Mediapipe: stuck8 state changed to: RELOADING");
    // What serves goes on, and the watcher with what comes next.
    is_fine(&client, "stuck0");
    let changed = |state: &str| {
        CODE.replace(
            "(self, inputs, None)",
            &format!("(self, inputs, {state:?})"),
        )
    };
    let state = "return [Tensor('out', str(state).encode())]";
    fs::write(&last, changed("new")).unwrap();
    eventually("another one that was saved is loaded", || {
        (reported(&client, code("zero", state)) == "out UINT8 [3] new").then_some(())
    });
    // One that hangs is left for what is saved next.
    file(&config, "stuck3/handler.py", &changed("fixed"));
    eventually("it is fixed", || {
        (reported(&client, code("stuck3", state)) == "out UINT8 [5] fixed").then_some(())
    });
    server
        .wait_log("Python worker was killed: another load has taken its place of=\"graph stuck3\"");
    for name in stuck.iter().filter(|name| *name != "stuck3") {
        is_fine(&client, name);
        assert!(is_ready(&server, &client, name), "{name}");
    }
    let asked = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    let took = asked.elapsed();
    assert!(took < AFTER + SLACK, "{took:?}");
}

#[test]
fn imports_that_hang_at_the_start_delay_no_other_graph() {
    let mut config = Config::of(&[]);
    for name in ["a", "b", "c"] {
        add_python(
            &mut config,
            name,
            "import time\nwhile True: time.sleep(1000)\n",
        );
    }
    add_python(&mut config, "other", CODE);
    let mut server = config.begin(&["--shutdown_timeout_seconds=1", "--graph_load_seconds=6"]);
    server.wait_log("gRPC listens");
    let client = Grpc::connect(&server);
    eventually("the other one serves", || {
        client.infer(code("other", FINE)).ok()
    });
    assert!(is_ready(&server, &client, "other"));
    assert!(!is_ready(&server, &client, "a"));
    for name in ["a", "b", "c"] {
        let text = format!(
            "Python worker was killed: its handler has not loaded within 6s of=\"graph {name}\""
        );
        server.wait_log(&text);
    }
    server.wait_ready();
    let asked = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    let took = asked.elapsed();
    assert!(took < AFTER + SLACK, "{took:?}");
}
