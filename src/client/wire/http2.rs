//! gRPC over HTTP/2 connections that lanes share.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::{Buf, Bytes, BytesMut};
use futures::FutureExt as _;
use h2::{
    Reason, RecvStream, SendStream,
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

/// Connections to one server, made when a lane first needs them, and in the place of those that take no more calls.
#[derive(Debug)]
pub(in crate::client) struct Http2 {
    target: Target,
    /// Connections, each of which a number of lanes shares.
    slots: RefCell<Vec<Slot>>,
}

/// Place of a connection.
type Slot = Rc<Mutex<Option<Rc<Connection>>>>;

/// Connection, which ends with the last of its slot and the calls on it: one that has left its slot still serves them.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Bytes>,
    /// Index of its slot.
    slot: usize,
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
        let (answer, _) = self
            .call(lane, async |sender| exchange(sender, request).await)
            .await?;
        answer
    }

    /// Opens a stream of messages.
    pub(in crate::client) async fn open(
        &self,
        lane: usize,
        request: &WireRequest,
    ) -> Result<MessageStream, ClientError> {
        let open = async |sender: SendRequest<Bytes>| {
            let mut sender = sender.ready().await?;
            sender.send_request(request.head.clone(), false)
        };
        let ((response, sending), connection) = self.call(lane, open).await?;
        Ok(MessageStream {
            sending,
            receiving: Receiving::Opening(response),
            buffer: BytesMut::new(),
            connection,
        })
    }

    /// Runs a step of a stream within the time limit.
    pub(in crate::client) async fn step<T>(
        &self,
        stream: &mut MessageStream,
        work: impl AsyncFnOnce(&mut MessageStream) -> Result<T, MessageError>,
    ) -> Result<T, ClientError> {
        let connection = Rc::clone(&stream.connection);
        let work = async {
            work(stream).await.map_err(|error| match error {
                MessageError::Http2(error) => self.target.broken(error),
                MessageError::Client(error) => error,
                MessageError::Answer(source) => ClientError::Protocol {
                    address: self.target.options.address.clone(),
                    source,
                },
            })
        };
        let done = self.target.within(CallPhase::Answer, work).await;
        if matches!(done, Err(ClientError::Timeout { .. })) {
            self.retire(&connection);
        }
        done
    }

    /// Runs a call on the connection of a lane within the time limit, and returns the connection with its result. A call
    /// that the server has certainly not begun is made once more, on another connection.
    async fn call<T>(
        &self,
        lane: usize,
        call: impl AsyncFn(SendRequest<Bytes>) -> Result<T, h2::Error>,
    ) -> Result<(T, Rc<Connection>), ClientError> {
        let used = Cell::new(None);
        let work = async {
            let mut is_again = false;
            loop {
                let connection = self.connection(lane).await?;
                used.set(Some(Rc::clone(&connection)));
                let error = match call(connection.sender.clone()).await {
                    Ok(done) => return Ok((done, connection)),
                    Err(error) => error,
                };
                let is_not_begun = is_not_begun(&error);
                // Other errors of a single stream leave the connection.
                if is_not_begun || !error.is_reset() {
                    self.retire(&connection);
                }
                if is_again || !is_not_begun {
                    return Err(self.target.broken(error));
                }
                is_again = true;
            }
        };
        let done = self.target.within(CallPhase::Answer, work).await;
        // Nobody knows whether anything moves on it.
        if let (Err(ClientError::Timeout { .. }), Some(connection)) = (&done, used.take()) {
            self.retire(&connection);
        }
        done
    }

    fn slot(&self, index: usize) -> Slot {
        let mut slots = self.slots.borrow_mut();
        if slots.len() <= index {
            slots.resize_with(index + 1, Rc::default);
        }
        Rc::clone(&slots[index])
    }

    async fn connection(&self, lane: usize) -> Result<Rc<Connection>, ClientError> {
        let index = lane / CALLS_PER_CONNECTION;
        let slot = self.slot(index);
        // Whoever comes meanwhile waits for the same connection.
        let mut slot = slot.lock().await;
        if let Some(connection) = &*slot {
            return Ok(Rc::clone(connection));
        }
        let socket = self.target.connect().await?;
        let (sender, connection) = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false)
            .handshake::<_, Bytes>(socket)
            .await
            .map_err(|error| self.target.unreachable(error))?;
        let connection = Rc::new(Connection {
            sender,
            slot: index,
            // Its error is that of the calls on it.
            _driver: Task::spawn(async move { drop(connection.await) }),
        });
        *slot = Some(Rc::clone(&connection));
        Ok(connection)
    }

    /// Takes a connection out of its slot, so that the next call opens another one; those on it go on.
    fn retire(&self, connection: &Rc<Connection>) {
        let slot = self.slot(connection.slot);
        // A slot that is locked gets a connection, and has none.
        if let Ok(mut slot) = slot.try_lock()
            && let Some(current) = &*slot
            && Rc::ptr_eq(current, connection)
        {
            *slot = None;
        }
    }
}

/// Returns whether an error says that the server has not begun a call: the connection takes no more of them, or this
/// one is refused before anything of it was processed.
fn is_not_begun(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || is_refused)
}

/// Sends a request, and reads the answer to its end.
async fn exchange(
    sender: SendRequest<Bytes>,
    request: &WireRequest,
) -> Result<Result<(), ClientError>, h2::Error> {
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(request.head.clone(), false)?;
    let response = match body.send_data(request.body.clone(), true) {
        Ok(()) => response.await?,
        // A stream that the server has ended meanwhile has the reason.
        Err(error) => response.now_or_never().unwrap_or(Err(error))?,
    };
    let (head, mut body) = response.into_parts();
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
    /// Connection of the stream, which lives as long.
    connection: Rc<Connection>,
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
