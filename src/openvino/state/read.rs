//! A model file read without its variables.

use std::fs;

use super::split::{SplitGraph, split};
use crate::{
    error::{Error, chain},
    openvino::{
        ffi::{Core, Model},
        load::{self, Load},
        low_latency,
    },
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
    /// Whether it has the model's inputs.
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
    let SplitGraph {
        variables,
        step,
        initial,
    } = split(&text).map_err(|reason| refused(reason.to_string()))?;
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
        load::read(core, &part).map_err(|error| refused(chain(&error)))
    };
    let step = read("step.xml", &step)?;
    let initial = match initial {
        None => None,
        Some(initial) => Some(InitialModel {
            model: read("initial.xml", &initial.text)?,
            variables: initial.variables,
            of_inputs: initial.of_inputs,
        }),
    };
    Ok(SplitModel {
        variables,
        step,
        initial,
    })
}
