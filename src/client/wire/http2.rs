//! gRPC over HTTP/2 connections that lanes share.

use std::{cell::RefCell, rc::Rc};

use bytes::{Buf, Bytes, BytesMut};
use h2::{
    RecvStream, SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use hyper::{HeaderMap, StatusCode};
use percent_encoding::percent_decode;
use tokio::sync::Mutex;
use tonic::Code;

use super::{Target, WireRequest};
use crate::{
    client::{
        error::{AnswerError, CallPhase, ClientError, ServerError, ServerErrorCode},
        grpc::{CALLS_PER_CONNECTION, CONNECTION_WINDOW, FRAME, MAX_MESSAGE, STREAM_WINDOW},
    },
    task::Task,
};

/// Headers with the status of a call, and its text.
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// Connections to one server, made when a lane first needs them and after errors.
#[derive(Debug)]
pub(in crate::client) struct Http2 {
    target: Target,
    /// Connections, each of which a number of lanes shares.
    slots: RefCell<Vec<Rc<Mutex<Slot>>>>,
}

/// Place of a connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Number of connections so far, so that an old one's error does not end the new one.
    generation: u64,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Bytes>,
    /// Moves the bytes of all lanes.
    _driver: Task<()>,
}

impl Http2 {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            slots: RefCell::default(),
        }
    }

    pub(super) async fn send(&self, lane: usize, request: &WireRequest) -> Result<(), ClientError> {
        self.target
            .within(CallPhase::Answer, async {
                let (sender, generation) = self.sender(lane).await?;
                match exchange(sender, request).await {
                    Ok(answer) => answer,
                    Err(error) => Err(self.broken(lane, generation, error).await),
                }
            })
            .await
    }

    /// Opens a stream of messages.
    pub(in crate::client) async fn open(
        &self,
        lane: usize,
        request: &WireRequest,
    ) -> Result<MessageStream, ClientError> {
        self.target
            .within(CallPhase::Answer, async {
                let (sender, generation) = self.sender(lane).await?;
                let opened = async {
                    let mut sender = sender.ready().await?;
                    sender.send_request(request.head.clone(), false)
                };
                match opened.await {
                    Ok((response, sending)) => Ok(MessageStream {
                        sending,
                        receiving: Receiving::Opening(response),
                        buffer: BytesMut::new(),
                    }),
                    Err(error) => Err(self.broken(lane, generation, error).await),
                }
            })
            .await
    }

    /// Runs a step of a stream within the time limit.
    pub(in crate::client) async fn step<T>(
        &self,
        work: impl Future<Output = Result<T, MessageError>>,
    ) -> Result<T, ClientError> {
        let work = async {
            work.await.map_err(|error| match error {
                MessageError::Http2(error) => self.target.broken(error),
                MessageError::Client(error) => error,
                MessageError::Answer(source) => ClientError::Protocol {
                    address: self.target.options.address.clone(),
                    source,
                },
            })
        };
        self.target.within(CallPhase::Answer, work).await
    }

    fn slot(&self, lane: usize) -> Rc<Mutex<Slot>> {
        let mut slots = self.slots.borrow_mut();
        let index = lane / CALLS_PER_CONNECTION;
        if slots.len() <= index {
            slots.resize_with(index + 1, Rc::default);
        }
        slots[index].clone()
    }

    async fn sender(&self, lane: usize) -> Result<(SendRequest<Bytes>, u64), ClientError> {
        let slot = self.slot(lane);
        // Whoever comes meanwhile waits for the same connection.
        let mut slot = slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((connection.sender.clone(), slot.generation));
        }
        let socket = self.target.connect().await?;
        let (sender, connection) = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false)
            .handshake::<_, Bytes>(socket)
            .await
            .map_err(|error| self.target.unreachable(error))?;
        slot.generation += 1;
        slot.connection = Some(Connection {
            sender: sender.clone(),
            // Its error is that of the calls on it.
            _driver: Task::spawn(async move { drop(connection.await) }),
        });
        Ok((sender, slot.generation))
    }

    /// Forgets a connection that has broken; errors of a single stream leave it.
    async fn broken(&self, lane: usize, generation: u64, error: h2::Error) -> ClientError {
        if !error.is_reset() {
            let slot = self.slot(lane);
            let mut slot = slot.lock().await;
            if slot.generation == generation {
                slot.connection = None;
            }
        }
        self.target.broken(error)
    }
}

