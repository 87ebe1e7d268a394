//! Dynamic batching: requests that wait run together, and are answered as if each had run alone.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant},
};

use ovms::proto::kserve::{
    InferParameter, ModelConfig, ModelConfigRequest, ModelInferRequest, ModelStatistics,
    ModelStatisticsRequest, infer_parameter::ParameterChoice,
};
use serde_json::{Value, json};

use crate::support::{
    Server, cli,
    grpc::{Call, Grpc, to_floats},
    http::get,
    infer, model,
    pipelines::{Config, dl, request},
};

/// Precision of all CPUs, one infer request, and few threads.
const PRECISE: [&str; 4] = [
    "--nireq",
    "1",
    "--plugin_config",
    r#"{"INFERENCE_PRECISION_HINT":"f32"}"#,
];

pub(super) fn serve(name: &str, batching: &str) -> Server {
    serve_with(name, batching, &[])
}

pub(super) fn serve_with(name: &str, batching: &str, flags: &[&str]) -> Server {
    let batching = ["--dynamic_batching", batching];
    Server::start_with(name, &[&PRECISE[..], &batching, flags].concat())
}

/// Returns the models of the shared server: name, fixture, and settings beside one infer request. Each is asked by one
/// test.
fn models() -> Vec<(&'static str, &'static str, Value)> {
    let up_to = |rows: u32| json!({"dynamic_batching": {"max_batch": rows}});
    let within = |rows: u32, delay: u32| json!({"dynamic_batching": {"max_batch": rows, "max_delay_us": delay}});
    let limited = |rows: Value, bytes: Value| json!({"dynamic_batching": {"max_batch": rows, "max_bytes": bytes}});
    let auto = || json!({"dynamic_batching": "auto"});
    let also = |mut settings: Value, key: &str, value: Value| {
        settings[key] = value;
        settings
    };
    vec![
        ("plain_rows", "two_outputs", json!({})),
        ("rows", "two_outputs", up_to(8)),
        ("of_shape", "dummy", json!({"shape": "(3,10)"})),
        ("of_batch", "dummy", json!({"batch_size": 3})),
        ("perceptron", "perceptron", up_to(8)),
        ("reported", "perceptron", within(8, 250)),
        ("shapes", "passthrough_f32", within(4, 400_000)),
        (
            "two_slots",
            "passthrough_f32",
            also(within(4, 400_000), "nireq", json!(2)),
        ),
        ("gives_way", "passthrough_f32", within(4, 1_000_000)),
        ("several", "passthrough_f32", within(4, 400_000)),
        ("left", "passthrough_f32", within(4, 1_000_000)),
        ("full", "passthrough_f32", within(2, 1_000_000)),
        ("of_parts", "perceptron", up_to(4)),
        ("of_clients", "passthrough_f32", within(4, 1_000_000)),
        ("waits", "passthrough_f32", within(2, 200_000)),
        ("columns", "columns", up_to(2)),
        ("cut", "cut", also(up_to(2), "shape", json!("auto"))),
        (
            "timed_out",
            "dummy",
            also(up_to(2), "inference_timeout_ms", json!(10_000)),
        ),
        ("strings", "passthrough_string", up_to(2)),
        ("row_sums", "row_sums", within(2, 400_000)),
        ("bag", "bag", within(4, 300_000)),
        ("slow_bag", "slow_bag", within(2, 1_000_000)),
        ("centered", "centered", up_to(4)),
        ("centered_auto", "centered", auto()),
        ("picky", "picky", up_to(4)),
        ("picky_auto", "picky", auto()),
        ("small", "perceptron", limited(json!(8), json!("1M"))),
        (
            "small_auto",
            "perceptron",
            limited(json!("auto"), json!(1 << 20)),
        ),
        ("most_of_any", "passthrough_f32", up_to(4)),
        (
            "most_of_six",
            "passthrough_f32",
            also(up_to(4), "shape", json!("(1:6,2)")),
        ),
        ("most_of_image", "image_fixed", up_to(4)),
        ("unpadded", "unpadded", within(4, 300_000)),
        ("timed", "passthrough_f32", within(2, 300_000)),
        (
            "large_rows",
            "passthrough_f32",
            json!({"dynamic_batching": {"max_batch": 16, "max_delay_us": 1_000_000, "max_bytes": "6M"}}),
        ),
    ]
}

