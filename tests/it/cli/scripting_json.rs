//! JSON for scripts: `--output json` of every subcommand matches its published schema, no key less
//! and none more, and the manual has each key.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};

use super::shared::served;
use crate::support::{
    Server,
    checks::{self, Case},
    cli::{self, Run, ovms, words},
    fixture,
    graphs::{PYTHON, TWO},
    http::post,
    infer::{GRPC, REST, TFS_REST, infer},
    model,
    pipelines::{Config, connections, dl},
    repository,
    steps::STEPS,
};

fn schema_folder() -> PathBuf {
    PathBuf::from(concat!(env!("WORKSPACE_ROOT"), "/docs/schemas"))
}

fn schema(name: &str) -> Value {
    let path = schema_folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// Makes objects refuse keys that the schema does not have.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

/// Panics unless each value matches a schema.
fn fits(name: &str, values: &[Value]) {
    let mut schema = schema(name);
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(!values.is_empty());
    for value in values {
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, [""; 0], "{name}: {value:#}");
    }
}

/// Parses stdout as one value, or as one per line.
fn values(run: &Run) -> Vec<Value> {
    let text = run.text();
    match serde_json::from_str(&text) {
        Ok(value) => vec![value],
        Err(_) => {
            let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            text.lines().map(line).collect()
        }
    }
}

/// Panics unless a run has this exit code and its output matches a schema.
fn checked(name: &str, code: i32, run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(code), "{name}: {}", run.stderr);
    let values = values(run);
    fits(name, &values);
    values
}

const TEN: &str = "b=[0,1,2,3,4,5,6,7,8,9]";

#[test]
fn answers_fit_their_schemas() {
    let server = Server::shared("dummy");
    for api in [GRPC, REST, TFS_REST] {
        let run = |args: &[&str]| infer(server, api, &[args, &["--output", "json"]].concat());
        checked("infer", 0, &run(&["dummy", "-i", TEN]));
        checked("infer-top", 0, &run(&["dummy", "-i", TEN, "--top", "2"]));
        let states = checked("infer-status", 0, &run(&["--status"]));
        assert_eq!(states[0]["models"][0]["name"], "dummy");
        checked("infer-status", 0, &run(&["--status", "dummy"]));
        checked("infer-metadata", 0, &run(&["--metadata"]));
        checked("infer-metadata", 0, &run(&["--metadata", "dummy"]));
        let load = run(&["dummy", "-i", TEN, "--repeat", "3"]);
        checked("infer-load", 0, &load);
    }
    let stream = ["dummy", "-i", TEN, "--stream", "--output", "json"];
    checked("infer-stream", 0, &infer(server, GRPC, &stream));
    let folder = repository::folder();
    let labels = folder.path().join("labels.txt");
    fs::write(&labels, "zero\none\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    let top = [
        "dummy", "-i", TEN, "--top", "9", "--output", "json", "--labels",
    ];
    let run = infer(
        server,
        GRPC,
        &[&top[..], &[labels.to_str().unwrap()]].concat(),
    );
    let ranking = checked("infer-top", 0, &run);
    assert_eq!(ranking[0]["top"][0][8]["label"], "one");
    let refused = ["dummy", "-i", "b::1,3=[1,2,3]", "--output", "json"];
    let load = infer(server, GRPC, &[&refused[..], &["--repeat", "2"]].concat());
    let load = checked("infer-load", 1, &load);
    assert_eq!(load[0]["latency_ms"], Value::Null);
    let stream = infer(server, GRPC, &[&refused[..], &["--stream"]].concat());
    let stream = checked("infer-stream", 1, &stream);
    assert!(stream[0]["error"].is_string(), "{stream:?}");
}

/// Parses the last line of stderr, which has to fit the schema of errors.
fn error(run: &Run) -> Value {
    let line = run.stderr.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", run.stderr));
    fits("error", std::slice::from_ref(&value));
    assert_eq!(value["exit_code"].as_i64(), run.code.map(i64::from));
    assert_eq!(run.text(), "");
    value
}

