//! `ovms bench`: levels over every API, sequences, streams, and what ends a run.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
};

use serde_json::Value;

use super::shared::{counted, loading, served};
use crate::support::{
    Server,
    cli::{self, Run, words},
    fixture,
    generator::Generator,
    graphs::examples,
    infer::{GRPC, REST, TFS_GRPC, interrupt, port, signal},
    model,
    pipelines::Config,
    repository,
    steps::ALL,
};

/// Flags of runs that are as short as can be.
pub(super) const SHORT: [&str; 7] = [
    "--interval=100ms",
    "--windows=2",
    "--max-trials=2",
    "--warmup=2",
    "--output",
    "json",
    // Other tests run beside these.
    "--stability=1000",
];

pub(super) const TEN: &str = "b=[0,1,2,3,4,5,6,7,8,9]";

/// Makes a command for a port of this machine.
fn at(port: u16, api: &str) -> Command {
    let mut command = cli::command();
    command
        .args(["bench", "--api", api, "--url"])
        .arg(format!("127.0.0.1:{port}"));
    command
}

/// Runs a command for a server to its end.
pub(super) fn bench(server: &Server, api: &str, args: &[&str]) -> Run {
    cli::run(at(port(server, api), api).args(args))
}

/// Runs a short command that succeeds, and returns its report.
pub(super) fn report(server: &Server, api: &str, args: &[&str]) -> Value {
    let run = bench(server, api, &[args, &SHORT[..]].concat());
    assert_eq!(run.code, Some(0), "{api} {args:?}: {}", run.stderr);
    serde_json::from_slice(&run.stdout).expect("the output is one JSON object")
}

/// Panics unless a level has answers, no errors, and figures that go with each other.
pub(super) fn is_measured(level: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{level}"));
    assert!(number(&level["ok"]) > 0.0, "{level}");
    assert_eq!(
        (&level["failed"], level["errors"].as_array().map(Vec::len)),
        (&0.into(), Some(0))
    );
    let (rate, seconds) = (number(&level["rate"]), number(&level["seconds"]));
    assert!(
        (rate * seconds - number(&level["ok"])).abs() < 0.01,
        "{level}"
    );
    let latency = &level["latency_us"];
    let figures = ["p50", "p90", "p95", "p99", "max"].map(|name| number(&latency[name]));
    assert!(figures.is_sorted() && figures[0] > 0.0, "{level}");
    let bins = level["histogram"].as_array().unwrap();
    let counted: u64 = bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
    assert_eq!(Some(counted), level["ok"].as_u64(), "{level}");
    assert_eq!(level["windows"].as_array().unwrap().len(), 2, "{level}");
    assert!(number(&level["client_cpu_us"]) > 0.0, "{level}");
}

