//! gRPC messages to an [`InferRequest`] and an [`InferResponse`] to messages.
//!
//! Raw contents stay slices of the received message; nothing is copied here.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;

use super::regions::{self, RegionReader};
use crate::{
    budget::Budget,
    error::{Error, Result},
    frontends::{
        deadline,
        gather::{fixed, one_by_one, values},
        guard::{Access, NoRegions},
    },
    proto::kserve::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
        infer_parameter::ParameterChoice,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        model_infer_response::InferOutputTensor,
    },
    request::{Data, Declared, InferRequest, InferResponse, InputTensor, Parameter, Parameters},
    shared_memory::{RegionTensors, SharedMemory},
    tensor::DataType,
};

/// Reads a request; name and version have been used already. `memory` has the regions of tensors that are in
/// shared memory.
///
/// # Errors
///
/// Fails if the budget has no room for what typed contents are packed to, or a tensor is in no such region.
pub(super) fn decode(
    message: ModelInferRequest,
    budget: &Budget,
    memory: Result<&SharedMemory, NoRegions>,
) -> Result<InferRequest> {
    let regions = match has_parameters(&message) {
        true => find_regions(&message, budget, memory)?,
        false => None,
    };
    let is_in_region = |index| {
        let regions: Option<&RegionTensors> = regions.as_deref();
        regions.is_some_and(|regions| regions.has_input(index))
    };
    let raw = message.raw_input_contents;
    let has_raw = !raw.is_empty();
    let in_regions = regions.as_deref().map_or(0, |regions| regions.inputs.len());
    let with_data = message.inputs.len() - in_regions;
    let raw_mismatch = (has_raw && raw.len() != with_data).then_some((with_data, raw.len()));
    if let (Some((_, actual)), true) = (raw_mismatch, in_regions > 0) {
        return Err(Error::invalid(format!(
            "Inputs inside buffer does not match expected format. - Expected: one element of \
             raw_input_contents for each of the {with_data} inputs that are not in shared memory; Actual: \
             {actual}"
        )));
    }
    let mut raw = raw.into_iter();
    let inputs = message
        .inputs
        .into_iter()
        .enumerate()
        .map(|(index, input)| {
            // An input without its buffer is refused later, by `raw_mismatch`; one in a region has none.
            let raw = match is_in_region(index) {
                true => Some(Bytes::new()),
                false => has_raw.then(|| raw.next().unwrap_or_default()),
            };
            decode_input(input, raw.map(Data::Raw), budget)
        })
        .collect::<Result<_>>()?;
    let mut request = InferRequest {
        id: message.id,
        parameters: decode_parameters(message.parameters),
        inputs,
        outputs: message
            .outputs
            .into_iter()
            .map(|InferRequestedOutputTensor { name, .. }| name)
            .collect(),
        raw_mismatch,
        regions,
        ..InferRequest::default()
    };
    request.charge_texts(budget)?;
    Ok(request)
}

/// Returns whether any tensor has parameters; nearly none has.
fn has_parameters(message: &ModelInferRequest) -> bool {
    let mut inputs = message.inputs.iter();
    let mut outputs = message.outputs.iter();
    inputs.any(|input| !input.parameters.is_empty())
        || outputs.any(|output| !output.parameters.is_empty())
}

/// Finds the tensors that are in shared memory.
fn find_regions(
    message: &ModelInferRequest,
    budget: &Budget,
    memory: Result<&SharedMemory, NoRegions>,
) -> Result<Option<Box<RegionTensors>>> {
    let mut reader = RegionReader::new(memory, budget);
    for (index, input) in message.inputs.iter().enumerate() {
        let parameters = decode_parameters(input.parameters.clone());
        let found = reader.input(index, &input.name, &parameters)?;
        let contents = input.contents.as_ref();
        if found && contents.is_some_and(|contents| !is_empty(contents)) {
            return Err(regions::refuse_data(&input.name));
        }
    }
    for output in &message.outputs {
        reader.output(&output.name, &decode_parameters(output.parameters.clone()))?;
    }
    Ok(reader.finish())
}

