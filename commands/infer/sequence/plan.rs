//! Meaning of the flags of sequences.

use ovms::{
    client::{
        Api,
        input::Argument,
        sequence::{CONTROL, END, ID, START, StepControl},
    },
    request::Parameter,
};

use super::{SequenceArgs, state::StateFiles};
use crate::{
    error::Failure,
    infer::{
        args::{Format, of_stdin},
        feed::{Origin, RequestPlan, Role},
    },
    ui::OutputFormat,
};

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
    pub(super) each: Option<OutputFormat>,
    pub(super) files: StateFiles,
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
        format: Format,
        api: Api,
    ) -> Result<Option<Self>, Failure> {
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
        let files = StateFiles::new(args, api)?;
        let Some(control) = control else {
            return Plan::new(args, inputs, format, files).map(|plan| Some(Self::All(plan)));
        };
        match (control, id) {
            (StepControl::End, None) => Err(Failure::usage("`--end` needs `--sequence-id`")
                .hint("`--start` tells the id; `--start --end` is a sequence of one request")),
            (StepControl::Only, _) if api.is_tfs() => {
                let text = format!("`--start --end` does not fit `--api {api}`");
                Err(Failure::usage(text).hint(
                    "its requests can start a sequence or end it; send `--start`, then `--end` \
                     with the id that it tells",
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
            Some(argument) => Origin::Lines(argument, None),
            None => Origin::Parts(axis),
        };
        let each = match args.each {
            true => Some(format.of_many("each step by itself")?),
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
        })
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
            "`{own}` is what the flags of sequences send themselves"
        ))
        .hint("`--sequence-id`, `--start`, `--continue` and `--end` take its place")),
        None => Ok(()),
    }
}
