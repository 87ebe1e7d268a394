//! `ovms graph run`: packets and timestamps, in this process.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::{cli, graphs::PYTHON, infer::interrupt, repository, terminal};

/// Writes a graph with a handler.
pub(super) fn write(folder: &Path, text: &str, handler: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("graph.pbtxt"), text).unwrap();
    fs::write(folder.join("handler.py"), handler).unwrap();
}

/// A handler that prints its calls, and fails on request.
const TELLING: &str = "\
import os
from pyovms import Tensor
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.folder = kwargs['base_path']
        assert os.path.isabs(self.folder), self.folder
    def note(self, text):
        with open(os.path.join(self.folder, 'notes'), 'a') as notes:
            notes.write(text)
    def create_state(self):
        return 0
    def destroy_state(self, state):
        self.note('destroyed ')
    def finalize(self):
        self.note('finalized')
    def execute(self, inputs, state):
        if bytes(inputs[0].data) == bytes(4):
            raise ValueError('zero')
        return [Tensor('out', inputs[0].data)]
";

/// Starts a run with requests from standard input.
fn typing(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ovms"))
        .args(["graph", "run", "g", "--requests", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a run; returns its exit code.
pub(super) fn ended(child: &mut Child) -> Option<i32> {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("the run does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_error_is_reported_while_more_requests_may_come() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    let mut run = typing(folder.path());
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"[0]\n").unwrap();
    assert_eq!(ended(&mut run), Some(1));
    let mut stderr = String::new();
    run.stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(stderr.contains("ValueError: zero"), "{stderr}");
    drop(stdin);
}

#[test]
fn ctrl_c_ends_states_and_handlers_and_shows_the_nodes() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    let mut run = typing(folder.path());
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"[1]\n").unwrap();
    let mut stdout = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("out"), "{line}");
    interrupt(&run);
    assert_eq!(ended(&mut run), Some(130));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("longest µs"), "{rest}");
    let notes = fs::read_to_string(folder.path().join("g/notes")).unwrap();
    assert_eq!(notes, "destroyed finalized");
    drop(stdin);
}

#[test]
fn the_traceback_of_a_handler_comes_first() {
    let class = "class OvmsPythonModel:\n    def execute(self, inputs):\n        return deep()\n";
    for (first, error, places) in [
        (
            "def deep(): return 1 / 0",
            "ZeroDivisionError: division by zero",
            &["line 4, in execute", "line 1, in deep"][..],
        ),
        (
            "import not_there",
            "ModuleNotFoundError: No module named 'not_there'",
            &["line 1, in <module>"],
        ),
    ] {
        let folder = repository::folder();
        write(
            &folder.path().join("g"),
            PYTHON,
            &format!("{first}\n{class}"),
        );
        let run = Command::new(env!("CARGO_BIN_EXE_ovms"))
            .args(["graph", "run", "g", "-i", "in=a"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(1));
        let shown = String::from_utf8(run.stderr).unwrap();
        let (traceback, report) = shown.split_once("error: the graph `g` ").unwrap();
        assert!(
            traceback.starts_with("Traceback (most recent call last):\n"),
            "{shown}"
        );
        for place in places {
            let place = format!("g/handler.py\", {place}");
            assert!(traceback.contains(&place), "{shown}");
        }
        assert!(report.contains(error), "{shown}");
        assert!(!report.contains("Traceback"), "{shown}");
    }
}

#[test]
fn an_interrupt_says_where_the_handler_was() {
    // In one line, which it does not leave between what it prints and its sleep.
    let sleeps = "import time\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        \
                  print('begun', flush=True); time.sleep(1000)\n";
    let imports = "import time\nprint('begun', flush=True); time.sleep(1000)\n";
    let finalizes = "import time\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        \
                     return []\n    def finalize(self):\n        print('begun', flush=True); \
                     time.sleep(1000)\n";
    let checks = ["graph", "check", "g"];
    let initializes = ["graph", "check", "g", "--initialize"];
    let pipelines = ["pipeline", "check", "config.json"];
    let config = serde_json::json!({
        "model_config_list": [],
        "custom_node_library_config_list": [{"name": "py", "base_path": "g/handler.py"}],
        "pipeline_config_list": [{
            "name": "p",
            "inputs": ["in"],
            "nodes": [{
                "name": "n",
                "type": "custom",
                "library_name": "py",
                "inputs": [{"in": {"node_name": "request", "data_item": "in"}}],
                "outputs": [{"data_item": "out", "alias": "o"}],
            }],
            "outputs": [{"out": {"node_name": "n", "data_item": "o"}}],
        }],
    });
    let runs = ["graph", "run", "g", "-i", "in=a"];
    for (command, handler, place) in [
        (&runs[..], sleeps, "4 in execute"),
        (&runs, imports, "2 in <module>"),
        (&runs, finalizes, "6 in finalize"),
        (&checks, imports, "2 in <module>"),
        (&initializes, finalizes, "6 in finalize"),
        (&pipelines, imports, "2 in <module>"),
    ] {
        let folder = repository::folder();
        write(&folder.path().join("g"), PYTHON, handler);
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_ovms"));
        let shown = interrupted(run.args(command).current_dir(folder.path()));
        let text = "error: interrupted\n  the handler was at ";
        assert!(shown.contains(text), "{shown}");
        let place = format!("g/handler.py:{place}\n");
        assert!(shown.contains(&place), "{shown}");
        for other in ["Traceback", "KeyboardInterrupt", "pyovms/"] {
            assert!(!shown.contains(other), "{shown}");
        }
    }
}

#[test]
fn an_interrupt_is_reported_while_no_handler_runs() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    // The interpreter does not come to its end.
    let starts =
        "import sys, time\nprint('begun', file=sys.stderr, flush=True); time.sleep(1000)\n";
    fs::write(folder.path().join("sitecustomize.py"), starts).unwrap();
    for command in [
        &["graph", "check", "g"][..],
        &["graph", "run", "g", "-i", "in=a"],
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ovms"));
        run.args(command).current_dir(folder.path());
        let shown = interrupted(run.env("PYTHONPATH", folder.path()));
        assert!(shown.contains("error: interrupted\n"), "{shown}");
    }
}

