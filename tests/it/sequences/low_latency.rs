//! Loops over the steps of a sequence, unrolled into one step.

use std::{fs, path::Path};

use ovms::{
    openvino::{Compiled, LoadOptions, ModelLoadError, PerTensor, ShapeOption},
    proto::kserve::ModelInferRequest,
    tensor::{Dim, PartialShape},
};
use serde_json::json;

use super::shared::{line, with};
use crate::support::{
    Server, cli, fixture,
    grpc::{Grpc, floats, input, raw, to_floats},
    loaded::{describe, infer, load, options},
    model, repository,
    sequence::{entry, write},
    server,
};

/// Number of steps in a sequence, and lengths of `x` and `y` in a step.
const STEPS: usize = 12;
const WIDTH: usize = 8;
const OUT: usize = 4;

/// Options that unroll, with a shape for the one input.
fn unrolled(shape: &[Dim]) -> LoadOptions {
    LoadOptions {
        low_latency: true,
        shapes: PerTensor::Anonymous(ShapeOption::Dims(PartialShape(shape.to_vec()))),
        ..options()
    }
}

fn one_step() -> LoadOptions {
    unrolled(&[1, 1, WIDTH].map(Dim::Fixed))
}

/// Reads an array of the fixtures.
fn array(path: &str) -> Vec<f32> {
    let file = fs::read(fixture(path)).unwrap();
    to_floats(ovms::tensor::npy::read(&file.into()).unwrap().data())
}

fn steps() -> Vec<f32> {
    array("sequences/lstm_steps.npy")
}

/// Runs a whole sequence, one request per step; returns all responses.
fn run(model: &Compiled, input: &str, shape: [usize; 3]) -> Vec<f32> {
    let steps = steps();
    let steps = steps.chunks(WIDTH);
    assert_eq!(steps.len(), STEPS);
    steps
        .flat_map(|step| infer(model, &[(input, &shape, step)]).unwrap().remove(0).1)
        .collect()
}

fn assert_as_expected(got: &[f32]) {
    let want = array("expected/lstm_ti_y.npy");
    assert_eq!((got.len(), want.len()), (STEPS * OUT, STEPS * OUT));
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-5, "{got}, not {want}");
    }
}

#[test]
fn steps_give_what_the_whole_sequence_gives() {
    for name in ["lstm_ti", "lstm_loop"] {
        let model = load(&model(name), &one_step(), &[]).unwrap();
        assert_eq!(describe(&model), "x (1,1,8) N..., y (1,1,4) N...", "{name}");
        assert_as_expected(&run(&model, "x", [1, 1, WIDTH]));
    }
}

#[test]
fn a_loop_that_runs_more_than_once_stays_and_remembers() {
    let options = LoadOptions {
        low_latency: true,
        ..options()
    };
    for options in [options, unrolled(&[Dim::Fixed(1), Dim::Any, Dim::Fixed(8)])] {
        let model = load(&model("lstm_ti"), &options, &[]).unwrap();
        let steps = steps();
        let infer = || {
            infer(&model, &[("x", &[1, STEPS, WIDTH], &steps)])
                .unwrap()
                .remove(0)
                .1
        };
        let first = infer();
        assert_as_expected(&first);
        assert_ne!(infer(), first, "the second request goes on from the first");
    }
}

#[test]
fn a_sequence_begins_with_what_the_loop_begins_with() {
    let options = unrolled(&[1, 1, 4].map(Dim::Fixed));
    let model = load(&model("running_loop"), &options, &[]).unwrap();
    for turn in 1..=3_u8 {
        let outputs = infer(&model, &[("x", &[1, 1, 4], &[1.0, 2.0, 3.0, 4.0])]).unwrap();
        let total = [1.0, 2.0, 3.0, 4.0].map(|x| 100.0 + f32::from(turn) * x);
        assert_eq!(outputs, [(vec![1, 1, 4], total.to_vec())]);
    }
}

#[test]
fn models_of_each_format_without_loops_are_as_they_were() {
    let options = LoadOptions {
        low_latency: true,
        ..options()
    };
    for (name, input) in [
        ("dummy", "b"),
        ("dummy_onnx", "b"),
        ("dummy_tf", "b:0"),
        ("dummy_savedmodel", "b"),
        ("dummy_tflite", "b"),
        ("dummy_paddle", "b"),
    ] {
        let model = load(&model(name), &options, &[]).unwrap();
        let outputs = infer(&model, &[(input, &[1, 10], &[1.0; 10])]).unwrap();
        assert_eq!(outputs, [(vec![1, 10], vec![2.0; 10])], "{name}");
    }
}

#[test]
fn names_and_layouts_are_those_that_clients_see() {
    let root = repository::of(&[("1", "lstm_ti")]);
    fs::write(
        root.path().join("1/mapping_config.json"),
        r#"{"inputs":{"x":"steps"},"outputs":{"y":"answers"}}"#,
    )
    .unwrap();
    let mut options = unrolled(&[WIDTH, 1, 1].map(Dim::Fixed));
    let layout = |text| ovms::tensor::Layout::parse(text).unwrap();
    options.layouts = PerTensor::Anonymous(ovms::openvino::LayoutOption {
        tensor: layout("WHN"),
        model: Some(layout("NHW")),
    });
    let model = load(root.path(), &options, &[]).unwrap();
    assert_eq!(describe(&model), "steps (8,1,1) WHN, answers (1,1,4) N...");
    assert_as_expected(&run(&model, "steps", [WIDTH, 1, 1]));
}

