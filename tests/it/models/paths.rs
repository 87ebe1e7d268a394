//! Models that are named by their paths: files, folders, and repositories, which are followed.

use std::{fs, path::Path};

use tempfile::TempDir;

use crate::support::{
    Server, cli, eventually,
    http::get,
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
fn several_paths_and_flags_may_be_mixed() {
    let folder = models();
    let args = ["adder.xml", "--target_device", "CPU", "./all/dummy/"];
    let server = serve(folder.path(), &args);
    assert!(is_ready(&server, "adder") && is_ready(&server, "dummy"));
    assert!(!is_ready(&server, "scalar"));
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
        let log = server.log();
        for what in ["new: new", "gone: new"] {
            let line = format!("the model folders have changed; {what}");
            assert_eq!(log.matches(&line).count(), 1, "{log}");
        }
    }
}

#[test]
fn what_cannot_be_loaded_leaves_the_others() {
    let folder = models();
    fs::write(folder.path().join("broken.onnx"), "no model").unwrap();
    let server = serve(folder.path(), &["broken.onnx", "adder.xml"]);
    assert!(is_ready(&server, "adder"));
    let run = cli::run(
        cli::command()
            .current_dir(folder.path())
            .args(["serve", "broken.onnx"])
            .args(on(free_ports())),
    );
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("`broken`"), "{}", run.stderr);
}