/// Reads the time limit among the parameters of a message that is not decoded yet.
pub(super) fn time_limit(message: &ModelInferRequest) -> Option<Duration> {
    let parameter = message.parameters.get(deadline::PARAMETER)?;
    match parameter.parameter_choice.as_ref()? {
        ParameterChoice::Int64Param(value) => deadline::of_micros(*value),
        ParameterChoice::Uint64Param(value) => deadline::of_micros(i64::try_from(*value).ok()?),
        _ => None,
    }
}

/// Reads a version of a gRPC request: empty or `0` is the default version.
pub(super) fn version(text: &str) -> Result<Option<i64>> {
    match text {
        "" => Ok(None),
        text => match text.parse::<i64>() {
            Ok(0) => Ok(None),
            Ok(number) if !text.starts_with('+') => Ok(Some(number)),
            _ => Err(Error::invalid("invalid model version format in request")),
        },
    }
}

/// Returns the version of a call that was read; that of what heeds none may be anything.
pub(super) fn version_for(
    engine: &Access,
    name: &str,
    read: Result<Option<i64>>,
) -> Result<Option<i64>> {
    read.or_else(|error| match engine.visible(name) {
        Ok(servable) if !servable.heeds_version() => Ok(None),
        _ => Err(error),
    })
}

fn decode_input(
    input: InferInputTensor,
    raw: Option<Data>,
    budget: &Budget,
) -> Result<InputTensor> {
    let datatype = Declared::from_kserve(input.datatype);
    let data = match (raw, input.contents) {
        (Some(_), Some(contents)) if !is_empty(&contents) => Data::Both,
        (Some(raw), _) => raw,
        (None, contents) => pack(&datatype, contents.unwrap_or_default()).charged(budget)?,
    };
    Ok(InputTensor {
        name: input.name,
        datatype,
        shape: input.shape,
        data,
    })
}

fn decode_parameters(parameters: HashMap<String, InferParameter>) -> Parameters {
    parameters
        .into_iter()
        .map(|(name, value)| {
            let value = match value.parameter_choice {
                Some(ParameterChoice::BoolParam(value)) => Parameter::Bool(value),
                Some(ParameterChoice::Int64Param(value)) => Parameter::Int(value),
                Some(ParameterChoice::StringParam(value)) => Parameter::Text(value),
                Some(ParameterChoice::Uint64Param(value)) => Parameter::UInt(value),
                Some(ParameterChoice::DoubleParam(value)) => Parameter::Double(value),
                None => Parameter::Empty,
            };
            (name, value)
        })
        .collect()
}

/// Writes a response: always raw contents, in the order of the outputs.
pub(super) fn encode(response: InferResponse) -> ModelInferResponse {
    let placed = |name: &str, data: Bytes| match response.placed.iter().find(|it| it.name == name) {
        None => (HashMap::new(), data),
        // Its element is there and empty, so that those of the others keep their places.
        Some(placed) => (encode_parameters(regions::parameters(placed)), Bytes::new()),
    };
    let count = response.outputs.len() + response.loose.len();
    let mut outputs = Vec::with_capacity(count);
    let mut raw_output_contents = Vec::with_capacity(count);
    for (name, tensor) in response.outputs {
        let (dtype, shape, data) = tensor.into_parts();
        let (parameters, data) = placed(&name, data);
        outputs.push(InferOutputTensor {
            name,
            datatype: dtype.kserve().to_owned(),
            shape: shape
                .into_iter()
                .map(|length| i64::try_from(length).unwrap_or(i64::MAX))
                .collect(),
            parameters,
            ..InferOutputTensor::default()
        });
        raw_output_contents.push(data);
    }
    for loose in response.loose {
        let (parameters, data) = placed(&loose.name, loose.data);
        outputs.push(InferOutputTensor {
            name: loose.name,
            datatype: loose.datatype,
            shape: loose.shape,
            parameters,
            ..InferOutputTensor::default()
        });
        raw_output_contents.push(data);
    }
    ModelInferResponse {
        model_name: response.model_name,
        model_version: response.model_version.to_string(),
        id: response.id,
        outputs,
        raw_output_contents,
        parameters: encode_parameters(response.parameters),
    }
}

