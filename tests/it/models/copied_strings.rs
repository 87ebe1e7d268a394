//! A model whose operator copies strings with their addresses, which the runtime would free twice.

use std::fs;

use serde_json::json;

use crate::support::{
    Server, cli, eventually,
    http::{get, post},
    ir, repository,
    server::{free_ports, on},
};

/// Serves a folder of models that is looked at each second.
fn serve(root: &std::path::Path) -> Server {
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", "--model_repository_path"]).arg(root);
    command.args(["--file_system_poll_wait_seconds", "1"]);
    command.args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    server
}

/// Sends strings of so many lengths, and expects them back.
fn echo(server: &Server, lengths: &[usize]) {
    let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
    let input = json!({"name": "in", "datatype": "BYTES", "shape": [texts.len()], "data": texts});
    let body = json!({"inputs": [input]}).to_string();
    let answer = post(server, "/v2/models/text/infer", body.as_bytes()).json();
    assert_eq!(answer["outputs"][0]["data"], json!(texts));
}

/// Sends strings of all kinds, in tensors that grow and shrink.
fn echo_all(server: &Server) {
    for lengths in [
        &[5][..],
        &[100],
        &[0],
        &[100, 5],
        &[0, 7, 60],
        &[40; 50],
        &[5],
    ] {
        echo(server, lengths);
    }
}

/// Sends strings with the number of those that are to come back.
fn slice(server: &Server) {
    let texts: Vec<String> = (0..50).map(|index| format!("{index}").repeat(20)).collect();
    for stop in [3, 50, 1, 50, 7] {
        let body = json!({"inputs": [
            {"name": "in", "datatype": "BYTES", "shape": [50], "data": texts},
            {"name": "stop", "datatype": "INT64", "shape": [1], "data": [stop]},
        ]});
        let body = body.to_string();
        let answer = post(server, "/v2/models/sliced/infer", body.as_bytes()).json();
        assert_eq!(
            answer["outputs"][0]["data"],
            json!(texts[..stop]),
            "{answer}"
        );
    }
}

#[test]
fn strings_that_are_copied_by_address_end_no_server() {
    let root = repository::folder();
    let model = root.path().join("text");
    ir::copied_strings(&model);
    ir::sliced_strings(&root.path().join("sliced"));
    let mut server = serve(root.path());
    slice(&server);
    echo_all(&server);
    // Another version takes its place.
    repository::copy(&model.join("1"), &root.path().join("text/2.tmp"));
    fs::rename(model.join("2.tmp"), model.join("2")).unwrap();
    let status = |version: u8| {
        let path = format!("/v2/models/text/versions/{version}/ready");
        get(&server, &path).status == 200
    };
    eventually("version 2 alone", || {
        (status(2) && !status(1)).then_some(())
    });
    echo_all(&server);
    // The model goes.
    fs::rename(&model, root.path().join("text.gone")).unwrap();
    server.wait_log("removed");
    fs::rename(root.path().join("text.gone"), &model).unwrap();
    eventually("the model is back", || status(2).then_some(()));
    echo_all(&server);
    server.signal("TERM");
    assert!(server.wait().success(), "{}", server.log());
}
