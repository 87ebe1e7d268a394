//! Meaning of the flags of sequences.

use std::path::PathBuf;

use clap::ArgGroup;
use ovms::{
    client::{
        Api,
        input::Argument,
        sequence::{CONTROL, END, ID, START},
        session::StepControl,
    },
    request::Parameter,
};
use reqwest::header::HeaderMap;

use super::state::StateFiles;
use crate::{
    error::Failure,
    infer::{
        args::{Format, TextFormat, of_stdin},
        feed::{Origin, RequestPlan, Role},
    },
};

/// Places of an idempotency key.
const KEY_PARAMETER: &str = "idempotency_key";
const KEY_HEADER: &str = "ovms-idempotency-key";

/// Part of a sequence to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) enum Sequence {
    /// Whole sequence.
    All(Plan),
    /// Single request, by hand.
    One {
        control: StepControl,
        id: Option<u64>,
        files: StateFiles,
    },
}

/// Plan for sending and showing a whole sequence.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) struct Plan {
    /// Sequence id; `None` for a random one.
    pub(super) id: Option<u64>,
    pub(super) axis: usize,
    pub(in crate::infer) requests: RequestPlan,
    /// Form of each step; `None` if all are shown as one.
    pub(super) each: Option<TextFormat>,
    pub(super) files: StateFiles,
    /// Continues a sequence that was begun before, so that no step starts it.
    pub(in crate::infer) goes_on: bool,
    /// Leaves the sequence open after the last step.
    pub(in crate::infer) stays_open: bool,
    /// Number of times that a step is sent again.
    pub(in crate::infer) retries: u32,
}

impl Sequence {
    /// Returns the id, if one was given.
    pub(in crate::infer) fn id(&self) -> Option<u64> {
        match self {
            Self::One { id, .. } => *id,
            Self::All(plan) => plan.id,
        }
    }

    /// Checks the flags; `None` if there are none. The input that standard input gives line by line
    /// is removed from the others.
    pub(in crate::infer) fn new(
        args: &SequenceArgs,
        inputs: &mut Vec<Argument>,
        parameters: &[(String, Parameter)],
        headers: &HeaderMap,
        format: Format,
        api: Api,
    ) -> Result<Option<Self>, Failure> {
        refuse_no_end(args)?;
        refuse_retries(args)?;
        let id = args.sequence_id;
        let control = match (args.start, args.go_on, args.end) {
            _ if args.sequence => None,
            (true, _, true) => Some(StepControl::Only),
            (true, _, false) => Some(StepControl::Start),
            (false, true, _) => Some(StepControl::Continue),
            (false, false, true) => Some(StepControl::End),
            (false, false, false) => return Ok(None),
        };
        refuse_own_form(inputs, parameters)?;
        if control.is_none() {
            refuse_one_key(parameters, headers)?;
        }
        let files = StateFiles::new(args, api)?;
        let Some(control) = control else {
            return Plan::new(args, inputs, format, files).map(|plan| Some(Self::All(plan)));
        };
        match (control, id) {
            (StepControl::End, None) => Err(Failure::usage("`--end` needs `--sequence-id`")
                .hint("`--start` prints the id; `--start --end` is a sequence of one request")),
            (StepControl::Only, _) if api.is_tfs() => {
                let text = format!("`--start --end` does not fit `--api {api}`");
                Err(Failure::usage(text).hint(
                    "its requests can start a sequence or end it; send `--start`, then `--end` \
                     with the id that it prints",
                ))
            }
            _ => Ok(Some(Self::One { control, id, files })),
        }
    }
}

impl Plan {
    /// Returns whether each step is shown by itself.
    pub(in crate::infer) fn shows_each(&self) -> bool {
        self.each.is_some()
    }

