//! REST bodies: JSON, and JSON followed by binary data.
//!
//! A body is read in one pass. Only when that fails is it looked at again, slowly, to say what is
//! wrong with it.

mod envelope;

use axum::http::HeaderName;
use bytes::Bytes;

use self::envelope::{Envelope, Input};
use super::regions::{self, RegionReader};
use crate::{
    error::{Error, Result},
    frontends::json_numbers::{JsonError, no_object, reason},
    request::{Data, Declared, Dialect, InferRequest, InputTensor, Parameter, Parameters},
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    tensor::{DataType, byte_size},
};

/// The header that says how many bytes of a body are JSON; binary data follows them.
pub(super) const JSON_LENGTH: HeaderName =
    HeaderName::from_static("inference-header-content-length");

/// Outputs that the client wants in binary.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wishes {
    /// The outputs listed in the request and whether each is to be binary.
    pub(super) listed: Vec<(String, bool)>,
    /// The client reads binary outputs, whether it listed any or not.
    pub(super) reads_binary: bool,
}

/// Reads a request body. `json_length` is the header of that name, if it was sent; `regions` finds the tensors
/// that are in shared memory.
///
/// # Errors
///
/// Fails with the first error.
pub(super) fn decode(
    body: &Bytes,
    json_length: Option<&[u8]>,
    mut regions: RegionReader<'_>,
) -> Result<(InferRequest, Wishes)> {
    let (json, mut binary) = split(body, json_length)?;
    let Envelope {
        inputs,
        outputs,
        id,
        parameters,
    } = envelope::read(&json).map_err(|unread| explain(&json, unread))?;
    if inputs.is_empty() {
        return Err(Error::invalid("Invalid JSON structure, missing inputs"));
    }
    let alone = inputs.len() == 1;
    let mut inputs = inputs
        .into_iter()
        .enumerate()
        .map(
            |(index, input)| match regions.input(index, &input.name, &input.parameters)? {
                true => region_input(input),
                false => decode_input(input, &mut binary, alone),
            },
        )
        .collect::<Result<Vec<_>>>()?;
    refuse_mixed(&mut inputs);
    let by_default = binary_wish(&parameters, "binary_data_output").unwrap_or(false);
    let mut wishes = Wishes {
        listed: Vec::new(),
        reads_binary: by_default,
    };
    for output in outputs {
        let binary = binary_wish(&output.parameters, "binary_data").unwrap_or(by_default);
        wishes.reads_binary |= binary;
        regions.output(&output.name, &output.parameters)?;
        wishes.listed.push((output.name, binary));
    }
    let request = InferRequest {
        id: id.unwrap_or_default(),
        parameters,
        inputs,
        outputs: wishes.listed.iter().map(|(name, _)| name.clone()).collect(),
        raw_mismatch: None,
        dialect: Dialect::KServe,
        special: None,
        regions: regions.finish(),
        trace: None,
        priority: None,
        marks_final: false,
        owner: None,
        texts: None,
    };
    Ok((request, wishes))
}

/// Marks an input whose elements are in the JSON while those of others are binary, which is one of
/// the errors that are validated with the model in hand. The special inputs of stateful models may be
/// either.
fn refuse_mixed(inputs: &mut [InputTensor]) {
    let special = |input: &InputTensor| [SEQUENCE_ID, CONTROL_INPUT].contains(&&*input.name);
    let binary = |input: &InputTensor| {
        !special(input) && matches!(&input.data, Data::Raw(bytes) if !bytes.is_empty())
    };
    if inputs.iter().any(binary)
        && let Some(input) = inputs
            .iter_mut()
            .find(|input| !special(input) && matches!(input.data, Data::Values { .. }))
    {
        input.data = Data::Both;
    }
}

/// Returns about how many bytes of a body are JSON.
pub(super) fn length(body: &Bytes, json_length: Option<&[u8]>) -> usize {
    split(body, json_length).map_or(0, |(json, _)| json.len())
}

