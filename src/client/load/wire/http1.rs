//! REST over HTTP/1 connections, one for each lane.

use std::cell::RefCell;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;

use super::{Target, WireRequest};
use crate::{
    client::{
        error::{CallPhase, ClientError, ServerError, ServerErrorCode},
        http::refusal_text,
    },
    task::Task,
};

/// Number of bytes of an error's body after which no more are kept.
const MAX_OF_AN_ERROR: usize = 64 << 10;

/// Connections to one server, made when a lane first needs them and after errors.
#[derive(Debug)]
pub(in crate::client::load) struct Http1 {
    target: Target,
    /// By lane; empty while one is in use.
    slots: RefCell<Vec<Option<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: Task<()>,
}

impl Http1 {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            slots: RefCell::default(),
        }
    }

    pub(super) async fn send(&self, lane: usize, request: &WireRequest) -> Result<(), ClientError> {
        self.target
            .within(CallPhase::Answer, self.send_on(lane, request))
            .await
    }

    async fn send_on(&self, lane: usize, request: &WireRequest) -> Result<(), ClientError> {
        let kept = self.take(lane).filter(|it| !it.sender.is_closed());
        let is_kept = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut sent = exchange(&mut connection, request).await;
        // The server may have closed it in the same moment; then nothing was sent.
        if is_kept && sent.as_ref().is_err_and(hyper::Error::is_canceled) {
            connection = self.connect().await?;
            sent = exchange(&mut connection, request).await;
        }
        let answer = sent.map_err(|error| self.target.unreachable(error))?;
        self.slots.borrow_mut()[lane] = Some(connection);
        answer
    }

    fn take(&self, lane: usize) -> Option<Connection> {
        let mut slots = self.slots.borrow_mut();
        if slots.len() <= lane {
            slots.resize_with(lane + 1, || None);
        }
        slots[lane].take()
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let socket = TokioIo::new(self.target.connect().await?);
        let (sender, connection) = handshake(socket)
            .await
            .map_err(|error| self.target.unreachable(error))?;
        Ok(Connection {
            sender,
            // Its error is that of the call on it.
            _driver: Task::spawn(async move { drop(connection.await) }),
        })
    }
}

/// Sends a request, and reads the answer to its end.
async fn exchange(
    connection: &mut Connection,
    request: &WireRequest,
) -> Result<Result<(), ClientError>, hyper::Error> {
    connection.sender.ready().await?;
    let request = request
        .head
        .clone()
        .map(|()| Full::new(request.body.clone()));
    let response = connection.sender.send_request(request).await?;
    let code = response.status();
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        if let (false, Ok(bytes)) = (code.is_success(), frame?.into_data())
            && text.len() < MAX_OF_AN_ERROR
        {
            text.extend_from_slice(&bytes);
        }
    }
    if code.is_success() {
        return Ok(Ok(()));
    }
    Ok(Err(ClientError::Refused(ServerError {
        code: ServerErrorCode::Http(code),
        message: refusal_text(&text),
    })))
}
