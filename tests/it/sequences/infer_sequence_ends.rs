//! `ovms infer` and sequences without a regular end: messages, and their state on the server.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    time::Instant,
};

use super::shared;
use crate::support::{
    busy,
    cli::{self, Run, words},
    eventually,
    infer::{GRPC, REST, at, command, infer, interrupt, redacted},
    repository,
    sequence::{entry, serve, serve_file, write},
    server::free_ports,
    steps::{ALL, STEPS, ended, is_gone, spawn},
};

/// Sends the first step of sequence 1, and Ctrl-C when it is answered.
fn interrupted_after_a_step(model: &str, api: &str, flags: &[&str]) -> Run {
    let args = words("-i - --sequence --sequence-id=1 --each");
    let mut command = command(shared::server(), api);
    let mut child = spawn(command.arg(model).args(args).args(flags));
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"[1,2,3,4]\n").unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    interrupt(&child);
    ended(child)
}

#[test]
fn ctrl_c_ends_the_sequence() {
    let server = shared::server();
    for api in ALL {
        let run = interrupted_after_a_step("ctrl_c_ends", api, &[]);
        assert_eq!(run.code, Some(130), "{api}: {}", run.stderr);
        let end =
            "error: interrupted after 1 step\nhint: sequence 1 has been ended on the server\n";
        assert!(run.stderr.ends_with(end), "{api}: {}", run.stderr);
        is_gone(server, "ctrl_c_ends", "1");
    }
}

#[test]
fn ctrl_c_leaves_a_sequence_that_is_to_stay_open() {
    let server = shared::server();
    let run = interrupted_after_a_step("ctrl_c_leaves", GRPC, &["--no-end"]);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let end = "error: interrupted after 1 step\nhint: sequence 1 is open: continue it with `--sequence --continue \
               --sequence-id 1`, or end it with `--end --sequence-id 1`\n";
    assert!(run.stderr.ends_with(end), "{}", run.stderr);
    let last = infer(
        server,
        GRPC,
        &words("ctrl_c_leaves --zeros --end --sequence-id=1"),
    );
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert!(last.text().contains("1, 2, 3, 4"), "{}", last.text());
}

#[test]
fn ctrl_c_shows_the_steps_that_were_answered() {
    let server = shared::server();
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("totals.csv");
    let save = ["--save", saved.to_str().unwrap()];
    let flags = [
        &["--output=json"][..],
        &["--output=json", "--no-end"],
        &save,
    ];
    for (id, flags) in ["1", "2", "3"].into_iter().zip(flags) {
        let args = words("ctrl_c_shows -q -i - --sequence --sequence-id").into_iter();
        let mut child = spawn(command(server, GRPC).args(args).arg(id).args(flags));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"[1,2,3,4]\n[1,2,3,4]\n").unwrap();
        eventually("two steps", || {
            let listed = infer(
                server,
                REST,
                &words("ctrl_c_shows --sequences --output=json"),
            );
            let two = format!("\"sequence_id\":{id},\"version\":1,\"steps\":2,");
            listed.text().contains(&two).then_some(())
        });
        interrupt(&child);
        let run = ended(child);
        let failure = run.failure();
        assert!(
            failure.contains("error: interrupted after 2 steps\nhint: sequence "),
            "{failure}"
        );
        assert_eq!(run.code, Some(130), "{failure}");
        match flags.first() {
            Some(&"--output=json") => {
                let text = run.text();
                assert!(
                    text.contains("\"data\":[1.0,2.0,3.0,4.0,2.0,4.0,6.0,8.0]"),
                    "{text}"
                );
            }
            _ => assert_eq!(std::fs::read_to_string(&saved).unwrap().lines().count(), 3),
        }
    }
}

#[test]
fn retries_alone_say_what_waits_for_a_server() {
    let (port, _) = free_ports();
    let run = cli::run(at(port, GRPC).args(words("m --random --retries 3")));
    let hint = "hint: `--retries` sends steps of a sequence again, and other requests are sent once; `--wait 60` waits until \
                a server that starts, or a model that is being loaded, is ready\n";
    assert_eq!(run.code, Some(64), "{}", run.stderr);
    assert!(run.stderr.ends_with(hint), "{}", run.stderr);
    let args = words("m -i [[1],[2]] --sequence --retries 3");
    let run = cli::run(at(port, GRPC).args(args));
    let hint = "hint: `--retries` starts with the first step; `--wait 60` waits for a server that is starting\n";
    assert_eq!(run.code, Some(69), "{}", run.stderr);
    assert!(run.stderr.ends_with(hint), "{}", run.stderr);
}

