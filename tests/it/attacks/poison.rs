//! Requests whose inference fails, and leaves a compiled model that fails or is wrong for
//! others; inferences that do not end.

use std::{
    path::PathBuf,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse};
use serde_json::json;
use tonic::Status;

use crate::support::{
    Server, busy, eventually,
    grpc::{self, Grpc, to_floats},
    http::{get, post},
    model,
    pipelines::{Config, dl},
    repository,
    sequence::{Ask, Client, Wire},
    thread,
};

/// A server of `pair` under several names, which are each of one test, and the folder of `lost`.
static PAIRS: LazyLock<(Server, PathBuf)> = LazyLock::new(|| {
    let mut config = Config::of(&["pair"]);
    for name in ["n", "attacked"] {
        config.model(name, &model("pair"));
    }
    let node = dl("first", "n", "a=request.a b=request.b", "sum=y");
    config.pipeline("p", "a b", &[node], "sum=first.y");
    let folder = config.beside("lost");
    repository::copy(&model("pair").join("1"), &folder.join("1"));
    config.model("lost", &folder);
    (config.serve_kept(&[]), folder)
});

/// A server of sequences, whose models are replaced as often as they fail.
static SEQUENCES: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    for (name, fixture) in [
        ("tensors", "running_fail"),
        ("requests", "running_fail"),
        ("others", "running_fail"),
        ("rows", "running_total"),
    ] {
        config.model(name, &model(fixture))["stateful"] = json!(true);
    }
    for (index, mode) in ["tensors", "requests"].into_iter().enumerate() {
        let entry = &mut config.json["model_config_list"][index]["config"];
        (entry["state_mode"], entry["nireq"]) = (json!(mode), json!(1));
    }
    config.json["model_config_list"][3]["config"]["shape"] = json!("(-1,4)");
    config.serve_kept(&["--recovery_interval_ms", "1"])
});

/// Line of the log about a model that has failed.
const REPLACED: &str = "the compiled model was replaced";

/// Returns how often a model was replaced.
fn replaced(server: &Server, model: &str) -> usize {
    let lines = server.log_of(model).into_iter();
    lines.filter(|line| line.contains(REPLACED)).count()
}

/// Number of clients with valid requests.
const CLIENTS: i64 = 16;

/// Observation time of clients before the attack, and during it.
const QUIET: Duration = Duration::from_secs(2);
const ATTACK: Duration = Duration::from_secs(10);

/// Time between two bad requests.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns a request with two inputs for `pair`, each of ones.
fn pair(name: &str, a: [i64; 2], b: [i64; 2]) -> ModelInferRequest {
    let ones = |shape: [i64; 2]| {
        let count = usize::try_from(shape[0] * shape[1]).unwrap();
        1_i64.to_le_bytes().repeat(count).into()
    };
    ModelInferRequest {
        model_name: name.to_owned(),
        inputs: vec![grpc::input("a", "INT64", &a), grpc::input("b", "INT64", &b)],
        raw_input_contents: vec![ones(a), ones(b)],
        ..ModelInferRequest::default()
    }
}

/// Returns the error in the response for inputs of one shape, if there is one.
fn misfit(answer: &Result<ModelInferResponse, Status>, shape: [i64; 2]) -> Option<String> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => return Some(grpc::error(status)),
    };
    let count = usize::try_from(shape[0] * shape[1]).unwrap();
    for (output, raw) in answer.outputs.iter().zip(&answer.raw_output_contents) {
        let good = match output.name.as_str() {
            "sum" => raw[..] == 2_i64.to_le_bytes().repeat(count),
            _ => to_floats(raw) == vec![2.0; count],
        };
        if !good || output.shape != shape {
            return Some(format!("wrong values: {output:?} {raw:?}"));
        }
    }
    None
}

/// Outcome of a client's valid requests.
struct Seen {
    took: Vec<Duration>,
    failed: Vec<String>,
}

