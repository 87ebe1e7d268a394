//! A collector of traces that answers at once and keeps nothing but their number.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tonic::{Request, Response, Status, transport::Server};

use crate::peer::free_ports;

#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

#[tonic::async_trait]
impl TraceService for Counter {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let exported = request.into_inner().resource_spans;
        let scopes = exported.iter().flat_map(|of| &of.scope_spans);
        let spans: usize = scopes.map(|of| of.spans.len()).sum();
        self.0.fetch_add(spans as u64, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Collects on a port of loopback until stdin is closed, and says how many spans came.
pub(crate) fn run(port: u16) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be had");
    let counter = Counter::default();
    let service = TraceServiceServer::new(counter.clone());
    let server = Server::builder().add_service(service);
    runtime.spawn(async move {
        let served = server.serve(([127, 0, 0, 1], port).into()).await;
        served.expect("the port is free");
    });
    let read = io::stdin().read_to_end(&mut Vec::new());
    read.expect("a pipe can be read");
    let spans = counter.0.load(Ordering::Relaxed);
    let said = write!(io::stdout(), "{spans}");
    said.expect("the bench listens");
}

/// A collector in a process of its own; killed on drop.
pub(crate) struct Collector {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    port: u16,
}

impl Collector {
    /// Starts it, and waits until it listens.
    pub(crate) fn start() -> Self {
        let [port] = free_ports();
        let mut child = Command::new(std::env::current_exe().expect("a program has a path"))
            .args(["--inner", "collector", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the collector starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(10), "no collector");
            thread::sleep(Duration::from_millis(10));
        }
        Self {
            child,
            stdin,
            stdout,
            port,
        }
    }

    /// Returns its address for `--otlp-endpoint`.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it; returns how many spans came.
    pub(crate) fn end(mut self) -> u64 {
        self.stdin = None;
        let mut said = String::new();
        let read = self.stdout.read_to_string(&mut said);
        read.expect("a pipe can be read");
        said.parse().expect("it says a number")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
