//! What to do about a server that does not start.

use std::{error::Error, path::Component};

use ovms::{
    config::FlagError,
    engine::reload::Fault,
    metrics::NameError,
    model::{VersionFault, repository::RepositoryError, storage::SourceError},
    openvino::LoadError,
    server::{BindError, StartError},
};

use crate::error::{Failure, FailureKind};

/// Explains a flag that is not accepted: texts of the command line are printed as they are.
pub(super) fn of_flags(error: &FlagError) -> Failure {
    let failure = if error.is_usage() {
        Failure::usage_verbatim(error.to_string())
    } else {
        Failure::new(FailureKind::Failed, error.to_string())
    };
    match error {
        FlagError::ModelMissing => failure.hint(
            "give --config_path, or both --model_name and --model_path, or --demo for an example",
        ),
        FlagError::GrpcWorkers {
            cores,
            variable: Some(number),
        } => failure.hint(format!(
            "the environment has GRPC_SERVERS={number}, which goes before --grpc_workers; unset it, \
             or set it to a number from 1 to {cores}"
        )),
        FlagError::FileAndParameters => {
            failure.hint("write them into the file, at the model that they are for")
        }
        FlagError::PortsUnset => {
            failure.hint("give --port for gRPC, --rest_port for REST, or both")
        }
        FlagError::NotStateful | FlagError::DrainNotStateful => failure.hint(
            "add --stateful; with --config_path, write both into the file, at the model that they \
             are for",
        ),
        _ => failure,
    }
}

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
        StartError::Fault(Fault::Repository {
            source: SourceError::Local(RepositoryError::BasePath { path, .. }),
            ..
        }) if path.components().any(|part| part == Component::ParentDir) => {
            failure.hint(match path.canonicalize() {
                Ok(path) => format!("give --model_path without `..`: {}", path.display()),
                Err(_) => "give --model_path without `..`".to_owned(),
            })
        }
        StartError::Fault(Fault::Repository {
            source: SourceError::Local(RepositoryError::BasePath { .. }),
            ..
        }) => failure.hint(
            "--model_path is the folder above the version folders: /models/resnet for \
             /models/resnet/1/model.xml",
        ),
        StartError::Fault(Fault::Repository { source, .. }) => match source.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        StartError::Fault(Fault::Version(version)) => match version.source.as_ref() {
            VersionFault::Source(source) => match source.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
            VersionFault::Load(error) => of_load(failure, error),
            _ => failure,
        },
        StartError::Metrics(error) => of_metrics(failure, error),
        StartError::Fault(_) | StartError::Lost => failure,
    }
}

fn of_metrics(failure: Failure, error: &NameError) -> Failure {
    match error {
        NameError::Unknown {
            nearest: Some(nearest),
            ..
        } => failure.hint(format!("did you mean `{nearest}`?")),
        NameError::Unknown { nearest: None, .. } => {
            failure.hint("docs/monitoring.md of the server lists the families")
        }
        NameError::Repeated { .. } => failure.hint("name each family once"),
    }
}

fn of_load(failure: Failure, error: &LoadError) -> Failure {
    match error {
        LoadError::Device { device, known, .. } | LoadError::Compile { device, known, .. }
            if is_unknown(device, known) =>
        {
            failure.hint(format!(
                "--target_device takes the devices of this machine ({}), or AUTO, HETERO and \
                 MULTI with a list of them",
                known.join(", ")
            ))
        }
        LoadError::Property { key, .. } | LoadError::UnknownProperty { key, .. } => {
            failure.hint(format!(
                "mend or leave out {key} in --plugin_config; its keys are properties of OpenVINO"
            ))
        }
        LoadError::Read { .. } => {
            failure.hint("check that the file is whole, for example by exporting it again")
        }
        _ => failure,
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
