//! Layouts of a model's tensors for clients, and the transposition of its own axes.

use std::collections::BTreeMap;

use super::{
    names::Port,
    options::{LayoutOption, PerTensor},
};
use crate::tensor::{Layout, ShapeText};

/// Layouts that do not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutMismatch {
    /// One layout for whichever input there is, and there is not exactly one.
    #[error(
        "Anonymous fixed shape is invalid for models with multiple inputs - a layout without a \
         name as well; the model has: {known}"
    )]
    Anonymous {
        /// The names of the inputs.
        known: String,
    },
    /// There is no input or output of a name.
    #[error(
        "Layout from config not found in model - no input or output `{name}`; the model has: {known}"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The public names of inputs and outputs.
        known: String,
    },
    /// A layout is for another number of dimensions, or the two of a pair have other axes.
    #[error("Layout incompatible with given shape - `{name}` has {dimensions}; layout {layout}")]
    Incompatible {
        /// The name of the input or output.
        name: String,
        /// Its shape or what else is known of it, in words.
        dimensions: String,
        /// The layout as configured.
        layout: String,
    },
    /// Strings are not transposed.
    #[error("Layout incompatible with given shape - `{0}` is of strings, which are not transposed")]
    Strings(String),
}

/// The configured layouts of inputs and of outputs, each in the model's order.
pub(super) type Chosen<'a> = (Vec<Option<&'a LayoutOption>>, Vec<Option<&'a LayoutOption>>);

/// Finds what is configured for each tensor.
pub(super) fn choose<'a>(
    inputs: &[Port],
    outputs: &[Port],
    layouts: &'a PerTensor<LayoutOption>,
) -> Result<Chosen<'a>, LayoutMismatch> {
    let mut of_inputs = vec![None; inputs.len()];
    let mut of_outputs = vec![None; outputs.len()];
    let names =
        |ports: &[Port]| -> Vec<String> { ports.iter().map(|port| port.public.clone()).collect() };
    match layouts {
        PerTensor::Unset => {}
        PerTensor::Anonymous(option) => match of_inputs.as_mut_slice() {
            [only] => *only = Some(option),
            _ => {
                return Err(LayoutMismatch::Anonymous {
                    known: names(inputs).join(", "),
                });
            }
        },
        PerTensor::Named(named) => {
            for (name, option) in named {
                let place = |ports: &[Port]| ports.iter().position(|port| port.public == *name);
                let (input, output) = (place(inputs), place(outputs));
                if let Some(port) = input {
                    of_inputs[port] = Some(option);
                }
                if let Some(port) = output {
                    of_outputs[port] = Some(option);
                }
                if input.or(output).is_none() {
                    return Err(LayoutMismatch::Unknown {
                        name: name.clone(),
                        known: [names(inputs), names(outputs)].concat().join(", "),
                    });
                }
            }
        }
    }
    Ok((of_inputs, of_outputs))
}

/// Returns the layout that clients see: as configured, else the model's own if it has one that
/// fits, else one that says only where the batch is.
pub(super) fn public(
    port: &Port,
    option: Option<&LayoutOption>,
    own: &BTreeMap<String, Layout>,
) -> Layout {
    let rank = port.rank();
    match (option, own.get(&port.own)) {
        (Some(option), _) => option.tensor.clone(),
        (None, Some(own)) if rank.is_none_or(|rank| own.fits(rank)) => own.clone(),
        (None, _) => Layout::unspecified(rank.unwrap_or(1)),
    }
}

/// Returns the axes of the model's tensor in the order that clients have them; `None` if that is
/// its own order.
pub(super) fn turned(
    port: &Port,
    option: Option<&LayoutOption>,
) -> Result<Option<Vec<usize>>, LayoutMismatch> {
    let Some(LayoutOption {
        tensor,
        model: Some(model),
    }) = option
    else {
        return Ok(None);
    };
    let axes = port
        .rank()
        .and_then(|rank| tensor.axes_in(model, rank))
        .ok_or_else(|| incompatible(port, &format!("{tensor}:{model}")))?;
    Ok((!axes.is_sorted()).then_some(axes))
}