fn encode_parameters(parameters: Parameters) -> HashMap<String, InferParameter> {
    parameters
        .into_iter()
        .map(|(name, value)| {
            let parameter_choice = match value {
                Parameter::Bool(value) => Some(ParameterChoice::BoolParam(value)),
                Parameter::Int(value) => Some(ParameterChoice::Int64Param(value)),
                Parameter::UInt(value) => Some(ParameterChoice::Uint64Param(value)),
                Parameter::Double(value) => Some(ParameterChoice::DoubleParam(value)),
                Parameter::Text(value) => Some(ParameterChoice::StringParam(value)),
                Parameter::Empty => None,
            };
            (name, InferParameter { parameter_choice })
        })
        .collect()
}

/// Packs the field that belongs to the declared type; values in other fields do not count.
pub(super) fn pack(declared: &Declared, contents: InferTensorContents) -> Data {
    let Declared::Known(dtype) = declared else {
        // The type is refused later, with its text; the data is not looked at.
        return values(0, Vec::new());
    };
    let dtype = *dtype;
    match dtype {
        DataType::F32 => fixed(&contents.fp32_contents, f32::to_le_bytes),
        DataType::F64 => fixed(&contents.fp64_contents, f64::to_le_bytes),
        DataType::I32 => fixed(&contents.int_contents, i32::to_le_bytes),
        DataType::I64 => fixed(&contents.int64_contents, i64::to_le_bytes),
        DataType::U32 => fixed(&contents.uint_contents, u32::to_le_bytes),
        DataType::U64 => fixed(&contents.uint64_contents, u64::to_le_bytes),
        DataType::Bool => fixed(&contents.bool_contents, |value| [u8::from(value)]),
        DataType::I8 | DataType::I16 => {
            one_by_one(dtype, contents.int_contents, |packer, value| {
                packer.push_i64(value.into())
            })
        }
        DataType::U8 | DataType::U16 => {
            one_by_one(dtype, contents.uint_contents, |packer, value| {
                packer.push_u64(value.into())
            })
        }
        DataType::String => one_by_one(dtype, contents.bytes_contents, |packer, value| {
            packer.push_bytes(&value)
        }),
        DataType::F16 | DataType::Bf16 if is_empty(&contents) => values(0, Vec::new()),
        DataType::F16 | DataType::Bf16 => Data::Unfit(format!(
            "{dtype} has no field in InferTensorContents; send it in raw_input_contents"
        )),
    }
}

/// Returns whether contents hold no value at all.
pub(super) fn is_empty(contents: &InferTensorContents) -> bool {
    contents.bool_contents.is_empty()
        && contents.int_contents.is_empty()
        && contents.int64_contents.is_empty()
        && contents.uint_contents.is_empty()
        && contents.uint64_contents.is_empty()
        && contents.fp32_contents.is_empty()
        && contents.fp64_contents.is_empty()
        && contents.bytes_contents.is_empty()
}

#[cfg(test)]
mod tests {
    use super::pack;
    use crate::{
        proto::kserve::InferTensorContents,
        request::{Data, Declared},
        tensor::DataType,
    };

    #[test]
    fn only_the_field_of_the_type_counts() {
        let contents = InferTensorContents {
            int_contents: vec![1, -1],
            fp32_contents: vec![1.0],
            ..InferTensorContents::default()
        };
        let packed = pack(&Declared::Known(DataType::I16), contents.clone());
        assert_eq!(
            packed,
            Data::Values {
                count: 2,
                bytes: vec![1, 0, 255, 255].into()
            }
        );
        let none = pack(&Declared::Known(DataType::U64), contents);
        assert!(matches!(none, Data::Values { count: 0, .. }));
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let contents = InferTensorContents {
            int_contents: vec![1, 128],
            ..InferTensorContents::default()
        };
        let unfit = |text: &str| Data::Unfit(text.to_owned());
        assert_eq!(
            pack(&Declared::Known(DataType::I8), contents.clone()),
            unfit("128 does not fit INT8")
        );
        assert_eq!(
            pack(&Declared::Known(DataType::F16), contents),
            unfit("FP16 has no field in InferTensorContents; send it in raw_input_contents")
        );
    }
}