#[test]
fn levels_are_measured_over_every_api() {
    let server = Server::shared("dummy");
    for api in ALL {
        let report = report(server, api, &words("dummy --concurrency 1,20"));
        assert_eq!(
            (&report["model"], &report["api"]),
            (&"dummy".into(), &api.into())
        );
        let levels = report["levels"].as_array().unwrap();
        let lanes: Vec<_> = levels.iter().map(|it| it["concurrency"].as_u64()).collect();
        assert_eq!(lanes, [Some(1), Some(20)]);
        for level in levels {
            is_measured(level);
            let split = &level["server"];
            let part = |name: &str| split[name].as_f64().unwrap();
            assert!(part("requests") >= level["ok"].as_f64().unwrap(), "{level}");
            let parts = part("queue_us") + part("input_us") + part("infer_us") + part("output_us");
            assert!(
                part("infer_us") > 0.0 && parts <= part("total_us") * 1.01,
                "{level}"
            );
        }
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Server::shared("dummy");
    for api in ALL {
        let flags = words("dummy --rate 200 --poisson --random --seed 5");
        let report = report(server, api, &flags);
        let level = &report["levels"][0];
        is_measured(level);
        assert_eq!(
            (&level["target_rate"], &report["seed"]),
            (&200.0.into(), &5.into())
        );
        // 40 requests are due, with the spread of their distribution.
        let ok = level["ok"].as_u64().unwrap();
        assert!((15..=80).contains(&ok), "{level}");
        assert!(level["send_delay_us"]["p50"].as_f64().is_some(), "{level}");
    }
}

#[test]
fn sequences_begin_and_end_over_every_api() {
    let server = served();
    for api in ALL {
        let flags = words("measured_total -i x=[1,2,3,4] --sequence 3 --concurrency 3");
        is_measured(&report(server, api, &flags)["levels"][0]);
        let flags = words("measured_total -i x=[1,2,3,4] --sequence 5 --rate 100");
        is_measured(&report(server, api, &flags)["levels"][0]);
        let labels = r#"name="measured_total",version="1"}"#;
        let count = |name: &str| counted(server, &format!("ovms_sequences_{name}"), labels);
        let [active, started, ended, evicted] =
            ["active", "started", "ended", "evicted"].map(count);
        assert!(active == 0 && evicted == 0, "{api}: {active} {evicted}");
        assert!(started > 0 && started == ended, "{api}: {started} {ended}");
    }
    let refused = bench(server, TFS_GRPC, &words("measured_total --sequence 1"));
    assert_eq!(refused.code, Some(64));
    assert!(
        refused.stderr.contains("`--sequence 1` does not fit"),
        "{}",
        refused.stderr
    );
    let alone = bench(server, GRPC, &words("measured_total"));
    assert_eq!(alone.code, Some(1), "{}", alone.stderr);
    assert!(
        alone.stderr.contains("Sequence ID has not been provided")
            && alone.stderr.contains("`ovms bench MODEL --sequence N`")
            && !alone.stderr.contains("--start"),
        "{}",
        alone.stderr
    );
}

#[test]
fn a_run_without_figures_fails() {
    let rare = words("dummy --rate 0.2 --interval 200ms --max-trials 5 --warmup 0");
    let run = bench(Server::shared("dummy"), GRPC, &rare);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    for text in [
        "note: no request was due in the last windows at rate 0.200/s: `--interval` must be longer than the 5s between two \
         requests\n",
        "error: nothing was measured: no request was answered within the windows that count\nhint: a longer `--interval`",
    ] {
        assert!(run.stderr.contains(text), "{}", run.stderr);
    }
}

#[test]
fn an_array_with_an_axis_of_steps_gives_the_steps() {
    let frames = fixture("sequences/vad_frames.npy");
    let flags = format!(
        "vad_stateful -i @{} --sequence 5 --concurrency 2",
        frames.display()
    );
    is_measured(&report(served(), GRPC, &words(&flags))["levels"][0]);
}

#[test]
fn streams_have_an_answer_for_each_request() {
    let server = Server::shared("dummy");
    for pace in ["--concurrency=4", "--rate=100"] {
        let report = report(server, GRPC, &["dummy", "--stream", pace]);
        is_measured(&report["levels"][0]);
        assert_eq!(report["requests"], "streams");
    }
    // Over REST each has a stream of events.
    let events = report(server, REST, &["dummy", "--stream", "--concurrency=4"]);
    is_measured(&events["levels"][0]);
    let said = |api: &str, args: &[&str]| {
        bench(server, api, &[&["dummy", "--stream"], args].concat()).failure()
    };
    insta::assert_snapshot!(said(TFS_GRPC, &[]), @"
    exit 64
    error: `--stream` does not fit `--api tfs-grpc`
    hint: kserve-grpc and kserve-rest have streams
    ");
    let fewer = said(GRPC, &["--responses", "2", "--timeout", "1s"]);
    assert!(
        fewer.starts_with("exit 1\nerror: 1 of 2 responses came from 127.0.0.1:")
            && fewer.contains("within 1s\nhint: a request seems to have fewer responses: write `--responses 1`, or"),
        "{fewer}"
    );
    insta::assert_snapshot!(said(REST, &["--responses", "2"]), @"
    exit 64
    error: `--responses 2` does not fit `--api kserve-rest`
    hint: each request has its own stream there, which the server ends
    ");
    let wrong = said(REST, &["--shape", "b:3,10"]);
    assert!(
        wrong.contains("400 Bad Request: Invalid input batch size"),
        "{wrong}"
    );
}

#[test]
fn events_of_a_graph_are_counted_and_a_generator_without_its_end_has_a_hint() {
    let server = examples();
    let flags = ["streamer", "-i", "prompt=the model", "--stream"];
    let level = &report(server, REST, &flags)["levels"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    let responses = number(&level["responses_per_second"]) / number(&level["rate"]);
    assert!(responses > 2.0, "{level}");
    let (first, last) = (&level["first_response_us"], &level["latency_us"]);
    assert!(number(&first["p50"]) <= number(&last["p50"]), "{level}");
    let said = bench(server, GRPC, &[&flags[..], &SHORT].concat()).stderr;
    assert!(said.contains("use `--responses end`"), "{said}");
    assert!(!said.contains("no server answers"), "{said}");
}

#[test]
fn generators_are_measured_to_their_first_response_and_to_the_end() {
    let server = Generator::start();
    for responses in ["end", "5"] {
        let mut command = at(server.port, GRPC);
        command.args(["graph", "--stream", "--param", "count=5", "-i", "text=x"]);
        let run = cli::run(command.args(["--responses", responses]).args(SHORT));
        assert_eq!(run.code, Some(0), "{responses}: {}", run.stderr);
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let level = &report["levels"][0];
        is_measured(level);
        let number = |value: &Value| value.as_f64().unwrap();
        let (first, last) = (&level["first_response_us"], &level["latency_us"]);
        assert!(number(&first["p50"]) <= number(&last["p50"]), "{level}");
        let responses = number(&level["responses_per_second"]) / number(&level["rate"]);
        assert!((responses - 5.0).abs() < 0.01, "{level}");
        // It has no statistics.
        assert_eq!(level["server"], Value::Null);
    }
}

#[test]
fn a_protocol_is_no_input() {
    let server = Server::shared("dummy");
    let said = |input: &str| bench(server, GRPC, &["dummy", "-i", input]).failure();
    insta::assert_snapshot!(said("http"), @"
    exit 64
    error: `-i http` would be the value of an input here
    hint: write `--api kserve-rest` in place of `-i` of `perf_analyzer`, or `-i INPUT=http` for that text
    ");
    assert!(said("gRPC").contains("write `--api kserve-grpc`"));
    assert!(!said("b=http").contains("--api"));
}

#[test]
fn pipelines_are_servables_like_models() {
    for api in ALL {
        is_measured(&report(served(), api, &["chain", "--concurrency=2"])["levels"][0]);
    }
}

#[test]
fn errors_before_the_load_are_reported_as_they_are() {
    let server = Server::shared("dummy");
    let said = |args: &[&str]| {
        let run = bench(server, GRPC, args);
        assert_eq!(run.text(), "", "{args:?}");
        run.failure()
    };
    insta::assert_snapshot!(said(&["dumy"]), @"
    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`
    ");
    insta::assert_snapshot!(said(&["dummy", "--shape", "b:3,10"]), @"
    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input batch size - Expected: 1; Actual: 3; input name: b
    hint: send as many at once, in several requests, or serve the model with `--batch-size -1`, which takes any
    ");
    insta::assert_snapshot!(said(&["dummy", "--shape", "c:1,10"]), @"
    exit 64
    error: the model has no input `c`
    hint: the inputs are `b`
    ");
    insta::assert_snapshot!(said(&["dummy", "--concurrency", "1.5"]), @"
    exit 64
    error: found 1.5 requests at once, expected whole numbers up to 65535
    hint: `--rate` takes fractions
    ");
    insta::assert_snapshot!(said(&["dummy", "--concurrency", "1:999999999999"]), @"
    exit 64
    error: found 65536 requests at once in `1:999999999999`, expected whole numbers up to 65535
    hint: `--rate` takes fractions
    ");
    let wrong = said(&["dummy", "--fail-if", "worse<5%"]);
    assert!(
        wrong.contains("found `worse<5%`, expected `worse`, or `worse` by more than a percentage"),
        "{wrong}"
    );
    insta::assert_snapshot!(said(&["dummy", "--fail-if", "worse"]), @"
    exit 64
    error: `--fail-if worse` needs `--against`
    hint: `--save FILE` writes a report to compare with
    ");
    let absent = cli::run(at(1, GRPC).arg("dummy"));
    assert_eq!(absent.code, Some(69));
    assert!(
        absent
            .stderr
            .starts_with("error: no server answers at 127.0.0.1:1\n"),
        "{}",
        absent.stderr
    );
}

/// Flags of a load that goes on for minutes.
pub(super) const ENDLESS: [&str; 4] = [
    "--windows=900",
    "--max-trials=900",
    "--interval=100ms",
    "--output=json",
];

/// Starts a load of a model that no other test measures, and waits until it goes on.
pub(super) fn loaded(server: &Server, api: &str, model: &str, args: &[&str]) -> Child {
    let mut command = at(port(server, api), api);
    loading(server, model, command.arg(model).args(args))
}

#[test]
fn ctrl_c_reports_what_there_is() {
    for api in ALL {
        let args = [&ENDLESS[..], &["--concurrency=3,9"]].concat();
        let child = loaded(served(), api, "interrupted", &args);
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["interrupted"], true);
        let levels = report["levels"].as_array().unwrap();
        assert_eq!(
            (levels.len(), &levels[0]["end"]),
            (1, &"interrupted".into())
        );
        assert!(levels[0]["ok"].as_u64().unwrap() > 0, "{report}");
        let total = &levels[0]["total"];
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text, format!("error: interrupted after {total} requests\n"));
    }
}

#[test]
fn a_termination_writes_the_reports_that_were_asked_for() {
    let folder = repository::folder();
    let path = |name: &str| folder.path().join(name);
    let (save, html) = (path("report.json"), path("report.html"));
    let files = [
        "--save",
        save.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ];
    let args = [&ENDLESS[..], &files].concat();
    let child = loaded(served(), GRPC, "terminated", &args);
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["levels"][0]["end"], "interrupted");
    assert!(report["levels"][0]["ok"].as_u64().unwrap() > 0, "{report}");
    let total = &report["levels"][0]["total"];
    assert_eq!(text, format!("error: terminated after {total} requests\n"));
    let saved: Value = serde_json::from_slice(&fs::read(&save).unwrap()).unwrap();
    assert_eq!(saved, report);
    assert!(fs::read_to_string(&html).unwrap().contains("interrupted"));
}

#[test]
fn requests_that_fail_under_load_are_counted_by_kind() {
    let mut config = Config::of(&[]);
    for api in ALL {
        config.model(api, &model("dummy"));
    }
    let mut server = config.serve_with(&["--metrics_enable"]);
    // Five windows with nothing but errors end a run; before, no five agree within a percent.
    let args = words(
        "--output=json --concurrency=2 --interval=500ms --windows=5 --stability=1 --max-trials=900",
    );
    let loads = ALL.map(|api| (api, loaded(&server, api, api, &args)));
    server.signal("KILL");
    server.wait();
    for (api, child) in loads {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{api}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.contains(" requests failed\nhint: `--allow-errors`"),
            "{text}"
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let level = &report["levels"][0];
        assert!(level["failed"].as_u64().unwrap() > 0, "{api}: {level}");
        let error = level["errors"][0]["error"].as_str().unwrap();
        assert!(
            error.starts_with("no server answers at 127.0.0.1:"),
            "{api}: {error}"
        );
    }
}

#[test]
fn conditions_decide_over_the_exit_code() {
    let server = Server::shared("dummy");
    let short = &SHORT[..4];
    let run = |args: &[&str]| bench(server, GRPC, &[&["dummy"], short, args].concat());
    let held = run(&[
        "--fail-if=p50>1us",
        "--fail-if=rate<1",
        "--fail-if=errors>0",
    ]);
    assert_eq!(held.code, Some(1), "{}", held.stderr);
    let said = held
        .stderr
        .lines()
        .filter(|line| !line.starts_with("note: "));
    let said: Vec<&str> = said.collect();
    assert_eq!(said[0], "error: 1 finding of `--fail-if`");
    let p50 = said[1]
        .strip_prefix("  p50 is ")
        .and_then(|rest| rest.strip_suffix(" ms at concurrency 1, which is above 0.001 ms"))
        .unwrap_or_else(|| panic!("{said:?}"));
    assert!(p50.parse::<f64>().unwrap() > 0.001, "{said:?}");
    // It is the figure of the table.
    assert!(held.text().contains(&format!(" {p50} ")), "{}", held.text());
    let passed = run(&["--fail-if=p50>10s", "--fail-if=rate<1"]);
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
}

#[test]
fn reports_are_saved_compared_and_drawn() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (before, page) = (file("before.json"), file("report.html"));
    report(
        server,
        GRPC,
        &["dummy", "--concurrency=1,2", "--save", &before],
    );
    let args = [
        "dummy",
        "--concurrency=2,4",
        "--against",
        &before,
        "--html",
        &page,
    ];
    let compared = report(server, GRPC, &args);
    let comparison = compared["comparison"].as_array().unwrap();
    // Only the level that both have.
    assert_eq!(
        (comparison.len(), &comparison[0]["concurrency"]),
        (1, &2.into())
    );
    let metrics = comparison[0]["metrics"].as_array().unwrap();
    let names: Vec<_> = metrics
        .iter()
        .map(|it| it["metric"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["rate", "p50", "p90", "p95", "p99"]);
    for metric in metrics {
        let interval = metric["interval"].as_array().unwrap();
        let change = metric["change"].as_f64().unwrap();
        assert!(interval[0].as_f64().unwrap() <= change && change <= interval[1].as_f64().unwrap());
    }
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.starts_with("<!DOCTYPE html>") && html.contains("<svg"),
        "{html}"
    );
    assert!(!html.contains("<script") && !html.contains("src="));

    let csv = bench(
        server,
        REST,
        &[
            &["dummy", "--concurrency=1,2"],
            &SHORT[..4],
            &["--output=csv"],
        ]
        .concat(),
    );
    assert_eq!(csv.code, Some(0), "{}", csv.stderr);
    let text = csv.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].starts_with("concurrency,target_rate,rate,"),
        "{text}"
    );
    let cells = |line: &str| line.split(',').count();
    assert!(
        lines.iter().all(|line| cells(line) == cells(lines[0])),
        "{text}"
    );

    fs::write(Path::new(&before), "{}").unwrap();
    let refused = bench(server, GRPC, &["dummy", "--against", &before]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("is not a report of `ovms bench`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_duration_is_one_window() {
    let server = Server::shared("dummy");
    let timed = bench(
        server,
        GRPC,
        &words("dummy --duration 300ms --warmup 2 --concurrency 1,2 --output json"),
    );
    assert_eq!(timed.code, Some(0), "{}", timed.stderr);
    let report: Value = serde_json::from_str(&timed.text()).unwrap();
    let levels = report["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2);
    for level in levels {
        let seconds = level["seconds"].as_f64().unwrap();
        assert!((0.25..3.0).contains(&seconds), "{level}");
        assert!(level["ok"].as_u64().unwrap() > 0, "{level}");
        // Of one window it is unknown whether it is stable.
        assert_eq!(
            (&level["end"], &level["stable"]),
            (&"limit".into(), &Value::Null)
        );
    }
    let short = "dummy --duration 100ms --fail-if unstable";
    let run = bench(server, GRPC, &words(short));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.text().lines().nth(1).unwrap().ends_with("one window"),
        "{}",
        run.text()
    );
    let unknown = "whether concurrency 1 is stable is unknown: it has one window";
    assert!(run.stderr.contains(unknown), "{}", run.stderr);
    let refused = bench(server, GRPC, &words("dummy --duration 1 --windows 2"));
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
}

#[test]
fn a_report_is_a_table_with_a_histogram() {
    let server = Server::shared("dummy");
    let run = bench(server, GRPC, &[&["dummy", "-i", TEN], &SHORT[..4]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = run.text();
    let lines: Vec<&str> = text.lines().collect();
    let titles: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(titles[..4], ["concurrency", "ok/s", "p50", "ms"], "{text}");
    assert_eq!(lines[1].split_whitespace().next(), Some("1"), "{text}");
    assert_eq!(
        (lines[2], lines[3]),
        ("", "Latencies at concurrency 1:"),
        "{text}"
    );
    assert!(
        lines[4..].iter().all(|line| line.starts_with("  < ")),
        "{text}"
    );
}

#[test]
fn the_time_of_all_levels_bounds_their_warm_ups() {
    let server = Server::shared("dummy");
    let flags = ["dummy", "--max-time=300ms", "--concurrency=1,2"];
    // As many as take seconds.
    let run = bench(server, GRPC, &[&flags[..], &["--warmup=50000"]].concat());
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    warning: 2 levels not measured: `--max-time` of 300ms has passed
    error: nothing was measured: `--max-time` passed within the warm-up
    hint: `--max-time` gives a run more time, and `--warmup` has the number of requests before it
    ");
}
