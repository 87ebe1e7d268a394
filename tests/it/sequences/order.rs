//! Order of requests: those of one sequence run in order of arrival, and those of others do not
//! wait for them.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the totals of these tests are small whole numbers"
)]

use std::{collections::BTreeSet, fs, pin::pin};

use futures::{future::join_all, poll};
use ovms::proto::{kserve::ModelInferResponse, tensorflow_serving::PredictResponse};
use prost::Message as _;
use serde_json::json;
use tonic::Code;

use super::shared;
use crate::support::{
    Server, fixture,
    grpc::{error, to_floats},
    repository,
    sequence::{Ask, Client, Wire, entry, infer, of_infer, of_predict, predict, write},
    wire::{self, Call},
};

const MODEL: &str = "running_total";

/// The model with two infer requests.
fn ask(x: f32) -> Ask {
    Ask::new("order_two", x)
}

/// Sends requests over one connection without waiting, alternating between both protocols; returns
/// id and total of each, or the refusal.
fn pipelined(client: &Client<'_>, asks: &[Ask]) -> Vec<Result<(u64, f32), String>> {
    let calls = asks.iter().enumerate().map(|(index, ask)| match index % 3 {
        0 => Call::predict(&predict(ask)),
        form => Call::infer(&infer(ask, form == 1)),
    });
    let answers = wire::send(client.server, &calls.collect::<Vec<_>>());
    let answers = answers.into_iter().enumerate().map(|(index, answer)| {
        let answer = answer.map_err(|status| error(&status))?;
        Ok(match index % 3 {
            0 => of_predict(&PredictResponse::decode(answer).unwrap()).total(),
            _ => of_infer(&ModelInferResponse::decode(answer).unwrap()).total(),
        })
    });
    answers.collect()
}

#[test]
fn requests_that_do_not_wait_for_answers_run_in_the_order_in_which_they_were_sent() {
    let client = shared::connect();
    for model in ["order_one", "order_two"] {
        let ask = |x| Ask::new(model, x);
        let mut id = 0;
        for _ in 0..40 {
            id += 1;
            let mut asks = vec![ask(1.0).id(id).start()];
            asks.extend((1..=12).map(|x| ask((1 << x) as f32).id(id)));
            asks.push(ask(8192.0).id(id).end());
            // The sequence is over; the id begins anew; and is unknown once more.
            asks.push(ask(1.0).id(id).start());
            asks.push(ask(1.0).id(id).end());
            asks.push(ask(1.0).id(id));
            let answers = pipelined(&client, &asks);
            let mut expected: Vec<_> = (1..=14).map(|n| Ok((id, ((1 << n) - 1) as f32))).collect();
            // Whether the end has run by then or is still at it, nobody can say.
            assert_eq!(answers[..14], expected[..]);
            let ending = "FailedPrecondition: Sequence last request is being processed and it's \
                          not available anymore";
            let unknown = Wire::Raw.unknown();
            if answers[14] == Err(ending.to_owned()) {
                expected.push(answers[14].clone());
                expected.extend([Err(unknown.clone()), Err(unknown)]);
            } else {
                expected.extend([Ok((id, 1.0)), Ok((id, 2.0)), Err(unknown)]);
            }
            assert_eq!(answers, expected);
        }
    }
}

#[test]
fn sequences_share_a_connection_without_getting_into_each_others_way() {
    let client = shared::connect();
    for _ in 0..10 {
        let ids = 101..=110_u64;
        let step = |change: fn(Ask) -> Ask| {
            let asks = ids.clone().map(move |id| change(ask(id as f32).id(id)));
            asks.collect::<Vec<_>>()
        };
        let mut asks = step(Ask::start);
        for _ in 0..5 {
            asks.extend(step(|ask| ask));
        }
        asks.extend(step(Ask::end));
        let answers = pipelined(&client, &asks);
        let expected = (1..=7).flat_map(|n| ids.clone().map(move |id| Ok((id, (n * id) as f32))));
        assert_eq!(answers, expected.collect::<Vec<_>>());
    }
}

#[test]
fn compressed_requests_keep_their_places_among_others() {
    let client = shared::connect();
    for id in 201..=240 {
        let mut asks = vec![ask(1.0).id(id).start()];
        asks.extend((1..=8).map(|x| ask((1 << x) as f32).id(id)));
        asks.push(ask(512.0).id(id).end());
        let calls = asks.iter().enumerate().map(|(index, ask)| {
            let call = Call::infer(&infer(ask, index % 3 == 0));
            call.compressed((index as u64 + id).is_multiple_of(2))
        });
        let answers = wire::send(client.server, &calls.collect::<Vec<_>>());
        for (n, answer) in (1..).zip(answers) {
            let answer = ModelInferResponse::decode(answer.unwrap()).unwrap();
            let answer = of_infer(&answer);
            assert_eq!(answer.total(), (id, ((1 << n) - 1) as f32));
        }
    }
}

