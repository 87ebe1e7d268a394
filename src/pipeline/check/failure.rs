//! Errors of what a node runs: a model or custom node of which nothing is known.

use super::draft::{one_of, or_meant};
use crate::{
    diagnostic::{FindingText, Rule},
    pipeline::{
        rules,
        sources::{CustomError, MissingModel},
    },
};

/// Key of a pipeline, for all of its Python nodes.
pub(super) const ENVIRONMENT: &str = "python_environment";

/// Why a node's inputs and outputs are not known.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) rule: Rule,
    pub(super) key: &'static str,
    pub(super) message: FindingText,
    pub(super) next: String,
}

/// Converts the failure of a model; one that was not examined is its reason.
pub(super) fn of_model(name: &str, missing: MissingModel) -> Result<Failure, String> {
    let (key, found, expected, next) = match missing {
        MissingModel::Unknown(known) => (
            "model_name",
            format!("the model `{name}`, which is not there"),
            one_of("a model of model_config_list", &known),
            or_meant(name, &known, "add the model to model_config_list"),
        ),
        MissingModel::Version(versions) => {
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            (
                "version",
                format!("a version that the model `{name}` does not have"),
                one_of("a version that it has", &versions),
                "change the version, or leave it out for the default one".to_owned(),
            )
        }
        MissingModel::NotAvailable(reason) => (
            "model_name",
            format!("the model `{name}`, which is not available: {reason}"),
            "a model that is available".to_owned(),
            "fix that first".to_owned(),
        ),
        MissingModel::NotLooked { reason, .. } => return Err(reason),
    };
    Ok(Failure {
        rule: rules::MISSING_MODEL,
        key,
        message: (found, expected).into(),
        next,
    })
}

/// Converts the failure of a custom node; one that was not examined is its reason.
pub(super) fn of_custom(library: &str, error: CustomError) -> Result<Failure, String> {
    let print = "see the node's params, and what the library prints";
    let (rule, message, next): (_, FindingText, &str) = match error {
        CustomError::Library(known) => {
            let found = format!("the library `{library}`, which is not open");
            return Ok(Failure {
                rule: rules::MISSING_LIBRARY,
                key: "library_name",
                message: (found, one_of("a library that is", &known)).into(),
                next: or_meant(library, &known, "add it to custom_node_library_config_list"),
            });
        }
        CustomError::NotOpen(reason) => {
            let found = format!("the library `{library}`, which does not open: {reason}");
            let message = (found, "a library that opens and has all six functions");
            let next = "build it, or correct its base_path";
            (rules::MISSING_LIBRARY, message.into(), next)
        }
        CustomError::Parameter(key) => {
            let message = (
                format!("a zero byte in the parameter `{key}`"),
                "texts that C can have",
            );
            (rules::INITIALIZE, message.into(), "take the zero byte away")
        }
        CustomError::Initialize(code) => {
            let found = format!("{code} from `initialize` of the library `{library}`");
            (rules::INITIALIZE, (found, "0").into(), print)
        }
        CustomError::Handler(reason) => {
            let message = (reason, "a handler that loads and initializes");
            let next = "correct the handler; the log has where it was raised";
            (rules::INITIALIZE, message.into(), next)
        }
        CustomError::Environment(reason) => {
            return Ok(Failure {
                rule: rules::INITIALIZE,
                key: ENVIRONMENT,
                message: FindingText::Text(reason),
                next: "or name another folder; without the key it is that of the server".to_owned(),
            });
        }
        CustomError::Metadata(call, code) => {
            let message = (format!("{code} from `{call}`"), "0");
            (rules::METADATA_CALL, message.into(), print)
        }
        CustomError::Handle(call) => {
            let message = (format!("no list from `{call}`"), "a list of tensors");
            (rules::METADATA_HANDLE, message.into(), print)
        }
        CustomError::Count(call, count) => {
            let message = (format!("{count} tensors from `{call}`"), "at least 1");
            (rules::METADATA_COUNT, message.into(), print)
        }
        CustomError::NotLooked(reason) => return Err(reason),
    };
    Ok(Failure {
        rule,
        key: "library_name",
        message,
        next: next.to_owned(),
    })
}
