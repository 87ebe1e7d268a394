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
            LoadError::Property { key, .. } => failure.hint(format!(
                "mend or leave out {key} in --plugin_config; its keys are properties of OpenVINO"
            )),
            LoadError::Compile { device, known, .. } if !known.contains(device) => {
                failure.hint(format!(
                    "--target_device takes the devices of this machine ({}), or AUTO, HETERO and \
                     MULTI with a list of them",
                    known.join(", ")
                ))
            }
            LoadError::Read { .. } => {
                failure.hint("check that the file is whole, for example by exporting it again")
            }
            _ => failure,
        },
    }
}

fn failure(error: &dyn Error) -> Failure {
    let failure = Failure::new(FailureKind::Failed, error.to_string());
    match error.source() {
        Some(source) => failure.caused_by(source),
        None => failure,
    }
}
