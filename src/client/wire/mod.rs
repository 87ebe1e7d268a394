//! Connections for load: requests are bytes that were made before, and of the answers only the end is read.
//!
//! The clients of [`crate::client`] are made for any request; this one spends a fraction of their processor time on
//! each, see `docs/bench.md`.

mod http1;
mod http2;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use hyper::{
    HeaderMap, Request, Uri,
    header::{HOST, HeaderValue, USER_AGENT},
    http::uri::PathAndQuery,
};

use rustls::ClientConfig;

use crate::client::{
    connector::{self, ClientStream},
    error::{BoxError, CallPhase, ClientError},
    options::ClientOptions,
};

use http1::Http1;
pub(super) use http2::{Http2, MessageError, MessageStream};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("ovms/", env!("CARGO_PKG_VERSION")));

/// Request as its bytes.
#[derive(Debug, Clone)]
pub(in crate::client) struct WireRequest {
    /// Method, URI, and headers.
    pub(in crate::client) head: Request<()>,
    /// Body, with its frame over gRPC.
    pub(in crate::client) body: Bytes,
}

impl WireRequest {
    /// Makes a POST to a path of a server. Over gRPC the URI is whole, as HTTP/2 has it.
    pub(in crate::client) fn post(
        options: &ClientOptions,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Self, BoxError> {
        let uri = match options.api.is_grpc() {
            true => format!("{}{path}", options.address.url()),
            false => path.to_owned(),
        };
        let mut head = Request::post(uri).body(())?;
        let all = head.headers_mut();
        all.extend(options.headers.clone());
        all.extend(headers);
        all.insert(USER_AGENT, AGENT);
        if options.api.is_grpc() {
            all.insert("content-type", HeaderValue::from_static("application/grpc"));
            all.insert("te", HeaderValue::from_static("trailers"));
        } else {
            all.insert(HOST, HeaderValue::from_str(&options.address.authority())?);
        }
        Ok(Self { head, body })
    }

    /// Returns the same request for another method of a gRPC service.
    pub(in crate::client) fn at(mut self, path: &'static str) -> Self {
        let mut parts = self.head.uri().clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        *self.head.uri_mut() = Uri::from_parts(parts).expect("only the path is another one");
        self
    }
}

/// Answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// Moment of the first of several responses.
    pub(super) first: Option<Instant>,
    /// Number of responses.
    pub(super) responses: u64,
    /// Number of rows of the request.
    pub(super) rows: u64,
}

impl Answered {
    pub(super) const ONCE: Self = Self {
        first: None,
        responses: 1,
        rows: 1,
    };

    /// Sets the number of rows of the request.
    pub(super) const fn of(self, rows: u64) -> Self {
        Self { rows, ..self }
    }
}

/// Connections to one server.
#[derive(Debug)]
pub(super) enum Wire {
    /// gRPC.
    Http2(Http2),
    /// REST.
    Http1(Http1),
}

impl Wire {
    pub(super) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let tls = options.tls().map_err(|error| ClientError::Unreachable {
            address: options.address.clone(),
            source: error.into(),
        })?;
        let target = Target {
            options: options.clone(),
            tls: tls.map(|tls| {
                let protocol = match options.api.is_grpc() {
                    true => connector::GRPC,
                    false => connector::HTTP,
                };
                Arc::new(tls.config(protocol))
            }),
        };
        Ok(match options.api.is_grpc() {
            true => Self::Http2(Http2::new(target)),
            false => Self::Http1(Http1::new(target)),
        })
    }

    /// Sends a request and waits for the end of a good answer.
    pub(super) async fn send(&self, lane: usize, request: &WireRequest) -> Result<(), ClientError> {
        match self {
            Self::Http2(wire) => wire.send(lane, request).await,
            Self::Http1(wire) => wire.send(lane, request).await,
        }
    }
}

/// Server, and the time limit for it.
#[derive(Debug, Clone)]
struct Target {
    options: ClientOptions,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    fn unreachable(&self, source: impl Into<BoxError>) -> ClientError {
        ClientError::Unreachable {
            address: self.options.address.clone(),
            source: source.into(),
        }
    }

    /// Returns the error of a request on a connection that has failed.
    fn broken(&self, source: impl Into<BoxError>) -> ClientError {
        ClientError::broken(self.options.address.clone(), source)
    }

    /// Runs a step within the time limit.
    async fn within<T>(
        &self,
        step: CallPhase,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.options.within(step, work).await
    }

    async fn connect(&self) -> Result<Box<dyn ClientStream>, ClientError> {
        let connected = connector::open(self.options.address.clone(), self.tls.clone()).await;
        connected.map_err(|error| self.unreachable(error))
    }
}

#[cfg(test)]
mod tests;
