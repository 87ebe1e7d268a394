//! Lane: what a request needs for itself, and no other request has meanwhile.

use std::{cell::Cell, collections::HashMap, time::Instant};

use prost::Message;

use super::traffic::Traffic;
use crate::client::{
    error::{AnswerError, ClientError, ServerError, ServerErrorCode},
    session::{StepControl, mark, random_id},
    wire::{Answered, Http2, MessageError, MessageStream, WireRequest},
};

/// Place of one request in flight.
#[derive(Debug)]
pub(super) struct Lane {
    /// Number of the lane, which decides over its connection.
    pub(super) index: usize,
    pub(super) sequence: Option<SequenceLane>,
    pub(super) stream: Option<MessageStream>,
}

/// Sequence of a lane; the next one has another id.
#[derive(Debug)]
pub(super) struct SequenceLane {
    id: u64,
    length: usize,
    /// Number of steps that were answered.
    step: usize,
    /// Encoded steps of this sequence, by request and role.
    encoded: HashMap<(usize, u8), WireRequest>,
}

impl SequenceLane {
    pub(super) fn new(length: usize) -> Self {
        Self {
            id: random_id(),
            length,
            step: 0,
            encoded: HashMap::new(),
        }
    }

    /// Sends the next step. After an error, the next one begins another sequence: it is not known whether the
    /// server still has this one.
    pub(super) async fn step(
        &mut self,
        traffic: &Traffic<'_>,
        lane: usize,
    ) -> Result<Answered, ClientError> {
        let is_last = self.step + 1 >= self.length;
        let rows = traffic.items[self.step % traffic.items.len()].rows;
        let control = StepControl::of(self.step > 0, is_last, traffic.client.api().is_tfs());
        match self.send(traffic, lane, control).await {
            Ok(()) => {
                match is_last {
                    true => *self = Self::new(self.length),
                    false => self.step += 1,
                }
                Ok(Answered::ONCE.of(rows))
            }
            Err(error) => {
                *self = Self::new(self.length);
                Err(error)
            }
        }
    }

    /// Ends a sequence that has begun. If that fails, the server ends it when it is idle.
    pub(super) async fn end(&mut self, traffic: &Traffic<'_>, lane: usize) {
        if self.step > 0 {
            let _ = self.send(traffic, lane, StepControl::End).await;
            self.step = 0;
        }
    }

    async fn send(
        &mut self,
        traffic: &Traffic<'_>,
        lane: usize,
        control: StepControl,
    ) -> Result<(), ClientError> {
        let item = self.step % traffic.items.len();
        let key = (item, control as u8);
        if let Some(wire) = self.encoded.get(&key) {
            return traffic.wire.send(lane, wire).await;
        }
        let mut request = traffic.items[item].request.clone();
        mark(
            &mut request,
            traffic.client.api().is_tfs(),
            self.id,
            control,
        );
        let wire = traffic.client.call_of(self.id, None, &request)?.on_wire()?;
        let sent = traffic.wire.send(lane, &wire).await;
        if traffic.keeps_steps {
            self.encoded.insert(key, wire);
        }
        sent
    }
}

/// Only the error of a stream's response; its tensors are passed over.
#[derive(Clone, PartialEq, Message)]
struct ResponseError {
    #[prost(string, tag = "1")]
    error_message: String,
}

impl Lane {
    /// Sends a request over the stream of the lane, which is opened if there is none, and waits for its responses.
    pub(super) async fn over_stream(
        &mut self,
        http2: &Http2,
        request: &WireRequest,
        responses: Option<u64>,
    ) -> Result<Answered, ClientError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => http2.open(self.index, request).await?,
        };
        let came = Cell::new(0);
        let work =
            async |stream: &mut MessageStream| answers(stream, request, responses, &came).await;
        let answered = http2.step(&mut stream, work);
        let answered = answered.await.map_err(|error| match (error, responses) {
            (ClientError::Timeout { address, limit, .. }, Some(expected)) if came.get() > 0 => {
                let came = came.get();
                ClientError::Partial {
                    address,
                    limit,
                    came,
                    expected,
                }
            }
            (error, _) => error,
        })?;
        if responses.is_some() {
            self.stream = Some(stream);
        }
        answered.map_err(|message| {
            ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(tonic::Code::Unknown),
                message,
                is_foreign: false,
            })
        })
    }

    /// Ends a stream, and waits until the server has.
    pub(super) async fn end_stream(http2: &Http2, mut stream: MessageStream) {
        let end = async |stream: &mut MessageStream| {
            stream.finish()?;
            while stream.next().await?.is_some() {}
            Ok(())
        };
        // The load is over, whatever becomes of it.
        let _ = http2.step(&mut stream, end).await;
    }
}

