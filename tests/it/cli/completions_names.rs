//! Names that the scripts are offered: from servers and files, in silence on errors, and in time.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::support::{
    Server,
    checks::{dummy, entry, file, sound},
    cli::{self, Run},
    graphs, model, repository, shells,
};

/// Completes like fish, with the cursor in the last word; panics on output besides names.
fn asked(folder: &Path, line: &[&str]) -> String {
    said(folder, Some(shells::WITHIN), line)
}

/// Completes with a time limit, in milliseconds.
fn said(folder: &Path, within: Option<&str>, line: &[&str]) -> String {
    let mut command = cli::command();
    let run = ask(command.current_dir(folder), within, line);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line:?}");
    run.text()
}

fn ask(command: &mut Command, within: Option<&str>, line: &[&str]) -> Run {
    command.env("COMPLETE", "fish");
    if let Some(within) = within {
        command.env("OVMS_COMPLETE_MS", within);
    }
    cli::run(command.args(["--", "ovms"]).args(line))
}

/// Returns whether a command was offered nothing, or its flags.
fn has_no_names(offered: &str) -> bool {
    offered.lines().all(|line| line.starts_with('-'))
}

#[test]
fn every_protocol_lists_servables_and_tensors() {
    let server = Server::shared("dummy");
    let (grpc, rest) = (
        format!("127.0.0.1:{}", server.port),
        format!("127.0.0.1:{}", server.rest_port),
    );
    let folder = repository::folder();
    for (api, url, servable) in [
        ("kserve-grpc", &grpc, "dummy\t1 READY\n"),
        ("kserve-rest", &rest, "dummy\t1 READY\n"),
        ("tfs-grpc", &grpc, "dummy\tservable\n"),
        ("tfs-rest", &rest, "dummy\t1 AVAILABLE\n"),
    ] {
        let of = |line: &[&str]| {
            let server = ["infer", "--api", api, "--url", url];
            asked(folder.path(), &[&server, line].concat())
        };
        assert_eq!(of(&[""]), servable, "{api}");
        let tensor = "FP32 [1,10]";
        assert_eq!(of(&["dummy", "-i", ""]), format!("b=\t{tensor}\n"), "{api}");
        assert_eq!(
            of(&["dummy", "--output-name="]),
            format!("--output-name=a\t{tensor}\n"),
            "{api}"
        );
        assert!(
            of(&["dummy", "--model-version", ""]).starts_with("1\t"),
            "{api}"
        );
        // Where a value is typed, and of what is not there, there is nothing to offer.
        assert_eq!(of(&["dummy", "-i", "b="]), "", "{api}");
        assert_eq!(of(&["nosuch", "-i", ""]), "", "{api}");
    }
}

#[test]
fn files_list_their_pipelines_graphs_models_and_inputs() {
    let folder = repository::folder();
    let config = file(
        &[dummy(), entry("far", &model("nosuch"), "")],
        &[],
        &[sound("first"), sound("sec ond"), sound(r"\u001b[2J")],
    );
    fs::write(folder.path().join("config.json"), config).unwrap();
    let asked = |line: &[&str]| asked(folder.path(), line);
    for command in ["show", "check", "run"] {
        assert_eq!(
            asked(&["pipeline", command, "config.json", ""]),
            "first\tpipeline\nsec ond\tpipeline\n",
            "{command}"
        );
    }
    assert_eq!(
        asked(&["pipeline", "run", "config.json", "first", "-i", ""]),
        "x=\tinput\n"
    );
    // The shell passes on what is typed.
    let at_home = ask(
        cli::command().env("HOME", folder.path()),
        Some(shells::WITHIN),
        &["pipeline", "show", "~/config.json", ""],
    );
    assert_eq!(at_home.text(), "first\tpipeline\nsec ond\tpipeline\n");
    for line in [
        &["serve", "--config_path", "config.json", "--model_name", ""][..],
        &[
            "--config_path=config.json",
            "--remove_from_config",
            "--model_name",
            "",
        ],
        &[
            "graph",
            "new",
            "g",
            "--config",
            "config.json",
            "--model",
            "",
        ],
    ] {
        assert_eq!(asked(line), "dummy\tmodel\nfar\tmodel\n", "{line:?}");
    }
}

