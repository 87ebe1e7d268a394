//! Workers of Python nodes: what a handler does to itself is nobody else's problem.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    pool::{JOINED, counting},
    shared::{self, add_code, add_generator, set_options},
};
use crate::support::{
    Server, eventually,
    graphs::{CODE, PYTHON, add, add_python, code, file, graph, python, reported, shown},
    grpc::{Call, Grpc},
    pipelines::{Config, is_ready, wait_lines},
    repository,
    server::memory,
    streams::Talk,
};

/// Serves graphs whose node runs code from requests, `py` and `gen`, and one beside them, `other`.
pub(super) fn lab(flags: &[&str]) -> (Config, Server) {
    let mut config = config_with(&[]);
    add_generator(&mut config, "gen");
    let server = config.serve_with(flags);
    (config, server)
}

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    add_code(config, "several", &[("python_workers", 2.into())]);
    add_code(config, "limited", &[("python_timeout_ms", 300.into())]);
    add_code(config, "left", &[("python_timeout_ms", 1500.into())]);
    let gigabyte = (1_u64 << 30).into();
    add_code(config, "gigabyte", &[("python_memory_limit", gigabyte)]);
    let own = "handler_path: \"handler.py\" python_workers: 2 python_timeout_ms: 300";
    let own = PYTHON.replace("handler_path: \"handler.py\"", own);
    let pooled = format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n{PYTHON}");
    let stateful = counting(&config.beside("pooled.log"));
    for (name, graph, handler, options) in [
        ("own300", &own, CODE, &[][..]),
        (
            "own400",
            &own,
            CODE,
            &[("python_timeout_ms", 400.into())][..],
        ),
        (
            "pooled",
            &pooled,
            stateful.as_str(),
            &[("python_workers", 2.into())][..],
        ),
    ] {
        add(config, name, graph);
        file(config, &format!("{name}/handler.py"), handler);
        set_options(config, name, options);
    }
}

pub(super) const FINE: &str = "return [Tensor('out', b'fine')]";

pub(super) fn is_fine(client: &Grpc, graph: &str) {
    assert_eq!(reported(client, code(graph, FINE)), "out UINT8 [4] fine");
}

/// Returns a number that a handler returns.
pub(super) fn number(client: &Grpc, graph: &str, expression: &str) -> u32 {
    let body = format!("import os; return [Tensor('out', str({expression}).encode())]");
    let text = reported(client, code(graph, &body));
    let number = text
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("expected a number, got {text}"))
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    // A zombie has ended.
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}

pub(super) fn are_gone(processes: &[u32]) {
    eventually("the processes have ended", || {
        (!processes.iter().any(|process| is_alive(*process))).then_some(())
    });
}

#[test]
fn a_client_that_does_not_read_keeps_no_place_of_a_handler() {
    let (_config, server) = lab(&["--max-python-runs", "4", "--write-timeout-seconds", "600"]);
    let client = Grpc::connect(&server);
    let large = "return [Tensor('out', b'x' * 500_000)]";
    let talk = Talk::open(&client);
    // Until the connection takes no more, since answers wait.
    while talk.try_send(code("py", large), Duration::from_secs(2)) {}
    let other = Grpc::connect(&server);
    let call = other.call(code("py", FINE));
    eventually("others are answered", || call.is_answered().then_some(()));
    assert_eq!(shown(&call.wait().unwrap()), "out UINT8 [4] fine");
    drop(talk);
}

#[test]
fn a_handler_is_finalized_if_another_one_does_not_load_in_a_new_worker() {
    let mut config = Config::of(&[]);
    let nodes = [
        python("a", "IN:in", "OUT:mid", "a.py", ""),
        python("b", "IN:mid", "OUT:out", "b.py", ""),
    ];
    let text = graph("OVMS_PY_TENSOR:in", "OVMS_PY_TENSOR:out", &nodes);
    add(&mut config, "two", &text);
    let (log, stop) = (config.beside("log"), config.beside("stop"));
    let first = format!(
        "{CODE}    def finalize(self):\n        with open({log:?}, 'a') as file: file.write('finalized\\n')\n"
    );
    file(&config, "two/a.py", &first);
    let second = format!(
        "{JOINED}  def initialize(self, kwargs):\n    import os\n    if os.path.exists({stop:?}): raise ValueError('not now')\n"
    );
    file(&config, "two/b.py", &second);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let fine = || reported(&client, code("two", "return [Tensor('mid', b'fine')]"));
    assert_eq!(fine(), "out UINT8 [4] fine");
    fs::write(&stop, "").unwrap();
    reported(&client, code("two", "os._exit(3)"));
    wait_lines(&log, "finalized", 1);
    fs::remove_file(&stop).unwrap();
    eventually("the graph is there again", || {
        (fine() == "out UINT8 [4] fine").then_some(())
    });
}

