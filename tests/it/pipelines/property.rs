//! Random pipelines on the server: responses equal those of a model without a schedule.
//!
//! `OVMS_TEST_SEEDS=FIRST..END` tries other seeds than the fixed ones.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use ovms::proto::kserve::ModelInferRequest;
use serde_json::{Value, json};

use super::edits;
use crate::support::{
    Server,
    grpc::{self, Call, Grpc},
    http,
    pipelines::Config,
    random::{self, Nothing, Numbers, Random},
};

/// Number of requests to each pipeline.
const REQUESTS: u64 = 4;

/// Error of a request without results.
const ABORTED: &str = "Pipeline execution aborted due to no content from custom node";

/// Returns pipelines of fixed seeds, or of those in `OVMS_TEST_SEEDS`.
pub(super) fn randoms(first: u64, count: u64) -> Vec<Random> {
    let seeds = match std::env::var("OVMS_TEST_SEEDS") {
        Ok(range) => {
            let (first, end) = range.split_once("..").expect("FIRST..END");
            first.parse().unwrap()..end.parse().unwrap()
        }
        Err(_) => first..first + count,
    };
    seeds.map(Random::new).collect()
}

/// The configuration file and the server of the edited pipelines of [`edits`] and, behind them, of [`valid`].
pub(super) static SERVED: LazyLock<(PathBuf, Server)> = LazyLock::new(|| {
    let edited = edits::edited(&randoms(100, 40));
    let configs = edited.into_iter().map(|edited| edited.config);
    let configs: Vec<Value> = configs.chain(valid().iter().map(Random::config)).collect();
    let mut config = Config::of(&[]);
    config.json = random::file(&configs);
    (config.beside("config.json"), config.serve_kept(&[]))
});

/// Returns the pipelines that the edited ones are made of, and those that are sent requests.
pub(super) fn valid() -> Vec<Random> {
    let mut all = randoms(100, 40);
    // Otherwise they are the same.
    if std::env::var_os("OVMS_TEST_SEEDS").is_none() {
        all.extend(randoms(0, 40));
    }
    all
}

fn request(random: &Random, numbers: &[Numbers]) -> ModelInferRequest {
    let inputs = numbers.iter().zip(0..).map(|(tensor, place)| {
        let shape: Vec<i64> = tensor.shape.iter().map(|n| *n as i64).collect();
        grpc::input(&format!("in{place}"), "FP32", &shape)
    });
    let contents = numbers
        .iter()
        .map(|tensor| grpc::floats(&tensor.data).into());
    ModelInferRequest {
        model_name: random.name.clone(),
        inputs: inputs.collect(),
        raw_input_contents: contents.collect(),
        ..ModelInferRequest::default()
    }
}

/// Asserts that a response has these outputs, in any order.
fn check(random: &Random, seed: u64, found: &BTreeMap<String, Numbers>, expected: &[Numbers]) {
    let expected = expected.iter().zip(0..);
    let expected = expected.map(|(tensor, place)| (format!("y{place}"), tensor.clone()));
    let expected: BTreeMap<String, Numbers> = expected.collect();
    assert_eq!(
        found,
        &expected,
        "request {seed} to {}: {:#}",
        random.name,
        random.config()
    );
}

/// Waits for a response, and compares it.
fn answered(random: &Random, seed: u64, call: Call<'_>) -> &'static str {
    let expected = random.response(&random.request(seed));
    match (call.wait(), expected) {
        (Ok(answer), Ok(expected)) => {
            let outputs = answer.outputs.iter().zip(&answer.raw_output_contents);
            let outputs = outputs.map(|(output, data)| {
                assert_eq!(output.datatype, "FP32");
                let shape = output.shape.iter().map(|n| usize::try_from(*n).unwrap());
                let numbers = Numbers {
                    shape: shape.collect(),
                    data: grpc::to_floats(data),
                };
                (output.name.clone(), numbers)
            });
            check(random, seed, &outputs.collect(), &expected);
            let is_empty = expected.iter().any(|tensor| tensor.data.is_empty());
            if is_empty { "empty" } else { "answered" }
        }
        (Err(status), Err(Nothing)) => {
            let reported = grpc::error(&status);
            assert!(
                reported.starts_with(&format!("Aborted: {ABORTED}")),
                "{reported}"
            );
            "nothing"
        }
        (found, expected) => panic!(
            "request {seed} to {}: {found:?}, expected {expected:?}: {:#}",
            random.name,
            random.config()
        ),
    }
}

/// Sends a request over REST, and compares the response.
fn answered_by_rest(server: &Server, random: &Random, seed: u64) {
    let numbers = random.request(seed);
    let inputs = numbers.iter().zip(0..).map(|(tensor, place)| {
        json!({
            "name": format!("in{place}"),
            "datatype": "FP32",
            "shape": tensor.shape,
            "data": tensor.data,
        })
    });
    let body = json!({"inputs": inputs.collect::<Value>()});
    let path = format!("/v2/models/{}/infer", random.name);
    let answer = http::post(server, &path, body.to_string().as_bytes());
    match random.response(&numbers) {
        Ok(expected) => {
            assert_eq!(answer.status, 200, "{}: {}", random.name, answer.text());
            let answer = answer.json();
            let outputs = answer["outputs"].as_array().unwrap().iter().map(|output| {
                assert_eq!(output["datatype"], "FP32");
                let numbers = Numbers {
                    shape: serde_json::from_value(output["shape"].clone()).unwrap(),
                    data: serde_json::from_value(output["data"].clone()).unwrap(),
                };
                (output["name"].as_str().unwrap().to_owned(), numbers)
            });
            check(random, seed, &outputs.collect(), &expected);
        }
        Err(Nothing) => {
            let reported = answer.error();
            assert!(
                reported.starts_with(&format!("409: {ABORTED}")),
                "{reported}"
            );
        }
    }
}

#[test]
fn random_pipelines_answer_as_they_read() {
    let randoms = randoms(0, 40);
    let server = &SERVED.1;
    let grpc = Grpc::connect(server);
    // All at once, each model with one slot.
    let mut calls = Vec::new();
    for seed in 0..REQUESTS {
        for random in &randoms {
            let call = grpc.call(request(random, &random.request(seed)));
            calls.push((random, seed, call));
        }
    }
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for (random, seed, call) in calls {
        *ends.entry(answered(random, seed, call)).or_default() += 1;
    }
    for random in randoms.iter().step_by(3) {
        answered_by_rest(server, random, REQUESTS);
    }
    if std::env::var_os("OVMS_TEST_SEEDS").is_none() {
        for end in ["answered", "empty", "nothing"] {
            assert!(ends.contains_key(end), "none is {end}: {ends:?}");
        }
    }
}

/// Pipelines that never have what is to be tested would always pass.
#[test]
fn random_pipelines_have_what_matters() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for random in (0..40).map(Random::new) {
        for feature in random.features() {
            *found.entry(feature).or_default() += 1;
        }
    }
    let found: Vec<&str> = found.into_keys().collect();
    assert_eq!(
        found,
        [
            "a dynamic batch",
            "a dynamic count",
            "a fixed batch",
            "a model gathers",
            "a model splits",
            "a scalar",
            "closes and opens",
            "closes the request",
            "four levels",
            "gathers in a level",
            "may have nothing",
            "several outputs",
            "straight to the response",
            "the response gathers twice",
            "three sources",
            "two levels",
        ]
    );
}
