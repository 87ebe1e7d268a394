//! `ovms doctor`: its schema, a runtime that works, and ports whose owner says nothing. The rest is in the sheet
//! `doctor`.

use std::{io::Write, net::TcpListener, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
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
fn a_report_without_a_runtime_fits_its_schema() {
    let home = Home::new();
    let (code, report) = home.report(&mut home.doctor(&[]));
    assert_eq!(code, Some(72));
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
fn one_port_for_both_is_reported() {
    let mut home = Home::new();
    home.ports.1 = home.ports.0;
    let (_, report) = home.report(&mut home.doctor(&[]));
    let port = home.ports.0;
    let expected = format!(
        "warn: {port} is also the gRPC port; each needs its own\n\
         hint: choose another port with --rest-port"
    );
    assert_eq!(report.reported("REST port"), expected);
    assert_eq!(report.reported("gRPC port"), format!("ok: {port} is free"));
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
fn a_folder_for_temporary_files_that_is_not_there_is_a_warning_alone() {
    let home = Home::new();
    let mut command = home.doctor(&[]);
    command.env("TMPDIR", "/nonexistent/tmp");
    let (code, report) = home.report(command.env("OPENVINO_INSTALL_DIR", cli::runtime_folder()));
    assert_eq!(code, Some(2));
    let folders = report.reported("folders");
    let expected = "warn: cannot write to /nonexistent/tmp (temporary): No such file or directory";
    assert!(folders.starts_with(expected), "{folders}");
    assert!(
        folders.contains("and TMPDIR one for temporary files"),
        "{folders}"
    );
    for (name, begin) in [("runtime", "ok: OpenVINO "), ("devices", "ok: CPU")] {
        let reported = report.reported(name);
        assert!(reported.starts_with(begin), "{reported}");
    }
    let python = report.reported("python");
    assert!(!python.contains("cannot be started"), "{python}");
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
        let begins = format!("warn: {port} is in use by something other than a model server\n");
        assert!(reported.starts_with(&begins), "{reported}");
        assert!(
            reported.contains("hint: serve on another port"),
            "{reported}"
        );
    }
    // It waits for connections for as long as the process lives.
    drop(answers);
}
