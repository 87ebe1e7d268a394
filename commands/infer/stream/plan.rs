//! Meaning of the flags of streams.

use std::path::{Path, PathBuf};

use ovms::{
    client::{
        Api,
        input::{Argument, ElementSource},
    },
    request::{Parameter, Parameters},
};

use super::StreamArgs;
use crate::{
    error::{Failure, FailureKind},
    infer::args::{Format, of_stdin},
    ui::OutputFormat,
};

/// Request parameter with the timestamp.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Requests to send over a stream, and the format of the responses.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) struct Plan {
    pub(in crate::infer) requests: RequestPlan,
    pub(super) format: OutputFormat,
}

/// Requests of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestPlan {
    pub(super) source: Origin,
    /// Timestamp of the next request that has none of its own.
    pub(super) timestamp: Option<i64>,
    /// Kind of the failure for a line that is no request.
    pub(super) malformed: FailureKind,
}

/// Source of requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    /// Inputs as one request.
    Inputs,
    /// Parts of the inputs along an axis.
    Parts(usize),
    /// Lines of standard input, or of a file, which give this input.
    Lines(Argument, Option<PathBuf>),
}

impl RequestPlan {
    /// Plans one request, or one for each line of a file.
    pub(crate) fn local(lines: Option<&Path>, timestamp: Option<i64>) -> Self {
        Self {
            source: lines.map_or(Origin::Inputs, |path| Origin::Lines(nameless(), file(path))),
            timestamp,
            malformed: FailureKind::Failed,
        }
    }
}

impl Plan {
    /// Checks the flags; `None` if there is no stream. The input that standard input gives line by
    /// line is removed from the others.
    pub(in crate::infer) fn new(
        args: &StreamArgs,
        axis: Option<usize>,
        inputs: &mut Vec<Argument>,
        format: Format,
        api: Api,
    ) -> Result<Option<Self>, Failure> {
        if !args.stream {
            return Ok(None);
        }
        if api != Api::KserveGrpc {
            let text = format!("`--stream` does not fit `--api {api}`");
            return Err(Failure::usage(text).hint("only kserve-grpc has streams"));
        }
        let format = format.of_many("a stream")?;
        let lines = match (&args.requests, of_stdin(inputs)?) {
            (None, None) => None,
            (None, Some(argument)) => Some((argument, None)),
            (Some(path), None) => Some((nameless(), file(path))),
            (Some(_), Some(_)) => {
                return Err(Failure::usage("`--requests` does not fit `-i -`")
                    .hint("either gives a request with each line"));
            }
        };
        let source = match (lines, axis) {
            (Some((argument, file)), None) => Origin::Lines(argument, file),
            (Some(_), Some(_)) => {
                return Err(
                    Failure::usage("`--axis` does not fit requests that are lines")
                        .hint("there each line is a request"),
                );
            }
            (None, Some(axis)) => Origin::Parts(axis),
            (None, None) => Origin::Inputs,
        };
        let requests = RequestPlan {
            source,
            timestamp: args.timestamp,
            malformed: FailureKind::Usage,
        };
        Ok(Some(Self { requests, format }))
    }

    /// Returns whether a request may come without inputs from flags.
    pub(in crate::infer) fn has_lines(&self) -> bool {
        matches!(self.requests.source, Origin::Lines(..))
    }
}

/// Adds a timestamp to the parameters.
pub(super) fn stamp(parameters: &mut Parameters, timestamp: i64) {
    parameters.retain(|(key, _)| key != TIMESTAMP);
    parameters.push((TIMESTAMP.to_owned(), Parameter::Int(timestamp)));
}

/// Returns a file, unless it is standard input.
fn file(path: &Path) -> Option<PathBuf> {
    (path != Path::new("-")).then(|| path.to_owned())
}

fn nameless() -> Argument {
    Argument {
        name: None,
        dtype: None,
        shape: None,
        source: ElementSource::Stdin { output: None },
    }
}
