//! Gathered tensors of a demultiplexer without parts, in pipelines that allow them.

use bytes::Bytes;

use super::{
    dims::common,
    plan::{Input, PipelinePlan, PipelinePlanNode},
    shards::Parts,
};
use crate::{
    error::{Error, Result},
    tensor::{DataType, Dim, PartialShape, ShapeText, Tensor},
};

/// Makes an input of a node that gathers parts of which there are none: a tensor without elements,
/// with the numbers of parts as its first dimensions, one of them 0.
///
/// What comes straight from the demultiplexer has the type and the other dimensions that were
/// really given. Else they are those that the source says of a part and the node takes: a dimension
/// that they leave open is as short as both allow, which is 0 for -1.
///
/// # Errors
///
/// Fails if the node does not take so few parts, or nobody says the type.
pub(super) fn tensor(
    plan: &PipelinePlan,
    node: &PipelinePlanNode,
    input: &Input,
    parts: &Parts,
) -> Result<Tensor> {
    let place = || format!("Node: {} input: {}", node.name, input.name);
    let demultiplexer = || {
        let level = parts.counts.iter().position(|count| *count == 0);
        let level = level.and_then(|level| node.gathers.get(level));
        level.map_or_else(String::new, |level| {
            plan.nodes[plan.levels[*level].node].name.clone()
        })
    };
    let (dtype, part) = match parts.tensors.first() {
        Some(whole) => (Some(whole.dtype()), whole.shape()[1..].to_vec()),
        None => declared(plan, input, parts.counts.len()),
    };
    let Some(dtype) = dtype else {
        let source = &plan.nodes[input.source];
        return Err(Error::internal(format!(
            "Empty results are of an unknown type - {}; `{}` gave no parts, and the node `{}` leaves \
             the type of `{}` open; let it name the type, or take empty_results away",
            place(),
            demultiplexer(),
            source.name,
            source.outputs[input.output].name
        )));
    };
    let shape: Vec<usize> = parts.counts.iter().copied().chain(part).collect();
    if let Some(expected) = &input.tensor {
        let mut counts = expected.shape.0.iter().zip(&parts.counts);
        if counts.any(|(dim, count)| !dim.allows(*count)) {
            return Err(Error::invalid(format!(
                "Invalid input shape - {}; Expected: {}; Actual: {}, since `{}` gave no parts, which \
                 empty_results allows; let the input take a first dimension of 0, such as -1",
                place(),
                expected.shape,
                ShapeText(&shape),
                demultiplexer()
            )));
        }
    }
    Ok(Tensor::new(dtype, shape, Bytes::new()).expect("no elements, no bytes"))
}

/// Returns type and shape of a part as they are declared, the shape as short as it may be.
fn declared(plan: &PipelinePlan, input: &Input, levels: usize) -> (Option<DataType>, Vec<usize>) {
    let source = &plan.nodes[input.source];
    let given = source.outputs[input.output].tensor.as_ref();
    let taken = input.tensor.as_ref();
    let dtype = given.and_then(|given| given.dtype);
    let dtype = dtype.or_else(|| taken?.dtype);
    let rest = |shape: &PartialShape, from: usize| -> Vec<Dim> {
        shape.0.get(from..).unwrap_or_default().to_vec()
    };
    let given = given.map(|given| rest(&given.shape, usize::from(source.opens.is_some())));
    let taken = taken.map(|taken| rest(&taken.shape, levels));
    // What an open node would have given is not known: it is as the other side says.
    let given = given.or_else(|| taken.clone()).unwrap_or_default();
    let taken = taken.filter(|taken| taken.len() == given.len());
    let mut taken = taken.unwrap_or_else(|| vec![Dim::Any; given.len()]);
    // It is converted like any other, so that axes are those of the source here.
    let adapter = input.convert.as_ref();
    if let Some(axes) = adapter.and_then(|adapter| adapter.axes.as_ref()) {
        let places = axes.iter().skip(levels).map(|axis| axis - levels);
        for (place, dim) in places.zip(taken.clone()) {
            taken[place] = dim;
        }
    }
    let shortest = |(given, taken): (&Dim, Dim)| match common(*given, taken).unwrap_or(*given) {
        Dim::Fixed(length) | Dim::Range(length, _) => length,
        Dim::Any => 0,
    };
    (dtype, given.iter().zip(taken).map(shortest).collect())
}