/// Fails if a layout that is configured does not fit the tensor.
pub(super) fn check(port: &Port, option: Option<&LayoutOption>) -> Result<(), LayoutMismatch> {
    match (option, port.rank()) {
        (Some(option), Some(rank)) if !option.tensor.fits(rank) => {
            Err(incompatible(port, option.tensor.as_str()))
        }
        _ => Ok(()),
    }
}

fn incompatible(port: &Port, layout: &str) -> LayoutMismatch {
    LayoutMismatch::Incompatible {
        name: port.public.clone(),
        dimensions: port.shape.as_ref().map_or_else(
            || "no fixed number of dimensions".to_owned(),
            |shape| format!("shape {}", ShapeText(&shape.0)),
        ),
        layout: layout.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{choose, public, turned};
    use crate::{
        openvino::{
            names::Port,
            options::{LayoutOption, PerTensor},
        },
        tensor::{Dim, Layout, PartialShape},
    };

    fn port(name: &str, rank: usize) -> Port {
        Port {
            own: format!("own_{name}"),
            public: name.to_owned(),
            shape: Some(PartialShape(vec![Dim::Fixed(2); rank])),
        }
    }

    fn layout(text: &str) -> LayoutOption {
        let parse = |text| Layout::parse(text).unwrap();
        match text.split_once(':') {
            Some((tensor, model)) => LayoutOption {
                tensor: parse(tensor),
                model: Some(parse(model)),
            },
            None => LayoutOption {
                tensor: parse(text),
                model: None,
            },
        }
    }

    #[test]
    fn the_configured_layout_wins_over_the_models_own() {
        let own = BTreeMap::from([("own_x".to_owned(), Layout::parse("NCHW").unwrap())]);
        let text = |name, rank, option: Option<&str>| {
            let option = option.map(layout);
            public(&port(name, rank), option.as_ref(), &own).to_string()
        };
        assert_eq!(text("x", 4, Some("NHWC:NCHW")), "NHWC");
        assert_eq!(text("x", 4, None), "NCHW");
        assert_eq!(text("x", 3, None), "N...", "its own is for four axes");
        assert_eq!(text("y", 2, None), "N...");
        assert_eq!(text("y", 0, None), "...");
    }

    #[test]
    fn axes_are_turned_only_where_they_differ() {
        let axes = |rank, text: &str| {
            turned(&port("x", rank), Some(&layout(text))).map_err(|error| error.to_string())
        };
        assert_eq!(axes(4, "NHWC:NCHW"), Ok(Some(vec![0, 2, 3, 1])));
        assert_eq!(axes(4, "NCHW:NCHW"), Ok(None));
        assert_eq!(axes(4, "NHWC"), Ok(None));
        insta::assert_snapshot!(axes(2, "NHWC:NCHW").unwrap_err(), @"Layout incompatible with given shape - `x` has shape (2,2); layout NHWC:NCHW");
    }

    #[test]
    fn each_error_has_its_text() {
        let error = |inputs: &[Port], layouts| {
            choose(inputs, &[port("out", 2)], &layouts)
                .unwrap_err()
                .to_string()
        };
        let two = [port("a", 2), port("b", 2)];
        let named = PerTensor::Named(vec![("own_a".to_owned(), layout("NC"))]);
        let errors = [
            error(&two, PerTensor::Anonymous(layout("NC"))),
            error(&two, named),
        ];
        insta::assert_snapshot!(errors.join("\n"), @"
        Anonymous fixed shape is invalid for models with multiple inputs - a layout without a name as well; the model has: a, b
        Layout from config not found in model - no input or output `own_a`; the model has: a, b, out
        ");
    }

    #[test]
    fn a_name_may_be_an_inputs_or_an_outputs() {
        let named = PerTensor::Named(vec![
            ("in".to_owned(), layout("NC")),
            ("out".to_owned(), layout("CN:NC")),
        ]);
        let (inputs, outputs) = choose(&[port("in", 2)], &[port("out", 2)], &named).unwrap();
        assert_eq!(inputs[0], Some(&layout("NC")));
        assert_eq!(outputs[0], Some(&layout("CN:NC")));
    }
}
