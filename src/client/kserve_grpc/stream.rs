//! A stream of requests and what comes back.

use std::{fmt, pin::Pin};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use crate::{
    client::{
        error::{AnswerError, ClientError, RequestError},
        grpc::{Grpc, MESSAGE_LIMIT},
        kserve_grpc,
        message::{ClientResponse, Request},
    },
    proto::kserve::{
        ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        grpc_inference_service_client::GrpcInferenceServiceClient,
        infer_parameter::ParameterChoice,
    },
};

/// The response parameter that is the timestamp of a graph's packet.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Result of a call once its response headers are there.
type Opened = Result<Response<Streaming<ModelStreamInferResponse>>, Status>;

/// Where the requests of a stream go; dropped when there are no more.
#[derive(Debug)]
pub struct RequestSender(mpsc::Sender<ModelInferRequest>);

impl RequestSender {
    /// Sends a request, once the ones before are on their way. Whether the stream takes it: one that
    /// has come to its end takes no more.
    ///
    /// Only a wait for answers moves what is sent, so both have to go on beside each other.
    ///
    /// # Errors
    ///
    /// Fails if the request has no form in the protocol.
    pub async fn send(&self, request: &Request) -> Result<bool, RequestError> {
        let message = kserve_grpc::message(request)?;
        Ok(self.0.send(message).await.is_ok())
    }
}

/// Responses of a stream; dropping it cancels the stream.
pub struct ResponseReceiver<'a> {
    grpc: &'a Grpc,
    state: State<'a>,
}

/// Event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// An answer.
    Answer(StreamAnswer),
    /// An error after which the stream goes on.
    Error(String),
}

/// One answer of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamAnswer {
    /// The answer.
    pub answer: ClientResponse,
    /// The timestamp, as graphs have them.
    pub timestamp: Option<i64>,
}

enum State<'a> {
    /// Some servers send the head of their answer with the first message only.
    Opening(Pin<Box<dyn Future<Output = Opened> + Send + 'a>>),
    Open(Box<Streaming<ModelStreamInferResponse>>),
}

/// Opens a stream; nothing is sent before the first wait for an answer.
pub(super) fn open(grpc: &Grpc) -> (RequestSender, ResponseReceiver<'_>) {
    let (sender, requests) = mpsc::channel(1);
    let opening = async move {
        let request = grpc.request(ReceiverStream::new(requests));
        let mut service = GrpcInferenceServiceClient::new(grpc.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        service.model_stream_infer(request).await
    };
    let state = State::Opening(Box::pin(opening));
    (RequestSender(sender), ResponseReceiver { grpc, state })
}

impl ResponseReceiver<'_> {
    /// Waits for what comes next; `None` at the good end of the stream. There is no time limit, and
    /// a wait that is given up loses nothing.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream with an error, or an answer cannot be read.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        let messages = match &mut self.state {
            State::Opening(opening) => {
                let opened = opening.await.map_err(|status| self.grpc.failure(status))?;
                self.state = State::Open(Box::new(opened.into_inner()));
                return Box::pin(self.next()).await;
            }
            State::Open(messages) => messages,
        };
        let message = match messages.message().await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(None),
            Err(status) => return Err(self.grpc.failure(status)),
        };
        match message.infer_response {
            Some(response) if message.error_message.is_empty() => {
                let answer = answer(response).map_err(|error| self.grpc.unreadable(error))?;
                Ok(Some(StreamEvent::Answer(answer)))
            }
            _ => Ok(Some(StreamEvent::Error(message.error_message))),
        }
    }
}

impl fmt::Debug for ResponseReceiver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

fn answer(message: ModelInferResponse) -> Result<StreamAnswer, AnswerError> {
    let timestamp = message.parameters.get(TIMESTAMP);
    let timestamp = timestamp.and_then(|value| match value.parameter_choice {
        Some(ParameterChoice::Int64Param(value)) => Some(value),
        _ => None,
    });
    Ok(StreamAnswer {
        answer: kserve_grpc::of_message(message)?,
        timestamp,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{TIMESTAMP, answer};
    use crate::proto::kserve::{
        InferParameter, ModelInferResponse, infer_parameter::ParameterChoice,
        model_infer_response::InferOutputTensor,
    };

    #[test]
    fn timestamps_are_whole_and_types_of_others_are_left_as_bytes() {
        let output = |name: &str, datatype: &str, length| InferOutputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![length],
            ..InferOutputTensor::default()
        };
        let stamp = InferParameter {
            parameter_choice: Some(ParameterChoice::Int64Param(i64::MAX - 3)),
        };
        let message = ModelInferResponse {
            parameters: HashMap::from([(TIMESTAMP.to_owned(), stamp)]),
            outputs: vec![
                output("a", "UINT8", 2),
                output("b", "my type", -1),
                output("c", "INT8", 1),
            ],
            raw_output_contents: ["xy", "\u{0}z", "!"].map(bytes::Bytes::from).to_vec(),
            ..ModelInferResponse::default()
        };
        let read = answer(message).unwrap();
        assert_eq!(read.timestamp, Some(i64::MAX - 3));
        let names: Vec<_> = read.answer.outputs.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "c"]);
        let opaque = &read.answer.opaque[0];
        assert_eq!(
            (opaque.name.as_str(), opaque.datatype.as_str()),
            ("b", "my type")
        );
        assert_eq!(
            (&opaque.shape[..], &opaque.data[..]),
            (&[-1][..], &b"\0z"[..])
        );
    }
}
