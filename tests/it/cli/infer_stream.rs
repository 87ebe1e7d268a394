//! `ovms infer --stream`: requests over one stream, to this server and to a fake server of graphs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use ovms::tensor::{DataType, Tensor};
use serde_json::Value;

use crate::support::{
    Server,
    cli::{self, Run},
    generator::Generator,
    infer::{GRPC, REST, at, failures, infer, interrupt, redacted, tensor, write_npy},
    repository,
};

/// Runs a stream to the server of graphs.
fn graph(server: &Generator, args: &[&str]) -> Run {
    cli::run(at(server.port, GRPC).args(["graph", "--stream"]).args(args))
}

/// Runs a stream with these lines as standard input.
fn typed(server: &Generator, args: &[&str], lines: &str) -> Run {
    let folder = repository::folder();
    let path = folder.path().join("requests.ndjson");
    fs::write(&path, lines).unwrap();
    graph(
        server,
        &[args, &["--requests", path.to_str().unwrap()]].concat(),
    )
}

/// Removes the parts that differ from run to run.
fn steady(run: &Run) -> String {
    let stderr = run
        .stderr
        .lines()
        .filter(|line| !line.contains("answers/s"));
    let stderr = stderr.map(|line| line.replace('\r', ""));
    let stderr: Vec<_> = stderr.collect();
    format!(
        "exit {:?}\n{}---\n{}",
        run.code,
        run.text(),
        stderr.join("\n")
    )
}