/// Interrupts a command once it has begun, and returns what it says then.
fn interrupted(command: &mut Command) -> String {
    let mut run = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    until(&mut stderr, "begun");
    // As at a terminal, where all of the group get it.
    let group = Pid::from_raw(run.id().cast_signed()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    assert_eq!(ended(&mut run), Some(130));
    let mut shown = String::new();
    stderr.read_to_string(&mut shown).unwrap();
    shown
}

#[test]
fn a_handler_in_the_place_of_its_graph_is_reported() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    write(&folder.path().join("lone"), PYTHON, TELLING);
    fs::remove_file(folder.path().join("lone/graph.pbtxt")).unwrap();
    for command in ["run", "check", "show"] {
        for (path, hint) in [
            ("g/handler.py", "hint: name its graph: `g`"),
            (
                "lone/handler.py",
                "hint: a graph file names it as handler_path; `ovms graph new NAME` writes one",
            ),
        ] {
            let mut run = cli::command();
            run.args(["graph", command, path])
                .current_dir(folder.path());
            let run = cli::run(&mut run);
            assert_eq!(run.code, Some(64), "{command}: {}", run.stderr);
            let text = format!("error: {path} is a handler, not a graph\n{hint}");
            assert!(run.stderr.contains(&text), "{command}: {}", run.stderr);
        }
    }
}

