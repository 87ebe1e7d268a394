//! Output that cannot be written. The exit codes of each subcommand are in the sheet `exits`.

use std::{fs, path::Path, process::Stdio};

use serde_json::{Value, json};

use crate::support::{
    Server,
    cli::{self, Run, words},
    infer::{self, GRPC},
    model,
    pipelines::{connections, dl},
    repository,
};

/// Runs a command with this standard output.
fn with(stdout: Stdio, mut command: std::process::Command) -> Run {
    command.stdout(stdout).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns a pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    closed.into()
}

/// Help and version are output like any other: a full disk is an error, and a closed pipe is none.
#[test]
fn output_that_cannot_be_written_is_reported() {
    for line in [
        "--help",
        "--version",
        "",
        "help",
        "infer --help",
        "serve --version",
        "serve --help",
        "completions bash",
        "doctor --output json",
        "key new",
        "man infer",
    ] {
        let command = || {
            let mut command = cli::command();
            command.args(line.split_whitespace());
            command
        };
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(
            with(full.into(), command()).failure(),
            "exit 1\nerror: cannot write to standard output\n  caused by: No space left on device (os error 28)\n",
            "ovms {line}"
        );
        // The verdict of the doctor is about this machine.
        let read = cli::run(&mut command());
        assert_eq!(
            with(unread(), command()).failure(),
            read.failure(),
            "ovms {line}"
        );
    }
}

/// Runs a command in a folder, read and unread: it fails with the same words.
fn fails_alike(folder: &Path, line: &str) {
    let command = || {
        let mut command = cli::command();
        command.current_dir(folder).args(words(line));
        command
    };
    let read = cli::run(&mut command());
    assert_eq!(read.code, Some(1), "ovms {line}: {}", read.failure());
    let unread = with(unread(), command());
    assert_eq!(unread.failure(), read.failure(), "ovms {line}");
}

#[test]
fn a_check_that_nobody_reads_has_its_verdict() {
    let folder = repository::folder();
    fs::write(folder.path().join("graph.pbtxt"), "node {").unwrap();
    let config = json!({
        "model_config_list": [{"config": {"name": "m", "base_path": "absent"}}],
        "pipeline_config_list": [
            {"name": "p", "inputs": ["x"], "outputs": connections("y=n.y"),
             "nodes": [dl("n", "absent", "x=request.x", "y=y")]},
        ],
    });
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    for line in [
        "graph check graph.pbtxt",
        "graph check absent --output json",
        "pipeline check config.json",
        "pipeline check config.json --output json",
        "serve --check --config-path config.json --port 1 --output json",
        "serve --check --config-path absent.json --port 1 --output json",
    ] {
        fails_alike(folder.path(), line);
    }
}

#[test]
fn a_load_that_nobody_reads_has_its_verdict_and_its_files() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let mut command = cli::command();
    command.current_dir(folder.path());
    let url = format!("127.0.0.1:{}", server.port);
    command.args(["bench", "dummy", "--url", &url]);
    command.args(words(
        "--duration 100ms --save a.json --html a.html --fail-if p50>1us --output json",
    ));
    let run = with(unread(), command);
    assert_eq!(run.code, Some(1), "{}", run.failure());
    assert!(
        run.stderr.contains("1 finding of `--fail-if`"),
        "{}",
        run.failure()
    );
    let saved = fs::read(folder.path().join("a.json")).unwrap();
    let saved: Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!(saved["findings"].as_array().unwrap().len(), 1, "{saved}");
    assert!(folder.path().join("a.html").is_file());
    let line = "bench a.json --against a.json --fail-if p50>1us --output json";
    fails_alike(folder.path(), line);
    // Each of its requests is refused.
    let mut command = infer::command(server, GRPC);
    command.args(words("dummy -i b::2,10= --zeros --repeat 3"));
    let run = with(unread(), command);
    assert!(
        run.failure().contains("3 of 3 requests failed"),
        "{}",
        run.failure()
    );
    assert_eq!(run.code, Some(1));
}

#[test]
fn a_run_that_nobody_reads_saves_its_files() {
    let folder = repository::folder();
    let config = json!({
        "model_config_list": [
            {"config": {"name": "same", "base_path": model("passthrough_f32")}},
        ],
        "pipeline_config_list": [
            {"name": "p", "inputs": ["x"], "outputs": connections("y=n.out"),
             "nodes": [dl("n", "same", "in=request.x", "out=out")]},
        ],
    });
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut command = cli::command();
    command.current_dir(folder.path()).args(words(
        "pipeline run config.json p -i x=[[1]] --save-intermediate saved --output json",
    ));
    let run = with(unread(), command);
    assert_eq!(run.code, Some(0), "{}", run.failure());
    assert!(folder.path().join("saved/response.y.npy").is_file());
}
