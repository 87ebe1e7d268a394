//! TensorFlow Serving over REST, in the column format.
//!
//! Answers do not have datatypes, and one output not even its name: both come from the model's metadata.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    call::{Call, RawReply},
    error::{AnswerError, ClientError, RequestError},
    http::{EncodedPost, Http, HttpBody, from_json},
    json, kserve_rest,
    message::{
        ClientResponse, ModelId, ModelMetadata, ModelStatus, Request, TensorMetadata, dtype,
    },
    protocol::Protocol,
    sequence,
    server_counters::ServerCounters,
    tfs,
};
use crate::{
    client,
    tensor::{DataType, Tensor, nested::write_nested, values::values},
};

/// Ends the path of an inference; it is no segment of its own: `…/models/m:predict`.
pub(super) const PREDICT: &str = ":predict";

/// Pool of connections to one server.
#[derive(Debug)]
pub(super) struct TfsRest(pub(super) Http);

#[async_trait]
impl Protocol for TfsRest {
    /// The protocol has no such question; a list of models shows that it is spoken.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        self.models().await.map(|_| true)
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let json = self.0.get(&segments(model, &["metadata"])).await?;
        metadata(model, &json).map_err(|source| self.0.unreadable(source))
    }

    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        tfs::config(&self.0).await
    }

    async fn model_status(&self, model: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        let message = self.0.message(tfs::STATUS, &segments(model, &[])).await?;
        Ok(Some(tfs::status(model.name.clone(), message)))
    }

    /// The protocol has none; a server that speaks KServe as well has them there.
    async fn statistics(&self, model: &ModelId) -> Result<Option<ServerCounters>, ClientError> {
        kserve_rest::statistics(&self.0, model).await.map(Some)
    }

    fn http(&self) -> Option<&Http> {
        Some(&self.0)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        let mut url = self.0.url(&segments(&request.model, &[]));
        url.set_path(&format!("{}{PREDICT}", url.path()));
        Ok(Box::new(EncodedPost {
            http: &self.0,
            url,
            body: http_body(request)?,
        }))
    }

    fn decode(&self, reply: RawReply, request: &Request) -> Result<ClientResponse, AnswerError> {
        answer(&reply.bytes, request)
    }
}

/// Returns the path of a model, and of what is request about it.
pub(super) fn segments<'a>(model: &'a ModelId, rest: &[&'a str]) -> Vec<&'a str> {
    let mut segments = vec!["v1", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(rest);
    segments
}

/// Reads the inputs and outputs of a model.
fn metadata(model: &ModelId, json: &[u8]) -> Result<ModelMetadata, AnswerError> {
    /// The alias is TensorFlow Serving's own writing, which has no `@type` among the signatures.
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, rename = "modelSpec", alias = "model_spec")]
        spec: Option<&'a RawValue>,
        #[serde(borrow)]
        metadata: Signatures<'a>,
    }
    #[derive(Deserialize)]
    struct Signatures<'a> {
        #[serde(borrow)]
        signature_def: &'a RawValue,
    }
    let read: Metadata<'_> = serde_json::from_slice(json).map_err(AnswerError::decode)?;
    let message =
        |text: &RawValue| from_json("tensorflow.serving.ModelSpec", text.get().as_bytes());
    let signatures = read.metadata.signature_def.get();
    let signatures = from_json("tensorflow.serving.SignatureDefMap", signatures.as_bytes())?;
    tfs::metadata(model, read.spec.map(message).transpose()?, signatures)
}

/// The key of an object that is bytes, and no outputs by name.
const B64: &str = "b64";

/// Ends the names of outputs whose texts are written as strings, whatever their datatype.
const TEXTS: &str = "_string";

/// Encodes a request.
pub(in crate::client) fn http_body(request: &client::Request) -> Result<HttpBody, RequestError> {
    let mut body = br#"{"inputs":{"#.to_vec();
    for (index, (name, tensor)) in request.inputs.iter().enumerate() {
        if tensor.is_empty() {
            return Err(RequestError::Empty(name.to_owned()));
        }
        if index > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, name).expect("a string has a JSON form");
        body.push(b':');
        write_nested(&mut values(tensor), tensor.shape(), true, &mut body);
    }
    body.extend_from_slice(b"}}");
    Ok(HttpBody::json(body))
}

