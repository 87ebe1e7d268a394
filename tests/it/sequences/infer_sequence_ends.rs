//! `ovms infer` and sequences without a regular end: messages, and their state on the server.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    time::Instant,
};

use serde_json::json;

use crate::support::{
    Server, busy, cli, eventually,
    infer::{
        GRPC, REST, TFS_GRPC, TFS_REST, at, command, infer, interrupt, json, redacted, tensor,
        write_npy,
    },
    repository,
    server::free_ports,
    steps::{ALL, ONE, STEPS, ended, is_gone, lines, piped, spawn, stateful},
};

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
            "--sequence-id=1",
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
        "--sequence-id=1",
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
        let args = [
            "running_total",
            "-i",
            "-",
            "--sequence",
            "--sequence-id=1",
            "--each",
        ];
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
fn ctrl_c_waits_for_the_step_in_flight() {
    let server = stateful("running_busy", &["--plugin_config", busy::PLUGIN_CONFIG]);
    let steps = format!("steps=[{}]", busy::SECONDS / 200);
    let args = [
        "running_busy",
        "-i",
        "x::1000,4=",
        "--zeros",
        "-i",
        &steps,
        "--sequence",
        "--sequence-id=1",
        "--each",
        "--output=json",
    ];
    let mut child = spawn(command(&server, GRPC).args(args));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    interrupt(&child);
    let run = ended(child);
    let text = run.failure();
    assert!(
        text.starts_with("exit 130\nerror: interrupted after "),
        "{text}"
    );
    let end = " of 1000 steps\nhint: sequence 1 has been ended on the server\n";
    assert!(text.ends_with(end), "{text}");
    is_gone(&server, "running_busy", "1");
}

#[test]
fn a_step_that_takes_too_long_is_given_up() {
    let _redacted = redacted();
    let server = stateful("running_busy", &[]);
    let endless = format!("steps=[{}]", busy::ENDLESS);
    let late = [
        "running_busy",
        "-i",
        STEPS,
        "-i",
        &endless,
        "--sequence",
        "--timeout=200ms",
        "--sequence-id=9",
    ];
    insta::assert_snapshot!(
        infer(&server, GRPC, &late).failure(),
        @"
    exit 1
    error: step 1 of 3: no answer from <address> within 200ms
    hint: `--timeout` sets the limit
    hint: sequence 9 may still live on the server
    "
    );
}

#[test]
fn the_second_ctrl_c_leaves_at_once() {
    let server = stateful("running_busy", &[]);
    let steps = format!("steps=[1,{},1]", busy::ENDLESS);
    let args = [
        "running_busy",
        "-i",
        STEPS,
        "-i",
        &steps,
        "--sequence",
        "--sequence-id=9",
        "--each",
        "--output=json",
    ];
    let mut child = spawn(command(&server, GRPC).args(args));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    busy::wait_running(&server, server.processor_time());
    let pressed = Instant::now();
    // A signal that comes before the first one was seen is the same one.
    eventually("the end of the client", || {
        let status = child.try_wait().unwrap();
        if status.is_none() {
            interrupt(&child);
        }
        status
    });
    let run = ended(child);
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
            "--sequence-id=1",
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
    hint: choose another `--sequence-id`, or leave it out and a random one is taken
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
fn a_model_that_does_not_remember_is_reported() {
    let server = Server::start("running_total");
    let args = ["running_total", "-i", STEPS, "--sequence"];
    for api in [GRPC, REST] {
        let run = infer(&server, api, &args);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure(), @"
            exit 1
            error: step 1 of 3: the answer does not tell the id of the sequence
            hint: is the model served with `--stateful`?
            hint: with `--sequence-id` the answers are shown all the same
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
        "--sequence-id=1",
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
    write_npy(&file, &tensor(&[0, 4], &[]));
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
    let (port, _) = free_ports();
    for api in ALL {
        let mut command = at(port, api);
        let run = cli::run(command.args(["m", "-i", STEPS, "--sequence"]));
        assert_eq!(run.code, Some(69), "{api}: {}", run.stderr);
    }
}
