//! Bodies of REST.

use serde_json::{Value, json};

use super::{Answer, Ask, KEY};
use crate::support::{
    Server,
    grpc::{floats, to_floats},
    http::{self, JSON_LENGTH},
};

/// Nests numbers in lists by shape.
fn nested<T: Clone + Into<Value>>(shape: &[i64], values: &[T]) -> Value {
    match shape {
        [] => values[0].clone().into(),
        [_] => values.iter().cloned().map(Into::into).collect(),
        [_, inner @ ..] => {
            let size = inner.iter().product::<i64>();
            let size = usize::try_from(size).expect("lengths are positive");
            values
                .chunks(size)
                .map(|chunk| nested(inner, chunk))
                .collect()
        }
    }
}

fn place(ask: &Ask) -> String {
    if ask.version == 0 {
        ask.model.clone()
    } else {
        format!("{}/versions/{}", ask.model, ask.version)
    }
}

/// Sends a request to TensorFlow Serving's path.
pub(super) fn tfs(server: &Server, ask: &Ask) -> Result<Answer, String> {
    let (name, shape, values) = &ask.data;
    let mut inputs = json!({ *name: nested(shape, values) });
    if let Some((name, value)) = ask.extra {
        inputs[name] = json!([value]);
    }
    let specials = [
        ("sequence_id", &ask.id),
        ("sequence_control_input", &ask.control),
    ];
    for (name, special) in specials {
        if let Some(special) = special {
            inputs[name] = nested(special.lengths(), &special.values);
        }
    }
    let body = json!({"signature_name": "serving_default", "inputs": inputs}).to_string();
    let path = format!("/v1/models/{}:predict", place(ask));
    let headers: Vec<_> = ask.key.iter().map(|key| (KEY, key.as_str())).collect();
    let answer = http::send(server, "POST", &path, &headers, body.as_bytes());
    if answer.status != 200 {
        return Err(answer.error());
    }
    let json = answer.json();
    let outputs = json["outputs"]
        .as_object()
        .expect("there is more than one output");
    let [id] = &outputs["sequence_id"].as_array().expect("it is a list")[..] else {
        panic!("{json}");
    };
    let other = outputs.iter().find(|(name, _)| *name != "sequence_id");
    let mut values = Vec::new();
    flatten(
        other.map_or(&Value::Null, |(_, output)| output),
        &mut values,
    );
    Ok(Answer {
        names: outputs.keys().cloned().collect(),
        values,
        id: id.as_u64().expect("it is a whole number"),
        echo: None,
        version: 0,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the values of tests are f32"
)]
fn flatten(value: &Value, into: &mut Vec<f32>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| flatten(value, into)),
        Value::Number(number) => into.push(number.as_f64().expect("it is a number") as f32),
        _ => {}
    }
}

/// Creates the body of KServe over REST: JSON, and the bytes after it.
pub(crate) fn rest_body(ask: &Ask, binary: bool) -> (Value, Vec<u8>) {
    let mut inputs = Vec::new();
    let mut bytes = Vec::new();
    let mut add = |name: &str, datatype: &str, shape: &[i64], values: Value, packed: Vec<u8>| {
        let mut input = json!({"name": name, "datatype": datatype, "shape": shape});
        if binary {
            input["parameters"] = json!({"binary_data_size": packed.len()});
            bytes.extend(packed);
        } else {
            input["data"] = values;
        }
        inputs.push(input);
    };
    if let Some(control) = &ask.control {
        add(
            "sequence_control_input",
            "UINT32",
            control.lengths(),
            json!(control.values),
            control.bytes(4),
        );
    }
    let (name, shape, values) = &ask.data;
    add(name, "FP32", shape, json!(values), floats(values));
    if let Some((name, value)) = ask.extra {
        add(
            name,
            "INT64",
            &[1],
            json!([value]),
            value.to_le_bytes().to_vec(),
        );
    }
    if let Some(id) = &ask.id {
        add(
            "sequence_id",
            "UINT64",
            id.lengths(),
            json!(id.values),
            id.bytes(8),
        );
    }
    let mut json = json!({ "inputs": inputs });
    if !ask.parameters.is_empty() {
        let parameters = ask
            .parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        json["parameters"] = parameters.collect();
    }
    if !ask.outputs.is_empty() {
        let wanted = |(name, binary): &(&str, bool)| json!({"name": name, "parameters": {"binary_data": binary}});
        json["outputs"] = ask.outputs.iter().map(wanted).collect();
    }
    (json, bytes)
}

/// Sends a request to KServe's path.
pub(super) fn kserve(server: &Server, ask: &Ask, binary: bool) -> Result<Answer, String> {
    let (json, bytes) = rest_body(ask, binary);
    let mut body = json.to_string().into_bytes();
    let length = body.len().to_string();
    body.extend(bytes);
    let mut headers: Vec<_> = ask.key.iter().map(|key| (KEY, key.as_str())).collect();
    if binary {
        headers.push((JSON_LENGTH, &length));
    }
    let path = format!("/v2/models/{}/infer", place(ask));
    let answer = http::send(server, "POST", &path, &headers, &body);
    if answer.status != 200 {
        return Err(answer.error());
    }
    Ok(of_rest(&answer))
}

/// Reads an answer of KServe over REST.
fn of_rest(answer: &http::Answer) -> Answer {
    let (json, mut bytes) = match answer.header(JSON_LENGTH) {
        Some(_) => answer.parts(),
        None => (answer.json(), &[][..]),
    };
    let outputs = json["outputs"].as_array().expect("there are outputs");
    let (mut id, mut values) = (None, Vec::new());
    for output in outputs {
        let size = output["parameters"]["binary_data_size"].as_u64();
        let size = size.map(|size| usize::try_from(size).expect("it is small"));
        let binary = size.map(|size| bytes.split_off(..size).expect("the bytes are there"));
        if output["name"] == "sequence_id" {
            assert_eq!(
                (&output["datatype"], &output["shape"]),
                (&json!("UINT64"), &json!([1]))
            );
            let read = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let given = || output["data"][0].as_u64().expect("it is a whole number");
            assert!(id.replace(binary.map_or_else(given, read)).is_none());
        } else if values.is_empty() {
            match binary {
                Some(bytes) => values = to_floats(bytes),
                None => flatten(&output["data"], &mut values),
            }
        }
    }
    let version = json["model_version"].as_str().expect("there is a version");
    Answer {
        names: outputs
            .iter()
            .map(|output| output["name"].as_str().expect("it has a name").to_owned())
            .collect(),
        values,
        id: id.unwrap_or(0),
        echo: json["parameters"].get("sequence_id").cloned(),
        version: version.parse().expect("a version is a number"),
    }
}
