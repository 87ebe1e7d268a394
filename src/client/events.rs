//! Streams over REST: Triton's generate extension, with a server-sent event for each response.
//!
//! A request has a stream of its own. Its inputs are members of an object by their names, and so are the outputs of
//! an event, without datatypes and shapes: those are the ones of the model's metadata, or else what the value looks
//! like.

use std::{collections::BTreeMap, pin::Pin};

use bytes::Bytes;
use reqwest::Response;
use serde::Deserialize;
use serde_json::{Value as Json, json, value::RawValue};
use tokio::sync::mpsc;

use super::{
    error::{AnswerError, ClientError, RequestError, ServerError},
    grpc::MAX_MESSAGE,
    http::{self, Http, HttpBody},
    json,
    message::{ClientResponse, ModelId, Request, TensorMetadata},
    stream::{
        Incoming, Outgoing, RequestSender, ResponseReceiver, StreamAnswer, StreamEvent, TIMESTAMP,
    },
};
use crate::{
    request::FINAL,
    tensor::{
        DataType, Dim, PartialShape, Tensor, TensorMap,
        nested::write_nested,
        values::{Value, values},
    },
};

/// End of the path of a request.
pub(super) const VERB: &str = "generate_stream";

/// Types that an output is tried as if nothing says which it has.
const GUESSES: [DataType; 5] = [
    DataType::I64,
    DataType::U64,
    // Before numbers, which take `NaN`.
    DataType::String,
    DataType::F64,
    DataType::Bool,
];

/// Request with its body.
#[derive(Debug)]
pub(super) struct EventRequest {
    model: ModelId,
    body: HttpBody,
    expected: Expected,
}

/// Outputs to look for.
#[derive(Debug, Clone, Default)]
struct Expected {
    /// Outputs of the model, as far as known.
    outputs: Vec<TensorMetadata>,
    /// Names of those that are wanted; empty for all.
    wanted: Vec<String>,
}

impl EventRequest {
    /// Encodes a request.
    pub(super) fn new(request: &Request) -> Result<Self, RequestError> {
        Ok(Self {
            model: request.model.clone(),
            body: body(request)?,
            expected: Expected {
                outputs: request.model_outputs.clone(),
                wanted: request.outputs.clone(),
            },
        })
    }
}

/// Encodes a request.
pub(super) fn body(request: &Request) -> Result<HttpBody, RequestError> {
    let mut members = Vec::new();
    if !request.id.is_empty() {
        members.push(("id", json!(request.id).to_string()));
    }
    if !request.parameters.is_empty() {
        let parameters = request.parameters.iter();
        let parameters = parameters.map(|(name, value)| (name.clone(), json!(value)));
        members.push(("parameters", Json::Object(parameters.collect()).to_string()));
    }
    for (name, tensor) in &request.inputs {
        if matches!(tensor.dtype(), DataType::F16 | DataType::Bf16) {
            let (name, dtype) = (name.to_owned(), tensor.dtype());
            return Err(RequestError::RawOnly { name, dtype });
        }
        members.push((name.as_str(), value(tensor)));
    }
    let members = members
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", json!(name)));
    let members: Vec<String> = members.collect();
    Ok(HttpBody::json(
        format!("{{{}}}", members.join(",")).into_bytes(),
    ))
}

/// Writes a tensor: nested lists, or the element alone if it is one in a vector.
fn value(tensor: &Tensor) -> String {
    let is_text = |value| !matches!(value, Value::Bytes(it) if std::str::from_utf8(it).is_err());
    let is_base64 = !values(tensor).all(is_text);
    let shape: &[usize] = match tensor.shape() {
        [1] => &[],
        shape => shape,
    };
    let mut out = Vec::new();
    write_nested(&mut values(tensor), shape, is_base64, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Makes a stream of requests; nothing is sent before the first wait for a response.
pub(super) fn open(http: &Http) -> (RequestSender, ResponseReceiver<'_>) {
    let (sender, requests) = mpsc::channel(1);
    let events = EventReceiver {
        http,
        requests,
        state: State::Idle,
    };
    (
        RequestSender(Outgoing::Events(sender)),
        ResponseReceiver(Incoming::Events(events)),
    )
}

/// Events of the server.
pub(super) struct EventReceiver<'a> {
    http: &'a Http,
    requests: mpsc::Receiver<EventRequest>,
    state: State<'a>,
}

type Opened = Result<Response, ClientError>;

enum State<'a> {
    /// The stream of the last request has ended.
    Idle,
    Opening(
        Pin<Box<dyn Future<Output = Opened> + Send + 'a>>,
        Box<Expected>,
    ),
    Open(Box<EventStream>),
}

