//! `ovms infer` and stateful models: whole sequences and single requests of them, over every API.

use std::io::{BufRead as _, BufReader, Write as _};

use ovms::tensor::Tensor;
use serde_json::{Value, json};

use crate::support::{
    fixture, grpc,
    infer::{GRPC, REST, TFS_GRPC, command, infer, json, read_npy, write_npy},
    repository,
    steps::{ALL, ONE, STEPS, TOTALS, ended, id_of, is_gone, lines, piped, spawn, stateful},
};

#[test]
fn a_sequence_is_one_answer_over_every_api() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let answer = json(&server, api, &["running_total", "-i", STEPS, "--sequence"]);
        assert_eq!(answer["steps"], 3, "{api}");
        let outputs = answer["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 1, "the id is no output: {answer}");
        assert_eq!(outputs[0]["shape"], json!([3, 4]));
        assert_eq!(outputs[0]["data"], json!(TOTALS));
        is_gone(&server, "running_total", &id_of(&answer));

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
            is_gone(&server, "running_total", &id_of(&answer));
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
    let server = stateful(
        "lstm_ti",
        &["--low_latency_transformation", "--shape", "(1,1,8)"],
    );
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
        let run = infer(&server, api, &args);
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
fn people_see_a_table_and_the_id() {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"in \d+\.\d\d s, [\d.]+ steps/s", "in <time>");
    settings.add_filter(r"answered in \d+\.\d\d ms", "answered in <time>");
    settings.add_filter(r"(sequence(_id:)?) \d+", "$1 <id>");
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

    sequence_id: <id>
    ");
    let run = infer(
        &server,
        GRPC,
        &["running_total", "-i", STEPS, "--sequence", "--each"],
    );
    insta::assert_snapshot!(run.failure(), @"
    exit 0
    Model `running_total`, version 1, sequence <id>:
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

    sequence_id: <id>
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
        assert_eq!(total, json!(4.0), "{api}");
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
        is_gone(&server, "running_total", &id);
        let (id, _) = ask(&["--start", "--sequence-id", "5"]);
        assert_eq!(id, "5");
        ask(&["--end", "--sequence-id", "5"]);
    }
    for api in [GRPC, REST] {
        let args = ["running_total", "-i", ONE, "--start", "--end"];
        let answer = json(&server, api, &args);
        is_gone(&server, "running_total", &id_of(&answer));
    }
}

#[test]
fn printed_requests_say_the_same_to_proxies() {
    let server = stateful("running_total", &[]);
    for api in ALL {
        let args = ["running_total", "-i", STEPS, "--sequence", "--print-curl"];
        let run = infer(&server, api, &args);
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
        is_gone(&server, "running_total", &id);
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
        assert_eq!(answer["steps"], 2);
        is_gone(&server, "running_busy", &id_of(answer));
        assert_eq!(answer["outputs"][0]["shape"], json!([2, 1, 4]));
        assert_eq!(answer["outputs"][0]["data"][7], 5.0);
    }
}
