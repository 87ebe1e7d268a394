//! Flags of sequences as typed; their comments are the help.

use std::path::PathBuf;

use clap::ArgGroup;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sequences of requests to a stateful model")]
#[command(group = ArgGroup::new("of_a_sequence")
    .args(["sequence", "start", "go_on", "end"])
    .multiple(true))]
pub(in crate::infer) struct SequenceArgs {
    /// Send the inputs step by step as one sequence: start, steps, end
    ///
    /// An array or list with as many dimensions as the model's input is cut into steps in which
    /// the axis is 1 long; one with a dimension more into steps without the axis. What has the
    /// model's own shape, or one step, goes with every step. The outputs of all steps are shown
    /// as one: put together along the axis if the steps have it and the output has it with
    /// length 1, else stacked along a new one.
    ///
    /// With `-i -`, or `-i NAME=-`, each line of standard input is a step: an object of inputs by
    /// name, or the value of one input. A line is sent as soon as it is there. The requests have
    /// no end without a step, so at the end of the input the last one is sent again to end the
    /// sequence; its answer is not shown.
    ///
    /// The sequence is also ended when a step fails, and at Ctrl-C; a second Ctrl-C leaves at once.
    #[arg(long, conflicts_with = "load")]
    pub(in crate::infer) sequence: bool,

    /// Cut the inputs along this axis, counted from 0 [default: 0]
    #[arg(long, value_name = "K", requires = "in_parts")]
    pub(in crate::infer) axis: Option<usize>,

    /// Show the outputs of each step as they come, a line for each step
    ///
    /// With `--output json` each line is one object.
    #[arg(long, requires = "sequence", conflicts_with_all = ["save", "top"])]
    pub(in crate::infer) each: bool,

    /// Id of the sequence [default: a random one]
    ///
    /// Required by `--continue` and `--end`. Responses have it as `sequence_id`.
    #[arg(
        long,
        value_name = "ID",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "of_a_sequence"
    )]
    pub(in crate::infer) sequence_id: Option<u64>,

    /// Send one request that starts a sequence
    ///
    /// With `--end`, a sequence of one request (KServe only).
    #[arg(long, conflicts_with_all = ["sequence", "load"])]
    pub(in crate::infer) start: bool,

    /// Send one request of a sequence that was started
    #[arg(
        long = "continue",
        requires = "sequence_id",
        conflicts_with_all = ["sequence", "start", "end", "load"]
    )]
    pub(in crate::infer) go_on: bool,

    /// Send the last request of a sequence
    #[arg(long, conflicts_with_all = ["sequence", "load"])]
    pub(in crate::infer) end: bool,

    /// Save the state of the sequence to this file after the last step
    ///
    /// Over REST only, as is `--load-state`. A whole sequence is ended after that: the last step is
    /// sent again, and its answer is not shown.
    #[arg(
        long,
        value_name = "FILE",
        requires = "of_a_sequence",
        conflicts_with_all = ["end", "print_curl"]
    )]
    pub(in crate::infer) save_state: Option<PathBuf>,

    /// Begin the sequence with the state that was saved to this file
    ///
    /// It goes on behind the step that was the last one then. The file has to be of the same
    /// version of the same model.
    #[arg(
        long,
        value_name = "FILE",
        requires = "of_a_sequence",
        conflicts_with_all = ["start", "print_curl"]
    )]
    pub(in crate::infer) load_state: Option<PathBuf>,
}