#[test]
fn without_a_server_a_file_lists_what_it_would_serve() {
    let folder = repository::folder();
    let config = file(&[dummy()], &[], &[sound("first")]);
    fs::write(folder.path().join("config.json"), config).unwrap();
    let asked = |url: &str, config: &str| {
        let mut command = cli::command();
        let command = command
            .current_dir(folder.path())
            .env("OVMS_CONFIG", config);
        let run = ask(command, Some("2000"), &["infer", "--url", url, ""]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{config}");
        run.text()
    };
    // Nobody listens on the first, and the second takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    for url in ["127.0.0.1:1", &silent] {
        let names = "dummy\tmodel\nfirst\tpipeline\n";
        assert_eq!(asked(url, "config.json"), names, "{url}");
        assert!(has_no_names(&asked(url, "nosuch.json")), "{url}");
        assert!(has_no_names(&asked(url, "")), "{url}");
    }
    let server = Server::shared("dummy");
    let url = format!("127.0.0.1:{}", server.port);
    assert_eq!(asked(&url, "config.json"), "dummy\t1 READY\n");
}

#[test]
fn graphs_list_their_inputs() {
    let folder = repository::folder();
    graphs::write(&folder.path().join("two"), graphs::TWO);
    let list = r#"{"model_config_list": [], "mediapipe_config_list": [{"name": "two"}]}"#;
    fs::write(folder.path().join("config.json"), list).unwrap();
    let asked = |line: &[&str]| asked(folder.path(), line);
    let named = asked(&["graph", "show", "config.json", ""]);
    assert_eq!(named, "two\tgraph\n");
    let inputs = "a=\tinput\nb=\tinput\n";
    let of_file = ["graph", "run", "config.json", "two", "-i", ""];
    assert_eq!(asked(&of_file), inputs);
    assert_eq!(asked(&["graph", "run", "two", "-i", ""]), inputs);
    let given = ["graph", "run", "two", "-i", "a:FP32=1", "-i", ""];
    assert_eq!(asked(&given), "b=\tinput\n");
}

#[test]
fn nothing_to_ask_is_nothing_said_and_costs_no_time() {
    let folder = repository::folder();
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("broken.json"), "{").unwrap();
    let entries = vec![dummy(); 200_000];
    fs::write(path("huge.json"), file(&entries, &[], &[sound("first")])).unwrap();
    let made = Command::new("mkfifo").arg(path("pipe.json")).status();
    assert!(made.unwrap().success());
    for line in [
        &["infer", "--url", &silent, ""][..],
        &["infer", "--api", "kserve-rest", "--url", &silent, ""],
        &[
            "infer", "--api", "tfs-rest", "--url", &silent, "m", "-i", "",
        ],
        &["infer", "--url", "127.0.0.1:1", ""],
        &["infer", "--url", "no.such.host.invalid", ""],
        &["infer", "--url", "no address", ""],
        &["infer", "--api", "no-such-api", ""],
        &["infer", "--header", "no pair", ""],
        &["infer", "--no-such-flag", "--url", "127.0.0.1:1", ""],
        &["infer", "-i", ""],
        &["pipeline", "show", "broken.json", ""],
        &["pipeline", "show", "nosuch.json", ""],
        &["pipeline", "show", "pipe.json", ""],
        &["pipeline", "show", ".", ""],
        &["graph", "run", "pipe.json", "-i", ""],
        &["graph", "run", ".", "-i", ""],
        &[],
    ] {
        let began = Instant::now();
        let offered = said(folder.path(), None, line);
        assert!(has_no_names(&offered), "{line:?}: {offered}");
        // The limit is less; what is over is the start of a program on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(5), "{line:?}");
    }
    let began = Instant::now();
    let huge = said(folder.path(), None, &["pipeline", "show", "huge.json", ""]);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(has_no_names(&huge) || huge == "first\tpipeline\n", "{huge}");
}

#[test]
fn the_address_may_be_in_the_environment() {
    let server = Server::shared("dummy");
    let url = format!("127.0.0.1:{}", server.port);
    let run = ask(
        cli::command().env("OVMS_URL", &url),
        Some(shells::WITHIN),
        &["infer", ""],
    );
    assert_eq!(run.text(), "dummy\t1 READY\n");
    // The line goes before it.
    let other = ["infer", "--url", "127.0.0.1:1", ""];
    let run = ask(
        cli::command().env("OVMS_URL", &url),
        Some(shells::WITHIN),
        &other,
    );
    assert!(has_no_names(&run.text()), "{}", run.text());
}
