//! Sequence controls of a request: two special inputs, or KServe's request parameters.
//!
//! The special inputs and the texts of their errors are those of the C++ server; the parameters
//! are those that Triton's clients send. A request may have both, as long as they agree.

use crate::{
    error::{Error, Result},
    request::{
        Data, Declared, InferRequest, InputTensor, Parameter, Parameters, Special, SpecialInputs,
    },
    tensor::DataType,
};

/// The input, output and parameter that has the id of the sequence.
pub const SEQUENCE_ID: &str = "sequence_id";

/// The input that says whether the sequence starts or ends.
pub const CONTROL_INPUT: &str = "sequence_control_input";

/// The parameter that starts a sequence.
const START: &str = "sequence_start";

/// The parameter that ends it.
const END: &str = "sequence_end";

/// The place of a request in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceControl {
    /// A request between the first and the last.
    Next,
    /// The first.
    Start,
    /// The last.
    End,
    /// The first and the last.
    Only,
}

impl SequenceControl {
    fn new(starts: bool, ends: bool) -> Self {
        match (starts, ends) {
            (false, false) => Self::Next,
            (true, false) => Self::Start,
            (false, true) => Self::End,
            (true, true) => Self::Only,
        }
    }

    /// Returns whether the request begins a sequence.
    #[must_use]
    pub const fn starts(self) -> bool {
        matches!(self, Self::Start | Self::Only)
    }

    /// Returns whether the request is the last one of its sequence.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::End | Self::Only)
    }
}

/// Sequence that a request is for, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceCommand {
    /// The id; 0 for a start whose id the server chooses.
    pub id: u64,
    /// The place.
    pub control: SequenceControl,
}

/// Form of the id in the parameters of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// No id, since the request had no parameters about a sequence.
    None,
    /// A number, if the id can be one.
    Number,
    /// A text, as in the request.
    Text,
}

impl Echo {
    /// Returns the parameter that has an id, if any is to.
    #[must_use]
    pub fn parameter(self, id: u64) -> Option<(String, Parameter)> {
        let value = match (self, i64::try_from(id)) {
            (Self::None, _) => return None,
            (Self::Number, Ok(id)) => Parameter::Int(id),
            _ => Parameter::Text(id.to_string()),
        };
        Some((SEQUENCE_ID.to_owned(), value))
    }
}

/// Takes what a request says about its sequence out of its inputs and parameters.
///
/// # Errors
///
/// Fails with the first error, in the order that clients know.
pub fn take(request: &mut InferRequest) -> Result<(SequenceCommand, Echo)> {
    let inputs = &mut request.inputs;
    let mut read = |special: Option<Special>, name, dtype, what, field| {
        let special = special.or_else(|| take_input(inputs, name, dtype));
        special.map_or(Ok(0), |input| value(&input, name, what, field))
    };
    let special = request.special.take();
    let SpecialInputs { id, control } = special.map_or_else(SpecialInputs::default, |it| *it);
    let id = read(id, SEQUENCE_ID, DataType::U64, "sequence id", "uint64_val")?;
    let what = "sequence control input";
    let (starts, ends) = match read(control, CONTROL_INPUT, DataType::U32, what, "uint32_val")? {
        0 => (false, false),
        1 => (true, false),
        2 => (false, true),
        _ => {
            return Err(Error::invalid("Unexpected value of sequence control input"));
        }
    };
    let asked = Asked::of(&request.parameters)?;
    let disagree = || Error::invalid("Sequence parameters and special inputs disagree");
    if id != 0 && asked.id != 0 && id != asked.id {
        return Err(disagree());
    }
    let has_control = (starts || ends) && (asked.starts || asked.ends);
    if has_control && (starts, ends) != (asked.starts, asked.ends) {
        return Err(disagree());
    }
    let command = SequenceCommand {
        id: if id == 0 { asked.id } else { id },
        control: SequenceControl::new(starts || asked.starts, ends || asked.ends),
    };
    if command.id == 0 && !command.control.starts() {
        return Err(Error::invalid(
            "Sequence ID has not been provided in request inputs",
        ));
    }
    Ok((command, asked.echo))
}

