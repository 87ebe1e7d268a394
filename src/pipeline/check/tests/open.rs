//! Nodes that take and give anything, as Python nodes do.

use super::{sound, validate, warnings};
use crate::{pipeline::Adapter, tensor::DataType::F32};

#[test]
fn what_a_python_node_takes_and_gives_is_not_validated() {
    for text in [
        "in i\nx = @python(p < request.i, q < request.i) -> y\nout o < x.y",
        "in i\nx = ints(b < request.i) -> a\ny = @python(p < x.a) -> y\nz = wide(b < y.y) -> a\n\
         out o < z.a",
        "in i\nx = text(b < request.i) -> a\ny = @python(p < request.i) -> y\nout o < x.a\nout p < y.y",
        "in i\nx = @python(p < request.i) -> y; split 4\nz = dummy(b < x.y) -> a\n\
         g = @python(p < z.a) -> y; gather x\nout o < g.y",
        "in i\nx = @python(p < request.i) -> y, unused; split -1\nout o < x.y",
    ] {
        assert_eq!(warnings(text), [""; 0], "{text}");
    }
}

#[test]
fn what_is_said_of_connections_is_validated() {
    for (text, rule) in [
        (
            "in i\nx = @python(p < request.i, p < request.i) -> y\nout o < x.y",
            18,
        ),
        ("in i\nx = @python(p < request.i) -> y\nout o < x.z", 19),
        ("in i\nx = @python(p < x.y) -> y\nout o < x.y", 25),
        // As many parts as are given are known without the node's word.
        (
            "in i\nx = @python(p < request.i) -> y; split 4\ng = gather3(b < x.y) -> a; gather x\n\
             out o < g.a",
            12,
        ),
        ("in i\nx = @bad_handler(p < request.i) -> y\nout o < x.y", 3),
    ] {
        let errors = validate(text).unwrap_err().errors;
        assert_eq!(
            errors[0].rule.unwrap().number,
            rule,
            "{text}: {}",
            errors[0]
        );
    }
}

#[test]
fn a_connection_from_python_converts_the_type() {
    let text =
        |to: &str| format!("in i\nx = @python(p < request.i) -> y\nz = {to} -> a\nout o < z.a");
    let plan = sound(&text("dummy(b < x.y convert)")).plan;
    let mut nodes = plan.nodes.iter();
    let model = nodes.find(|node| node.name == "z").unwrap();
    let adapter = Adapter {
        from: None,
        to: Some(F32),
        axes: None,
    };
    assert_eq!(model.inputs[0].convert, Some(adapter));
    assert_eq!(
        warnings(&text("@python(p < x.y convert)")),
        ["convert has no effect on the input `p`: a Python node takes what comes as it is"]
    );
}

#[test]
fn the_pipeline_leaves_open_what_nothing_else_decides() {
    let text = "in i, j\nsplit -1\nx = @python(p < request.i, q < request.j) -> y\n\
                z = dummy(b < request.j) -> a\nout o < x.y\nout p < z.a";
    let plan = sound(text).plan;
    let reported = |tensors: &[crate::servable::TensorInfo]| -> Vec<_> {
        let tensors = tensors.iter();
        tensors
            .map(|it| (it.name.clone(), it.decided(), it.shape.to_string()))
            .collect()
    };
    let row = |name: &str, dtype, shape: &str| (name.to_owned(), dtype, shape.to_owned());
    assert_eq!(
        reported(&plan.info.inputs),
        [row("i", None, "(-1)"), row("j", Some(F32), "(-1,1,10)")]
    );
    assert_eq!(
        reported(&plan.info.outputs),
        [row("o", None, "(-1)"), row("p", Some(F32), "(-1,1,10)")]
    );
}
