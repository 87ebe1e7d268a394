//! Schemas of bodies: those of all servables, and those with the tensors of one.

use serde_json::{Map, Value, json};

use super::reference;
use crate::{
    engine::ServableFacts,
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    servable::TensorInfo,
    tensor::{DataType, Dim},
};

/// Members that each tensor has; `data` may be in shared memory.
const NEEDED: [&str; 3] = ["name", "shape", "datatype"];

/// Returns a schema for an object of which no more is said.
pub(super) fn any_object() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// Returns the schema of a list of sequences.
pub(super) fn live_sequences() -> Value {
    let number = || json!({"type": "integer"});
    let known = || json!({"type": ["integer", "null"]});
    let sequence = object(
        &["sequence_id", "version", "steps", "idle_seconds", "place"],
        json!({
            "sequence_id": number(),
            "version": known(),
            "steps": number(),
            "idle_seconds": known(),
            "place": {"type": "string", "enum": ["here", "store"]},
        }),
    );
    object(
        &["total", "sequences"],
        json!({"total": number(), "sequences": {"type": "array", "items": sequence}}),
    )
}

/// Returns the schemas that do not depend on what is served.
pub(super) fn common() -> [(&'static str, Value); 11] {
    let text = json!({"type": "string"});
    let mut failure = object(&["since", "reason"], json!({"since": text, "reason": text}));
    failure["description"] = "only there if the configuration is not served as it stands".into();
    [
        ("Error", object(&["error"], json!({"error": text}))),
        (
            "ServerMetadata",
            object(
                &["name", "version", "extensions"],
                json!({
                    "name": text,
                    "version": text,
                    "extensions": {"type": "array", "items": text},
                    "reload_failure": failure,
                }),
            ),
        ),
        (
            "IndexFilter",
            object(
                &[],
                json!({"ready": {"type": "boolean", "description": "only what is ready"}}),
            ),
        ),
        (
            "VersionState",
            object(
                &["name"],
                json!({"name": text, "version": text, "state": text, "reason": text}),
            ),
        ),
        (
            "TensorMetadata",
            object(
                &["name", "datatype", "shape"],
                json!({
                    "name": text,
                    "datatype": text,
                    "shape": {"type": "array", "items": {"type": "integer"}, "description": "-1 where a length may vary"},
                }),
            ),
        ),
        (
            "ModelMetadata",
            object(
                &["name", "inputs", "outputs"],
                json!({
                    "name": text,
                    "versions": {"type": "array", "items": text},
                    "platform": text,
                    "inputs": {"type": "array", "items": reference("TensorMetadata")},
                    "outputs": {"type": "array", "items": reference("TensorMetadata")},
                    "rt_info": any_object(),
                }),
            ),
        ),
        ("SequenceId", number_of_sequence(SEQUENCE_ID, DataType::U64)),
        (
            "SequenceControl",
            number_of_sequence(CONTROL_INPUT, DataType::U32),
        ),
        (
            "Base64",
            object(
                &["b64"],
                json!({"b64": {"type": "string", "description": "bytes, such as those of an image file, in Base64"}}),
            ),
        ),
        (
            "PredictRequest",
            json!({
                "type": "object",
                "description": "Either `instances` (row format) or `inputs` (column format).",
                "properties": {
                    "signature_name": text,
                    "instances": {"type": "array", "items": {}},
                    "inputs": {},
                },
            }),
        ),
        (
            "PredictResponse",
            json!({
                "type": "object",
                "description": "`predictions` for `instances`, `outputs` for `inputs`.",
                "properties": {"predictions": {"type": "array", "items": {}}, "outputs": {}},
            }),
        ),
    ]
}

/// Returns the schema of a tensor that says which sequence a request is of, or where it stands there.
fn number_of_sequence(name: &str, dtype: DataType) -> Value {
    object(
        &NEEDED,
        json!({
            "name": {"type": "string", "const": name},
            "shape": {"type": "array", "items": {"type": "integer"}},
            "datatype": {"type": "string", "const": dtype.kserve()},
            "data": {"type": "array", "items": {"type": "integer"}},
        }),
    )
}

/// Adds the schemas of the inference of a servable, whose names begin with a key.
pub(super) fn of_inference(key: &str, facts: &ServableFacts, schemas: &mut Map<String, Value>) {
    let info = facts.info();
    let mut tensors = |side: &str, infos: &[TensorInfo], of_sequences: &[&str]| {
        let references = infos.iter().enumerate().map(|(place, info)| {
            let name = format!("{key}.{side}{place}");
            schemas.insert(name.clone(), tensor(info, facts.is_split()));
            reference(&name)
        });
        let of_sequences = of_sequences.iter().filter(|_| facts.is_stateful());
        let more = of_sequences.map(|name| reference(name));
        one_of(&references.chain(more).collect::<Vec<_>>())
    };
    let inputs = tensors("Input", &info.inputs, &["SequenceId", "SequenceControl"]);
    let outputs = tensors("Output", &info.outputs, &["SequenceId"]);
    let names = info.outputs.iter().map(|output| output.name.as_str());
    let wanted = name_of(&names.collect::<Vec<_>>());
    let mut parameters = any_object();
    if facts.is_stateful() {
        parameters["description"] = json!(
            "`sequence_id` (a number, or a text), `sequence_start`, and `sequence_end` say which sequence a request is of, \
             unless inputs do."
        );
    }
    let request = object(
        &["inputs"],
        json!({
            "id": {"type": "string"},
            "parameters": parameters,
            "inputs": {"type": "array", "items": inputs},
            "outputs": {
                "type": "array",
                "description": "the outputs that are wanted; all without it",
                "items": object(&["name"], json!({"name": wanted, "parameters": any_object()})),
            },
        }),
    );
    let response = object(
        &["model_name", "outputs"],
        json!({
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "parameters": any_object(),
            "outputs": {"type": "array", "items": outputs},
        }),
    );
    schemas.insert(format!("{key}.InferRequest"), request);
    schemas.insert(format!("{key}.InferResponse"), response);
}

/// Returns the schema of any of several; if there are none, that of an object of which no more is said.
fn one_of(schemas: &[Value]) -> Value {
    match schemas {
        [] => any_object(),
        [only] => only.clone(),
        several => json!({"anyOf": several}),
    }
}

/// Returns the schema of one of some names; if there are none, that of any.
fn name_of(names: &[&str]) -> Value {
    match names {
        [] => json!({"type": "string"}),
        names => json!({"type": "string", "enum": names}),
    }
}

/// Adds the schemas of the generate extension, in which inputs and outputs are members; returns false if one of them
/// has no form there.
pub(super) fn of_generation(
    key: &str,
    facts: &ServableFacts,
    schemas: &mut Map<String, Value>,
) -> bool {
    let info = facts.info();
    let has_none =
        |info: &TensorInfo| matches!(info.decided(), Some(DataType::F16 | DataType::Bf16));
    if info.inputs.iter().chain(&info.outputs).any(has_none) {
        return false;
    }
    let members = |infos: &[TensorInfo], takes_bytes: bool| {
        let members = infos.iter().map(|info| {
            let is_bytes = takes_bytes && takes_bytes_too(info);
            (info.name.clone(), member(info, is_bytes))
        });
        members.collect::<Map<String, Value>>()
    };
    let names = info.inputs.iter().map(|input| input.name.as_str());
    let names: Vec<&str> = names.collect();
    let mut request = members(&info.inputs, true);
    let about = "what is no input is a parameter, here or within `parameters`";
    request.entry("id").or_insert(json!({"type": "string"}));
    let mut request = object(&names, Value::Object(request));
    request["description"] = json!(about);
    request["additionalProperties"] = json!(true);
    let mut response = members(&info.outputs, false);
    for name in ["model_name", "model_version", "id"] {
        response.entry(name).or_insert(json!({"type": "string"}));
    }
    let mut response = object(&["model_name"], Value::Object(response));
    response["additionalProperties"] = json!(true);
    schemas.insert(format!("{key}.GenerateRequest"), request);
    schemas.insert(format!("{key}.GenerateResponse"), response);
    true
}

/// Returns whether an input takes strings of bytes: texts, rows of bytes, or encoded images.
fn takes_bytes_too(info: &TensorInfo) -> bool {
    let rank = info.shape.0.len();
    info.dtype == DataType::String || rank >= 4 || (rank == 2 && info.dtype == DataType::U8)
}

/// Returns the schema of a tensor as a member: an element alone, lists, or bytes.
fn member(info: &TensorInfo, takes_bytes: bool) -> Value {
    // Of what is open nothing is known, and of bytes that are answered as strings no more than that.
    if info.decided().is_none() || is_text(info) {
        return json!({});
    }
    let mut schema = element(info.decided());
    if let Some(forms) = schema["anyOf"].as_array_mut().filter(|_| takes_bytes) {
        forms.push(reference("Base64"));
        if info.dtype == DataType::U8 {
            forms.push(json!({"type": "string"}));
        }
    }
    schema
}

/// Returns whether a tensor has bytes that are answered as strings, by its name.
fn is_text(info: &TensorInfo) -> bool {
    info.dtype == DataType::U8 && info.name.ends_with("_string")
}

/// Returns the schema of a tensor. Of a pipeline that splits its requests, only the names are known beforehand.
fn tensor(info: &TensorInfo, is_split: bool) -> Value {
    let decided = info.decided().filter(|_| !is_text(info));
    let datatype = match decided {
        Some(dtype) => json!({"type": "string", "const": dtype.kserve()}),
        None => json!({"type": "string", "enum": DataType::ALL.map(DataType::kserve)}),
    };
    let mut shape = json!({"type": "array", "items": {"type": "integer", "minimum": 0}});
    if !info.is_open && !is_split {
        let lengths: Vec<String> = info.shape.0.iter().map(length).collect();
        shape["minItems"] = json!(lengths.len());
        shape["maxItems"] = json!(lengths.len());
        shape["description"] = json!(format!("({})", lengths.join(",")));
    }
    object(
        &NEEDED,
        json!({
            "name": {"type": "string", "const": info.name},
            "shape": shape,
            "datatype": datatype,
            "data": {
                "type": "array",
                "description": "the elements in row-major order, or nested as the shape is; left out where `parameters` name a region of shared memory",
                "items": element(decided),
            },
            "parameters": any_object(),
        }),
    )
}

/// Returns the schema of an element, which may be a list of elements.
fn element(dtype: Option<DataType>) -> Value {
    let kind = match dtype {
        None => return json!({}),
        Some(DataType::Bool) => "boolean",
        Some(DataType::String) => "string",
        Some(DataType::F16 | DataType::Bf16 | DataType::F32 | DataType::F64) => "number",
        Some(_) => "integer",
    };
    json!({"anyOf": [{"type": kind}, {"type": "array", "items": {}}]})
}

/// Returns a length of a shape, in words.
fn length(dim: &Dim) -> String {
    match dim {
        Dim::Fixed(length) => length.to_string(),
        Dim::Range(low, high) => format!("{low}..{high}"),
        Dim::Any => "any".to_owned(),
    }
}

/// Returns the schema of an object.
fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{any_object, member, name_of, one_of};
    use crate::{
        servable::TensorInfo,
        tensor::{DataType, Dim, Layout, PartialShape},
    };

    #[test]
    fn no_tensors_are_no_empty_choice() {
        let (one, other) = (json!({"type": "string"}), json!({"type": "integer"}));
        assert_eq!(one_of(&[]), any_object());
        assert_eq!(one_of(std::slice::from_ref(&one)), one);
        assert_eq!(
            one_of(&[one.clone(), other.clone()]),
            json!({"anyOf": [one, other]})
        );
        assert_eq!(name_of(&[]), json!({"type": "string"}));
        assert_eq!(name_of(&["a"]), json!({"type": "string", "enum": ["a"]}));
    }

    #[test]
    fn bytes_are_texts_too_and_other_numbers_of_images_are_not() {
        let forms = |dtype, rank, takes_bytes| {
            let info = TensorInfo {
                name: "x".to_owned(),
                dtype,
                is_open: false,
                shape: PartialShape(vec![Dim::Any; rank]),
                layout: Layout::unspecified(rank),
                port: 0,
            };
            member(&info, takes_bytes)["anyOf"].clone()
        };
        let (list, text) = (
            json!({"type": "array", "items": {}}),
            json!({"type": "string"}),
        );
        let base64 = json!({"$ref": "#/components/schemas/Base64"});
        let number = json!({"type": "integer"});
        let bytes = forms(DataType::U8, 2, true);
        assert_eq!(bytes, json!([number, list, base64, text]));
        assert_eq!(forms(DataType::U8, 2, false), json!([number, list]));
        let image = forms(DataType::F32, 4, true);
        assert_eq!(image, json!([{"type": "number"}, list, base64]));
        assert_eq!(
            forms(DataType::String, 1, true),
            json!([text, list, base64])
        );
    }
}
