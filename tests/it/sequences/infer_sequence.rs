//! `ovms infer` and stateful models: whole sequences and single requests of them, over every API.

use std::io::{BufRead as _, BufReader, Write as _};

use ovms::tensor::Tensor;
use serde_json::{Value, json};

use super::shared;
use crate::support::{
    cli::words,
    fixture, grpc,
    infer::{GRPC, REST, TFS_GRPC, command, infer, json, read_npy, write_npy},
    repository,
    steps::{ALL, ONE, STEPS, ended, id_of, is_gone, spawn},
};

#[test]
fn speech_is_found_in_frames() {
    let server = shared::server();
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
        let run = infer(server, api, &args);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        assert!(
            run.stderr.starts_with("sequence_id: "),
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
fn the_steps_of_a_cell_lie_on_another_axis() {
    let server = shared::server();
    let steps = read_npy(std::fs::read(fixture("sequences/lstm_steps.npy")).unwrap());
    let (dtype, _, data) = steps.into_parts();
    let steps = Tensor::new(dtype, vec![1, 12, 8], data).unwrap();
    let folder = repository::folder();
    let file = folder.path().join("steps.npy");
    write_npy(&file, &steps);
    let input = format!("x=@{}", file.display());
    let expected = read_npy(std::fs::read(fixture("expected/lstm_ti_y.npy")).unwrap());
    for api in ALL {
        let args = [
            "lstm_ti",
            "-i",
            &input,
            "--sequence",
            "--axis=1",
            "--output=npy",
        ];
        let run = infer(server, api, &args);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let found = read_npy(run.stdout);
        assert_eq!(found.shape(), expected.shape(), "{api}");
        let pairs = grpc::to_floats(found.data()).into_iter();
        for (found, expected) in pairs.zip(grpc::to_floats(expected.data())) {
            assert!((found - expected).abs() < 1e-4, "{api}: {found} {expected}");
        }
    }
}

#[test]
fn single_requests_of_a_sequence_are_sent_by_hand() {
    let server = shared::server();
    for api in ALL {
        let ask = |flags: &[&str]| {
            let args = [&["running_total", "-i", ONE], flags].concat();
            let answer = json(server, api, &args);
            assert_eq!(answer["outputs"].as_array().unwrap().len(), 1);
            (
                answer["sequence_id"].to_string(),
                answer["outputs"][0]["data"][3].clone(),
            )
        };
        let (id, total) = ask(&["--start"]);
        assert_eq!(total, json!(4.0), "{api}");
        let of_it = ["--sequence-id", id.as_str()];
        // Sequences go on in any API.
        for (other, flag, expected) in [(REST, "--continue", 8.0), (TFS_GRPC, "--continue", 12.0)] {
            let args = [&["running_total", "-i", ONE, flag], &of_it[..]].concat();
            let answer = json(server, other, &args);
            assert_eq!(
                answer["outputs"][0]["data"][3],
                json!(expected),
                "{api} {other}"
            );
        }
        let (_, total) = ask(&[&["--end"], &of_it[..]].concat());
        assert_eq!(total, json!(16.0), "{api}");
        is_gone(server, "running_total", &id);
        let (id, _) = ask(&["--start", "--sequence-id", "5"]);
        assert_eq!(id, "5");
        ask(&["--end", "--sequence-id", "5"]);
    }
    for api in [GRPC, REST] {
        let args = ["running_total", "-i", ONE, "--start", "--end"];
        let answer = json(server, api, &args);
        is_gone(server, "running_total", &id_of(&answer));
    }
}

#[test]
fn printed_requests_say_the_same_to_proxies() {
    let server = shared::server();
    for api in ALL {
        let args = ["running_total", "-i", STEPS, "--sequence", "--print-curl"];
        let run = infer(server, api, &args);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let text = run.text();
        let header = "-H 'ovms-sequence-id: ";
        let mut reported = text.split(header).skip(1);
        let (id, _) = reported.next().unwrap().split_once('\'').unwrap();
        assert!(reported.all(|rest| rest.starts_with(id)), "{api}: {text}");
        let requests = text.matches(header).count();
        assert_eq!(requests, 3, "{api}: {text}");
        assert_eq!(text.matches(id).count(), 2 * requests, "{api}: {text}");
    }
}

#[test]
fn printed_steps_of_a_part_neither_start_nor_end() {
    let server = shared::server();
    let part = words("--sequence --continue --sequence-id=3 --print-curl");
    for api in ALL {
        let printed = |flags: &[&str]| {
            let args = [&["running_total", "-i", STEPS], &part[..], flags].concat();
            let run = infer(server, api, &args);
            assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
            run.text()
        };
        // The one is of KServe, the other of TensorFlow Serving.
        let count = |text: &str, what: [&str; 2]| what.map(|it| text.matches(it).count());
        let open = printed(&["--no-end"]);
        let is_tfs = api.starts_with("tfs");
        assert_eq!(
            count(&open, ["sequence_start", "sequence_end"]),
            [0, 0],
            "{open}"
        );
        assert_eq!(
            count(&open, ["sequence_control_input", "curl -"]),
            [0, 3],
            "{open}"
        );
        let ended = printed(&[]);
        let ends = if is_tfs { [0, 1] } else { [1, 0] };
        assert_eq!(
            count(&ended, ["sequence_end", "sequence_control_input"]),
            ends,
            "{ended}"
        );
    }
}

#[test]
fn lines_are_steps_that_are_sent_as_they_come() {
    let server = shared::server();
    for api in ALL {
        let args = words("running_total -i - --sequence --each --output json");
        let mut child = spawn(command(server, api).args(args));
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut id = String::new();
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
            assert_eq!(answer["outputs"][0]["data"][3], total, "{api}");
            let reported = id_of(&answer);
            assert!(step == 0 || reported == id, "{api}: {reported}, not {id}");
            id = reported;
        }
        drop(stdin);
        let mut rest = String::new();
        stdout.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "the answer to the end is not shown");
        assert_eq!(ended(child).failure(), "exit 0\n", "{api}");
        is_gone(server, "running_total", &id);
    }
}