/// The server of [`models`], with metrics and pipelines `parts` and `clients`. Batches of all have memory on any machine.
pub(super) static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    for (name, fixture, settings) in models() {
        let entry = config.model(name, &model(fixture));
        entry["nireq"] = json!(1);
        for (key, value) in settings.as_object().unwrap() {
            entry[key] = value.clone();
        }
    }
    let nodes = [dl("n", "of_parts", "x=request.x", "y=y")];
    config.pipeline("parts", "x", &nodes, "out=n.y")["demultiply_count"] = json!(-1);
    let nodes = [dl("n", "of_clients", "in=request.in", "out=out")];
    config.pipeline("clients", "in", &nodes, "out=n.out");
    let nodes = [dl(
        "n",
        "row_sums",
        "b=request.b a=request.a",
        "sum_a=a sum_b=b",
    )];
    config.pipeline("sums", "a b", &nodes, "sum_a=n.a sum_b=n.b");
    config.serve_kept(&["--metrics_enable", "--max_bytes_in_flight", "16G"])
});

/// Makes a request to `perceptron`, under any name, of numbers that depend on its own.
fn numbered(name: &str, number: u8) -> ModelInferRequest {
    let x: Vec<f32> = (0..16).map(|at| f32::from(number + at).sin()).collect();
    request(name, &[("x", &[1, 16], &x)])
}

/// Makes a request to `passthrough_f32`, under any name.
pub(super) fn row(name: &str, values: &[f32]) -> ModelInferRequest {
    let width = i64::try_from(values.len()).unwrap();
    request(name, &[("in", &[1, width], values)])
}

pub(super) fn statistics(grpc: &Grpc, name: &str) -> ModelStatistics {
    let request = ModelStatisticsRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let answer = grpc.wait(async { grpc.client.clone().model_statistics(request).await });
    answer.unwrap().model_stats.remove(0)
}

/// Returns the sizes of the batches so far, with how many there were.
pub(super) fn sizes(grpc: &Grpc, name: &str) -> Vec<(u64, u64)> {
    let found = statistics(grpc, name);
    let all: u64 = found.batch_stats.iter().map(count).sum();
    assert_eq!(found.execution_count, all);
    let sizes = found.batch_stats.iter();
    sizes.map(|it| (it.batch_size, count(it))).collect()
}

fn count(batch: &ovms::proto::kserve::InferBatchStatistics) -> u64 {
    batch.compute_infer.map_or(0, |stage| stage.count)
}

pub(super) fn config(grpc: &Grpc, name: &str) -> ModelConfig {
    let request = ModelConfigRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let answer = grpc.wait(async { grpc.client.clone().model_config(request).await });
    answer.unwrap().config.unwrap()
}

pub(super) fn outputs(
    answer: Result<ovms::proto::kserve::ModelInferResponse, tonic::Status>,
) -> Vec<f32> {
    to_floats(&answer.unwrap().raw_output_contents[0])
}

fn are_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-3, "{found}, not {expected}");
    }
}

/// Makes a request of several rows to `two_outputs`, under any name.
fn rows(name: &str, rows: u8) -> ModelInferRequest {
    let values = vec![1.0; 4 * usize::from(rows)];
    request(name, &[("x", &[rows.into(), 4], &values)])
}

