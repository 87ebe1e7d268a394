//! Reasons why nothing is known of the model or custom node that a node runs.

use super::draft::{one_of, or_meant};
use crate::{
    custom_node::NodeError,
    diagnostic::{FindingText, Rule},
    draw::Missing,
    pipeline::{
        rules::{
            INITIALIZE, METADATA_CALL, METADATA_COUNT, METADATA_HANDLE, MISSING_LIBRARY,
            MISSING_MODEL,
        },
        sources::{CustomError, HandlerPlace, MissingModel},
    },
};

/// Key of a pipeline, for all of its Python nodes.
pub(super) const ENVIRONMENT: &str = "python_environment";

/// Reason why a node's inputs and outputs are not known.
#[derive(Debug)]
pub(in crate::pipeline) struct Failure {
    pub(super) rule: Rule,
    pub(super) key: &'static str,
    pub(super) message: FindingText,
    pub(super) next: String,
    /// The same in a diagram.
    pub(in crate::pipeline) missing: Missing,
    /// Place in a handler, if it has raised it.
    pub(super) raised: Option<Box<HandlerPlace>>,
}

/// Converts the failure of a model; one that was not examined is its reason.
pub(in crate::pipeline) fn of_model(
    name: &str,
    version: Option<i64>,
    missing: MissingModel,
) -> Result<Failure, String> {
    let (key, short, text, found, expected, next) = match missing {
        MissingModel::Unknown(known) => (
            "model_name",
            "no such model",
            format!("there is no model `{name}`"),
            format!("the model `{name}`, which is not there"),
            one_of("a model of model_config_list", &known),
            or_meant(name, &known, "add the model to model_config_list"),
        ),
        MissingModel::Version(versions) => {
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            let asked = version.map_or("such version".to_owned(), |it| format!("version {it}"));
            (
                "version",
                "no such version",
                format!("the model `{name}` has no {asked}"),
                format!("a version that the model `{name}` does not have"),
                one_of("a version that it has", &versions),
                "change the version, or leave it out for the default one".to_owned(),
            )
        }
        MissingModel::NotAvailable(reason) => {
            let asked = version.map_or_else(String::new, |it| format!("version {it} of "));
            (
                "model_name",
                "not available",
                format!("{asked}the model `{name}` is not available: {reason}"),
                format!("{asked}the model `{name}`, which is not available: {reason}"),
                "a model that is available".to_owned(),
                "fix that first".to_owned(),
            )
        }
        MissingModel::NotLooked { reason, .. } => return Err(reason),
    };
    Ok(Failure {
        rule: MISSING_MODEL,
        key,
        message: (found, expected).into(),
        next,
        missing: Missing { short, text },
        raised: None,
    })
}

/// Converts the failure of a custom node; one that was not examined is its reason.
pub(in crate::pipeline) fn of_custom(library: &str, error: CustomError) -> Result<Failure, String> {
    let print = "see the node's params, and what the library prints".to_owned();
    let asked = |rule, call: &str, gave: String, expected: &str, print| {
        let text = format!("`{call}` of the library `{library}` gave {gave}");
        let found = format!("{gave} from `{call}`");
        let expected = expected.to_owned();
        (rule, "fails when asked", text, found, expected, print)
    };
    let mut place = None;
    let (rule, short, text, found, expected, next) = match error {
        CustomError::Library(known) => (
            MISSING_LIBRARY,
            "no such library",
            format!("there is no library `{library}`"),
            format!("the library `{library}`, which is not open"),
            one_of("a library that is", &known),
            or_meant(library, &known, "add it to custom_node_library_config_list"),
        ),
        CustomError::NotOpen(reason) => (
            MISSING_LIBRARY,
            "does not open",
            format!("the library `{library}` does not open: {reason}"),
            format!("the library `{library}`, which does not open: {reason}"),
            "a library that opens and has all six functions".to_owned(),
            "build it, or correct its base_path".to_owned(),
        ),
        CustomError::Handler {
            reason,
            advice,
            raised,
        } => {
            place = raised;
            (
                INITIALIZE,
                "does not load",
                format!("`{library}` does not load: {reason}"),
                reason,
                "a handler that loads and initializes".to_owned(),
                advice.to_owned(),
            )
        }
        CustomError::Generator => (
            INITIALIZE,
            "is a generator",
            format!("`execute` of `{library}` is a generator: every request fails"),
            format!("`{library}`, whose `execute` is a generator: every request fails"),
            "an `execute` that returns a list of pyovms.Tensor, since there is one response"
                .to_owned(),
            "return the list in place of `yield`; a graph has nodes that generate".to_owned(),
        ),
        CustomError::Environment(reason) => {
            return Ok(Failure {
                rule: INITIALIZE,
                key: ENVIRONMENT,
                message: FindingText::Text(reason.clone()),
                next: "or name another folder; without the key it is that of the server".to_owned(),
                missing: Missing {
                    short: "does not load",
                    text: reason,
                },
                raised: None,
            });
        }
        CustomError::Node(NodeError::Parameter { key, .. }) => (
            INITIALIZE,
            "not initialized",
            format!("the parameter `{key}` has a zero byte, which no library can be given"),
            format!("a zero byte in the parameter `{key}`"),
            "texts that C can have".to_owned(),
            "take the zero byte away".to_owned(),
        ),
        CustomError::Node(NodeError::Call {
            function: "initialize",
            code,
            ..
        }) => (
            INITIALIZE,
            "not initialized",
            format!("`initialize` of the library `{library}` gave {code}"),
            format!("{code} from `initialize` of the library `{library}`"),
            "0".to_owned(),
            print,
        ),
        CustomError::Node(NodeError::Call { function, code, .. }) => {
            asked(METADATA_CALL, function, code.to_string(), "0", print)
        }
        CustomError::Node(NodeError::NoArray { function, .. }) => {
            let gave = "no list".to_owned();
            asked(METADATA_HANDLE, function, gave, "a list of tensors", print)
        }
        CustomError::Node(NodeError::Count {
            function, count, ..
        }) => {
            let gave = format!("{count} tensors");
            asked(METADATA_COUNT, function, gave, "at least 1", print)
        }
        CustomError::NotLooked(reason) => return Err(reason),
    };
    Ok(Failure {
        rule,
        key: "library_name",
        message: (found, expected).into(),
        next,
        missing: Missing { short, text },
        raised: place,
    })
}

