//! REST over HTTP/1 connections, one for each lane.

use std::{cell::RefCell, time::Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    StatusCode,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;

use super::{Answered, Target, WireRequest};
use crate::{
    client::{
        error::{AnswerError, CallPhase, ClientError, ServerError, ServerErrorCode},
        events::{EventLines, error_of},
        http::{MAX_OF_AN_ERROR, refusal},
    },
    task::Task,
};

/// Connections to one server, made when a lane first needs them and after errors.
#[derive(Debug)]
pub(in crate::client) struct Http1 {
    target: Target,
    /// Connections by lane; empty while one is in use.
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
        let sent = self.send_on(lane, request, None);
        self.target.within(CallPhase::Answer, sent).await
    }

    /// Sends a request that is answered by events, and reads all of them.
    pub(in crate::client) async fn events(
        &self,
        lane: usize,
        request: &WireRequest,
    ) -> Result<Answered, ClientError> {
        let mut events = EventCounter::default();
        let sent = self.send_on(lane, request, Some(&mut events));
        self.target.within(CallPhase::Answer, sent).await?;
        events.answered().map_err(|error| match error {
            EventError::Reported(message) => ClientError::Refused(ServerError {
                code: ServerErrorCode::Http(StatusCode::OK),
                message,
                is_foreign: false,
            }),
            EventError::Unreadable(source) => ClientError::Protocol {
                address: self.target.options.address.clone(),
                source,
            },
        })
    }

    async fn send_on(
        &self,
        lane: usize,
        request: &WireRequest,
        mut events: Option<&mut EventCounter>,
    ) -> Result<(), ClientError> {
        let kept = self.take(lane).filter(|it| !it.sender.is_closed());
        let is_kept = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut sent = exchange(&mut connection, request, events.as_deref_mut()).await;
        // The server may have closed it in the same moment; then nothing was sent.
        if is_kept && sent.as_ref().is_err_and(hyper::Error::is_canceled) {
            connection = self.connect().await?;
            sent = exchange(&mut connection, request, events).await;
        }
        let answer = sent.map_err(|error| self.target.broken(error))?;
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
    mut events: Option<&mut EventCounter>,
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
        let Ok(bytes) = frame?.into_data() else {
            continue;
        };
        match (&mut events, code.is_success()) {
            (Some(events), true) => events.add(&bytes),
            (_, false) if text.len() < MAX_OF_AN_ERROR => text.extend_from_slice(&bytes),
            _ => {}
        }
    }
    if code.is_success() {
        return Ok(Ok(()));
    }
    Ok(Err(ClientError::Refused(refusal(code, &text))))
}

/// Events of an answer, counted.
#[derive(Debug, Default)]
struct EventCounter {
    lines: EventLines,
    first: Option<Instant>,
    count: u64,
    error: Option<EventError>,
}

/// Error among the events.
#[derive(Debug)]
enum EventError {
    /// The server's text.
    Reported(String),
    Unreadable(AnswerError),
}

impl EventCounter {
    fn add(&mut self, bytes: &Bytes) {
        if let Err(error) = self.count(bytes) {
            self.error.get_or_insert(error);
        }
    }

    fn count(&mut self, bytes: &Bytes) -> Result<(), EventError> {
        self.lines.push(bytes).map_err(EventError::Unreadable)?;
        while let Some(data) = self.lines.next().map_err(EventError::Unreadable)? {
            if let Some(text) = error_of(&data) {
                return Err(EventError::Reported(text));
            }
            self.first.get_or_insert_with(Instant::now);
            self.count += 1;
        }
        Ok(())
    }

    fn answered(self) -> Result<Answered, EventError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Answered {
                first: self.first,
                responses: self.count,
                ..Answered::ONCE
            }),
        }
    }
}