/// Runs clients with valid requests for a time; returns their outcome, and p99.
fn clients(server: &Server, model: &str, time: Duration) -> (usize, Vec<String>, Duration) {
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, over) = (Grpc::connect(server), Arc::clone(&over));
            let model = model.to_owned();
            // Most have one shape, as those of one application do.
            let shape = if number < 12 { [1, 8] } else { [number, 2] };
            thread(move || {
                let mut seen = Seen {
                    took: Vec::new(),
                    failed: Vec::new(),
                };
                while !over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let answer = client.infer(pair(&model, shape, shape));
                    seen.took.push(begun.elapsed());
                    seen.failed.extend(misfit(&answer, shape));
                }
                seen
            })
        })
        .collect();
    std::thread::sleep(time);
    over.store(true, Ordering::Relaxed);
    let seen = threads.into_iter().map(|thread| thread.join().unwrap());
    let (mut took, mut failed) = (Vec::new(), Vec::new());
    for seen in seen {
        took.extend(seen.took);
        failed.extend(seen.failed);
    }
    took.sort();
    (took.len(), failed, took[took.len() * 99 / 100])
}

#[test]
fn bad_shapes_every_100_ms_fail_none_of_the_valid_requests_of_16_clients() {
    let server = &PAIRS.0;
    let (_, failed, quiet) = clients(server, "attacked", QUIET);
    assert_eq!(failed, Vec::<String>::new());
    let over = Arc::new(AtomicBool::new(false));
    let attacker = {
        let (client, over) = (Grpc::connect(server), Arc::clone(&over));
        thread(move || {
            let mut texts = Vec::new();
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // Every other one is of shapes that were never seen.
                let length = if number % 2 == 0 { 3 } else { 10 + number };
                texts.push(client.refused(pair("attacked", [1, length], [1, 2])));
                std::thread::sleep(PAUSE);
            }
            texts
        })
    };
    let (count, failed, p99) = clients(server, "attacked", ATTACK);
    over.store(true, Ordering::Relaxed);
    let refused = attacker.join().unwrap();
    println!("{count} valid requests; p99 {quiet:?} quiet, {p99:?} under attack");
    assert_eq!(
        failed.len(),
        0,
        "of {count}: {:?}",
        &failed[..failed.len().min(3)]
    );
    assert!(refused.len() > 20, "{}", refused.len());
    for text in refused {
        assert!(
            text.starts_with("Internal: Internal inference error - "),
            "{text}"
        );
        assert!(!text.contains(".cpp") && !text.contains(".hpp"), "{text}");
    }
    // Wanted is three times; other tests run beside this one.
    let bound = (quiet * 10).max(Duration::from_millis(100));
    assert!(p99 <= bound, "p99 {quiet:?} quiet, {p99:?} under attack");
    assert_eq!(get(server, "/v2/models/attacked/ready").status, 200);
    assert_eq!(
        replaced(server, "attacked"),
        1,
        "what does not fit is refused before it runs"
    );
}

#[test]
fn values_that_make_inferences_fail_replace_the_model_at_most_once_in_the_time_set() {
    let server = Server::start_with("cut", &["--recovery_interval_ms", "60000"]);
    let client = Grpc::connect(&server);
    let cut = |length: i64, x: &[f32]| ModelInferRequest {
        model_name: "cut".to_owned(),
        inputs: vec![
            grpc::input("x", "FP32", &[i64::try_from(x.len()).unwrap()]),
            grpc::input("length", "INT64", &[1]),
        ],
        raw_input_contents: vec![grpc::floats(x).into(), length.to_le_bytes().to_vec().into()],
        ..ModelInferRequest::default()
    };
    let good = |length: usize, x: &[f32]| {
        let answer = client.answered(cut(i64::try_from(length).unwrap(), x));
        assert_eq!(to_floats(&answer.raw_output_contents[0]), x[..length]);
    };
    good(2, &[1.0, 2.0, 3.0]);
    let refused = client.refused(cut(9, &[1.0, 2.0, 3.0]));
    assert!(
        refused.starts_with("Internal: Internal inference error - "),
        "{refused}"
    );
    // It was run again on the replacement, and fails by itself.
    server.wait_log(REPLACED);
    good(2, &[1.0, 2.0, 3.0, 4.0]);
    good(3, &[1.0, 2.0, 3.0]);
    assert_eq!(replaced(&server, "cut"), 1, "{}", server.log());
}

