//! Files with all tensors of a request.

use std::path::Path;

use ovms::{client::output::save_tensors, tensor::TensorMap};

use super::{load::LocalPipeline, measure::Measured};
use crate::{error::Failure, ui};

/// Saves the inputs of the pipeline, the tensors of each run, and the response.
pub(super) fn all(
    folder: &Path,
    loaded: &LocalPipeline,
    inputs: &TensorMap,
    measured: &Measured,
) -> Result<(), Failure> {
    let plan = loaded.plan();
    let mut tensors = TensorMap::default();
    for (name, tensor) in inputs {
        tensors.push((format!("request.{name}"), tensor.clone()));
    }
    for run in &measured.last.runs {
        let node = &plan.nodes[run.node];
        let session = match run.session.as_str() {
            "" => String::new(),
            session => format!(".{session}"),
        };
        let inputs = node.inputs.iter().zip(&run.inputs);
        let inputs = inputs.map(|(it, tensor)| ("in", &it.name, tensor));
        let outputs = node.outputs.iter().zip(&run.outputs);
        let outputs = outputs.map(|(it, tensor)| ("out", &it.name, tensor));
        for (side, name, tensor) in inputs.chain(outputs) {
            let name = format!("{}{session}.{side}.{name}", node.name);
            tensors.push((name, tensor.clone()));
        }
    }
    for (name, tensor) in &measured.last.outputs {
        tensors.push((format!("response.{name}"), tensor.clone()));
    }
    let saved = save_tensors(&tensors, folder)
        .map_err(|error| Failure::cannot("save to", folder, &error))?;
    let (number, folder) = (saved.len(), folder.display());
    ui::note(&format!("Saved {number} tensors in {folder}."));
    Ok(())
}
