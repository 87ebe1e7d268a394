//! A collector of OpenTelemetry: the service that spans are exported to, and the trees that they make.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, header},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Certificate, Identity, ServerTlsConfig},
};

use super::{certificates::Certificates, eventually};

/// A collector; dropping it closes its port.
pub(crate) struct Collector {
    address: SocketAddr,
    received: Received,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Export>>>);

/// An export as it came.
struct Export {
    headers: BTreeMap<String, String>,
    message: ExportTraceServiceRequest,
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = request.metadata().clone().into_headers();
        self.add(&headers, request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Received {
    /// Makes the paths of a collector for HTTP.
    fn router(self) -> Router {
        async fn export(
            State(received): State<Received>,
            headers: HeaderMap,
            body: Bytes,
        ) -> Bytes {
            assert_eq!(headers[header::CONTENT_TYPE], "application/x-protobuf");
            received.add(&headers, ExportTraceServiceRequest::decode(body).unwrap());
            ExportTraceServiceResponse::default().encode_to_vec().into()
        }
        let router = Router::new().route("/v1/traces", post(export));
        router.with_state(self)
    }

    fn add(&self, headers: &HeaderMap, message: ExportTraceServiceRequest) {
        let headers = headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), value.into_owned())
        });
        let headers = headers.collect();
        self.0.lock().unwrap().push(Export { headers, message });
    }
}

/// Takes connections over TLS alone.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Makes the settings of a server that wants certificates of its clients.
fn tls(certificates: &Certificates) -> ServerConfig {
    let read = |name: &str| fs::read(certificates.path(name)).unwrap();
    let certificate = |name: &str| CertificateDer::from_pem_slice(&read(name)).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("server.key")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate("server.pem")], key)
        .unwrap()
}

impl Collector {
    /// Starts one for gRPC.
    pub(crate) fn grpc() -> Self {
        Self::start(|listener, received| async move {
            let service = TraceServiceServer::new(received)
                .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
            let incoming = TcpListenerStream::new(listener);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        })
    }

    /// Starts one for gRPC over TLS, which wants certificates of its clients.
    pub(crate) fn grpc_tls(certificates: &Certificates) -> Self {
        let read = |name: &str| fs::read(certificates.path(name)).unwrap();
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(read("server.pem"), read("server.key")))
            .client_ca_root(Certificate::from_pem(read("ca.pem")));
        Self::start(|listener, received| async move {
            let incoming = TcpListenerStream::new(listener);
            let mut server = tonic::transport::Server::builder().tls_config(tls).unwrap();
            let server = server.add_service(TraceServiceServer::new(received));
            server.serve_with_incoming(incoming).await.unwrap();
        })
    }

    /// Starts one for HTTP.
    pub(crate) fn http() -> Self {
        Self::start(|listener, received| async move {
            axum::serve(listener, received.router()).await.unwrap();
        })
    }

    /// Starts one for HTTP over TLS, which wants certificates of its clients.
    pub(crate) fn http_tls(certificates: &Certificates) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls(certificates)));
        Self::start(|listener, received| async move {
            let listener = TlsListener { listener, acceptor };
            axum::serve(listener, received.router()).await.unwrap();
        })
    }

    fn start<F>(serve: impl FnOnce(TcpListener, Received) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Received::default();
        runtime.spawn(serve(listener, received.clone()));
        Self {
            address,
            received,
            _runtime: runtime,
        }
    }

    /// Returns its URL with TLS.
    pub(crate) fn https(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let exports = self.received.0.lock().unwrap();
        let resources = exports.iter().flat_map(|it| &it.message.resource_spans);
        let scopes = resources.flat_map(|it| &it.scope_spans);
        scopes.flat_map(|it| it.spans.clone()).collect()
    }

    /// Returns the headers of the first export, and what it says of the server.
    pub(crate) fn first(&self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let exports = self.received.0.lock().unwrap();
        let export = exports.first().expect("there is an export");
        let resource = export.message.resource_spans[0].resource.as_ref().unwrap();
        let attributes = resource.attributes.iter();
        let resource = attributes.map(|it| (it.key.clone(), text(it))).collect();
        (export.headers.clone(), resource)
    }

    /// Waits for the span of a request, and returns the spans of its trace.
    pub(crate) fn trace(&self, is_wanted: impl Fn(&Span) -> bool) -> Vec<Span> {
        eventually("the span of the request", || {
            let spans = self.spans();
            let is_root = |span: &&Span| span.kind() == SpanKind::Server && is_wanted(span);
            // What is below it ends before it.
            let trace = spans.iter().find(is_root)?.trace_id.clone();
            let spans = spans.into_iter();
            Some(spans.filter(|span| span.trace_id == trace).collect())
        })
    }

    /// Waits for the trace of this id.
    pub(crate) fn trace_of(&self, id: &str) -> Vec<Span> {
        self.trace(|span| hex(&span.trace_id) == id)
    }

    /// Waits for the trace of a request whose span has this name.
    pub(crate) fn trace_named(&self, name: &str) -> Vec<Span> {
        self.trace(|span| span.name == name)
    }
}

/// Returns an id in hexadecimal.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns an attribute of a span.
pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == name);
    found.map(text)
}

fn text(attribute: &KeyValue) -> String {
    match &attribute.value {
        Some(AnyValue {
            value: Some(value), ..
        }) => match value {
            Value::StringValue(value) => value.clone(),
            Value::IntValue(value) => value.to_string(),
            Value::BoolValue(value) => value.to_string(),
            other => format!("{other:?}"),
        },
        _ => String::new(),
    }
}

/// Draws the spans of a trace below each other, in the order in which they began, with their attributes by name. The
/// address of the client is left out. Fails if a span is not within its parent.
pub(crate) fn tree(spans: &[Span]) -> String {
    let mut drawn = String::new();
    let is_known = |id: &[u8]| spans.iter().any(|span| span.span_id == id);
    let roots = spans.iter().filter(|span| !is_known(&span.parent_span_id));
    for root in sorted(roots) {
        draw(spans, root, 0, &mut drawn);
    }
    drawn
}

fn sorted<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<&'a Span> {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_by_key(|span| {
        let part = attribute(span, "ovms.part");
        (part, span.start_time_unix_nano, span.end_time_unix_nano)
    });
    spans
}

fn draw(spans: &[Span], span: &Span, depth: usize, drawn: &mut String) {
    /// Difference of the clocks of a begin and of an end.
    const SLACK: u64 = 1_000_000;
    let mut attributes: Vec<String> = (span.attributes.iter())
        .filter(|it| it.key != "client.address")
        .map(|it| format!("{}={}", it.key, text(it)))
        .collect();
    attributes.sort();
    let failed = span
        .status
        .as_ref()
        .filter(|it| it.code() == StatusCode::Error);
    let failed = failed.map_or(String::new(), |it| format!(" failed: {}", it.message));
    let indent = "  ".repeat(depth);
    let (name, attributes) = (&span.name, attributes.join(" "));
    let line = format!("{indent}{name} {attributes}{failed}");
    let _ = writeln!(drawn, "{}", line.trim_end());
    assert!(
        span.start_time_unix_nano <= span.end_time_unix_nano,
        "{line}"
    );
    let below = spans.iter().filter(|it| it.parent_span_id == span.span_id);
    for child in sorted(below) {
        let begins = child.start_time_unix_nano + SLACK >= span.start_time_unix_nano;
        let ends = child.end_time_unix_nano <= span.end_time_unix_nano + SLACK;
        assert!(begins && ends, "{} is not within {line}", child.name);
        draw(spans, child, depth + 1, drawn);
    }
}
