//! The way of spans to a collector, over gRPC or HTTP.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use opentelemetry_otlp::{
    ExporterBuildError, WithExportConfig, WithHttpConfig, WithTonicConfig,
    tonic_types::transport::{Certificate, ClientTlsConfig, Identity},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use tokio::runtime::Handle;

use super::{
    settings::{TraceProtocol, TraceSettings},
    tracer::SpanQueue,
};
use crate::{
    https::{self, CertificatesError},
    task::Task,
    tls::{ClientTls, ClientTlsError, ClientTlsOptions},
};

/// Maximum bytes of a collector's answer, which says how many spans it has refused.
const MAX_ANSWER: usize = 1 << 20;

/// Why there is no way to a collector.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The endpoint, or a variable, is nothing that can be exported to.
    #[error("traces cannot be exported")]
    Exporter(#[from] ExporterBuildError),
    /// A certificate or a key of the variables cannot be used.
    #[error("the certificates for the collector of traces cannot be used")]
    Tls(#[from] ClientTlsError),
    /// One of them cannot be read any more.
    #[error("cannot read {0}")]
    File(PathBuf, #[source] io::Error),
    /// The client for HTTP cannot be made.
    #[error("traces cannot be exported over HTTP")]
    Certificates(#[from] CertificatesError),
    /// The client for HTTP cannot be made.
    #[error("traces cannot be exported over HTTP")]
    Client(#[from] reqwest::Error),
}

/// Makes what exports spans.
pub(super) fn exporter(
    settings: &TraceSettings,
    queue: Arc<SpanQueue>,
) -> Result<WatchedExporter, TraceError> {
    let builder = opentelemetry_otlp::SpanExporter::builder();
    let exporter = match settings.protocol {
        TraceProtocol::Grpc => {
            let mut builder = builder.with_tonic();
            if let Some(options) = &settings.tls {
                builder = builder.with_tls_config(grpc_tls(options)?);
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
                .with_http_client(CollectorClient::new(settings)?);
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
fn grpc_tls(options: &ClientTlsOptions) -> Result<ClientTlsConfig, TraceError> {
    // It finds what is wrong with one of them, and says so.
    ClientTls::new(options.clone())?;
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
                    tracing::info!("the collector takes spans again");
                }
                let lost = self.queue.take_lost();
                if lost > 0 {
                    tracing::warn!(lost, "spans were lost while too many waited");
                }
            }
            Err(error) if !self.is_failing.swap(true, Relaxed) => {
                tracing::warn!("the collector does not take spans, which are lost: {error}");
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
            Some(options) => https::with(&ClientTls::new(options.clone())?),
            None => https::plain()?,
        };
        let limit = settings.timeout.max(Duration::from_millis(1));
        let client = client
            .timeout(limit)
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
