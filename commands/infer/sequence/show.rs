//! Output of a sequence: a bar during the run, and each step, or all of them as one.

use ovms::client::{
    ClientResponse,
    output::{self, OfSequence, ResponsePart},
    sequence::Stack,
};

use super::writer::Writer;
use crate::{
    error::Failure,
    infer::outputs,
    ui::{self, OutputFormat},
};

/// Width of step numbers in lines if the number of steps is unknown.
const PLACES: usize = 4;

/// Destination of responses.
#[derive(Debug)]
pub(super) enum Sink {
    /// All together, at the end.
    Stack(Stack),
    /// One by one, on arrival.
    Each {
        format: OutputFormat,
        places: usize,
        writer: Writer,
    },
}

impl Sink {
    /// Creates a sink that shows each step on arrival.
    pub(super) fn each(format: OutputFormat, total: Option<usize>) -> Result<Self, Failure> {
        Ok(Self::Each {
            format,
            places: total.map_or(PLACES, |total| total.to_string().len()),
            writer: Writer::start()?,
        })
    }

    /// Takes the response to a step, counted from 1.
    pub(super) async fn take(
        &mut self,
        answer: ClientResponse,
        id: u64,
        step: usize,
    ) -> Result<(), Failure> {
        match self {
            Self::Stack(stack) => stack.push(answer).map_err(|error| {
                Failure::failed(error.to_string())
                    .hint("`--each` shows the outputs of each step by themselves")
            }),
            Self::Each {
                format,
                places,
                writer,
            } => {
                let line = match format {
                    OutputFormat::Json => {
                        let part = ResponsePart::Step(step);
                        let of = OfSequence { id, part };
                        outputs::json_line(output::answer_json(&answer, Some(of)))
                    }
                    OutputFormat::Table => {
                        if step == 1 {
                            let model = outputs::model(&answer);
                            ui::note(&format!("{model}, sequence {id}:"));
                        }
                        let places = *places;
                        outputs::line(format!("{step:>places$}"), &answer).into_bytes()
                    }
                };
                writer.write(line).await
            }
        }
    }

    /// Returns whether figures for people go to stderr.
    pub(super) fn is_for_people(&self) -> bool {
        match self {
            Self::Stack(_) => false,
            Self::Each { format, .. } => *format == OutputFormat::Table,
        }
    }
}
