//! Tensors of a response, in a line or a table.

use std::fmt::Display;

use ovms::{
    client::{
        ClientResponse, Opaque,
        output::{Summary, hexadecimal, number},
    },
    tensor::Tensor,
};

use crate::ui::{NOTHING, Table, visible};

/// Returns the model that has answered: `` Model `m`, version 1 ``.
pub(super) fn model(answer: &ClientResponse) -> String {
    let name = &answer.model_name;
    match answer.model_version.as_str() {
        "" => format!("Model `{name}`"),
        version => format!("Model `{name}`, version {version}"),
    }
}

/// Ends a line of JSON.
pub(super) fn json_line(json: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut line = json.into();
    line.push(b'\n');
    line
}

/// Returns all outputs in one line, behind the number of the response.
pub(super) fn line(number: impl Display, answer: &ClientResponse) -> String {
    let mut line = number.to_string();
    for (name, tensor) in answer.outputs.iter() {
        let summary = Summary::new(name, tensor);
        line.extend(["  ", &summary.name, ": ", &summary.preview]);
    }
    for Opaque {
        name,
        datatype,
        data,
        ..
    } in &answer.opaque
    {
        line.extend(["  ", name, ": ", datatype, " of ", &hexadecimal(data)]);
    }
    format!("{}\n", visible(&line))
}

/// Returns a table with a row for each output.
pub(crate) fn table(outputs: &[(String, Tensor)]) -> Table {
    let mut table = Table::new()
        .left(["output", "datatype", "shape"])
        .right(["min", "mean", "max"])
        .left(["values"]);
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
