//! Ends of workers: what clients, the log, and the check say of them.

use std::fs;

use serde_json::json;

use super::{
    generate::add_text,
    shared::{self, set_options},
    workers::{FINE, config_with, is_fine},
};
use crate::support::{
    Server, cli, eventually,
    graphs::{CODE, PYTHON, add, add_python, code, file, generative, reported},
    grpc::Grpc,
    http::post,
    pipelines::{Config, is_ready},
};

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    add_text(config, "rest_gen", &generative(PYTHON));
    add_text(config, "rest_py", PYTHON);
    set_options(config, "rest_py", &[("python_timeout_ms", 500.into())]);
    add(config, "meant", PYTHON);
    file(config, "meant/handlr.py", CODE);
}

#[test]
fn a_limit_of_memory_that_no_interpreter_fits_in_is_named() {
    let config = config_with(&[("python_memory_limit", "50M".into())]);
    let path = config.write();
    let named = "its python_memory_limit of 50M may be too small";
    let run = |args: &[&str]| {
        let run = cli::run(cli::command().args(args));
        assert_ne!(run.code, Some(0), "{}", run.text());
        run.text() + &run.failure()
    };
    let path = path.to_str().expect("it is text");
    for text in [
        run(&["graph", "check", path, "py", "--initialize"]),
        run(&["graph", "check", path, "py"]),
        run(&["serve", "--check", "--config-path", path]),
    ] {
        assert!(text.contains(named), "{text}");
    }
    let server = config.serve();
    let line = server.wait_log("Error during python node initialization");
    assert!(line.contains(named), "{line}");
    let client = Grpc::connect(&server);
    eventually("the other one serves", || {
        client.infer(code("other", FINE)).ok()
    });
}

