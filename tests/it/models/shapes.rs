//! Shapes and batch sizes: configured, requested, and refused.

use std::fs;

use ovms::{
    openvino::{BatchOption, LoadOptions, ModelLoadError, PerTensor, ShapeOption},
    tensor::{DataType, Dim, PartialShape, Tensor, npy},
};
use serde_json::json;

use crate::support::{
    grpc::{Grpc, floats},
    loaded::{describe, error, infer, infer_copied, load, options},
    model,
    pipelines::{self, Config, request},
    repository,
};

fn dims(dims: &[Dim]) -> ShapeOption {
    ShapeOption::Dims(PartialShape(dims.to_vec()))
}

fn fixed(lengths: &[usize]) -> ShapeOption {
    ShapeOption::Dims(PartialShape(
        lengths.iter().copied().map(Dim::Fixed).collect(),
    ))
}

fn anonymous(shape: ShapeOption) -> LoadOptions {
    LoadOptions {
        shapes: PerTensor::Anonymous(shape),
        ..options()
    }
}

fn named(shapes: &[(&str, ShapeOption)]) -> LoadOptions {
    let shapes = shapes
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), shape.clone()));
    LoadOptions {
        shapes: PerTensor::Named(shapes.collect()),
        ..options()
    }
}

fn batch(batch: BatchOption) -> LoadOptions {
    LoadOptions {
        batch: Some(batch),
        ..options()
    }
}

/// Loads `dummy` with options and describes it.
fn dummy(options: &LoadOptions) -> String {
    describe(&load(&model("dummy"), options, &[]).unwrap())
}

#[test]
fn one_input_takes_the_shape_without_a_name() {
    assert_eq!(
        dummy(&anonymous(fixed(&[3, 5]))),
        "b (3,5) N..., a (3,5) N..."
    );
    assert_eq!(
        dummy(&anonymous(dims(&[Dim::Range(1, 4), Dim::Any]))),
        "b ([1~4],-1) N..., a ([1~4],-1) N..."
    );
}

#[test]
fn an_open_dimension_takes_any_length_and_a_range_those_within() {
    let options = anonymous(dims(&[Dim::Range(1, 3), Dim::Any]));
    let dummy = load(&model("dummy"), &options, &[]).unwrap();
    for shape in [[1, 1], [3, 2], [2, 7]] {
        let ones = vec![1.0; shape[0] * shape[1]];
        let outputs = infer(&dummy, &[("b", &shape, &ones)]).unwrap();
        assert_eq!(outputs, [(shape.to_vec(), vec![2.0; ones.len()])]);
    }
    insta::assert_snapshot!(
        infer(&dummy, &[("b", &[4, 1], &[0.0; 4])]).unwrap_err(),
        @"Invalid input batch size - Expected: [1~3]; Actual: 4; input name: b"
    );
}

#[test]
fn an_output_that_is_an_input_is_that_of_the_request() {
    // Of 30 numbers, which are copied, and of as many as are read where they lie, or whose output is given away.
    let lengths = [30, 70_000, 70_000, 30, 70_000];
    for fixed_length in [None, Some(30), Some(70_000)] {
        let options = fixed_length.map_or_else(options, |length| anonymous(fixed(&[1, length])));
        let passed_on = load(&model("passed_on"), &options, &[]).unwrap();
        let fits = |length: &usize| fixed_length.is_none_or(|fixed| fixed == *length);
        let lengths = lengths.into_iter().filter(fits);
        for (number, length) in (1_u8..).map(f32::from).zip(lengths) {
            for infer in [infer, infer_copied, infer_copied] {
                let given = vec![number; length];
                let outputs = infer(&passed_on, &[("x", &[1, length], &given)]).unwrap();
                let total = (vec![1], vec![number * length as f32]);
                let is_right = outputs == [total, (vec![1, length], given)];
                assert!(is_right, "{length} of {number}, {fixed_length:?}");
            }
        }
    }
}