#[test]
fn what_the_end_of_a_handler_raises_is_shown() {
    let folder = repository::folder();
    let handler = TELLING
        .replace("self.note('destroyed ')", "raise KeyError('state')")
        .replace("self.note('finalized')", "raise OSError('busy')");
    write(&folder.path().join("g"), PYTHON, &handler);
    let run = Command::new(env!("CARGO_BIN_EXE_ovms"))
        .args(["graph", "run", "g", "-i", "in=a"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
    let shown = String::from_utf8(run.stderr).unwrap();
    for (method, error) in [
        ("destroy_state", "KeyError: 'state'"),
        ("finalize", "OSError: busy"),
    ] {
        let head = format!(
            "warning: Failed to process python node {method} method:\nTraceback (most recent call last):\n"
        );
        let (_, rest) = shown.split_once(&head).unwrap_or_else(|| panic!("{shown}"));
        assert!(rest.contains(&format!("\n{error}\n")), "{shown}");
    }
}

/// Reads lines up to one that contains a text; returns them.
pub(super) fn until(lines: &mut impl BufRead, text: &str) -> String {
    let mut all = String::new();
    loop {
        let start = all.len();
        let read = lines.read_line(&mut all).unwrap();
        assert!(read > 0, "no line has {text:?}: {all}");
        if all[start..].contains(text) {
            return all;
        }
    }
}

/// A handler that multiplies by way of NumPy.
fn times(factor: &str) -> String {
    format!(
        "import numpy\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        \
         return [Tensor('out', {factor} * numpy.asarray(inputs[0]))]\n"
    )
}

/// Runs the graph `g` of a folder at each save; returns the process, and what it writes.
pub(super) fn watched(folder: &Path) -> (Child, BufReader<ChildStdout>, BufReader<ChildStderr>) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_ovms"))
        .args(["graph", "run", "g", "-i", "in:INT64=7", "--watch"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(run.stdout.take().unwrap());
    let stderr = BufReader::new(run.stderr.take().unwrap());
    (run, stdout, stderr)
}

#[test]
fn each_save_of_a_watched_graph_runs_it_again() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    write(&graph, PYTHON, &times("1"));
    let (mut run, mut stdout, mut stderr) = watched(folder.path());
    let waits = "waiting for the next save";
    until(&mut stdout, "out: INT64 (1) 7");
    until(&mut stderr, waits);
    fs::write(graph.join("handler.py"), times("2")).unwrap();
    until(&mut stdout, "out: INT64 (1) 14");
    until(&mut stderr, waits);
    for (file, text, error) in [
        (
            "handler.py",
            "import this_is_not_there\n",
            "ModuleNotFoundError",
        ),
        ("graph.pbtxt", "node {", "graph.pbtxt:1"),
    ] {
        fs::write(graph.join(file), text).unwrap();
        let shown = until(&mut stderr, waits);
        assert!(shown.contains(error), "{shown}");
    }
    write(
        &graph,
        PYTHON,
        &format!("from beside import N\n{}", times("N")),
    );
    until(&mut stderr, waits);
    fs::write(graph.join("beside.py"), "N = 3\n").unwrap();
    until(&mut stdout, "out: INT64 (1) 21");
    // Whether the run has ended by now or not.
    interrupt(&run);
    assert_eq!(ended(&mut run), Some(130));
}

#[test]
fn a_save_ends_a_watched_run_that_does_not_end() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    let hangs =
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        while True: pass\n";
    write(&graph, PYTHON, &format!("print('begun')\n{hangs}"));
    let (mut run, mut stdout, mut stderr) = watched(folder.path());
    // In `execute`, and then in the import.
    for handler in [
        "import time\nprint('again')\nwhile True: time.sleep(1)\n",
        &times("2"),
    ] {
        let begun = if handler.contains("again") {
            "begun"
        } else {
            "again"
        };
        until(&mut stderr, begun);
        fs::write(graph.join("handler.py"), handler).unwrap();
        let shown = until(&mut stderr, "the handler was at ");
        assert!(
            shown.contains("interrupted by a save; running again"),
            "{shown}"
        );
    }
    until(&mut stdout, "out: INT64 (1) 14");
    until(&mut stderr, "waiting for the next save");
    interrupt(&run);
    assert_eq!(ended(&mut run), Some(130));
}

/// A handler that stops in the debugger.
const STOPPING: &str = "\
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        loud = inputs[0].texts()[0].upper()
        breakpoint()
        return [Tensor('out', [loud])]
";

#[test]
fn a_save_leaves_the_debugger_at_its_prompt() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    write(&graph, PYTHON, STOPPING);
    let args = [
        "graph",
        "run",
        graph.to_str().unwrap(),
        "-i",
        "in=hello",
        "--watch",
    ];
    let steps = [
        (
            "(Pdb) ",
            Some("print(open(__file__, 'a').write('\\n'), 'written')\n"),
        ),
        // Longer than a save takes to be seen.
        (
            "1 written\r\n(Pdb) ",
            Some("import time; time.sleep(2); loud = 'still' + ' here'\n"),
        ),
        ("' here'\r\n(Pdb) ", Some("c\n")),
        ("still here", Some("")),
        // The save is brought into effect now.
        ("(Pdb) ", Some("c\n")),
        ("HELLO", Some("")),
        ("waiting for the next save", Some("\u{3}")),
    ];
    let screen = terminal::run(200, &args, &[], &steps);
    assert_eq!(screen.code, 130, "{}", screen.text());
}