#[test]
fn a_worker_that_dies_fails_the_calls_in_flight_and_is_replaced() {
    let (server, client) = shared::connect();
    for (name, body, how) in [
        ("exits", "import os; os._exit(3)", "ended with status 3"),
        (
            "crashes",
            "import ctypes; ctypes.string_at(0)",
            "was killed by SIGSEGV",
        ),
        ("aborts", "import os; os.abort()", "was killed by SIGABRT"),
    ] {
        let other = number(&client, "py", "os.getpid()");
        let waits = client.call(code(name, "import time; time.sleep(100)"));
        eventually("it waits", || {
            number(&client, name, "len(os.listdir('/proc/self/task'))")
                .ge(&3)
                .then_some(())
        });
        let died = format!("worker of graph {name} {how} in node py");
        let text = reported(&client, code(name, body));
        assert!(
            text.starts_with("Unavailable: Mediapipe execution failed."),
            "{text}"
        );
        assert!(text.ends_with(&died), "{text}");
        // Whoever else was there as well, and nobody after it.
        let error = waits.wait().expect_err("its worker has died");
        assert!(error.message().ends_with(&died), "{error}");
        is_fine(&client, name);
        server.wait_log(&format!("Python worker {how} of=\"graph {name}\""));
        assert_eq!(number(&client, "py", "os.getpid()"), other);
    }
}

#[test]
fn an_answer_does_not_wait_for_the_next_call_of_its_thread() {
    let (_, client) = shared::connect();
    let answered = |call: Call<'_>| call.wait().expect("it is answered");
    for turn in 0..200 {
        let begin = "self.freed = threading.Event(); return [Tensor('out', b'new')]";
        answered(client.call(code("turns", begin)));
        // About as long as the worker has patience, so that another thread takes over while the answer is made.
        let spin = format!(
            "end = time.perf_counter() + {}e-6\nwhile time.perf_counter() < end: pass\nreturn [Tensor('out', b'fine')]",
            600 + turn * 5
        );
        let spins = client.call(code("turns", &spin));
        let waits = client.call(code(
            "turns",
            "self.freed.wait(100); return [Tensor('out', b'free')]",
        ));
        answered(spins);
        answered(client.call(code(
            "turns",
            "self.freed.set(); return [Tensor('out', b'set')]",
        )));
        answered(waits);
    }
}

#[test]
fn a_worker_that_dies_again_and_again_starts_later() {
    let (server, client) = shared::connect();
    let dies = || {
        let text = reported(&client, code("again", "import os; os._exit(3)"));
        assert!(text.contains("ended with status 3 in node py"), "{text}");
    };
    for _ in 0..2 {
        dies();
        is_fine(&client, "again");
    }
    dies();
    eventually("it is not ready", || {
        (!is_ready(server, &client, "again")).then_some(())
    });
    assert_eq!(
        reported(&client, code("again", FINE)),
        "Unavailable: Mediapipe is not ready - worker of graph again ended with status 3, 3 times within a minute; it restarts after 2 s"
    );
    let mut talk = Talk::open(&client);
    talk.send(code("again", FINE));
    let text = talk.next().reported();
    assert!(text.contains("3 times within a minute"), "{text}");
    is_fine(&client, "py");
    eventually("it starts again", || {
        is_ready(server, &client, "again").then_some(())
    });
    is_fine(&client, "again");
}

#[test]
fn a_generator_whose_worker_dies_gets_that_error() {
    let (_, client) = shared::connect();
    let text = reported(
        &client,
        code("dying_gen", "import os\nos._exit(3)\nyield []"),
    );
    assert!(
        text.contains("worker of graph dying_gen ended with status 3 in node py"),
        "{text}"
    );
    is_fine(&client, "py");
    is_fine(&client, "dying_gen");
}

