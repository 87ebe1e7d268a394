//! Places of states: both modes answer the same, models that refuse are named, and idle
//! sequences take little memory.

use serde_json::{Value, json};

use super::shared;
use crate::support::{
    repository,
    sequence::{Ask, Client, Wire, entry, infer, serve, serve_file, write},
    server::memory,
    wire::{self, Call},
};

/// Stateful fixtures, with the shape of their input.
pub(super) const FIXTURES: [(&str, &str, &[i64]); 12] = [
    ("running_total", "x", &[1, 4]),
    ("running_from", "x", &[1, 4]),
    ("running_busy", "x", &[1, 4]),
    ("running_fail", "x", &[1, 4]),
    ("running_large", "x", &[1, 3, 256, 256]),
    ("running_kinds", "x", &[1, 4]),
    (OTHERS, "x", &[1, 4]),
    ("running_first", "x", &[1, 4]),
    ("running_rows", "x", &[1, 4]),
    ("running_wide", "x", &[1, 4]),
    ("running_old", "x", &[1, 4]),
    ("vad_stateful", "audio", &[1, 512]),
];

/// Fixtures that are heavy, or are unrolled, for which their entries need a shape.
const OTHER_FIXTURES: [(&str, &str, &[i64]); 4] = [
    ("running_heavy", "x", &[1, 4]),
    ("running_loop", "x", &[1, 1, 4]),
    ("lstm_ti", "x", &[1, 1, 8]),
    ("lstm_loop", "x", &[1, 1, 8]),
];

/// One whose variables the runtime itself cannot have.
const OTHERS: &str = "running_others";

fn in_mode(name: &str, fixture: &str, mode: &str) -> Value {
    let mut entry = entry(name, fixture);
    entry["state_mode"] = json!(mode);
    entry["nireq"] = json!(2);
    let unrolled = OTHER_FIXTURES
        .iter()
        .find(|it| it.0 == fixture && it.2.len() == 3);
    if let Some((.., shape)) = unrolled {
        entry["low_latency_transformation"] = json!(true);
        let lengths: Vec<_> = shape.iter().map(ToString::to_string).collect();
        entry["shape"] = json!(format!("({})", lengths.join(",")));
    }
    entry
}

/// Creates a request whose numbers depend on the sequence and the step.
pub(super) fn ask(model: String, fixture: &str, id: u64, step: u8) -> Ask {
    let mut known = FIXTURES.iter().chain(&OTHER_FIXTURES);
    let (_, input, shape) = *known.find(|known| known.0 == fixture).unwrap();
    let length = shape.iter().product::<i64>();
    let number = |place: i64| f32::from(u8::try_from(place % 7).unwrap() + step) / 8.0;
    let mut ask = Ask::new(&model, 0.0).id(id);
    ask.data = (
        input,
        shape.to_vec(),
        (0..length)
            .map(|place| number(place + id.cast_signed()))
            .collect(),
    );
    match fixture {
        "running_busy" => ask.extra("steps", 1),
        "running_fail" => ask.extra("split", 2),
        _ => ask,
    }
}

#[test]
fn a_state_that_is_an_input_is_that_of_the_step() {
    let client = shared::connect();
    let step = |id: u64, length: usize, number: f32| {
        let mut ask = Ask::new("last", 0.0).id(id);
        let shape = vec![1, i64::try_from(length).unwrap()];
        ask.data = ("x", shape, vec![number; length]);
        ask
    };
    let total = |ask: &Ask| client.send(Wire::Raw, ask).unwrap().values[0];
    // Of two sequences on one infer request; some steps are so long that they are read where they lie.
    assert_eq!(total(&step(1, 3, 1.0).start()), 3.0);
    assert_eq!(total(&step(2, 2, 10.0).start()), 20.0);
    for (length, number, [one, other]) in [
        (5, 1.0, [8.0, 70.0]),
        (2, 2.0, [9.0, 90.0]),
        (70_000, 1.0, [70_004.0, 700_040.0]),
        (2, 1.0, [70_002.0, 700_020.0]),
        (3, 1.0, [5.0, 50.0]),
    ] {
        assert_eq!(total(&step(1, length, number)), one, "{length}");
        assert_eq!(total(&step(2, length, 10.0 * number)), other, "{length}");
    }
}

