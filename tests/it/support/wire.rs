//! gRPC calls sent whole and in a fixed order. tonic sends each message from a task of its own, and
//! so concurrent messages in any order.

use std::{io::Write as _, time::Duration};

use axum::http::{HeaderMap, Request};
use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use futures::future::join_all;
use h2::client::{Connection, ResponseFuture, SendRequest};
use prost::Message;
use tokio::{net::TcpStream, runtime::Runtime};
use tonic::Status;

use super::Server;

/// A call to send.
pub(crate) struct Call {
    path: String,
    message: Vec<u8>,
    compressed: bool,
    deadline: Option<&'static str>,
}

impl Call {
    /// Makes a call of KServe's `ModelInfer`.
    pub(crate) fn infer(message: &impl Message) -> Self {
        let path = "/inference.GRPCInferenceService/ModelInfer";
        Self::of(path, message.encode_to_vec())
    }

    /// Makes a call of TensorFlow Serving's `Predict`.
    pub(crate) fn predict(message: &impl Message) -> Self {
        let path = "/tensorflow.serving.PredictionService/Predict";
        Self::of(path, message.encode_to_vec())
    }

    /// Makes a call by its path.
    pub(crate) fn of(path: &str, message: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            message,
            compressed: false,
            deadline: None,
        }
    }

    /// Sends the message compressed.
    pub(crate) fn compressed(self, compressed: bool) -> Self {
        Self { compressed, ..self }
    }

    /// Sets a deadline in gRPC's form, such as `300m`, which is for the server alone to keep.
    pub(crate) fn within(self, deadline: &'static str) -> Self {
        let deadline = Some(deadline);
        Self { deadline, ..self }
    }

    fn body(&self) -> Bytes {
        let message = if self.compressed {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&self.message).unwrap();
            packed.finish().unwrap()
        } else {
            self.message.clone()
        };
        let mut body = BytesMut::new();
        body.put_u8(self.compressed.into());
        body.put_u32(message.len().try_into().unwrap());
        body.put_slice(&message);
        body.freeze()
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

async fn connect(server: &Server) -> (SendRequest<Bytes>, Connection<TcpStream, Bytes>) {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await;
    h2::client::handshake(stream.unwrap()).await.unwrap()
}

/// Sends calls over a new connection; returns the messages of the responses.
pub(crate) fn send(server: &Server, calls: &[Call]) -> Vec<Result<Bytes, Status>> {
    runtime().block_on(async {
        let (mut send, mut connection) = connect(server).await;
        let answers: Vec<_> = calls
            .iter()
            .map(|call| {
                let mut request = Request::post(format!("http://test{}", call.path))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers");
                if call.compressed {
                    request = request.header("grpc-encoding", "gzip");
                }
                if let Some(deadline) = call.deadline {
                    request = request.header("grpc-timeout", deadline);
                }
                // Nothing is written before the connection is driven, below: all of it is in the
                // order of these calls then.
                let request = request.body(()).unwrap();
                let (answer, mut body) = send.send_request(request, false).unwrap();
                body.send_data(call.body(), true).unwrap();
                answer
            })
            .collect();
        let answers = join_all(answers.into_iter().map(receive));
        tokio::select! {
            answers = tokio::time::timeout(Duration::from_secs(60), answers) => answers.unwrap(),
            ended = &mut connection => panic!("the connection has ended: {ended:?}"),
        }
    })
}

/// Begins a call over a new connection with headers, and a message of a mebibyte of which nothing more than its
/// length comes; returns the status of the answer.
pub(crate) fn refused_early(server: &Server, path: &str, headers: &[(&str, &str)]) -> Status {
    runtime().block_on(async {
        let (mut send, mut connection) = connect(server).await;
        let request = Request::post(format!("http://test{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let request = request.body(()).unwrap();
        let (answer, mut body) = send.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(&[0, 0, 0x10, 0, 0]), false)
            .unwrap();
        tokio::select! {
            answer = tokio::time::timeout(Duration::from_secs(60), receive(answer)) => {
                answer.expect("the answer does not wait for the message").unwrap_err()
            }
            ended = &mut connection => panic!("the connection has ended: {ended:?}"),
        }
    })
}

async fn receive(answer: ResponseFuture) -> Result<Bytes, Status> {
    let (head, mut body) = answer.await.unwrap().into_parts();
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await.unwrap();
    let status = |headers: &HeaderMap| Status::from_header_map(headers);
    match status(&head.headers).or_else(|| status(&trailers?)) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status),
        Some(_) => Ok(bytes.split_off(5).freeze()),
        None => panic!("an answer without a status"),
    }
}
