//! Models that are named by their paths: files, folders, and repositories, which are followed.

use std::{fs, path::Path};

use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    Server, cli, eventually,
    graphs::PASS,
    http::{get, post},
    model, repository,
    server::{free_ports, on},
};

/// Serves with these arguments, with the ports named, and waits until it is ready.
fn serve(folder: &Path, args: &[&str]) -> Server {
    let ports = free_ports();
    let mut command = cli::command();
    command.current_dir(folder).arg("serve").args(args);
    let server = Server::spawn(command.args(&on(ports)[..2]), ports);
    server.wait_ready();
    server
}

/// Creates a folder with a model file, a folder with versions, and a folder with one model.
fn models() -> TempDir {
    let folder = repository::folder();
    let root = folder.path();
    for (ending, name) in [("xml", "adder.xml"), ("bin", "adder.bin")] {
        let part = model("add").join(format!("1/model.{ending}"));
        fs::copy(part, root.join(name)).unwrap();
    }
    repository::copy(&model("dummy").join("1"), &root.join("all/dummy/2"));
    repository::copy(&model("scalar").join("1"), &root.join("all/scalar"));
    folder
}

fn is_ready(server: &Server, name: &str) -> bool {
    get(server, &format!("/v2/models/{name}/ready")).status == 200
}

#[test]
fn a_file_is_served_under_its_name_for_this_machine() {
    let folder = models();
    let server = serve(folder.path(), &["adder.xml"]);
    assert!(is_ready(&server, "adder"));
    let line = server.wait_log("try: ovms infer");
    let log = server.log();
    assert_eq!(
        log.matches(" listens on 127.0.0.1 port ").count(),
        2,
        "{log}"
    );
    let (_, command) = line.split_once("try: ovms ").unwrap();
    let tried = cli::ovms(command.split(' '));
    assert_eq!(tried.code, Some(0), "{command}: {}", tried.stderr);
}

#[test]
fn several_paths_and_flags_may_be_mixed_and_what_cannot_be_loaded_leaves_the_others() {
    let folder = models();
    fs::write(folder.path().join("broken.onnx"), "no model").unwrap();
    let paths = ["broken.onnx", "adder.xml"];
    let more = ["--target_device", "CPU", "./all/dummy/"];
    let server = serve(folder.path(), &[&paths[..], &more].concat());
    assert!(is_ready(&server, "adder") && is_ready(&server, "dummy"));
    assert!(!is_ready(&server, "scalar"));
    let run = cli::run(
        cli::command()
            .current_dir(folder.path())
            .args(["serve", "broken.onnx"])
            .args(on(free_ports())),
    );
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("`broken`"), "{}", run.stderr);
}

#[test]
fn models_come_and_go_with_their_folders() {
    let folder = models();
    let root = folder.path();
    for args in [&["all"][..], &["--model_repository_path", "all"]] {
        let watch = ["--file_system_poll_wait_seconds", "1"];
        let server = serve(root, &[args, &watch].concat());
        assert!(is_ready(&server, "dummy") && is_ready(&server, "scalar"));
        // A folder that is not whole is put in place by its name.
        repository::copy(&model("add").join("1"), &root.join(".new/1"));
        fs::rename(root.join(".new"), root.join("all/new")).unwrap();
        eventually("the new model is served", || {
            is_ready(&server, "new").then_some(())
        });
        fs::remove_dir_all(root.join("all/new")).unwrap();
        eventually("the removed model is retired", || {
            (!is_ready(&server, "new")).then_some(())
        });
        assert!(is_ready(&server, "dummy"));
        for what in ["new: new", "gone: new"] {
            let line = format!("the model folders have changed; {what}");
            server.wait_log(&line);
            let log = server.log();
            assert_eq!(log.matches(&line).count(), 1, "{log}");
        }
    }
}