#[test]
fn a_breakpoint_stops_at_the_terminal() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    write(&graph, PYTHON, STOPPING);
    let args = ["graph", "run", graph.to_str().unwrap(), "-i", "in=hello"];
    let steps = [
        ("(Pdb) ", Some("p loud + '!'\n")),
        ("'HELLO!'", Some("loud = 'other'\n")),
        ("(Pdb) ", Some("c\n")),
    ];
    let screen = terminal::run(200, &args, &[], &steps);
    assert_eq!(screen.code, 0, "{}", screen.text());
    assert!(
        screen.text().contains("out: BYTES (1) \"other\""),
        "{}",
        screen.text()
    );
}

#[test]
fn a_breakpoint_in_a_load_has_the_terminal_for_itself() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    let stops = STOPPING.replace("        breakpoint()\n", "").replace(
        "    def execute",
        "    def initialize(self, kwargs):\n        breakpoint()\n    def execute",
    );
    write(&graph, PYTHON, &stops);
    let args = ["graph", "run", graph.to_str().unwrap(), "-i", "in=hello"];
    let wait = "import time; time.sleep(1); print('loo' + 'ked')\n";
    let steps = [("(Pdb) ", Some(wait)), ("looked", Some("c\n"))];
    let screen = terminal::run(200, &args, &[], &steps);
    let shown = screen.text();
    assert_eq!(screen.code, 0, "{shown}");
    assert!(
        shown.contains("(Pdb) import time; time.sleep(1)"),
        "{shown}"
    );
    assert!(shown.contains("\n(Pdb) c"), "{shown}");
    assert!(!shown.contains("loading"), "{shown}");
}

#[test]
fn a_debugger_at_the_terminal_has_no_limit_of_time() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    let limit = "\"handler.py\" python_timeout_ms: 300 }";
    let text = PYTHON.replace("\"handler.py\" }", limit);
    write(&graph, &text, STOPPING);
    let note = "python_timeout_ms (300) is ignored at a terminal, where a `breakpoint()` may wait";
    let args = ["graph", "run", graph.to_str().unwrap(), "-i", "in=hello"];
    let wait = "import time; time.sleep(1); print('loo' + 'ked')\n";
    let steps = [
        (note, Some("")),
        ("(Pdb) ", Some(wait)),
        ("looked", Some("c\n")),
    ];
    let screen = terminal::run(200, &args, &[], &steps);
    let shown = screen.text();
    assert_eq!(screen.code, 0, "{shown}");
    assert!(shown.contains("out: BYTES (1) \"HELLO\""), "{shown}");
    assert_eq!(shown.matches("python_timeout_ms").count(), 1, "{shown}");
    // Without a keyboard nobody debugs.
    let hangs = STOPPING.replace("breakpoint()", "while True: pass");
    write(&graph, &text, &hangs);
    let run = cli::run(cli::command().args(args));
    assert_eq!(run.code, Some(1), "{}", run.failure());
    assert!(!run.stderr.contains(note), "{}", run.stderr);
}

#[test]
fn first_attempts_have_a_next_step() {
    for (body, hint) in [
        (
            "def execute(self, inputs):\n        inputs[0].data.decode()",
            "`data` is the bytes of a tensor",
        ),
        (
            "def execute(self, inputs):\n        inputs[0].as_numpy()",
            "a pyovms.Tensor has `name`",
        ),
        (
            "def execute(self, inputs):\n        inputs['in']",
            "`inputs` is a list: ",
        ),
        (
            "async def execute(self, inputs):\n        return []",
            "write `def`, not `async def`",
        ),
        (
            "def execute(self, inputs, state):\n        return []",
            "the server calls `execute(self, inputs)`",
        ),
    ] {
        let folder = repository::folder();
        let handler = format!("class OvmsPythonModel:\n    {body}\n");
        write(&folder.path().join("g"), PYTHON, &handler);
        let args = ["graph", "run", "g", "-i", "in=a"];
        let run = cli::run(cli::command().args(args).current_dir(folder.path()));
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let hints: Vec<&str> = run
            .stderr
            .lines()
            .filter(|line| line.starts_with("hint: "))
            .collect();
        assert!(
            matches!(hints[..], [only] if only.contains(hint)),
            "{hint}\n{}",
            run.stderr
        );
    }
}
