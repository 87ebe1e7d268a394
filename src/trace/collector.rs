//! The way of spans to a collector, over gRPC or HTTP.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use opentelemetry_otlp::{
    Compression, WithExportConfig, WithHttpConfig, WithTonicConfig,
    tonic_types::transport::{Certificate, ClientTlsConfig, Identity},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use tokio::runtime::Handle;

use super::{
    error::TraceError,
    settings::{TraceProtocol, TraceSettings, TraceTls},
    tracer::SpanQueue,
};
use crate::{https, task::Task, tls::ClientTls};

/// Maximum bytes of a collector's answer, which says how many spans it has refused.
const MAX_ANSWER: usize = 1 << 20;

/// Makes what exports spans.
pub(super) fn exporter(
    settings: &TraceSettings,
    queue: Arc<SpanQueue>,
) -> Result<WatchedExporter, TraceError> {
    let builder = opentelemetry_otlp::SpanExporter::builder();
    let exporter = match settings.protocol {
        TraceProtocol::Grpc => {
            let mut builder = builder.with_tonic().with_timeout(settings.timeout);
            if let Some(tls) = &settings.tls {
                builder = builder.with_tls_config(grpc_tls(tls)?);
            }
            if settings.is_compressed {
                builder = builder.with_compression(Compression::Gzip);
            }
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            builder.build()?
        }
        TraceProtocol::Http => {
            let mut builder = builder
                .with_http()
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_timeout(settings.timeout)
                .with_http_client(CollectorClient::new(settings)?);
            if settings.is_compressed {
                builder = builder.with_compression(Compression::Gzip);
            }
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            builder.build()?
        }
    };
    Ok(WatchedExporter {
        exporter,
        queue,
        is_failing: AtomicBool::new(false),
    })
}

/// Reads the files of TLS, as the client for gRPC takes them.
fn grpc_tls(tls: &TraceTls) -> Result<ClientTlsConfig, TraceError> {
    // It finds what is wrong with one of them, and says so.
    let tls = client_tls(tls)?;
    let options = tls.options();
    let read =
        |path: &Path| fs::read(path).map_err(|error| TraceError::File(path.to_owned(), error));
    let config = match &options.cacert {
        Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(path)?)),
        None => ClientTlsConfig::new().with_enabled_roots(),
    };
    Ok(match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => config.identity(Identity::from_pem(read(cert)?, read(key)?)),
        _ => config,
    })
}

/// Reads the files of TLS.
fn client_tls(tls: &TraceTls) -> Result<ClientTls, TraceError> {
    Ok(ClientTls::named(tls.options.clone(), tls.names)?)
}

/// An exporter whose failures are logged, once until it works again.
#[derive(Debug)]
pub(super) struct WatchedExporter {
    exporter: opentelemetry_otlp::SpanExporter,
    queue: Arc<SpanQueue>,
    is_failing: AtomicBool,
}

impl SpanExporter for WatchedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.queue.left(batch.len());
        let sent = self.exporter.export(batch).await;
        match &sent {
            Ok(()) => {
                if self.is_failing.swap(false, Relaxed) {
                    tracing::info!("the collector accepts spans again");
                }
                let lost = self.queue.take_lost();
                if lost > 0 {
                    tracing::warn!(lost, "spans were lost since the queue was full");
                }
            }
            Err(error) if !self.is_failing.swap(true, Relaxed) => {
                tracing::warn!("the collector does not accept spans, which are lost: {error}");
            }
            Err(_) => {}
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Client for HTTP. The thread that exports has no runtime, so that requests are made on the server's.
#[derive(Debug)]
struct CollectorClient {
    client: reqwest::Client,
    runtime: Handle,
}

impl CollectorClient {
    fn new(settings: &TraceSettings) -> Result<Self, TraceError> {
        let client = match &settings.tls {
            Some(tls) => https::with(&client_tls(tls)?),
            None => https::plain()?,
        };
        let url = settings.endpoint.as_deref().map(reqwest::Url::parse);
        // The default of OpenTelemetry is on this machine.
        let client = match url {
            Some(Ok(url)) if !https::is_of_this_machine(&url) => client,
            _ => client.no_proxy(),
        };
        let client = client
            .timeout(settings.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            client,
            runtime: Handle::current(),
        })
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move {
            let mut response = client.execute(request.try_into()?).await?;
            let mut answer = Response::new(Bytes::new());
            *answer.status_mut() = response.status();
            std::mem::swap(answer.headers_mut(), response.headers_mut());
            let mut body = BytesMut::new();
            while let Some(more) = response.chunk().await? {
                if body.len() + more.len() > MAX_ANSWER {
                    return Err(ResponseBodyTooLarge::new().into());
                }
                body.extend_from_slice(&more);
            }
            *answer.body_mut() = body.freeze();
            Ok::<_, HttpError>(answer)
        };
        Task::spawn_on(&self.runtime, sent).await?
    }
}