#[test]
fn the_end_of_an_open_sequence_needs_no_input() {
    let server = shared::server();
    for api in ALL {
        let open = words("no_input -i x=[[1,2,3,4],[0,0,0,0]] --sequence --sequence-id=1 --no-end");
        let run = infer(server, api, &open);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let last = infer(server, api, &words("no_input --end --sequence-id 1"));
        assert_eq!(last.code, Some(0), "{api}: {}", last.stderr);
        let note = "note: no input was given, so the last step has zeros\n";
        assert!(last.stderr.contains(note), "{api}: {}", last.stderr);
        assert!(last.text().contains("1, 2, 3, 4"), "{api}: {}", last.text());
        is_gone(server, "no_input", "1");
        // What is printed is not sent.
        let printed = words("no_input --end --sequence-id 1 --print-curl");
        let run = infer(server, api, &printed);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{api}");
    }
    let (port, _) = free_ports();
    let run = cli::run(at(port, GRPC).args(words("m --end --sequence-id 1")));
    assert_eq!(run.code, Some(69), "{}", run.stderr);
    assert!(!run.stderr.contains("note: "), "{}", run.stderr);
}

#[test]
fn an_id_that_was_chosen_is_printed_of_an_open_sequence() {
    let server = shared::server();
    let open = words("chosen -q -i x=[[1,2,3,4]] --sequence --no-end --each");
    let run = infer(server, GRPC, &open);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let begin = run.stderr.strip_prefix("Sequence ").unwrap();
    let (id, rest) = begin.split_once(" is open: ").unwrap();
    let end = format!("or end it with `--end --sequence-id {id}`.\n");
    assert!(rest.ends_with(&end), "{}", run.stderr);
    let last = infer(
        server,
        GRPC,
        &["chosen", "-q", "--end", "--sequence-id", id],
    );
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    // One that was given is known.
    let given = [&open[..], &["--sequence-id=1"]].concat();
    let run = infer(server, GRPC, &given);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn ctrl_c_waits_for_the_step_in_flight() {
    let server = shared::server();
    let steps = format!("steps=[{}]", busy::SECONDS / 200);
    let args = [
        "in_flight",
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
    let mut child = spawn(command(server, GRPC).args(args));
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
    is_gone(server, "in_flight", "1");
}

/// Sends three steps of which one does not end, in a sequence with id 9; returns what the command says.
fn given_up(steps: &str) -> String {
    let server = serve("running_busy", &[]);
    let steps = format!("steps=[{steps}]");
    let late = [
        "running_busy",
        "-i",
        STEPS,
        "-i",
        &steps,
        "--sequence",
        "--timeout=200ms",
        "--sequence-id=9",
    ];
    infer(&server, GRPC, &late).failure()
}

#[test]
fn a_step_that_takes_too_long_is_given_up() {
    let _redacted = redacted();
    insta::assert_snapshot!(given_up(&busy::ENDLESS.to_string()), @"
    exit 1
    error: step 1 of 3: no answer from <address> within 200ms
    hint: `--timeout` sets the limit
    hint: sequence 9 may still live on the server
    ");
}

#[test]
fn a_sequence_whose_connection_is_lost_says_how_to_go_on() {
    let _redacted = redacted();
    insta::assert_snapshot!(given_up(&format!("1,{},1", busy::ENDLESS)), @"
    exit 1
    error: step 2 of 3: no answer from <address> within 200ms
    hint: `--timeout` sets the limit
    hint: sequence 9 may still live on the server: `--sequence --continue --sequence-id 9` continues it from step 2, or from the one after if the server has run that one; `ovms infer running_busy --sequences`, over REST, shows the steps that it has run
    ");
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    let models = ["running_total", "open"];
    write(&path, &models.map(|name| entry(name, "running_total")));
    let mut server = serve_file(&path, &[]);
    let begun = [&[][..], &["--no-end"]]
        .into_iter()
        .zip(models)
        .map(|(flags, model)| {
            let args = words("-i -:pcm16 --sequence --sequence-id=1 --each");
            let mut command = command(&server, GRPC);
            let mut child = spawn(command.arg(model).args(args).args(flags));
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            stdin.write_all(&[0; 8]).unwrap();
            stdout.read_line(&mut String::new()).unwrap();
            (child, stdin, stdout)
        });
    let begun: Vec<_> = begun.collect();
    server.signal("KILL");
    server.wait();
    let hints = [
        "hint: sequence 1 may still live on the server: `--sequence --continue --sequence-id 1` continues it from \
         step 2 (sample 4 of the sound, from 0 on), or from the one after if the server has run that one; \
         `ovms infer running_total --sequences`, over REST, shows the steps that it has run\n",
        "hint: sequence 1 is open: continue it with `--sequence --continue --sequence-id 1`, or end it with `--end \
         --sequence-id 1`; step 2 (sample 4 of the sound, from 0 on) has no answer\n",
    ];
    for ((child, mut stdin, _stdout), hint) in begun.into_iter().zip(hints) {
        stdin.write_all(&[0; 8]).unwrap();
        drop(stdin);
        let run = ended(child);
        assert_eq!(run.code, Some(69), "{}", run.stderr);
        assert!(run.stderr.contains("error: step 2"), "{}", run.stderr);
        assert!(run.stderr.ends_with(hint), "{}", run.stderr);
    }
}

#[test]
fn the_second_ctrl_c_leaves_at_once() {
    let server = serve("running_busy", &[]);
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
    let server = shared::server();
    for format in ["table", "json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(server, GRPC);
        command.args([
            "closed",
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
        is_gone(server, "closed", "1");
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
