//! `ovms infer` and stateful models: whole sequences over every API, and what is left of them on
//! the server when they end in another way.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    Server, busy,
    cli::Run,
    fixture, grpc,
    infer::{GRPC, REST, TFS_GRPC, TFS_REST, command, infer, interrupt, json, read_npy, write_npy},
    repository,
};

const ALL: [&str; 4] = [GRPC, REST, TFS_GRPC, TFS_REST];

/// Three steps for `running_total`, and what they add up to.
const STEPS: &str = "x=[[1,2,3,4],[10,20,30,40],[100,200,300,400]]";
const TOTALS: [f64; 12] = [
    1.0, 2.0, 3.0, 4.0, 11.0, 22.0, 33.0, 44.0, 111.0, 222.0, 333.0, 444.0,
];

/// The inputs of a single step.
const ONE: &str = "x=[1,2,3,4]";

fn stateful(name: &str, flags: &[&str]) -> Server {
    Server::start_with(name, &[&["--stateful"], flags].concat())
}

/// Fails unless the server has no sequence of this id.
fn is_gone(server: &Server, model: &str, id: &str) {
    let flags = [model, "--zeros", "--continue", "--sequence-id", id];
    let flags = if model == "running_fail" {
        [&flags[..], &["-i=split=[1]"]].concat()
    } else {
        flags.to_vec()
    };
    let run = infer(server, GRPC, &flags);
    let text = "NOT_FOUND: Sequence with provided ID does not exist";
    assert!(run.stderr.contains(text), "{id}: {}", run.stderr);
}

fn spawn(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a command with a text as its standard input.
fn piped(server: &Server, api: &str, args: &[&str], text: &str) -> Run {
    let mut child = spawn(command(server, api).args(args));
    // It may end before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    ended(child)
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn lines(run: &Run) -> Vec<Value> {
    let text = run.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_sequence_is_one_answer_over_every_api() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let answer = json(&server, api, &["running_total", "-i", STEPS, "--sequence"]);
        assert_eq!(
            (&answer["sequence_id"], &answer["steps"]),
            (&1.into(), &3.into()),
            "{api}"
        );
        let outputs = answer["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 1, "the id is no output: {answer}");
        assert_eq!(outputs[0]["shape"], json!([3, 4]));
        assert_eq!(outputs[0]["data"], json!(TOTALS));
        is_gone(&server, "running_total", "1");

        let chosen = ["running_total", "-i", STEPS, "--sequence", "--sequence-id"];
        for id in ["77", "18446744073709551615"] {
            let answer = json(&server, api, &[&chosen[..], &[id]].concat());
            assert_eq!(answer["sequence_id"].to_string(), id, "{api}");
            assert_eq!(answer["outputs"][0]["data"], json!(TOTALS), "{api}");
            is_gone(&server, "running_total", id);
        }
    }
}

#[test]
fn the_axis_goes_if_the_array_has_one_more() {
    let server = stateful("running_total", &[]);
    for (input, flags, shape) in [
        (
            "x::3,1,4=[1,2,3,4,10,20,30,40,100,200,300,400]",
            &[][..],
            json!([3, 1, 4]),
        ),
        (
            "x=[[[1,2,3,4],[10,20,30,40],[100,200,300,400]]]",
            &["--axis=1"],
            json!([1, 3, 4]),
        ),
        ("x=[[[1,2,3,4]]]", &[], json!([1, 1, 4])),
    ] {
        for api in ALL {
            let args = [&["running_total", "-i", input, "--sequence"], flags].concat();
            let answer = json(&server, api, &args);
            assert_eq!(answer["outputs"][0]["shape"], shape, "{api} {input}");
            let count = answer["steps"].as_u64().unwrap() as usize;
            assert_eq!(
                answer["outputs"][0]["data"],
                json!(TOTALS[..4 * count]),
                "{api} {input}"
            );
            is_gone(&server, "running_total", "1");
        }
    }
}

#[test]
fn speech_is_found_in_frames() {
    let server = stateful("vad_stateful", &[]);
    let frames = format!("@{}", fixture("sequences/vad_frames.npy").display());
    let expected = read_npy(std::fs::read(fixture("expected/vad_prob.npy")).unwrap());
    let expected = grpc::to_floats(expected.data());
    let folder = repository::folder();
    let save = folder.path().display().to_string();
    for api in ALL {
        let args = [
            "vad_stateful",
            "-i",
            &frames,
            "--sequence",
            "--output",
            "npy",
            "--save",
            &save,
        ];
        let run = infer(&server, api, &args);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        assert!(
            run.stderr.starts_with("sequence_id: 1\n"),
            "{api}: {}",
            run.stderr
        );
        let found = read_npy(run.stdout);
        assert_eq!(found.shape(), [153, 1, 1]);
        let floats = grpc::to_floats(found.data());
        for (index, (found, expected)) in floats.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() < 1e-4,
                "{api} {index}: {found} {expected}"
            );
        }
        let saved = read_npy(std::fs::read(folder.path().join("prob.npy")).unwrap());
        assert_eq!(saved, found);
    }
}