#[test]
fn requests_to_models_are_answered_in_order() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let frames = folder.path().join("frames.npy");
    let numbers: Vec<f32> = (0..30_u8).map(f32::from).collect();
    write_npy(&frames, &tensor(&[3, 10], &numbers));
    let frames = format!("@{}", frames.display());
    let run = infer(
        server,
        GRPC,
        &["dummy", "--stream", "--axis", "0", "-i", &frames],
    );
    insta::assert_snapshot!(steady(&run), @r"
    exit Some(0)
       1  a: 1, 2, 3, 4, 5, 6, …
       2  a: 11, 12, 13, 14, 15, 16, …
       3  a: 21, 22, 23, 24, 25, 26, …
    ---
    Model `dummy`, version 1:
    ");
    let args = [
        "dummy",
        "--stream",
        "-i",
        "[0,0,0,0,0,0,0,0,0,0]",
        "--output",
        "json",
        "--id",
        "x",
    ];
    insta::assert_snapshot!(steady(&infer(server, GRPC, &args)), @r#"
    exit Some(0)
    {"model_name":"dummy","model_version":"1","id":"x","outputs":[{"name":"a","datatype":"FP32","shape":[1,10],"data":[1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0]}]}
    ---
    "#);
    let lines = concat!(
        "[1,1,1,1,1,1,1,1,1,1]\n\n",
        "{\"b\": [2,2,2,2,2,2,2,2,2,2], \"id\": \"two\"}\n",
        "{\"inputs\": [{\"name\": \"b\", \"datatype\": \"FP32\", \"shape\": [1,9], \"data\": [3,3,3,3,3,3,3,3,3]}]}\n",
        "{\"inputs\": {\"b\": [4,4,4,4,4,4,4,4,4,4]}}\n",
    );
    let path = folder.path().join("requests.ndjson");
    fs::write(&path, lines).unwrap();
    let path = path.to_str().unwrap();
    let args = ["dummy", "--stream", "--requests", path];
    insta::assert_snapshot!(steady(&infer(server, GRPC, &args)), @r"
    exit Some(1)
       1  a: 2, 2, 2, 2, 2, 2, …
       2  a: 3, 3, 3, 3, 3, 3, …
       3  a: 5, 5, 5, 5, 5, 5, …
    ---
    Model `dummy`, version 1:
    error: Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b
    error: the server reported 1 error on the stream
    ");
    let run = infer(server, GRPC, &[&args[..], &["--output", "json"]].concat());
    let reported: Vec<Value> = run
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reported[1]["id"], "two");
    assert!(
        reported[2]["error"]
            .as_str()
            .unwrap()
            .contains("Invalid input shape")
    );
    assert_eq!(reported[3]["outputs"][0]["data"][0], 5.0);
}

#[test]
fn an_error_that_ends_the_stream_is_reported_to_programs() {
    let server = Generator::start();
    let run = graph(&server, &["-i", "text=broken", "--output", "json"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let last: Value = serde_json::from_str(run.text().lines().last().unwrap()).unwrap();
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("Mediapipe execution failed."), "{error}");
    assert!(run.stderr.contains(error), "{}", run.stderr);
}

#[test]
fn one_request_may_have_many_answers() {
    let server = Generator::start();
    let run = graph(
        &server,
        &[
            "-i",
            "text=hello",
            "--param",
            "count=3",
            "--timestamp",
            "40",
        ],
    );
    insta::assert_snapshot!(steady(&run), @r#"
    exit Some(0)
      40  out: "word0"
      41  out: "word1"
      42  out: "word2"
    ---
    Model `graph`, version 1:
    "#);
    let run = graph(&server, &["--parameter", "count=10000", "--output", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = run.text();
    assert_eq!(text.lines().count(), 10_000);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["timestamp"], 9999);
    assert_eq!(last["outputs"][0]["data"][0], "word9999");
}

#[test]
fn timestamps_parameters_and_types_are_those_of_the_requests() {
    let server = Generator::start();
    let lines = concat!(
        "{\"in\": [1, 2.5]}\n",
        "{\"text\": \"gr\u{fc}n\", \"timestamp\": 9223372036854775804}\n",
        "{\"in\": true, \"text\": [\"a\", \"b\"], \"timestamp\": -9223372036854775805}\n",
        "{\"in\": 5}\n",
        "{\"text\": \"own type\"}\n",
        "{\"timestamp\": 7, \"parameters\": {\"count\": 2}}\n",
    );
    let run = typed(&server, &["--timestamp", "100"], lines);
    insta::assert_snapshot!(steady(&run), @r#"
    exit Some(0)
     100  in: 1, 2.5
    9223372036854775804  text: "grün"
    -9223372036854775805  in: true
    -9223372036854775805  text: "a", "b"
    -9223372036854775804  in: 5
    -9223372036854775803  text: my_type of 12 bytes: 08 00 00 00 6f 77 6e 20 74 79 70 65
       7  out: "word0"
       8  out: "word1"
    ---
    Model `graph`, version 1:
    "#);
    let run = typed(&server, &["--output", "json"], lines);
    insta::assert_snapshot!(steady(&run), @r#"
    exit Some(0)
    {"model_name":"graph","model_version":"1","id":"","timestamp":0,"outputs":[{"name":"in","datatype":"FP32","shape":[2],"data":[1.0,2.5]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":9223372036854775804,"outputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["grün"]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":-9223372036854775805,"outputs":[{"name":"in","datatype":"BOOL","shape":[1],"data":[true]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":-9223372036854775805,"outputs":[{"name":"text","datatype":"BYTES","shape":[2],"data":["a","b"]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":-9223372036854775804,"outputs":[{"name":"in","datatype":"FP32","shape":[1],"data":[5.0]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":-9223372036854775803,"outputs":[{"name":"text","datatype":"my_type","shape":[1],"b64":"CAAAAG93biB0eXBl"}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":7,"outputs":[{"name":"out","datatype":"BYTES","shape":[1],"data":["word0"]}]}
    {"model_name":"graph","model_version":"1","id":"","timestamp":8,"outputs":[{"name":"out","datatype":"BYTES","shape":[1],"data":["word1"]}]}
    ---
    "#);
}

#[test]
fn errors_are_reported_as_they_come() {
    let server = Generator::start();
    let lines = "{\"text\": \"one\"}\n{\"text\": \"fault\"}\n{\"text\": \"two\"}\n";
    insta::assert_snapshot!(steady(&typed(&server, &[], lines)), @r#"
    exit Some(1)
       0  text: "one"
       2  text: "two"
    ---
    Model `graph`, version 1:
    error: Unexpected input - x; partial deserialization
    error: the server reported 1 error on the stream
    "#);
    let lines = "{\"text\": \"one\"}\n{\"text\": \"broken\"}\n";
    insta::assert_snapshot!(steady(&typed(&server, &[], lines)), @r#"
    exit Some(1)
       0  text: "one"
    ---
    Model `graph`, version 1:
    error: the server refused the request: INVALID_ARGUMENT: Mediapipe execution failed.
    hint: 1 answer came before that
    "#);
    insta::assert_snapshot!(steady(&typed(&server, &["--output", "json"], "{\"text\": \"fault\"}")), @r#"
    exit Some(1)
    {"error":"Unexpected input - x; partial deserialization"}
    ---
    error: the server reported 1 error on the stream
    "#);
    // What cannot be sent takes no answers away.
    let lines = "{\"text\": \"one\"}\n{\"text\": \n{\"text\": \"two\"}\n";
    let run = typed(&server, &[], lines);
    let text = steady(&run);
    let start = text.find("error: ").unwrap();
    let path = text[start..].find("requests.ndjson").unwrap();
    assert!(run.text().contains("one") && !run.text().contains("two"));
    insta::assert_snapshot!(&text[start + path..], @r#"
    requests.ndjson: found no JSON
      caused by: EOF while parsing a value at line 2 column 0
    hint: a line is an object of inputs by name, such as {"x": [1, 2]}
    "#);
    let run = typed(&server, &[], "{\"stranger\": 1}\n");
    assert_eq!(run.code, Some(64));
    assert!(
        run.stderr.contains("the model has no input `stranger`"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let server = Generator::start();
    let run = graph(
        &server,
        &[
            "-i",
            "text=x",
            "--param",
            "silence=true",
            "--timeout",
            "300ms",
        ],
    );
    insta::assert_snapshot!(run.failure().replace(&server.port.to_string(), "PORT"), @r"
    exit 1
    error: no answer from 127.0.0.1:PORT within 300ms
    hint: `--timeout` sets the limit
    ");
}

/// Starts a stream with requests from standard input.
fn spawn(server: &Generator, args: &[&str]) -> Child {
    at(server.port, GRPC)
        .args(["graph", "--stream"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn requests_go_out_as_they_are_typed_and_ctrl_c_cancels() {
    let server = Generator::start();
    let mut child = spawn(&server, &["-i", "text=-"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for word in ["one", "two"] {
        writeln!(stdin, "\"{word}\"").unwrap();
        line.clear();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains(word), "{line}");
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    Model `graph`, version 1:
    error: interrupted after 2 answers
    ");
}

#[test]
fn ctrl_c_ends_a_stream_whose_output_nobody_reads() {
    let server = Generator::start();
    let child = spawn(&server, &["--param", "count=100000000"]);
    let started = Instant::now();
    // The pipe is full long before.
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(10));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error: interrupted after "), "{stderr}");
}

#[test]
fn flags_that_do_not_fit_a_stream_are_refused() {
    let _redacted = redacted();
    let server = Server::start("dummy");
    insta::assert_snapshot!(failures(&server, REST, &[&["dummy", "--stream", "--zeros"]]), @r"
    exit 64
    error: `--stream` does not fit `--api kserve-rest`
    hint: only kserve-grpc has streams
    ");
    insta::assert_snapshot!(failures(&server, GRPC, &[
        &["dummy", "--stream", "--zeros", "--output", "npy"],
        &["dummy", "--stream", "--requests", "x", "-i", "-"],
        &["dummy", "--stream", "--requests", "x", "--axis", "0"],
        &["dummy", "--stream", "--requests", "/nowhere.ndjson"],
        &["dummy", "--stream", "--axis", "0", "-i", "[0,0,0,0,0,0,0,0,0,0]"],
        &["dummy", "--stream"],
    ]), @r"
    exit 64
    error: a stream has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`

    exit 64
    error: `--requests` does not fit `-i -`
    hint: either gives a request with each line

    exit 64
    error: `--axis` does not fit requests that are lines
    hint: there each line is a request

    exit 1
    error: cannot read /nowhere.ndjson
      caused by: No such file or directory (os error 2)

    exit 64
    error: no input has steps: every one has the shape that the model takes at once
    hint: give one of them an axis of steps; `--start`, `--continue` and `--end` send single steps

    exit 64
    input  datatype  shape
    b      FP32      (1,10)

    output  datatype  shape
    a       FP32      (1,10)

    error: no input given for model `dummy`
    hint: such as: ovms infer dummy -i b=@file.npy --url <address>
    hint: or fill every input with `--zeros` or `--random`
    ");
    for flags in [
        &["--requests", "x"][..],
        &["--timestamp", "1"],
        &["--axis", "1"],
        &["--stream", "--repeat", "2"],
        &["--stream", "--sequence"],
        &["--stream", "--start"],
        &["--stream", "--save", "x"],
        &["--stream", "--top", "1"],
        &["--stream", "--each"],
        &["--stream", "--status"],
    ] {
        let run = infer(&server, GRPC, &[&["dummy"], flags].concat());
        assert_eq!(run.code, Some(64), "{flags:?}");
    }
}

#[test]
fn a_unary_request_to_a_graph_takes_the_types_of_its_values() {
    let server = Generator::start();
    let run = |args: &[&str]| {
        let args = [&["graph", "--output", "json"], args].concat();
        let run = cli::run(at(server.port, GRPC).args(args));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
        answer["outputs"].to_string()
    };
    insta::assert_snapshot!(run(&["-i", "in=[1, 2]", "-i", "text=hello"]), @r#"[{"data":[1.0,2.0],"datatype":"FP32","name":"in","shape":[2]},{"data":["hello"],"datatype":"BYTES","name":"text","shape":[1]}]"#);
    insta::assert_snapshot!(run(&["-i", "in:INT64:1,2=[1, 2]", "-i", "text=[\"a\", \"b\"]"]), @r#"[{"data":[1,2],"datatype":"INT64","name":"in","shape":[1,2]},{"data":["a","b"],"datatype":"BYTES","name":"text","shape":[2]}]"#);
    let folder = repository::folder();
    let array = folder.path().join("a.npy");
    let bytes = Tensor::new(DataType::U8, vec![2, 1], vec![7, 8].into()).unwrap();
    write_npy(&array, &bytes);
    let array = format!("in=@{}", array.display());
    insta::assert_snapshot!(run(&["-i", &array, "-i", "text=5 words"]), @r#"[{"data":[7,8],"datatype":"UINT8","name":"in","shape":[2,1]},{"data":["5 words"],"datatype":"BYTES","name":"text","shape":[1]}]"#);
}

/// Runs one request with these inputs.
fn unary(server: &Generator, args: &[&str]) -> String {
    let args = [&["graph", "-i", "in=[1]"], args].concat();
    let run = cli::run(at(server.port, GRPC).args(args));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.text()
}

#[test]
fn strings_without_lengths_are_shown_as_text() {
    let server = Generator::start();
    let bare = ["-i", "text=it is bare"];
    let json = [&bare[..], &["--output", "json"]].concat();
    insta::assert_snapshot!(unary(&server, &bare), @r#"
    output  datatype  shape  min  mean  max  values
    in      FP32      (1)      1     1    1  1
    text    BYTES     (1)      -     -    -  "it is bare"
    "#);
    let answer: Value = serde_json::from_str(&unary(&server, &json)).unwrap();
    assert_eq!(answer["outputs"][1]["data"][0], "it is bare");
    insta::assert_snapshot!(steady(&graph(&server, &bare)), @r#"
    exit Some(0)
       0  text: "it is bare"
    ---
    Model `graph`, version 1:
    "#);
    let answer: Value = serde_json::from_str(&graph(&server, &json).text()).unwrap();
    assert_eq!(answer["outputs"][0]["data"][0], "it is bare");
}

#[test]
fn one_answer_of_an_own_type_is_shown_as_bytes() {
    let server = Generator::start();
    let own = ["-i", "text=own type"];
    insta::assert_snapshot!(unary(&server, &own), @r"
    output  datatype  shape  min  mean  max  values
    in      FP32      (1)      1     1    1  1
    text    my_type   (1)      -     -    -  12 bytes: 08 00 00 00 6f 77 6e 20 74 79 70 65
    ");
    let answer = unary(&server, &["-i", "text=own type", "--output", "json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["outputs"][1]["datatype"], "my_type");
    assert_eq!(answer["outputs"][1]["b64"], "CAAAAG93biB0eXBl");
}
