//! Inputs of the pipeline as a whole: rule 28.

use super::draft::{Draft, Gathers, REQUEST, text};
use crate::{
    pipeline::{
        dims::{common_layout, common_shape, letters},
        plan::Count,
        rules,
        sources::TensorSource,
    },
    servable::TensorInfo,
    tensor::{DataType, Dim, Layout, PartialShape},
};

impl Draft<'_> {
    /// Returns the inputs of the pipeline, each once. What no node uses is none: nobody would know what it
    /// has to be.
    pub(super) fn inputs(&mut self) -> Vec<TensorInfo> {
        let mut inputs: Vec<TensorInfo> = Vec::new();
        let place = self.config.places.of("inputs").clone();
        for (index, name) in self.config.inputs.iter().enumerate() {
            if self.config.inputs[..index].contains(name) {
                self.warn(&place, format!("the input `{name}` is listed twice"));
                continue;
            }
            let (used, tensor) = self.input(index);
            if !used {
                // Whoever names another one by mistake means this one.
                if !self.breaks(&[rules::MISSING_SOURCE, rules::MISSING_NODE]) {
                    let text = format!("the input `{name}` is left out, since no node uses it");
                    self.warn(&place, text);
                }
                continue;
            }
            let mut input = info(name, tensor.as_ref(), inputs.len());
            if let Some(count) = self.nodes[0].count {
                let layout = split(&input.layout, input.shape.0.len());
                prepend(&mut input, &[dim(count)]);
                input.layout = layout;
            }
            inputs.push(input);
        }
        inputs
    }

    /// Returns whether an input of the pipeline is used, and what those have in common who use it.
    fn input(&mut self, index: usize) -> (bool, Option<TensorSource>) {
        let mut used = false;
        let mut all: Option<(TensorSource, String)> = None;
        for node in 1..self.nodes.len() {
            for link in self.nodes[node].links.clone() {
                if link.source != 0 || link.output != Some(index) {
                    continue;
                }
                used = true;
                let Some(tensor) = link.input.and_then(|input| self.nodes[node].input(input))
                else {
                    continue;
                };
                let mut tensor = tensor.clone();
                if self.nodes[node].gathers == Gathers::From(0) && !tensor.shape.0.is_empty() {
                    tensor.shape.0.remove(0);
                    tensor.layout = Layout::unspecified(tensor.shape.0.len());
                }
                let name = self.nodes[node].name.to_owned();
                let Some((before, others)) = &mut all else {
                    all = Some((tensor, name));
                    continue;
                };
                if let Some(both) = common(before, &tensor) {
                    *before = both;
                    others.push_str(", ");
                    others.push_str(&name);
                    continue;
                }
                let found = format!("{} {}", text(&tensor), tensor.layout);
                let expected = format!("{} {}, as for {others}", text(before), before.layout);
                let connection = self.connection(node, link);
                let message = (found, expected);
                let next = format!("give each its own input of `{REQUEST}`");
                self.error_at(node, rules::INPUT_METADATA, connection, message, next);
            }
        }
        (used, all.map(|(tensor, _)| tensor))
    }
}

/// Makes an input or output of the pipeline of what the nodes say of it, if they do.
pub(super) fn info(name: &str, tensor: Option<&TensorSource>, port: usize) -> TensorInfo {
    let dtype = tensor.and_then(|tensor| tensor.dtype);
    TensorInfo {
        name: name.to_owned(),
        // What JSON numbers without a type are read as.
        dtype: dtype.unwrap_or(DataType::F32),
        is_open: dtype.is_none(),
        shape: tensor.map_or(PartialShape(Vec::new()), |tensor| tensor.shape.clone()),
        layout: tensor.map_or(Layout::unspecified(0), |tensor| tensor.layout.clone()),
        port,
    }
}

/// Returns what two tensors have in common.
fn common(a: &TensorSource, b: &TensorSource) -> Option<TensorSource> {
    let dtype = match (a.dtype, b.dtype) {
        (Some(one), Some(other)) if one != other => return None,
        // A custom node that leaves the type open takes that of the others.
        (one, other) => one.or(other),
    };
    let shape = common_shape(&a.shape.0, &b.shape.0)?;
    let layout = common_layout(&a.layout, &b.layout, shape.0.len())?;
    Some(TensorSource {
        name: a.name.clone(),
        dtype,
        shape,
        layout,
    })
}

/// Returns the layout of what is split into parts of a layout and rank: N are the parts, each of which
/// has one axis more without a letter where it had its own.
fn split(layout: &Layout, rank: usize) -> Layout {
    let text: String = match (rank, *layout == Layout::unspecified(rank)) {
        (0, _) => return Layout::unspecified(1),
        (_, true) => "?...".to_owned(),
        (_, false) => {
            let letters = letters(layout, rank).into_iter();
            letters.map(|it| if it == 'N' { '?' } else { it }).collect()
        }
    };
    Layout::parse(&format!("N{text}")).unwrap_or(Layout::unspecified(rank + 1))
}

/// Returns the dimension of a level.
pub(super) fn dim(count: Count) -> Dim {
    match count {
        Count::Fixed(count) => Dim::Fixed(count),
        Count::Dynamic => Dim::Any,
    }
}

/// Puts dimensions in front of a tensor's own.
pub(super) fn prepend(tensor: &mut TensorInfo, dims: &[Dim]) {
    if !dims.is_empty() {
        tensor.shape.0.splice(0..0, dims.iter().copied());
        tensor.layout = Layout::unspecified(tensor.shape.0.len());
    }
}
