//! KServe v2 over REST, with the binary tensor extension both ways.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json, value::RawValue};

use super::{
    call::{Call, RawReply},
    error::{AnswerError, BoxError, ClientError, RequestError, ServerErrorCode},
    events,
    http::{EncodedPost, Http, HttpBody, from_json, segments},
    json,
    kserve_grpc::{batching, metadata, server, states},
    message::{
        ClientResponse, ModelBatching, ModelId, ModelMetadata, ModelStatus, Opaque, Request,
        ServerMetadata, TensorForm, dtype, lengths,
    },
    protocol::Protocol,
    server_counters::ServerCounters,
    stream::{RequestSender, ResponseReceiver},
    tfs,
};
use crate::{
    client,
    tensor::{
        DataType, Tensor, TensorMap,
        values::{Value, values, write_json},
    },
};

/// Path of the list of models.
pub(super) const INDEX: [&str; 3] = ["v2", "repository", "index"];

/// Pool of connections to one server.
#[derive(Debug)]
pub(super) struct KserveRest(pub(super) Http);

#[async_trait]
impl Protocol for KserveRest {
    /// Servers that are not ready answer with a status from 500 on.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        match self.0.get(&["v2", "health", "ready"]).await {
            Ok(body) => self.0.no_page(&body).map(|()| true),
            Err(ClientError::Refused(refusal)) if matches!(refusal.code, ServerErrorCode::Http(status) if status.is_server_error()) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        let name = "inference.ServerMetadataResponse";
        let message = self.0.message(name, &["v2"]).await?;
        Ok(Some(server(message, self.is_ready().await?)))
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let name = "inference.ModelMetadataResponse";
        let message = self.0.message(name, &segments(model, None)).await?;
        let metadata = metadata(message);
        // JSON of another service has none of the keys.
        if metadata.name.is_empty() && metadata.inputs.is_empty() && metadata.outputs.is_empty() {
            return Err(self.0.unreadable(AnswerError::NoModel));
        }
        Ok(metadata)
    }

    async fn model_batching(&self, model: &ModelId) -> Result<Option<ModelBatching>, ClientError> {
        let name = "inference.ModelConfig";
        let segments = segments(model, Some("config"));
        Ok(batching(self.0.message(name, &segments).await?))
    }

    /// Asks for the list of models, an extension of the protocol that not every server has.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        let list = match self.0.post(&INDEX).await {
            // Servers without the extension may have the list of TensorFlow Serving's relatives.
            Err(ClientError::Refused(_)) => return tfs::config(&self.0).await,
            list => list?,
        };
        let name = "inference.RepositoryIndexResponse.ModelIndex";
        let entries: Vec<&RawValue> = self.0.decode(&list)?;
        let entries = entries.into_iter();
        let entries = entries.map(|entry| from_json(name, entry.get().as_bytes()));
        let entries = entries.collect::<Result<_, _>>();
        Ok(states(entries.map_err(|source| self.0.unreadable(source))?))
    }

    async fn model_ready(&self, model: &ModelId) -> Result<bool, ClientError> {
        let answer = self.0.get(&segments(model, Some("ready"))).await;
        answer.map(|_| true)
    }

    async fn statistics(&self, model: &ModelId) -> Result<Option<ServerCounters>, ClientError> {
        statistics(&self.0, model).await.map(Some)
    }

    fn http(&self) -> Option<&Http> {
        Some(&self.0)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedPost {
            http: &self.0,
            url: self.0.url(&segments(&request.model, Some("infer"))),
            body: http_body(request)?,
        }))
    }

    fn decode(&self, reply: RawReply, _: &Request) -> Result<ClientResponse, AnswerError> {
        answer(&reply)
    }

    fn stream(&self) -> Option<(RequestSender, ResponseReceiver<'_>)> {
        Some(events::open(&self.0))
    }
}

