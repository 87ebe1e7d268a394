//! REST bodies: JSON, and JSON followed by binary data.
//!
//! A body is read in one pass with the elements of each input left as they stand; they are packed
//! when the datatype is known, which may come after them. Only when that fails is the body looked
//! at again, slowly, to say what is wrong with it.

mod data;
mod faults;
mod object;

use bytes::Bytes;
use object::Object;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    error::{Error, Result},
    request::{Data, Declared, InferRequest, InputTensor, Parameter, Parameters},
    tensor::{DataType, byte_size},
};

/// The header that says how many bytes of a body are JSON; binary data follows them.
pub(super) const JSON_LENGTH: &str = "inference-header-content-length";

/// Which outputs the client wants in binary.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wishes {
    /// The outputs listed in the request and whether each is to be binary.
    pub(super) listed: Vec<(String, bool)>,
    /// The client reads binary outputs, whether it listed any or not.
    pub(super) reads_binary: bool,
}

#[derive(Deserialize)]
struct RequestJson<'a> {
    #[serde(borrow, default)]
    inputs: Option<Vec<Object<InputJson<'a>>>>,
    #[serde(borrow, default)]
    outputs: Option<Vec<Object<OutputJson<'a>>>>,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InputJson<'a> {
    name: String,
    shape: Vec<u64>,
    datatype: String,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputJson<'a> {
    name: String,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

/// Reads a request body. `json_length` is the header of that name, if it was sent.
///
/// # Errors
///
/// Fails with the first fault.
pub(super) fn decode(body: &Bytes, json_length: Option<&[u8]>) -> Result<(InferRequest, Wishes)> {
    let (json, mut binary) = split(body, json_length)?;
    let Object::<RequestJson<'_>>(request) =
        serde_json::from_slice(&json).map_err(|error| faults::explain(&json, &error))?;
    let inputs = match request.inputs {
        Some(inputs) if !inputs.is_empty() => inputs,
        _ => return Err(Error::invalid("Invalid JSON structure, missing inputs")),
    };
    let parameters = read_parameters(request.parameters)?;
    let alone = inputs.len() == 1;
    let inputs = inputs
        .into_iter()
        .map(|Object(input)| decode_input(input, &mut binary, alone))
        .collect::<Result<Vec<_>>>()?;
    let by_default = binary_wish(&parameters, "binary_data_output").unwrap_or(false);
    let mut wishes = Wishes {
        listed: Vec::new(),
        reads_binary: by_default,
    };
    for Object(output) in request.outputs.unwrap_or_default() {
        let parameters = read_parameters(output.parameters)?;
        let binary = binary_wish(&parameters, "binary_data").unwrap_or(by_default);
        wishes.reads_binary |= binary;
        wishes.listed.push((output.name, binary));
    }
    let request = InferRequest {
        id: request.id.unwrap_or_default(),
        parameters,
        inputs,
        outputs: wishes.listed.iter().map(|(name, _)| name.clone()).collect(),
        raw_mismatch: None,
    };
    Ok((request, wishes))
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

fn decode_input(input: InputJson<'_>, binary: &mut Bytes, alone: bool) -> Result<InputTensor> {
    let parameters = read_parameters(input.parameters)?;
    let size = match parameters
        .iter()
        .find(|(name, _)| name == "binary_data_size")
    {
        None => None,
        Some((_, Parameter::Int(size))) => Some(usize::try_from(*size).map_err(|_| bad_size())?),
        Some(_) => return Err(bad_size()),
    };
    if size.is_some() && input.data.is_some() {
        return Err(Error::invalid(
            "Request contains values both in binary data and in content value",
        ));
    }
    let shape = input
        .shape
        .iter()
        .map(|&length| i64::try_from(length).map_err(|_| faults::not_an_array()))
        .collect::<Result<Vec<i64>>>()?;
    let datatype = Declared::from_kserve(input.datatype);
    let data = match input.data {
        Some(text) => data::pack(&datatype, text, &shape)?,
        None => Data::Raw(take(binary, size, &datatype, &shape, alone)?),
    };
    Ok(InputTensor {
        name: input.name,
        datatype,
        shape,
        data,
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
        // The type is refused later, with its text.
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

fn read_parameters(text: Option<&RawValue>) -> Result<Parameters> {
    let Some(text) = text else {
        return Ok(Parameters::new());
    };
    let fault = || Error::invalid("Could not parse request parameters");
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text.get()).map_err(|_| fault())?;
    object
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                serde_json::Value::Bool(value) => Parameter::Bool(value),
                serde_json::Value::String(value) => Parameter::Text(value),
                serde_json::Value::Number(value) => match value.as_i64() {
                    Some(value) => Parameter::Int(value),
                    None if name == "binary_data_size" => return Err(bad_size()),
                    None => return Err(fault()),
                },
                _ => return Err(fault()),
            };
            Ok((name, value))
        })
        .collect()
}

/// Reads a wish for binary data; anything that is no truth value is ignored.
fn binary_wish(parameters: &Parameters, name: &str) -> Option<bool> {
    parameters.iter().find_map(|(known, value)| match value {
        Parameter::Bool(value) if known == name => Some(*value),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
