//! Responses of a stream, as lines.

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use ovms::client::{
    Opaque, StreamAnswer,
    output::{self, Summary},
};

use crate::ui;

/// Width of timestamps and response numbers at the start of lines.
const PLACES: usize = 4;

/// Form of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Lines,
    /// For programs.
    Json,
}

/// Writes a response, the `number`th of the stream, as one line.
pub(super) fn line(form: Form, answer: &StreamAnswer, number: usize) -> Vec<u8> {
    if form == Form::Json {
        let mut line = output::stream_json(answer);
        line.push(b'\n');
        return line;
    }
    let mut line = match answer.timestamp {
        Some(timestamp) => format!("{timestamp:>PLACES$}"),
        None => format!("{number:>PLACES$}"),
    };
    for (name, tensor) in answer.answer.outputs.iter() {
        let summary = Summary::new(name, tensor);
        line.extend(["  ", &summary.name, ": ", &summary.preview]);
    }
    for opaque in &answer.answer.opaque {
        line.extend(["  ", &opaque.name, ": ", &preview(opaque)]);
    }
    let mut line = ui::visible(&line).into_owned();
    line.push('\n');
    line.into_bytes()
}

/// Writes an error that does not end the stream as one line for programs.
pub(super) fn error(text: &str) -> Vec<u8> {
    let mut line = serde_json::json!({ "error": text }).to_string();
    line.push('\n');
    line.into_bytes()
}

/// Shows the first bytes of an output with a server-specific type.
fn preview(opaque: &Opaque) -> String {
    let bytes = output::hexadecimal(&opaque.data);
    format!("{} of {bytes}", opaque.datatype)
}

/// Returns the headline with the model.
pub(super) fn headline(answer: &StreamAnswer) -> String {
    let name = &answer.answer.model_name;
    match answer.answer.model_version.as_str() {
        "" => format!("Model `{name}`:"),
        version => format!("Model `{name}`, version {version}:"),
    }
}

/// Returns the number of responses and their rate.
pub(super) fn pace(answers: usize, took: Duration) -> String {
    ui::pace(answers, "answer", took)
}

/// Writes a number of responses.
pub(super) fn count(answers: usize) -> String {
    ui::counted(answers, "answer")
}

/// Bar on stderr; hidden if the lines of responses show the progress.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    pub(super) fn start(typed: bool) -> Self {
        let lines_come = io::stdout().is_terminal() || (typed && io::stdin().is_terminal());
        Self {
            bar: if lines_come {
                ProgressBar::hidden()
            } else {
                ui::answers()
            },
            started: Instant::now(),
        }
    }

    /// Counts requests and responses.
    pub(super) fn count(&self, sent: usize, answers: usize) {
        self.bar.set_position(answers as u64);
        let rate = ui::rate(answers, "answer", self.started.elapsed());
        self.bar.set_message(format!("{rate}, {sent} sent"));
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::{
        client::{ClientResponse, Opaque, StreamAnswer},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    use super::{Form, error, line, pace};

    fn answer(timestamp: Option<i64>) -> StreamAnswer {
        let mut packer = Packer::new(DataType::String, 1);
        packer.push_bytes("größe\n\u{1b}".as_bytes()).unwrap();
        let text = Tensor::new(DataType::String, vec![1], packer.finish()).unwrap();
        StreamAnswer {
            answer: ClientResponse {
                model_name: "g".to_owned(),
                model_version: "1".to_owned(),
                id: String::new(),
                outputs: TensorMap::from_iter([("out".to_owned(), text)]),
                opaque: vec![Opaque {
                    name: "own".to_owned(),
                    datatype: "my type".to_owned(),
                    shape: vec![20],
                    data: (0..20).collect::<Vec<u8>>().into(),
                }],
            },
            timestamp,
        }
    }

    fn reported(form: Form, timestamp: Option<i64>) -> String {
        String::from_utf8(line(form, &answer(timestamp), 3)).unwrap()
    }

    #[test]
    fn an_answer_is_one_line() {
        insta::assert_snapshot!(reported(Form::Lines, Some(-5)), @r#"  -5  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(Form::Lines, None), @r#"   3  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(Form::Json, Some(i64::MAX - 3)), @r#"{"model_name":"g","model_version":"1","id":"","timestamp":9223372036854775804,"outputs":[{"name":"out","datatype":"BYTES","shape":[1],"data":["größe\n\u001b"]},{"name":"own","datatype":"my type","shape":[20],"b64":"AAECAwQFBgcICQoLDA0ODxAREhM="}]}"#);
        insta::assert_snapshot!(String::from_utf8(error("a \"b\"")).unwrap(), @r#"{"error":"a \"b\""}"#);
    }

    #[test]
    fn the_pace_is_reported() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(pace(1, seconds(0.3)), "1 answer in 0.30 s, 3.3 answers/s");
        assert_eq!(
            pace(500, seconds(2.0)),
            "500 answers in 2.00 s, 250 answers/s"
        );
    }
}
