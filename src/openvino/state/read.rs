//! A model file read without its variables.

use std::fs;

use super::split::{SplitError, SplitGraph, ValueType};
use crate::{
    error::{Error, chain},
    openvino::{
        convert,
        ffi::{Core, Model, Side},
        low_latency,
        model_file::{self, Load},
    },
    tensor::Dim,
};

/// A model as read, without its variables.
pub(in crate::openvino) struct SplitModel {
    /// The names of the variables, in the order of their inputs and outputs.
    pub(super) variables: Vec<String>,
    /// The model of a step.
    pub(super) step: Model,
    pub(super) initial: Option<InitialModel>,
}

/// Computes initial values.
pub(super) struct InitialModel {
    pub(super) model: Model,
    /// The places of the variables that its outputs are for.
    pub(super) variables: Vec<usize>,
    /// Indicates that it has the model's inputs.
    pub(super) of_inputs: bool,
}

/// Reads a model, and takes its variables out.
pub(in crate::openvino) fn read(core: &mut Core, load: &Load<'_>) -> Result<SplitModel, Error> {
    let refused = |text: String| Error::invalid(text);
    let Load { model, weights, .. } = *load;
    if model.extension().is_none_or(|extension| extension != "xml") {
        return Err(refused(format!("{} is no IR file", model.display())));
    }
    let unread = |error| refused(format!("cannot read {}", model.display())).with_source(error);
    let text = fs::read_to_string(model).map_err(unread)?;
    let refuse = |reason: SplitError| refused(reason.to_string());
    let split = SplitGraph::of(&text).map_err(refuse)?;
    let own = model.with_extension("bin");
    let weights = weights.or(own.is_file().then_some(&own));
    // The runtime reads weights from a file only, and where they are only for a graph in a file.
    let folder = low_latency::folder()?;
    let mut read = |name: &str, text: &str| {
        let model = &folder.path().join(name);
        let unwritten = |error| low_latency::unusable(folder.path(), error);
        fs::write(model, text).map_err(unwritten)?;
        let part = Load {
            model,
            weights,
            ..*load
        };
        model_file::read(core, &part).map_err(|error| refused(chain(&error)))
    };
    let mut values = Vec::new();
    let initial = match &split.initial {
        None => None,
        Some(initial) => {
            let model = read("initial.xml", &initial.text)?;
            values = (0..initial.variables.len())
                .map(|place| value(&model, place))
                .collect();
            Some(InitialModel {
                model,
                variables: initial.variables.clone(),
                of_inputs: initial.of_inputs,
            })
        }
    };
    let step = read("step.xml", &split.step(&values).map_err(refuse)?)?;
    Ok(SplitModel {
        variables: split.variables,
        step,
        initial,
    })
}

/// Describes an output, if it has a known type and number of dimensions.
fn value(model: &Model, place: usize) -> Option<ValueType> {
    let port = model.port(Side::Output, place).ok()?;
    let element = port.get_element_type().ok()?;
    convert::dtype(element)?;
    let length = |dim: &Dim| match *dim {
        Dim::Fixed(length) => length.to_string(),
        Dim::Range(low, usize::MAX) => format!("{low}.."),
        Dim::Range(low, high) => format!("{low}..{high}"),
        Dim::Any => "?".to_owned(),
    };
    let lengths: Vec<String> = port.get_shape().ok()??.0.iter().map(length).collect();
    Some([element.to_string().to_lowercase(), lengths.join(",")])
}
