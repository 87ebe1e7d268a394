//! `model_version_policy`: which versions of a model are served.

use super::{
    file::{Findings, Node, Source},
    settings::VersionPolicy,
};
use crate::diagnostic::Diagnostic;

/// A text that is no version policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum PolicyError {
    #[error("Model version policy contains unsupported key - {0}")]
    UnsupportedKey(String),
    #[error("Model version policy is in wrong format - {0}")]
    WrongFormat(String),
}

/// The kinds of policies.
const KINDS: [&str; 3] = ["latest", "all", "specific"];

/// Reads the text of a flag.
pub(super) fn parse(text: &str) -> Result<VersionPolicy, PolicyError> {
    let wrong = |error: &Diagnostic| {
        let text = error.message.to_string();
        // The path of an unknown key.
        if !error.subject.is_empty() && !error.subject.contains('.') {
            PolicyError::UnsupportedKey(text)
        } else {
            PolicyError::WrongFormat(text)
        }
    };
    let source = Source::new(text.as_bytes()).map_err(|error| wrong(&error))?;
    let value = source.parse().map_err(|error| wrong(&error))?;
    let findings = Findings::new(&source);
    let policy = read(&Node::root(&value, &findings));
    let (errors, _, warnings) = findings.into_parts();
    if let Some(twice) = warnings.first() {
        return Err(PolicyError::WrongFormat(twice.message.to_string()));
    }
    match (policy, errors.first()) {
        (Some(policy), None) => Ok(policy),
        (_, Some(error)) => Err(wrong(error)),
        (None, None) => Err(PolicyError::WrongFormat(text.to_owned())),
    }
}

/// Reads a policy of a file; anything else becomes an error.
pub(super) fn read(node: &Node<'_>) -> Option<VersionPolicy> {
    let policy = node.fields(&KINDS, &[])?;
    let given: Vec<_> = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, policy.get(kind)?)))
        .collect();
    let [(kind, settings)] = given[..] else {
        if given.is_empty()
            && node
                .pairs("policies")
                .is_some_and(|pairs| !pairs.is_empty())
        {
            // The unknown key has been reported.
            return None;
        }
        return node.refuse("exactly one of latest, all, specific");
    };
    match kind {
        "latest" => {
            let latest = settings.fields(&["num_versions"], &[])?;
            let number = match latest.get("num_versions") {
                Some(number) => number.whole(1, i64::from(u32::MAX))?,
                None => 1,
            };
            usize::try_from(number).ok().map(VersionPolicy::Latest)
        }
        "all" => {
            if !settings.pairs("nothing")?.is_empty() {
                return settings.refuse("an empty object");
            }
            Some(VersionPolicy::All)
        }
        _ => {
            let specific = settings.fields(&["versions"], &["versions"])?;
            let versions = specific.get("versions")?.list("version numbers")?;
            // All of them, so that every error is reported.
            let versions: Vec<_> = versions
                .iter()
                .map(|version| version.whole(1, i64::MAX))
                .collect();
            let versions = versions.into_iter().collect::<Option<_>>();
            versions.map(VersionPolicy::Specific)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PolicyError, parse};
    use crate::config::settings::VersionPolicy;

    #[test]
    fn policies_are_read() {
        for (text, expected) in [
            (r#"{"latest":{"num_versions":2}}"#, VersionPolicy::Latest(2)),
            (r#"{"latest":{}}"#, VersionPolicy::Latest(1)),
            (r#" {"all": {}} "#, VersionPolicy::All),
            (
                r#"{"specific":{"versions":[3,1]}}"#,
                VersionPolicy::Specific(vec![3, 1]),
            ),
            (
                r#"{"specific":{"versions":[]}}"#,
                VersionPolicy::Specific(vec![]),
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for text in [r#"{"newest":{}}"#, r#"{"all":{},"x":1}"#] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, PolicyError::UnsupportedKey(_)),
                "{text}: {error}"
            );
        }
        for text in [
            "",
            "latest",
            "{",
            "{}",
            "[]",
            r#""all""#,
            r#"{"all":{},"latest":{}}"#,
            r#"{"all":{},"all":{}}"#,
            r#"{"all":1}"#,
            r#"{"all":{"x":1}}"#,
            r#"{"latest":{"num_versions":0}}"#,
            r#"{"latest":{"num_versions":-1}}"#,
            r#"{"latest":{"num_versions":1.5}}"#,
            r#"{"latest":{"num_versions":"1"}}"#,
            r#"{"latest":{"versions":1}}"#,
            r#"{"specific":{}}"#,
            r#"{"specific":{"versions":1}}"#,
            r#"{"specific":{"versions":[0]}}"#,
            r#"{"specific":{"versions":["1"]}}"#,
            r#"{"specific":{"versions":[99999999999999999999]}}"#,
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, PolicyError::WrongFormat(_)),
                "{text}: {error}"
            );
        }
        assert_eq!(
            parse(r#"{"latst":{}}"#).unwrap_err().to_string(),
            "Model version policy contains unsupported key - found the unknown key `latst`; \
             expected one of latest, all, specific"
        );
    }
}
