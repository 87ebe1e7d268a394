//! The gRPC side: KServe, health and reflection behind one service.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use bytes::{BufMut as _, BytesMut};
use futures::{FutureExt, future::BoxFuture};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Frame;
use tonic::{Status, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Service;

use super::{
    access::{Peer, Protocol},
    body::{BodyLimits, RateLimitedBody},
    guard::{Access, Admitted, Caller, Gate, Outcome, Rule, of_method},
    kserve::{grpc as kserve, grpc::ModelInfer, stream},
    messages::{CALL, PREFIX, Reader},
    received::Received,
    tfs::{grpc as tfs, grpc::Predict},
    unary::{self, Unary, UnaryBody},
};
use crate::{
    auth::Right,
    budget::Budget,
    error::{Error, ErrorKind},
    proto::{
        DESCRIPTORS,
        kserve::grpc_inference_service_server::SERVICE_NAME,
        tensorflow_serving::{model_service_server, prediction_service_server},
    },
    quota::CountedClient,
    sequence::{Arrival, Line},
    text::cut_chars,
};

/// The largest question to health and reflection, in bytes; each names a service or a symbol.
const MAX_QUESTION: usize = 64 << 10;

/// The largest body of a check of health, which is charged as a call and nothing else.
const MAX_CHECK: usize = 4 << 10;

/// Maximum number of characters of a type that an error repeats.
const MAX_REPEATED: usize = 100;

/// Path prefix of KServe's service.
const KSERVE: &str = "/inference.GRPCInferenceService/";

/// Path prefix of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// The path of a check of health.
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Path prefix of TensorFlow Serving's services.
const TENSORFLOW_SERVING: &str = "/tensorflow.serving.";

/// Makes the gRPC service of the engine of a gate, and the switch of its health service.
///
/// # Panics
///
/// Never: the descriptors are those that this crate was compiled with.
pub fn service(gate: Arc<Gate>, limits: BodyLimits) -> (GrpcService, HealthService) {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Tools ask for the first version or for the one before it.
    let first = reflection().build_v1().expect("own descriptors are valid");
    let before = reflection().build_v1alpha();
    let before = before.expect("own descriptors are valid");
    let others = Routes::new(health.max_decoding_message_size(MAX_QUESTION))
        .add_service(first.max_decoding_message_size(MAX_QUESTION))
        .add_service(before.max_decoding_message_size(MAX_QUESTION))
        .prepare();
    let service = GrpcService {
        gate,
        caller: None,
        others,
        limits,
        line: Line::default(),
    };
    (service, HealthService(reporter))
}

/// The switch of the standard health service (`grpc.health.v1.Health`).
#[derive(Clone)]
pub struct HealthService(HealthReporter);

impl HealthService {
    /// The server as a whole, and each service.
    const NAMES: [&str; 4] = [
        "",
        SERVICE_NAME,
        prediction_service_server::SERVICE_NAME,
        model_service_server::SERVICE_NAME,
    ];

    /// Sets the health status of the server as a whole, and of each service.
    pub async fn set(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in Self::NAMES {
            self.0.set_service_status(name, status).await;
        }
    }

    /// Ends the streams of those who watch, who would otherwise keep their connections open.
    pub async fn end(&mut self) {
        for name in Self::NAMES {
            self.0.clear_service_status(name).await;
        }
    }
}

/// All gRPC services. Health and reflection have a router behind the others.
#[derive(Clone)]
pub struct GrpcService {
    gate: Arc<Gate>,
    /// Sender of the calls of the connection, if anyone asks.
    caller: Option<Arc<Caller>>,
    others: Routes,
    limits: BodyLimits,
    /// The calls of the connection.
    line: Line,
}

impl GrpcService {
    /// Returns the service for another connection, whose client may have a certificate with these names.
    pub(crate) fn connected(&self, peer: Peer, names: Vec<String>) -> Self {
        Self {
            line: Line::default(),
            caller: self.gate.caller(peer, names),
            ..self.clone()
        }
    }

    /// Returns what asks for rights.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns what the bytes of all connections are charged to.
    pub fn budget(&self) -> &Budget {
        &self.limits.budget
    }

    /// Answers a call of the connection.
    // Opaque, since of a future with an `Answer` in it the compiler does not see that it is `Send`.
    pub(crate) fn call(
        &self,
        request: Request<Received>,
    ) -> impl Future<Output = Response<GrpcBody>> + Send + use<> {
        match self.gate.unguarded() {
            Some(engine) => self.answer(engine, request),
            None => self.guarded(request),
        }
    }

    /// Answers a call if the rule of its method lets it pass.
    fn guarded(&self, mut request: Request<Received>) -> Answer {
        let rule = of_method(request.uri().path());
        let caller = self.caller.as_ref();
        let asked = rule.unwrap_or(Rule::Known);
        match self.gate.admit(asked, Protocol::Grpc, caller, &mut request) {
            // A method that has no rule is none.
            Ok(_) if rule.is_none() => {
                now(Status::unimplemented("").into_http().map(GrpcBody::Left))
            }
            Ok(Admitted { access, recording }) => {
                let answer = self.answer(access, request);
                let Some(recording) = recording else {
                    return answer;
                };
                Box::pin(async move {
                    let answer = answer.await;
                    recording.end(Outcome::of_call(answer.headers())).await;
                    answer
                })
            }
            Err(mut refusal) => {
                let due = refusal.before_answer();
                let answer = refusal.into_call().map(GrpcBody::Left);
                match due {
                    None => now(answer),
                    Some(due) => Box::pin(async move {
                        due.await;
                        answer
                    }),
                }
            }
        }
    }

    /// Answers a call.
    fn answer(&self, engine: Access, request: Request<Received>) -> Answer {
        let path = request.uri().path();
        if path == ModelInfer::PATH {
            return self.unary::<ModelInfer>(engine, request);
        }
        if path == Predict::PATH {
            return self.unary::<Predict>(engine, request);
        }
        if path == stream::PATH {
            let limits = engine.body_limits(&self.limits);
            return now(stream::call(engine, &limits, request).map(GrpcBody::Right));
        }
        if of_method(path) == Some(Rule::With(Right::Admin)) && !is_grpc(request.headers()) {
            return now(refused_type(request.headers()).map(GrpcBody::Left));
        }
        let answer = if let Some(method) = path.strip_prefix(KSERVE) {
            let method = method.to_owned();
            let limits = engine.body_limits(&self.limits);
            kserve::answer(engine, &method, limits, request)
        } else if path.starts_with(TENSORFLOW_SERVING) {
            let limits = engine.body_limits(&self.limits);
            tfs::answer(engine, limits, request)
        } else {
            return self.other(&engine, request);
        };
        match answer {
            Some(answer) => Box::pin(answer.map(|response| response.map(GrpcBody::Left))),
            None => now(Status::unimplemented("").into_http().map(GrpcBody::Left)),
        }
    }

    /// Answers an inference.
    fn unary<C: Unary>(&self, engine: Access, request: Request<Received>) -> Answer {
        let limits = engine.body_limits(&self.limits);
        // Here, since this is called for one request after the other.
        let arrival = self.line.arrive();
        let call = unary::call::<C>(engine, limits, request, Arc::clone(&arrival));
        let call = call.map(|answer| unary::response(answer).map(GrpcBody::Left));
        Box::pin(ListedCall { call, arrival })
    }

    /// Answers a call of health or reflection. One that may be a stream has a place and its charge until it
    /// ends; a check of health is never refused for want of room.
    fn other(&self, engine: &Access, request: Request<Received>) -> Answer {
        let (parts, body) = request.into_parts();
        let limits = engine.body_limits(&self.limits);
        let budget = &limits.budget;
        let is_check = parts.uri.path() == CHECK;
        let held = match is_check {
            true => Ok((budget.take(CALL), None)),
            false => budget.charge(CALL + MAX_QUESTION).and_then(|charge| {
                let place = engine.stream_place()?;
                Ok((charge, Some(place)))
            }),
        };
        let held = match held {
            Ok(held) => held,
            Err(error) => return now(Status::from(error).into_http().map(GrpcBody::Left)),
        };
        let body = if parts.uri.path().starts_with(HEALTH) {
            let body = RateLimitedBody::new(body, &limits, &parts.extensions);
            let body = body.map_err(Status::from);
            match is_check {
                true => {
                    tonic::body::Body::new(Limited::new(body, MAX_CHECK).map_err(refused_check))
                }
                false => tonic::body::Body::new(body),
            }
        } else {
            let mut limits = limits;
            limits.message_size = MAX_QUESTION;
            let request = Request::from_parts(parts.clone(), body);
            match Reader::new(request, &limits) {
                Ok(reader) => questions(reader, engine.client().cloned()),
                Err(status) => return now(status.into_http().map(GrpcBody::Left)),
            }
        };
        let answer = self.others.clone().call(Request::from_parts(parts, body));
        Box::pin(async move {
            let Ok(answer) = answer.await;
            answer.map(|body| {
                let body = body.map_frame(move |frame| {
                    let _ = &held;
                    frame
                });
                GrpcBody::Right(tonic::body::Body::new(body))
            })
        })
    }
}

/// The type of the body of a call, which may have the format of messages behind it.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Returns whether a request is a call, by the type of its body. Browsers send requests of other types for pages of any
/// site, and none of this one.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let begin = kind.and_then(|kind| kind.get(..CONTENT_TYPE.len()));
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(CONTENT_TYPE))
}