/// Divides a body into JSON and the binary data behind it.
fn split(body: &Bytes, json_length: Option<&[u8]>) -> Result<(Bytes, Bytes)> {
    let Some(text) = json_length else {
        return Ok((body.clone(), Bytes::new()));
    };
    let length: usize = std::str::from_utf8(text)
        .ok()
        .map(str::trim)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| {
            Error::invalid(
                "Inference-Header-Content-Length header is invalid and couldn't be parsed",
            )
        })?;
    if length > body.len() {
        return Err(Error::invalid(
            "Inference-Header-Content-Length header exceeds actual payload length",
        ));
    }
    Ok((body.slice(..length), body.slice(length..)))
}

fn decode_input(input: Input, binary: &mut Bytes, alone: bool) -> Result<InputTensor> {
    let Input {
        name,
        datatype,
        shape,
        parameters,
        data,
    } = input;
    let size = match parameters
        .iter()
        .find(|(name, _)| name == "binary_data_size")
    {
        None => None,
        Some((_, Parameter::Int(size))) => Some(usize::try_from(*size).map_err(|_| bad_size())?),
        Some(_) => return Err(bad_size()),
    };
    let data = match data {
        Some(_) if size.is_some() => {
            return Err(Error::invalid(
                "Request contains values both in binary data and in content value",
            ));
        }
        Some(data) => data,
        None => Data::Raw(take(binary, size, &datatype, &shape, alone)?),
    };
    Ok(InputTensor {
        name,
        datatype,
        shape,
        data,
    })
}

/// Makes an input that is in shared memory.
fn region_input(input: Input) -> Result<InputTensor> {
    let mut parameters = input.parameters.iter();
    if input.data.is_some() || parameters.any(|(name, _)| name == "binary_data_size") {
        return Err(regions::refuse_data(&input.name));
    }
    Ok(InputTensor {
        name: input.name,
        datatype: input.datatype,
        shape: input.shape,
        data: Data::Raw(Bytes::new()),
    })
}

fn bad_size() -> Error {
    Error::invalid("binary_data_size parameter is invalid and cannot be parsed")
}

/// Takes an input's bytes off the binary data: as many as it says, or as its shape needs.
fn take(
    binary: &mut Bytes,
    size: Option<usize>,
    datatype: &Declared,
    shape: &[i64],
    alone: bool,
) -> Result<Bytes> {
    let needed = match (size, datatype) {
        (Some(size), _) => size,
        // One string alone takes all there is.
        (None, Declared::Known(DataType::String)) if alone && shape == [1] => binary.len(),
        (None, Declared::Known(DataType::String)) => {
            return Err(Error::invalid(
                "binary_data_size parameter is invalid and cannot be parsed - BYTES inputs need \
                 it",
            ));
        }
        (None, Declared::Known(dtype)) => {
            let shape: Vec<usize> = shape
                .iter()
                .map(|&length| usize::try_from(length).unwrap_or(usize::MAX))
                .collect();
            byte_size(*dtype, &shape)
                .ok()
                .flatten()
                .ok_or_else(too_short)?
        }
        // Only nodes of graphs take other types, and one input alone takes all there is.
        (None, Declared::Unknown(_)) if alone => binary.len(),
        // Elsewhere the type is refused later, with its text.
        (None, Declared::Unknown(_)) => 0,
    };
    if needed > binary.len() {
        return Err(too_short());
    }
    Ok(binary.split_to(needed))
}

fn too_short() -> Error {
    Error::invalid("Received buffer size is smaller than binary_data_size parameter indicates")
}

/// Reads a wish for binary data; anything that is no truth value is ignored.
fn binary_wish(parameters: &Parameters, name: &str) -> Option<bool> {
    parameters.iter().find_map(|(known, value)| match value {
        Parameter::Bool(value) if known == name => Some(*value),
        _ => None,
    })
}

/// Error that ended the reading of a body.
#[derive(Debug)]
struct Unread(Error);

impl From<JsonError> for Unread {
    fn from(error: JsonError) -> Self {
        let text = format!("{} - {error}", not_an_array().message());
        Self(Error::invalid(text))
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Returns the error of a body. That it is no JSON comes first, wherever that shows.
fn explain(body: &[u8], Unread(error): Unread) -> Error {
    no_object(body).unwrap_or(error)
}

/// The error of anything in `inputs` that is not what it should be.
fn not_an_array() -> Error {
    Error::invalid("Could not parse input content. Not valid ndarray detected")
}

#[cfg(test)]
mod tests;