#[test]
fn errors_are_one_line_where_that_is_asked_for() {
    let server = Server::shared("dummy");
    let asked = |api: &str, args: &[&str]| {
        let flags = [args, &["--error-format=json", "--output=json"]].concat();
        error(&infer(server, api, &flags))
    };
    for (api, code) in [
        (GRPC, json!("NOT_FOUND")),
        (REST, json!(404)),
        (TFS_REST, json!(404)),
    ] {
        let gone = asked(api, &["gone", "--zeros"]);
        assert_eq!((&gone["kind"], &gone["code"]), (&json!("refused"), &code));
        assert_eq!(gone["hints"], json!(["the server has `dummy`"]));
        let waited = asked(api, &["gone", "--status", "--wait=10ms"]);
        assert_eq!(
            (&waited["kind"], &waited["code"]),
            (&json!("refused"), &code)
        );
        let short = asked(api, &["dummy", "-i", "b=[1]"]);
        assert_eq!(
            (&short["kind"], &short["code"]),
            (&json!("usage"), &Value::Null)
        );
    }
    // A port that takes connections, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    for (args, kind, code) in [
        ("infer m --zeros --url 127.0.0.1:1", "unreachable", 69),
        ("infer m --no-such-flag", "usage", 64),
        ("bench m --interval 5", "usage", 64),
        ("bench m --url 127.0.0.1:1 --timeout 1s", "unreachable", 69),
        ("pipeline check /nonexistent.json", "failed", 1),
        ("graph check /nonexistent", "failed", 1),
        ("serve --port 70000", "usage", 64),
    ] {
        let before = [&["--error-format", "json"], &words(args)[..]].concat();
        let behind = [&words(args)[..], &["--error_format=json"]].concat();
        for args in [before, behind] {
            let run = ovms(args);
            let found = error(&run);
            assert_eq!(
                (&found["kind"], run.code),
                (&json!(kind), Some(code)),
                "{found}"
            );
        }
    }
    let late = [
        "infer",
        "m",
        "--zeros",
        "--error-format=json",
        "--timeout=100ms",
    ];
    let run = ovms([&late[..], &["--api", REST, "--url", &silent]].concat());
    assert_eq!(error(&run)["kind"], "timeout");
    // A value that is none is reported as everything was reported before.
    let wrong = ovms(words("infer m --error-format xml"));
    assert_eq!(wrong.code, Some(64));
    assert!(
        wrong
            .stderr
            .starts_with("error parsing options: invalid value 'xml'")
    );
}

#[test]
fn a_failed_reload_fits_the_schema_of_states() {
    let config = Config::of(&["dummy"]);
    let server = config.serve();
    fs::write(config.beside("config.json"), "{").unwrap();
    assert_eq!(post(&server, "/v1/config/reload", b"").status, 412);
    for api in [GRPC, REST] {
        for args in [&["--status"][..], &["--status", "dummy"]] {
            let run = infer(&server, api, &[args, &["--output", "json"]].concat());
            let states = checked("infer-status", 0, &run);
            let reason = states[0]["reload_failure"]["reason"].as_str().unwrap();
            assert!(reason.contains("config.json:1:1"), "{reason}");
        }
        let run = infer(&server, api, &["--metadata", "--output", "json"]);
        checked("infer-metadata", 0, &run);
    }
}

#[test]
fn detections_fit_their_schema() {
    let folder = repository::folder();
    let labels = folder.path().join("labels.txt");
    fs::write(&labels, "sky\ncat\n").unwrap();
    let found = "in=[[[[0,1,0.5,0,0,1,1],[1,7,0.75,0,0,1,1]]]]";
    let flags = [
        "finder", "-i", found, "--top", "2", "--output", "json", "--labels",
    ];
    let flags = [&flags[..], &[labels.to_str().unwrap()]].concat();
    let found = checked("infer-top", 0, &infer(served(), GRPC, &flags));
    let top = &found[0]["top"];
    assert_eq!(
        (&top[0][0]["label"], &top[1][0]["class"]),
        (&json!("cat"), &json!(7))
    );
    assert_eq!(top[0][0]["box"], json!([0.0, 0.0, 1.0, 1.0]));
}

