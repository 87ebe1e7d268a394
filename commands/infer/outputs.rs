//! Tensors in a table.

use ovms::{
    client::output::{Summary, number},
    tensor::Tensor,
};

use crate::ui::{Align, NOTHING, Table};

/// Returns a table with a row for each output.
pub(crate) fn table<'a>(outputs: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Table {
    let mut table = Table::new(&[
        ("output", Align::Left),
        ("datatype", Align::Left),
        ("shape", Align::Left),
        ("min", Align::Right),
        ("mean", Align::Right),
        ("max", Align::Right),
        ("values", Align::Left),
    ]);
    for (name, tensor) in outputs {
        let summary = Summary::new(name, tensor);
        let [dtype, shape, min, mean, max] = described(&summary);
        table.row([summary.name, dtype, shape, min, mean, max, summary.preview]);
    }
    table
}

/// Returns datatype, shape, minimum, mean, and maximum of a tensor.
pub(crate) fn described(summary: &Summary) -> [String; 5] {
    let [min, mean, max] = match &summary.spread {
        Some(spread) => [spread.min, spread.mean, spread.max].map(number),
        None => [NOTHING; 3].map(str::to_owned),
    };
    [
        summary.dtype.to_string(),
        summary.shape.clone(),
        min,
        mean,
        max,
    ]
}
