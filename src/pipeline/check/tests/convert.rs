//! Connections that convert.

use super::{sound, validate, warnings};
use crate::{
    pipeline::{Adapter, Input},
    tensor::DataType::{self, F32, I32, U8},
};

/// Returns an input of a node of a sound pipeline.
fn input(text: &str, node: &str) -> Input {
    let plan = sound(text).plan;
    let mut nodes = plan.nodes.iter();
    let found = nodes.find(|known| known.name == node).unwrap();
    found.inputs[0].clone()
}

fn adapter(from: Option<DataType>, to: Option<DataType>, axes: Option<&[usize]>) -> Adapter {
    Adapter {
        from,
        to,
        axes: axes.map(<[usize]>::to_vec),
    }
}

#[test]
fn types_that_differ_pass_where_they_are_converted() {
    let text = |how| {
        format!("in i\nx = dummy(b < request.i) -> a\ny = ints(b < x.a{how}) -> a\nout o < y.a")
    };
    let errors = validate(&text("")).unwrap_err().errors;
    assert_eq!(errors[0].rule.unwrap().number, 22);
    assert!(
        errors[0]
            .hint
            .as_deref()
            .unwrap()
            .contains("set convert to true")
    );
    let converts = input(&text(" convert"), "y").convert;
    assert_eq!(converts, Some(adapter(Some(F32), Some(I32), None)));
    assert_eq!(warnings(&text(" convert")), [""; 0]);

    let same = "in i\nx = dummy(b < request.i) -> a\ny = dummy(b < x.a convert) -> a\nout o < y.a";
    assert_eq!(input(same, "y").convert, None);
}

#[test]
fn what_leaves_its_type_open_is_converted_when_it_comes() {
    let text = |how| {
        format!(
            "in i\nd = @open(b < request.i) -> zz; split -1\nx = dummy(b < d.zz{how}) -> a\nout o < x.a"
        )
    };
    assert_eq!(
        validate(&text("")).unwrap_err().errors[0]
            .rule
            .unwrap()
            .number,
        22,
        "unless it converts"
    );
    let converts = input(&text(" convert"), "x").convert;
    assert_eq!(converts, Some(adapter(None, Some(F32), None)));
}

#[test]
fn axes_change_places_where_both_name_them() {
    let text = |how| {
        format!("in i\nx = image(b < request.i) -> a\ny = nchw(b < x.a{how}) -> a\nout o < y.a")
    };
    let errors = validate(&text("")).unwrap_err().errors;
    let rules: Vec<u8> = errors
        .iter()
        .map(|error| error.rule.unwrap().number)
        .collect();
    assert_eq!(rules, [21, 22]);
    let converts = input(&text(" convert"), "y").convert;
    let expected = adapter(Some(U8), Some(F32), Some(&[0, 3, 1, 2]));
    assert_eq!(converts, Some(expected));
    assert_eq!(warnings(&text(" convert")), [""; 0]);

    // The same shape is another one once its axes have changed places.
    let text = "in i\nx = nchw(b < request.i) -> a\ny = nhwc(b < x.a convert) -> a\nout o < y.a";
    let errors = validate(text).unwrap_err();
    insta::assert_snapshot!(errors, @"8:13 pipeline_config_list[0].nodes[1].inputs[0]: Invalid input shape - node `y`: found FP32 (1,3,4,4) from `x`, converted from NCHW to NHWC; expected (1,3,4,4); connect an output of the same shape, or put a node between");
}

#[test]
fn what_is_split_and_gathered_is_converted_too() {
    let text = "in i\nd = @four(b < request.i) -> a; split 4\nx = ints(b < d.a convert) -> a\n\
                g = gather4(b < x.a convert) -> a; gather d\nout o < g.a";
    let to = |dtype| adapter(None, Some(dtype), None);
    let (x, g) = (input(text, "x").convert, input(text, "g").convert);
    assert_eq!(
        x,
        Some(Adapter {
            from: Some(F32),
            ..to(I32)
        })
    );
    assert_eq!(
        g,
        Some(Adapter {
            from: Some(I32),
            ..to(F32)
        })
    );
}

#[test]
fn strings_are_not_converted() {
    let text = "in i\nx = text(b < request.i) -> a\ny = dummy(b < x.a convert) -> a\nout o < y.a";
    let errors = validate(text).unwrap_err().errors;
    let rules: Vec<u8> = errors
        .iter()
        .map(|error| error.rule.unwrap().number)
        .collect();
    assert_eq!(rules, [21, 22, 23]);
}

#[test]
fn requests_are_sent_as_they_are_taken() {
    let text = "in i\nx = ints(b < request.i convert) -> a\nout o < x.a";
    insta::assert_snapshot!(warnings(text).join("\n"), @"convert has no effect on the input `b`: the request is sent as the node takes it");
    assert_eq!(input(text, "x").convert, None);
    assert_eq!(sound(text).plan.info.inputs[0].dtype, I32);
}
