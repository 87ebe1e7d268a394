//! Missing models and custom nodes, for diagrams.

use crate::{
    draw::Missing,
    pipeline::sources::{CustomError, MissingModel},
};

/// Returns the problem of a model; `None` if it was not examined.
pub(super) fn model(name: &str, version: Option<i64>, why: &MissingModel) -> Option<Missing> {
    let (short, text) = match why {
        MissingModel::Unknown(_) => ("no such model", format!("there is no model `{name}`")),
        MissingModel::Version(_) => {
            let version = version.map_or("such version".to_owned(), |it| format!("version {it}"));
            (
                "no such version",
                format!("the model `{name}` has no {version}"),
            )
        }
        MissingModel::NotAvailable(reason) => (
            "not available",
            format!("the model `{name}` is not available: {reason}"),
        ),
        MissingModel::NotLooked { .. } => return None,
    };
    Some(Missing { short, text })
}

/// Returns the problem of a custom node; `None` if it was not examined.
pub(super) fn custom(library: &str, why: &CustomError) -> Option<Missing> {
    let of = format!("of the library `{library}`");
    let (short, text) = match why {
        CustomError::Library(_) => (
            "no such library",
            format!("there is no library `{library}`"),
        ),
        CustomError::NotOpen(reason) => (
            "does not open",
            format!("the library `{library}` does not open: {reason}"),
        ),
        CustomError::Parameter(key) => (
            "not initialized",
            format!("the parameter `{key}` has a zero byte, which no library can be given"),
        ),
        CustomError::Initialize(code) => {
            ("not initialized", format!("`initialize` {of} gave {code}"))
        }
        CustomError::Metadata(call, code) => {
            ("fails when asked", format!("`{call}` {of} gave {code}"))
        }
        CustomError::Handle(call) => ("fails when asked", format!("`{call}` {of} gave no list")),
        CustomError::Count(call, count) => (
            "fails when asked",
            format!("`{call}` {of} gave {count} tensors"),
        ),
        CustomError::Handler(reason) => (
            "does not load",
            format!("`{library}` does not load: {reason}"),
        ),
        CustomError::Environment(reason) => ("does not load", reason.clone()),
        CustomError::NotLooked(_) => return None,
    };
    Some(Missing { short, text })
}

#[cfg(test)]
mod tests {
    use super::{custom, model};
    use crate::pipeline::sources::{CustomError, MissingModel};

    #[test]
    fn every_reason_is_reported_with_its_names() {
        let models = [
            (None, MissingModel::Unknown(vec!["dummy".to_owned()])),
            (Some(7), MissingModel::Version(vec![1, 2])),
            (None, MissingModel::NotAvailable("LOADING".to_owned())),
        ];
        let nodes = [
            CustomError::Library(Vec::new()),
            CustomError::NotOpen("no such file".to_owned()),
            CustomError::Parameter("key".to_owned()),
            CustomError::Initialize(7),
            CustomError::Handler("ValueError: no".to_owned()),
            CustomError::Metadata("getInputsInfo", 1),
            CustomError::Handle("getOutputsInfo"),
            CustomError::Count("getOutputsInfo", 0),
        ];
        let models = models
            .iter()
            .map(|(version, why)| model("m", *version, why));
        let nodes = nodes.iter().map(|why| custom("l", why));
        let reported: Vec<String> = models
            .chain(nodes)
            .flatten()
            .map(|missing| format!("{}: {}", missing.short, missing.text))
            .collect();
        insta::assert_snapshot!(reported.join("\n"), @"
        no such model: there is no model `m`
        no such version: the model `m` has no version 7
        not available: the model `m` is not available: LOADING
        no such library: there is no library `l`
        does not open: the library `l` does not open: no such file
        not initialized: the parameter `key` has a zero byte, which no library can be given
        not initialized: `initialize` of the library `l` gave 7
        does not load: `l` does not load: ValueError: no
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
        assert_eq!(model("m", None, &far), None);
        let far = CustomError::NotLooked("nobody may run it".to_owned());
        assert_eq!(custom("l", &far), None);
    }
}