#[test]
fn a_pipeline_repeats_what_a_bad_request_to_its_model_has_failed() {
    let client = Grpc::connect(&PAIRS.0);
    let valid = || {
        let answer = client.infer(pair("p", [1, 8], [1, 8]));
        assert_eq!(misfit(&answer, [1, 8]), None);
    };
    valid();
    // Each stream may have its own state, so the bad one comes more than once.
    for _ in 0..4 {
        let refused = client.refused(pair("p", [1, 3], [1, 2]));
        assert!(refused.contains("Internal inference error - "), "{refused}");
        valid();
        valid();
    }
    assert!(
        client
            .refused(pair("n", [1, 3], [1, 2]))
            .contains("inconsistent")
    );
}

#[test]
fn the_reason_is_reported_on_all_apis_and_can_be_hidden() {
    let kserve = json!({ "inputs": [
        { "name": "a", "shape": [1, 3], "datatype": "INT64", "data": [1, 2, 3] },
        { "name": "b", "shape": [1, 2], "datatype": "INT64", "data": [1, 2] },
    ] });
    let tfs = json!({ "inputs": { "a": [[1, 2, 3]], "b": [[1, 2]] } });
    let reported = |server: &Server| {
        let client = Grpc::connect(server);
        let rest = |path: &str, body: &serde_json::Value| {
            let answer = post(server, path, body.to_string().as_bytes());
            format!(
                "{} {}",
                answer.status,
                answer.json()["error"].as_str().unwrap()
            )
        };
        [
            client.refused(pair("pair", [1, 3], [1, 2])),
            rest("/v2/models/pair/infer", &kserve),
            rest("/v1/models/pair:predict", &tfs),
        ]
    };
    for text in reported(&PAIRS.0) {
        let (_, reason) = text.split_once("Internal inference error - ").expect(&text);
        assert!(
            reason.ends_with("Argument shapes are inconsistent."),
            "{text}"
        );
        assert!(
            !reason.contains(".cpp") && !reason.contains(" at src"),
            "{text}"
        );
    }
    let hidden = Server::start_with("pair", &["--hide_inference_errors"]);
    let text = "Internal inference error";
    assert_eq!(
        reported(&hidden),
        [
            format!("Internal: {text}"),
            format!("500 {text}"),
            format!("500 {text}")
        ]
    );
    let log = eventually("each is in the log", || {
        let log = hidden.log();
        let reasons = log.matches("Argument shapes are inconsistent.");
        (reasons.count() >= 3).then_some(log)
    });
    let errors = || log.lines().filter(|line| line.contains(" ERROR "));
    let names_model = |line: &str| line.contains("model=\"pair\"");
    assert!(errors().all(names_model), "{log}");
    assert_eq!(errors().count(), 3, "{log}");
}

