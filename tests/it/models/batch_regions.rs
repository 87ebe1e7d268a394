//! Dynamic batching beside system shared memory: rows of a batch come from regions, and go into them.

use std::sync::atomic::{AtomicBool, Ordering};

use ovms::proto::kserve::{
    ModelInferRequest,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

use super::batching::{serve_with, sizes};
use crate::support::{
    grpc::{self, Grpc, floats, to_floats},
    shared_memory::{ON, Object, placed},
};

const MODEL: &str = "passthrough_f32";
const BATCHING: &str = r#"{"max_batch":4,"max_delay_us":300000}"#;

/// Numbers of a row, and their bytes.
const WIDTH: usize = 64;
const SIZE: i64 = 256;

/// Makes a request for a row in the first half of a region, whose answer goes into the second one.
fn ask(region: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: MODEL.to_owned(),
        inputs: vec![InferInputTensor {
            parameters: placed(region, 0, SIZE),
            ..grpc::input("in", "FP32", &[1, 64])
        }],
        outputs: vec![InferRequestedOutputTensor {
            parameters: placed(region, SIZE, SIZE),
            ..grpc::wanted("out")
        }],
        ..ModelInferRequest::default()
    }
}

/// Makes the objects of four clients, each of numbers of its own.
fn objects(grpc: &Grpc) -> [Object; 4] {
    [1.0, 2.0, 3.0, 4.0].map(|number| {
        let object = Object::new(&[floats(&[number; WIDTH]), vec![0; 256]].concat());
        object.register(grpc, &format!("r{number}"));
        object
    })
}

/// Returns the answer in an object.
fn answer(object: &Object) -> Vec<f32> {
    to_floats(&object.contents()[256..])
}

#[test]
fn rows_of_a_batch_are_in_regions() {
    let server = serve_with(MODEL, BATCHING, &ON);
    let grpc = Grpc::connect(&server);
    let objects = objects(&grpc);
    let calls = [1, 2, 3, 4].map(|number| grpc.call(ask(&format!("r{number}"))));
    for call in calls {
        let answer = call.wait().unwrap();
        assert_eq!(answer.raw_output_contents, [""]);
        assert_eq!(answer.outputs[0].shape, [1, 64]);
    }
    for (number, object) in [1.0, 2.0, 3.0, 4.0].into_iter().zip(&objects) {
        assert_eq!(answer(object), [number; WIDTH]);
    }
    assert_eq!(sizes(&grpc, MODEL), [(4, 1)]);
    // One beside rows in messages.
    let plain = floats(&[7.0; WIDTH]);
    let plain = || grpc::raw(MODEL, "in", "FP32", &[1, 64], &plain);
    let calls = [ask("r1"), plain(), ask("r3"), plain()].map(|asked| grpc.call(asked));
    let answers = calls.map(|call| call.wait().unwrap().raw_output_contents.remove(0));
    assert_eq!(answers.map(|it| it.len()), [0, 256, 0, 256]);
    assert_eq!(sizes(&grpc, MODEL), [(4, 2)]);
}

#[test]
fn a_region_that_is_truncated_fails_the_request_of_its_owner_alone() {
    const ROUNDS: usize = 150;
    let batching = r#"{"max_batch":4,"max_delay_us":5000}"#;
    let mut server = serve_with(MODEL, batching, &ON);
    let grpc = Grpc::connect(&server);
    let objects = objects(&grpc);
    let done = AtomicBool::new(false);
    let mut refused = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                objects[1].truncate([512, 0, 100, 300][round % 4]);
                round += 1;
            }
        });
        for round in 0..ROUNDS {
            let calls = [1, 2, 3, 4].map(|number| (number, grpc.call(ask(&format!("r{number}")))));
            for (number, call) in calls {
                match call.wait() {
                    Ok(_) => {}
                    Err(status) if number == 2 => {
                        assert!(status.message().contains("was truncated"), "{status:?}");
                        refused += 1;
                    }
                    Err(status) => panic!("{number} in round {round}: {status:?}"),
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(refused > 0);
    assert!(server.ended().is_none());
    for (number, object) in [1.0, 3.0, 4.0]
        .into_iter()
        .zip([&objects[0], &objects[2], &objects[3]])
    {
        assert_eq!(answer(object), [number; WIDTH]);
    }
    let found = sizes(&grpc, MODEL);
    assert!(found.iter().any(|(size, _)| *size > 1), "{found:?}");
    objects[1].truncate(512);
    let calls = [1, 2, 3, 4].map(|number| grpc.call(ask(&format!("r{number}"))));
    assert!(calls.map(|call| call.wait()).iter().all(Result::is_ok));
    assert!(
        sizes(&grpc, MODEL).contains(&(4, sizes(&grpc, MODEL).last().unwrap().1)),
        "batches go on"
    );
}