/// Refuses a request to manage the server that is no call, with the status that gRPC has for it.
fn refused_type(headers: &HeaderMap) -> Response<UnaryBody> {
    let found = match headers.get(header::CONTENT_TYPE) {
        Some(found) => {
            let found = String::from_utf8_lossy(found.as_bytes());
            format!("`{}`", cut_chars(&found, MAX_REPEATED))
        }
        None => "none".to_owned(),
    };
    let error = Error::new(
        ErrorKind::Forbidden,
        format!(
            "Calls that manage the server need the content-type application/grpc, which pages of browsers cannot send; \
             found {found}"
        ),
    );
    let mut response = Status::from(error).into_http();
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// Makes the error of the body of a check, which has one of its own or is too long.
fn refused_check(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    let too_long = |_| {
        // With the code of the framework, which has a limit as well.
        Status::out_of_range(format!(
            "a check of health is longer than {MAX_CHECK} bytes"
        ))
    };
    (error.downcast::<Status>()).map_or_else(too_long, |status| *status)
}

/// Passes the messages of a stream on one by one, each when its client may send another, however many of them came
/// in one piece.
fn questions(reader: Reader, client: Option<Arc<CountedClient>>) -> tonic::body::Body {
    let frames = futures::stream::try_unfold((reader, client), async |(mut reader, client)| {
        let Some(message) = reader.next().await? else {
            return Ok::<_, Status>(None);
        };
        if let Some(client) = &client {
            client.pace().await;
        }
        let length = message.bytes.len();
        let mut bytes = BytesMut::with_capacity(PREFIX + length);
        bytes.put_u8(0);
        // It has no more than `MAX_QUESTION`.
        bytes.put_u32(length as u32);
        bytes.put(message.bytes);
        Ok(Some((Frame::data(bytes.freeze()), (reader, client))))
    });
    tonic::body::Body::new(StreamBody::new(frames))
}

pin_project_lite::pin_project! {
    /// An inference, which is listed among the calls of its connection while it waits.
    struct ListedCall<F> {
        #[pin]
        call: F,
        arrival: Arc<Arrival>,
    }
}

impl<F: Future> Future for ListedCall<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let question = this.arrival.begin_poll();
        let polled = this.call.poll(context);
        if polled.is_pending() {
            this.arrival.waits(context, question);
        }
        polled
    }
}

/// Answers at once.
fn now(response: Response<GrpcBody>) -> Answer {
    Box::pin(std::future::ready(response))
}

/// An answer to come.
type Answer = BoxFuture<'static, Response<GrpcBody>>;

/// The body of an answer, from either path.
pub type GrpcBody = http_body_util::Either<UnaryBody, tonic::body::Body>;

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, StatusCode, header};

    use super::{is_grpc, refused_type};

    #[test]
    fn a_call_is_known_by_the_type_of_its_body() {
        let headers =
            |kind: &str| HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]);
        for kind in [
            "application/grpc",
            "Application/gRPC",
            "application/grpc+proto",
            "application/grpc;x=y",
        ] {
            assert!(is_grpc(&headers(kind)), "{kind}");
        }
        for kind in ["", "text/plain", "application/json", "application/grp"] {
            assert!(!is_grpc(&headers(kind)), "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
        for headers in [HeaderMap::new(), headers(&"%".repeat(4000))] {
            let refused = refused_type(&headers);
            assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(refused.headers()["grpc-status"], "7");
            assert!(refused.headers()["grpc-message"].len() < 2000);
        }
    }
}
