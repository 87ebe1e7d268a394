//! Inputs and outputs of the pipeline as a whole.

use super::{sound, validate};
use crate::{pipeline::PipelinePlan, servable::TensorInfo};

fn shown(tensors: &[TensorInfo]) -> String {
    let tensors = tensors.iter().map(|tensor| {
        let precision = tensor.decided().map_or("?", |dtype| dtype.precision());
        format!(
            "{} {precision} {} {}",
            tensor.name, tensor.shape, tensor.layout
        )
    });
    tensors.collect::<Vec<_>>().join(", ")
}

#[test]
fn inputs_and_outputs_are_those_of_the_nodes() {
    for (text, inputs, outputs) in [
        (
            "in i\nx = dummy(b < request.i) -> a\nout o < x.a",
            "i FP32 (1,10) N...",
            "o FP32 (1,10) N...",
        ),
        (
            "in i\nsplit -1\nx = dummy(b < request.i) -> a\nout o < x.a",
            "i FP32 (-1,1,10) N?...",
            "o FP32 (-1,1,10) N...",
        ),
        (
            "in i, j\nsplit 2\nx = nchw(b < request.i) -> a\ny = nhwc(b < request.j) -> a\n\
             out o < x.a\nout p < y.a",
            "i FP32 (2,1,3,4,4) N?CHW, j FP32 (2,1,3,4,4) N?HWC",
            "o FP32 (2,1,3,4,4) N..., p FP32 (2,1,3,4,4) N...",
        ),
        (
            "in idle, i, rest\nx = dummy(b < request.i) -> a\nout o < x.a",
            "i FP32 (1,10) N...",
            "o FP32 (1,10) N...",
        ),
        (
            "in i\nsplit 4\nx = dummy(b < request.i) -> a\nout o < x.a",
            "i FP32 (4,1,10) N?...",
            "o FP32 (4,1,10) N...",
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\nx = dummy(b < d.a) -> a\nout o < x.a",
            "i FP32 (1,10) N...",
            "o FP32 (4,1,10) N...",
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\ne = @three(b < d.a) -> a; split 3\n\
             x = dummy(b < e.a) -> a\nout o < x.a\nout p < e.a",
            "i FP32 (1,10) N...",
            "o FP32 (4,3,1,10) N..., p FP32 (4,3,1,10) N...",
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\ne = @three(b < d.a) -> a; split 3\n\
             x = dummy(b < e.a) -> a\ng = gather3(b < x.a) -> a; gather e\nout o < g.a",
            "i FP32 (1,10) N...",
            "o FP32 (4,1,10) N...",
        ),
        // The first output by name says how many parts there are, if it says so.
        (
            "in i\nd = @open(b < request.i) -> zz; split -1\nout o < d.zz",
            "i ? (1,10) N...",
            "o ? (7,1,10) N...",
        ),
        (
            "in i\nd = @any(b < request.i) -> a; split -1\nout o < d.a",
            "i FP32 (1,10) N...",
            "o FP32 (-1,1,10) N...",
        ),
        (
            "in i\nd = four(b < request.i) -> a; split -1\nout o < d.a",
            "i FP32 (1,10) N...",
            "o FP32 (-1,1,10) N...",
        ),
        // Nothing is some number of parts, too.
        (
            "in i\nempty allow\nd = @open(b < request.i) -> zz; split -1\nout o < d.zz",
            "i ? (1,10) N...",
            "o ? (-1,1,10) N...",
        ),
        ("in i\nout o < request.i", "i ? () ...", "o ? () ..."),
        // What all who take it have in common, and the names in order.
        (
            "in j, i\nx = range(b < request.i) -> a\ny = dummy(b < request.i) -> a\n\
             z = nchw(b < request.j) -> a\nout o < x.a\nout n < y.a\nout m < z.a",
            "i FP32 (1,10) N..., j FP32 (1,3,4,4) NCHW",
            "m FP32 (1,3,4,4) NCHW, n FP32 (1,10) N..., o FP32 (1,[5~20]) N...",
        ),
        // One that leaves the type open takes that of the others, in whichever order.
        (
            "in i\nx = dummy(b < request.i) -> a\ny = @open(b < request.i) -> a\n\
             out o < x.a\nout p < y.a",
            "i FP32 (1,10) N...",
            "o FP32 (1,10) N..., p ? (7,1,10) N...",
        ),
        (
            "in i\ny = @open(b < request.i) -> a\nx = ints(b < request.i) -> a\n\
             out o < x.a\nout p < y.a",
            "i I32 (1,10) N...",
            "o I32 (1,10) N..., p ? (7,1,10) N...",
        ),
        // A level of the request that is closed at once.
        (
            "in i\nsplit -1\ng = gather4(b < request.i) -> a; gather request\nout o < g.a",
            "i FP32 (-1,1,10) N?...",
            "o FP32 (1,10) N...",
        ),
    ] {
        let plan = sound(text).plan;
        let info = plan.info;
        assert_eq!(shown(&info.inputs), inputs, "{text}");
        assert_eq!(shown(&info.outputs), outputs, "{text}");
    }
}

#[test]
fn ports_lead_back_to_entry_and_exit() {
    let text = "in z, y\na = two(x < request.z, y < request.y) -> z\n\
                out q < a.z\nout p < request.y";
    let plan = sound(text).plan;
    let (entry, exit) = (&plan.nodes[PipelinePlan::ENTRY], &plan.nodes[plan.exit()]);
    for input in &plan.info.inputs {
        assert_eq!(entry.outputs[input.port].name, input.name);
    }
    for output in &plan.info.outputs {
        assert_eq!(exit.inputs[output.port].name, output.name);
    }
}

#[test]
fn layouts_and_types_of_one_input_have_to_agree() {
    for (a, b) in [("nchw", "nhwc"), ("dummy", "ints")] {
        let text = format!(
            "in i\nx = {a}(b < request.i) -> a\ny = {b}(b < request.i) -> a\nout o < x.a\nout p < y.a"
        );
        assert_eq!(
            validate(&text).unwrap_err().errors[0].rule.unwrap().number,
            28
        );
    }
}