/// Limit on the time of requests at a stop.
const LIMIT: Duration = Duration::from_secs(1);

/// Time that a stop takes at most beside that of requests: connections, nodes, workers, and threads have a second each.
pub(super) const AFTER: Duration = Duration::from_secs(4);

/// Time that a loaded machine may add.
pub(super) const SLACK: Duration = Duration::from_secs(1);

/// Returns the time of the day at which a line of the log was written.
fn time_of(line: &str) -> Duration {
    let (_, time) = line.split_once('T').expect("a date and a time");
    let (time, _) = time.split_once('Z').expect("a time of UTC");
    let parts: Vec<f64> = time.split(':').filter_map(|it| it.parse().ok()).collect();
    let [hours, minutes, seconds] = parts[..] else {
        panic!("expected a time, got {line}");
    };
    Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Returns how much later the server has written one line than another.
fn between(server: &Server, first: &str, second: &str) -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let [first, second] = [first, second].map(|text| time_of(&server.wait_log(text)));
    let later = second + DAY - first;
    if later < DAY { later } else { later - DAY }
}

/// Handlers that never return: with the lock of the interpreter, without it, and in an import.
const HANGING: [&str; 4] = [
    "import time; time.sleep(1000)",
    "while True: pass",
    "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "import signal, time\nwhile True:\n  try: time.sleep(1000)\n  except BaseException: pass",
];

#[test]
fn a_handler_that_hangs_holds_up_neither_others_nor_the_end() {
    let mut config = Config::of(&[]);
    let names: Vec<String> = (0..HANGING.len()).map(|it| format!("hangs{it}")).collect();
    for name in names.iter().map(String::as_str).chain(["other"]) {
        add_code(&mut config, name, &[]);
    }
    add_generator(&mut config, "gen");
    let mut server = config.serve_with(&["--shutdown_timeout_seconds=1"]);
    let client = Grpc::connect(&server);
    let mut workers = Vec::new();
    let mut calls = Vec::new();
    for (name, body) in names.iter().zip(HANGING) {
        workers.push(number(&client, name, "os.getpid()"));
        calls.push(client.call(code(name, body)));
        is_fine(&client, "other");
        is_fine(&client, "gen");
    }
    let asked = Instant::now();
    server.signal("TERM");
    // Each has the limit.
    loop {
        let ended = calls.iter().position(Call::is_answered);
        if asked.elapsed() >= LIMIT {
            break;
        }
        assert_eq!(ended, None, "{:?}", asked.elapsed());
        sleep(Duration::from_millis(20));
    }
    assert!(server.wait().success());
    let took = asked.elapsed();
    // By the server's own clock: requests have the limit, neither less nor another one.
    let over = "the shutdown timeout has passed";
    let requests = between(&server, "waiting for the requests in flight", over);
    assert!(requests >= LIMIT && requests < 2 * LIMIT, "{requests:?}");
    let rest = between(&server, over, " stopped");
    assert!(rest < AFTER, "{rest:?}");
    assert!(took < LIMIT + AFTER + SLACK, "{took:?}");
    are_gone(&workers);
}

#[test]
fn children_of_handlers_work_and_end_with_the_server() {
    let mut config = Config::of(&[]);
    let functions = "import beside\ndef twice(number): return 2 * number\n";
    add_python(&mut config, "py", &[CODE, functions].concat());
    // Which finds the handler by the name of its file.
    file(
        &config,
        "py/beside.py",
        "import handler\ndef thrice(number): return handler.twice(number) + number\n",
    );
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    for method in ["fork", "spawn", "forkserver"] {
        let body = format!(
            "import multiprocessing\nwith multiprocessing.get_context('{method}').Pool(2) as pool: found = [pool.map(it, [-1, 2]) for it in (abs, twice, beside.thrice)]\nreturn [Tensor('out', repr(found).encode())]"
        );
        assert_eq!(
            reported(&client, code("py", &body)),
            "out UINT8 [26] [[1, 2], [-2, 4], [-3, 6]]",
            "{method}"
        );
    }
    // One that leaves its group and its session, and takes no signal that it can refuse.
    let note = config.beside("child");
    let body = format!(
        "import os, signal, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    for number in range(1, 32):\n      if number not in (9, 19): signal.signal(number, signal.SIG_IGN)\n    open({note:?}, 'w').write(str(os.getpid()))\n    time.sleep(1000)\n  os._exit(0)\n{FINE}"
    );
    assert_eq!(reported(&client, code("py", &body)), "out UINT8 [4] fine");
    let child = eventually("it has begun", || {
        fs::read_to_string(&note).ok()?.parse::<u32>().ok()
    });
    let worker = number(&client, "py", "os.getpid()");
    assert!(is_alive(child) && is_alive(worker));
    server.signal("TERM");
    assert!(server.wait().success());
    are_gone(&[child, worker]);
}