#[test]
fn statistics_count_rows_where_the_model_has_them() {
    let grpc = Grpc::connect(&SERVER);
    for (name, has_batches) in [("plain_rows", false), ("rows", true)] {
        for number in [1, 3, 9, 3] {
            grpc.answered(rows(name, number));
        }
        let found = statistics(&grpc, name);
        assert_eq!((found.inference_count, found.execution_count), (16, 4));
        let success = found.inference_stats.unwrap().success.unwrap();
        assert_eq!(success.count, 4);
        assert_eq!(sizes(&grpc, name), [(1, 1), (3, 2), (9, 1)]);
        let page = get(&SERVER, "/metrics").text();
        let sum = format!("ovms_batch_size_sum{{name=\"{name}\",version=\"1\"}} 16\n");
        assert_eq!(page.contains(&sum), has_batches, "{page}");
    }
    // Lists of numbers are no rows, nor is a first dimension of a fixed length; it is one by the setting.
    for (name, count) in [("of_shape", 1), ("of_batch", 3)] {
        grpc.answered(request(name, &[("b", &[3, 10], &[0.0; 30])]));
        assert_eq!(statistics(&grpc, name).inference_count, count, "{name}");
    }
}

#[test]
fn requests_that_wait_run_together_and_give_what_each_gives_alone() {
    const REQUESTS: u8 = 24;
    SERVER.wait_log_of("perceptron", "up to 8 rows run as one inference");
    let grpc = Grpc::connect(&SERVER);
    let numbered = |number| numbered("perceptron", number);
    let alone: Vec<_> = (0..REQUESTS)
        .map(|number| outputs(grpc.infer(numbered(number))))
        .collect();
    assert_eq!(sizes(&grpc, "perceptron"), [(1, u64::from(REQUESTS))]);
    let calls: Vec<Call<'_>> = (0..REQUESTS).map(|it| grpc.call(numbered(it))).collect();
    for (call, expected) in calls.into_iter().zip(&alone) {
        are_near(&outputs(call.wait()), expected);
    }
    let found = statistics(&grpc, "perceptron");
    assert_eq!(found.inference_count, 2 * u64::from(REQUESTS));
    assert!(
        found.execution_count < found.inference_count - 8,
        "{found:?}"
    );
    let sizes = sizes(&grpc, "perceptron");
    let rows: u64 = sizes.iter().map(|(size, count)| size * count).sum();
    assert_eq!(rows, found.inference_count);
    assert!(sizes.iter().all(|(size, _)| *size <= 8), "{sizes:?}");
    let page = get(&SERVER, "/metrics").text();
    let sample = |suffix: &str, value: u64| {
        let line = format!("ovms_batch_size{suffix} {value}\n");
        assert!(page.contains(&line), "{line}{page}");
    };
    let labels = r#"name="perceptron",version="1""#;
    sample(&format!("_count{{{labels}}}"), found.execution_count);
    sample(&format!("_sum{{{labels}}}"), found.inference_count);
    sample(
        &format!("_bucket{{{labels},le=\"8\"}}"),
        found.execution_count,
    );
}

#[test]
fn batches_are_reported_in_tritons_form() {
    let config = config(&Grpc::connect(&SERVER), "reported");
    assert_eq!(config.max_batch_size, 1, "rows of a request");
    assert_eq!(config.input[0].dims, [16], "of a row");
    assert_eq!(config.output[0].dims, [8]);
    let batching = config.dynamic_batching.unwrap();
    assert_eq!(batching.preferred_batch_size, [2, 8]);
    assert_eq!(batching.max_queue_delay_microseconds, 250);
    let json = get(&SERVER, "/v2/models/reported/config").json();
    assert_eq!(
        json["dynamic_batching"],
        json!({"preferred_batch_size": [2, 8], "max_queue_delay_microseconds": 250})
    );
    for api in [infer::GRPC, infer::REST] {
        let run = infer::infer(&SERVER, api, &["reported", "--metadata"]);
        let note =
            "Queued requests run in batches of 2, 8 rows; a request waits up to 250 µs for others";
        assert!(run.stderr.contains(note), "{}", run.stderr);
    }
    let run = infer::infer(
        &SERVER,
        infer::GRPC,
        &["reported", "--metadata", "--output=json"],
    );
    let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(
        found["models"][0]["batching"]["preferred_batch_size"],
        json!([2, 8])
    );
}