#[test]
fn inferences_that_do_not_end_are_answered_and_leave_the_model_to_others() {
    let flags = ["--inference_timeout_ms", "1000", "--metrics_enable"];
    let server = busy::serve(&flags);
    let client = Grpc::connect(&server);
    busy::check(1, &client.infer(busy::request(1)));
    let begun = Instant::now();
    let endless = client.call(busy::request(busy::ENDLESS));
    let page = || get(&server, "/metrics").text();
    let stuck = |count: u32| {
        let line = format!("ovms_inferences_stuck{{name=\"busy\",version=\"1\"}} {count}");
        page().contains(&line).then_some(())
    };
    eventually("the inference runs", || {
        page()
            .contains("ovms_current_requests{name=\"busy\",version=\"1\"} 1")
            .then_some(())
    });
    // One that waits behind it for the only slot is run on what takes its place.
    let behind = client.call(busy::request(2));
    let refused = grpc::error(&endless.wait().unwrap_err());
    assert_eq!(
        refused,
        "DeadlineExceeded: Inference timed out - the inference takes longer than \
         inference_timeout_ms, 1000 ms"
    );
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let log = server.wait_log("takes longer than inference_timeout_ms");
    let line = log.lines().find(|line| line.contains("takes longer than"));
    let names_model = |line: &str| line.contains(" WARN ") && line.contains("model=\"busy\"");
    assert!(line.is_some_and(names_model), "{log}");
    let state = get(&server, "/dashboard/state").json();
    let failed = &state["servables"][0]["versions"][0]["last_error"];
    assert_eq!(*failed, refused.split_once(": ").unwrap().1, "{state}");
    eventually("the metric counts it", || stuck(1));
    busy::check(2, &behind.wait());
    busy::check(3, &client.infer(busy::request(3)));
    assert!(stuck(1).is_some(), "it goes on beside");
    server.wait_log(REPLACED);
}

#[test]
fn a_model_with_eight_stuck_inferences_is_not_ready() {
    let flags = [
        ["--inference_timeout_ms", "100"],
        ["--recovery_interval_ms", "1"],
    ];
    let server = busy::serve(&[flags.as_flattened(), &["--metrics_enable"]].concat());
    let client = Grpc::connect(&server);
    let ready = || get(&server, "/v2/models/busy/ready").status;
    let stuck = || {
        let page = get(&server, "/metrics").text();
        let name = "ovms_inferences_stuck{name=\"busy\",version=\"1\"} ";
        let mut values = page.lines().filter_map(|line| line.strip_prefix(name));
        values
            .next()
            .map_or(0, |count| count.parse::<u32>().unwrap())
    };
    let mut answers = Vec::new();
    for wanted in 1..=8 {
        // One that is given up before it has begun is not stuck, and another one is sent.
        eventually("one more is stuck", || {
            if stuck() >= wanted {
                return Some(());
            }
            assert!(ready() == 200 || stuck() == 8, "{answers:?}");
            let text = client.refused(busy::request(busy::ENDLESS));
            let is_expected = match text.split_once(": ") {
                Some(("DeadlineExceeded", _)) => true,
                Some(("Unavailable", _)) => stuck() == 8,
                _ => false,
            };
            assert!(is_expected, "{text} after {answers:?}");
            answers.push(text);
            None
        });
    }
    assert!(answers.len() >= 8, "{answers:?}");
    eventually("it is not ready", || (ready() == 503).then_some(()));
    let text = client.refused(busy::request(1));
    assert!(text.starts_with("Unavailable: "), "{text}");
    assert_eq!(get(&server, "/v2/health/live").status, 200);
}

#[test]
fn an_endless_inference_whose_client_has_left_holds_up_nobody() {
    let flags = [
        ["--inference_timeout_ms", "1000"],
        ["--shutdown_timeout_seconds", "1"],
    ];
    let mut server = busy::serve(flags.as_flattened());
    let client = Grpc::connect(&server);
    drop(busy::running(&server, &client, busy::ENDLESS));
    server.wait_log(REPLACED);
    busy::check(2, &client.infer(busy::request(2)));
    // The server ends all the same.
    server.signal("TERM");
    eventually("the server ends", || server.ended());
}