#[test]
fn a_worker_has_nothing_of_the_server() {
    let (_, client) = shared::connect();
    let body = "import os\nfound = sorted(os.readlink(f'/proc/self/fd/{number}').split(':')[0] for number in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{number}'))\nreturn [Tensor('out', ' '.join(name for name in found if name != '/proc').encode())]";
    let text = reported(&client, code("bare", body));
    let kinds: Vec<&str> = text
        .split("] ")
        .last()
        .unwrap_or_default()
        .split(' ')
        .collect();
    // Its standard streams, and its link.
    let sockets = kinds.iter().filter(|kind| **kind == "socket").count();
    assert_eq!(sockets, 1, "{text}");
    // Of a group of its own.
    let (worker, group) = (
        number(&client, "bare", "os.getpid()"),
        number(&client, "bare", "os.getpgid(0)"),
    );
    assert_eq!(worker, group);
}

#[test]
fn floods_and_large_memory_are_the_workers_own() {
    let (_config, server) = lab(&[]);
    let client = Grpc::connect(&server);
    let flood = client.call(code("py", &format!("import os\nfor _ in range(20000): print('x' * 200)\nos.write(2, b'y' * 1000000)\n{FINE}")));
    for _ in 0..10 {
        is_fine(&client, "other");
    }
    assert!(flood.wait().is_ok());
    let body = format!("kept = bytearray(2 << 30)\n{FINE}");
    assert_eq!(reported(&client, code("py", &body)), "out UINT8 [4] fine");
    let peak = memory(&server, "VmHWM:");
    assert!(peak < 1 << 30, "{peak}");
}

#[test]
fn the_program_is_not_linked_with_python() {
    let linked = std::process::Command::new("ldd")
        .arg(env!("CARGO_BIN_EXE_ovms"))
        .output();
    let linked =
        String::from_utf8_lossy(&linked.expect("it comes with the C library").stdout).into_owned();
    assert!(
        linked.contains("libc.so") && !linked.contains("python"),
        "{linked}"
    );
}

/// Makes a configuration of `py`, which runs code from requests, with options of its workers, and of `other`.
pub(super) fn config_with(options: &[(&str, Value)]) -> Config {
    let mut config = Config::of(&[]);
    add_code(&mut config, "other", &[]);
    add_code(&mut config, "py", options);
    config
}

#[test]
fn several_workers_share_the_requests() {
    let (_, client) = shared::connect();
    let slow =
        "import os, time; time.sleep(0.3); return [Tensor('out', str(os.getpid()).encode())]";
    let calls = [
        client.call(code("several", slow)),
        client.call(code("several", slow)),
    ];
    let workers = calls.map(|call| shown(&call.wait().expect("it is fine")));
    assert_ne!(workers[0], workers[1]);
    // One that dies leaves the other.
    let waits = client.call(code(
        "several",
        "import time; time.sleep(1)\nreturn [Tensor('out', b'kept')]",
    ));
    let text = reported(&client, code("several", "import os; os._exit(3)"));
    assert!(text.contains("ended with status 3"), "{text}");
    is_fine(&client, "several");
    assert!(waits.wait().is_ok());
}

#[test]
fn a_graph_may_have_the_options_itself_and_its_entry_counts_first() {
    let (server, client) = shared::connect();
    for (name, limit) in [("own300", 300), ("own400", 400)] {
        let text = reported(&client, code(name, "while True: pass"));
        let reason = format!("killed after {limit} ms (python_timeout_ms) in node py");
        assert!(text.ends_with(&reason), "{text}");
        // The other one is there meanwhile.
        is_fine(&client, name);
        server.wait_log(&format!("of=\"graph {name}\" worker=1"));
    }
}