#[test]
fn requests_of_different_shapes_are_not_mixed() {
    let grpc = Grpc::connect(&SERVER);
    let ask = |name: &str, rows: &[&[f32]]| {
        let rows = rows.iter();
        let calls = rows.map(|values| (*values, grpc.call(row(name, values))));
        let calls: Vec<_> = calls.collect();
        for (values, call) in calls {
            let answer = call.wait().unwrap();
            assert_eq!(to_floats(&answer.raw_output_contents[0]), values);
            let width = i64::try_from(values.len()).unwrap();
            assert_eq!(answer.outputs[0].shape, [1, width]);
        }
    };
    ask("shapes", &[&[1.0; 2], &[3.0; 2], &[5.0; 2]]);
    ask("shapes", &[&[2.0; 3], &[4.0; 3]]);
    assert_eq!(sizes(&grpc, "shapes"), [(2, 1), (3, 1)]);
    // Each of two shapes has an infer request, and a batch, of its own.
    // One gives way to a request that comes before the other is open, as on a busy machine: not each time.
    let count = |all: &[(u64, u64)], rows| {
        let mut of_rows = all.iter().filter(|(of, _)| *of == rows);
        of_rows.next().map_or(0, |(_, count)| *count)
    };
    let mut before = Vec::new();
    for round in 1.. {
        ask(
            "two_slots",
            &[&[1.0; 2], &[2.0; 3], &[3.0; 2], &[4.0; 3], &[5.0; 2]],
        );
        let all = sizes(&grpc, "two_slots");
        let ran = [1, 2, 3].map(|rows| count(&all, rows) - count(&before, rows));
        if ran == [0, 1, 1] {
            break;
        }
        assert_eq!(ran[0] + 2 * ran[1] + 3 * ran[2], 5, "{all:?}");
        assert!(round < 20, "{all:?}");
        before = all;
    }
}

#[test]
fn rows_are_those_of_the_inputs_in_whatever_order_these_come() {
    let grpc = Grpc::connect(&SERVER);
    let ask = |name: &str, [a, b]: [&[f32]; 2]| {
        let width = |values: &[f32]| [1, i64::try_from(values.len()).unwrap()];
        let (of_a, of_b) = (width(a), width(b));
        grpc.call(request(name, &[("a", &of_a, a), ("b", &of_b, b)]))
    };
    let sums = |call: Call<'_>| {
        let answer = call.wait().unwrap();
        let sum = |place: usize| to_floats(&answer.raw_output_contents[place])[0];
        [sum(0), sum(1)]
    };
    let (short, long) = (&[1.0; 2][..], &[10.0; 5][..]);
    // The node of the pipeline has them the other way round, and its lengths are those of the others for that.
    let calls = [("row_sums", [short, long]), ("sums", [long, short])];
    let [alone, other] = calls.map(|(name, given)| ask(name, given));
    assert_eq!((sums(alone), sums(other)), ([2.0, 50.0], [50.0, 2.0]));
    let calls = ["row_sums", "sums"].map(|name| ask(name, [short, long]));
    assert_eq!(calls.map(sums), [[2.0, 50.0]; 2]);
    assert_eq!(sizes(&grpc, "row_sums"), [(1, 2), (2, 1)]);
}

#[test]
fn a_batch_that_waits_for_rows_gives_way_to_a_request_that_cannot_join_it() {
    const ROUNDS: u32 = 3;
    const DELAY: Duration = Duration::from_secs(1);
    let grpc = Grpc::connect(&SERVER);
    let ask = |rows: u8, values: &[f32]| {
        let width = i64::try_from(values.len()).unwrap() / i64::from(rows);
        grpc.call(request(
            "gives_way",
            &[("in", &[rows.into(), width], values)],
        ))
    };
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let first = ask(1, &[1.0]);
        grpc.round_trip();
        let other = ask(1, &[2.0, 3.0]);
        assert_eq!(outputs(first.wait()), [1.0]);
        // They fill the batch that is open now.
        assert_eq!(outputs(ask(3, &[4.0; 6]).wait()), [4.0; 6]);
        assert_eq!(outputs(other.wait()), [2.0, 3.0]);
    }
    let took = begun.elapsed();
    assert!(took < DELAY * ROUNDS / 2, "of another shape: {took:?}");
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let first = ask(1, &[1.0]);
        grpc.round_trip();
        assert_eq!(outputs(ask(4, &[2.0; 4]).wait()), [2.0; 4]);
        assert_eq!(outputs(first.wait()), [1.0]);
    }
    let took = begun.elapsed();
    assert!(took < DELAY * ROUNDS / 2, "too large: {took:?}");
}

