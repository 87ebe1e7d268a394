//! Rows of inputs that are filled.

use super::{load, model};
use crate::{
    client::input::Fill,
    tensor::{ShapeText, Tensor},
};

#[test]
fn what_is_filled_has_as_many_rows_as_what_is_given() {
    let model = model(&[
        ("a", "INT8", &[-1, 2]),
        ("b", "UINT8", &[-1, -1]),
        ("c", "INT8", &[1, 2]),
    ]);
    let shapes = |arguments: &[&str], fill| {
        let tensors = load(arguments, Some(fill), "").tensors(&model).unwrap();
        let shape =
            |(name, tensor): &(String, Tensor)| format!("{name} {}", ShapeText(tensor.shape()));
        tensors.iter().map(shape).collect::<Vec<_>>().join(" ")
    };
    for (arguments, expected) in [
        (&[][..], "a (1,2) b (1,1) c (1,2)"),
        (&["b::3,4="], "a (3,2) b (3,4) c (1,2)"),
        (&["b=[[1],[2],[3]]"], "a (3,2) b (3,1) c (1,2)"),
        (&["a:INT8:5,2="], "a (5,2) b (5,1) c (1,2)"),
        // Nothing but the first dimension is of rows.
        (&["a::5="], "a (5) b (1,1) c (1,2)"),
        (&["c::4,2="], "a (1,2) b (1,1) c (4,2)"),
        (&["a::3,2=", "b::4,1="], "a (3,2) b (4,1) c (1,2)"),
    ] {
        for fill in [Fill::Zeros, Fill::Random(Some(7))] {
            assert_eq!(shapes(arguments, fill), expected, "{arguments:?}");
        }
    }
}
