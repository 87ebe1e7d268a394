//! Dynamic batching beside system shared memory: rows of a batch come from regions, and go into them.

use std::sync::{
    LazyLock,
    atomic::{AtomicBool, Ordering},
};

use ovms::proto::kserve::{
    ModelInferRequest,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

use serde_json::json;

use super::batching::sizes;
use crate::support::{
    Server, eventually,
    grpc::{self, Grpc, floats, to_floats},
    model,
    pipelines::Config,
    shared_memory::{ON, Object, placed},
};

/// The server of a model for each test, whose name its regions have.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    for (name, delay) in [("whole", 300_000), ("truncated", 5_000)] {
        let entry = config.model(name, &model("passthrough_f32"));
        entry["nireq"] = json!(1);
        entry["dynamic_batching"] = json!({"max_batch": 4, "max_delay_us": delay});
    }
    config.serve_kept(&ON)
});

/// Numbers of a row, and their bytes.
const WIDTH: usize = 64;
const SIZE: i64 = 256;

/// Makes a request for a row in the first half of a region, whose answer goes into the second one.
fn ask(name: &str, number: u8) -> ModelInferRequest {
    let region = format!("{name}{number}");
    ModelInferRequest {
        model_name: name.to_owned(),
        inputs: vec![InferInputTensor {
            parameters: placed(&region, 0, SIZE),
            ..grpc::input("in", "FP32", &[1, 64])
        }],
        outputs: vec![InferRequestedOutputTensor {
            parameters: placed(&region, SIZE, SIZE),
            ..grpc::wanted("out")
        }],
        ..ModelInferRequest::default()
    }
}

/// Makes the objects of four clients, each of numbers of its own.
fn objects(grpc: &Grpc, name: &str) -> [Object; 4] {
    [1.0, 2.0, 3.0, 4.0].map(|number| {
        let object = Object::new(&[floats(&[number; WIDTH]), vec![0; 256]].concat());
        object.register(grpc, &format!("{name}{number}"));
        object
    })
}

/// Returns the answer in an object.
fn answer(object: &Object) -> Vec<f32> {
    to_floats(&object.contents()[256..])
}

#[test]
fn rows_of_a_batch_are_in_regions() {
    const MODEL: &str = "whole";
    let grpc = Grpc::connect(&SERVER);
    let objects = objects(&grpc, MODEL);
    let ask = |number| ask(MODEL, number);
    let calls = [1, 2, 3, 4].map(|number| grpc.call(ask(number)));
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
    let calls = [ask(1), plain(), ask(3), plain()].map(|asked| grpc.call(asked));
    let answers = calls.map(|call| call.wait().unwrap().raw_output_contents.remove(0));
    assert_eq!(answers.map(|it| it.len()), [0, 256, 0, 256]);
    assert_eq!(sizes(&grpc, MODEL), [(4, 2)]);
}

#[test]
fn a_region_that_is_truncated_fails_the_request_of_its_owner_alone() {
    const ROUNDS: usize = 150;
    const MODEL: &str = "truncated";
    let grpc = Grpc::connect(&SERVER);
    let objects = objects(&grpc, MODEL);
    let ask = |number| ask(MODEL, number);
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
            let calls = [1, 2, 3, 4].map(|number| (number, grpc.call(ask(number))));
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
    for (number, object) in [1.0, 3.0, 4.0]
        .into_iter()
        .zip([&objects[0], &objects[2], &objects[3]])
    {
        assert_eq!(answer(object), [number; WIDTH]);
    }
    let batches = || -> u64 {
        let found = sizes(&grpc, MODEL).into_iter();
        found.filter(|(size, _)| *size > 1).map(|it| it.1).sum()
    };
    let before = batches();
    assert!(before > 0);
    objects[1].truncate(512);
    eventually("batches go on", || {
        let calls = [1, 2, 3, 4].map(|number| grpc.call(ask(number)));
        assert!(calls.map(|call| call.wait()).iter().all(Result::is_ok));
        (batches() > before).then_some(())
    });
}
