//! Output of a sequence: a bar during the run, and each step, or all of them as one.

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use ovms::client::{
    ClientResponse,
    output::{self, OfSequence, ResponsePart, Summary},
    sequence::Stack,
};

use super::{explain, plan::Each, writer::Writer};
use crate::{error::Failure, ui};

/// Width of step numbers in lines if the number of steps is unknown.
const PLACES: usize = 4;

/// Destination of responses.
#[derive(Debug)]
pub(super) enum Sink {
    /// All together, at the end.
    Stack(Stack),
    /// One by one, on arrival.
    Each {
        each: Each,
        places: usize,
        writer: Writer,
    },
}

impl Sink {
    /// Creates a sink that shows each step on arrival.
    pub(super) fn each(each: Each, total: Option<usize>) -> Result<Self, Failure> {
        Ok(Self::Each {
            each,
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
            Self::Stack(stack) => stack.push(answer).map_err(|error| explain::stack(&error)),
            Self::Each {
                each: Each::Json,
                writer,
                ..
            } => {
                let part = ResponsePart::Step(step);
                let mut line = output::answer_json(&answer, Some(OfSequence { id, part }));
                line.push(b'\n');
                writer.write(line).await
            }
            Self::Each { places, writer, .. } => {
                if step == 1 {
                    ui::note(&headline(&answer, &format!("sequence {id}:")));
                }
                writer
                    .write(line(&answer, step, *places).into_bytes())
                    .await
            }
        }
    }

    /// Returns whether figures for people go to stderr.
    pub(super) fn is_for_people(&self) -> bool {
        matches!(
            self,
            Self::Each {
                each: Each::Line,
                ..
            }
        )
    }
}

/// Writes a step as one line.
fn line(answer: &ClientResponse, step: usize, places: usize) -> String {
    let mut line = format!("{step:>places$}");
    for (name, tensor) in answer.outputs.iter() {
        let summary = Summary::new(name, tensor);
        line.extend(["  ", &summary.name, ": ", &summary.preview]);
    }
    line.push('\n');
    line
}

fn headline(answer: &ClientResponse, rest: &str) -> String {
    let name = &answer.model_name;
    match answer.model_version.as_str() {
        "" => format!("Model `{name}`, {rest}"),
        version => format!("Model `{name}`, version {version}, {rest}"),
    }
}

/// Returns the summary of all steps.
pub(super) fn summary(answer: &ClientResponse, steps: usize, took: Duration) -> String {
    headline(answer, &format!("answered {}.", pace(steps, took)))
}

/// Returns the number of steps and their rate.
pub(super) fn pace(steps: usize, took: Duration) -> String {
    ui::pace(steps, "step", took)
}

/// Bar on stderr; hidden if the lines of steps show the progress.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// Draws the bar; `typed` is true for steps from standard input, maybe a keyboard.
    pub(super) fn start(total: Option<usize>, sink: &Sink, typed: bool) -> Self {
        let lines_come = matches!(sink, Sink::Each { .. }) && io::stdout().is_terminal();
        let bar = if lines_come || (typed && io::stdin().is_terminal()) {
            ProgressBar::hidden()
        } else {
            ui::steps(total)
        };
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// Counts a step.
    pub(super) fn step(&self, done: usize) {
        let rate = ui::rate(done, "step", self.started.elapsed());
        self.bar.set_message(rate);
        self.bar.set_position(done as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::{
        client::ClientResponse,
        tensor::{DataType, Tensor, TensorMap},
    };

    use super::{line, pace, summary};

    fn answer() -> ClientResponse {
        let tensor = Tensor::new(DataType::U8, vec![1, 2], vec![7, 9].into()).unwrap();
        let outputs = ["y", "z"].map(|name| (name.to_owned(), tensor.clone()));
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "2".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter(outputs),
            opaque: Vec::new(),
        }
    }

    #[test]
    fn a_step_is_one_line() {
        assert_eq!(line(&answer(), 12, 4), "  12  y: 7, 9  z: 7, 9\n");
    }

    #[test]
    fn the_pace_is_reported() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(pace(100, seconds(0.25)), "100 steps in 0.25 s, 400 steps/s");
        assert_eq!(pace(1, seconds(0.3)), "1 step in 0.30 s, 3.3 steps/s");
        assert_eq!(
            summary(&answer(), 3, seconds(2.0)),
            "Model `m`, version 2, answered 3 steps in 2.00 s, 1.5 steps/s."
        );
    }
}