/// Takes a special input of KServe out of the inputs, wherever it stands.
fn take_input(inputs: &mut Vec<InputTensor>, name: &str, dtype: DataType) -> Option<Special> {
    let place = inputs.iter().position(|input| input.name == name)?;
    let input = inputs.remove(place);
    let bytes = match &input.data {
        Data::Raw(bytes) => Some(bytes),
        Data::Values { count: 1, bytes } => Some(bytes),
        Data::Values { .. } | Data::Region(_) | Data::Both | Data::Unfit(_) | Data::Unranked => {
            None
        }
    };
    let fits = input.datatype == Declared::Known(dtype);
    let value = bytes
        .filter(|bytes| fits && Some(bytes.len()) == dtype.size())
        .map(|bytes| {
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(number)
        });
    Some(Special {
        // What has no dimensions does not say that it has none.
        shape: Some(input.shape).filter(|shape| !shape.is_empty()),
        value,
    })
}

/// Validates a special input and returns its value.
fn value(input: &Special, name: &str, what: &str, field: &str) -> Result<u64> {
    let Some(shape) = &input.shape else {
        return Err(Error::invalid(format!(
            "Special input proto does not contain tensor shape information - {name} has shape (1), in JSON a list of \
             one number"
        )));
    };
    match shape[..] {
        [1] => {}
        [_] => {
            return Err(Error::invalid(format!(
                "Invalid input shape - Required shape for {name} is: (1)"
            )));
        }
        _ => {
            return Err(Error::invalid(format!(
                "Invalid number of shape dimensions - Required shape for {name} is: (1)"
            )));
        }
    }
    input.value.ok_or_else(|| {
        Error::invalid(format!(
            "Could not find {what} in expected tensor proto field {field}"
        ))
    })
}

/// Controls from the parameters.
struct Asked {
    id: u64,
    starts: bool,
    ends: bool,
    echo: Echo,
}

impl Asked {
    fn of(parameters: &Parameters) -> Result<Self> {
        let mut asked = Self {
            id: 0,
            starts: false,
            ends: false,
            echo: Echo::None,
        };
        for (name, value) in parameters {
            match (&**name, value) {
                (SEQUENCE_ID, value) => {
                    asked.id = id(value)?;
                    asked.echo = match value {
                        Parameter::Text(_) => Echo::Text,
                        _ => Echo::Number,
                    };
                }
                (START, Parameter::Bool(value)) => asked.starts = *value,
                (END, Parameter::Bool(value)) => asked.ends = *value,
                (START | END, _) => {
                    return Err(wrong(name, "true or false"));
                }
                // Without a word, the end of a sequence would be lost.
                (CONTROL_INPUT, _) => {
                    return Err(Error::invalid(format!(
                        "Unexpected request parameter {name} - Expected: {START} or {END}, true or false, beside \
                         {SEQUENCE_ID}"
                    )));
                }
                _ => continue,
            }
            if asked.echo == Echo::None {
                asked.echo = Echo::Number;
            }
        }
        Ok(asked)
    }
}

fn id(value: &Parameter) -> Result<u64> {
    let id = match value {
        Parameter::Int(id) => u64::try_from(*id).ok(),
        Parameter::UInt(id) => Some(*id),
        Parameter::Text(text) if text.is_empty() => Some(0),
        Parameter::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok()
        }
        Parameter::Text(_) | Parameter::Bool(_) | Parameter::Double(_) | Parameter::Empty => None,
    };
    id.ok_or_else(|| {
        wrong(
            SEQUENCE_ID,
            "a whole number from 0 to 18446744073709551615, or a text of its digits",
        )
    })
}

fn wrong(name: &str, expected: &str) -> Error {
    Error::invalid(format!(
        "Invalid value of request parameter {name} - Expected: {expected}"
    ))
}

#[cfg(test)]
mod tests;