    fn new(
        args: &SequenceArgs,
        inputs: &mut Vec<Argument>,
        format: Format,
        files: StateFiles,
    ) -> Result<Self, Failure> {
        let axis = args.axis.unwrap_or(0);
        let source = match of_stdin(inputs)? {
            Some(_) if args.axis.is_some() => {
                return Err(
                    Failure::usage("`--axis` does not fit steps from standard input")
                        .hint("there each line is a step"),
                );
            }
            Some(argument) => Origin::of_stdin(argument),
            None => Origin::Parts(axis),
        };
        let each = match args.each {
            true => Some(format.of_text("each step by itself")?),
            false => None,
        };
        Ok(Self {
            id: args.sequence_id,
            axis,
            requests: RequestPlan {
                source,
                timestamp: None,
                role: Role::Steps,
            },
            each,
            files,
            goes_on: args.go_on,
            stays_open: args.no_end,
            retries: args.retries,
        })
    }
}

/// Refuses a sequence that stays open where no flag would end it.
fn refuse_no_end(args: &SequenceArgs) -> Result<(), Failure> {
    match args.no_end && !args.sequence {
        true => {
            let hint =
                "`--start` and `--continue` alone leave a sequence open anyway; omit `--no-end`";
            Err(Failure::usage("`--no-end` needs `--sequence`").hint(hint))
        }
        false => Ok(()),
    }
}

/// Refuses retries of single requests: clap does not see that a flag which excludes `--sequence` is no replacement.
fn refuse_retries(args: &SequenceArgs) -> Result<(), Failure> {
    match args.retries > 0 && !args.sequence {
        true => {
            let hint = "`--start`, `--continue` and `--end` send one request, once; `ovms infer --sequence --no-end` sends \
                        its steps again and leaves the sequence open";
            Err(Failure::usage("`--retries` needs `--sequence`").hint(hint))
        }
        false => Ok(()),
    }
}

/// Rejects an idempotency key for all steps: a server would answer each with what it has answered the first.
fn refuse_one_key(parameters: &[(String, Parameter)], headers: &HeaderMap) -> Result<(), Failure> {
    let parameter = parameters.iter().find(|(key, _)| key == KEY_PARAMETER);
    let header = headers.contains_key(KEY_HEADER).then_some(KEY_HEADER);
    match parameter.map(|(key, _)| &**key).or(header) {
        Some(key) => Err(Failure::usage(format!(
            "`{key}` does not fit `--sequence`: each request needs its own key, or the server takes it for a retry"
        ))
        .hint("`--start`, `--continue` and `--end` send single requests")),
        None => Ok(()),
    }
}

/// Refuses inputs and parameters that the flags of sequences send themselves.
fn refuse_own_form(inputs: &[Argument], parameters: &[(String, Parameter)]) -> Result<(), Failure> {
    let names = inputs.iter().filter_map(|input| input.name.as_deref());
    let input = names.filter(|name| [ID, CONTROL].contains(name));
    let mut input = input.map(|name| format!("-i {name}=…"));
    let keys = parameters.iter().map(|(key, _)| key.as_str());
    let parameter = keys.filter(|key| [ID, START, END].contains(key));
    let mut parameter = parameter.map(|key| format!("--param {key}=…"));
    match input.next().or_else(|| parameter.next()) {
        Some(own) => Err(Failure::usage(format!(
            "`{own}` is sent by the sequence flags themselves"
        ))
        .hint("use `--sequence-id`, `--start`, `--continue` and `--end` instead")),
        None => Ok(()),
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sequences of requests to a stateful model")]
#[command(group = ArgGroup::new("of_a_sequence")
    .args(["sequence", "start", "go_on", "end"])
    .multiple(true))]