/// Asks for the counters of a model, an extension that not every server has.
pub(super) async fn statistics(
    http: &Http,
    model: &ModelId,
) -> Result<ServerCounters, ClientError> {
    let name = "inference.ModelStatisticsResponse";
    let message = http.message(name, &segments(model, Some("stats"))).await?;
    Ok(ServerCounters::of(&message))
}

/// Header that says where JSON ends in a body that has bytes behind it.
const JSON_LENGTH: &str = "Inference-Header-Content-Length";

/// Encodes a request.
pub(in crate::client) fn http_body(request: &client::Request) -> Result<HttpBody, RequestError> {
    let is_binary = request.form == TensorForm::Bytes;
    let head = head(request);
    let comma = if head.is_empty() { "" } else { "," };
    let mut body = to_vec(&Json::Object(head));
    // The inputs go in by hand, so that elements never become a tree of JSON values.
    body.pop();
    body.extend_from_slice(comma.as_bytes());
    body.extend_from_slice(br#""inputs":["#);
    for (index, (name, tensor)) in request.inputs.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        let mut input = json!({
            "name": name,
            "shape": tensor.shape(),
            "datatype": tensor.dtype().kserve(),
        });
        if is_binary {
            input["parameters"] = json!({ "binary_data_size": tensor.data().len() });
            body.extend(to_vec(&input));
            continue;
        }
        check_has_json_form(name, tensor)?;
        body.extend(to_vec(&input));
        body.pop();
        body.extend_from_slice(br#","data":"#);
        write_json(tensor, &mut body);
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    if !is_binary {
        return Ok(HttpBody::json(body));
    }
    let headers = vec![
        (JSON_LENGTH, body.len().to_string()),
        ("Content-Type", "application/octet-stream".to_owned()),
    ];
    for (_, tensor) in request.inputs.iter() {
        body.extend_from_slice(tensor.data());
    }
    let bytes = body.into();
    Ok(HttpBody { headers, bytes })
}

/// Decodes an answer.
pub(super) fn answer(reply: &RawReply) -> Result<ClientResponse, AnswerError> {
    let (head, mut tail) = split(reply)?;
    let text = std::str::from_utf8(&head).map_err(AnswerError::decode)?;
    let text = json::quote_not_finite(text);
    let head: Head<'_> = serde_json::from_str(&text).map_err(AnswerError::decode)?;
    let mut outputs = TensorMap::default();
    let mut opaque = Vec::new();
    for output in head.outputs {
        let size = output.parameters.and_then(|given| given.binary_data_size);
        // Without a type that is known, elements have no form but bytes.
        if let (None, Some(size)) = (DataType::from_kserve(&output.datatype), size)
            && size <= tail.len()
        {
            opaque.push(Opaque {
                name: output.name,
                datatype: output.datatype,
                shape: output.shape,
                data: tail.split_to(size),
            });
            continue;
        }
        let shape = lengths(&output.name, &output.shape)?;
        let dtype = dtype(&output.name, &output.datatype)?;
        let tensor = match (size, output.data) {
            (Some(size), _) if size <= tail.len() => {
                Tensor::new(dtype, shape, tail.split_to(size)).map_err(BoxError::from)
            }
            (Some(_), _) | (None, None) => return Err(AnswerError::Missing(output.name)),
            (None, Some(data)) => json::tensor(data.get(), dtype, shape, &[]),
        };
        let tensor = tensor.map_err(|source| AnswerError::output(&output.name, source))?;
        outputs.push((output.name, tensor));
    }
    Ok(ClientResponse {
        model_name: head.model_name,
        model_version: head.model_version,
        id: head.id,
        outputs,
        opaque,
    })
}

/// Everything of a request but its inputs.
fn head(request: &client::Request) -> Map<String, Json> {
    let mut head = Map::new();
    if !request.id.is_empty() {
        head.insert("id".to_owned(), request.id.clone().into());
    }
    let mut parameters: Map<String, Json> = request
        .parameters
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    if request.form == TensorForm::Bytes {
        parameters.insert("binary_data_output".to_owned(), true.into());
    }
    if !parameters.is_empty() {
        head.insert("parameters".to_owned(), parameters.into());
    }
    if !request.outputs.is_empty() {
        let binary = request.form == TensorForm::Bytes;
        let outputs = request.outputs.iter();
        let outputs = outputs
            .map(|name| json!({ "name": name, "parameters": { "binary_data": binary } }))
            .collect();
        head.insert("outputs".to_owned(), Json::Array(outputs));
    }
    head
}

fn to_vec(value: &Json) -> Vec<u8> {
    serde_json::to_vec(value).expect("a tree of JSON values has text keys")
}

fn check_has_json_form(name: &str, tensor: &Tensor) -> Result<(), RequestError> {
    let name = || name.to_owned();
    let is_text = |value| !matches!(value, Value::Bytes(it) if std::str::from_utf8(it).is_err());
    match tensor.dtype() {
        dtype @ (DataType::F16 | DataType::Bf16) => Err(RequestError::RawOnly {
            name: name(),
            dtype,
        }),
        DataType::String if !values(tensor).all(is_text) => Err(RequestError::NotText(name())),
        _ => Ok(()),
    }
}

/// Splits an answer into JSON and the bytes behind it.
fn split(reply: &RawReply) -> Result<(Bytes, Bytes), AnswerError> {
    let Some(length) = reply.headers.get(JSON_LENGTH) else {
        return Ok((reply.bytes.clone(), Bytes::new()));
    };
    let length = String::from_utf8_lossy(length.as_bytes());
    let end = length.parse().ok();
    let end = end
        .filter(|end| *end <= reply.bytes.len())
        .ok_or_else(|| AnswerError::HeaderLength(length.into_owned()))?;
    let mut head = reply.bytes.clone();
    let tail = head.split_off(end);
    Ok((head, tail))
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(default)]
    model_name: String,
    #[serde(default)]
    model_version: String,
    #[serde(default)]
    id: String,
    #[serde(borrow)]
    outputs: Vec<Output<'a>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    parameters: Option<OutputParameters>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputParameters {
    binary_data_size: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::{JSON_LENGTH, RawReply, answer, http_body};
    use crate::{
        client::message::{ModelId, Request, TensorForm},
        error::chain,
        request::Parameter,
        tensor::{DataType, Tensor, TensorMap},
    };

    fn example(form: TensorForm) -> Request {
        let floats = Tensor::new(
            DataType::F32,
            vec![1, 2],
            vec![0, 0, 128, 63, 0, 0, 0, 64].into(),
        );
        let text = Tensor::new(
            DataType::String,
            vec![1],
            vec![2, 0, 0, 0, b'h', b'i'].into(),
        );
        Request {
            model: ModelId {
                name: "m".to_owned(),
                version: None,
            },
            id: "7".to_owned(),
            parameters: vec![("deep".to_owned(), Parameter::Bool(true))],
            inputs: TensorMap::from_iter([
                ("x".to_owned(), floats.unwrap()),
                ("t".to_owned(), text.unwrap()),
            ]),
            outputs: vec!["y".to_owned()],
            model_outputs: Vec::new(),
            form,
        }
    }

    fn reply(json: &str, tail: &[u8]) -> RawReply {
        let length = (!tail.is_empty()).then_some(json.len());
        with_length(length, [json.as_bytes(), tail].concat())
    }

    fn with_length(length: Option<usize>, bytes: Vec<u8>) -> RawReply {
        let header = |length: usize| (JSON_LENGTH.parse().unwrap(), length.into());
        RawReply {
            headers: length.map(header).into_iter().collect(),
            bytes: bytes.into(),
        }
    }

    #[test]
    fn json_requests_have_their_elements_inside() {
        let body = http_body(&example(TensorForm::Values)).unwrap();
        let json = ("Content-Type", "application/json".to_owned());
        assert_eq!(body.headers, [json]);
        insta::assert_snapshot!(
            String::from_utf8(body.bytes.to_vec()).unwrap(),
            @r#"{"id":"7","outputs":[{"name":"y","parameters":{"binary_data":false}}],"parameters":{"deep":true},"inputs":[{"datatype":"FP32","name":"x","shape":[1,2],"data":[1.0,2.0]},{"datatype":"BYTES","name":"t","shape":[1],"data":["hi"]}]}"#
        );
    }

    #[test]
    fn binary_requests_have_their_elements_behind() {
        let body = http_body(&example(TensorForm::Bytes)).unwrap();
        let (json, tail) = body.bytes.split_at(body.headers[0].1.parse().unwrap());
        insta::assert_snapshot!(
            String::from_utf8_lossy(json),
            @r#"{"id":"7","outputs":[{"name":"y","parameters":{"binary_data":true}}],"parameters":{"binary_data_output":true,"deep":true},"inputs":[{"datatype":"FP32","name":"x","parameters":{"binary_data_size":8},"shape":[1,2]},{"datatype":"BYTES","name":"t","parameters":{"binary_data_size":6},"shape":[1]}]}"#
        );
        assert_eq!(tail, [0, 0, 128, 63, 0, 0, 0, 64, 2, 0, 0, 0, b'h', b'i']);
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        for (dtype, data, expected) in [
            (
                DataType::F16,
                vec![0, 0],
                "FP16 of input `x` has only a raw form",
            ),
            (
                DataType::String,
                vec![1, 0, 0, 0, 255],
                "input `x` has bytes that are not UTF-8, for which JSON has no form",
            ),
        ] {
            let tensor = Tensor::new(dtype, vec![1], data.into()).unwrap();
            let mut example = example(TensorForm::Values);
            example.inputs = TensorMap::from_iter([("x".to_owned(), tensor)]);
            assert_eq!(http_body(&example).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn answers_mix_json_and_binary_outputs() {
        let json = r#"{"model_name":"m","model_version":"1","outputs":[
            {"name":"a","shape":[1],"datatype":"INT16","parameters":{"binary_data_size":2}},
            {"name":"b","shape":[2,1],"datatype":"FP32","data":[NaN,-1]},
            {"name":"own","shape":[-1],"datatype":"7w","parameters":{"binary_data_size":3}},
            {"name":"c","shape":[1],"datatype":"UINT8","parameters":{"binary_data_size":1}}]}"#;
        let answer = answer(&reply(json, &[5, 0, b'x', b'y', b'z', 9])).unwrap();
        let own = &answer.opaque[0];
        assert_eq!((own.datatype.as_str(), &own.data[..]), ("7w", &b"xyz"[..]));
        assert_eq!(answer.model_version, "1");
        assert_eq!(
            &crate::tensor::named(&answer.outputs, "a").unwrap().data()[..],
            [5, 0]
        );
        assert_eq!(
            crate::tensor::named(&answer.outputs, "b").unwrap().shape(),
            [2, 1]
        );
        assert_eq!(
            &crate::tensor::named(&answer.outputs, "c").unwrap().data()[..],
            [9]
        );
    }

    #[test]
    fn an_answer_that_breaks_the_protocol_is_refused() {
        let output = |rest: &str| {
            format!(r#"{{"outputs":[{{"name":"y","shape":[2],"datatype":"FP32"{rest}}}]}}"#)
        };
        for (reply, expected) in [
            (reply(&output(""), &[]), "found no elements of output `y`"),
            (
                reply(&output(r#","parameters":{"binary_data_size":8}"#), &[0; 7]),
                "found no elements of output `y`",
            ),
            (
                reply(&output(r#","data":[1]"#), &[]),
                "cannot read output `y`: found 1 elements for shape (2)",
            ),
            (
                reply("{}", &[]),
                "found a body that cannot be decoded: missing field `outputs` at line 1 column 2",
            ),
            (
                with_length(Some(3), b"{}".to_vec()),
                "found `3` as the length of the JSON part",
            ),
        ] {
            assert_eq!(chain(&answer(&reply).unwrap_err()), expected);
        }
    }
}
