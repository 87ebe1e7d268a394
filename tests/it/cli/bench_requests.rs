//! `ovms bench`: recorded mixes, values in turn, and batches.

use std::fs;

use serde_json::Value;

use super::{
    bench::{SHORT, TEN, bench, is_measured, report},
    shared::served,
};
use crate::support::{
    Server,
    infer::{GRPC, REST, TFS_REST},
    repository,
    steps::ALL,
};

#[test]
fn recorded_requests_are_a_mix() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let path = folder.path().join("mix.jsonl");
    let lines = format!(
        "{}\n\n{}\n",
        r#"{"b": [0,1,2,3,4,5,6,7,8,9], "weight": 3}"#, r#"{"b": [9,8,7,6,5,4,3,2,1,0]}"#
    );
    fs::write(&path, lines).unwrap();
    let path = path.to_str().unwrap();
    for api in ALL {
        is_measured(&report(server, api, &["dummy", "--requests", path])["levels"][0]);
    }
    let said = |text: &str| {
        fs::write(path, text).unwrap();
        let run = bench(server, GRPC, &["dummy", "--requests", path]);
        assert_eq!(run.text(), "");
        run.failure().replace(path, "mix.jsonl")
    };
    insta::assert_snapshot!(said("{\"b\": [1]}\n"), @"
    exit 64
    error: mix.jsonl:1: cannot use the value given for input `b`
      caused by: found 1 element, shape (1,10) takes 10
    ");
    insta::assert_snapshot!(said("\n{\"b\": [0,1,2,3,4,5,6,7,8,9], \"weight\": 0}\n"), @"
    exit 64
    error: mix.jsonl:2: found the weight 0, expected a number above 0
    ");
    insta::assert_snapshot!(said("\n"), @"
    exit 64
    error: mix.jsonl has no requests
    hint: each line is one, as a JSON object
    ");
    // A line that fits by itself, but not the model, is found before the load.
    let good = r#"{"b": [0,1,2,3,4,5,6,7,8,9]}"#;
    let bad = r#"{"inputs": [{"name": "b", "shape": [2, 5], "data": [0,1,2,3,4,5,6,7,8,9]}]}"#;
    insta::assert_snapshot!(said(&format!("{good}\n{bad}\n")), @"
    exit 1
    error: mix.jsonl:2: the server refused the request: INVALID_ARGUMENT: Invalid input batch size - Expected: 1; Actual: 2; input name: b
    hint: send as many at once, in several requests, or serve the model with `--batch-size -1`, which takes any
    ");
}

#[test]
fn lines_name_files_as_arguments_do() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    file("ten.json", "[0,1,2,3,4,5,6,7,8,9]");
    let lines = r#"{"b": "@ten.json", "weight": 3}
        {"inputs": [{"name": "b", "shape": [1, 10], "data": "@./ten.json"}]}
        "@ten.json""#;
    let path = file("mix.jsonl", lines);
    is_measured(&report(server, GRPC, &["dummy", "--requests", &path])["levels"][0]);
    let said = |line: &str| {
        let path = file("mix.jsonl", line);
        let run = bench(server, GRPC, &["dummy", "--requests", &path]);
        run.failure()
            .replace(folder.path().to_str().unwrap(), "DIR")
    };
    insta::assert_snapshot!(said(r#"{"b": "@none.json"}"#), @"
    exit 1
    error: DIR/mix.jsonl:1: cannot read DIR/none.json
      caused by: No such file or directory (os error 2)
    ");
    // What is no file of a known kind is a text.
    let text = said(r#"{"b": "@ten"}"#);
    assert!(
        text.contains("cannot use the value given for input `b`"),
        "{text}"
    );
}

#[test]
fn values_of_an_input_are_sent_in_turn() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    for (name, text) in [
        ("a", "[0,1,2,3,4,5,6,7,8,9]"),
        ("b", "[9,8,7,6,5,4,3,2,1,0]"),
    ] {
        fs::write(folder.path().join(name).with_extension("json"), text).unwrap();
    }
    let files = format!("@{}/*.json", folder.path().display());
    for api in ALL {
        for pace in ["--concurrency=3", "--rate=200"] {
            let flags = ["dummy", "-i", &files, "-i", TEN, "--in-turn", pace];
            let report = report(server, api, &flags);
            is_measured(&report["levels"][0]);
            // No batch has been made of them.
            assert_eq!(
                report["inputs"],
                serde_json::json!([{"name": "b", "datatype": "FP32", "shape": [1, 10]}])
            );
            assert_eq!(report["levels"][0]["rows_per_second"], Value::Null);
        }
    }
    let events = [
        "dummy",
        "-i",
        &files,
        "--in-turn",
        "--stream",
        "--concurrency=2",
    ];
    for api in [GRPC, REST] {
        is_measured(&report(server, api, &events)["levels"][0]);
    }
    let said = |args: &[&str]| {
        let run = bench(server, GRPC, &[&["dummy", "-i", &files], args].concat());
        assert_eq!(run.text(), "", "{args:?}");
        run.failure()
            .replace(folder.path().to_str().unwrap(), "DIR")
    };
    insta::assert_snapshot!(said(&[]), @"
    exit 64
    error: found input `b` twice
    hint: only images of one input make a batch; put arrays together in one file
    hint: `--in-turn` sends them one after the other
    ");
    fs::write(folder.path().join("c.json"), "[1]").unwrap();
    insta::assert_snapshot!(said(&["--in-turn"]), @"
    exit 64
    error: DIR/c.json: cannot use the value given for input `b`
      caused by: found 1 element, shape (1,10) takes 10
    ");
    // What the server refuses is named by its file, too.
    fs::write(folder.path().join("c.json"), "[[0,1,2,3,4],[5,6,7,8,9]]").unwrap();
    let refused = said(&["--in-turn"]);
    assert!(
        refused.contains("error: DIR/c.json: the server refused the request"),
        "{refused}"
    );
    let alone = bench(server, GRPC, &["dummy", "--in-turn"]);
    assert_eq!(alone.code, Some(64), "{}", alone.stderr);
}

#[test]
fn batches_are_counted_by_their_rows_and_compared_with_their_like() {
    let server = served();
    let folder = repository::folder();
    let saved = folder.path().join("before.json");
    let saved = saved.to_str().unwrap();
    let args = ["batches", "--shape", "b:4,10", "--save", saved];
    for api in ALL {
        let report = report(server, api, &args);
        let level = &report["levels"][0];
        is_measured(level);
        let number = |name: &str| level[name].as_f64().unwrap();
        let rows = number("rows_per_second") / number("rate");
        assert!((rows - 4.0).abs() < 1e-6, "{level}");
    }
    let table = bench(server, GRPC, &[&args[..3], &SHORT[..4]].concat());
    let titles = table.text();
    assert!(
        titles.starts_with("concurrency  ok/s  rows/s  p50 ms"),
        "{titles}"
    );
    let against = ["batches", "--against", saved];
    let other = bench(server, TFS_REST, &[&against[..], &SHORT].concat());
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let warning = "warning: the report of `--against` measured a different workload: inputs `b` FP32 \
                   (1,10) here, `b` FP32 (4,10) there\n";
    assert!(other.stderr.contains(warning), "{}", other.stderr);

    // A report of a server that was a hundred times as fast, as earlier versions wrote it.
    let text = fs::read_to_string(saved).unwrap();
    let mut before: Value = serde_json::from_str(&text).unwrap();
    before.as_object_mut().unwrap().remove("inputs");
    before["api"] = GRPC.into();
    let level = &mut before["levels"][0];
    level.as_object_mut().unwrap().remove("rows_per_second");
    for window in level["windows"].as_array_mut().unwrap() {
        window["rate"] = 1e7.into();
    }
    fs::write(saved, before.to_string()).unwrap();
    let worse = ["--fail-if", "worse>5%"];
    let run = bench(server, GRPC, &[&against[..], &SHORT, &worse].concat());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains("different workload"), "{}", run.stderr);
    let finding = "  worse than before by more than 5 % at concurrency 1: ";
    assert!(run.stderr.contains(finding), "{}", run.stderr);
    assert!(run.stderr.contains(" %\n"), "{}", run.stderr);
    // A gate that fails keeps what it compares with.
    let kept = fs::read(saved).unwrap();
    let save = ["--save", saved];
    let run = bench(
        server,
        GRPC,
        &[&against[..], &SHORT, &worse, &save].concat(),
    );
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("is kept as it was"), "{}", run.stderr);
    assert_eq!(fs::read(saved).unwrap(), kept);
}