/// Sends a request, and reads the answer to its end.
async fn exchange(
    sender: SendRequest<Bytes>,
    request: &WireRequest,
) -> Result<Result<(), ClientError>, h2::Error> {
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(request.head.clone(), false)?;
    body.send_data(request.body.clone(), true)?;
    let (head, mut body) = response.await?.into_parts();
    if let Err(error) = opened(head.status, &head.headers) {
        return Ok(Err(error));
    }
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
    }
    Ok(match body.trailers().await? {
        Some(trailers) => status(&trailers).unwrap_or_else(|| Err(no_status())),
        None => status(&head.headers).unwrap_or_else(|| Err(no_status())),
    })
}

/// Checks the headers of a response, which have the status if there is nothing else.
fn opened(code: StatusCode, headers: &HeaderMap) -> Result<(), ClientError> {
    if code != StatusCode::OK {
        return Err(ClientError::Refused(ServerError {
            code: ServerErrorCode::Http(code),
            message: String::new(),
            is_foreign: true,
        }));
    }
    status(headers).unwrap_or(Ok(()))
}

/// Reads the status of a call, if it is among these headers.
fn status(headers: &HeaderMap) -> Option<Result<(), ClientError>> {
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    if code == Code::Ok {
        return Some(Ok(()));
    }
    let message = headers.get(MESSAGE).map(|it| it.as_bytes());
    let message = percent_decode(message.unwrap_or_default()).decode_utf8_lossy();
    Some(Err(refused(code, &message)))
}

fn refused(code: Code, message: &str) -> ClientError {
    ClientError::Refused(ServerError {
        code: ServerErrorCode::Grpc(code),
        message: message.to_owned(),
        is_foreign: false,
    })
}

fn no_status() -> ClientError {
    refused(Code::Unknown, "the answer ended without a status")
}

/// Stream of messages both ways.
pub(in crate::client) struct MessageStream {
    sending: SendStream<Bytes>,
    receiving: Receiving,
    /// Received bytes, of less than a message.
    buffer: BytesMut,
}

enum Receiving {
    /// Some servers send the head of their answer with the first message only.
    Opening(ResponseFuture),
    Open(RecvStream),
}

/// Error of a stream.
#[derive(Debug)]
pub(in crate::client) enum MessageError {
    Http2(h2::Error),
    Client(ClientError),
    Answer(AnswerError),
}

impl From<h2::Error> for MessageError {
    fn from(error: h2::Error) -> Self {
        Self::Http2(error)
    }
}

impl MessageStream {
    /// Sends a message with its frame.
    pub(in crate::client) fn send(
        &mut self,
        framed: Bytes,
        is_last: bool,
    ) -> Result<(), MessageError> {
        Ok(self.sending.send_data(framed, is_last)?)
    }

    /// Ends what is sent.
    pub(in crate::client) fn finish(&mut self) -> Result<(), MessageError> {
        self.send(Bytes::new(), true)
    }

    /// Waits for the next message; `None` at the good end of the stream.
    pub(in crate::client) async fn next(&mut self) -> Result<Option<Bytes>, MessageError> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(Some(message));
            }
            let body = match &mut self.receiving {
                Receiving::Opening(response) => {
                    let (head, body) = response.await?.into_parts();
                    opened(head.status, &head.headers).map_err(MessageError::Client)?;
                    self.receiving = Receiving::Open(body);
                    continue;
                }
                Receiving::Open(body) => body,
            };
            let Some(chunk) = body.data().await else {
                let trailers = body.trailers().await?.unwrap_or_default();
                let status = status(&trailers).unwrap_or_else(|| Err(no_status()));
                return status.map(|()| None).map_err(MessageError::Client);
            };
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// Takes a whole message from the received bytes.
    fn buffered(&mut self) -> Result<Option<Bytes>, MessageError> {
        let Some((prefix, _)) = self.buffer.split_first_chunk::<FRAME>() else {
            return Ok(None);
        };
        let [is_compressed, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if is_compressed != 0 || length > MAX_MESSAGE {
            let error = AnswerError::decode("found a message that is compressed, or too large");
            return Err(MessageError::Answer(error));
        }
        if self.buffer.len() < FRAME + length {
            return Ok(None);
        }
        self.buffer.advance(FRAME);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

impl std::fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageStream").finish_non_exhaustive()
    }
}
