//! Meaning of the flags of streams.

use std::path::{Path, PathBuf};

use ovms::{
    client::{
        Api,
        input::{Argument, ElementSource, InputError},
    },
    request::{Parameter, Parameters},
};

use super::{StreamArgs, show::Form};
use crate::{
    error::{Failure, FailureKind},
    infer::{args::Format, failure, task::no_single_output},
};

/// Request parameter with the timestamp.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Requests to send over a stream, and the form of the responses.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) struct Plan {
    pub(super) source: Origin,
    /// Timestamp of the next request that has none of its own.
    pub(super) timestamp: Option<i64>,
    pub(super) form: Form,
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
            return Err(usage(text).hint("only kserve-grpc has streams"));
        }
        let form = match format {
            Format::Table => Form::Lines,
            Format::Json => Form::Json,
            Format::Npy | Format::Raw => return Err(no_single_output("a stream")),
        };
        let mut typed: Vec<_> = inputs
            .extract_if(.., |input| {
                matches!(input.source, ElementSource::Stdin { .. })
            })
            .collect();
        let lines = match (&args.requests, typed.pop()) {
            (None, None) => None,
            (None, Some(argument)) => Some((argument, None)),
            (Some(path), None) => {
                let file = (path != Path::new("-")).then(|| path.clone());
                Some((nameless(), file))
            }
            (Some(_), Some(_)) => {
                return Err(usage("`--requests` does not fit `-i -`")
                    .hint("either gives a request with each line"));
            }
        };
        if !typed.is_empty() {
            return Err(failure::input(InputError::StdinTwice, None));
        }
        let source = match (lines, axis) {
            (Some((argument, file)), None) => Origin::Lines(argument, file),
            (Some(_), Some(_)) => {
                return Err(usage("`--axis` does not fit requests that are lines")
                    .hint("there each line is a request"));
            }
            (None, Some(axis)) => Origin::Parts(axis),
            (None, None) => Origin::Inputs,
        };
        Ok(Some(Self {
            source,
            timestamp: args.timestamp,
            form,
        }))
    }

    /// Returns whether a request may come without inputs from flags.
    pub(in crate::infer) fn has_lines(&self) -> bool {
        matches!(self.source, Origin::Lines(..))
    }
}

/// Adds a timestamp to the parameters.
pub(super) fn stamp(parameters: &mut Parameters, timestamp: i64) {
    parameters.retain(|(key, _)| key != TIMESTAMP);
    parameters.push((TIMESTAMP.to_owned(), Parameter::Int(timestamp)));
}

fn nameless() -> Argument {
    Argument {
        name: None,
        dtype: None,
        shape: None,
        source: ElementSource::Stdin { output: None },
    }
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, text)
}
