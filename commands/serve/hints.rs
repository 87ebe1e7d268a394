//! Next steps for a server that does not start.

use std::{io, path::Component};

use ovms::{
    config::FlagError,
    engine::reload::ReloadError,
    metrics::NameError,
    model::{VersionFailure, repository::RepositoryError, storage::SourceError},
    openvino::ModelLoadError,
    server::{BindError, StartError},
};

use crate::error::{Failure, FailureKind};

/// Returns the failure for an invalid flag: texts of the command line are printed as they are.
pub(super) fn of_flags(error: &FlagError) -> Failure {
    let failure = if error.is_usage() {
        Failure::usage_verbatim(error.to_string())
    } else {
        Failure::failed(error.to_string())
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
        FlagError::NotStateful | FlagError::NeedsStateful(_) => failure.hint(
            "add --stateful; with --config_path, write both into the file, at the model that they \
             are for",
        ),
        _ => failure,
    }
}

/// Returns the failure for a port that was not opened.
pub(super) fn of_bind(error: &BindError) -> Failure {
    let failure = Failure::of(FailureKind::Failed, error);
    match error {
        BindError::Busy { port, .. } => failure.hint(format!(
            "another process listens on port {port}; stop it, or choose another port"
        )),
        BindError::Address { port, source, .. }
            if *port < 1024 && source.kind() == io::ErrorKind::PermissionDenied =>
        {
            failure.hint(format!(
                "a port below 1024, such as {port}, needs root or CAP_NET_BIND_SERVICE; choose a port \
                 from 1024 on, or give the program that capability"
            ))
        }
        BindError::Address { .. } => {
            failure.hint("give an address of this machine, or 0.0.0.0 for all of them")
        }
    }
}

/// Returns the failure for a model that was not loaded.
pub(super) fn of_start(error: &StartError) -> Failure {
    Failure::of(FailureKind::Failed, error).may_hint(match error {
        StartError::Error(ReloadError::Repository { source, .. }) => of_repository(source),
        StartError::Error(ReloadError::Version(version)) => match version.source.as_ref() {
            VersionFailure::Source(source) => source.hint(),
            VersionFailure::Load(error) => of_load(error),
            _ => None,
        },
        StartError::Metrics(error) => Some(of_metrics(error)),
        StartError::Error(_) | StartError::Lost => None,
    })
}

/// Returns the next step for a repository that cannot be read.
fn of_repository(error: &SourceError) -> Option<String> {
    let SourceError::Local(RepositoryError::BasePath { path, .. }) = error else {
        return error.hint();
    };
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    Some(match (has_parent, path.canonicalize()) {
        (true, Ok(path)) => format!("give --model_path without `..`: {}", path.display()),
        (true, Err(_)) => "give --model_path without `..`".to_owned(),
        (false, _) => "--model_path is a folder with version folders, such as /models/resnet for \
                       /models/resnet/1/model.xml, a folder with one model, or a model file"
            .to_owned(),
    })
}

fn of_metrics(error: &NameError) -> String {
    match error {
        NameError::Unknown {
            nearest: Some(nearest),
            ..
        } => format!("did you mean `{nearest}`?"),
        NameError::Unknown { .. } => {
            "docs/monitoring.md of the server lists the families".to_owned()
        }
        NameError::Repeated { .. } => "name each family once".to_owned(),
    }
}

/// Returns the next step for a model that the runtime rejects.
pub(crate) fn of_load(error: &ModelLoadError) -> Option<String> {
    match error {
        ModelLoadError::Device { device, known, .. } | ModelLoadError::Compile { device, known, .. }
            if is_unknown(device, known) =>
        {
            Some(format!(
                "target_device takes the devices of this machine ({}), or AUTO, HETERO and MULTI \
                 with a list of them",
                known.join(", ")
            ))
        }
        ModelLoadError::Property { key, .. } | ModelLoadError::UnknownProperty { key, .. } => Some(format!(
            "fix or leave out {key} in plugin_config; its keys are properties of OpenVINO"
        )),
        ModelLoadError::Unreadable { path, source }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
                        let path = path.display();
            Some(format!("let the user of the server read {path}"))
        }
        ModelLoadError::Operators { .. } => Some(
            "export the model without such operators, or give a library that has them as --cpu_extension"
                .to_owned(),
        ),
        ModelLoadError::Read { .. } => {
            Some("check that the file is whole, for example by exporting it again".to_owned())
        }
        _ => None,
    }
}

/// Returns whether a device is unknown; `GPU.1` counts as `GPU`, and `AUTO:CPU` is composed of
/// others.
fn is_unknown(device: &str, known: &[String]) -> bool {
    let base = device.split([':', '.']).next().unwrap_or_default();
    let composed = ["AUTO", "HETERO", "MULTI", "BATCH"];
    !known.is_empty()
        && !composed.contains(&base)
        && !known
            .iter()
            .any(|known| known.split('.').next() == Some(base))
}

#[cfg(test)]
mod tests {
    use std::io;

    use ovms::server::BindError;

    use super::of_bind;

    #[test]
    fn a_port_that_needs_rights_says_so() {
        let failure = of_bind(&BindError::Address {
            side: "REST",
            address: "0.0.0.0".to_owned(),
            port: 80,
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        });
        insta::assert_snapshot!(failure.text(), @r"
        error: Failed to start REST server at 0.0.0.0:80
          caused by: permission denied
        hint: a port below 1024, such as 80, needs root or CAP_NET_BIND_SERVICE; choose a port from 1024 on, or give the program that capability
        ");
    }
}