#[test]
fn the_configuration_file_of_a_graph_brings_its_models() {
    let folder = several(&["dummy"]);
    let graph = folder.path().join("all/pass");
    fs::create_dir(&graph).unwrap();
    fs::write(graph.join("graph.pbtxt"), PASS).unwrap();
    let write = |models: &[(&str, &str)]| {
        let entry = |(name, fixture): &(&str, &str)| json!({"config": {"name": name, "base_path": model(fixture)}});
        let models: Vec<_> = models.iter().map(entry).collect();
        let file = json!({
            "model_config_list": models,
            "mediapipe_config_list": [{"name": "passed", "base_path": "."}],
        });
        fs::write(graph.join("config.json"), file.to_string()).unwrap();
    };
    write(&[("adder", "add")]);
    let check = || {
        let mut check = cli::command();
        cli::run(
            check
                .current_dir(folder.path())
                .args(["serve", "all", "--check"]),
        )
    };
    let checked = check();
    for row in [
        "adder   model  1         ok",
        "dummy   model  1         ok",
        "passed  graph  1         ok",
    ] {
        let text = checked.text();
        assert!(
            text.lines().any(|line| line == row),
            "{text}{}",
            checked.stderr
        );
    }
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);

    let watch = ["all", "--file_system_poll_wait_seconds", "1"];
    let server = serve(folder.path(), &watch);
    for name in ["dummy", "adder", "passed"] {
        assert!(is_ready(&server, name), "{name}: {}", server.log());
    }
    assert!(!is_ready(&server, "pass"));
    write(&[("sum", "add"), ("dummy", "scalar")]);
    eventually("the model has another name", || {
        (is_ready(&server, "sum") && !is_ready(&server, "adder")).then_some(())
    });
    server.wait_log("the model folders have changed; with another config.json: pass");
    let taken = "config.json is not served, since its name is taken by ";
    server.wait_log(taken);
    assert!(is_ready(&server, "dummy"));
    assert_eq!(status_of_dummy(&server), 200);
    let checked = check();
    assert_eq!(checked.code, Some(1));
    assert!(checked.stderr.contains(taken), "{}", checked.stderr);
    // What it listed goes on while it is broken.
    fs::write(graph.join("config.json"), "{\"model_config_list\": [").unwrap();
    server.wait_log("cannot serve what ");
    assert!(is_ready(&server, "sum") && is_ready(&server, "passed"));
    fs::remove_dir_all(&graph).unwrap();
    eventually("all of it is gone", || {
        (!is_ready(&server, "sum") && !is_ready(&server, "passed")).then_some(())
    });
    assert!(is_ready(&server, "dummy"));
}

/// Returns the status of a request that `dummy` answers, and no other model.
fn status_of_dummy(server: &Server) -> u16 {
    let body = br#"{"inputs": [[0,1,2,3,4,5,6,7,8,9]]}"#;
    post(server, "/v1/models/dummy:predict", body).status
}

/// Copies fixture models to a folder `all`, each under its own name.
fn several(names: &[&str]) -> TempDir {
    let folder = repository::folder();
    for name in names {
        let version = folder.path().join("all").join(name).join("1");
        repository::copy(&model(name).join("1"), &version);
    }
    folder
}

/// Returns the statuses of a request to `dummy` and to `running_total`, which are of no sequence.
fn statuses(server: &Server) -> [u16; 2] {
    let ask = |name: &str, numbers: &str| {
        let path = format!("/v1/models/{name}:predict");
        let body = format!("{{\"inputs\": [{numbers}]}}");
        post(server, &path, body.as_bytes()).status
    };
    [
        ask("dummy", "[0,1,2,3,4,5,6,7,8,9]"),
        ask("running_total", "[1,2,3,4]"),
    ]
}

#[test]
fn of_several_models_those_with_state_have_sequences() {
    let folder = several(&["dummy", "dummy_onnx", "running_total"]);
    let server = serve(folder.path(), &["all", "--stateful"]);
    server.wait_log(
        "stateful is for running_total; without variables, and so without sequences: dummy, dummy_onnx",
    );
    assert_eq!(statuses(&server), [200, 400]);
    assert!(!server.log().contains("sequences keep no state"));
}