#[test]
fn people_see_a_table_and_the_id() {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"in \d+\.\d\d s, [\d.]+ steps/s", "in <time>");
    settings.add_filter(r"answered in \d+\.\d\d ms", "answered in <time>");
    let _redacted = settings.bind_to_scope();
    let server = stateful("running_total", &[]);
    let run = infer(&server, GRPC, &["running_total", "-i", STEPS, "--sequence"]);
    insta::assert_snapshot!(run.failure(), @"
    exit 0
    Model `running_total`, version 1, answered 3 steps in <time>.
    ");
    insta::assert_snapshot!(run.text(), @"
    output  datatype  shape  min   mean  max  values
    total   FP32      (3,4)    1  102.5  444  1, 2, 3, 4, 11, 22, …

    sequence_id: 1
    ");
    let run = infer(
        &server,
        GRPC,
        &["running_total", "-i", STEPS, "--sequence", "--each"],
    );
    insta::assert_snapshot!(run.failure(), @"
    exit 0
    Model `running_total`, version 1, sequence 1:
    3 steps in <time>.
    ");
    insta::assert_snapshot!(run.text(), @"
    1  total: 1, 2, 3, 4
    2  total: 11, 22, 33, 44
    3  total: 111, 222, 333, 444
    ");
    let run = infer(&server, GRPC, &["running_total", "-i", ONE, "--start"]);
    insta::assert_snapshot!(run.failure(), @"
    exit 0
    Model `running_total`, version 1, answered in <time>.
    ");
    insta::assert_snapshot!(run.text(), @"
    output  datatype  shape  min  mean  max  values
    total   FP32      (1,4)    1   2.5    4  1, 2, 3, 4

    sequence_id: 1
    ");
}

#[test]
fn single_requests_of_a_sequence_are_sent_by_hand() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let ask = |flags: &[&str]| {
            let args = [&["running_total", "-i", ONE], flags].concat();
            let answer = json(&server, api, &args);
            assert_eq!(answer["outputs"].as_array().unwrap().len(), 1);
            (
                answer["sequence_id"].to_string(),
                answer["outputs"][0]["data"][3].clone(),
            )
        };
        let (id, total) = ask(&["--start"]);
        assert_eq!((id.as_str(), total), ("1", json!(4.0)), "{api}");
        let of_it = ["--sequence-id", id.as_str()];
        // Sequences go on in any API.
        for (other, flag, expected) in [(REST, "--continue", 8.0), (TFS_GRPC, "--continue", 12.0)] {
            let args = [&["running_total", "-i", ONE, flag], &of_it[..]].concat();
            let answer = json(&server, other, &args);
            assert_eq!(
                answer["outputs"][0]["data"][3],
                json!(expected),
                "{api} {other}"
            );
        }
        let (_, total) = ask(&[&["--end"], &of_it[..]].concat());
        assert_eq!(total, json!(16.0), "{api}");
        is_gone(&server, "running_total", "1");
        let (id, _) = ask(&["--start", "--sequence-id", "5"]);
        assert_eq!(id, "5");
        ask(&["--end", "--sequence-id", "5"]);
    }
    for api in [GRPC, REST] {
        let args = ["running_total", "-i", ONE, "--start", "--end"];
        let answer = json(&server, api, &args);
        assert_eq!(answer["sequence_id"], 1);
        is_gone(&server, "running_total", "1");
    }
}

#[test]
fn lines_are_steps_that_are_sent_as_they_come() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let args = [
            "running_total",
            "-i",
            "-",
            "--sequence",
            "--each",
            "--output",
            "json",
        ];
        let mut child = spawn(command(&server, api).args(args));
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for (step, (line, total)) in [("[1,2,3,4]", 4.0), (r#"{"x":[[0,0,0,1]]}"#, 5.0)]
            .into_iter()
            .enumerate()
        {
            writeln!(stdin, "{line}").unwrap();
            // Before there is another line, or the end.
            let mut text = String::new();
            stdout.read_line(&mut text).unwrap();
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["step"], step + 1, "{api}");
            assert_eq!(answer["sequence_id"], 1, "{api}");
            assert_eq!(answer["outputs"][0]["data"][3], total, "{api}");
        }
        drop(stdin);
        let mut rest = String::new();
        stdout.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "the answer to the end is not shown");
        assert_eq!(ended(child).failure(), "exit 0\n", "{api}");
        is_gone(&server, "running_total", "1");
    }
}

#[test]
fn lines_are_put_together_as_well() {
    let server = stateful("running_busy", &[]);
    for (args, text) in [
        (
            &["-i", "-"][..],
            "{\"x\":[1,2,3,4],\"steps\":1}\n\n{\"steps\":[2],\"x\":[1,1,1,1]}",
        ),
        (&["-i", "x=-", "-i", "steps=[1]"], "[1,2,3,4]\n[1,1,1,1]\n"),
        (&["-i", "x=-", "--zeros"], "[1,2,3,4]\n[1,1,1,1]\n"),
    ] {
        let args = [&["running_busy", "--sequence", "--output", "json"], args].concat();
        let run = piped(&server, GRPC, &args, text);
        assert_eq!(run.failure(), "exit 0\n", "{args:?}");
        let answer = &lines(&run)[0];
        assert_eq!(
            (&answer["steps"], &answer["sequence_id"]),
            (&2.into(), &1.into())
        );
        assert_eq!(answer["outputs"][0]["shape"], json!([2, 1, 4]));
        assert_eq!(answer["outputs"][0]["data"][7], 5.0);
    }
    is_gone(&server, "running_busy", "1");
}

#[test]
fn a_step_that_fails_is_named_and_the_sequence_is_gone() {
    let server = stateful("running_fail", &[]);
    for api in ALL {
        let steps = "x=[[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4]]";
        let args = [
            "running_fail",
            "-i",
            steps,
            "-i=split=[1,1,3,1]",
            "--sequence",
        ];
        let run = infer(&server, api, &args);
        assert_eq!((run.code, run.text().as_str()), (Some(1), ""), "{api}");
        let text = &run.stderr;
        assert!(
            text.starts_with("error: step 3 of 4: the server refused"),
            "{api}: {text}"
        );
        assert!(
            text.contains(" - sequence 1 has been closed\n"),
            "{api}: {text}"
        );
        is_gone(&server, "running_fail", "1");
    }
}

#[test]
fn a_line_that_cannot_be_sent_ends_the_sequence() {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("(INVALID_ARGUMENT|400 Bad Request)", "<code>");
    let _redacted = settings.bind_to_scope();
    let server = stateful("running_total", &[]);
    let args = [
        "running_total",
        "-i",
        "-",
        "--sequence",
        "--output",
        "json",
        "--each",
    ];
    for api in ALL {
        let after_one = |line: &str| {
            let run = piped(&server, api, &args, &format!("[1,2,3,4]\n{line}\n"));
            assert_eq!(lines(&run).len(), 1, "{api} {line}");
            is_gone(&server, "running_total", "1");
            run.failure()
        };
        insta::allow_duplicates! {
            insta::assert_snapshot!(after_one("[1,2,3,NaN]"), @"
            exit 64
            error: line 2 of standard input: input `x` has a NaN, which would stay in the state of the sequence
            hint: replace it; `--start`, `--continue` and `--end` send single steps as they are
            hint: sequence 1 has been ended on the server
            ");
            insta::assert_snapshot!(after_one("[1,2,3]"), @"
            exit 64
            error: line 2 of standard input: cannot use the value given for input `x`
              caused by: found 3 elements, shape (1,4) takes 4
            hint: sequence 1 has been ended on the server
            ");
            insta::assert_snapshot!(after_one("[[1,2,3]]"), @"
            exit 1
            error: step 2 (line 2 of standard input): the server refused the request: <code>: Invalid input shape - Expected: (1,4); Actual: (1,3); input name: x
            hint: sequence 1 has been ended on the server
            ");
        }
    }
    let none = piped(&server, GRPC, &args, "\n \n");
    insta::assert_snapshot!(none.failure(), @"
    exit 64
    error: standard input has no steps
    hint: each line is a step: an object of inputs by name, or the value of a model's one input
    ");
    let unread = piped(&server, GRPC, &args, "{\"y\":1}\n");
    insta::assert_snapshot!(unread.failure(), @"
    exit 64
    error: line 1 of standard input: the model has no input `y`
    hint: the inputs are `x`
    ");
}

#[test]
fn ctrl_c_ends_the_sequence() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let args = ["running_total", "-i", "-", "--sequence", "--each"];
        let mut child = spawn(command(&server, api).args(args));
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdin.write_all(b"[1,2,3,4]\n").unwrap();
        stdout.read_line(&mut String::new()).unwrap();
        interrupt(&child);
        let run = ended(child);
        assert_eq!(run.code, Some(130), "{api}: {}", run.stderr);
        let end =
            "error: interrupted after 1 step\nhint: sequence 1 has been ended on the server\n";
        assert!(run.stderr.ends_with(end), "{api}: {}", run.stderr);
        is_gone(&server, "running_total", "1");
    }
}

#[test]
fn ctrl_c_waits_for_the_step_under_way() {
    let server = stateful("running_busy", &[]);
    let steps = format!("steps=[{}]", busy::SECONDS / 4);
    let args = [
        "running_busy",
        "-i",
        "x::40,4=",
        "--zeros",
        "-i",
        &steps,
        "--sequence",
    ];
    let before = server.processor_time();
    let child = spawn(command(&server, GRPC).args(args));
    busy::wait_running(&server, before);
    interrupt(&child);
    let run = ended(child);
    let text = run.failure();
    assert!(
        text.starts_with("exit 130\nerror: interrupted after "),
        "{text}"
    );
    let end = " of 40 steps\nhint: sequence 1 has been ended on the server\n";
    assert!(text.ends_with(end), "{text}");
    is_gone(&server, "running_busy", "1");
}

#[test]
fn the_second_ctrl_c_leaves_at_once() {
    let server = stateful("running_busy", &[]);
    let steps = format!("steps=[{}]", busy::ENDLESS);
    let args = [
        "running_busy",
        "-i",
        STEPS,
        "-i",
        &steps,
        "--sequence",
        "--sequence-id=9",
    ];
    let before = server.processor_time();
    let child = spawn(command(&server, GRPC).args(args));
    busy::wait_running(&server, before);
    let pressed = std::time::Instant::now();
    interrupt(&child);
    // A signal that comes before the first one was seen is the same one.
    let run = std::thread::scope(|scope| {
        let id = child.id();
        let waiting = scope.spawn(|| ended(child));
        while !waiting.is_finished() {
            let _ = Command::new("kill")
                .args(["-s", "INT", &id.to_string()])
                .status();
        }
        waiting.join().unwrap()
    });
    assert!(pressed.elapsed().as_secs() < 4, "it waited for the step");
    insta::assert_snapshot!(run.failure(), @"
    exit 130
    error: interrupted
    hint: sequence 9 may still live on the server
    ");
}

#[test]
fn a_closed_pipe_ends_the_sequence_quietly() {
    let server = stateful("running_total", &[]);
    for format in ["table", "json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(&server, GRPC);
        command.args([
            "running_total",
            "-i",
            STEPS,
            "--sequence",
            "--each",
            "--output",
            format,
        ]);
        let child = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let run = ended(child);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(!run.stderr.contains("error"), "{}", run.stderr);
        is_gone(&server, "running_total", "1");
    }
}

#[test]
fn what_the_server_refuses_comes_with_the_next_step() {
    let server = stateful("running_total", &["--max_sequence_number=1"]);
    let first = ["running_total", "-i", ONE, "--start", "--sequence-id=3"];
    assert_eq!(infer(&server, GRPC, &first).code, Some(0));
    let text = |flags: &[&str]| {
        let run = infer(
            &server,
            GRPC,
            &[&["running_total", "-i", STEPS], flags].concat(),
        );
        assert_eq!(run.text(), "");
        run.failure()
    };
    insta::assert_snapshot!(text(&["--sequence"]), @"
    exit 1
    error: step 1 of 3: the server refused the request: UNAVAILABLE: Max sequence number has been reached. Could not create new sequence.
    hint: `--max_sequence_number` of the server sets the limit; sequences that are left alone end after a while
    ");
    let run = infer(
        &server,
        GRPC,
        &["running_total", "-i", ONE, "--continue", "--sequence-id=4"],
    );
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: the server refused the request: NOT_FOUND: Sequence with provided ID does not exist
    hint: it has ended or was left alone for too long, or it is of another version of the model; `--start` starts one
    ");
    let server = stateful("running_total", &[]);
    assert_eq!(infer(&server, GRPC, &first).code, Some(0));
    let run = infer(&server, GRPC, &first);
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: the server refused the request: ALREADY_EXISTS: Sequence with provided ID already exists
    hint: choose another `--sequence-id`, or leave it out and the server chooses one
    ");
    // Somebody else's: it is not ended.
    let run = infer(
        &server,
        GRPC,
        &[
            "running_total",
            "-i",
            STEPS,
            "--sequence",
            "--sequence-id=3",
        ],
    );
    assert_eq!(run.code, Some(1));
    let answer = json(
        &server,
        GRPC,
        &["running_total", "-i", ONE, "--end", "--sequence-id=3"],
    );
    assert_eq!(answer["outputs"][0]["data"][3], 8.0);
}

#[test]
fn a_model_that_does_not_remember_is_told() {
    let server = Server::start("running_total");
    let args = ["running_total", "-i", STEPS, "--sequence"];
    for api in [GRPC, REST] {
        let run = infer(&server, api, &args);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure(), @"
            exit 1
            error: step 1 of 3: the answer does not tell the id of the sequence
            hint: is the model served with `--stateful`?
            hint: a server that does not choose ids needs `--sequence-id`
            ");
        }
        let run = infer(
            &server,
            api,
            &[&args[..], &["--sequence-id=4", "--output=json"]].concat(),
        );
        assert_eq!(
            run.failure(),
            "exit 0\nThe answers do not tell the id of the sequence: is the model served with \
             `--stateful`?\n"
        );
    }
    for api in [TFS_GRPC, TFS_REST] {
        let run = infer(&server, api, &args);
        assert_eq!(run.code, Some(1));
        let hint = "\nhint: is the model served with `--stateful`?\n";
        assert!(run.stderr.ends_with(hint), "{api}: {}", run.stderr);
    }
}

#[test]
fn outputs_that_differ_from_step_to_step_are_shown_one_by_one() {
    let server = stateful("passthrough_f32", &[]);
    let args = [
        "passthrough_f32",
        "-i",
        "-",
        "--sequence",
        "--output",
        "json",
    ];
    let text = "[[1,2]]\n[[1,2,3]]\n";
    let run = piped(&server, GRPC, &args, text);
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: step 2 (line 2 of standard input): output `out` is FP32 (1,3), those of the steps before are FP32 (1,2): they cannot be stacked
    hint: `--each` shows the outputs of each step by themselves
    hint: sequence 1 has been ended on the server
    ");
    let run = piped(&server, GRPC, &[&args[..], &["--each"]].concat(), text);
    assert_eq!(run.failure(), "exit 0\n");
    let shapes: Vec<_> = lines(&run)
        .iter()
        .map(|answer| answer["outputs"][0]["shape"].clone())
        .collect();
    assert_eq!(shapes, [json!([1, 2]), json!([1, 3])]);
}

#[test]
fn what_gives_no_steps_is_refused_before_anything_is_started() {
    let server = stateful("running_busy", &["--max_sequence_number=0"]);
    let folder = repository::folder();
    let file = folder.path().join("x.npy");
    write_npy(&file, &crate::support::infer::tensor(&[0, 4], &[]));
    let empty = format!("x=@{}", file.display());
    let texts: Vec<_> = [
        &["-i", &empty, "--zeros"][..],
        &["-i=x=[[1,2,3],[4,5,6]]", "--zeros"],
        &["-i", STEPS, "-i=steps=[1,2]"],
        &["-i", STEPS, "-i=step=1"],
        &["-i", STEPS],
        &["-i=x=[[1,2,3,4],[1,NaN,3,4]]", "--zeros"],
        &["-i", ONE, "-i=steps=1"],
        &["-i", STEPS, "--zeros", "--axis=3"],
    ]
    .map(|flags| {
        let run = infer(
            &server,
            GRPC,
            &[&["running_busy", "--sequence"], flags].concat(),
        );
        assert_eq!(run.text(), "");
        run.failure()
    })
    .into_iter()
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error: input `x` has no steps: its shape is (0,4)
    hint: a sequence has one step at least

    exit 64
    error: input `x` has shape (2,3), expected (N,4) or (N,1,4) for N steps along axis 0
    hint: `--axis` names another axis; `-i x::SHAPE=…` gives a shape
    hint: what has the model's own shape goes with every step

    exit 64
    error: input `x` has 3 steps, input `steps` has 2
    hint: what has the model's own shape, or one step, goes with every step

    exit 64
    error: the model has no input `step`
    hint: did you mean `steps`?
    hint: the inputs are `steps`, `x`

    exit 64
    error: found no value for input `steps` (INT64 (1))
    hint: add `-i steps=VALUE`
    hint: or fill what is not given with `--zeros` or `--random`
    hint: `ovms infer running_busy` alone explains the inputs

    exit 64
    error: input `x` has a NaN in step 2, which would stay in the state of the sequence
    hint: replace it; `--start`, `--continue` and `--end` send single steps as they are

    exit 64
    error: no input has steps: every one has the shape that the model takes at once
    hint: give one of them an axis of steps; `--start`, `--continue` and `--end` send single steps

    exit 64
    error: input `x` has shape (3,4), expected an axis within (1,4) or right behind it for N steps along axis 3
    hint: `--axis` names another axis; `-i x::SHAPE=…` gives a shape
    hint: what has the model's own shape goes with every step
    ");
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let server = stateful("running_total", &[]);
    let texts: Vec<_> = [
        (GRPC, &["--end"][..]),
        (TFS_REST, &["--start", "--end"]),
        (GRPC, &["--start", "--param=sequence_id=1"]),
        (GRPC, &["--start", "-i=sequence_id:UINT64=[1]"]),
        (GRPC, &["--sequence", "--each", "--output=npy"]),
        (GRPC, &["--sequence", "-i=-", "--axis=0"]),
        (GRPC, &["--sequence", "-i=-", "-i=x=-"]),
    ]
    .map(|(api, flags)| {
        let run = infer(&server, api, &[&["running_total"], flags].concat());
        assert_eq!(run.text(), "");
        run.failure()
    })
    .into_iter()
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error: `--end` needs `--sequence-id`
    hint: `--start` tells the id; `--start --end` is a sequence of one request

    exit 64
    error: `--start --end` does not fit `--api tfs-rest`
    hint: its requests can start a sequence or end it; send `--start`, then `--end` with the id that it tells

    exit 64
    error: `--param sequence_id=…` is what the flags of sequences send themselves
    hint: `--sequence-id`, `--start`, `--continue` and `--end` take its place

    exit 64
    error: `-i sequence_id=…` is what the flags of sequences send themselves
    hint: `--sequence-id`, `--start`, `--continue` and `--end` take its place

    exit 64
    error: each step by itself has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`

    exit 64
    error: `--axis` does not fit steps from standard input
    hint: there each line is a step

    exit 64
    error: found `-` for two inputs, standard input can be read once
    hint: give one JSON object of inputs by name
    ");
    for (flags, text) in [
        (&["--sequence", "--repeat=2"][..], "cannot be used with"),
        (&["--sequence", "--duration=1s"], "cannot be used with"),
        (
            &["--sequence", "--concurrency=2"],
            "--repeat <N>|--duration <TIME>",
        ),
        (&["--start", "--repeat=2"], "cannot be used with"),
        (&["--sequence", "--start"], "cannot be used with"),
        (
            &["--continue", "--sequence-id=1", "--end"],
            "cannot be used with",
        ),
        (&["--continue"], "--sequence-id <ID>"),
        (
            &["--sequence-id=1"],
            "<--sequence|--start|--continue|--end>",
        ),
        (&["--sequence", "--sequence-id=0"], "0 is not in 1.."),
        (&["--axis=1"], "--sequence"),
        (&["--each"], "--sequence"),
        (&["--sequence", "--each", "--save=x"], "cannot be used with"),
        (&["--sequence", "--each", "--top=1"], "cannot be used with"),
        (&["--status", "--sequence"], "cannot be used with"),
        (&["--metadata", "--continue"], "cannot be used with"),
    ] {
        let run = infer(
            &server,
            GRPC,
            &[&["running_total", "--zeros"], flags].concat(),
        );
        assert_eq!(run.code, Some(64), "{flags:?}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn no_server_is_not_reachable() {
    let (port, _) = crate::support::server::free_ports();
    for api in ALL {
        let mut command = crate::support::infer::at(port, api);
        let run = crate::support::cli::run(command.args(["m", "-i", STEPS, "--sequence"]));
        assert_eq!(run.code, Some(69), "{api}: {}", run.stderr);
    }
}
