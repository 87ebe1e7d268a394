//! `ovms graph new`: its output can be checked, run and tested as it is.

use std::{fs, path::Path};

use crate::support::{
    Server,
    cli::{self, Run, words},
    handlers::test_handlers,
    ir, repository,
    server::{free_ports, on},
};

/// Runs a subcommand of `ovms graph` in a folder; the folder's path is removed from the output.
pub(crate) fn graph(folder: &Path, args: &[&str]) -> Run {
    let mut command = cli::command();
    command.current_dir(folder).env("LC_ALL", "C.UTF-8");
    let mut run = cli::run(command.arg("graph").args(args));
    let hidden = |text: &str| text.replace(folder.to_str().unwrap(), "<folder>");
    run.stderr = hidden(&run.stderr);
    run.stdout = hidden(&String::from_utf8(run.stdout).unwrap()).into_bytes();
    run
}

/// Returns the output and the exit code.
pub(crate) fn shown(run: &Run) -> String {
    format!("{}{}", run.text(), run.failure())
}

/// Writes a graph, and returns the output.
fn new(folder: &Path, args: &[&str]) -> String {
    let run = graph(folder, &[&["new"], args].concat());
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    run.text()
}

/// Runs a graph, and returns the lines of its packets.
fn packets(folder: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    let run = graph(folder, &[&["run"], args, &["--output", "json"]].concat());
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let text = run.text();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<serde_json::Value> = lines.collect();
    let end = lines.pop().unwrap();
    assert!(end["nodes"][0]["ran_us"].is_number(), "{end}");
    lines
}

/// Checks a graph, which has no errors, and tests its handlers.
fn checked(folder: &Path, name: &str, of: &[&str]) {
    let run = graph(folder, &[&["check", "--initialize"], of].concat());
    let text = run.text();
    let lines = text.lines().filter(|line| !line.starts_with("  note: "));
    let found: Vec<&str> = lines.collect();
    assert_eq!(found, [format!("graph `{name}`: no errors")]);
    assert_eq!(run.failure(), "exit 0\n");
    test_handlers(&folder.join(name));
}

#[test]
fn a_new_graph_gives_back_its_input() {
    let folder = repository::folder();
    insta::assert_snapshot!(new(folder.path(), &["echo"]));
    checked(folder.path(), "echo", &["echo"]);
    let packets = packets(folder.path(), &["echo", "-i", "input:FP32=[1,2,3]"]);
    assert_eq!(
        packets,
        [serde_json::json!({"timestamp": 0, "outputs": [
            {"name": "output", "datatype": "FP32", "shape": [3], "data": [1.0, 2.0, 3.0]}]})]
    );
    let python = fs::read_to_string(folder.path().join("echo/pyovms.pyi")).unwrap();
    assert!(python.contains("class Tensor"), "{python}");
}

#[test]
fn a_model_file_that_is_not_there_is_refused() {
    let folder = repository::folder();
    let run = graph(folder.path(), &["new", "q", "--model", "nope.onnx"]);
    insta::assert_snapshot!(shown(&run), @r"
    exit 64
    error: there is no model file `nope.onnx`
    hint: `--model` takes the path of a model's file or folder, or a name of the configuration file
    ");
    assert!(!folder.path().join("q").exists());
}

#[test]
fn a_configuration_file_that_cannot_be_written_leaves_nothing() {
    let folder = repository::folder();
    let args = ["new", "echo", "--config", "absent/all.json"];
    for _ in 0..2 {
        let run = graph(folder.path(), &args);
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&run), @r"
            exit 1
            error: cannot write absent/all.json
              caused by: No such file or directory (os error 2)
            ");
        }
        assert!(!folder.path().join("echo").exists());
    }
    fs::create_dir(folder.path().join("absent")).unwrap();
    new(folder.path(), &args[1..]);
}

