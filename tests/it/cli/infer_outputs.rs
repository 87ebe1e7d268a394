//! `ovms infer`: output of a response, on stdout and on disk.

use std::fs;

use serde_json::json;

use crate::support::{
    Server, fixture, grpc,
    infer::{APIS, GRPC, REST, data, failures, infer, json, read_npy, redacted, tensor},
    repository,
};

const ROWS: &str = "x=[[1,2,3,4],[5,6,7,8]]";

/// Returns the flags for an image of the fixtures, with ranked output.
fn star(image: &str) -> Vec<String> {
    let labels = fixture("models/classifier/labels.txt");
    let image = fixture("images").join(image);
    vec![
        "classifier".to_owned(),
        "-i".to_owned(),
        format!("@{}", image.display()),
        "--top".to_owned(),
        "3".to_owned(),
        "--labels".to_owned(),
        labels.display().to_string(),
    ]
}

#[test]
fn the_best_scores_have_their_labels() {
    let server = Server::shared("classifier");
    for api in APIS {
        for image in ["star.png", "star.jpg"] {
            let flags = star(image);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let table = infer(server, api, &flags).text();
            let rows: Vec<Vec<&str>> = table
                .lines()
                .map(|line| line.split_whitespace().collect())
                .collect();
            assert_eq!(rows.len(), 4, "{table}");
            assert_eq!(rows[0], ["rank", "index", "label", "score"]);
            assert_eq!(rows[1][..3], ["1", "3", "star"], "{table}");
            assert!(rows[1][3].parse::<f64>().unwrap() > 0.9, "{table}");

            let answer = json(server, api, &flags);
            assert_eq!(answer["output"], "scores");
            let ranking = answer["top"][0].as_array().unwrap();
            assert_eq!(ranking.len(), 3, "{answer}");
            let best = &ranking[0];
            assert_eq!((&best["rank"], &best["index"]), (&json!(1), &json!(3)));
            assert_eq!(best["label"], "star");
            assert!(best["score"].as_f64().unwrap() > 0.9, "{answer}");
        }
    }
}

