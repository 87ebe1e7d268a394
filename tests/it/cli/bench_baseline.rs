//! `ovms bench --against`: what takes the place of the report that a run is compared with, and what does not.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::{
    bench::{ENDLESS, SHORT, bench, loaded, report},
    shared::served,
};
use crate::support::{
    Server, cli,
    infer::{GRPC, REST, interrupt, signal},
    repository,
};

/// Saves a report of a short load of a model; returns its place, in a folder that lives as long as the first.
fn base(server: &Server, args: &[&str]) -> (TempDir, String) {
    let folder = repository::folder();
    let saved = folder.path().join("base.json");
    let saved = saved.to_str().unwrap().to_owned();
    report(server, GRPC, &[args, &["--save", &saved]].concat());
    (folder, saved)
}

#[test]
fn an_interrupted_run_leaves_the_report_that_it_is_compared_with() {
    let server = served();
    let (_folder, saved) = &base(server, &["baseline"]);
    let kept = fs::read(saved).unwrap();
    let gate = ["--save", saved, "--against", saved, "--fail-if", "worse"];
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let child = loaded(server, GRPC, "baseline", &[&ENDLESS[..], &gate].concat());
        match name {
            "INT" => interrupt(&child),
            name => signal(&child, name),
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        let warning =
            format!("warning: {saved} is kept as it was, since this run was interrupted\n");
        assert!(text.contains(&warning), "{text}");
        assert_eq!(fs::read(saved).unwrap(), kept);
    }
    // One that was saved before is reported.
    let mut before: Value = serde_json::from_slice(&kept).unwrap();
    before["interrupted"] = true.into();
    fs::write(saved, before.to_string()).unwrap();
    let against = ["baseline", "--against", saved];
    let run = bench(server, GRPC, &[&against[..], &SHORT].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let warning = format!(
        "warning: {saved} (`--against`) is from an interrupted run and may have few windows; `--save {saved}` \
             without `--against` replaces it\n"
    );
    assert!(run.stderr.contains(&warning), "{}", run.stderr);
}

#[test]
fn levels_that_were_not_measured_do_not_pass() {
    let server = Server::shared("dummy");
    let two = ["dummy", "--concurrency=1,2"];
    let (_folder, saved) = &base(server, &two);
    let kept = fs::read(saved).unwrap();
    let late = [&two[..], &SHORT, &["--max-time=150ms"]].concat();
    let run = bench(
        server,
        GRPC,
        &[&late[..], &["--fail-if", "errors>0"]].concat(),
    );
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let finding = "error: 1 finding of `--fail-if`\n  concurrency 2 was not measured, so its conditions are unknown\n";
    assert!(run.stderr.ends_with(finding), "{}", run.stderr);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
    // A part of the levels is no base for all of them.
    let same = ["--save", saved, "--against", saved];
    let run = bench(server, GRPC, &[&late[..], &same].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let warning = "is kept as it was, since this run has not measured all levels\n";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    assert_eq!(fs::read(saved).unwrap(), kept);
}

#[test]
fn the_first_run_makes_the_report_and_its_folder() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let saved = folder.path().join("a/b/base.json");
    let saved = saved.to_str().unwrap();
    let gate = ["dummy", "--save", saved, "--against", saved];
    let run = bench(server, GRPC, &[&gate[..], &SHORT].concat());
    let said = run
        .failure()
        .replace(folder.path().to_str().unwrap(), "DIR");
    insta::assert_snapshot!(said, @"
    exit 1
    error: cannot read DIR/a/b/base.json
      caused by: No such file or directory (os error 2)
    hint: the first run makes it: `--save DIR/a/b/base.json` without `--against`
    ");
    assert!(!folder.path().join("a").exists());
    report(server, GRPC, &gate[..3]);
    assert!(fs::metadata(saved).unwrap().is_file());
    let below = format!("{saved}/x/y.json");
    let run = bench(server, GRPC, &["dummy", "--save", &below]);
    let said = run
        .failure()
        .replace(folder.path().to_str().unwrap(), "DIR");
    insta::assert_snapshot!(said, @"
    exit 1
    error: cannot write DIR/a/b/base.json/x/y.json
      caused by: Not a directory (os error 20)
    ");
}

#[test]
fn lines_of_levels_leave_the_comparison_to_stderr() {
    let server = Server::shared("dummy");
    let (_folder, saved) = &base(server, &["dummy"]);
    let csv = ["dummy", "--output=csv", "--against", saved];
    let run = bench(server, GRPC, &[&csv[..], &SHORT[..4]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.text().lines().count(), 2, "{}", run.text());
    for begin in ["level          metric ", "concurrency 1  p99 "] {
        let mut lines = run.stderr.lines();
        assert!(lines.any(|it| it.starts_with(begin)), "{}", run.stderr);
    }
}

#[test]
fn a_report_is_no_file_of_another_form() {
    let server = Server::shared("dummy");
    let said = |file: &str| bench(server, GRPC, &["dummy", "-o", file]).failure();
    insta::assert_snapshot!(said("r.csv"), @"
    exit 64
    error: cannot save to r.csv: `--save` writes JSON, for `--against`
    hint: `--output csv > r.csv` writes a line for each level
    ");
    insta::assert_snapshot!(said("r.html"), @"
    exit 64
    error: cannot save to r.html: `--save` writes JSON, for `--against`
    hint: `--html r.html` writes a page
    ");
    insta::assert_snapshot!(said("-"), @"
    exit 64
    error: cannot save to -: `--save` writes JSON, for `--against`
    hint: `--output json` writes the report to stdout
    ");
    let page = |file: &str| {
        let flags = ["dummy", "-o", "report", "--html", file];
        bench(server, GRPC, &flags).failure()
    };
    insta::assert_snapshot!(page("r.csv"), @"
    exit 64
    error: cannot write r.csv: `--html` writes a page
    hint: `--output csv > r.csv` writes a line for each level
    ");
    insta::assert_snapshot!(page("r.JSON"), @"
    exit 64
    error: cannot write r.JSON: `--html` writes a page
    hint: `--output json > r.JSON` writes the report as JSON
    ");
    insta::assert_snapshot!(page("-"), @"
    exit 64
    error: cannot write -: `--html` writes a page
    hint: name a file for it, as `--html report.html`
    ");
    insta::assert_snapshot!(page("./report"), @"
    exit 64
    error: cannot write ./report: `--html` writes a page, and it is a report
    hint: name another file for the page
    ");
    let (_folder, saved) = &base(server, &["dummy"]);
    let kept = fs::read(saved).unwrap();
    let flags = ["dummy", "--against", saved, "--html", saved];
    let run = bench(server, GRPC, &flags);
    assert_eq!(run.code, Some(64), "{}", run.stderr);
    assert_eq!(fs::read(saved).unwrap(), kept);
}

#[test]
fn files_of_requests_may_begin_with_a_byte_order_mark() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let path = folder.path().join("mix.jsonl");
    fs::write(&path, "\u{feff}{\"b\": [0,1,2,3,4,5,6,7,8,9]}\n").unwrap();
    report(
        server,
        GRPC,
        &["dummy", "--requests", path.to_str().unwrap()],
    );
}

#[test]
fn two_saved_reports_are_compared_without_a_server() {
    let server = Server::shared("dummy");
    let (folder, before) = &base(server, &["dummy"]);
    let after = folder.path().join("after.json");
    let mut slow: Value = serde_json::from_slice(&fs::read(before).unwrap()).unwrap();
    assert_eq!(slow["served"]["versions"], serde_json::json!(["1"]));
    assert_eq!(slow["flags"]["window_seconds"], 0.1);
    slow["levels"][0]["stable"] = true.into();
    let mut fast = slow.clone();
    for (report, rate) in [(&mut slow, 1), (&mut fast, 1000)] {
        for window in report["levels"][0]["windows"].as_array_mut().unwrap() {
            window["rate"] = rate.into();
        }
    }
    fs::write(&after, slow.to_string()).unwrap();
    fs::write(before, fast.to_string()).unwrap();
    let after = after.to_str().unwrap();
    let run = |flags: &[&str]| {
        let mut command = cli::command();
        let args = ["bench", "--url=127.0.0.1:1", "--against", before, after];
        cli::run(command.args(args).args(flags))
    };
    let missing = cli::run(cli::command().args([
        "bench",
        "--url=127.0.0.1:1",
        "--against",
        before,
        "missing.json",
    ]));
    assert!(
        missing
            .stderr
            .starts_with("error: cannot read missing.json\n"),
        "{}",
        missing.stderr
    );
    let table = run(&[]);
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let text = table.text();
    assert!(text.starts_with("level          metric"), "{text}");
    assert!(text.lines().nth(1).unwrap().ends_with("worse"), "{text}");
    assert!(
        table
            .stderr
            .starts_with("note: intervals cover variation within a run,"),
        "{}",
        table.stderr
    );
    let json = run(&["--output=json", "--fail-if=worse>5%"]);
    assert_eq!(json.code, Some(1), "{}", json.stderr);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["comparison"][0]["unstable"], false);
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    assert_eq!(report["differs"], serde_json::json!([]));
    let saved = run(&["--save=other.json"]);
    assert_eq!(saved.code, Some(64), "{}", saved.stderr);
    for report in [before.as_str(), after] {
        let kept = fs::read(report).unwrap();
        let page = run(&["--html", report]);
        assert_eq!(page.code, Some(64), "{}", page.stderr);
        assert!(
            page.stderr.contains("and it is a report"),
            "{}",
            page.stderr
        );
        assert_eq!(fs::read(report).unwrap(), kept);
    }
    fs::write(
        after,
        fast.to_string()
            .replace("\"concurrency\":1", "\"concurrency\":9"),
    )
    .unwrap();
    let other = run(&[]);
    assert!(
        other.stderr.contains("have no level in common"),
        "{}",
        other.stderr
    );
}

#[test]
fn a_gate_by_a_report_of_other_work_does_not_pass() {
    let server = Server::shared("dummy");
    let (folder, saved) = &base(server, &["dummy"]);
    let mut other: Value = serde_json::from_slice(&fs::read(saved).unwrap()).unwrap();
    other["model"] = "resnet".into();
    let before = folder.path().join("other.json");
    fs::write(&before, other.to_string()).unwrap();
    let before = before.to_str().unwrap();
    let shown = |text: &str| text.replace(folder.path().to_str().unwrap(), "DIR");
    let gate = ["--against", before, "--fail-if=worse>5%"];
    // Nothing is measured for it, and a saved report is not compared.
    let live = bench(server, GRPC, &[&["dummy"], &gate[..], &ENDLESS].concat());
    let of_files = cli::run(cli::command().args(["bench", saved]).args(gate));
    for run in [&live, &of_files] {
        assert_eq!(run.text(), "");
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&run.failure()), @"
            exit 1
            error: `--fail-if worse` cannot compare with DIR/other.json, which measured a different workload: model dummy here, resnet there
            hint: `--against` takes a report of the same requests, which `--save FILE` writes; without `--fail-if worse` they are compared all the same
            ");
        }
    }
    let rest = ["dummy", "--against", saved, "--fail-if=worse"];
    let run = bench(server, REST, &[&rest[..], &ENDLESS].concat());
    insta::assert_snapshot!(shown(&run.failure()), @"
    exit 1
    error: `--fail-if worse` cannot compare with DIR/base.json, which measured a different workload: api kserve-rest here, kserve-grpc there
    hint: `--against` takes a report of the same requests, which `--save FILE` writes; without `--fail-if worse` they are compared all the same
    ");
    // Limits are checked against the run alone.
    let limit = ["dummy", "--against", before, "--fail-if=p99>3600s"];
    let run = bench(server, GRPC, &[&limit[..], &SHORT].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let warning = "warning: the report of `--against` measured a different workload: model dummy here, resnet there\n";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn settings_that_differ_are_named() {
    let server = Server::shared("dummy");
    let (_folder, saved) = &base(server, &["dummy"]);
    let flags =
        "--interval=150ms --windows=3 --max-trials=3 --warmup=3 --output=json --stability=1000";
    let against = ["dummy", "--against", saved];
    let flags: Vec<&str> = flags.split(' ').collect();
    let run = bench(server, GRPC, &[&against[..], &flags].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let line = "note: the report of `--against` has other settings: interval 150ms here, 100ms there; windows 3 \
                here, 2 there; max-trials 3 here, 2 there; warmup 3 here, 2 there\n";
    assert!(run.stderr.contains(line), "{}", run.stderr);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(
        report["differs"][0],
        serde_json::json!({"setting": "interval", "before": "100ms", "after": "150ms"})
    );
    assert_eq!(report["differs"].as_array().unwrap().len(), 4, "{report}");
}
