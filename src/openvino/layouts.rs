//! Layouts of a model's tensors for clients, and the transposition of its own axes.

use std::collections::BTreeMap;

use super::{
    error::ModelLoadError,
    names::{Port, listed},
    options::{LayoutOption, PerTensor},
};
use crate::tensor::{Layout, ShapeText};

/// Gives each tensor the layout that is configured for it.
pub(super) fn choose<'a>(
    inputs: &mut [Port<'a>],
    outputs: &mut [Port<'a>],
    layouts: &'a PerTensor<LayoutOption>,
) -> Result<(), ModelLoadError> {
    match layouts {
        PerTensor::Unset => {}
        PerTensor::Anonymous(option) => match inputs {
            [only] => only.layout = Some(option),
            _ => {
                return Err(ModelLoadError::unfit(format!(
                    "Anonymous fixed shape is invalid for models with multiple inputs - a layout \
                     without a name as well; the model has: {}",
                    listed(&*inputs)
                )));
            }
        },
        PerTensor::Named(named) => {
            for (name, option) in named {
                let mut found = false;
                for side in [&mut *inputs, &mut *outputs] {
                    if let Some(port) = side.iter_mut().find(|port| port.public == *name) {
                        port.layout = Some(option);
                        found = true;
                    }
                }
                if !found {
                    return Err(ModelLoadError::unfit(format!(
                        "Layout from config not found in model - no input or output `{name}`; the \
                         model has: {}",
                        listed(inputs.iter().chain(&*outputs))
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Returns the layout that clients see: as configured, else the model's own if it has one that
/// fits, else one that says only where the batch is.
pub(super) fn public(port: &Port<'_>, own: &BTreeMap<String, Layout>) -> Layout {
    let rank = port.rank();
    match (port.layout, own.get(&port.own)) {
        (Some(option), _) => option.tensor.clone(),
        (None, Some(own)) if rank.is_none_or(|rank| own.fits(rank)) => own.clone(),
        (None, _) => Layout::unspecified(rank.unwrap_or(1)),
    }
}

/// Returns the axes of the model's tensor in the order that clients have them; `None` if that is
/// its own order.
pub(super) fn turned(port: &Port<'_>) -> Result<Option<Vec<usize>>, ModelLoadError> {
    let Some(LayoutOption {
        tensor,
        model: Some(model),
    }) = port.layout
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
pub(super) fn check(port: &Port<'_>) -> Result<(), ModelLoadError> {
    match (port.layout, port.rank()) {
        (Some(option), Some(rank)) if !option.tensor.fits(rank) => {
            Err(incompatible(port, option.tensor.as_str()))
        }
        _ => Ok(()),
    }
}

fn incompatible(port: &Port<'_>, layout: &str) -> ModelLoadError {
    let dimensions = port.shape.as_ref().map_or_else(
        || "no fixed number of dimensions".to_owned(),
        |shape| format!("shape {}", ShapeText(&shape.0)),
    );
    ModelLoadError::unfit(format!(
        "Layout incompatible with given shape - `{}` has {dimensions}; layout {layout}",
        port.public
    ))
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

    fn port(name: &str, rank: usize) -> Port<'static> {
        Port {
            own: format!("own_{name}"),
            public: name.to_owned(),
            shape: Some(PartialShape(vec![Dim::Fixed(2); rank])),
            layout: None,
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
            let port = Port {
                layout: option.as_ref(),
                ..port(name, rank)
            };
            public(&port, &own).to_string()
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
            let port = Port {
                layout: Some(&layout(text)),
                ..port("x", rank)
            };
            turned(&port).map_err(|error| error.to_string())
        };
        assert_eq!(axes(4, "NHWC:NCHW"), Ok(Some(vec![0, 2, 3, 1])));
        assert_eq!(axes(4, "NCHW:NCHW"), Ok(None));
        assert_eq!(axes(4, "NHWC"), Ok(None));
        insta::assert_snapshot!(axes(2, "NHWC:NCHW").unwrap_err(), @"Layout incompatible with given shape - `x` has shape (2,2); layout NHWC:NCHW");
    }

    #[test]
    fn each_error_has_its_text() {
        let error = |layouts| {
            let mut two = [port("a", 2), port("b", 2)];
            let error = choose(&mut two, &mut [port("out", 2)], &layouts).unwrap_err();
            error.to_string()
        };
        let named = PerTensor::Named(vec![("own_a".to_owned(), layout("NC"))]);
        let errors = [error(PerTensor::Anonymous(layout("NC"))), error(named)];
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
        let (mut inputs, mut outputs) = ([port("in", 2)], [port("out", 2)]);
        choose(&mut inputs, &mut outputs, &named).unwrap();
        assert_eq!(inputs[0].layout, Some(&layout("NC")));
        assert_eq!(outputs[0].layout, Some(&layout("CN:NC")));
    }
}
