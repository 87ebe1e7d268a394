//! Client layouts that differ from the model's, and mapped tensor names.

use ovms::{
    openvino::{BatchOption, LayoutOption, LoadOptions, PerTensor, ShapeOption},
    tensor::{Dim, Layout, PartialShape},
};

use crate::support::{
    loaded::{describe, error, infer, load, options},
    model, repository,
};

fn layout(text: &str) -> LayoutOption {
    let (tensor, of_model) = match text.split_once(':') {
        Some((tensor, of_model)) => (tensor, Some(of_model)),
        None => (text, None),
    };
    LayoutOption {
        tensor: Layout::parse(tensor).unwrap(),
        model: of_model.map(|text| Layout::parse(text).unwrap()),
    }
}

fn anonymous(text: &str) -> LoadOptions {
    LoadOptions {
        layouts: PerTensor::Anonymous(layout(text)),
        ..options()
    }
}

fn named(layouts: &[(&str, &str)]) -> LoadOptions {
    let layouts = layouts
        .iter()
        .map(|(name, text)| ((*name).to_owned(), layout(text)));
    LoadOptions {
        layouts: PerTensor::Named(layouts.collect()),
        ..options()
    }
}

/// Returns an image of 20 by 30 pixels with three channels as NHWC, and the expected output as
/// NCHW.
fn image() -> (Vec<f32>, Vec<f32>) {
    let value = |y: u16, x: u16, channel: u16| f32::from((y * 30 + x) * 3 + channel);
    let pixels = || (0..20).flat_map(|y| (0..30).map(move |x| (y, x)));
    let nhwc = pixels()
        .flat_map(|(y, x)| (0..3).map(move |channel| value(y, x, channel)))
        .collect();
    let nchw = (0..3)
        .flat_map(|channel| pixels().map(move |(y, x)| value(y, x, channel) + 1.0))
        .collect();
    (nhwc, nchw)
}

#[test]
fn an_input_is_transposed_to_what_the_model_has() {
    let model = load(&model("increment4d"), &anonymous("NHWC:NCHW"), &[]).unwrap();
    assert_eq!(
        describe(&model),
        "input (1,20,30,3) NHWC, output (1,3,20,30) N..."
    );
    let (nhwc, nchw) = image();
    let outputs = infer(&model, &[("input", &[1, 20, 30, 3], &nhwc)]).unwrap();
    assert_eq!(outputs, [(vec![1, 3, 20, 30], nchw)]);
}

#[test]
fn an_output_is_transposed_from_what_the_model_has() {
    let options = named(&[("input", "NHWC:NCHW"), ("output", "N...C:NC...")]);
    let model = load(&model("increment4d"), &options, &[]).unwrap();
    assert_eq!(
        describe(&model),
        "input (1,20,30,3) NHWC, output (1,20,30,3) N...C"
    );
    let (nhwc, _) = image();
    let outputs = infer(&model, &[("input", &[1, 20, 30, 3], &nhwc)]).unwrap();
    let expected = nhwc.iter().map(|value| value + 1.0).collect();
    assert_eq!(outputs, [(vec![1, 20, 30, 3], expected)]);
}

#[test]
fn an_output_of_open_shape_is_transposed_too() {
    let options = LoadOptions {
        batch: Some(BatchOption::Dim(Dim::Any)),
        ..named(&[("twice", "CN:NC")])
    };
    let model = load(&model("two_outputs"), &options, &[]).unwrap();
    assert_eq!(
        describe(&model),
        "x (-1,4) N..., total (-1) N..., twice (4,-1) CN"
    );
    let values: Vec<f32> = (0..8_u8).map(f32::from).collect();
    let outputs = infer(&model, &[("x", &[2, 4], &values)]).unwrap();
    assert_eq!(outputs[0], (vec![2], vec![6.0, 22.0]));
    assert_eq!(
        outputs[1],
        (vec![4, 2], vec![0.0, 8.0, 2.0, 10.0, 4.0, 12.0, 6.0, 14.0])
    );
    let none = infer(&model, &[("x", &[0, 4], &[])]).unwrap();
    assert_eq!(none[1], (vec![4, 0], vec![]));
}

#[test]
fn shapes_and_batch_are_those_that_clients_see() {
    let mut options = anonymous("NHWC:NCHW");
    options.shapes = PerTensor::Anonymous(ShapeOption::Dims(PartialShape(vec![
        Dim::Fixed(1),
        Dim::Any,
        Dim::Range(1, 64),
        Dim::Fixed(3),
    ])));
    let described = |options| describe(&load(&model("increment4d"), options, &[]).unwrap());
    assert_eq!(
        described(&options),
        "input (1,-1,[1~64],3) NHWC, output (1,3,-1,[1~64]) N..."
    );
    let options = LoadOptions {
        batch: Some(BatchOption::Dim(Dim::Fixed(4))),
        ..anonymous("HWCN:NCHW")
    };
    assert_eq!(
        described(&options),
        "input (20,30,3,4) HWCN, output (4,3,20,30) N..."
    );
    let auto = LoadOptions {
        shapes: PerTensor::Anonymous(ShapeOption::Auto),
        ..anonymous("NHWC:NCHW")
    };
    let asked: [(&str, &[usize]); 1] = [("input", &[2, 8, 9, 3])];
    assert_eq!(
        describe(&load(&model("increment4d"), &auto, &asked).unwrap()),
        "input (2,8,9,3) NHWC, output (2,3,8,9) N..."
    );
}

