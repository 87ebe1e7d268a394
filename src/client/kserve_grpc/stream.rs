//! A stream of messages both ways.

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use crate::{
    client::{
        error::{AnswerError, ClientError},
        grpc::{Grpc, MAX_MESSAGE},
        kserve_grpc,
        stream::{
            Incoming, Outgoing, RequestSender, ResponseReceiver, StreamAnswer, StreamEvent,
            TIMESTAMP,
        },
    },
    proto::kserve::{
        ModelInferResponse, ModelStreamInferResponse,
        grpc_inference_service_client::GrpcInferenceServiceClient,
        infer_parameter::ParameterChoice,
    },
    request::FINAL,
};

/// Result of a call once its response headers are there.
type Opened = Result<Response<Streaming<ModelStreamInferResponse>>, Status>;

/// Messages of the server.
pub(in crate::client) struct MessageReceiver<'a> {
    grpc: &'a Grpc,
    state: State<'a>,
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
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        service.model_stream_infer(request).await
    };
    let state = State::Opening(Box::pin(opening));
    let messages = MessageReceiver { grpc, state };
    (
        RequestSender(Outgoing::Messages(sender)),
        ResponseReceiver(Incoming::Messages(messages)),
    )
}

impl MessageReceiver<'_> {
    /// Waits for the next message.
    pub(in crate::client) async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
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

fn answer(message: ModelInferResponse) -> Result<StreamAnswer, AnswerError> {
    let timestamp = message.parameters.get(TIMESTAMP);
    let timestamp = timestamp.and_then(|value| match value.parameter_choice {
        Some(ParameterChoice::Int64Param(value)) => Some(value),
        _ => None,
    });
    let is_final = message.parameters.get(FINAL);
    let is_final = is_final.and_then(|value| match value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => Some(value),
        _ => None,
    });
    Ok(StreamAnswer {
        answer: kserve_grpc::of_message(message)?,
        timestamp,
        is_final,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{FINAL, TIMESTAMP, answer};
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
        let last = InferParameter {
            parameter_choice: Some(ParameterChoice::BoolParam(false)),
        };
        let message = ModelInferResponse {
            parameters: HashMap::from([(TIMESTAMP.to_owned(), stamp), (FINAL.to_owned(), last)]),
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
        assert_eq!(read.is_final, Some(false));
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