#[test]
fn both_modes_answer_the_same_bits_over_every_api() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    let modes = ["tensors", "requests"];
    let fixtures = || {
        let all = FIXTURES.iter().chain(&OTHER_FIXTURES);
        all.filter(|(fixture, ..)| *fixture != OTHERS)
    };
    let entries = fixtures().flat_map(|(fixture, ..)| {
        modes.map(|mode| in_mode(&format!("{fixture}-{mode}"), fixture, mode))
    });
    write(&path, &entries.collect::<Vec<_>>());
    let server = serve_file(&path, &[]);
    let client = Client::connect(&server);
    assert!(
        !server.log().contains("state_mode is requests"),
        "{}",
        server.log()
    );
    for &(fixture, ..) in fixtures() {
        for wire in Wire::ALL {
            // JSON of the large one takes long.
            let is_json = matches!(wire, Wire::TfsRest | Wire::Json);
            let ids: &[u64] = match fixture == "running_large" && is_json {
                true => &[7],
                false => &[7, 8],
            };
            for step in 1..=5 {
                for &id in ids {
                    let [tensors, requests] = modes.map(|mode| {
                        let ask = ask(format!("{fixture}-{mode}"), fixture, id, step);
                        let ask = match step {
                            1 => ask.start(),
                            5 => ask.end(),
                            _ => ask,
                        };
                        client.send(wire, &ask).unwrap()
                    });
                    assert!(!tensors.values.is_empty());
                    let bits = |values: &[f32]| -> Vec<u32> {
                        values.iter().map(|value| value.to_bits()).collect()
                    };
                    assert_eq!(
                        bits(&tensors.values),
                        bits(&requests.values),
                        "{fixture} {wire:?} step {step} of {id}"
                    );
                    assert_eq!(tensors, requests);
                }
            }
        }
    }
}

#[test]
fn types_that_the_runtime_has_no_variables_of_are_tensors() {
    let client = shared::connect();
    for (wire, id) in Wire::ALL.into_iter().zip(1..) {
        for (step, total) in [(1, 618.0), (2, 636.0), (3, 654.0)] {
            let ask = Ask::new(OTHERS, 3.0).id(id);
            let ask = if step == 1 { ask.start() } else { ask };
            assert_eq!(client.total(wire, &ask), (id, total), "{wire:?}");
        }
    }
}

#[test]
fn unrolled_loops_have_tensors_and_begin_with_what_the_loop_begins_with() {
    let server = shared::server();
    let client = Client::connect(server);
    for (step, total) in [(1, 101.0), (2, 102.0), (3, 103.0)] {
        let mut ask = Ask::new("unrolled", 1.0).id(5);
        ask.data.1 = vec![1, 1, 4];
        let ask = if step == 1 { ask.start() } else { ask };
        assert_eq!(client.total(Wire::Raw, &ask), (5, total));
    }
    let lines = server.log_of("unrolled").join("\n");
    assert!(
        !lines.is_empty() && !lines.contains("state_mode is requests"),
        "{lines}"
    );
}

#[test]
fn a_model_that_refuses_has_requests_and_a_line_that_says_why() {
    let server = shared::server();
    let line = shared::line(server, "twice", "state_mode is requests");
    let reason = "variable `total` is read 2 times and written 1 times, not once each";
    assert!(line.contains(reason), "{line}");
    let client = Client::connect(server);
    let ask = |x| Ask::new("twice", x).id(3);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).start()), (3, 101.0));
    assert_eq!(client.total(Wire::Raw, &ask(2.0)), (3, 103.0));
}

#[test]
fn a_step_that_fails_closes_its_sequence_and_leaves_others_as_they_were() {
    let client = shared::connect();
    let ask = |id, split| Ask::new("fails_one", 1.0).id(id).extra("split", split);
    for id in [1, 2] {
        assert_eq!(client.total(Wire::Raw, &ask(id, 2).start()), (id, 1.0));
    }
    let refused = client.refused(Wire::Raw, &ask(1, 3));
    assert!(
        refused.ends_with(" - sequence 1 has been closed"),
        "{refused}"
    );
    assert_eq!(client.total(Wire::Raw, &ask(2, 2)), (2, 2.0));
    assert_eq!(client.refused(Wire::Raw, &ask(1, 2)), Wire::Raw.unknown());
    assert_eq!(client.total(Wire::Raw, &ask(1, 2).start()), (1, 1.0));
}

#[test]
fn an_idle_sequence_takes_little_beyond_its_state() {
    const MANY: u64 = 20_000;
    const BATCH: usize = 100;
    let most = MANY.to_string();
    let server = serve("running_total", &["--max_sequence_number", &most]);
    let start = |ids: std::ops::Range<u64>| {
        let calls =
            ids.map(|id| Call::infer(&infer(&Ask::new("running_total", 1.0).id(id).start(), true)));
        for answer in wire::send(&server, &calls.collect::<Vec<_>>()) {
            answer.unwrap();
        }
    };
    for first in (1..=MANY / 10).step_by(BATCH) {
        start(first..first + BATCH as u64);
    }
    let before = memory(&server, "VmRSS:");
    for first in (MANY / 10 + 1..=MANY).step_by(BATCH) {
        start(first..first + BATCH as u64);
    }
    let more = memory(&server, "VmRSS:") - before;
    let each = more / usize::try_from(MANY - MANY / 10).unwrap();
    assert!(each <= 1024, "{each} bytes for each sequence");
}