#[test]
fn each_row_has_a_ranking_of_its_own() {
    let server = Server::shared("two_outputs");
    let labels = repository::folder();
    let labels = labels.path().join("labels.txt");
    fs::write(&labels, "a\nb\n").unwrap();
    let run = infer(
        server,
        GRPC,
        &[
            "two_outputs",
            "-i",
            "[[1,5,3,4],[0,0,-1,2]]",
            "--output-name=twice",
            "--top=2",
            "--labels",
            labels.to_str().unwrap(),
        ],
    );
    insta::assert_snapshot!(run.text(), @"
    row  rank  index  label  score
      0     1      1  b         10
      0     2      3  -          8
      1     1      3  -          4
      1     2      0  a          0
    ");
}

#[test]
fn outputs_come_in_the_order_asked_for() {
    let server = Server::shared("two_outputs");
    for api in APIS {
        for order in [
            &["twice", "total"][..],
            &["total", "twice"],
            &["twice"],
            &["total"],
        ] {
            let mut flags = vec!["two_outputs", "-i", ROWS];
            for name in order {
                flags.extend(["--output-name", name]);
            }
            let answer = json(server, api, &flags);
            let outputs = answer["outputs"].as_array().unwrap();
            let names: Vec<&str> = outputs
                .iter()
                .map(|output| output["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, order, "{api}");
        }
    }
}

#[test]
fn a_table_has_a_row_for_each_output() {
    let server = Server::shared("two_outputs");
    for api in APIS {
        let run = infer(server, api, &["two_outputs", "-i", ROWS]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @"
            output  datatype  shape  min  mean  max  values
            total   FP32      (2)     10    18   26  10, 26
            twice   FP32      (2,4)    2     9   16  2, 4, 6, 8, 10, 12, …
            ");
        }
    }
}

#[test]
fn one_output_goes_to_a_pipe_as_a_file() {
    let server = Server::shared("two_outputs");
    for api in APIS {
        let with = |format: &'static str| {
            let flags = ["two_outputs", "-i", ROWS, "--output-name=total", "--output"];
            let run = infer(server, api, &[&flags[..], &[format]].concat());
            assert_eq!(run.failure(), "exit 0\n");
            run.stdout
        };
        assert_eq!(read_npy(with("npy")), tensor(&[2], &[10.0, 26.0]));
        assert_eq!(grpc::to_floats(&with("raw")), [10.0, 26.0]);
    }
}

#[test]
fn one_output_is_needed_where_there_are_several() {
    let server = Server::shared("two_outputs");
    for format in [&["--output=npy"][..], &["--output=raw"], &["--top=1"]] {
        let texts = failures(
            server,
            GRPC,
            &[
                &[&["two_outputs", "--zeros"], format].concat(),
                &[
                    &["two_outputs", "--zeros", "--output-name=twice"],
                    &["--output-name=total"][..],
                    format,
                ]
                .concat(),
            ],
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @"
            exit 64
            error: found 2 outputs, expected one
            hint: choose with `--output-name`: `total`, `twice`

            exit 64
            error: found 2 outputs, expected one
            hint: choose with `--output-name`: `twice`, `total`
            ");
        }
    }
}

#[test]
fn what_cannot_be_ranked_is_reported() {
    let server = Server::shared("scalar");
    insta::assert_snapshot!(failures(server, GRPC, &[
        &["scalar", "-i=1", "--top=1"],
        &["scalar", "-i=1", "--top=1", "--output=npy"],
        &["scalar", "-i=1", "--top=0"],
        &["scalar", "-i=1", "--labels=labels.txt"],
        &["scalar", "-i=1", "--top=1", "--labels=/nonexistent/labels.txt"],
    ]), @"
    exit 64
    error: cannot rank output `y`
      caused by: a single value has no axis to rank

    exit 64
    error: a ranking has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`

    exit 64
    error parsing options: invalid value '0' for '--top <K>': 0 is not in 1..=4294967295

    For more information, try '--help'.

    exit 64
    error parsing options: the following required arguments were not provided:
      --top <K>

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 1
    error: cannot read the labels of /nonexistent/labels.txt
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn saved_outputs_load_back() {
    let _redacted = redacted();
    let server = Server::shared("two_outputs");
    for api in APIS {
        let folder = repository::folder();
        let made = folder.path().join("a/b");
        let path = made.to_str().unwrap();
        let run = infer(server, api, &["two_outputs", "-i", ROWS, "--save", path]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure().replace(path, "<folder>"), @"
            exit 0
            Model `two_outputs`, version 1, answered in <time> ms.
            Saved `total` to <folder>/total.npy
            Saved `twice` to <folder>/twice.npy
            ");
        }
        let read = |name: &str| read_npy(fs::read(made.join(name)).unwrap());
        assert_eq!(read("total.npy"), tensor(&[2], &[10.0, 26.0]));
        let twice = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];
        assert_eq!(read("twice.npy"), tensor(&[2, 4], &twice));

        // What was saved is an input like any other.
        let again = format!("@{path}/twice.npy");
        assert_eq!(
            data(
                server,
                api,
                &["two_outputs", "-i", &again, "--output-name=total"]
            ),
            json!([20.0, 52.0])
        );
    }
}

#[test]
fn bf16_is_saved_as_fp32() {
    let _redacted = redacted();
    let server = Server::shared("passthrough_bf16");
    let folder = repository::folder();
    let path = folder.path().to_str().unwrap();
    let flags = ["passthrough_bf16", "-i", "[[1,-2]]", "--save", path];
    let run = infer(server, GRPC, &flags);
    insta::assert_snapshot!(run.failure().replace(path, "<folder>"), @"
    exit 0
    Model `passthrough_bf16`, version 1, answered in <time> ms.
    NumPy has no BF16: `out` is written as FP32.
    Saved `out` to <folder>/out.npy
    ");
    let saved = read_npy(fs::read(folder.path().join("out.npy")).unwrap());
    assert_eq!(saved, tensor(&[1, 2], &[1.0, -2.0]));
    let run = infer(
        server,
        REST,
        &["passthrough_bf16", "-i", "[[1,-2]]", "--output", "npy"],
    );
    insta::assert_snapshot!(run.failure(), @"
    exit 0
    NumPy has no BF16: `out` is written as FP32.
    ");
    assert_eq!(read_npy(run.stdout), saved);
}

#[test]
fn a_folder_that_cannot_be_made_is_reported() {
    let server = Server::shared("scalar");
    let file = repository::folder();
    let file = file.path().join("file");
    fs::write(&file, "").unwrap();
    let path = file.to_str().unwrap();
    let run = infer(
        server,
        GRPC,
        &["scalar", "-i=1", "--output=json", "--save", path],
    );
    insta::assert_snapshot!(run.failure().replace(path, "<file>"), @"
    exit 1
    error: cannot save to <file>
      caused by: File exists (os error 17)
    hint: `--save` takes a folder, and this is a file
    ");
}
