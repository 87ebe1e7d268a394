//! From a model file to its inputs and outputs, without compiling it.

use super::{
    cores::Ready,
    describe::{self, Described},
    error::ModelLoadError,
    load::{self, Load},
    prepare::Prepared,
};
use crate::servable::ServableInfo;

/// Model that was read, and not compiled.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// Inputs and outputs, as they are once it is loaded.
    pub info: ServableInfo,
    /// Warnings that its load would give.
    pub warnings: Vec<String>,
}

/// Reads a model and returns its inputs and outputs as they are once it is loaded. Takes the time
/// of the file, and none of a device's.
///
/// # Errors
///
/// Fails as [`load`](super::load()) does before it compiles; a device may still refuse the model.
pub fn inspect(load: Load<'_>) -> Result<Inspected, ModelLoadError> {
    let options = &*load::options(load.options)?;
    let load = Load { options, ..load };
    let mut core = Ready::new(options, None)?;
    let Prepared {
        model,
        inputs,
        outputs,
        stale,
    } = load::prepared(&mut core, &load)?;
    let inputs = describe::inputs(|port| model.get_input_by_index(port), inputs, load.layouts)?;
    let outputs = describe::outputs(
        |port| model.get_output_by_index(port),
        outputs,
        load.layouts,
    )?;
    core.keep();
    let infos = |tensors: Vec<Described>| tensors.into_iter().map(|tensor| tensor.info).collect();
    let file = load.names.file.display();
    Ok(Inspected {
        info: ServableInfo::new(infos(inputs), infos(outputs)),
        warnings: stale.iter().map(|it| format!("{file}: {it}")).collect(),
    })
}