#[test]
fn several_inputs_take_shapes_by_name() {
    let options = named(&[
        ("input1", dims(&[Dim::Any, Dim::Fixed(10)])),
        ("input2", fixed(&[1, 10])),
    ]);
    let add = load(&model("add"), &options, &[]).unwrap();
    assert_eq!(
        describe(&add),
        "input1 (-1,10) N..., input2 (1,10) N..., sum (-1,10) N..."
    );
    let rows: Vec<f32> = (0..20_u8).map(f32::from).collect();
    let outputs = infer(
        &add,
        &[
            ("input1", &[2, 10], &rows),
            ("input2", &[1, 10], &[1.0; 10]),
        ],
    );
    let expected = rows.iter().map(|value| value + 1.0).collect();
    assert_eq!(outputs.unwrap(), [(vec![2, 10], expected)]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let one = || fixed(&[1, 10]);
    let errors = [
        error(&model("add"), &anonymous(one())),
        error(&model("add"), &named(&[("input3", one())])),
        error(&model("classifier"), &anonymous(fixed(&[1, 5, 224, 224]))),
        error(
            &model("add"),
            &named(&[("input1", fixed(&[1, 3])), ("input2", fixed(&[1, 4]))]),
        ),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    Anonymous fixed shape is invalid for models with multiple inputs - the model has: input1, input2; give each its shape by name
    Shape from config not found in model - no input `input3`; the model has: input1, input2
    Model could not be reshaped with requested shape - image (1,5,224,224)
    Model could not be reshaped with requested shape - input1 (1,3), input2 (1,4)
    ");
}

#[test]
fn the_batch_size_is_for_all_inputs() {
    let add = load(
        &model("add"),
        &batch(BatchOption::Dim(Dim::Range(1, 4))),
        &[],
    );
    assert_eq!(
        describe(&add.unwrap()),
        "input1 ([1~4],10) N..., input2 ([1~4],10) N..., sum ([1~4],10) N..."
    );
    assert_eq!(
        dummy(&batch(BatchOption::Dim(Dim::Fixed(7)))),
        "b (7,10) N..., a (7,10) N..."
    );
    assert_eq!(
        dummy(&batch(BatchOption::Dim(Dim::Any))),
        "b (-1,10) N..., a (-1,10) N..."
    );
}

#[test]
fn the_shape_wins_over_the_batch_size() {
    let both = LoadOptions {
        batch: Some(BatchOption::Dim(Dim::Fixed(7))),
        ..anonymous(fixed(&[2, 3]))
    };
    assert_eq!(dummy(&both), "b (2,3) N..., a (2,3) N...");
}

#[test]
fn the_batch_axis_is_that_of_the_models_own_layout() {
    let options = batch(BatchOption::Dim(Dim::Fixed(3)));
    let columns = load(&model("columns"), &options, &[]).unwrap();
    assert_eq!(describe(&columns), "x (2,3) CN, sum (3) N");
    let values = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0];
    let outputs = infer(&columns, &[("x", &[2, 3], &values)]).unwrap();
    assert_eq!(outputs, [(vec![3], vec![11.0, 22.0, 33.0])]);
    insta::assert_snapshot!(
        infer(&columns, &[("x", &[2, 4], &[0.0; 8])]).unwrap_err(),
        @"Invalid input batch size - Expected: 3; Actual: 4; input name: x"
    );
}

#[test]
fn a_scalar_has_no_batch() {
    insta::assert_snapshot!(error(&model("scalar"), &batch(BatchOption::Auto)), @"Invalid batch dimension in shape - input `x` has no batch dimension: shape (), layout ...");
}

#[test]
fn auto_shapes_are_the_models_own_until_a_request_asks_for_others() {
    let options = anonymous(ShapeOption::Auto);
    let add = load(&model("add"), &options, &[]).unwrap();
    assert_eq!(
        describe(&add),
        "input1 (1,10) N..., input2 (1,10) N..., sum (1,10) N..."
    );
    let asked: [(&str, &[usize]); 2] = [("input1", &[2, 3]), ("input2", &[2, 3])];
    let add = load(&model("add"), &options, &asked).unwrap();
    assert_eq!(
        describe(&add),
        "input1 (2,3) N..., input2 (2,3) N..., sum (2,3) N..."
    );
    let ones = [1.0; 6];
    let outputs = infer(
        &add,
        &[("input1", &[2, 3], &ones), ("input2", &[2, 3], &ones)],
    );
    assert_eq!(outputs.unwrap(), [(vec![2, 3], vec![2.0; 6])]);
}

#[test]
fn a_shape_that_a_request_asks_for_may_not_suit_the_model() {
    let options = anonymous(ShapeOption::Auto);
    let refused = load(
        &model("classifier"),
        &options,
        &[("image", &[1, 4, 224, 224])],
    );
    assert!(matches!(refused, Err(ModelLoadError::Reshape { .. })));
}

#[test]
fn an_auto_batch_takes_only_the_batch_of_what_is_asked_for() {
    let options = batch(BatchOption::Auto);
    let asked: [(&str, &[usize]); 2] = [("input1", &[4, 11]), ("input2", &[4, 12])];
    let add = load(&model("add"), &options, &asked).unwrap();
    assert_eq!(
        describe(&add),
        "input1 (4,10) N..., input2 (4,10) N..., sum (4,10) N..."
    );
}

#[test]
fn warm_ups_are_for_the_shapes_before_those_of_requests() {
    let mut config = Config::of(&[]);
    let ten = Tensor::new(DataType::F32, vec![1, 10], floats(&[1.0; 10]).into());
    let mut file = fs::File::create(config.beside("ten.npy")).unwrap();
    npy::write(&ten.unwrap(), &mut file).unwrap();
    let root = repository::of(&[("1", "dummy")]);
    fs::write(root.path().join("labels.txt"), "one\ntwo\n").unwrap();
    let dummy = model("dummy");
    for (key, path) in [("shape", root.path()), ("batch_size", dummy.as_path())] {
        let entry = config.model(key, path);
        entry[key] = json!("auto");
        entry["warmup"] = json!({"count": 2, "data": {"b": "ten.npy"}});
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    for name in ["shape", "batch_size"] {
        for (rows, expected) in [(1, "a [1,10] 2"), (2, "a [2,10] 2 2"), (1, "a [1,10] 2")] {
            let ones = vec![1.0; 10 * rows];
            let ask = request(name, &[("b", &[i64::try_from(rows).unwrap(), 10], &ones)]);
            assert_eq!(pipelines::infer(&client, ask), expected, "{name}");
        }
    }
    // What is said of its files is said once.
    server.wait_log("labels do not fit");
    assert_eq!(server.log().matches("labels do not fit").count(), 1);
}