#[test]
fn an_empty_text_is_hinted_at() {
    let folder = repository::folder();
    new(folder.path(), &["words", "-i", "text:BYTES"]);
    let run = graph(folder.path(), &["run", "words", "-i", "text:BYTES="]);
    let hint = "hint: `-i 'text=\"\"'` is the empty string; ";
    assert!(run.failure().contains(hint), "{}", shown(&run));
    let run = graph(folder.path(), &["run", "words", "-i", "text=\"\""]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
}

#[test]
fn a_generator_answers_several_times() {
    let folder = repository::folder();
    let args = words("words --generative -i prompt:BYTES --output token:BYTES");
    let reported = new(folder.path(), &args);
    assert!(
        reported.contains("ovms infer words --stream -i prompt:BYTES=hello\n"),
        "{reported}"
    );
    checked(folder.path(), "words", &["words"]);
    let packets = packets(folder.path(), &["words", "-i", "prompt=hello"]);
    let reported: Vec<String> = packets
        .iter()
        .map(|packet| format!("{} {}", packet["timestamp"], packet["outputs"][0]["text"]))
        .collect();
    assert_eq!(reported, [r#"0 "HELLO""#, r#"1 "HELLO""#, r#"2 "HELLO""#]);
}

#[test]
fn several_texts_are_shown_as_texts() {
    let folder = repository::folder();
    new(
        folder.path(),
        &words("shout -i text:BYTES --output loud:BYTES"),
    );
    let texts = ["shout", "-i", r#"text=["a","bc"]"#];
    let found = packets(folder.path(), &texts);
    let loud = &found[0]["outputs"][0];
    assert_eq!(
        (&loud["shape"], &loud["data"]),
        (&serde_json::json!([2]), &serde_json::json!(["A", "BC"]))
    );
    let shown = graph(folder.path(), &[&["run"], &texts[..]].concat()).text();
    assert!(shown.contains(r#"loud: BYTES (2) "A", "BC""#), "{shown}");
}

#[test]
fn nodes_with_names_and_types_work_one_after_the_other() {
    let folder = repository::folder();
    let streams = words("-i image:UINT8:-1,-1,3 -i text:BYTES --output label:BYTES");
    let args = [
        &["parts", "--nodes", "tokenize,count", "--config", "all.json"],
        &streams[..],
    ];
    new(folder.path(), &args.concat());
    new(folder.path(), &["second", "--config", "all.json"]);
    checked(folder.path(), "parts", &["all.json", "parts"]);
    let run = graph(folder.path(), &["check", "all.json"]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let inputs = ["-i", "image:UINT8:2,2,3=", "-i", "text=hello", "--random"];
    let found = packets(
        folder.path(),
        &[&["all.json", "parts"], &inputs[..]].concat(),
    );
    assert_eq!(found[0]["outputs"][0]["text"], "HELLO");
    // Its handler takes only what it says.
    let wrong = ["run", "parts", "-i", "image:UINT8=[1]"];
    let run = graph(folder.path(), &wrong);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr
            .contains("ValueError: image: expected UINT8 (-1, -1, 3), got UINT8 (1,)"),
        "{}",
        run.stderr
    );
    let hint = "hint: write datatype and shape: `-i image:UINT8:N,N,3=…`\n";
    assert!(run.stderr.ends_with(hint), "{}", run.stderr);
}

#[test]
fn a_model_stands_in_the_middle_with_its_own_names() {
    let folder = repository::folder();
    ir::relu(&folder.path().join("models/line"), "b", "a", &[1, 3]);
    new(folder.path(), &["around", "--model", "models/line"]);
    let config = "around/config.json";
    checked(folder.path(), "around", &[config, "around"]);
    let inputs = [config, "around", "-i", "b:FP32=[[-1, 0, 2]]"];
    let found = packets(folder.path(), &inputs);
    assert_eq!(found[0]["outputs"][0]["name"], "a");
    assert_eq!(
        found[0]["outputs"][0]["data"],
        serde_json::json!([0.0, 0.0, 2.0])
    );
    // By its folder, too, since the file is in there.
    let args = words("run around -i b:FP32=[[-1,0,2]] --output json");
    let run = graph(folder.path(), &args);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    assert!(run.text().contains("[0.0,0.0,2.0]"), "{}", shown(&run));
    let note = "note: models are those of around/config.json\n";
    assert_eq!(run.stderr, note);
    // By its name in that file, it is the same.
    let args = [
        "again", "--model", "line", "--config", config, "-i", "x", "--output", "y",
    ];
    new(folder.path(), &args);
    let found = packets(
        folder.path(),
        &[config, "again", "-i", "x:FP32=[[3, -3, 0]]"],
    );
    assert_eq!(
        found[0]["outputs"][0]["data"],
        serde_json::json!([3.0, 0.0, 0.0])
    );
}

/// Serves a folder by its path, and returns the server and the line of the log with the command to try.
fn served(folder: &Path, path: &str) -> (Server, String) {
    let ports = free_ports();
    let mut command = cli::command();
    command.current_dir(folder).args(["serve", path]);
    let server = Server::spawn(command.args(on(ports)), ports);
    server.wait_ready();
    server.wait_log("  try: ovms infer ");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("  try: ovms infer "));
    let (_, line) = line.unwrap().split_once("  try: ").unwrap();
    (server, line.to_owned())
}

/// Runs a command of this program in a folder, as a shell does.
fn tried(folder: &Path, line: &str) -> Run {
    let mut command = cli::command();
    let line = words(line.strip_prefix("ovms ").unwrap());
    cli::run(command.current_dir(folder).args(line))
}

#[test]
fn a_folder_is_served_with_its_configuration_file() {
    let folder = repository::folder();
    ir::relu(&folder.path().join("models/line"), "b", "a", &[1, 3]);
    new(folder.path(), &["around", "--model", "models/line"]);
    let config = folder.path().join("around/config.json");
    let text = fs::read_to_string(&config).unwrap();
    // Another name than that of the folder, and an option of its workers.
    let entry = "{\"config\": {\"name\": \"around\", \"base_path\": \".\"}}";
    assert!(text.contains(entry), "{text}");
    let text = text.replace(&format!(",\n        {entry}"), "");
    let graphs = "\"mediapipe_config_list\": [{\"name\": \"beside\", \"base_path\": \".\", \"python_workers\": 2}]";
    let text = text.replacen('{', &format!("{{\n    {graphs},"), 1);
    fs::write(&config, &text).unwrap();
    let (server, line) = served(folder.path(), "around");
    let log = server.log();
    assert!(
        log.contains(
            "around has a configuration file, which is served as with --config-path around/config.json"
        ),
        "{log}"
    );
    let run = tried(folder.path(), &line);
    assert_eq!(run.code, Some(0), "{line}: {}", shown(&run));
    let url = format!("localhost:{}", server.port);
    let args = ["infer", "beside", "-i", "b:FP32=[[-1,0,2]]", "--url", &url];
    let run = cli::run(cli::command().args(args));
    assert_eq!(run.code, Some(0), "{log}\n{}", shown(&run));
    assert!(run.text().contains("0, 0, 2"), "{}", shown(&run));
}

#[test]
fn a_new_graph_is_served_by_its_folder() {
    let folder = repository::folder();
    new(folder.path(), &["echo"]);
    let (server, line) = served(folder.path(), "echo");
    let run = tried(folder.path(), &line);
    assert_eq!(run.code, Some(0), "{line}: {}", shown(&run));
    assert!(!server.log().contains(" WARN "), "{}", server.log());
}
