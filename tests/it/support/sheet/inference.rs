//! Inferences that are written once and sent in every form of every wire.
//!
//! `MODEL[:VERSION] INPUT TYPE SHAPE [= ELEMENTS], … [-> OUTPUT …]`: without elements an input has as many zeros
//! as its shape, and `ELEMENT*N` is an element N times. A form that has no place for something is left out.

use ovms::{
    proto::{kserve::ModelInferRequest, tensorflow::DataType, tensorflow_serving::PredictRequest},
    tensor::strings,
};
use serde_json::{Value, json};

use super::{
    Served,
    calls::{rest_line, with_code},
    grouped,
    request::{Input, Request},
};
use crate::support::{
    grpc::{error, input as header, wanted},
    http::{self, Answer, JSON_LENGTH},
    tfs::{self, Tfs},
};

/// Forms of the wires.
const FORMS: [(&str, Form); 7] = [
    ("kserve-grpc raw", |served, request| {
        kserve_grpc(served, request, false)
    }),
    ("kserve-grpc typed", |served, request| {
        kserve_grpc(served, request, true)
    }),
    ("kserve-rest json", |served, request| {
        kserve_rest(served, request, false)
    }),
    ("kserve-rest binary", |served, request| {
        kserve_rest(served, request, true)
    }),
    ("tfs-grpc raw", |served, request| {
        tfs_grpc(served, request, false)
    }),
    ("tfs-grpc typed", |served, request| {
        tfs_grpc(served, request, true)
    }),
    ("tfs-rest", tfs_rest),
];

/// Sends a request in a form that has a place for all of it; `None` else.
type Form = fn(&Served, &Request) -> Option<String>;

/// Sends an inference over the chosen wires.
pub(super) fn send(served: &Served, over: &[String], line: &str) -> String {
    let request = Request::parse(line);
    let is_chosen =
        |form: &str| over.is_empty() || over.iter().any(|wire| form.starts_with(wire.as_str()));
    let mut answers: Vec<(String, String)> = Vec::new();
    for (form, send) in FORMS.iter().filter(|(form, _)| is_chosen(form)) {
        let Some(mut answer) = send(served, &request) else {
            continue;
        };
        // An output without a name is the one that others have named.
        let named = answers.iter().find(|(_, known)| {
            let unnamed = known.find(" [").map(|at| format!("OK{}", &known[at..]));
            unnamed.as_ref() == Some(&answer)
        });
        if let Some((_, known)) = named {
            answer.clone_from(known);
        }
        answers.push(((*form).to_owned(), answer));
    }
    grouped(&answers)
}

fn kserve_grpc(served: &Served, request: &Request, typed: bool) -> Option<String> {
    let inputs = request.inputs.iter().map(|input| {
        let mut tensor = header(&input.name, &input.datatype, &input.shape);
        tensor.contents = typed.then(|| input.typed());
        tensor
    });
    let raw = request.inputs.iter().filter(|_| !typed).map(Input::bytes);
    let message = ModelInferRequest {
        model_name: request.model.clone(),
        model_version: request.version.clone(),
        inputs: inputs.collect(),
        raw_input_contents: raw.collect(),
        outputs: request.outputs.iter().map(|name| wanted(name)).collect(),
        ..ModelInferRequest::default()
    };
    Some(match served.grpc.infer(message) {
        Err(status) => error(&status),
        Ok(answer) => {
            let outputs = answer.outputs.iter().zip(&answer.raw_output_contents);
            listed(outputs.map(|(output, raw)| {
                (
                    output.name.clone(),
                    output.shape.clone(),
                    elements(&output.datatype, raw),
                )
            }))
        }
    })
}

