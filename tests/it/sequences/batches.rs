//! Steps that run together: answered as if each had run alone, whatever becomes of the others.

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse, ModelStatisticsRequest};
use prost::Message as _;
use serde_json::json;

use super::shared::{line, serve_kept, with};
use crate::support::{
    Server,
    grpc::{self, Call, Grpc, error},
    http::get,
    repository,
    sequence::{Ask, Client, Wire, entry, infer, of_infer},
    wire,
};

/// A model of sums that can refuse one row of a batch.
const PICKY: &str = "running_picky";

const SEQUENCES: u8 = 16;

/// Number of times that steps are sent together until what is wanted was there: how many of them wait at the same
/// time is up to the machine.
const ROUNDS: u64 = 100;

/// A server of models on one infer request each: one that is picky for each test of it, and those of the others.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let picky = ["sixteen", "one", "order", "fails", "given_up"];
    let models = picky.map(|name| (name, PICKY, Some(16))).into_iter();
    let models = models.chain([
        ("alone", "running_heavy", None),
        ("together", "running_heavy", Some(8)),
        ("running_rows", "running_rows", Some(4)),
        ("running_mixed", "running_mixed", Some(4)),
    ]);
    let entries = models.map(|(name, fixture, batch)| {
        let entry = with(entry(name, fixture), json!({"nireq": 1}));
        match batch {
            Some(most) => with(entry, json!({"sequence_batch": most})),
            None => entry,
        }
    });
    let entries: Vec<_> = entries.collect();
    serve_kept(repository::folder(), &entries, &["--metrics_enable"])
});

/// Returns a client of the picky model of a test.
fn picky(name: &str) -> Grpc {
    line(&SERVER, name, "up to 16 steps run as one inference");
    Grpc::connect(&SERVER)
}

/// Makes a step of a model that is picky.
fn step(ask: &Ask, split: i64) -> ModelInferRequest {
    let mut request = infer(ask, true);
    request.inputs.push(grpc::input("split", "INT64", &[1, 1]));
    request
        .raw_input_contents
        .push(split.to_le_bytes().to_vec().into());
    request
}

fn good(ask: &Ask) -> ModelInferRequest {
    step(ask, 1)
}

/// Makes a step of a sequence, of numbers that are those of its id.
fn ask(name: &str, id: u64) -> Ask {
    let number = u8::try_from(id % 100).unwrap();
    Ask::new(name, f32::from(number)).id(id)
}

fn total(answer: Result<ModelInferResponse, tonic::Status>) -> (u64, f32) {
    of_infer(&answer.unwrap()).total()
}

/// Returns how many executions there were so far, by the number of their rows.
fn sizes(grpc: &Grpc, name: &str) -> BTreeMap<u64, u64> {
    let request = ModelStatisticsRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let answer = grpc.wait(async { grpc.client.clone().model_statistics(request).await });
    let found = answer.unwrap().model_stats.remove(0);
    let sizes = found.batch_stats.iter();
    let count =
        |it: &ovms::proto::kserve::InferBatchStatistics| it.compute_infer.map_or(0, |it| it.count);
    sizes.map(|it| (it.batch_size, count(it))).collect()
}

/// Steps of each sequence.
const STEPS: u64 = 4;

/// Sends the next four steps of each of sixteen sequences, which are at different ones, so that starts, ends, and steps
/// between come together; returns the totals, found and expected. All are sent at once on one connection, so that while
/// some run there are always others, and in the order of their sequences: tasks of a client, one for each, may begin in
/// another one.
fn round(name: &str, round: u64) -> Vec<(f32, f32)> {
    let numbers = (round * STEPS..).take(STEPS as usize);
    let each =
        numbers.flat_map(|number| (1..=u64::from(SEQUENCES)).map(move |place| (number, place)));
    let asks = each.filter_map(|(number, place)| {
        let (lives, at) = ((number + place) / STEPS, (number + place) % STEPS);
        // One that would have begun before the first round.
        if lives == place / STEPS && place % STEPS > 0 {
            return None;
        }
        let ask = ask(name, place + 100 * lives);
        let expected = ask.data.2[0] * f32::from(u8::try_from(at + 1).unwrap());
        let ask = match at {
            0 => ask.start(),
            3 => ask.end(),
            _ => ask,
        };
        Some((ask, expected))
    });
    let asks: Vec<_> = asks.collect();
    let calls = asks.iter().map(|(ask, _)| wire::Call::infer(&good(ask)));
    let calls: Vec<_> = calls.collect();
    let answers = wire::send(&SERVER, &calls).into_iter().zip(&asks);
    let answers = answers.map(|(answer, (ask, expected))| {
        let answer = answer.map(|it| ModelInferResponse::decode(it).unwrap());
        let (id, found) = total(answer);
        assert_eq!(id, ask.id.as_ref().unwrap().values[0]);
        (found, *expected)
    });
    answers.collect()
}

