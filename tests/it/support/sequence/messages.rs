//! Messages of gRPC.

use ovms::proto::{
    kserve::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
        infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
    },
    tensorflow::{DataType, TensorProto},
    tensorflow_serving::{PredictRequest, PredictResponse},
};
use serde_json::{Value, json};

use super::{Answer, Ask, Number, Special};
use crate::support::{
    grpc::{self, floats, to_floats},
    tfs,
};

/// Makes the message of TensorFlow Serving.
pub(crate) fn predict(ask: &Ask) -> PredictRequest {
    let mut inputs = vec![];
    let special = |special: &Special, dtype, width: usize| {
        let mut tensor = tfs::tensor(dtype, special.lengths());
        if special.shape.is_none() {
            tensor.tensor_shape = None;
        }
        if width == 8 {
            tensor.uint64_val.clone_from(&special.values);
        } else {
            let narrow = |&value: &Number| u32::try_from(value).expect("a test's value fits");
            tensor.uint32_val = special.values.iter().map(narrow).collect();
        }
        tensor
    };
    if let Some(id) = &ask.id {
        inputs.push(("sequence_id", special(id, DataType::DtUint64, 8)));
    }
    if let Some(control) = &ask.control {
        let tensor = special(control, DataType::DtUint32, 4);
        inputs.push(("sequence_control_input", tensor));
    }
    if let Some((name, value)) = ask.extra {
        let tensor = tfs::content(DataType::DtInt64, &[1], &value.to_le_bytes());
        inputs.push((name, tensor));
    }
    let (name, shape, values) = &ask.data;
    let tensor = tfs::content(DataType::DtFloat, shape, &floats(values));
    inputs.push((name, tensor));
    PredictRequest {
        model_spec: tfs::spec(&ask.model, ask.version),
        inputs: inputs
            .into_iter()
            .map(|(name, tensor): (&str, TensorProto)| (name.to_owned(), tensor))
            .collect(),
        output_filter: ask
            .outputs
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect(),
    }
}

/// Reads the message of TensorFlow Serving.
pub(crate) fn of_predict(answer: &PredictResponse) -> Answer {
    let mut names: Vec<String> = answer.outputs.keys().cloned().collect();
    names.sort_unstable();
    let id = &answer.outputs["sequence_id"];
    assert_eq!(id.dtype, i32::from(DataType::DtUint64));
    assert_eq!((tfs::shape(id), id.tensor_content.len()), (vec![1], 0));
    let other = names.iter().find(|name| *name != "sequence_id");
    let content = other.map(|name| to_floats(&answer.outputs[name].tensor_content));
    let [id] = id.uint64_val[..] else {
        panic!("{id:?}");
    };
    Answer {
        values: content.unwrap_or_default(),
        names,
        id,
        echo: None,
        version: 0,
    }
}

/// Makes the message of KServe.
pub(crate) fn infer(ask: &Ask, raw: bool) -> ModelInferRequest {
    let mut inputs: Vec<(InferInputTensor, Vec<u8>)> = Vec::new();
    let special = |name: &str, datatype: &str, special: &Special, wide: bool| {
        let mut input = grpc::input(name, datatype, special.lengths());
        if raw {
            let width = if wide { 8 } else { 4 };
            return (input, special.bytes(width));
        }
        let mut contents = InferTensorContents::default();
        if wide {
            contents.uint64_contents.clone_from(&special.values);
        } else {
            let narrow = |&value: &Number| u32::try_from(value).expect("a test's value fits");
            contents.uint_contents = special.values.iter().map(narrow).collect();
        }
        input.contents = Some(contents);
        (input, Vec::new())
    };
    // On both sides of the data, since their place is free.
    if let Some(id) = &ask.id {
        inputs.push(special("sequence_id", "UINT64", id, true));
    }
    let (name, shape, values) = &ask.data;
    let mut input = grpc::input(name, "FP32", shape);
    if !raw {
        input.contents = Some(InferTensorContents {
            fp32_contents: values.clone(),
            ..InferTensorContents::default()
        });
    }
    inputs.push((input, floats(values)));
    if let Some((name, value)) = ask.extra {
        let mut input = grpc::input(name, "INT64", &[1]);
        if !raw {
            input.contents = Some(InferTensorContents {
                int64_contents: vec![value],
                ..InferTensorContents::default()
            });
        }
        inputs.push((input, value.to_le_bytes().to_vec()));
    }
    if let Some(control) = &ask.control {
        inputs.push(special("sequence_control_input", "UINT32", control, false));
    }
    let contents = inputs
        .iter()
        .filter(|_| raw)
        .map(|(_, bytes)| bytes.clone().into());
    ModelInferRequest {
        model_name: ask.model.clone(),
        model_version: if ask.version == 0 {
            String::new()
        } else {
            ask.version.to_string()
        },
        raw_input_contents: contents.collect(),
        inputs: inputs.into_iter().map(|(input, _)| input).collect(),
        outputs: ask
            .outputs
            .iter()
            .map(|(name, _)| grpc::wanted(name))
            .collect(),
        parameters: ask
            .parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), choice(value)))
            .collect(),
        ..ModelInferRequest::default()
    }
}

fn choice(value: &Value) -> InferParameter {
    let choice = match value {
        Value::Bool(value) => Some(ParameterChoice::BoolParam(*value)),
        Value::String(text) => Some(ParameterChoice::StringParam(text.clone())),
        Value::Number(number) => number
            .as_i64()
            .map(ParameterChoice::Int64Param)
            .or_else(|| number.as_u64().map(ParameterChoice::Uint64Param))
            .or_else(|| number.as_f64().map(ParameterChoice::DoubleParam)),
        _ => None,
    };
    InferParameter {
        parameter_choice: choice,
    }
}

/// Reads the message of KServe.
pub(crate) fn of_infer(answer: &ModelInferResponse) -> Answer {
    let names: Vec<String> = answer
        .outputs
        .iter()
        .map(|output| output.name.clone())
        .collect();
    let place = names.iter().position(|name| name == "sequence_id");
    let id = place.map_or(0, |place| {
        let output = &answer.outputs[place];
        assert_eq!(
            (output.datatype.as_str(), &output.shape[..]),
            ("UINT64", &[1][..])
        );
        let bytes = &answer.raw_output_contents[place][..];
        u64::from_le_bytes(bytes.try_into().expect("it has eight bytes"))
    });
    let other = (0..names.len()).find(|&index| Some(index) != place);
    let echo = answer.parameters.get("sequence_id").map(|parameter| {
        match parameter.parameter_choice.as_ref().expect("it has a value") {
            ParameterChoice::Int64Param(value) => json!(value),
            ParameterChoice::StringParam(text) => json!(text),
            other => panic!("{other:?}"),
        }
    });
    Answer {
        values: other
            .map(|index| to_floats(&answer.raw_output_contents[index]))
            .unwrap_or_default(),
        names,
        id,
        echo,
        version: answer.model_version.parse().expect("a version is a number"),
    }
}