#[cfg(test)]
mod tests {
    use super::{of_custom, of_model};
    use crate::{
        custom_node::NodeError,
        pipeline::sources::{CustomError, MissingModel},
    };

    #[test]
    fn every_reason_is_reported_with_its_names() {
        let models = [
            (None, MissingModel::Unknown(vec!["dummy".to_owned()])),
            (Some(7), MissingModel::Version(vec![1, 2])),
            (None, MissingModel::NotAvailable("LOADING".to_owned())),
            (Some(7), MissingModel::NotAvailable("LOADING".to_owned())),
        ];
        let library = || "l".to_owned();
        let nodes = [
            CustomError::Library(Vec::new()),
            CustomError::NotOpen("no such file".to_owned()),
            NodeError::Parameter {
                library: library(),
                key: "key".to_owned(),
            }
            .into(),
            NodeError::Call {
                library: library(),
                function: "initialize",
                code: 7,
            }
            .into(),
            CustomError::Handler {
                reason: "ValueError: no".to_owned(),
                advice: "correct the handler; the log has where it was raised",
                raised: None,
            },
            CustomError::Generator,
            NodeError::Call {
                library: library(),
                function: "getInputsInfo",
                code: 1,
            }
            .into(),
            NodeError::NoArray {
                library: library(),
                function: "getOutputsInfo",
            }
            .into(),
            NodeError::Count {
                library: library(),
                function: "getOutputsInfo",
                count: 0,
            }
            .into(),
        ];
        let models = models
            .into_iter()
            .map(|(version, why)| of_model("m", version, why));
        let nodes = nodes.into_iter().map(|why| of_custom("l", why));
        let reported: Vec<String> = models
            .chain(nodes)
            .flatten()
            .map(|failure| format!("{}: {}", failure.missing.short, failure.missing.text))
            .collect();
        insta::assert_snapshot!(reported.join("\n"), @"
        no such model: there is no model `m`
        no such version: the model `m` has no version 7
        not available: the model `m` is not available: LOADING
        not available: version 7 of the model `m` is not available: LOADING
        no such library: there is no library `l`
        does not open: the library `l` does not open: no such file
        not initialized: the parameter `key` has a zero byte, which no library can be given
        not initialized: `initialize` of the library `l` gave 7
        does not load: `l` does not load: ValueError: no
        is a generator: `execute` of `l` is a generator: every request fails
        fails when asked: `getInputsInfo` of the library `l` gave 1
        fails when asked: `getOutputsInfo` of the library `l` gave no list
        fails when asked: `getOutputsInfo` of the library `l` gave 0 tensors
        ");
    }

    #[test]
    fn what_nobody_looked_at_is_not_missing() {
        let far = MissingModel::NotLooked {
            reason: "it is far away".to_owned(),
            stateful: false,
            auto: false,
        };
        assert_eq!(
            of_model("m", None, far).err().as_deref(),
            Some("it is far away")
        );
        let far = CustomError::NotLooked("nobody may run it".to_owned());
        assert_eq!(
            of_custom("l", far).err().as_deref(),
            Some("nobody may run it")
        );
    }
}