#[test]
fn steps_of_sixteen_sequences_that_wait_run_as_one() {
    const NAME: &str = "sixteen";
    let grpc = picky(NAME);
    let mut requests = 0;
    for number in 0..ROUNDS {
        for (found, expected) in round(NAME, number) {
            assert_eq!(found.to_bits(), expected.to_bits());
            requests += 1;
        }
        // Starts and ends are in each of the later ones.
        if number > 1 && sizes(&grpc, NAME).contains_key(&16) {
            break;
        }
    }
    let sizes = sizes(&grpc, NAME);
    assert!(sizes.contains_key(&16), "{sizes:?}");
    let rows: u64 = sizes.iter().map(|(size, count)| size * count).sum();
    assert_eq!(rows, requests);
    let executions: u64 = sizes.values().sum();
    let page = get(&SERVER, "/metrics").text();
    let labels = r#"name="sixteen",version="1""#;
    for (suffix, value) in [("count", executions), ("sum", requests)] {
        let line = format!("ovms_batch_size_{suffix}{{{labels}}} {value}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
}

#[test]
fn steps_of_one_client_run_alone() {
    let grpc = picky("one");
    let ask = |id| ask("one", id);
    assert_eq!(total(grpc.infer(good(&ask(7).start()))), (7, 7.0));
    for number in 2..20_u8 {
        let expected = 7.0 * f32::from(number);
        assert_eq!(total(grpc.infer(good(&ask(7)))), (7, expected));
    }
    // The way of a model without batches, and as long.
    assert_eq!(sizes(&grpc, "one"), BTreeMap::from([(1, 19)]));
}

#[test]
fn steps_keep_the_order_of_their_sequence() {
    const STEPS: u8 = 8;
    let grpc = picky("order");
    let ask = |id| ask("order", id);
    let at = |number: u8, id: u64| match number {
        1 => ask(id).start(),
        STEPS => ask(id).end(),
        _ => ask(id),
    };
    let order: Vec<(u8, u64)> = (1..=STEPS)
        .flat_map(|number| (1..=u64::from(SEQUENCES)).map(move |id| (number, id)))
        .collect();
    // All at once on one connection, without waiting for answers.
    let calls: Vec<_> = order
        .iter()
        .map(|&(number, id)| wire::Call::infer(&good(&at(number, id))))
        .collect();
    for ((number, id), answer) in order.iter().zip(wire::send(&SERVER, &calls)) {
        let answer = ModelInferResponse::decode(answer.unwrap()).unwrap();
        let expected = ask(*id).data.2[0] * f32::from(*number);
        assert_eq!(of_infer(&answer).total(), (*id, expected), "step {number}");
    }
    let sizes = sizes(&grpc, "order");
    assert!(sizes.keys().any(|size| *size > 1), "{sizes:?}");
}

#[test]
fn a_step_that_fails_in_a_batch_fails_alone() {
    const BAD: u64 = 5;
    let grpc = picky("fails");
    let ask = |id| ask("fails", id);
    // A step that comes first is no batch.
    let mut refused_in_batches = 0;
    for number in 1..=ROUNDS {
        let ids: Vec<u64> = (1..=u64::from(SEQUENCES))
            .map(|place| place + 100 * number)
            .collect();
        for &id in &ids {
            total(grpc.infer(good(&ask(id).start())));
        }
        let before = sizes(&grpc, "fails");
        let bad = BAD + 100 * number;
        let split = |id: u64| if id == bad { 2 } else { 1 };
        let calls: Vec<Call<'_>> = ids
            .iter()
            .map(|&id| grpc.call(step(&ask(id), split(id))))
            .collect();
        for (call, &id) in calls.into_iter().zip(&ids) {
            let answer = call.wait();
            if id == bad {
                let text = error(&answer.unwrap_err());
                assert!(
                    text.starts_with("Internal: Internal inference error"),
                    "{text}"
                );
                assert!(text.ends_with("has been closed"), "{text}");
            } else {
                assert_eq!(total(answer), (id, ask(id).data.2[0] * 2.0));
            }
        }
        let unknown = Wire::Raw.error(
            tonic::Code::NotFound,
            404,
            "Sequence with provided ID does not exist",
        );
        assert_eq!(grpc.refused(good(&ask(bad))), unknown);
        // A batch that fails runs again, each step alone.
        let alone = sizes(&grpc, "fails")[&1] - before[&1];
        refused_in_batches += u64::from(alone > 2);
        // The others go on.
        for &id in ids.iter().filter(|&&id| id != bad) {
            let expected = ask(id).data.2[0] * 3.0;
            assert_eq!(total(grpc.infer(good(&ask(id).end()))), (id, expected));
        }
        if refused_in_batches > 0 {
            return;
        }
    }
    panic!("no step was refused in a batch");
}

#[test]
fn a_step_that_is_given_up_changes_no_other_one() {
    const NAME: &str = "given_up";
    let grpc = picky(NAME);
    let ask = |id| ask(NAME, id);
    let ids = 1..=u64::from(SEQUENCES);
    let mut totals: BTreeMap<u64, f32> = ids
        .clone()
        .map(|id| total(grpc.infer(good(&ask(id).start()))))
        .collect();
    for number in 0..30 {
        // Batches fail as well while clients leave.
        let bad = || Ask::new(NAME, 99.0).id(99);
        total(grpc.infer(good(&bad().start())));
        let bad = grpc.call(step(&bad(), 2));
        let is_cancelled = |id: u64| id % 4 == number % 4;
        let is_late = |id: u64| id % 4 == (number + 1) % 4;
        let calls: Vec<(u64, Call<'_>)> = ids
            .clone()
            .filter(|&id| !is_late(id))
            .map(|id| (id, grpc.call(good(&ask(id)))))
            .collect();
        for id in ids.clone().filter(|&id| is_late(id)) {
            let mut request = tonic::Request::new(good(&ask(id)));
            request.set_timeout(Duration::from_micros(200));
            // Whether it was in time is up to the machine.
            let _ = grpc.infer(request);
        }
        for (id, call) in calls {
            if is_cancelled(id) {
                drop(call);
                continue;
            }
            let (_, found) = total(call.wait());
            assert_eq!(found, totals[&id] + ask(id).data.2[0]);
            totals.insert(id, found);
        }
        bad.wait().unwrap_err();
        for id in ids.clone().filter(|&id| is_cancelled(id) || is_late(id)) {
            let (_, found) = total(grpc.infer(good(&ask(id))));
            let own = ask(id).data.2[0];
            // It has run or it has not, and no more than once.
            let steps = [totals[&id] + own, totals[&id] + 2.0 * own];
            assert!(steps.contains(&found), "{found}, not of {steps:?}");
            totals.insert(id, found);
        }
    }
}

#[test]
fn steps_that_run_together_give_what_each_gives_alone() {
    const STEPS: u8 = 6;
    line(&SERVER, "together", "up to 8 steps run as one inference");
    let step = |name: &str, id: u64, step: u8| {
        let ask = Ask::new(name, f32::from(step) / 8.0).id(id);
        match step {
            1 => ask.start(),
            STEPS => ask.end(),
            _ => ask,
        }
    };
    let asks = |name| -> Vec<Ask> {
        let steps =
            (1..=STEPS).flat_map(|number| (1..=u64::from(SEQUENCES)).map(move |id| (id, number)));
        steps.map(|(id, number)| step(name, id, number)).collect()
    };
    let client = Client::connect(&SERVER);
    let one_by_one: Vec<_> = asks("alone")
        .iter()
        .map(|ask| client.send(Wire::Raw, ask).unwrap())
        .collect();
    for (name, tolerance) in [("together", 1e-3), ("alone", 0.0)] {
        // All at once on one connection, so that many wait.
        let calls: Vec<wire::Call> = asks(name)
            .iter()
            .map(|ask| wire::Call::infer(&infer(ask, true)))
            .collect();
        let answers = wire::send(&SERVER, &calls);
        for (expected, answer) in one_by_one.iter().zip(answers) {
            let found = of_infer(&ModelInferResponse::decode(answer.unwrap()).unwrap());
            assert_eq!(found.id, expected.id);
            assert_eq!(found.values.len(), expected.values.len());
            for (found, expected) in found.values.iter().zip(&expected.values) {
                let is_near = (found - expected).abs() <= tolerance;
                assert!(is_near, "{found}, not {expected} within {tolerance}");
            }
        }
    }
}

#[test]
fn a_model_that_does_not_bear_it_runs_steps_one_by_one_and_says_why() {
    for (fixture, reason) in [
        (
            "running_rows",
            "`total` has no row for each request of a batch",
        ),
        ("running_mixed", " where a request alone gives "),
    ] {
        let line = line(&SERVER, fixture, "sequence_batch is off");
        assert!(line.contains(reason), "{line}");
        let calls: Vec<_> = (1..=u64::from(SEQUENCES))
            .map(|id| {
                let ask = Ask::new(fixture, 1.0).id(id).output("total", false);
                wire::Call::infer(&infer(&ask.start(), true))
            })
            .collect();
        for answer in wire::send(&SERVER, &calls) {
            let answer = ModelInferResponse::decode(answer.unwrap()).unwrap();
            assert_eq!(of_infer(&answer).total().1, 1.0, "{fixture}");
        }
    }
}