#[test]
fn weights_may_be_mapped_although_their_file_is_gone() {
    let mut options = one_step();
    let mapped = ("ENABLE_MMAP".to_owned(), "YES".to_owned());
    options.properties.push(mapped);
    let model = load(&model("lstm_ti"), &options, &[]).unwrap();
    assert_as_expected(&run(&model, "x", [1, 1, WIDTH]));
}

#[test]
fn the_second_load_comes_from_the_cache() {
    let cache = repository::folder();
    let options = LoadOptions {
        cache_dir: Some(cache.path().to_owned()),
        ..one_step()
    };
    for from_cache in [false, true, true] {
        let model = load(&model("lstm_ti"), &options, &[]).unwrap();
        assert_eq!(model.from_cache, from_cache);
        assert_as_expected(&run(&model, "x", [1, 1, WIDTH]));
    }
}

#[test]
fn what_the_model_does_not_take_is_reported_as_for_any_other() {
    let root = model("lstm_ti");
    let error = |options| load(&root, &options, &[]).err().unwrap();
    let reshape = error(unrolled(&[1, 8].map(Dim::Fixed)));
    assert!(
        matches!(reshape, ModelLoadError::Reshape { .. }),
        "{reshape}"
    );
    let broken = LoadOptions {
        low_latency: true,
        ..options()
    };
    let broken = load(&model("broken"), &broken, &[]).err().unwrap();
    assert!(matches!(broken, ModelLoadError::Read { .. }), "{broken}");
}

/// Starts a server of `lstm_ti`, unrolled, in models of these names and shapes, with a folder for temporary files,
/// without waiting.
fn serve(folder: &Path, models: &[(&str, &str)], temporary: &Path) -> Server {
    let ports = server::free_ports();
    let path = folder.join("config.json");
    let entries = models.iter().map(|(name, shape)| {
        let settings = json!({"low_latency_transformation": true, "shape": shape});
        with(entry(name, "lstm_ti"), settings)
    });
    write(&path, &entries.collect::<Vec<_>>());
    let mut command = cli::command();
    command
        .args(["serve", "--config_path"])
        .arg(path)
        .args(["--file_system_poll_wait_seconds", "0"])
        .args(server::on(ports))
        .env("TMPDIR", temporary);
    Server::spawn(&mut command, ports)
}

/// Makes the request for one step of a sequence.
fn request(id: u64, step: &[f32], control: u32) -> ModelInferRequest {
    let mut request = raw("lstm", "x", "FP32", &[1, 1, 8], &floats(step));
    request.inputs.push(input("sequence_id", "UINT64", &[1]));
    request
        .inputs
        .push(input("sequence_control_input", "UINT32", &[1]));
    for contents in [id.to_le_bytes().to_vec(), control.to_le_bytes().to_vec()] {
        request.raw_input_contents.push(contents.into());
    }
    request
}

#[test]
fn a_server_steps_through_sequences_and_reports_a_loop_that_stays() {
    const CONTROLS: [u32; STEPS] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    const SEQUENCES: usize = 50;
    let (folder, temporary) = (repository::folder(), repository::folder());
    let models = [("lstm", "(1,1,8)"), ("stays", "(1,12,8)")];
    let server = serve(folder.path(), &models, temporary.path());
    server.wait_ready();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let line = line(&server, "stays", "low_latency_transformation keeps loops");
    assert!(line.contains("runs 12 times"), "{line}");
    assert!(line.contains("set the option `shape`"), "{line}");

    let client = Grpc::connect(&server);
    let steps = steps();
    // Many at once, each a step behind the one before it; then their ids again.
    for _ in 0..2 {
        let mut got = vec![Vec::new(); SEQUENCES];
        for tick in 0..STEPS + SEQUENCES {
            for (sequence, got) in got.iter_mut().enumerate() {
                let step = tick.checked_sub(sequence).filter(|step| *step < STEPS);
                let Some(step) = step else { continue };
                let part = &steps[step * WIDTH..][..WIDTH];
                let id = sequence as u64 + 1;
                let answer = client.answered(request(id, part, CONTROLS[step]));
                got.extend(to_floats(&answer.raw_output_contents[0]));
            }
        }
        for got in got {
            assert_as_expected(&got);
        }
    }
}

#[test]
fn a_transformation_that_cannot_be_done_is_reported_in_the_log() {
    let root = repository::folder();
    let nowhere = root.path().join("nowhere");
    let server = serve(root.path(), &[("lstm", "(1,1,8)")], &nowhere);
    server.wait_log("cannot apply low_latency_transformation");
    let line = server.wait_log("cannot use the folder for temporary files");
    assert!(line.contains("nowhere"), "{line}");
}
