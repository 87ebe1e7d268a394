//! The paths of the protocol's REST side.
//!
//! A colon within a part of a path is more than a router's patterns can say, so they are read by
//! hand. The path as a whole counts: a slash at the end makes it another one.

use percent_encoding::percent_decode_str;

use crate::{
    error::Result,
    frontends::rest::{self, unknown_path},
};

/// Call that a path stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Inference.
    Predict(Names),
    /// A call of the protocol that is not served.
    Unserved,
    /// States of versions.
    Status(Names),
    /// Inputs and outputs.
    Metadata(Names),
    /// The state of a sequence.
    Sequence(Names, u64),
    /// The states of everything.
    Config,
    /// Reads the configuration again.
    Reload,
}

/// The model that a path names, and its version: `None` for the default one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) model: String,
    pub(super) version: Option<i64>,
}

/// Reads a path; one character before it is passed over, as clients that add a slash expect.
///
/// # Errors
///
/// Fails if it is none of the protocol's, or names a version that no model can have.
pub(super) fn parse(path: &str) -> Result<Call> {
    let mut shortened = path.chars();
    shortened.next();
    let below = path
        .strip_prefix("/v1/")
        .or_else(|| shortened.as_str().strip_prefix("/v1/"))
        .ok_or_else(unknown_path)?;
    match below {
        "config" => return Ok(Call::Config),
        "config/reload" => return Ok(Call::Reload),
        _ => {}
    }
    let below = below.strip_prefix("models/").ok_or_else(unknown_path)?;
    let (names, action) = match below.split_once(':') {
        Some((names, action)) => (names, Some(action)),
        None => (below, None),
    };
    let (names, metadata) = match names.strip_suffix("/metadata") {
        Some(names) if action.is_none() => (names, true),
        _ => (names, false),
    };
    let (names, sequence) = match names.split_once("/sequences/") {
        Some((names, id)) if action.is_none() && !metadata => (names, Some(sequence(id)?)),
        _ => (names, None),
    };
    let parts: Vec<&str> = names.split('/').collect();
    let (model, version) = match parts[..] {
        [model] => (model, None),
        [model, "versions", version] => (model, rest::version(version)?),
        // Versions have no labels; clients that send one get the default version.
        [model, "labels", label] if action.is_some() && !label.is_empty() => (model, None),
        _ => return Err(unknown_path()),
    };
    if model.is_empty() {
        return Err(unknown_path());
    }
    let names = Names {
        model: percent_decode_str(model)
            .decode_utf8()
            .map_err(|_| unknown_path())?
            .into_owned(),
        version,
    };
    match action {
        Some("predict") => Ok(Call::Predict(names)),
        Some("classify" | "regress") => Ok(Call::Unserved),
        Some(_) => Err(unknown_path()),
        None if metadata => Ok(Call::Metadata(names)),
        None => Ok(match sequence {
            Some(id) => Call::Sequence(names, id),
            None => Call::Status(names),
        }),
    }
}

/// Returns whether a path is that of a sequence.
pub(in crate::frontends) fn is_sequence(path: &str) -> bool {
    // Nearly no path has this part.
    path.contains("/sequences/") && matches!(parse(path), Ok(Call::Sequence(..)))
}

/// Reads the id of a sequence, which is never 0.
fn sequence(id: &str) -> Result<u64> {
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.parse().ok().filter(|&id| digits && id > 0);
    id.ok_or_else(unknown_path)
}

#[cfg(test)]
mod tests {
    use super::{Call, Names, parse};

    fn names(model: &str, version: Option<i64>) -> Names {
        Names {
            model: model.to_owned(),
            version,
        }
    }

    #[test]
    fn every_form_is_read() {
        for (path, call) in [
            ("/v1/models/m:predict", Call::Predict(names("m", None))),
            ("//v1/models/m:predict", Call::Predict(names("m", None))),
            (
                "/v1/models/m/versions/2:predict",
                Call::Predict(names("m", Some(2))),
            ),
            (
                "/v1/models/m/versions/0:predict",
                Call::Predict(names("m", None)),
            ),
            (
                "/v1/models/m/labels/stable:predict",
                Call::Predict(names("m", None)),
            ),
            ("/v1/models/m:classify", Call::Unserved),
            ("/v1/models/m/versions/1:regress", Call::Unserved),
            ("/v1/models/m", Call::Status(names("m", None))),
            ("/v1/models/a%20b%2Fc", Call::Status(names("a b/c", None))),
            (
                "/v1/models/m/versions/007",
                Call::Status(names("m", Some(7))),
            ),
            ("/v1/models/m/metadata", Call::Metadata(names("m", None))),
            (
                "/v1/models/m/versions/1/metadata",
                Call::Metadata(names("m", Some(1))),
            ),
            ("/v1/models/metadata", Call::Status(names("metadata", None))),
            (
                "/v1/models/m/sequences/7",
                Call::Sequence(names("m", None), 7),
            ),
            (
                "//v1/models/m/versions/2/sequences/18446744073709551615",
                Call::Sequence(names("m", Some(2)), u64::MAX),
            ),
            ("/v1/config", Call::Config),
            ("/v1/config/reload", Call::Reload),
        ] {
            assert_eq!(parse(path).unwrap(), call, "{path}");
        }
    }

    #[test]
    fn other_paths_are_none() {
        for path in [
            "/v1",
            "/v1/",
            "/v1/models",
            "/v1/models/",
            "/v1/models/:predict",
            "/v1/models/m/",
            "/v1/models/m:predict/",
            "/v1/models/m:infer",
            "/v1/models/m:predict:predict",
            "/v1/models/m/metadata:predict",
            "/v1/models/m/labels/stable",
            "/v1/models/m/labels/:predict",
            "/v1/models/m/versions/",
            "/v1/models/m/versions/x",
            "/v1/models/m/versions/-1",
            "/v1/models/m/versions/1/x",
            "/v1/models/m/metadata/",
            "/v1/models/m/sequences",
            "/v1/models/m/sequences/",
            "/v1/models/m/sequences/0",
            "/v1/models/m/sequences/+1",
            "/v1/models/m/sequences/x",
            "/v1/models/m/sequences/18446744073709551616",
            "/v1/models/m/sequences/7/metadata",
            "/v1/models/m/sequences/7:predict",
            "/v1/models/m/labels/stable/sequences/7",
            "/v1/models/%ff",
            "/v1/config/",
            "/v1/config/reload/",
            "///v1/config",
            "/v2/config",
            "",
        ] {
            assert_eq!(
                parse(path).unwrap_err().to_string(),
                "Invalid request URL",
                "{path}"
            );
        }
        assert_eq!(
            parse("/v1/models/m/versions/9223372036854775808:predict")
                .unwrap_err()
                .to_string(),
            "Model with requested version is not found"
        );
    }
}
