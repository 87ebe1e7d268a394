//! Format of errors on stderr: text for people, or one JSON object for scripts.

use std::{borrow::Cow, ffi::OsString, sync::OnceLock};

use clap::ValueEnum;

use crate::{error::Failure, quiet::is_quiet, spelling::hyphenated};

/// Format of the error that ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ErrorFormat {
    /// Lines for people: the error, its causes, and hints
    Text,
    /// One JSON object, in the last line
    Json,
}

/// Name of the flag.
const FLAG: &str = "--error-format";

/// Flag that is set where errors are JSON.
static JSON: OnceLock<()> = OnceLock::new();

/// Returns whether errors are JSON.
pub(crate) fn is_json() -> bool {
    JSON.get().is_some()
}

impl ErrorFormat {
    /// Makes this the format for the rest of the process.
    pub(crate) fn set(self) {
        if self == Self::Json {
            let _ = JSON.set(());
        }
    }
}

/// Takes the flag out of a command line, wherever it stands, up to a `--`: before the rest is read, since that may be what
/// is wrong. A flag without one of its values stays, for the error.
pub(crate) fn taken(args: Vec<OsString>) -> (Vec<OsString>, ErrorFormat) {
    let (mut left, mut format) = (Vec::with_capacity(args.len()), ErrorFormat::Text);
    let read = |value: &str| ErrorFormat::from_str(value, false).ok();
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        if arg == "--" {
            left.push(arg);
            left.extend(args);
            break;
        }
        let text = arg.to_string_lossy();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*text, None),
        };
        let is_flag = name.starts_with("--") && hyphenated(name) == FLAG;
        let found = match value {
            _ if !is_flag => None,
            Some(value) => read(value),
            None => {
                let found = args.peek().and_then(|value| read(value.to_str()?));
                if found.is_some() {
                    args.next();
                }
                found
            }
        };
        match found {
            Some(found) => format = found,
            None => left.push(arg),
        }
    }
    (left, format)
}

/// Refuses a flag without one of its values in front of the subcommand, where any other flag would mean `serve`.
///
/// # Errors
///
/// Fails if it stands there.
pub(crate) fn refuse_in_front(args: &[OsString]) -> Result<(), Failure> {
    let mut in_front = args.iter().skip(1).filter(|arg| !is_quiet(arg));
    let first = in_front.next().map(|first| first.to_string_lossy());
    let first = first.as_deref().unwrap_or_default();
    let (name, value) = match first.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => {
            let next = in_front.next().map(|next| next.to_string_lossy());
            (first, next.map(Cow::into_owned))
        }
    };
    if !name.starts_with("--") || hyphenated(name) != FLAG {
        return Ok(());
    }
    let text = match value {
        Some(value) => format!("invalid value `{value}` for {FLAG}"),
        None => format!("{FLAG} has no value"),
    };
    Err(Failure::usage(text).hint("its values are text and json"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{ErrorFormat, refuse_in_front, taken};

    #[test]
    fn a_wrong_value_in_front_is_no_flag_of_serve() {
        let refused = |typed: &str| {
            let args: Vec<_> = typed.split(' ').map(OsString::from).collect();
            refuse_in_front(&args)
                .err()
                .map(|failure| failure.message().to_owned())
        };
        for (typed, text) in [
            (
                "ovms --error-format yaml infer m",
                "invalid value `yaml` for --error-format",
            ),
            (
                "ovms -q --error_format=yaml infer m",
                "invalid value `yaml` for --error-format",
            ),
            ("ovms --error-format", "--error-format has no value"),
        ] {
            assert_eq!(refused(typed).as_deref(), Some(text));
        }
        for typed in [
            "ovms",
            "ovms --port 9000",
            "ovms infer m --error-format yaml",
        ] {
            assert_eq!(refused(typed), None);
        }
    }

    #[test]
    fn the_flag_is_taken_from_wherever_it_stands() {
        use ErrorFormat::{Json, Text};
        for (typed, left, format) in [
            ("ovms infer m", "ovms infer m", Text),
            ("ovms --error-format json infer m", "ovms infer m", Json),
            ("ovms infer --error_format=json m", "ovms infer m", Json),
            (
                "ovms infer m --error-format json --error-format text",
                "ovms infer m",
                Text,
            ),
            (
                "ovms infer m -- --error-format json",
                "ovms infer m -- --error-format json",
                Text,
            ),
            // What is wrong is reported by whoever reads the rest.
            (
                "ovms infer m --error-format xml",
                "ovms infer m --error-format xml",
                Text,
            ),
            (
                "ovms infer --error-format",
                "ovms infer --error-format",
                Text,
            ),
        ] {
            let args = typed.split(' ').map(OsString::from).collect();
            let (found, of) = taken(args);
            assert_eq!((found.join(" ".as_ref()), of), (left.into(), format));
        }
    }
}