/// Returns why the server has ended a stream before the request, which stands behind what it has sent before.
async fn refused(stream: &mut MessageStream) -> Result<Result<Answered, String>, MessageError> {
    while let Some(message) = stream.next().await? {
        if let Ok(error) = ResponseError::decode(message)
            && !error.error_message.is_empty()
        {
            return Ok(Err(error.error_message));
        }
    }
    let error = AnswerError::decode("the stream has ended before the request");
    Err(MessageError::Answer(error))
}

/// Waits for the responses to a request, which are counted in `came`; an error of the request alone is a text.
async fn answers(
    stream: &mut MessageStream,
    request: &WireRequest,
    responses: Option<u64>,
    came: &Cell<u64>,
) -> Result<Result<Answered, String>, MessageError> {
    if stream
        .send(request.body.clone(), responses.is_none())
        .is_err()
    {
        return refused(stream).await;
    }
    let mut first = None;
    while responses.is_none_or(|wanted| came.get() < wanted) {
        let Some(message) = stream.next().await? else {
            if responses.is_none() {
                break;
            }
            let error = AnswerError::decode("the stream has ended before the answer");
            return Err(MessageError::Answer(error));
        };
        let error = ResponseError::decode(message)
            .map_err(|error| MessageError::Answer(AnswerError::decode(error)))?;
        if !error.error_message.is_empty() {
            return Ok(Err(error.error_message));
        }
        first.get_or_insert_with(Instant::now);
        came.set(came.get() + 1);
    }
    Ok(Ok(Answered {
        first,
        responses: came.get(),
        ..Answered::ONCE
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{Router, http::HeaderMap, routing};
    use parking_lot::Mutex;
    use tokio::net::TcpListener;

    use crate::client::{
        Address, Api, Client, ClientOptions, Request, SEQUENCE,
        load::{Traffic, TrafficKind, WeightedRequest, driver::Exchange as _},
        message::ModelId,
    };

    #[tokio::test]
    async fn each_sequence_of_a_lane_has_an_id_of_its_own() {
        let ids = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new().route("/v2/models/m/infer", {
            let ids = Arc::clone(&ids);
            routing::post(async move |headers: HeaderMap| {
                let id = headers[SEQUENCE].to_str().unwrap().to_owned();
                ids.lock().push(id);
                "{}"
            })
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = ClientOptions {
            address: Address::parse(&format!("127.0.0.1:{port}"), Api::KserveRest).unwrap(),
            api: Api::KserveRest,
            timeout: std::time::Duration::from_secs(10),
            headers: HeaderMap::new(),
            concurrency: 1,
            tls: None,
        };
        let client = Client::connect(&options).await.unwrap();
        let request = Request {
            model: ModelId {
                name: "m".to_owned(),
                version: None,
            },
            ..Request::default()
        };
        let kind = TrafficKind::Sequences { length: 3 };
        let requests = vec![WeightedRequest {
            request,
            weight: 1.0,
        }];
        let traffic = Traffic::new(&client, requests, kind, 1, 7).unwrap();
        let steps = async {
            let mut lane = traffic.lane(0);
            for _ in 0..6 {
                traffic.exchange(&mut lane).await.unwrap();
            }
        };
        tokio::select! {
            _ = axum::serve(listener, router).into_future() => panic!("the server ended"),
            () = steps => {}
        }
        let ids = ids.lock();
        let [first, second] = [&ids[..3], &ids[3..]];
        assert_eq!((first.len(), second.len()), (3, 3), "{ids:?}");
        for sequence in [first, second] {
            assert!(sequence.iter().all(|id| *id == sequence[0]), "{ids:?}");
        }
        assert_ne!(first[0], second[0]);
    }
}