#[test]
fn requests_for_another_model_that_wait_hold_up_no_sequence() {
    let (stuck, folder) = (repository::endless(), repository::folder());
    let path = folder.path().join("config.json");
    let loads = json!({"name": "stuck", "base_path": stuck.path()});
    write(&path, &[entry("m", MODEL), loads]);
    let server = Server::of_file(&path, &[]);
    server.wait_log(r#" loaded model="m""#);
    // Until it begins, its requests are refused.
    server.wait_log(r#" loading model="stuck""#);
    let client = Client::connect(&server);
    let mut grpc = client.tfs.grpc.client.clone();
    client.tfs.grpc.runtime.block_on(async {
        let mut other = grpc.clone();
        let mut waits = pin!(other.model_infer(infer(&Ask::new("stuck", 1.0).version(1), true)));
        assert!(poll!(waits.as_mut()).is_pending(), "it is on its way");
        for x in 1..=5_u8 {
            let ask = Ask::new("m", 1.0).id(7);
            let ask = if x == 1 { ask.start() } else { ask };
            let answer = grpc.model_infer(infer(&ask, true)).await.unwrap();
            assert_eq!(of_infer(answer.get_ref()).total(), (7, f32::from(x)));
        }
        let still = poll!(waits.as_mut());
        assert!(still.is_pending(), "{still:?}");
    });
}

#[test]
fn a_sequence_goes_on_in_any_protocol() {
    let client = shared::connect();
    let ask = |x| Ask::new(MODEL, x);
    for (index, first) in Wire::ALL.into_iter().enumerate() {
        let id = u64::MAX - index as u64;
        assert_eq!(client.total(first, &ask(1.0).id(id).start()), (id, 1.0));
        let mut total = 1.0;
        for wire in Wire::ALL {
            total += 1.0;
            assert_eq!(client.total(wire, &ask(1.0).id(id)), (id, total));
            let exists = "Sequence with provided ID already exists";
            assert_eq!(
                client.refused(wire, &ask(1.0).id(id).start()),
                wire.error(Code::AlreadyExists, 409, exists)
            );
        }
        for wire in Wire::KSERVE {
            total += 1.0;
            let by_parameter = ask(1.0).parameter("sequence_id", id.to_string());
            assert_eq!(client.total(wire, &by_parameter), (id, total));
        }
        let last = Wire::ALL[(index + 1) % Wire::ALL.len()];
        assert_eq!(
            client.total(last, &ask(1.0).id(id).end()),
            (id, total + 1.0)
        );
        assert_eq!(client.refused(first, &ask(1.0).id(id)), first.unknown());
    }
}

#[test]
fn clients_of_one_sequence_take_turns() {
    const EACH: usize = 30;
    let server = shared::server();
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(301).start());
    let totals: Vec<f32> = std::thread::scope(|scope| {
        let clients = Wire::ALL.map(|wire| {
            scope.spawn(move || {
                let own = Client::connect(server);
                let totals = (0..EACH).map(|_| own.total(wire, &ask(1.0).id(301)).1);
                totals.collect::<Vec<_>>()
            })
        });
        let totals = clients.into_iter().map(|client| client.join().unwrap());
        totals
            .inspect(|own| assert!(own.is_sorted(), "each sees the sum grow"))
            .flatten()
            .collect()
    });
    let all: BTreeSet<u32> = totals.iter().map(|&total| total as u32).collect();
    let count = u32::try_from(EACH * Wire::ALL.len()).unwrap();
    assert_eq!(
        all,
        (2..=count + 1).collect(),
        "nothing is lost, nothing is seen twice"
    );
    assert_eq!(
        client.total(Wire::Raw, &ask(1.0).id(301).end()).1,
        (count + 2) as f32
    );
}

/// Reads the f32 elements of a NumPy file.
fn elements(path: &str) -> Vec<f32> {
    let bytes = fs::read(fixture(path)).unwrap();
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let head = String::from_utf8_lossy(&bytes[10..10 + header]);
    assert!(head.contains("'descr': '<f4'"), "{head}");
    to_floats(&bytes[10 + header..])
}

#[test]
fn sequences_that_run_in_turn_give_what_each_gives_alone() {
    const SEQUENCES: usize = 50;
    let frames = elements("sequences/vad_frames.npy");
    let frames: Vec<&[f32]> = frames.chunks_exact(512).collect();
    let expected = elements("expected/vad_prob.npy");
    assert_eq!((frames.len(), expected.len()), (153, 153));
    // The first is the whole recording; the others are shorter, and none begins with another.
    let length = |sequence: usize| {
        if sequence == 0 {
            153
        } else {
            10 + sequence % 20
        }
    };
    let client = shared::connect();
    // With one infer request, and with two.
    for model in ["vad_one", "vad_two"] {
        let mut answered = 0;
        for tick in 0..153_usize {
            let running = (0..SEQUENCES).filter_map(|sequence| {
                let frame = tick.checked_sub(sequence)?;
                (frame < length(sequence)).then_some((sequence, frame))
            });
            let running: Vec<_> = running.collect();
            let calls = running.iter().map(|&(sequence, frame)| {
                let ask = Ask {
                    data: ("audio", vec![1, 512], frames[frame].to_vec()),
                    ..Ask::new(model, 0.0).id(sequence as u64 + 1)
                };
                let ask = match frame {
                    0 => ask.start(),
                    last if last + 1 == length(sequence) => ask.end(),
                    _ => ask,
                };
                let mut grpc = client.tfs.grpc.client.clone();
                async move { grpc.model_infer(infer(&ask, true)).await }
            });
            let answers = client.tfs.grpc.runtime.block_on(join_all(calls));
            for ((sequence, frame), answer) in running.into_iter().zip(answers) {
                let answer = of_infer(answer.unwrap().get_ref());
                assert_eq!(answer.id, sequence as u64 + 1);
                let difference = (answer.values[0] - expected[frame]).abs();
                assert!(
                    difference < 1e-5,
                    "sequence {sequence}, frame {frame}: {} instead of {}",
                    answer.values[0],
                    expected[frame]
                );
                answered += 1;
            }
        }
        assert_eq!(answered, (0..SEQUENCES).map(length).sum::<usize>());
    }
}