#[test]
fn loads_fit_their_schema() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let saved = folder.path().join("before.json");
    let run = |flags: &[&str]| {
        let mut command = cli::command();
        command
            .args(["bench", "dummy", "--url"])
            .arg(format!("127.0.0.1:{}", server.port))
            .args(words(
                "--interval 50ms --windows 2 --max-trials 2 --output json",
            ));
        cli::run(command.args(flags))
    };
    let saved = saved.to_str().unwrap();
    checked("bench", 0, &run(&["--save", saved]));
    let flags = ["--against", saved, "--fail-if", "rate>0"];
    let compared = checked("bench", 1, &run(&flags));
    assert!(
        !compared[0]["comparison"][0]["metrics"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    checked("bench", 0, &run(&["--rate", "50", "--stream"]));
}

#[test]
fn values_without_a_form_are_reported_beside_the_others() {
    let server = Server::shared("passthrough_f32");
    let run = infer(
        server,
        GRPC,
        &words("passthrough_f32 -i in=[[1,NaN],[-Infinity,Infinity]] --output json"),
    );
    let answer = checked("infer", 0, &run);
    assert_eq!(
        answer[0]["outputs"][0]["data"],
        json!([1.0, null, null, null])
    );
    assert_eq!(
        answer[0]["outputs"][0]["not_finite"],
        json!([[1, "NaN"], [2, "-Infinity"], [3, "Infinity"]])
    );
    let run = infer(
        server,
        GRPC,
        &words("passthrough_f32 -i in=[[-Infinity,1,Infinity]] --top 3 --output json"),
    );
    let ranking = checked("infer-top", 0, &run);
    let scores = &ranking[0]["top"][0];
    assert_eq!(scores[0]["not_finite"], json!({"score": "Infinity"}));
    assert_eq!(scores[1]["not_finite"], Value::Null);
    assert_eq!(scores[2]["not_finite"], json!({"score": "-Infinity"}));
}

#[test]
fn answers_of_sequences_fit_their_schema() {
    let server = served();
    for flags in [
        &["--sequence"][..],
        &["--sequence", "--each"],
        &["--start", "--end"],
    ] {
        let input = if flags.len() == 2 && flags[0] == "--start" {
            "x=[1,2,3,4]"
        } else {
            STEPS
        };
        let args = ["listed_total", "-i", input, "--output", "json"];
        let answers = checked(
            "infer",
            0,
            &infer(server, GRPC, &[&args[..], flags].concat()),
        );
        assert!(
            answers.iter().all(|it| it["sequence_id"].is_u64()),
            "{answers:?}"
        );
    }
    let list = ["listed_total", "--sequences", "--output", "json"];
    checked("infer-sequences", 0, &infer(server, REST, &list));
    let start = ["listed_total", "-i", "x=[1,2,3,4]", "--start"];
    assert_eq!(infer(server, GRPC, &start).code, Some(0));
    let listed = checked("infer-sequences", 0, &infer(server, TFS_REST, &list));
    assert_eq!(listed[0]["sequences"][0]["steps"], 1);
}

#[test]
fn checks_and_changes_of_files_fit_their_schemas() {
    let folder = repository::folder();
    let file = folder.path().join("config.json");
    let file = file.to_str().unwrap();
    let models = model("dummy");
    let serve = |args: &[&str]| ovms([&["serve", "--output", "json"], args].concat());
    let path = models.to_str().unwrap();
    let name = ["--config_path", file, "--model_name", "dummy"];
    let add = [&name[..], &["--model_path", path, "--add_to_config"]].concat();
    let added = checked("serve-config", 0, &serve(&add));
    assert_eq!(
        added[0],
        json!({"file": file, "model": "dummy", "done": "added"})
    );
    let again = checked("serve-config", 0, &serve(&add));
    assert_eq!(again[0]["done"], "unchanged");
    let found = checked(
        "serve-check",
        0,
        &serve(&["--check", "--config_path", file]),
    );
    assert_eq!(
        found[0]["models"],
        json!([{"name": "dummy", "kind": "model", "versions": [1], "state": "ok"}])
    );
    let removed = [&name[..], &["--remove_from_config"]].concat();
    checked("serve-config", 0, &serve(&removed));
    let again = serve(&removed);
    assert_eq!((again.code, again.text().as_str()), (Some(1), ""));
    let missing = words("--check --model_name a --model_path /nonexistent --port 1");
    let found = checked("serve-check", 1, &serve(&missing));
    assert_eq!(found[0]["verdict"], "faults");
    let finding = &found[0]["findings"][0];
    let about = (&finding["severity"], &finding["kind"], &finding["name"]);
    assert_eq!(about, (&json!("error"), &json!("model"), &json!("a")));
    let wrong = folder.path().join("wrong.json");
    let text = r#"{"model_config_list": [
        {"config": {"name": "a", "base_path": "a", "nireq": 2, "nireq": 1}},
        {"config": {"name": "a", "base_path": "b", "layout": "?!"}}]}"#;
    fs::write(&wrong, text).unwrap();
    let wrong = wrong.to_str().unwrap();
    let found = checked(
        "serve-check",
        1,
        &serve(&["--check", "--config_path", wrong]),
    );
    let found = found[0]["findings"].as_array().unwrap();
    let shown = found.iter().map(|it| {
        let of = |key: &str| it[key].to_string();
        format!(
            "{} {} {}:{} {} {}",
            of("severity"),
            of("name"),
            of("line"),
            of("column"),
            of("path"),
            of("message")
        )
    });
    let shown: Vec<String> = shown.collect();
    let shown = shown.join("\n");
    let shown = shown.replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(shown, @r#"
    "error" "a" 2:47 "model_config_list[0].config.base_path" "The provided base path is invalid or doesn't exists - FOLDER/a: No such file or directory (os error 2)"
    "error" "a" 3:29 "model_config_list[1].config.name" "Given model name is already occupied"
    "warning" null 2:64 "model_config_list[0].config.nireq" "the key `nireq` is here again; its last value counts"
    "#);
    assert!(
        found
            .iter()
            .all(|it| it["file"] == wrong || it["file"].is_null())
    );
    let root = models.parent().unwrap().to_str().unwrap();
    let listed = serve(&["--list_models", "--model_repository_path", root]);
    let listed = checked("serve-list_models", 0, &listed);
    assert!(listed[0]["models"].as_array().unwrap().len() > 10);
    let none = ovms(words(
        "serve --output json --model_name a --model_path b --port 1",
    ));
    assert_eq!(
        (none.code, none.text().as_str()),
        (Some(64), ""),
        "{}",
        none.stderr
    );
}

