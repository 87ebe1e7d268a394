//! The library's errors in the terms of the command line: kind, causes, and the next step.

use std::error::Error;

use ovms::{
    client::{
        Api, ClientError, ModelMetadata, RequestError, Step,
        input::{InputError, PictureError, ValueProblem},
    },
    tensor::DataType,
};

use crate::error::{Failure, FailureKind};

/// How many names a hint lists.
const MOST_NAMES: usize = 12;

/// Explains why a call gave no answer.
pub(super) fn client(error: ClientError) -> Failure {
    let text = error.to_string();
    match error {
        ClientError::Unreachable { source, .. } => Failure::new(FailureKind::Unreachable, text)
            .caused_by(deepest(&*source))
            .hint("is `ovms serve` running? `--url` names another address"),
        ClientError::Timeout { step, .. } => {
            let kind = match step {
                Step::Connect => FailureKind::Unreachable,
                Step::Answer => FailureKind::Failed,
            };
            Failure::new(kind, text).hint("`--timeout` sets the limit")
        }
        ClientError::Refused(_) => Failure::new(FailureKind::Failed, text),
        ClientError::Protocol { source, .. } => {
            Failure::new(FailureKind::Failed, text).caused_by(&source)
        }
        ClientError::Request(source) => {
            let failure = Failure::new(FailureKind::Usage, text).caused_by(&source);
            match source {
                RequestError::RawOnly { .. } | RequestError::NotText(_) => {
                    failure.hint("leave out `--typed` or `--json-data`")
                }
                RequestError::Header(_) => failure.hint(
                    "the protocol sets it itself, or it has characters that headers do not have",
                ),
                RequestError::Size | RequestError::Value(_) => failure,
            }
        }
    }
}

/// Explains that the address speaks another protocol.
pub(super) fn other_api(address: &str, asked: Api, found: Api) -> Failure {
    let text = format!("the server at {address} does not speak {asked}");
    Failure::new(FailureKind::Unreachable, text).hint(format!(
        "it speaks `--api {found}`, or `--url` names another address"
    ))
}

/// Explains that the server does not know the model; `known` are the names that it has.
pub(super) fn unknown_model(error: ClientError, name: &str, known: Option<&[String]>) -> Failure {
    let failure = client(error);
    match known {
        Some([]) => failure.hint("the server has no models"),
        Some(known) if known.iter().any(|known| known == name) => {
            failure.hint("the server has the model: check `--model-version`, or try again later")
        }
        Some(known) => failure
            .hint_nearest(name, known.iter().map(String::as_str))
            .hint(format!("the server has {}", list(known))),
        None => failure.hint("check the name of the model, and `--model-version` if it is given"),
    }
}

/// Explains that the model does not have an output that was asked for.
pub(super) fn unknown_output(name: &str, model: &ModelMetadata) -> Failure {
    let known: Vec<_> = model
        .outputs
        .iter()
        .map(|output| output.name.clone())
        .collect();
    let text = format!("the model has no output `{name}`");
    Failure::new(FailureKind::Usage, text)
        .hint_nearest(name, known.iter().map(String::as_str))
        .hint(format!("the outputs are {}", list(&known)))
}

/// Explains that one output is needed where there are others.
pub(super) fn several_outputs(names: &[String]) -> Failure {
    let text = format!("found {} outputs, expected one", names.len());
    let failure = Failure::new(FailureKind::Usage, text);
    if names.is_empty() {
        failure.hint("choose it with `--output-name`")
    } else {
        failure.hint(format!("choose with `--output-name`: {}", list(names)))
    }
}

/// Explains why the inputs cannot be sent; `model` is the model's name once it is known.
pub(super) fn input(error: InputError, model: Option<&str>) -> Failure {
    let kind = match &error {
        InputError::File { .. } => FailureKind::Failed,
        _ => FailureKind::Usage,
    };
    let failure = Failure::new(kind, error.to_string());
    match error {
        InputError::File { source, .. } => failure.caused_by(&*source),
        InputError::StdinTwice => failure.hint("give one JSON object of inputs by name"),
        InputError::Nameless { known } => failure.hint(format!(
            "write `-i NAME=VALUE`: the inputs are {}",
            list(&known)
        )),
        InputError::Unknown { name, known } => {
            let failure = match name.rsplit_once(':') {
                Some((input, dtype)) if known.iter().any(|known| known == input) => {
                    let all: Vec<_> = DataType::ALL.iter().map(|dtype| dtype.kserve()).collect();
                    failure.hint(format!("`{dtype}` is none of {}", all.join(", ")))
                }
                _ => failure.hint_nearest(&name, known.iter().map(String::as_str)),
            };
            failure.hint(format!("the inputs are {}", list(&known)))
        }
        InputError::Twice(_) => failure,
        InputError::Missing { missing } => {
            let flags: Vec<_> = missing
                .iter()
                .map(|input| format!("-i {}=VALUE", input.name))
                .collect();
            failure
                .hint(format!("add `{}`", flags.join(" ")))
                .hint("or fill what is not given with `--zeros` or `--random`")
                .hint(match model {
                    Some(model) => format!("`ovms infer {model}` alone explains the inputs"),
                    None => "`ovms infer MODEL` alone explains the inputs".to_owned(),
                })
        }
        InputError::Value { name, problem } => {
            let failure = failure.caused_by(&problem);
            match next_step(&name, &problem) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
    }
}

fn next_step(name: &str, problem: &ValueProblem) -> Option<String> {
    Some(match problem {
        ValueProblem::NoDatatype => format!("write it: `-i {name}:FP32=…`"),
        ValueProblem::Dtype { found, expected }
            if *found != DataType::String
                && !matches!(expected, DataType::String | DataType::Bool) =>
        {
            format!("`-i {name}:{expected}=@…` converts the array")
        }
        ValueProblem::Shape { .. } => {
            format!("nest the lists, or write the shape: `-i {name}::2,3=…`")
        }
        ValueProblem::Nothing => "add `--zeros` or `--random`".to_owned(),
        ValueProblem::Picture(PictureError::Layout(_) | PictureError::OtherLayout { .. }) => {
            "`--layout` tells where the channels are".to_owned()
        }
        _ => return None,
    })
}

/// Finds the first cause: what lies between says that something failed, not what.
fn deepest<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest
}

fn list(names: &[String]) -> String {
    let mut shown: Vec<_> = names
        .iter()
        .take(MOST_NAMES)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.len() > MOST_NAMES {
        shown.push(format!("and {} more", names.len() - MOST_NAMES));
    }
    shown.join(", ")
}