#[test]
fn requests_of_several_rows_have_them_back() {
    let grpc = Grpc::connect(&SERVER);
    let ask = |values: &[f32]| {
        let rows = i64::try_from(values.len() / 2).unwrap();
        grpc.call(request("several", &[("in", &[rows, 2], values)]))
    };
    let (one, three) = ([1.0, 2.0], [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let calls = [ask(&three), ask(&one)];
    let answers = calls.map(|call| outputs(call.wait()));
    assert_eq!(answers, [three.to_vec(), one.to_vec()]);
    assert_eq!(sizes(&grpc, "several"), [(4, 1)]);
    let many: Vec<f32> = (0..12_u8).map(f32::from).collect();
    assert_eq!(outputs(ask(&many).wait()), many, "more than a batch has");
}

#[test]
fn clients_that_leave_and_deadlines_that_pass_are_in_no_batch() {
    let grpc = Grpc::connect(&SERVER);
    let first = grpc.call(row("left", &[1.0]));
    grpc.round_trip();
    let left = grpc.call(row("left", &[2.0]));
    grpc.round_trip();
    drop(left);
    let mut late = row("left", &[3.0]);
    let limit = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(100_000)),
    };
    late.parameters.insert("timeout".to_owned(), limit);
    let refused = grpc.refused(late);
    assert!(refused.starts_with("DeadlineExceeded"), "{refused}");
    assert!(!first.is_answered());
    let last = grpc.call(row("left", &[4.0]));
    assert_eq!(outputs(first.wait()), [1.0]);
    assert_eq!(outputs(last.wait()), [4.0]);
    assert_eq!(sizes(&grpc, "left"), [(2, 1)]);
}

#[test]
fn a_full_batch_does_not_wait_for_its_delay() {
    let grpc = Grpc::connect(&SERVER);
    let begun = Instant::now();
    for _ in 0..4 {
        let calls = [
            grpc.call(row("full", &[1.0])),
            grpc.call(row("full", &[2.0])),
        ];
        assert_eq!(calls.map(|call| outputs(call.wait())), [[1.0], [2.0]]);
    }
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(sizes(&grpc, "full"), [(2, 4)]);
}

#[test]
fn parts_of_a_pipeline_run_together() {
    let grpc = Grpc::connect(&SERVER);
    let rows = (0..12).map(|number| numbered("of_parts", number));
    let rows: Vec<ModelInferRequest> = rows.collect();
    let alone: Vec<f32> = rows
        .iter()
        .flat_map(|row| outputs(grpc.infer(row.clone())))
        .collect();
    let data: Vec<u8> = rows
        .iter()
        .flat_map(|row| row.raw_input_contents[0].to_vec())
        .collect();
    let mut all = request("parts", &[("x", &[12, 1, 16], &[])]);
    all.raw_input_contents = vec![data.into()];
    are_near(&outputs(grpc.infer(all)), &alone);
    let found = statistics(&grpc, "of_parts");
    assert_eq!(found.inference_count, 24);
    assert!(found.execution_count <= 12 + 6, "{found:?}");
}

#[test]
fn requests_of_clients_of_a_pipeline_run_together() {
    let grpc = Grpc::connect(&SERVER);
    let numbers = [1.0, 2.0, 3.0, 4.0];
    let calls = numbers.map(|number| grpc.call(row("clients", &[number])));
    let found = calls.map(|call| outputs(call.wait()));
    assert_eq!(found, numbers.map(|number| vec![number]));
    assert_eq!(sizes(&grpc, "of_clients"), [(4, 1)]);
}