#[test]
fn a_failed_step_leaves_other_sequences_where_they_are() {
    let client = Client::connect(&SEQUENCES);
    let step = |id: u64, split: i64| Ask::new("others", 1.0).extra("split", split).id(id);
    let total = |ask: Ask| client.total(Wire::Raw, &ask);
    assert_eq!(total(step(1, 2).start()), (1, 1.0));
    let refused = client.refused(Wire::Raw, &step(2, 3).start());
    assert!(
        refused.ends_with(" - sequence 2 has been closed"),
        "{refused}"
    );
    SEQUENCES.wait_log_of("others", REPLACED);
    // One goes on, another begins on what is there now.
    assert_eq!(total(step(1, 2)), (1, 2.0));
    assert_eq!(total(step(3, 2).start()), (3, 1.0));
    assert_eq!(total(step(1, 2).end()), (1, 3.0));
    assert_eq!(total(step(3, 2).end()), (3, 2.0));
}

#[test]
fn steps_that_fail_again_and_again_spoil_no_sequence() {
    const FAILED: u64 = 4;
    let client = Client::connect(&SEQUENCES);
    for mode in ["tensors", "requests"] {
        let step = |id: u64, split: i64| Ask::new(mode, 1.0).extra("split", split).id(id);
        let total = |ask: Ask| client.total(Wire::Raw, &ask);
        let closed = |ask: Ask, id: u64| {
            let refused = client.refused(Wire::Raw, &ask);
            let end = format!(" - sequence {id} has been closed");
            assert!(refused.ends_with(&end), "{mode}: {refused}");
        };
        assert_eq!(total(step(1, 2).start()), (1, 1.0));
        let mut steps = 1.0;
        for id in 2..2 + FAILED {
            closed(step(id, 3).start(), id);
            // While it is being replaced, and then.
            for _ in 0..2 {
                if mode == "requests" && steps == 1.0 {
                    closed(step(1, 2), 1);
                    assert_eq!(client.refused(Wire::Raw, &step(1, 2)), Wire::Raw.unknown());
                    assert_eq!(total(step(1, 2).start()), (1, 1.0));
                }
                steps += 1.0;
                assert_eq!(total(step(1, 2)), (1, steps), "{mode}");
            }
            if mode == "requests" {
                steps = 1.0;
            }
        }
        let log = SEQUENCES.log_of(mode).join("\n");
        assert!(!log.contains("cannot be replaced"), "{log}");
    }
}

#[test]
fn a_step_whose_shape_does_not_fit_closes_its_sequence_before_a_failure_and_after_it() {
    let client = Client::connect(&SEQUENCES);
    let of_rows = |id: u64, rows: usize| {
        let mut ask = Ask::new("rows", 1.0).id(id);
        ask.data.1 = vec![i64::try_from(rows).unwrap(), 4];
        ask.data.2 = vec![1.0; 4 * rows];
        ask
    };
    for id in [1, 2] {
        assert_eq!(client.total(Wire::Raw, &of_rows(id, 1).start()), (id, 1.0));
        let refused = client.refused(Wire::Raw, &of_rows(id, 2));
        let end = format!(" - sequence {id} has been closed");
        assert!(refused.ends_with(&end), "{refused}");
        assert_eq!(
            client.refused(Wire::Raw, &of_rows(id, 1)),
            Wire::Raw.unknown()
        );
        SEQUENCES.wait_log_of("rows", REPLACED);
    }
    let replaced = replaced(&SEQUENCES, "rows");
    assert_eq!(replaced, 1, "the second is refused before it runs");
}

#[test]
fn a_model_that_cannot_be_replaced_goes_on() {
    let (server, folder) = &*PAIRS;
    let client = Grpc::connect(server);
    std::fs::remove_dir_all(folder.join("1")).unwrap();
    let refused = client.refused(pair("lost", [1, 3], [1, 2]));
    assert!(refused.contains("Internal inference error - "), "{refused}");
    server.wait_log("and the model cannot be replaced");
    for shape in [[1, 8], [2, 2], [3, 1]] {
        assert_eq!(
            misfit(&client.infer(pair("lost", shape, shape)), shape),
            None
        );
    }
}