/// Decodes an answer.
pub(super) fn answer(bytes: &[u8], request: &Request) -> Result<ClientResponse, AnswerError> {
    #[derive(Deserialize)]
    struct Outputs<'a> {
        #[serde(borrow)]
        outputs: &'a RawValue,
    }
    let text = std::str::from_utf8(bytes).map_err(AnswerError::decode)?;
    let text = json::quote_not_finite(text);
    let body: Outputs<'_> = serde_json::from_str(&text).map_err(AnswerError::decode)?;
    let known = &request.model_outputs;
    let mut outputs = Vec::with_capacity(known.len());
    match by_name(body.outputs.get()) {
        Some(several) => {
            for (name, value) in several {
                let tensor = match known.iter().find(|output| output.name == name) {
                    Some(output) => tensor(value.get(), output)?,
                    // No output of the model's: stateful models add it to every answer.
                    None if name == sequence::ID => tensor(value.get(), &id_of_a_sequence())?,
                    None => return Err(AnswerError::Unknown(name)),
                };
                outputs.push((name, tensor));
            }
        }
        None => match known.as_slice() {
            [only] => outputs.push((only.name.clone(), tensor(body.outputs.get(), only)?)),
            _ => return Err(AnswerError::Nameless),
        },
    }
    Ok(tfs::answer(request, None, outputs))
}

fn id_of_a_sequence() -> TensorMetadata {
    TensorMetadata::new(
        sequence::ID.to_owned(),
        DataType::U64.kserve().to_owned(),
        &[1],
    )
}

/// Takes an object of outputs apart; `None` if it is one output without a name.
fn by_name(text: &str) -> Option<BTreeMap<String, &RawValue>> {
    if !text.starts_with('{') {
        return None;
    }
    let outputs: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let is_bytes = outputs.len() == 1 && outputs.contains_key(B64);
    (!is_bytes).then_some(outputs)
}

/// Datatype in the metadata of an output whose datatype is unknown.
const UNKNOWN: &str = "DT_INVALID";

/// Datatypes of outputs of which nothing but their elements shows one, as those of Python nodes; each takes what those
/// before it do not.
const OPEN: [DataType; 4] = [
    DataType::I64,
    DataType::F64,
    DataType::Bool,
    DataType::String,
];

