//! `ovms serve` before it serves: its flags, errors of invalid ones, and its help.

use crate::support::cli::{self, ovms};

/// Runs `ovms serve` with flags that it must refuse; returns exit code and stderr.
fn refused(flags: &[&str]) -> String {
    let run = ovms([&["serve"], flags].concat());
    assert_eq!(run.text(), "", "nothing is served, nothing is logged");
    run.failure()
}

const DUMMY: [&str; 4] = ["--model_name", "dummy", "--model_path", "/nonexistent"];

#[test]
fn the_environment_stands_in_for_flags() {
    let run = cli::run(
        cli::command()
            .args(["serve", "--port=9000", "--grpc_workers=1"])
            .args(DUMMY)
            .env("GRPC_SERVERS", "1000000"),
    );
    assert!(
        run.failure()
            .starts_with("exit 64\ngrpc_workers count should be from 1 to CPU core count : "),
        "{}",
        run.stderr
    );
    let hint = "hint: the environment has GRPC_SERVERS=1000000, which goes before --grpc_workers;";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
}

#[test]
fn booleans_have_the_spellings_of_the_other_server() {
    let reported = |flag: &str, value: &str| {
        let flag = format!("--{flag}={value}");
        refused(&[&DUMMY[..], &["--port=1", &flag, "--metrics_list=a"]].concat())
    };
    for yes in ["true", "True", "t", "T", "1"] {
        let enabled = reported("metrics_enable", yes);
        assert!(enabled.contains("metrics are enabled"), "{yes}: {enabled}");
    }
    for no in ["false", "False", "f", "F", "0"] {
        let disabled = reported("metrics_enable", no);
        assert!(
            disabled.contains("is missing, required"),
            "{no}: {disabled}"
        );
    }
    let help = cli::ovms(["serve", "--help"]).text();
    let flags = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--"));
    let (booleans, others): (Vec<&str>, Vec<&str>) = flags
        .filter(|flag| !flag.contains(" <"))
        .partition(|flag| flag.ends_with("[=<BOOL>]"));
    assert_eq!(others, ["check[=<DEPTH>]"], "flags without a value");
    for flag in booleans.iter().chain(&["check"]) {
        let flag = flag.trim_end_matches("[=<BOOL>]");
        if ["demo", "list_models", "add_to_config", "remove_from_config"].contains(&flag) {
            continue;
        }
        let taken = reported(flag, "True");
        let missing = ["is missing, required", "metrics are enabled"];
        assert!(
            missing.iter().any(|text| taken.contains(text)),
            "{flag}: {taken}"
        );
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    use std::process::Stdio;
    let mut child = cli::command()
        .args(["serve", "--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
