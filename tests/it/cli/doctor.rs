//! `ovms doctor`: its checks in an isolated environment, and secrets that it never prints.

use std::{fs, io::Write, net::TcpListener, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Server,
    cli::{self, Run},
    repository::folder,
    server::free_ports,
    thread,
};

/// A home folder without a runtime, and two free ports.
struct Home {
    folder: TempDir,
    ports: (u16, u16),
}

impl Home {
    fn new() -> Self {
        Self {
            folder: folder(),
            ports: free_ports(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates the command with an isolated environment.
    fn doctor(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovms"));
        command
            .env_clear()
            .env("HOME", self.path())
            .env("TMPDIR", std::env::temp_dir())
            .args(["doctor", &format!("--port={}", self.ports.0)])
            .arg(format!("--rest_port={}", self.ports.1))
            .args(flags);
        command
    }

    fn report(&self, command: &mut Command) -> (Option<i32>, Report) {
        let run = cli::run(command.args(["--output", "json"]));
        (run.code, Report::of(&run, self.path()))
    }
}

/// A report in JSON.
struct Report(Value);

impl Report {
    fn of(run: &Run, home: &Path) -> Self {
        let text = run.text();
        assert!(!text.contains(home.to_str().unwrap()), "{text}");
        Self(serde_json::from_str(&text).expect(&text))
    }

    /// Returns state, texts and hint of a check.
    fn reported(&self, name: &str) -> String {
        let checks = self.0["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no check `{name}`"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut lines = vec![format!(
            "{}: {}",
            text(&check["status"]),
            text(&check["text"])
        )];
        lines.extend(check["details"].as_array().unwrap().iter().map(text));
        lines.extend(check["hint"].as_str().map(|hint| format!("hint: {hint}")));
        lines.join("\n")
    }
}

#[test]
fn without_a_runtime_the_rest_is_reported_all_the_same() {
    let home = Home::new();
    let (code, report) = home.report(&mut home.doctor(&[]));
    let reported = report.reported("runtime");
    assert!(
        !reported.contains("another one in the system"),
        "this machine has OpenVINO of its own"
    );
    assert_eq!(code, Some(72));
    assert_eq!(report.0["status"], "fail");
    insta::assert_snapshot!(reported, @"
    fail: no OpenVINO runtime found
    none in the folder of `ovms setup`, ~/.local/share/ovms/runtime
    none in the system
    hint: run `ovms setup`; it finds one, or installs one for you alone
    ");
    let names: Vec<&str> = report.0["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    // Scripts pick checks by name.
    insta::assert_snapshot!(names.join(", "), @"ovms, system, processor, memory, files, runtime, python, gRPC port, REST port, folders, clouds, variables, terminal, completions");
    let schema = include_str!("../../../docs/schemas/doctor.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&report.0)
        .map(|it| it.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_runtime_that_works_is_reported_with_its_devices() {
    let home = Home::new();
    let runtime = cli::runtime_folder();
    let mut command = home.doctor(&[]);
    let (code, report) = home.report(command.env("OPENVINO_INSTALL_DIR", &runtime));
    // A library in a virtual environment is identified by that.
    let environment = runtime
        .ancestors()
        .find(|folder| folder.join("pyvenv.cfg").is_file());
    let place = environment.unwrap_or(&runtime).to_str().unwrap();
    let reported = report.reported("runtime").replace(place, "<place>");
    insta::with_settings!({filters => [
        (r"OpenVINO \d[^,]+", "OpenVINO <version>"),
        (r"/libopenvino_c\.[\w.]+\w", ""),
    ]}, {
        insta::assert_snapshot!(reported, @"
        ok: OpenVINO <version>, works
        from OPENVINO_INSTALL_DIR, <place>
        ");
    });
    assert!(
        report.reported("devices").starts_with("ok: CPU"),
        "{}",
        report.reported("devices")
    );
    let mut command = home.doctor(&[]);
    let run = cli::run(command.env("OPENVINO_INSTALL_DIR", &runtime));
    let text = run.text();
    let lines = text.lines().filter(|line| !line.contains("hint: "));
    assert!(lines.count() <= 24, "more than a screen: {text}");
    // A lack of resources of the machine is reported and is no failure.
    let expected = if report.0["status"] == "ok" { 0 } else { 2 };
    assert_eq!(code, Some(expected));
}

#[test]
fn a_runtime_that_does_not_open_is_reported_with_its_place() {
    let home = Home::new();
    let broken = home.path().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("libopenvino_c.so"), "no library").unwrap();
    let mut command = home.doctor(&[]);
    let (code, report) = home.report(command.env("OPENVINO_INSTALL_DIR", &broken));
    assert_eq!(code, Some(72));
    insta::assert_snapshot!(report.reported("runtime"), @"
    fail: cannot open ~/broken/libopenvino_c.so: the shared library at ~/broken/libopenvino_c.so could not be opened: ~/broken/libopenvino_c.so: file too short
    from OPENVINO_INSTALL_DIR, ~/broken/libopenvino_c.so
    none in the folder of `ovms setup`, ~/.local/share/ovms/runtime
    none in the system
    hint: mend or remove it, or run `ovms setup --dir DIR` and set OPENVINO_INSTALL_DIR to DIR
    ");
}

#[test]
fn ports_are_free_or_it_is_reported_who_has_them() {
    let home = Home::new();
    let (_, report) = home.report(&mut home.doctor(&[]));
    let (grpc, rest) = home.ports;
    assert_eq!(report.reported("gRPC port"), format!("ok: {grpc} is free"));
    assert_eq!(report.reported("REST port"), format!("ok: {rest} is free"));

    let server = Server::shared("dummy");
    let here = Home {
        ports: (server.port, server.rest_port),
        ..Home::new()
    };
    let (_, report) = here.report(&mut here.doctor(&[]));
    for (name, port) in [("gRPC port", server.port), ("REST port", server.rest_port)] {
        let reported = report.reported(name);
        let begins = format!("ok: {port} is in use: OpenVINO Model Server");
        assert!(
            reported.starts_with(&begins) && reported.ends_with("answers, ready"),
            "{reported}"
        );
    }

    let swapped = Home {
        ports: (server.rest_port, server.port),
        ..Home::new()
    };
    let (_, report) = swapped.report(&mut swapped.doctor(&[]));
    let reported = [report.reported("gRPC port"), report.reported("REST port")].join("\n");
    let reported = reported.replace(&server.port.to_string(), "<grpc>");
    let reported = reported.replace(&server.rest_port.to_string(), "<rest>");
    insta::assert_snapshot!(reported, @"
    warn: <rest> is in use: what answers speaks kserve-rest, not kserve-grpc
    hint: serve on another port with --port; `ss -ltnp 'sport = :<rest>'` tells who has this one
    warn: <grpc> is in use: what answers speaks kserve-grpc, not kserve-rest
    hint: serve on another port with --rest_port; `ss -ltnp 'sport = :<grpc>'` tells who has this one
    ");
}

#[test]
fn whoever_listens_and_says_nothing_does_not_hold_it_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = (
        silent.local_addr().unwrap().port(),
        other.local_addr().unwrap().port(),
    );
    // One says something else, to a few; the other never accepts.
    let answers = thread(move || {
        while let Ok((mut stream, _)) = other.accept() {
            if stream.write_all(b"220 mail\r\n").is_err() {
                return;
            }
        }
    });
    let home = Home {
        ports,
        ..Home::new()
    };
    let (_, report) = home.report(&mut home.doctor(&[]));
    for (name, port) in [("gRPC port", ports.0), ("REST port", ports.1)] {
        let reported = report.reported(name);
        let begins = format!("warn: {port} is in use by something that is no model server\n");
        assert!(reported.starts_with(&begins), "{reported}");
        assert!(
            reported.contains("hint: serve on another port"),
            "{reported}"
        );
    }
    // It waits for connections for as long as the process lives.
    drop(answers);
}

#[test]
fn secrets_stay_secret() {
    let home = Home::new();
    let mut command = home.doctor(&[]);
    let run = cli::run(command.envs([
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AZURE_STORAGE_KEY", "s3cret"),
        ("API_KEY", "s3cret"),
        ("https_proxy", "http://s3cret"),
        ("OVMS_URL", "http://ann:s3cret@localhost:9000"),
        ("SHELL", "/bin/fish"),
    ]));
    let text = run.text();
    assert!(
        !text.contains("s3cret") && !run.stderr.contains("s3cret"),
        "{text}"
    );
    for part in [
        "S3: AWS_SECRET_ACCESS_KEY; Azure: AZURE_STORAGE_KEY",
        "API_KEY (set, not shown)",
        "https_proxy (set, not shown)",
        "OVMS_URL=(set, not shown)",
        "not installed for fish",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(!text.contains(home.path().to_str().unwrap()), "{text}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_a_warning() {
    let home = Home::new();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = home.doctor(&[]);
    let (_, report) = home.report(command.env("OVMS_MODEL_CACHE", file.join("below")));
    insta::assert_snapshot!(report.reported("folders").replace(
        std::env::temp_dir().to_str().unwrap(),
        "<tmp>"
    ), @"
    warn: cannot write to ~/file/below (downloads): not a directory
    can write to <tmp> (temporary)
    hint: --cache_dir names another folder for compiled models, OVMS_MODEL_CACHE one for downloads, and TMPDIR one for temporary files
    ");
}

#[test]
fn installed_completions_are_found() {
    let home = Home::new();
    let place = home.path().join(".local/share/bash-completion/completions");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("ovms"), "").unwrap();
    let mut command = home.doctor(&[]);
    let (_, report) = home.report(command.env("SHELL", "/bin/bash"));
    let reported = report.reported("completions");
    assert_eq!(
        reported,
        "ok: installed for bash: ~/.local/share/bash-completion/completions/ovms"
    );
}