fn kserve_rest(served: &Served, request: &Request, binary: bool) -> Option<String> {
    let mut data = Vec::new();
    let inputs = request.inputs.iter().map(|input| {
        let mut json =
            json!({"name": input.name, "shape": input.shape, "datatype": input.datatype});
        if binary {
            let bytes = input.bytes();
            json["parameters"] = json!({"binary_data_size": bytes.len()});
            data.extend_from_slice(&bytes);
        } else {
            json["data"] = json!(input.elements);
        }
        json
    });
    let mut body = json!({"inputs": inputs.collect::<Vec<_>>()});
    if !request.outputs.is_empty() {
        let outputs: Vec<Value> = request
            .outputs
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        body["outputs"] = json!(outputs);
    }
    if binary {
        body["parameters"] = json!({"binary_data_output": true});
    }
    let json = body.to_string();
    let length = json.len().to_string();
    let headers = [(JSON_LENGTH, length.as_str())];
    let headers = if binary { &headers[..] } else { &[] };
    let body = [json.as_bytes(), &data].concat();
    let path = request.path("/v2", "/infer");
    let answer = http::send(served.server(), "POST", &path, headers, &body);
    if answer.status != 200 {
        return Some(with_code(&rest_line(&answer)));
    }
    let (json, mut binary) = if binary {
        answer.parts()
    } else {
        (answer.json(), &[][..])
    };
    let outputs = json["outputs"].as_array().unwrap().iter().map(|output| {
        let datatype = output["datatype"].as_str().unwrap();
        let elements = match output["parameters"]["binary_data_size"].as_u64() {
            None => flat(&output["data"]),
            Some(size) => {
                let (own, rest) = binary.split_at(usize::try_from(size).unwrap());
                binary = rest;
                elements(datatype, own)
            }
        };
        let shape = serde_json::from_value(output["shape"].clone()).unwrap();
        (output["name"].as_str().unwrap().to_owned(), shape, elements)
    });
    Some(listed(outputs))
}

fn tfs_grpc(served: &Served, request: &Request, typed: bool) -> Option<String> {
    let version = if request.version.is_empty() {
        0
    } else {
        request.version.parse().ok()?
    };
    let inputs: Option<_> = request
        .inputs
        .iter()
        .map(|input| {
            let dtype = dtype(&input.datatype)?;
            let is_text = dtype == DataType::DtString;
            let tensor = match typed {
                true => input.tfs_typed(dtype),
                // Strings have a field, and no other form.
                false if is_text => return None,
                false => tfs::content(dtype, &input.shape, &input.bytes()),
            };
            Some((input.name.clone(), tensor))
        })
        .collect();
    let message = PredictRequest {
        model_spec: tfs::spec(&request.model, version),
        inputs: inputs?,
        output_filter: request.outputs.clone(),
    };
    let mut client = Tfs::over(&served.grpc);
    let answer = served
        .grpc
        .wait(async move { client.predict(message).await });
    Some(match answer {
        Err(status) => error(&status),
        Ok(answer) => listed(answer.outputs.into_iter().map(|(name, tensor)| {
            let elements = match tensor.dtype() {
                DataType::DtString => tensor
                    .string_val
                    .iter()
                    .map(|text| json!(String::from_utf8_lossy(text)))
                    .collect(),
                dtype => elements(datatype(dtype), &tensor.tensor_content),
            };
            (name, tfs::shape(&tensor), elements)
        })),
    })
}

fn tfs_rest(served: &Served, request: &Request) -> Option<String> {
    // It has neither a filter nor datatypes.
    let has_place = request.outputs.is_empty()
        && request
            .inputs
            .iter()
            .all(|input| dtype(&input.datatype).is_some());
    if !has_place {
        return None;
    }
    let inputs: Option<serde_json::Map<String, Value>> = request
        .inputs
        .iter()
        .map(|input| Some((input.name.clone(), input.nested()?)))
        .collect();
    let body = json!({"inputs": inputs?}).to_string();
    let answer = http::post(
        served.server(),
        &request.path("/v1", ":predict"),
        body.as_bytes(),
    );
    Some(match answer.status {
        200 => tfs_listed(&answer),
        _ => with_code(&rest_line(&answer)),
    })
}