#[test]
fn pooled_instances_share_the_workers_and_are_replaced_with_them() {
    let (server, client) = shared::connect();
    let folder = repository::folder();
    for round in 0..3 {
        is_fine(&client, "pooled");
        let (log, gate) = (
            folder.path().join(format!("log{round}")),
            folder.path().join(format!("gate{round}")),
        );
        let waits = format!(
            "open({log:?}, 'a').write('x\\n')\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\nreturn [Tensor('out', str(os.getpid()).encode())]"
        );
        let calls = [(); 2].map(|()| client.call(code("pooled", &waits)));
        wait_lines(&log, "x", 2);
        fs::write(&gate, "").expect("it can be written");
        let workers = calls.map(|call| shown(&call.wait().expect("it is fine")));
        assert_ne!(workers[0], workers[1]);
    }
    let worker = number(&client, "pooled", "os.getpid()").to_string();
    let killed = std::process::Command::new("kill")
        .args(["-s", "KILL", &worker])
        .status();
    assert!(killed.expect("kill is there").success());
    server.wait_log("Python worker has restarted, with its handlers of=\"graph pooled\"");
    for _ in 0..5 {
        is_fine(&client, "pooled");
    }
}

#[test]
fn a_call_that_takes_too_long_ends_its_worker() {
    let (_, client) = shared::connect();
    is_fine(&client, "limited");
    let text = reported(&client, code("limited", "while True: pass"));
    let reason = "worker of graph limited was killed after 300 ms (python_timeout_ms) in node py";
    assert!(text.ends_with(reason), "{text}");
    is_fine(&client, "limited");
}

#[test]
fn a_call_that_takes_too_long_ends_its_worker_although_its_client_has_left() {
    let (server, client) = shared::connect();
    let folder = repository::folder();
    let before = number(&client, "left", "os.getpid()");
    let begun = folder.path().join("begun");
    let endless = format!("open({begun:?}, 'w')\nwhile True: time.sleep(0.01)");
    let call = client.call(code("left", &endless));
    eventually("it has begun", || begun.exists().then_some(()));
    drop(call);
    server.wait_log("Python worker was killed after 1500 ms (python_timeout_ms) of=\"graph left\"");
    assert_ne!(number(&client, "left", "os.getpid()"), before);
    // One that ends in time after its client has left has no such end.
    let calm = number(&client, "left", "os.getpid()");
    let ended = folder.path().join("ended");
    let brief =
        format!("open({ended:?}, 'w').close()\ntime.sleep(0.1)\nreturn [Tensor('out', b'late')]");
    let call = client.call(code("left", &brief));
    eventually("it has begun", || ended.exists().then_some(()));
    drop(call);
    // Together they outlast its limit, and none of them its own.
    for _ in 0..2 {
        let worker = number(&client, "left", "(time.sleep(0.8), os.getpid())[1]");
        assert_eq!(worker, calm);
    }
}