pub(in crate::infer) struct SequenceArgs {
    /// Send the inputs step by step, as one sequence
    ///
    /// An array or list with as many dimensions as the model's input is cut into steps in which
    /// the axis has length 1; one with an extra dimension, into steps without the axis. An input
    /// of the model's own shape, or of one step, is sent with every step. The outputs of all steps
    /// are shown as one: joined along the axis if the steps and the output have it with length 1,
    /// else stacked along a new one.
    ///
    /// With `-i -`, or `-i NAME=-`, each line of standard input is a step: an object of inputs by
    /// name, or the value of one input. Each line is sent as soon as it is read. A sequence cannot
    /// end without a step, so at the end of the input the last step is sent again to end it; its
    /// response is not shown.
    ///
    /// `--continue` continues a sequence that was started before, and `--no-end` leaves it open for
    /// more steps.
    ///
    /// Unless `--no-end` is given, the sequence is also ended when a step fails, and at Ctrl-C or SIGTERM; a second
    /// signal exits at once.
    #[arg(long, conflicts_with = "load")]
    pub(in crate::infer) sequence: bool,

    /// Cut the inputs along this axis, counted from 0 [default: 0]
    #[arg(long, value_name = "K", requires = "in_parts")]
    pub(in crate::infer) axis: Option<usize>,

    /// Show the outputs of each step as they arrive, one line each
    ///
    /// With `--output json` each line is an object, and with `--output csv` a row of one table.
    #[arg(long, requires = "sequence", conflicts_with_all = ["save", "top"])]
    pub(in crate::infer) each: bool,

    /// Id of the sequence [default: a random one]
    ///
    /// Required for `--continue` and `--end`. Responses have it as `sequence_id`.
    #[arg(
        long,
        value_name = "ID",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "of_a_sequence"
    )]
    pub(in crate::infer) sequence_id: Option<u64>,

    /// Send one request that starts a sequence
    ///
    /// With `--end`, it is the only request of the sequence (KServe only).
    #[arg(long, conflicts_with_all = ["sequence", "load"])]
    pub(in crate::infer) start: bool,

    /// Send one request of a started sequence
    ///
    /// With `--sequence`, all steps continue that sequence instead of starting a new one.
    #[arg(
        long = "continue",
        requires = "sequence_id",
        conflicts_with_all = ["start", "end", "load"]
    )]
    pub(in crate::infer) go_on: bool,

    /// Send the last request of a sequence
    ///
    /// Without inputs, zeros are sent: the end of a sequence is always a step.
    #[arg(long, conflicts_with_all = ["sequence", "load"])]
    pub(in crate::infer) end: bool,

    /// Leave the sequence open after the last step of `--sequence`
    ///
    /// Also when a step fails, and at Ctrl-C or SIGTERM. To continue it, use `--sequence --continue --sequence-id ID`; to
    /// end it, `--end --sequence-id ID`.
    #[arg(long, requires = "of_a_sequence", conflicts_with_all = ["end", "load"])]
    pub(in crate::infer) no_end: bool,

    /// Retry a step of `--sequence` up to N times
    ///
    /// A step is sent again if there is no connection or it breaks, at `--timeout`, and on UNAVAILABLE (503) or
    /// RESOURCE_EXHAUSTED (429). The delay between attempts is 0.1 s to 2 s. All attempts of a step have the same idempotency key, so that a server
    /// with `--sequence-store` runs it once; without a store, it may run a step twice if its response was lost.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(..=1000),
        requires = "sequence"
    )]
    pub(in crate::infer) retries: u32,

    /// Save the state of the sequence after the last step
    ///
    /// REST only, as is `--load-state`. A whole sequence is then ended: the last step is sent again,
    /// and its response is not shown. With `--no-end` it stays open.
    #[arg(
        long,
        value_name = "FILE",
        requires = "of_a_sequence",
        conflicts_with_all = ["end", "print_curl"]
    )]
    pub(in crate::infer) save_state: Option<PathBuf>,

    /// Start from a state that `--save-state` has saved
    ///
    /// The sequence continues after the step that was the last one then, so a single request needs
    /// `--continue --sequence-id N` instead of `--start`. The file must be from the same version of
    /// the same model.
    #[arg(
        long,
        value_name = "FILE",
        requires = "of_a_sequence",
        conflicts_with = "print_curl"
    )]
    pub(in crate::infer) load_state: Option<PathBuf>,
}