#[test]
fn pipelines_fit_their_schemas() {
    let case = Case::new();
    let wrong = checks::pipeline(
        "wrong",
        &[checks::node("only", "dumy", &["b < request.x"], &["a"], "")],
        &["y < only.a"],
        "",
    );
    let pipelines = [checks::sound("sound"), wrong];
    case.config(&checks::file(&[checks::dummy()], &[], &pipelines));
    let path = case.path().join("config.json");
    let config = path.to_str().unwrap();
    let pipeline = |args: &[&str]| ovms([&["pipeline"], args, &["--output", "json"]].concat());
    checked("pipeline-check", 1, &pipeline(&["check", config]));
    checked("pipeline-check", 0, &pipeline(&["check", config, "sound"]));
    checked(
        "pipeline-check",
        1,
        &pipeline(&["check", "/nonexistent.json"]),
    );
    let unknown = pipeline(&["check", config, "other"]);
    let unknown = checked("pipeline-check", 64, &unknown);
    assert_eq!(unknown[0]["verdict"], "faults");
    let error = unknown[0]["faults"][0]["message"].as_str().unwrap();
    assert!(error.contains("`other`"), "{error}");
    checked("pipeline-show", 0, &pipeline(&["show", config]));
    checked("pipeline-show", 0, &pipeline(&["show", config, "sound"]));
    checked(
        "pipeline-run",
        0,
        &pipeline(&["run", config, "sound", "--zeros"]),
    );
    let images = case.path().join("images.json");
    let written = json!({
        "model_config_list": [{"config": {"name": "any", "base_path": model("image_any")}}],
        "pipeline_config_list": [
            {"name": "encoded", "inputs": ["image"], "outputs": connections("y=only.o"),
             "nodes": [dl("only", "any", "image=request.image", "out=o")]},
        ],
    });
    fs::write(&images, written.to_string()).unwrap();
    let star = format!("image:BYTES=@{}", fixture("images/star.png").display());
    let encoded = pipeline(&["run", images.to_str().unwrap(), "-i", &star]);
    let encoded = checked("pipeline-run", 0, &encoded);
    assert_eq!(encoded[0]["decoding"]["inputs"], json!(["image"]));
    let dummy = model("dummy");
    let new = ["new", "chain", "pair", dummy.to_str().unwrap()];
    let file = case.path().join("new.json");
    let written = pipeline(&[&new[..], &["-o", file.to_str().unwrap()]].concat());
    let written = checked("written", 0, &written);
    assert_eq!(written[0]["files"], json!([file]));
    let refused = pipeline(&new);
    assert_eq!(
        (refused.code, refused.text().as_str()),
        (Some(64), ""),
        "{}",
        refused.stderr
    );
    let node = case.path().join("node");
    let node = ["new", "--custom-node", "crop", node.to_str().unwrap()];
    checked("written", 0, &pipeline(&node));
}