#[test]
fn a_call_that_does_not_end_is_reported() {
    let (server, client) = shared::connect();
    let _call = client.call(code("endless", "while True: time.sleep(0.01)"));
    let line = server.wait_log(r#"python_timeout_ms would end it of="graph endless" node="py""#);
    let text = "a call of the handler has not ended for 5 s";
    assert!(line.contains(text), "{line}");
    let (_, at) = line.split_once(" s: it is at ").expect(&line);
    assert!(at.contains(".py:") && at.contains(" in execute;"), "{line}");
}

#[test]
fn a_worker_may_have_a_limit_of_memory() {
    let (_, client) = shared::connect();
    let text = reported(&client, code("gigabyte", "bytearray(2 << 30)"));
    assert!(text.ends_with(" - MemoryError: "), "{text}");
    is_fine(&client, "gigabyte");
}

#[test]
fn a_graph_may_have_an_environment_of_its_own() {
    let (server, client) = shared::connect();
    is_fine(&client, "py");
    let [file, folder] = ["config.json", "none"].map(shared::beside);
    let named = server.wait_log(&format!("{} is no Python environment", folder.display()));
    let place = " mediapipe_config_list[0].python_environment: ";
    assert!(named.contains(&format!("{}:1:", file.display())), "{named}");
    assert!(named.contains(place), "{named}");
}

/// A handler that ends its worker in ways, each in a function of its own.
const ENDS: &str = "\
import ctypes, faulthandler, os, signal, time
class OvmsPythonModel:
    def execute(self, inputs):
        return globals()[bytes(inputs[0]).decode()]()
def crash():
    ctypes.string_at(0)
def hang():
    while True: time.sleep(0.01)
def deaf():
    ctypes.CDLL(None).signal(signal.SIGSTKFLT, 1)
    hang()
def rude():
    faulthandler.unregister(signal.SIGSTKFLT)
    hang()
def fork():
    if os.fork() == 0: crash()
    os.wait()
    os._exit(3)
def deep(level=60):
    return deep(level - 1) if level else crash()
";

/// Ends of workers by the names of graphs whose handler is [`ENDS`]: its line, and the reason.
const WAYS: [(&str, Option<&str>, &str); 6] = [
    ("crash", Some("6 in crash"), "was killed by SIGSEGV"),
    ("hang", Some("8 in hang"), "was killed after 500 ms"),
    ("deep", Some("6 in crash"), "was killed by SIGSEGV"),
    // A handler may do with the signal what it likes, and a child is not the worker.
    ("deaf", None, "was killed after 500 ms"),
    ("rude", None, "was killed after 500 ms"),
    ("fork", None, "ended with status 3"),
];

/// Adds those graphs.
pub(super) fn add_ends(config: &mut Config) {
    for (name, ..) in WAYS {
        add_python(config, name, ENDS);
        set_options(config, name, &[("python_timeout_ms", 500.into())]);
    }
}

pub(super) fn the_log_says_where_a_handler_was_that_ended_its_worker(
    config: &Config,
    server: &Server,
    client: &Grpc,
) {
    let mut seen = server.log().len();
    for (name, place, how) in WAYS {
        let path = config.beside(name).join("handler.py");
        let text = reported(client, code(name, name));
        let died = format!("worker of graph {name} {how}");
        assert!(
            text.contains(&died) && text.ends_with(" in node py"),
            "{text}"
        );
        let restarted =
            format!("Python worker has restarted, with its handlers of=\"graph {name}\"");
        server.wait_log(&restarted);
        let whole = server.log();
        let log = &whole[seen..];
        seen = whole.len();
        let mut lines = log.lines().skip_while(|line| {
            !line.contains("Python worker was") && !line.contains("Python worker ended")
        });
        let death = lines.next().unwrap_or_default();
        assert!(death.contains(how), "{log}");
        let Some(place) = place else {
            assert!(!log.contains("threads of the worker"), "{name}: {log}");
            continue;
        };
        let stack: Vec<&str> = lines
            .take_while(|line| !line.contains("Python worker has"))
            .collect();
        let first = format!(
            "the handler was at {}:{place}; threads of the worker at its end:",
            path.display()
        );
        assert!(
            stack[0].contains(&first) && stack[0].contains(" ERROR "),
            "{log}"
        );
        let execute = format!("  File \"{}\", line 4 in execute", path.display());
        let has = |line: &str| stack.iter().any(|it| it.contains(line));
        match name {
            "deep" => assert!(has("… ") && !has(&execute) && stack.len() < 45, "{log}"),
            _ => assert!(has(&execute), "{log}"),
        }
        assert!(!log.contains("pyovms/worker.py"), "{log}");
    }
}

#[test]
fn a_run_shows_where_a_handler_was_that_ended_its_worker() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    fs::create_dir_all(&graph).expect("it can be made");
    let limit = "\"handler.py\" python_timeout_ms: 300 }";
    let text = PYTHON.replace("\"handler.py\" }", limit);
    fs::write(graph.join("graph.pbtxt"), text).expect("it can be written");
    fs::write(graph.join("handler.py"), ENDS).expect("it can be written");
    for (name, place) in [("crash", "6 in crash"), ("hang", "8 in hang")] {
        let input = format!("in:UINT8={:?}", name.as_bytes());
        let run = crate::graphs::new::graph(folder.path(), &["run", "g", "-i", &input]);
        assert_eq!(run.code, Some(1), "{}", run.failure());
        let expected = format!("the handler was at <folder>/g/handler.py:{place}; threads of");
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
}
