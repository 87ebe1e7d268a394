//! Flags of streams as typed; their comments are the help.

use std::path::PathBuf;

use clap::ArgGroup;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Streams of requests (kserve-grpc only)")]
#[command(group = ArgGroup::new("in_parts").args(["sequence", "stream"]).multiple(true))]
pub(in crate::infer) struct StreamArgs {
    /// Send requests over one stream, and show responses as they arrive
    ///
    /// The inputs are one request, and all its answers are shown until the server ends the stream.
    /// Inputs may be left out; a graph has what it gets.
    ///
    /// With `--axis`, each part of the arrays along the axis is a request. With `-i -`,
    /// `-i NAME=-` or `--requests`, each line is a request, sent as soon as it is there: an object of
    /// inputs by name, or the value of one input. Beside the inputs, or beside `inputs`, which holds
    /// them by name or as REST requests do, `timestamp`, `parameters` and `id` are the request's own.
    ///
    /// With `--output json` each answer is one object in a line, and so is each error, as
    /// `{"error": "…"}`. Errors that do not end the stream show in the exit code at the end.
    /// `--timeout` is for how long nothing may come once all is sent. Ctrl-C cancels the stream.
    #[arg(
        long,
        conflicts_with_all = ["load", "sequence", "of_a_sequence", "save", "top"]
    )]
    pub(in crate::infer) stream: bool,

    /// File with one request per line; - is standard input
    #[arg(long, value_name = "FILE", requires = "stream")]
    pub(in crate::infer) requests: Option<PathBuf>,

    /// Timestamp of the first request; the next ones have N + 1, N + 2, …
    ///
    /// Without it the server gives them. A `timestamp` in a line goes first, and the next request has the one after it.
    #[arg(
        long,
        value_name = "N",
        requires = "stream",
        allow_negative_numbers = true
    )]
    pub(in crate::infer) timestamp: Option<i64>,
}