#[test]
fn a_single_layout_only_names_the_axes() {
    let model = load(&model("increment4d"), &anonymous("CNHW"), &[]).unwrap();
    assert_eq!(
        describe(&model),
        "input (1,3,20,30) CNHW, output (1,3,20,30) N..."
    );
    insta::assert_snapshot!(
        infer(&model, &[("input", &[1, 2, 20, 30], &[0.0; 1200])]).unwrap_err(),
        @"Invalid input batch size - Expected: 3; Actual: 2; input name: input"
    );
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let errors = [
        error(&model("increment4d"), &anonymous("NHW")),
        error(&model("increment4d"), &anonymous("NHWC:NCDW")),
        error(&model("increment4d"), &named(&[("output", "NC:CN")])),
        error(&model("increment4d"), &named(&[("image", "NC")])),
        error(&model("add"), &anonymous("NC")),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    Layout incompatible with given shape - `input` has shape (1,3,20,30); layout NHW
    Layout incompatible with given shape - `input` has shape (1,3,20,30); layout NHWC:NCDW
    Layout incompatible with given shape - `output` has shape (1,3,20,30); layout NC
    Layout from config not found in model - no input or output `image`; the model has: input, output
    Anonymous fixed shape is invalid for models with multiple inputs - a layout without a name as well; the model has: input1, input2
    ");
}

/// Copies `increment4d` and adds a `mapping_config.json`.
fn mapped(mapping: &str) -> tempfile::TempDir {
    let root = repository::of(&[("1", "increment4d")]);
    std::fs::write(root.path().join("1/mapping_config.json"), mapping).unwrap();
    root
}

#[test]
fn public_names_are_used_everywhere() {
    let root = mapped(r#"{"inputs":{"input":"image"},"outputs":{"output":"brighter"}}"#);
    let mut options = named(&[("image", "NHWC:NCHW"), ("brighter", "NCHW")]);
    options.shapes = PerTensor::Named(vec![("image".to_owned(), ShapeOption::Auto)]);
    let asked: [(&str, &[usize]); 1] = [("image", &[1, 2, 1, 3])];
    let model = load(root.path(), &options, &asked).unwrap();
    assert_eq!(
        describe(&model),
        "image (1,2,1,3) NHWC, brighter (1,3,2,1) NCHW"
    );
    let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let outputs = infer(&model, &[("image", &[1, 2, 1, 3], &values)]).unwrap();
    assert_eq!(
        outputs,
        [(vec![1, 3, 2, 1], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0])]
    );
    insta::assert_snapshot!(
        infer(&model, &[("input", &[1, 2, 1, 3], &values)]).unwrap_err(),
        @"Missing input with specific name - Required input: image; the request has: input"
    );
}

#[test]
fn a_scalar_may_have_a_public_name() {
    let root = repository::of(&[("1", "scalar")]);
    let mapping = r#"{"inputs":{"x":"number"}}"#;
    std::fs::write(root.path().join("1/mapping_config.json"), mapping).unwrap();
    let scalar = load(root.path(), &options(), &[]).unwrap();
    assert_eq!(describe(&scalar), "number () ..., y () ...");
    let outputs = infer(&scalar, &[("number", &[], &[1.5])]).unwrap();
    assert_eq!(outputs, [(vec![], vec![3.0])]);
}

#[test]
fn an_output_without_a_name_may_get_a_public_one() {
    let root = repository::of(&[("1", "noname")]);
    let mapping = r#"{"outputs":{"out_0":"y"}}"#;
    let described = || describe(&load(root.path(), &options(), &[]).unwrap());
    assert_eq!(described(), "x (1,4) N..., out_0 (1,4) N...");
    std::fs::write(root.path().join("1/mapping_config.json"), mapping).unwrap();
    assert_eq!(described(), "x (1,4) N..., y (1,4) N...");
}

#[test]
fn names_that_do_not_fit_are_refused() {
    let shape = ShapeOption::Auto;
    let renamed = mapped(r#"{"inputs":{"input":"image"}}"#);
    let by_own_name = LoadOptions {
        shapes: PerTensor::Named(vec![("input".to_owned(), shape)]),
        ..options()
    };
    let errors = [
        error(renamed.path(), &by_own_name),
        error(renamed.path(), &named(&[("input", "NCHW")])),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    Shape from config has real name. Use mapped name instead - `input` is mapped to `image`
    Layout from config not found in model - no input or output `input`; the model has: image, output
    ");
}
