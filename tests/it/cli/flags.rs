//! Booleans of `ovms serve`. Its other flags are in the sheets `serve_booleans` and `serve_flags`.

use crate::support::cli::{self, ovms};

/// Runs `ovms serve` with flags that it must refuse; returns exit code and stderr.
fn refused(flags: &[&str]) -> String {
    let run = ovms([&["serve"], flags].concat());
    assert_eq!(run.text(), "", "nothing is served, nothing is logged");
    run.failure()
}

const DUMMY: [&str; 4] = ["--model_name", "dummy", "--model_path", "/nonexistent"];

#[test]
fn every_boolean_takes_a_value() {
    let reported = |flag: &str, value: &str| {
        let flag = format!("--{flag}={value}");
        refused(&[&DUMMY[..], &["--port=1", &flag, "--metrics_list=a"]].concat())
    };
    let help = cli::ovms(["serve", "--help"]).text();
    let flags = help
        .lines()
        .filter_map(|line| line.strip_prefix("      --"));
    let (booleans, others): (Vec<&str>, Vec<&str>) = flags
        .filter(|flag| !flag.contains(" <"))
        .partition(|flag| flag.ends_with("[=<BOOL>]"));
    assert_eq!(others, ["check[=<DEPTH>]"], "flags without a value");
    for flag in booleans.iter().chain(&["check"]) {
        let flag = flag.trim_end_matches("[=<BOOL>]");
        let name = flag.replace('-', "_");
        let instead = [
            "list_models",
            "print_config",
            "add_to_config",
            "remove_from_config",
        ];
        if name == "demo" || instead.contains(&&*name) {
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