/// Returns the outputs of an answer, which names them only if there are several.
fn tfs_listed(answer: &Answer) -> String {
    let outputs = answer.json()["outputs"].take();
    let shape = |mut value: &Value| {
        let mut shape = Vec::new();
        while let Some(list) = value.as_array() {
            shape.push(i64::try_from(list.len()).unwrap());
            match list.first() {
                Some(first) => value = first,
                None => break,
            }
        }
        shape
    };
    match outputs.as_object() {
        Some(outputs) => listed(
            outputs
                .iter()
                .map(|(name, value)| (name.clone(), shape(value), flat(value))),
        ),
        None => listed([(String::new(), shape(&outputs), flat(&outputs))].into_iter()),
    }
}

/// Returns the elements of lists in lists.
fn flat(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.iter().flat_map(flat).collect(),
        element => vec![element.clone()],
    }
}

fn elements(datatype: &str, bytes: &[u8]) -> Vec<Value> {
    macro_rules! numbers {
        ($type:ty) => {
            numbers!($type, std::convert::identity)
        };
        ($type:ty, $widen:expr) => {
            bytes
                .chunks_exact(size_of::<$type>())
                .map(|chunk| json!($widen(<$type>::from_le_bytes(chunk.try_into().unwrap()))))
                .collect()
        };
    }
    match datatype {
        "FP16" => numbers!(half::f16, half::f16::to_f32),
        "BF16" => numbers!(half::bf16, half::bf16::to_f32),
        "FP32" => numbers!(f32),
        "FP64" => numbers!(f64),
        "INT8" => numbers!(i8),
        "INT16" => numbers!(i16),
        "INT32" => numbers!(i32),
        "INT64" => numbers!(i64),
        "UINT8" => numbers!(u8),
        "UINT16" => numbers!(u16),
        "UINT32" => numbers!(u32),
        "UINT64" => numbers!(u64),
        "BOOL" => bytes.iter().map(|byte| json!(*byte == 1)).collect(),
        "BYTES" => {
            let texts = strings::strings(bytes);
            texts
                .map(|text| json!(String::from_utf8_lossy(text)))
                .collect()
        }
        other => panic!("{other} has no text here"),
    }
}

/// Writes outputs in a line, each with its shape and its elements; the shape alone says that there are none.
fn listed(outputs: impl Iterator<Item = (String, Vec<i64>, Vec<Value>)>) -> String {
    let outputs = outputs.map(|(name, shape, elements)| {
        let mut runs: Vec<(String, usize)> = Vec::new();
        for element in &elements {
            // A number of FP32 has the digits that distinguish it from its neighbours.
            let text = match element.as_f64() {
                Some(number) if element.is_f64() => (number as f32).to_string(),
                _ => element.to_string(),
            };
            match runs.last_mut() {
                Some((last, count)) if *last == text => *count += 1,
                _ => runs.push((text, 1)),
            }
        }
        let runs: Vec<String> = runs
            .into_iter()
            .map(|(text, count)| {
                if count == 1 {
                    text
                } else {
                    format!("{text}*{count}")
                }
            })
            .collect();
        let shape = json!(shape);
        format!("{name} {shape} = {}", runs.join(" "))
            .trim()
            .to_owned()
    });
    format!("OK {}", outputs.collect::<Vec<_>>().join(", "))
}

const DTYPES: [(&str, DataType); 14] = [
    ("FP32", DataType::DtFloat),
    ("FP64", DataType::DtDouble),
    ("FP16", DataType::DtHalf),
    ("BF16", DataType::DtBfloat16),
    ("BOOL", DataType::DtBool),
    ("INT8", DataType::DtInt8),
    ("INT16", DataType::DtInt16),
    ("INT32", DataType::DtInt32),
    ("INT64", DataType::DtInt64),
    ("UINT8", DataType::DtUint8),
    ("UINT16", DataType::DtUint16),
    ("UINT32", DataType::DtUint32),
    ("UINT64", DataType::DtUint64),
    ("BYTES", DataType::DtString),
];

fn dtype(datatype: &str) -> Option<DataType> {
    DTYPES
        .iter()
        .find(|(name, _)| *name == datatype)
        .map(|(_, dtype)| *dtype)
}

fn datatype(dtype: DataType) -> &'static str {
    DTYPES
        .iter()
        .find(|(_, known)| *known == dtype)
        .map_or("", |(name, _)| name)
}
