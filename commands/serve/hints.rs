//! What to do about a server that does not start.

use std::error::Error;

use ovms::{
    model::repository::RepositoryError,
    openvino::LoadError,
    server::{BindError, StartError},
};

use crate::error::{Failure, FailureKind};

/// Explains a port that was not opened.
pub(super) fn of_bind(error: &BindError) -> Failure {
    let failure = failure(error);
    match error {
        BindError::Busy { port, .. } => failure.hint(format!(
            "another process listens on port {port}; stop it, or choose another port"
        )),
        BindError::Address { .. } => {
            failure.hint("give an address of this machine, or 0.0.0.0 for all of them")
        }
    }
}

/// Explains a model that was not loaded.
pub(super) fn of_start(error: &StartError) -> Failure {
    let failure = failure(error);
    match error {
        StartError::Repository { source, .. } => match source {
            RepositoryError::BasePath { .. } => failure.hint(
                "--model_path is the folder above the version folders: /models/resnet for \
                 /models/resnet/1/model.xml",
            ),
            RepositoryError::NoModel(_) | RepositoryError::Read { .. } => failure,
        },
        StartError::Version(version) => match version.source.as_ref() {
            LoadError::Property { device, known, .. }
            | LoadError::Compile { device, known, .. }
                if is_unknown(device, known) =>
            {
                failure.hint(format!(
                    "--target_device takes the devices of this machine ({}), or AUTO, HETERO and \
                     MULTI with a list of them",
                    known.join(", ")
                ))
            }
            LoadError::Property { key, .. } => failure.hint(format!(
                "mend or leave out {key} in --plugin_config; its keys are properties of OpenVINO"
            )),
            // A device is only made when it is first needed, and reads its properties then.
            LoadError::Compile { source, .. } if source.to_string().contains("ropert") => {
                failure.hint("mend --plugin_config; its keys are properties of OpenVINO")
            }
            LoadError::Read { .. } => {
                failure.hint("check that the file is whole, for example by exporting it again")
            }
            _ => failure,
        },
    }
}

/// Tells whether a device is none of those known; `GPU.1` is one of `GPU`, and `AUTO:CPU` is put
/// together of others.
fn is_unknown(device: &str, known: &[String]) -> bool {
    let base = device.split([':', '.']).next().unwrap_or_default();
    let composed = ["AUTO", "HETERO", "MULTI", "BATCH"];
    !known.is_empty()
        && !composed.contains(&base)
        && !known
            .iter()
            .any(|known| known.split('.').next() == Some(base))
}

fn failure(error: &dyn Error) -> Failure {
    let failure = Failure::new(FailureKind::Failed, error.to_string());
    match error.source() {
        Some(source) => failure.caused_by(source),
        None => failure,
    }
}