#[test]
fn graphs_fit_their_schemas() {
    let folder = repository::folder();
    let run = |args: &[&str]| {
        let mut command = cli::command();
        cli::run(command.current_dir(folder.path()).arg("graph").args(args))
    };
    checked("written", 0, &run(&["new", "echo", "--format", "json"]));
    let json = |args: &[&str]| run(&[args, &["--output", "json"]].concat());
    checked("graph-show", 0, &json(&["show", "echo"]));
    checked("graph-show", 0, &json(&["show", "echo/config.json"]));
    checked("graph-check", 0, &json(&["check", "echo"]));
    let wrong = folder.path().join("wrong");
    fs::create_dir_all(&wrong).unwrap();
    fs::write(wrong.join("graph.pbtxt"), PYTHON).unwrap();
    fs::write(wrong.join("handler.py"), "import nothing_of_the_kind\n").unwrap();
    checked("graph-check", 1, &json(&["check", "wrong"]));
    fs::write(wrong.join("graph.pbtxt"), TWO).unwrap();
    let packets = checked("graph-run", 0, &json(&["run", "wrong", "-i", "a=[1, NaN]"]));
    assert!(packets.len() > 1, "{packets:?}");
    fs::create_dir_all(folder.path().join("packages")).unwrap();
    checked("graph-stubs", 0, &json(&["stubs", "--into", "packages"]));
}

#[test]
fn the_runtime_fits_its_schema() {
    checked("setup", 0, &ovms(["setup", "--output", "json"]));
    let folder = repository::folder();
    let mut command = cli::bare(folder.path());
    let run = cli::run(command.args(["setup", "--output", "json", "--python", "/nonexistent"]));
    assert_eq!(run.text(), "", "nothing half is printed");
    assert_ne!(run.code, Some(0));
}

/// Writes the keys of a schema as rows of a table.
fn rows(schema: &Value, path: &str, out: &mut Vec<String>) {
    if let Some(alternatives) = schema["anyOf"].as_array() {
        for alternative in alternatives {
            rows(alternative, path, out);
        }
    }
    if !schema["items"].is_null() {
        rows(&schema["items"], &format!("{path}[]"), out);
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (key, value) in properties {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let text = value["description"].as_str().unwrap_or_default();
        let row = format!("| `{path}` | {} | {text} |", kind(value));
        if !text.is_empty() && !out.contains(&row) {
            out.push(row);
        }
        rows(value, &path, out);
    }
}

fn kind(schema: &Value) -> String {
    let one = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "boolean" => "truth value".to_owned(),
        "integer" => "whole number".to_owned(),
        "string" => "text".to_owned(),
        "array" => "list".to_owned(),
        other => other.to_owned(),
    };
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words
            .iter()
            .map(|it| format!("`{}`", it.as_str().unwrap()))
            .collect();
        return words.join(", ");
    }
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(one).collect::<Vec<_>>().join(" or "),
        Value::String(_) => one(&schema["type"]),
        _ => "any".to_owned(),
    }
}

/// Writes the manual's part on the schemas.
fn manual() -> String {
    let mut names: Vec<String> = fs::read_dir(schema_folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        let name = name.strip_suffix(".json").unwrap();
        let schema = schema(name);
        let (title, command) = (&schema["title"], &schema["$comment"]);
        let head = format!(
            "### {}\n\n`{}`, schema [{name}.json](schemas/{name}.json). {}\n\n\
             | key | type | meaning |\n|---|---|---|\n",
            title.as_str().unwrap(),
            command.as_str().unwrap(),
            schema["description"].as_str().unwrap(),
        );
        let mut lines = Vec::new();
        rows(&schema, "", &mut lines);
        text.extend([&head, &lines.join("\n"), "\n\n"]);
    }
    text
}

/// Keys of the schemas on the page, which `UPDATE_DOCS=1` writes anew.
#[test]
fn the_manual_has_every_key() {
    let path = concat!(env!("WORKSPACE_ROOT"), "/docs/scripting.md");
    let page = fs::read_to_string(path).unwrap();
    let begin = "<!-- The tables below are made of docs/schemas by a test: UPDATE_DOCS=1. -->\n\n";
    let (before, tables) = page.split_once(begin).expect("the page has the mark");
    let made = manual();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, format!("{before}{begin}{}\n", made.trim_end())).unwrap();
        return;
    }
    assert_eq!(
        tables.trim_end(),
        made.trim_end(),
        "UPDATE_DOCS=1 writes it anew"
    );
}

#[test]
fn every_schema_is_held_against_a_run() {
    let here = include_str!("scripting_json.rs");
    let names = fs::read_dir(schema_folder()).unwrap().flatten();
    let names: BTreeSet<String> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(!names.is_empty());
    for name in names {
        let name = name.strip_suffix(".json").unwrap();
        // Others hold theirs beside what they are of.
        let is_here = here.contains(&format!("\"{name}\","));
        assert!(
            is_here || name == "doctor",
            "{name}.json is tested by nobody"
        );
    }
}