#[test]
fn a_file_of_triton_that_cannot_be_read_refuses_its_model() {
    let folder = several(&["dummy", "running_total"]);
    let file = folder.path().join("all/running_total/config.pbtxt");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write("name: \"running_total\"\nsequence_batching {\n");
    let expected = "config.pbtxt:3:1: found the end of the text, expected the name of a field or `}`; correct the file, \
                    or remove it to serve the model without its settings";
    let mut check = cli::command();
    check.current_dir(folder.path());
    let checked = cli::run(check.args(["serve", "all", "--check"]));
    let text = &checked.stderr;
    assert_eq!(checked.code, Some(1), "{text}");
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("is ignored"), "{text}");

    let watch = ["all", "--file_system_poll_wait_seconds", "1"];
    let server = serve(folder.path(), &watch);
    let line = server.wait_log("cannot load version 1 of model `running_total`: ");
    assert!(line.contains(expected), "{line}");
    assert!(is_ready(&server, "dummy") && !is_ready(&server, "running_total"));
    let status = || get(&server, "/v1/models/running_total").text();
    assert!(status().contains("config.pbtxt:3:1: "), "{}", status());
    write("sequence_batching { }");
    eventually("the model is served", || {
        is_ready(&server, "running_total").then_some(())
    });
    assert_eq!(statuses(&server), [200, 400]);
    // What serves goes on as it is, with its sequences.
    write("sequence_batching { ]");
    eventually("the new error is reported", || {
        status().contains("config.pbtxt:1:21: ").then_some(())
    });
    assert_eq!(statuses(&server), [200, 400]);
    assert!(!server.log().contains("Model type cannot be changed"));
    write("sequence_batching { }");
    eventually("the error is gone", || {
        (!status().contains("config.pbtxt")).then_some(())
    });
    assert_eq!(statuses(&server), [200, 400]);
}

#[test]
fn a_file_of_triton_gives_its_model_sequences() {
    let folder = several(&["dummy", "running_total"]);
    let all = folder.path().join("all");
    let write = |name: &str, text: &str| {
        fs::write(all.join(name).join("config.pbtxt"), text).unwrap();
    };
    write("running_total", "sequence_batching { }");
    write("dummy", "sequence_batching { }");
    let watch = ["--file_system_poll_wait_seconds", "1"];
    let args = [&["all", "--dynamic-batching", "auto"], &watch[..]].concat();
    let server = serve(folder.path(), &args);
    server.wait_log("stateful, as sequence_batching of ");
    let line = server.wait_log("cannot load version 1 of model `dummy`: ");
    let expected = "config.pbtxt has sequence_batching, and the model has no variables to keep a state in; export the \
                    model with its state, or remove sequence_batching from the file to serve each request by itself";
    assert!(line.contains(expected), "{line}");
    assert!(!is_ready(&server, "dummy") && is_ready(&server, "running_total"));
    assert_eq!(statuses(&server)[1], 400, "it is of no sequence");
    write("dummy", "max_batch_size: 4");
    eventually("the model is served", || {
        is_ready(&server, "dummy").then_some(())
    });
    assert_eq!(statuses(&server), [200, 400]);
    server.wait_log("the model folders have changed; with another config.pbtxt: dummy");
    server.wait_log("config.pbtxt contradicts the model, which counts: max_batch_size: found 4");
}

