//! Connections: accepted within a bound, served, and closed in good order.

use std::{
    convert::Infallible,
    future::Future,
    net::TcpListener as StdListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::sleep,
};
use tower::Service as _;

use super::{listen::Listeners, pace::Paced};
use crate::{config::Limits, frontends::grpc::GrpcService, task::Task};

/// What one stream may send before it is read. The default of 64 KiB makes a tensor of 600 KB
/// wait nine times for the other side.
const STREAM_WINDOW: u32 = 4 << 20;

/// What all streams of a connection may send together before it is read.
const CONNECTION_WINDOW: u32 = 32 << 20;

/// The largest piece that a sender may cut its data into.
const FRAME: u32 = 1 << 20;

/// What one stream of ours may hold ready to be sent.
const SEND_BUFFER: usize = 2 << 20;

/// Calls that one connection may have under way at once.
const STREAMS: u32 = 1024;

/// After this much silence the system asks whether the client's machine is still there, and asks
/// again as often.
const SILENCE: Duration = Duration::from_secs(60);

/// How long to wait after the system refused a connection, for example for want of handles.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// The connections of all listeners.
pub(super) struct Connections {
    accepting: Vec<Task<()>>,
    /// Set once; every connection has a receiver, so that the last to end is known.
    stop: watch::Sender<bool>,
}

/// Tells a connection to end.
type Stop = watch::Receiver<bool>;

/// Starts to serve on all listeners.
pub(super) fn serve(
    listeners: Listeners,
    grpc: GrpcService,
    rest: Router,
    limits: &Limits,
) -> Connections {
    let stop = watch::Sender::new(false);
    let mut accepting = Vec::new();
    for listener in listeners.grpc {
        let side = Side::new("gRPC", limits, stop.subscribe());
        let grpc = grpc.clone();
        let read = limits.read;
        accepting.push(side.accept(listener, move |stream, stop| {
            grpc_connection(Paced::http2(stream, read), grpc.clone(), stop)
        }));
    }
    for listener in listeners.rest {
        let side = Side::new("REST", limits, stop.subscribe());
        let rest = rest.clone();
        let read = limits.read;
        accepting.push(side.accept(listener, move |stream, stop| {
            rest_connection(stream, read, rest.clone(), stop)
        }));
    }
    Connections { accepting, stop }
}

impl Connections {
    /// Stops accepting, lets connections end what they are at, and drops them after a limit.
    pub(super) async fn close(self, limit: Duration) {
        drop(self.accepting);
        self.stop.send_replace(true);
        if tokio::time::timeout(limit, self.stop.closed())
            .await
            .is_err()
        {
            tracing::debug!("closing connections that did not close themselves");
        }
    }
}

/// One listener's bound and means.
struct Side {
    name: &'static str,
    room: Arc<Semaphore>,
    stop: Stop,
}

impl Side {
    fn new(name: &'static str, limits: &Limits, stop: Stop) -> Self {
        Self {
            name,
            room: Arc::new(Semaphore::new(limits.connections)),
            stop,
        }
    }

    /// Accepts connections until the task is dropped. Those above the bound wait in the system's
    /// queue until another one ends.
    fn accept<F>(
        self,
        listener: StdListener,
        serve: impl Fn(TcpStream, Stop) -> F + Send + 'static,
    ) -> Task<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Task::spawn(async move {
            let listener = match TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!("cannot accept {} connections: {error}", self.name);
                    return;
                }
            };
            loop {
                let Ok(place) = Arc::clone(&self.room).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        // Answers are whole; waiting for more to send with them gains nothing.
                        if let Err(error) = stream.set_nodelay(true) {
                            tracing::debug!("cannot set TCP_NODELAY: {error}");
                        }
                        // A client whose machine is gone must not keep its place for ever.
                        let alive = TcpKeepalive::new()
                            .with_time(SILENCE)
                            .with_interval(SILENCE);
                        if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&alive) {
                            tracing::debug!("cannot set SO_KEEPALIVE: {error}");
                        }
                        let connection = serve(stream, self.stop.clone());
                        Task::spawn(async move {
                            connection.await;
                            drop(place);
                        })
                        .detach();
                    }
                    Err(error) => {
                        tracing::warn!("cannot accept a {} connection: {error}", self.name);
                        sleep(AFTER_REFUSAL).await;
                    }
                }
            }
        })
    }
}

async fn grpc_connection(stream: Paced, service: GrpcService, stop: Stop) {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(STREAMS)
        .auto_date_header(false);
    let used = Used::default();
    let service = used.mark(service);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = drive(connection, &used, stop).await {
        tracing::debug!("gRPC connection ended: {error}");
    }
}

async fn rest_connection(stream: TcpStream, read: Duration, router: Router, stop: Stop) {
    let answering = Arc::new(AtomicBool::new(false));
    let stream = Paced::http1(stream, read, Arc::clone(&answering));
    let service = service_fn(move |request: Request<Incoming>| {
        answering.store(true, Ordering::Release);
        let answering = Arc::clone(&answering);
        let answer = router.clone().call(request);
        async move {
            let response = answer.await;
            answering.store(false, Ordering::Release);
            response as Result<_, Infallible>
        }
    });
    let used = Used::default();
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), used.mark(service));
    if let Err(error) = drive(connection, &used, stop).await {
        tracing::debug!("REST connection ended: {error}");
    }
}

/// Runs a connection to its end; after the sign to stop, to the end of what it is at. One without
/// any request so far is at nothing.
async fn drive<C: GracefulConnection>(
    connection: C,
    used: &Used,
    mut stop: Stop,
) -> Result<(), C::Error> {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stop.wait_for(|stop| *stop) => {
            if !used.0.load(Ordering::Acquire) {
                return Ok(());
            }
            connection.as_mut().graceful_shutdown();
        }
    }
    connection.await
}

/// Whether a connection has had a request.
#[derive(Clone, Default)]
struct Used(Arc<AtomicBool>);

impl Used {
    /// Makes a service that notes its first request.
    fn mark<S>(&self, service: S) -> Marked<S> {
        Marked {
            service,
            used: self.clone(),
        }
    }
}

struct Marked<S> {
    service: S,
    used: Used,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Marked<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: Request<Incoming>) -> S::Future {
        self.used.0.store(true, Ordering::Release);
        self.service.call(request)
    }
}