/// Stream of one request.
struct EventStream {
    response: Response,
    lines: EventLines,
    expected: Expected,
}

impl EventReceiver<'_> {
    /// Waits for the next event, of this request or the one after it.
    pub(super) async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        let http = self.http;
        loop {
            self.state = match &mut self.state {
                State::Idle => {
                    let Some(request) = self.requests.recv().await else {
                        return Ok(None);
                    };
                    let EventRequest {
                        model,
                        body,
                        expected,
                    } = request;
                    let opening = async move {
                        let segments = http::segments(&model, Some(VERB));
                        http.open(&segments, body).await
                    };
                    State::Opening(Box::pin(opening), Box::new(expected))
                }
                State::Opening(opening, expected) => match opening.await {
                    Ok(response) => State::Open(Box::new(EventStream {
                        response,
                        lines: EventLines::default(),
                        expected: std::mem::take(&mut **expected),
                    })),
                    Err(ClientError::Refused(error)) => {
                        self.state = State::Idle;
                        return Ok(Some(StreamEvent::Error(text(error))));
                    }
                    Err(error) => return Err(error),
                },
                State::Open(stream) => match stream.next(http).await? {
                    Some(event) => return Ok(Some(event)),
                    None => State::Idle,
                },
            };
        }
    }
}

fn text(error: ServerError) -> String {
    match error.message.is_empty() {
        true => error.to_string(),
        false => error.message,
    }
}

impl EventStream {
    async fn next(&mut self, http: &Http) -> Result<Option<StreamEvent>, ClientError> {
        let unreadable = |error| http.unreadable(error);
        loop {
            if let Some(data) = self.lines.next().map_err(unreadable)? {
                return read(&data, &self.expected).map(Some).map_err(unreadable);
            }
            match http.chunk(&mut self.response).await? {
                Some(bytes) => self.lines.push(&bytes).map_err(unreadable)?,
                None => return Ok(None),
            }
        }
    }
}

/// Lines of events, as the HTML standard has them: what fields other than `data` say is passed over.
#[derive(Debug, Default)]
pub(super) struct EventLines {
    /// Received bytes that are not used.
    bytes: Vec<u8>,
    /// Number of bytes of them that were searched for the end of a line.
    searched: usize,
    /// Data of the event that has begun.
    data: Option<String>,
}

