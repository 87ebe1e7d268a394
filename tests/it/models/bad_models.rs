//! Truncated model files and malformed folders: each is reported, and nothing crashes.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use ovms::{
    error::chain,
    model::repository::{self as versions, RepositoryError},
    openvino::ModelLoadError,
};
use serde_json::json;

use crate::support::{
    Server, cli, eventually,
    http::{get, post},
    loaded::{load, load_found, options},
    model, repository, server,
};

/// Truncates a file to a fraction of its length.
fn cut(file: &Path, part: u64, of: u64) {
    let file = fs::File::options().write(true).open(file).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length * part / of).unwrap();
}

/// Loads a repository; returns the error, without the folder's name.
fn refused(root: &Path) -> Option<String> {
    let error = load(root, &options(), &[]).err()?;
    Some(chain(&error).replace(&*root.to_string_lossy(), "<folder>"))
}

#[test]
fn weights_that_are_cut_short_are_reported() {
    let root = repository::of(&[("1", "classifier")]);
    cut(&root.path().join("1/model.bin"), 1, 2);
    let half = refused(root.path()).unwrap();
    cut(&root.path().join("1/model.bin"), 0, 1);
    let none = refused(root.path()).unwrap();
    insta::assert_snapshot!(format!("{half}\n{none}"), @"
    cannot read <folder>/1/model.xml: Incorrect weights in bin file!
    cannot read <folder>/1/model.xml: Incorrect weights in bin file!
    ");
}

#[test]
fn a_graph_that_is_cut_anywhere_is_refused() {
    for part in 0..24 {
        let root = repository::of(&[("1", "dummy")]);
        cut(&repository::graph(root.path()), part, 24);
        let said = refused(root.path()).unwrap_or_default();
        assert!(said.starts_with("cannot read"), "{part}/24: {said}");
    }
}

#[test]
fn models_of_other_formats_that_are_cut_are_refused() {
    for (fixture, file) in [
        ("dummy_onnx", "model.onnx"),
        ("dummy_tf", "model.pb"),
        ("dummy_savedmodel", "saved_model.pb"),
        ("dummy_tflite", "model.tflite"),
        ("dummy_paddle", "model.pdmodel"),
    ] {
        let root = repository::of(&[("1", fixture)]);
        cut(&root.path().join("1").join(file), 1, 2);
        assert!(refused(root.path()).is_some(), "{fixture}");
    }
}

#[test]
fn a_version_folder_that_vanishes_is_reported() {
    let root = repository::of(&[("1", "dummy")]);
    let found = versions::versions(root.path()).unwrap();
    let files = versions::files(&found[0].1).unwrap();
    fs::remove_dir_all(root.path().join("1")).unwrap();
    let listed = versions::files(&found[0].1);
    assert!(matches!(listed, Err(RepositoryError::Read { .. })));
    // Its files were found already: the runtime is given paths that are no more.
    let Err(error) = load_found(&files, &options(), &[]) else {
        panic!("a file that is gone was read");
    };
    assert!(
        matches!(error, ModelLoadError::Unreadable { .. }),
        "{error}"
    );
}

#[test]
fn what_is_no_folder_is_reported() {
    let root = repository::of(&[("1", "dummy")]);
    let file = root.path().join("1/model.xml");
    let below = file.join("1");
    assert!(matches!(
        versions::versions(&below),
        Err(RepositoryError::BasePath { .. })
    ));
    assert!(matches!(
        versions::files(&below),
        Err(RepositoryError::Read { .. })
    ));
}

#[test]
fn a_folder_without_rights_is_reported() {
    let root = repository::of(&[("1", "dummy")]);
    let folder = root.path().join("1");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let run = crate::support::cli::run(
        crate::support::cli::without_rights(&folder)
            .args(["serve", "--model_name=m", "--model_path"])
            .arg(root.path())
            .args(crate::support::server::on(
                crate::support::server::free_ports(),
            )),
    );
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let said = run
        .failure()
        .replace(&*root.path().to_string_lossy(), "<folder>");
    insta::assert_snapshot!(said, @"
    exit 1
    error: cannot load version 1 of model `m`
      caused by: File not found or cannot open - <folder>/1
      caused by: Permission denied (os error 13)
    ");
}

/// Writes a model with an operator that OpenVINO does not have.
fn with_odd_operator(root: &Path) {
    let graph = root.join("1/model.xml");
    let whole = fs::read_to_string(&graph).unwrap();
    fs::write(&graph, whole.replace("type=\"Add\"", "type=\"Nothing\"")).unwrap();
}

#[test]
fn files_that_may_not_be_read_and_operators_that_there_are_not_are_reported_everywhere() {
    let folder = repository::folder();
    for name in ["graph", "weights", "operator"] {
        repository::copy(
            &model("dummy").join("1"),
            &folder.path().join(name).join("1"),
        );
    }
    repository::copy(
        &model("dummy_savedmodel").join("1"),
        &folder.path().join("saved/1"),
    );
    with_odd_operator(&folder.path().join("operator"));
    let closed = [
        "graph/1/model.xml",
        "weights/1/model.bin",
        "saved/1/saved_model.pb",
    ];
    let closed = closed.map(|file| folder.path().join(file));
    for file in &closed {
        fs::set_permissions(file, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let entries = ["graph", "weights", "saved", "operator"]
        .map(|name| json!({"config": {"name": name, "base_path": name}}));
    let config = folder.path().join("config.json");
    fs::write(&config, json!({"model_config_list": entries}).to_string()).unwrap();

    let ports = server::free_ports();
    let command = |more: &[String]| {
        let mut command = cli::without_rights(&closed[0]);
        command.args(["serve", "--config_path"]).arg(&config);
        command.args(more);
        command
    };
    let plain = |text: &str| text.replace(&*folder.path().to_string_lossy(), "<folder>");
    let checked = cli::run(&mut command(&["--check".to_owned()]));
    insta::assert_snapshot!(plain(&checked.failure()), @"
    exit 1
    error: the check found 4 errors
      error: <folder>/config.json:1:46 model_config_list[0].config.base_path: model `graph`, version 1: cannot read <folder>/graph/1/model.xml: Permission denied (os error 13)
      error: <folder>/config.json:1:94 model_config_list[1].config.base_path: model `weights`, version 1: cannot read <folder>/weights/1/model.bin: Permission denied (os error 13)
      error: <folder>/config.json:1:146 model_config_list[2].config.base_path: model `saved`, version 1: cannot read <folder>/saved/1/saved_model.pb: Permission denied (os error 13)
      error: <folder>/config.json:1:194 model_config_list[3].config.base_path: model `operator`, version 1: cannot read <folder>/operator/1/model.xml: OpenVINO has no operator `Nothing`: Opset opset1 doesn't contain the operation with type: Nothing
    hint: let the user of the server read <folder>/graph/1/model.xml
    hint: let the user of the server read <folder>/weights/1/model.bin
    hint: let the user of the server read <folder>/saved/1/saved_model.pb
    hint: export the model without such operators, or give a library that has them as --cpu-extension
    ");

    let server = Server::spawn(&mut command(&server::on(ports)), ports);
    server.wait_ready();
    let reported = |state: &serde_json::Value| {
        let status = &state["model_version_status"][0]["status"];
        plain(status["error_message"].as_str().unwrap())
    };
    let all = get(&server, "/v1/config").json();
    let status = ["graph", "weights", "saved", "operator"].map(|name| {
        let one = get(&server, &format!("/v1/models/{name}")).json();
        assert_eq!(reported(&one), reported(&all[name]));
        format!("{name}: {}", reported(&one))
    });
    insta::assert_snapshot!(status.join("\n"), @"
    graph: cannot read <folder>/graph/1/model.xml: Permission denied (os error 13)
    weights: cannot read <folder>/weights/1/model.bin: Permission denied (os error 13)
    saved: cannot read <folder>/saved/1/saved_model.pb: Permission denied (os error 13)
    operator: cannot read <folder>/operator/1/model.xml: OpenVINO has no operator `Nothing`: Opset opset1 doesn't contain the operation with type: Nothing
    ");
    let reload = post(&server, "/v1/config/reload", b"");
    assert_eq!(reload.status, 500);
    let reload = plain(&reload.text());
    for reported in [
        "<folder>/graph/1/model.xml: Permission denied",
        "<folder>/weights/1/model.bin: Permission denied",
        "<folder>/saved/1/saved_model.pb: Permission denied",
        "OpenVINO has no operator `Nothing`",
    ] {
        assert!(reload.contains(reported), "{reported}: {reload}");
        eventually(&format!("`{reported}` in the log"), || {
            plain(&server.log()).contains(reported).then_some(())
        });
    }
}