#[test]
fn the_wait_for_other_rows_is_time_in_the_queue() {
    let grpc = Grpc::connect(&SERVER);
    assert_eq!(outputs(grpc.infer(row("waits", &[1.0]))), [1.0]);
    let stages = statistics(&grpc, "waits").inference_stats.unwrap();
    let waited = Duration::from_nanos(stages.queue.unwrap().ns);
    assert!(waited >= Duration::from_millis(200), "{waited:?}");
    let page = get(&SERVER, "/metrics").text();
    let name = "ovms_wait_for_infer_req_time_us_sum{name=\"waits\"";
    let line = page.lines().find(|line| line.starts_with(name)).unwrap();
    let micros: f64 = line.split(' ').next_back().unwrap().parse().unwrap();
    assert!(micros >= 200_000.0, "{line}");
}

#[test]
fn auto_measures_once_and_stores_the_outcome_beside_the_compiled_models() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    let begin = || serve_with("perceptron", "auto", &["--cache_dir", cache]);
    let stored = || {
        let mut files = fs::read_dir(folder.path()).unwrap().flatten();
        let file = files.find(|it| {
            it.file_name()
                .to_string_lossy()
                .starts_with("ovms-batches-")
        });
        file.expect("it is stored").path()
    };
    let read = || -> Value { serde_json::from_slice(&fs::read(stored()).unwrap()).unwrap() };
    // It is of the same model still.
    let rewrite = |mut known: Value| {
        known["digest"] = read()["digest"].clone();
        fs::write(stored(), known.to_string()).unwrap();
    };
    // Each start goes on where the one before ran out of time, as happens on a slow machine.
    let sizes = ["2", "4", "8", "16", "32"];
    let (mut tried, mut starts) = (0, 0);
    let (server, measured) = loop {
        let server = begin();
        let rows = sizes[tried..].join(", ");
        server.wait_log(&format!(
            "measuring batches of {rows} rows, for 10s at most model=\"perceptron\""
        ));
        let measured = server.wait_log("measured batches in ");
        if !measured.contains("there was no time for larger ones") {
            break (server, measured);
        }
        starts += 1;
        assert!(starts < 10, "{measured}");
        if !server.log().contains("measuring them takes more than 10s") {
            let known = usize::try_from(read()["tried"].as_u64().unwrap()).unwrap();
            assert!((tried..sizes.len()).contains(&known), "{measured}");
            tried = known;
        }
    };
    let grpc = Grpc::connect(&server);
    let first = config(&grpc, "perceptron");
    // On any machine, whatever it does beside.
    let kept = match &first.dynamic_batching {
        Some(batching) => {
            let sizes = &batching.preferred_batch_size;
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("{} rows", sizes.join(", "))
        }
        None => {
            server.wait_log("dynamic_batching is off: batches are no faster here");
            "none".to_owned()
        }
    };
    assert!(
        measured.contains(&format!(" s; kept: {kept}")),
        "{measured}"
    );
    let numbered = |number| numbered("perceptron", number);
    let calls: Vec<Call<'_>> = (0..8).map(|it| grpc.call(numbered(it))).collect();
    let answers: Vec<_> = calls.into_iter().map(|call| outputs(call.wait())).collect();
    for (number, answer) in (0..).zip(answers) {
        are_near(&outputs(grpc.infer(numbered(number))), &answer);
    }
    drop(server);
    let again = begin();
    assert_eq!(config(&Grpc::connect(&again), "perceptron"), first);
    let log = again.log();
    assert!(!log.contains("measuring batches"), "{log}");
    drop(again);
    let found = json!({"alone": {"secs": 0, "nanos": 2000}, "list": [
        {"rows": 4, "took": {"secs": 0, "nanos": 4000}}]});
    rewrite(json!({"refused": null, "sizes": found}));
    let third = begin();
    third.wait_log("up to 4 rows run as one inference, 4: 2.00 times as many");
    assert!(!third.log().contains("measuring batches"));
    drop(third);
    // A start that had no time for all sizes is gone on with.
    let found = json!({"alone": {"secs": 1, "nanos": 0}, "list": [
        {"rows": 2, "took": {"secs": 1, "nanos": 0}}]});
    rewrite(json!({"refused": null, "sizes": found, "tried": 1}));
    let fourth = begin();
    fourth.wait_log("measuring batches of 4, 8, 16, 32 rows, for 10s at most");
    let measured = fourth.wait_log("measured batches in ");
    drop(fourth);
    let known = read();
    assert!(known["tried"].as_u64() > Some(1), "{known}");
    let is_whole = known["tried"] == json!(sizes.len());
    assert_ne!(is_whole, measured.contains("there was no time"), "{known}");
    let refused = json!({"refused": "it was so before", "sizes": {"alone": {"secs": 0, "nanos": 0}, "list": []}});
    rewrite(refused);
    begin().wait_log("dynamic_batching is off: it was so before");
}