impl EventLines {
    pub(super) fn push(&mut self, bytes: &Bytes) -> Result<(), AnswerError> {
        let held = self.bytes.len() + self.data.as_ref().map_or(0, String::len);
        if held + bytes.len() > MAX_MESSAGE {
            return Err(AnswerError::decode("found an event that is too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the data of the next event that is whole.
    pub(super) fn next(&mut self) -> Result<Option<String>, AnswerError> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Ok(Some(data));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            if field == "data" {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut self.data {
                    Some(data) => data.extend(["\n", value]),
                    None => self.data = Some(value.to_owned()),
                }
            }
        }
        Ok(None)
    }

    /// Takes a line that is whole, without its end.
    fn line(&mut self) -> Result<Option<String>, AnswerError> {
        let rest = &self.bytes[self.searched..];
        let found = rest.iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| at + self.searched) else {
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        self.searched = 0;
        line.pop();
        if line.ends_with(b"\r") {
            line.pop();
        }
        String::from_utf8(line)
            .map(Some)
            .map_err(AnswerError::decode)
    }
}

/// Returns the text of an event that is an error.
pub(super) fn error_of(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reported {
        error: String,
    }
    // Nearly none is.
    let is_one = data.trim_start_matches(['{', ' ']).starts_with("\"error\"");
    let reported = is_one.then(|| serde_json::from_str::<Reported>(data).ok());
    Some(reported??.error)
}

/// Reads an event.
fn read(data: &str, expected: &Expected) -> Result<StreamEvent, AnswerError> {
    if let Some(text) = error_of(data) {
        return Ok(StreamEvent::Error(text));
    }
    let data = json::quote_not_finite(data);
    let mut members: BTreeMap<String, &RawValue> =
        serde_json::from_str(&data).map_err(AnswerError::decode)?;
    let is_output = |name: &str| expected.outputs.iter().any(|output| output.name == name);
    let mut own = |name: &str| {
        let value = (!is_output(name)).then(|| members.remove(name)).flatten();
        let text = value.map(|value| serde_json::from_str::<String>(value.get()));
        text.transpose().map_err(AnswerError::decode)
    };
    let [model_name, model_version, id] = ["model_name", "model_version", "id"].map(&mut own);
    let timestamp = members.remove(TIMESTAMP);
    let timestamp = timestamp.and_then(|value| value.get().parse().ok());
    let is_final = (!is_output(FINAL)).then(|| members.remove(FINAL)).flatten();
    let is_final = is_final.and_then(|value| value.get().parse().ok());
    let mut outputs = TensorMap::default();
    let is_wanted = |name: &str| expected.wanted.is_empty() || is_in(&expected.wanted, name);
    for known in expected.outputs.iter().filter(|it| is_wanted(&it.name)) {
        if let Some(value) = members.get(&known.name) {
            let tensor = tensor(value.get(), &known.name, Some(known))?;
            outputs.push((known.name.clone(), tensor));
        }
    }
    // Where outputs are known, what is none is a parameter.
    if expected.outputs.is_empty() {
        for (name, value) in members.into_iter().filter(|(name, _)| is_wanted(name)) {
            let tensor = tensor(value.get(), &name, None)?;
            outputs.push((name, tensor));
        }
    }
    let answer = ClientResponse {
        model_name: model_name?.unwrap_or_default(),
        model_version: model_version?.unwrap_or_default(),
        id: id?.unwrap_or_default(),
        outputs,
        opaque: Vec::new(),
    };
    Ok(StreamEvent::Answer(StreamAnswer {
        answer,
        timestamp,
        is_final,
    }))
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

/// Reads an output, of the first type that it fits.
fn tensor(text: &str, name: &str, known: Option<&TensorMetadata>) -> Result<Tensor, AnswerError> {
    let known_dtype = known.and_then(TensorMetadata::dtype);
    let dtypes = match &known_dtype {
        Some(dtype) => std::slice::from_ref(dtype),
        None => &GUESSES[..],
    };
    let mut found = Err(AnswerError::Missing(name.to_owned()));
    for dtype in dtypes {
        let elements = json::elements(text, *dtype);
        found = elements
            .map(|elements| (*dtype, elements))
            .map_err(|error| AnswerError::output(name, error));
        if found.is_ok() {
            break;
        }
    }
    let (dtype, elements) = found?;
    let shape = match known {
        Some(known) if known_dtype.is_some() => filled(&known.shape, elements.shape),
        _ => listed(elements.shape),
    };
    Tensor::new(dtype, shape, elements.data).map_err(|error| AnswerError::output(name, error))
}

/// Returns the shape of lists; an element alone is a list of one.
fn listed(lists: Vec<usize>) -> Vec<usize> {
    match lists.is_empty() {
        true => vec![1],
        false => lists,
    }
}

/// Returns the shape of the metadata with the lengths that the elements leave only one choice for, or else that of
/// the lists.
fn filled(known: &PartialShape, lists: Vec<usize>) -> Vec<usize> {
    let lists = listed(lists);
    let count: usize = lists.iter().product();
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(length) => Some(*length),
        _ => None,
    };
    let lengths: Vec<Option<usize>> = known.0.iter().map(fixed).collect();
    let product: usize = lengths.iter().flatten().product();
    let open = lengths.iter().filter(|length| length.is_none()).count();
    let rest = match open {
        0 if product == count => 1,
        1 if product > 0 && count.is_multiple_of(product) => count / product,
        _ => return lists,
    };
    lengths.into_iter().map(|it| it.unwrap_or(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::{EventLines, Expected, StreamEvent, body, read};
    use crate::{
        client::{
            message::{Request, TensorMetadata},
            output::stream_json,
        },
        request::Parameter,
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    fn strings(shape: Vec<usize>, texts: &[&[u8]]) -> Tensor {
        let mut packer = Packer::new(DataType::String, texts.len());
        texts.iter().for_each(|it| packer.push_bytes(it).unwrap());
        Tensor::new(DataType::String, shape, packer.finish()).unwrap()
    }

    #[test]
    fn inputs_are_members_of_the_request() {
        let floats = Tensor::new(DataType::F32, vec![1, 2], [0, 0, 128, 63].repeat(2).into());
        let request = Request {
            id: "7".to_owned(),
            parameters: vec![("deep".to_owned(), Parameter::Bool(true))],
            inputs: TensorMap::from_iter([
                ("x".to_owned(), floats.unwrap()),
                ("text".to_owned(), strings(vec![1], &[b"one \"two\""])),
                ("texts".to_owned(), strings(vec![2], &[b"a", b"\xff"])),
            ]),
            ..Request::default()
        };
        let body = body(&request).unwrap().bytes;
        insta::assert_snapshot!(
            String::from_utf8(body.to_vec()).unwrap(),
            @r#"{"id":"7","parameters":{"deep":true},"x":[[1.0,1.0]],"text":"one \"two\"","texts":[{"b64":"YQ=="},{"b64":"/w=="}]}"#
        );
        let half = Tensor::new(DataType::F16, vec![1], vec![0, 0].into()).unwrap();
        let inputs = TensorMap::from_iter([("h".to_owned(), half)]);
        let error = super::body(&Request {
            inputs,
            ..Request::default()
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            "FP16 of input `h` has only a raw form"
        );
    }

    #[test]
    fn events_are_found_however_they_are_cut() {
        let text =
            "\u{feff}: hello\r\n\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nid: 3\ndata: b\n\ndata: lost";
        let text = text.trim_start_matches('\u{feff}').as_bytes();
        for size in [1, 2, 7, text.len()] {
            let mut lines = EventLines::default();
            let mut events = Vec::new();
            for piece in text.chunks(size) {
                lines.push(&piece.to_vec().into()).unwrap();
                while let Some(data) = lines.next().unwrap() {
                    events.push(data);
                }
            }
            assert_eq!(events, ["{\"a\":\n1}", "b"], "{size}");
        }
        let mut lines = EventLines::default();
        lines.push(&b"data: \xff\n"[..].into()).unwrap();
        assert!(lines.next().is_err());
    }

    fn shown(data: &str, expected: &Expected) -> String {
        match read(data, expected) {
            Ok(StreamEvent::Answer(answer)) => String::from_utf8(stream_json(&answer)).unwrap(),
            Ok(StreamEvent::Error(text)) => format!("error: {text}"),
            Err(error) => crate::error::chain(&error),
        }
    }

    #[test]
    fn outputs_have_the_types_of_the_metadata_or_those_of_their_values() {
        let output = |name: &str, datatype: &str, shape: &[i64]| {
            TensorMetadata::new(name.to_owned(), datatype.to_owned(), shape)
        };
        let expected = Expected {
            outputs: vec![
                output("y", "FP32", &[-1, 2]),
                output("id", "UNDEFINED", &[]),
                output("absent", "FP32", &[1]),
            ],
            wanted: Vec::new(),
        };
        let event = r#"{"model_name":"m","model_version":"1","id":[1,2.5],"y":[1,NaN,3,4],"kind":"x","OVMS_MP_TIMESTAMP":-7,"triton_final_response":true}"#;
        insta::assert_snapshot!(shown(event, &expected), @r#"{"model_name":"m","model_version":"1","id":"","timestamp":-7,"triton_final_response":true,"outputs":[{"name":"y","datatype":"FP32","shape":[2,2],"data":[1.0,null,3.0,4.0],"not_finite":[[1,"NaN"]]},{"name":"id","datatype":"FP64","shape":[2],"data":[1.0,2.5]}]}"#);
        // A server that does not list outputs.
        let expected = Expected {
            wanted: vec!["b".to_owned(), "s".to_owned(), "i".to_owned()],
            ..Expected::default()
        };
        let event = r#"{"model_name":"m","model_version":"1","id":"7","b":true,"s":["NaN"],"i":5,"other":1}"#;
        insta::assert_snapshot!(shown(event, &expected), @r#"{"model_name":"m","model_version":"1","id":"7","outputs":[{"name":"b","datatype":"BOOL","shape":[1],"data":[true]},{"name":"i","datatype":"INT64","shape":[1],"data":[5]},{"name":"s","datatype":"BYTES","shape":[1],"data":["NaN"]}]}"#);
        for (event, expected_text) in [
            (r#"{"error":"no \"x\""}"#, "error: no \"x\""),
            ("[1]", "found a body that cannot be decoded: invalid type"),
            (
                r#"{"model_name":"m","i":null}"#,
                "cannot read output `i`: invalid type: null",
            ),
        ] {
            let shown = shown(event, &expected);
            assert!(shown.starts_with(expected_text), "{event}: {shown}");
        }
    }
}
