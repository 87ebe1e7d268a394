//! `ovms serve` and its model: the served version, and errors of models that fail to load.

use std::fs;

use ovms::proto::kserve::ModelReadyRequest;

use crate::support::{
    Server, cli,
    grpc::{Grpc, error},
    http::get,
    model, repository,
    server::{free_ports, on},
};

#[test]
fn a_folder_without_versions_is_served_without_any() {
    let root = repository::folder();
    let server = Server::begin("m", root.path(), &[]);
    server.wait_ready();
    server.wait_log("WARN model `m`: there is no version folder in");
    let grpc = Grpc::connect(&server);
    let request = ModelReadyRequest {
        name: "m".to_owned(),
        version: String::new(),
    };
    let ready = grpc.wait(grpc.client.clone().model_ready(request));
    insta::assert_snapshot!(error(&ready.unwrap_err()), @"NotFound: Model with requested version is not found");
    insta::assert_snapshot!(get(&server, "/v2/models/m/ready").error(), @"404: Model with requested version is not found");
}

#[test]
fn a_model_without_version_folders_is_version_1() {
    let root = repository::folder();
    let folder = root.path().join("m");
    repository::copy(&model("dummy").join("1"), &folder);
    let file = folder.read_dir().unwrap().flatten().map(|file| file.path());
    let xml = file
        .into_iter()
        .find(|file| file.extension().is_some_and(|it| it == "xml"));
    for path in [&folder, &xml.unwrap()] {
        let server = Server::begin("m", path, &[]);
        server.wait_ready();
        let metadata = get(&server, "/v2/models/m").json();
        assert_eq!(metadata["versions"], serde_json::json!(["1"]), "{path:?}");
    }

    fs::create_dir(folder.join("4")).unwrap();
    repository::copy(&model("scalar").join("1"), &folder.join("4"));
    let server = Server::begin("m", &folder, &[]);
    server.wait_ready();
    server.wait_log("ignoring a model beside version folders");
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["versions"], serde_json::json!(["4"]));
}

#[test]
fn the_highest_version_is_served() {
    let root = repository::of(&[
        ("9", "dummy"),
        ("10", "scalar"),
        ("2", "add"),
        ("old", "noname"),
    ]);
    let server = Server::begin("m", root.path(), &[]);
    server.wait_ready();
    server.wait_log("ignoring a folder whose name is not a version number");
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["versions"], serde_json::json!(["10"]));
    assert_eq!(metadata["inputs"][0]["name"], "x");
    assert_eq!(get(&server, "/v2/models/m/versions/10/ready").status, 200);
    assert_eq!(get(&server, "/v2/models/m/versions/9/ready").status, 404);
}

#[test]
fn a_relative_path_is_below_the_working_folder() {
    let ports = free_ports();
    let mut command = cli::command();
    command
        .current_dir(model("dummy").parent().unwrap())
        .args(["serve", "--model_name=m", "--model_path=dummy"])
        .args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    assert_eq!(get(&server, "/v2/models/m/ready").status, 200);
}

#[test]
fn as_many_slots_as_asked_for_are_made() {
    let server = Server::start_with("dummy", &["--nireq", "7"]);
    assert!(
        server.wait_log("loaded").contains("nireq=7"),
        "{}",
        server.log()
    );
}
