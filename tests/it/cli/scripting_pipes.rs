//! Commands in a pipeline: each reads the output of the one before; and nothing but data on stdout.

use std::{io::Read as _, process::Stdio};

use ovms::tensor::{DataType, Tensor};
use serde_json::{Value, json};

use super::shared::served;
use crate::support::{
    Server,
    cli::{self, Run, ovms, words},
    dtypes,
    infer::{GRPC, REST, command, infer, read_npy, redacted, write_npy},
    repository,
    steps::{STEPS, piped},
};

/// Runs two commands with a pipe between them.
fn pipe(server: &Server, first: &[&str], second: &[&str]) -> Run {
    let mut first = command(server, GRPC)
        .args(first)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let run = cli::run(
        command(server, GRPC)
            .args(second)
            .stdin(Stdio::from(first.stdout.take().unwrap())),
    );
    first.wait().unwrap();
    run
}

fn outputs(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
    answer["outputs"].clone()
}

/// Every datatype comes through as it is, with the values that JSON or other types do not hold.
#[test]
fn datatypes_shapes_and_values_stay() {
    let server = served();
    for row in dtypes::rows() {
        let name = row.model;
        let input = format!("in={}", row.json);
        let first = [name, "-i", &input, "--output", "json"];
        let once = infer(server, GRPC, &first);
        let again = [name, "-i", "-", "--output", "json"];
        let twice = piped(server, GRPC, &again, &once.text());
        assert_eq!(outputs(&twice), outputs(&once), "{name}");
        assert_eq!(outputs(&once)[0]["datatype"], row.datatype, "{name}");
    }
}

/// Lines of answers are steps of a sequence, and requests of a stream.
#[test]
fn lines_of_answers_are_steps() {
    let server = served();
    let model = "running_total";
    let each = [
        model,
        "-i",
        STEPS,
        "--sequence",
        "--each",
        "--output",
        "json",
    ];
    let run = pipe(
        server,
        &each,
        &[model, "-i", "x=-", "--sequence", "--output", "json"],
    );
    let totals = [
        1.0, 2.0, 3.0, 4.0, 12.0, 24.0, 36.0, 48.0, 123.0, 246.0, 369.0, 492.0,
    ];
    assert_eq!(outputs(&run)[0]["data"], json!(totals));
    // As a whole, it is cut into the same steps.
    let all = [model, "-i", STEPS, "--sequence", "--output", "json"];
    let run = pipe(
        server,
        &all,
        &[model, "-i", "@-.json", "--sequence", "--output", "json"],
    );
    assert_eq!(outputs(&run)[0]["data"], json!(totals));

    let server = Server::shared("two_outputs");
    let stream = words("two_outputs -i x::3,4=[1,1,1,1,2,2,2,2,3,3,3,3] --stream");
    let first = [&stream[..], &["--axis", "0", "--output", "json"]].concat();
    let second = words("two_outputs -i x=-:twice --stream --output json");
    let run = pipe(server, &first, &second);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let totals: Vec<Value> = run
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .flat_map(|line| line["outputs"].as_array().unwrap().clone())
        .filter(|output| output["name"] == "total")
        .map(|output| output["data"][0].clone())
        .collect();
    assert_eq!(totals, [8.0, 16.0, 24.0]);
}

#[test]
fn large_answers_go_through_a_pipe() {
    let server = Server::shared("passthrough_f32");
    let folder = repository::folder();
    let file = folder.path().join("large.npy");
    let numbers: Vec<u8> = (0..3_000_000u32)
        .flat_map(|number| (number as f32 / 7.0).to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F32, vec![3, 1_000_000], numbers.into()).unwrap();
    write_npy(&file, &tensor);
    let input = format!("in=@{}", file.display());
    let run = pipe(
        server,
        &["passthrough_f32", "-i", &input, "--output", "json"],
        &["passthrough_f32", "-i", "in=-", "--output", "npy"],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(read_npy(run.stdout) == tensor, "the elements are others");
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let server = Server::shared("passthrough_f32");
    let mut child = command(server, GRPC)
        .args(words(
            "passthrough_f32 -i in::500,500= --zeros --output json",
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begin = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Commands that go well with `--quiet` leave stderr alone, and stdout is the same.
#[test]
fn quiet_leaves_data_and_errors_alone() {
    let _redacted = redacted();
    let server = served();
    let folder = repository::folder();
    let save = folder.path().join("saved");
    let save = save.to_str().unwrap();
    let one = ["running_total", "-i", "x=[1,2,3,4]", "--start", "--end"];
    for args in [
        &["--status"][..],
        &["--metadata"],
        &["--metadata", "running_total"],
        &[&one[..], &["--output", "npy"]].concat(),
        &[&one[..], &["--save", save]].concat(),
        &[
            "running_total",
            "-i",
            STEPS,
            "--sequence",
            "--sequence-id",
            "7",
        ],
        &[
            "running_total",
            "-i",
            STEPS,
            "--sequence",
            "--sequence-id",
            "8",
            "--each",
        ],
    ] {
        let reported = infer(server, REST, args);
        let quiet = infer(server, REST, &[args, &["--quiet"]].concat());
        assert_eq!(
            (reported.code, quiet.failure().as_str()),
            (Some(0), "exit 0\n"),
            "{args:?}"
        );
        let shown = |run: &Run| {
            let text = String::from_utf8_lossy(&run.stdout).into_owned();
            let lines = text.lines().filter(|line| !line.contains("sequence_id"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(&reported), shown(&quiet), "{args:?}");
        assert_ne!(reported.stderr, "", "{args:?} prints something");
    }
    // The explanation goes, and the error stays.
    let none = infer(server, GRPC, &["-q", "running_total"]);
    insta::assert_snapshot!(none.failure(), @"
    exit 64
    error: no input given for model `running_total`
    hint: such as: ovms infer running_total -i 'x=[0, 0, 0, 0]' --url <address>
    hint: or fill every input with `--zeros` or `--random`
    ");
    let setup = ovms(["-q", "setup"]);
    assert_eq!(setup.failure(), "exit 0\n");
}

/// No colour, no boxes and no bars in what another program reads, whatever the terminal is.
#[test]
fn pipes_have_no_colours() {
    let server = Server::shared("dummy");
    for args in [&["--status"][..], &["dummy", "--zeros", "--repeat", "50"]] {
        let mut command = command(server, GRPC);
        command
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .args(args);
        let run = cli::run(&mut command);
        let all = run.text() + &run.stderr;
        assert!(!all.contains(['\u{1b}', '│', '\r']), "{all}");
    }
}