#[test]
fn models_that_load_together_are_measured_one_after_the_other() {
    let mut config = Config::of(&[]);
    for name in ["one", "other"] {
        let entry = config.model(name, &model("perceptron"));
        entry["nireq"] = json!(1);
        entry["dynamic_batching"] = json!("auto");
    }
    let server = config.begin(&[]);
    // Each takes up to ten seconds, and more on a busy machine.
    server.wait_log("measured batches in ");
    server.wait_ready();
    let log = server.log();
    let lines = log.lines().filter_map(|line| {
        let is_begin = line.contains("measuring batches of ");
        let is_line = is_begin || line.contains("measured batches in ");
        let (_, name) = line.split_once("model=\"").filter(|_| is_line)?;
        Some((is_begin, name))
    });
    let lines: Vec<(bool, &str)> = lines.collect();
    assert_eq!(lines.len(), 4, "{log}");
    for turn in lines.chunks(2) {
        assert_eq!((turn[0].0, turn[1].0), (true, false), "{log}");
        assert_eq!(turn[0].1, turn[1].1, "{log}");
    }
}

#[test]
fn models_that_have_no_batch_run_requests_one_by_one_and_say_why() {
    const CASES: [(&str, &str); 4] = [
        (
            "columns",
            "an input has no first dimension of length 1, or open for 2",
        ),
        ("cut", "the shape or the batch size is auto"),
        ("timed_out", "inference_timeout_ms is set"),
        ("strings", "has no row for each request of a batch"),
    ];
    let grpc = Grpc::connect(&SERVER);
    for (name, reason) in CASES {
        let line = SERVER.wait_log_of(name, "dynamic_batching is off");
        assert!(line.contains(reason), "{name}: {line}");
        let config = config(&grpc, name);
        assert_eq!((config.max_batch_size, config.dynamic_batching), (0, None));
    }
}

#[test]
fn it_is_off_by_default_and_another_setting_is_a_reload() {
    let mut file = Config::of(&["passthrough_f32"]);
    let server = file.serve();
    let grpc = Grpc::connect(&server);
    assert_eq!(config(&grpc, "passthrough_f32").dynamic_batching, None);
    let entry = &mut file.json["model_config_list"][0]["config"];
    entry["dynamic_batching"] = json!({"max_batch": 6});
    assert_eq!(file.reload(&server), "201");
    assert_eq!(config(&grpc, "passthrough_f32").max_batch_size, 6);
    file.json["model_config_list"][0]["config"]["dynamic_batching"] = json!("off");
    assert_eq!(file.reload(&server), "201");
    assert_eq!(config(&grpc, "passthrough_f32").max_batch_size, 0);
}

#[test]
fn settings_that_are_none_are_refused() {
    let check = |flags: &[&str]| {
        let path = model("dummy");
        let flags = [
            &[
                "serve",
                "--check=syntax",
                "--model_name",
                "m",
                "--model_path",
            ][..],
            &[path.to_str().unwrap()],
            flags,
        ];
        cli::ovms(flags.concat()).stderr
    };
    insta::assert_snapshot!(check(&["--dynamic_batching", "8"]), @r#"error: dynamic_batching is in wrong format - found `8`; expected off, auto, or a JSON object such as {"max_batch":8,"max_delay_us":500}, with max_batch from 2 to 1024 or auto, max_delay_us up to 1000000 beside a number, and max_bytes such as 512M"#);
    insta::assert_snapshot!(check(&["--dynamic_batching", "auto", "--stateful"]), @"error: dynamic_batching is for models without state; use sequence_batch");
}