fn tensor(text: &str, output: &TensorMetadata) -> Result<Tensor, AnswerError> {
    let name = &output.name;
    let known = dtype(name, &output.datatype);
    let dtype = match known {
        Ok(dtype) => dtype,
        Err(unknown) if output.datatype != UNKNOWN => return Err(unknown),
        Err(unknown) => {
            let mut open = OPEN.into_iter();
            open.find(|dtype| json::elements(text, *dtype).is_ok())
                .ok_or(unknown)?
        }
    };
    let mut found = json::elements(text, dtype).map(|found| (dtype, found));
    if found.is_err() && dtype == DataType::U8 && name.ends_with(TEXTS) {
        let strings = json::elements(text, DataType::String);
        found = strings.map(|found| (DataType::String, found));
    }
    let (dtype, found) = found.map_err(|error| AnswerError::output(name, error))?;
    let tensor = Tensor::new(dtype, found.shape, found.data);
    tensor.map_err(|error| AnswerError::output(name, error))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{answer, http_body, metadata};
    use crate::{
        client::{
            http::from_json,
            message::{ModelId, Request, TensorForm, TensorMetadata},
            tfs::status,
        },
        error::chain,
        tensor::{DataType, Tensor, TensorMap, values::write_json},
    };

    /// The two servers write the same with other words.
    #[test]
    fn metadata_is_read_in_both_writings() {
        let ours = r#"{"modelSpec":{"name":"m","signatureName":"","version":"1"},"metadata":{"signature_def":{"@type":"type.googleapis.com/tensorflow.serving.SignatureDefMap","signatureDef":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"b"}},"outputs":{},"methodName":"","defaults":{}}}}}}"#;
        let others = r#"{"model_spec":{"name":"m","signature_name":"","version":"1"},"metadata":{"signature_def":{"signature_def":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknown_rank":false},"name":"b:0"}},"outputs":{},"method_name":""}}}}}"#;
        for text in [ours, others] {
            let read = metadata(&ModelId::default(), text.as_bytes()).unwrap();
            assert_eq!(read.versions, ["1"]);
            let [input] = &read.inputs[..] else {
                panic!("{read:?}")
            };
            assert_eq!(
                format!("{} {} {}", input.name, input.datatype, input.shape),
                "b FP32 (-1,10)"
            );
            assert!(read.outputs.is_empty());
        }
    }

    #[test]
    fn states_come_with_what_went_wrong() {
        let text = r#"{"model_version_status":[
            {"version":"1","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"no file"}},
            {"version":"2","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}"#;
        let read = from_json(super::tfs::STATUS, text.as_bytes()).unwrap();
        let status = status("m".to_owned(), read);
        let reported: Vec<_> = status
            .versions
            .iter()
            .map(|it| (&*it.version, &*it.state, it.code.as_deref(), &*it.message))
            .collect();
        assert_eq!(
            reported,
            [
                ("1", "LOADING", Some("UNKNOWN"), "no file"),
                ("2", "AVAILABLE", Some("OK"), ""),
            ]
        );
    }

    fn example(inputs: Vec<(&str, Tensor)>, outputs: &[(&str, &str)]) -> Request {
        Request {
            model: ModelId {
                name: "m".to_owned(),
                version: None,
            },
            id: String::new(),
            parameters: Vec::new(),
            inputs: TensorMap::from_iter(
                inputs
                    .into_iter()
                    .map(|(name, tensor)| (name.to_owned(), tensor)),
            ),
            outputs: Vec::new(),
            model_outputs: outputs
                .iter()
                .map(|(name, datatype)| {
                    TensorMetadata::new((*name).to_owned(), (*datatype).to_owned(), &[-1])
                })
                .collect(),
            form: TensorForm::Values,
        }
    }

    fn numbers(shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        let data: Vec<_> = (0..count).map(|it| u8::try_from(it).unwrap()).collect();
        Tensor::new(DataType::U8, shape.to_vec(), data.into()).unwrap()
    }

    #[test]
    fn elements_show_the_datatype_where_nothing_else_does() {
        for (text, expected) in [
            ("[[1,-2]]", "y INT64 [1, 2] [1,-2]"),
            ("[1.5,2]", "y FP64 [2] [1.5,2.0]"),
            ("[true]", "y BOOL [1] [true]"),
            (r#"["a"]"#, r#"y BYTES [1] ["a"]"#),
        ] {
            let answer = format!(r#"{{"outputs":{{"y":{text},"z":[1]}}}}"#);
            let shown = read(&answer, &[("y", "DT_INVALID"), ("z", "FP32")]).unwrap();
            assert!(shown.contains(expected), "{shown}");
        }
        let error = read(
            r#"{"outputs":{"y":[1,"a"],"z":[1]}}"#,
            &[("y", "DT_INVALID"), ("z", "FP32")],
        );
        assert!(error.unwrap_err().contains("the datatype `DT_INVALID`"));
    }

    /// Reads an answer with these outputs; returns them as text.
    fn read(text: &str, outputs: &[(&str, &str)]) -> Result<String, String> {
        let request = example(Vec::new(), outputs);
        let answer = answer(text.as_bytes(), &request).map_err(|error| chain(&error))?;
        let outputs = answer.outputs.iter().map(|(name, tensor)| {
            let mut json = Vec::new();
            write_json(tensor, &mut json);
            let json = String::from_utf8(json).unwrap();
            format!("{name} {} {:?} {json}", tensor.dtype(), tensor.shape())
        });
        Ok(outputs.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn requests_have_a_list_for_each_dimension() {
        let strings = Bytes::from_static(&[2, 0, 0, 0, b'h', b'i', 1, 0, 0, 0, 255]);
        let body = http_body(&example(
            vec![
                ("scalar", numbers(&[])),
                ("list", numbers(&[2])),
                ("deep", numbers(&[2, 1, 3])),
                (
                    "text",
                    Tensor::new(DataType::String, vec![2], strings).unwrap(),
                ),
            ],
            &[],
        ));
        insta::assert_snapshot!(
            String::from_utf8(body.unwrap().bytes.to_vec()).unwrap(),
            @r#"{"inputs":{"scalar":0,"list":[0,1],"deep":[[[0,1,2]],[[3,4,5]]],"text":[{"b64":"aGk="},{"b64":"/w=="}]}}"#
        );
    }

    /// Lists without end would be written otherwise.
    #[test]
    fn a_shape_without_elements_is_refused() {
        let empty = Tensor::new(DataType::F32, vec![1 << 20, 0], Bytes::new()).unwrap();
        assert_eq!(
            http_body(&example(vec![("x", empty)], &[]))
                .unwrap_err()
                .to_string(),
            "input `x` has no elements, and lists in JSON cannot tell its shape"
        );
    }

    #[test]
    fn answers_take_names_and_types_from_the_metadata() {
        let one = &[("y", "FP32")][..];
        let two = &[("y", "FP64"), ("x", "INT64")][..];
        for (text, outputs, expected) in [
            (r#"{"outputs":[[1,2.5]]}"#, one, "y FP32 [1, 2] [1.0,2.5]"),
            (r#"{"outputs": 7}"#, one, "y FP32 [] [7.0]"),
            (
                r#"{"outputs":[NaN,-Infinity]}"#,
                one,
                "y FP32 [2] [NaN,-Infinity]",
            ),
            (r#"{"outputs":{"y":[1]}}"#, one, "y FP32 [1] [1.0]"),
            (
                r#"{"outputs":{"x":[9223372036854775807],"y":[[0.5]]}}"#,
                two,
                "y FP64 [1, 1] [0.5]; x INT64 [1] [9223372036854775807]",
            ),
            (
                r#"{"outputs":{"sequence_id":[18446744073709551615],"y":[[0.5]]}}"#,
                one,
                "y FP32 [1, 1] [0.5]; sequence_id UINT64 [1] [18446744073709551615]",
            ),
            (
                r#"{"outputs":[{"b64":"aGk="},"ho"]}"#,
                &[("t", "BYTES")],
                r#"t BYTES [2] ["hi","ho"]"#,
            ),
            (
                r#"{"outputs":{"b64":"aGk="}}"#,
                &[("t", "BYTES")],
                r#"t BYTES [] ["hi"]"#,
            ),
            (
                r#"{"outputs":["hi"]}"#,
                &[("t_string", "UINT8")],
                r#"t_string BYTES [1] ["hi"]"#,
            ),
        ] {
            assert_eq!(read(text, outputs), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_answer_that_breaks_the_protocol_is_refused() {
        let one = &[("y", "FP32")][..];
        for (text, outputs, expected) in [
            (
                r"{}",
                one,
                "found a body that cannot be decoded: missing field `outputs` at line 1 column 2",
            ),
            (
                r#"{"outputs":{"z":[1]}}"#,
                one,
                "found the output `z`, which the model's metadata does not have",
            ),
            (
                r#"{"outputs":[1]}"#,
                &[("a", "FP32"), ("b", "FP32")],
                "found an output without a name",
            ),
            (
                r#"{"outputs":["a"]}"#,
                one,
                "cannot read output `y`: found \"a\", expected a value of FP32 at line 1 column 4",
            ),
            (
                r#"{"outputs":[1]}"#,
                &[("y", "DT_RESOURCE")],
                "found the datatype `DT_RESOURCE` of output `y`",
            ),
        ] {
            assert_eq!(read(text, outputs), Err(expected.to_owned()), "{text}");
        }
    }
}