pub(super) fn a_request_beyond_the_limit_of_memory_fails_alone(server: &Server, client: &Grpc) {
    const INPUT: usize = 200 << 20;
    let large = format!("{FINE}\n{}", "#".repeat(INPUT));
    let text = reported(client, code("beyond", &large));
    let expected = format!(
        "MemoryError: no memory for the {} bytes of input \"in\"; python_memory_limit has to be larger",
        large.len()
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(reported(client, code("beyond", FINE)), "out UINT8 [4] fine");
    let log = server.log();
    assert!(
        !log.contains("has restarted, with its handlers of=\"graph beyond\""),
        "{log}"
    );
}

pub(super) fn a_worker_that_dies_while_it_loads_is_not_replaced(
    config: &Config,
    server: &Server,
    client: &Grpc,
) {
    server.wait_log("Python worker ended with status 7 of=\"graph dies\" worker=0 node=\"py\"");
    server.wait_log("worker of graph dies ended with status 7 in node py");
    // One that loads is replaced, as ever.
    file(config, "dies/handler.py", CODE);
    crate::support::graphs::reload(server);
    let text = reported(client, code("dies", "import os; os._exit(8)"));
    assert!(text.contains("ended with status 8"), "{text}");
    let restarted = "has restarted, with its handlers of=\"graph dies\"";
    server.wait_log(restarted);
    let log = server.log();
    // One for the first death would have begun long before.
    assert_eq!(log.matches(restarted).count(), 1, "{log}");
    assert!(!log.contains("python_memory_limit"), "{log}");
}

#[test]
fn a_death_in_a_call_is_unavailable_in_rest_as_well() {
    let (server, _) = shared::connect();
    let fails = |graph: &str, method: &str, code: &str, how: &str| {
        let body = match method {
            "infer" => {
                json!({"inputs": [{"name": "in", "shape": [1], "datatype": "BYTES", "data": [code]}]})
            }
            _ => json!({"in": code}),
        };
        let path = format!("/v2/models/{graph}/{method}");
        let answer = post(server, &path, body.to_string().as_bytes());
        let text = answer.text();
        assert!(text.contains(how), "{path}: {text}");
        assert_eq!(answer.status, 503, "{path}: {text}");
    };
    let killed = "worker of graph rest_py was killed after 500 ms (python_timeout_ms) in node py";
    fails("rest_py", "infer", "while True: pass", killed);
    fails("rest_py", "generate", "while True: pass", killed);
    let ended = "worker of graph rest_gen ended with status 3 in node py";
    fails(
        "rest_gen",
        "generate_stream",
        "os._exit(3)\nyield []",
        ended,
    );
}

#[test]
fn the_log_names_the_nodes_that_a_worker_was_at() {
    let (server, client) = shared::connect();
    for _ in 0..2 {
        let text = reported(&client, code("named", "import os; os._exit(3)"));
        assert!(text.contains("ended with status 3 in node py"), "{text}");
        is_fine(&client, "named");
    }
    server.wait_log("Python worker ended with status 3 of=\"graph named\" worker=0 node=\"py\"");
    let text = reported(&client, code("named", "import ctypes; ctypes.string_at(0)"));
    assert!(text.contains("was killed by SIGSEGV"), "{text}");
    eventually("it is not ready", || {
        (!is_ready(server, &client, "named")).then_some(())
    });
    assert_eq!(
        reported(&client, code("named", "return []")),
        "Unavailable: Mediapipe is not ready - worker of graph named died 3 times within a minute, the last time it was killed \
         by SIGSEGV; it restarts after 2 s"
    );
}

#[test]
fn a_breakpoint_in_a_served_handler_says_where_it_works() {
    let (server, client) = shared::connect();
    let text = reported(&client, code("py", "breakpoint()"));
    let hint = "BdbQuit: `breakpoint()` works at the terminal of `ovms graph run` and `ovms pipeline run` only";
    assert!(text.contains(hint), "{text}");
    server.wait_log(hint);
}

#[test]
fn the_log_has_the_handler_that_may_be_meant() {
    let (server, _) = shared::connect();
    let line = server.wait_log("did you mean `handlr.py`?");
    let text = "/handler.py does not exist; did you mean `handlr.py`?";
    assert!(
        line.contains("Python node handler_path: ") && line.contains(text),
        "{line}"
    );
}

#[test]
fn what_a_handler_forks_ends_at_a_signal_from_the_first_moment_on() {
    let (_, client) = shared::connect();
    // The signal comes before the process has run anything.
    let text = "import os, signal, time\n\
                ends = set()\n\
                for _ in range(20):\n \
                pid = os.fork()\n \
                if pid == 0: time.sleep(60); os._exit(3)\n \
                os.kill(pid, signal.SIGTERM)\n \
                ends.add(os.waitpid(pid, 0)[1])\n\
                left = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n\
                return [Tensor('out', f'{ends} {left}'.encode())]";
    let answer = client.infer(code("signals", text)).expect("it is answered");
    assert_eq!(answer.raw_output_contents[0], "{15} False");
}

#[test]
fn a_signal_to_all_processes_of_a_stop_loses_no_request() {
    let mut server = config_with(&[]).serve();
    let client = Grpc::connect(&server);
    let begun = crate::support::repository::folder();
    let mark = begun.path().join("begun");
    // A process that it forks ends at the signal, as without the server.
    let text = format!(
        "import os, signal, sys, time\n\
         pid = os.fork()\n\
         if pid == 0: time.sleep(60); os._exit(3)\n\
         with open({mark:?} + '.part', 'w') as file: file.write(f'{{os.getpid()}} {{os.getppid()}} {{pid}}')\n\
         os.rename({mark:?} + '.part', {mark:?})\n\
         status = os.waitpid(pid, 0)[1]\n\
         time.sleep(0.5)\n\
         return [Tensor('out', str(status).encode())]"
    );
    let call = client.call(code("py", &text));
    let pids = eventually("the call is there", || fs::read_to_string(&mark).ok());
    server.signal("TERM");
    for pid in pids.split(' ') {
        let sent = std::process::Command::new("kill")
            .args(["-s", "TERM", pid])
            .status();
        assert!(sent.unwrap().success(), "{pid}");
    }
    let answer = call.wait().expect("it is answered");
    assert_eq!(answer.raw_output_contents[0], "15");
    assert!(server.wait().success(), "{}", server.log());
    assert!(!server.log().contains("restart"), "{}", server.log());
}

#[test]
fn a_finalize_that_does_not_end_is_left_without_a_panic() {
    let mut config = Config::of(&[]);
    let handler = "import time\nclass OvmsPythonModel:\n  def execute(self, inputs): return inputs\n  \
         def finalize(self):\n    print('the end begins')\n    time.sleep(60)\n";
    add_python(&mut config, "g", handler);
    let mut server = config.serve_with(&["--shutdown_timeout_seconds", "1"]);
    server.signal("TERM");
    server.wait_log("the end begins");
    assert!(server.wait().success(), "{}", server.log());
    let log = server.log();
    assert!(log.contains(" stopped"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}
