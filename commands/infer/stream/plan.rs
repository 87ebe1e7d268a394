//! Meaning of the flags of streams.

use ovms::client::{Api, input::Argument};

use super::StreamArgs;
use crate::{
    error::{Failure, FailureKind},
    infer::{
        args::{Format, of_stdin},
        feed::{Origin, RequestPlan, Role},
    },
    ui::OutputFormat,
};

/// Requests to send over a stream, and the format of the responses.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) struct Plan {
    pub(in crate::infer) requests: RequestPlan,
    pub(super) format: OutputFormat,
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
        let source = match (&args.requests, of_stdin(inputs)?, axis) {
            (Some(_), Some(_), _) => {
                return Err(Failure::usage("`--requests` does not fit `-i -`")
                    .hint("either gives a request with each line"));
            }
            (None, Some(argument), None) => Origin::Lines(argument, None),
            (Some(path), None, None) => Origin::of_file(path),
            (None, None, Some(axis)) => Origin::Parts(axis),
            (None, None, None) => Origin::Inputs,
            (_, _, Some(_)) => {
                return Err(
                    Failure::usage("`--axis` does not fit requests that are lines")
                        .hint("there each line is a request"),
                );
            }
        };
        let requests = RequestPlan {
            source,
            timestamp: args.timestamp,
            role: Role::Stream(FailureKind::Usage),
        };
        Ok(Some(Self { requests, format }))
    }
}