#[test]
fn a_file_of_triton_names_the_model_file_and_says_which_versions_are_served() {
    let folder = several(&["dummy", "add"]);
    let [of_dummy, of_add] = ["dummy", "add"].map(|name| folder.path().join("all").join(name));
    for version in ["2", "3"] {
        repository::copy(&of_dummy.join("1"), &of_dummy.join(version));
    }
    let other = model("dummy_onnx").join("1/model.onnx");
    fs::copy(other, of_add.join("1/other.onnx")).unwrap();
    let policy = |text: &str| {
        let text = format!("version_policy {{ {text} }}");
        fs::write(of_dummy.join("config.pbtxt"), text).unwrap();
    };
    let name = |name: &str| {
        let text = format!("default_model_filename: \"{name}\"");
        fs::write(of_add.join("config.pbtxt"), text).unwrap();
    };
    policy("specific { versions: [ 1, 3 ] }");
    name("missing.onnx");
    let watch = ["all", "--file_system_poll_wait_seconds", "1"];
    let server = serve(folder.path(), &watch);
    let line = server.wait_log("cannot load version 1 of model `add`: ");
    assert!(
        line.contains("default_model_filename of config.pbtxt is missing.onnx"),
        "{line}"
    );
    assert!(!is_ready(&server, "add") && is_ready(&server, "dummy"));
    name("other.onnx");
    eventually("the model is served", || {
        is_ready(&server, "add").then_some(())
    });
    // Not the IR beside it, which has two.
    let inputs = get(&server, "/v2/models/add").json()["inputs"].clone();
    assert_eq!(inputs.as_array().unwrap().len(), 1, "{inputs}");

    let served = || [1, 2, 3].map(|it| is_ready(&server, &format!("dummy/versions/{it}")));
    assert_eq!(served(), [true, false, true]);
    policy("all { }");
    eventually("all versions are served", || {
        (served() == [true; 3]).then_some(())
    });
    // What serves goes on as it is.
    policy("newest { }");
    eventually("the error is reported", || {
        let status = get(&server, "/v1/models/dummy").text();
        status.contains("config.pbtxt:1:18: ").then_some(())
    });
    assert_eq!(served(), [true; 3]);
    policy("latest { num_versions: 2 }");
    eventually("the first is retired", || {
        (served() == [false, true, true]).then_some(())
    });
    fs::remove_file(of_dummy.join("config.pbtxt")).unwrap();
    eventually("the last one alone is served", || {
        (served() == [false, false, true]).then_some(())
    });
    assert!(is_ready(&server, "add"));
    assert!(!server.log().contains("ignored settings"));
}

#[test]
fn what_a_file_of_triton_says_otherwise_than_the_model_is_reported() {
    let folder = several(&["dummy", "add"]);
    let all = folder.path().join("all");
    let text = "max_batch_size: 8\n\
                input [ { name: \"b\" data_type: TYPE_INT32 dims: [ 10 ] } ]\n\
                output [ { name: \"z\" data_type: TYPE_FP32 dims: [ 10 ] } ]\n\
                sequence_batching { control_input [ { name: \"START\" } ] }\n";
    // Sequences are beside the point here, and the model has none.
    let (text, controls) = text.split_at(text.find("sequence_batching").unwrap());
    fs::write(all.join("dummy/config.pbtxt"), text).unwrap();
    fs::write(all.join("add/config.pbtxt"), "max_batch_size: 0").unwrap();
    let expected = "dummy/config.pbtxt contradicts the model, which counts: max_batch_size: found 8, expected 1, the first \
                    dimension of input `b` (set batch_size); input `b`: found TYPE_INT32, expected TYPE_FP32; output `z`: found no such \
                    output in the model, expected `a`";
    let check = |path: &str| {
        let mut check = cli::command();
        check.current_dir(folder.path());
        cli::run(check.args(["serve", path, "--check"]))
    };
    let checked = check("all");
    let report = &checked.stderr;
    assert_eq!(checked.code, Some(2), "{report}");
    assert!(report.contains("model `dummy`, version "), "{report}");
    assert!(report.contains(expected), "{report}");
    assert_eq!(report.matches("contradicts").count(), 1, "{report}");
    let server = serve(folder.path(), &["all"]);
    let line = server.wait_log("contradicts the model");
    assert!(line.contains(expected), "{line}");
    assert!(is_ready(&server, "dummy"));

    fs::write(all.join("dummy/config.pbtxt"), controls).unwrap();
    let report = check("all").stderr;
    assert!(
        report.contains("config.pbtxt: sequence_batching.control_input (no input is filled here; "),
        "{report}"
    );
}
