//! Connections: accepted within a bound, served, and closed in good order.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::{Ipv4Addr, SocketAddr, TcpListener as StdListener},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::sleep,
};

use super::{
    channel::Channel,
    inline_calls::{InlineCalls, InlineDriver},
    listen::Listeners,
    pace::{Paced, Turn},
};
use crate::{
    config::ServerSettings,
    frontends::{
        access::{AccessLog, Entry, Logged, Protocol},
        grpc::{GrpcBody, GrpcService},
        rest::Rest,
    },
    task::Task,
};

/// What one stream may send before it is read. The default of 64 KiB makes a tensor of 600 KB
/// wait nine times for the other side.
const STREAM_WINDOW: u32 = 4 << 20;

/// What all streams of a connection may send together before it is read.
const CONNECTION_WINDOW: u32 = 32 << 20;

/// The largest piece that a sender may cut its data into.
const FRAME: u32 = 1 << 20;

/// What one stream of ours may hold ready to be sent.
const SEND_BUFFER: usize = 2 << 20;

/// The largest head of an HTTP/1 request. Without a bound of its own, a head that is larger than
/// hyper's buffer is refused or taken as its pieces happen to arrive.
const HEAD: usize = 400 << 10;

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

/// The service behind a connection.
#[derive(Clone)]
pub enum Service {
    /// HTTP/2 with the gRPC services.
    Grpc(GrpcService),
    /// HTTP/1 with the REST side.
    Rest(Rest),
}

/// Serves one connection until it ends, over any stream: for a server within another program, and
/// for tests. It is served as one of a port's.
pub async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: Service,
    access: AccessLog,
    settings: &ServerSettings,
) {
    let read = settings.limits.read;
    // Nobody else has it, so that there is no sign to stop.
    let stop = watch::Sender::new(false);
    let peer = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    match service {
        Service::Grpc(grpc) => {
            let channel = Arc::new(Channel::new(&settings.grpc_channel_arguments));
            let calls = Calls::new(&grpc, access, peer);
            let stream = Paced::http2(stream, read);
            Box::pin(grpc_connection(stream, calls, channel, stop.subscribe())).await;
        }
        Service::Rest(rest) => {
            let stop = stop.subscribe();
            Box::pin(rest_connection(stream, peer, read, rest, access, stop)).await;
        }
    }
}

/// Tells a connection to end.
type Stop = watch::Receiver<bool>;

/// Starts to serve on all listeners.
pub(super) fn serve(
    listeners: Listeners,
    grpc: &GrpcService,
    rest: &Rest,
    access: &AccessLog,
    settings: &ServerSettings,
) -> Connections {
    let limits = &settings.limits;
    let stop = watch::Sender::new(false);
    let mut accepting = Vec::new();
    let channel = Arc::new(Channel::new(&settings.grpc_channel_arguments));
    for listener in listeners.grpc {
        let side = Side::new("gRPC", limits.connections, stop.subscribe());
        let (grpc, access, read) = (grpc.clone(), access.clone(), limits.read);
        let channel = Arc::clone(&channel);
        accepting.push(side.accept(listener, move |stream, peer, stop| {
            let calls = Calls::new(&grpc, access.clone(), peer);
            grpc_connection(
                Paced::http2(stream, read),
                calls,
                Arc::clone(&channel),
                stop,
            )
        }));
    }
    for listener in listeners.rest {
        let side = Side::new("REST", limits.connections, stop.subscribe());
        let (rest, access, read) = (rest.clone(), access.clone(), limits.read);
        accepting.push(side.accept(listener, move |stream, peer, stop| {
            rest_connection(stream, peer, read, rest.clone(), access.clone(), stop)
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
    fn new(name: &'static str, connections: usize, stop: Stop) -> Self {
        Self {
            name,
            room: Arc::new(Semaphore::new(connections)),
            stop,
        }
    }

    /// Accepts connections until the task is dropped. Those above the bound wait in the system's
    /// queue until another one ends.
    fn accept<F>(
        self,
        listener: StdListener,
        serve: impl Fn(TcpStream, SocketAddr, Stop) -> F + Send + 'static,
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
                    Ok((stream, peer)) => {
                        // A listener of both families has those of IPv4 as mapped addresses.
                        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
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
                        let connection = serve(stream, peer, self.stop.clone());
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

/// The calls of one gRPC connection.
struct Calls {
    grpc: GrpcService,
    access: AccessLog,
    peer: SocketAddr,
    /// Whether there has been one.
    used: Arc<AtomicBool>,
}

impl Calls {
    fn new(grpc: &GrpcService, access: AccessLog, peer: SocketAddr) -> Self {
        Self {
            grpc: grpc.connected(),
            access,
            peer,
            used: Arc::default(),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response<Logged<GrpcBody>>;
    type Error = Infallible;
    type Future = Call;

    fn call(&self, mut request: Request<Incoming>) -> Call {
        self.used.store(true, Ordering::Release);
        let entry = self.access.begin(Protocol::Grpc, self.peer, &mut request);
        Call {
            answer: self.grpc.call(request),
            entry,
        }
    }
}

/// A call and its line in the log.
struct Call {
    answer: <GrpcService as hyper::service::Service<Request<Incoming>>>::Future,
    entry: Option<Entry>,
}

impl Future for Call {
    type Output = Result<Response<Logged<GrpcBody>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.answer.as_mut().poll(context)?;
        answer.map(|response| Ok(Entry::answered(self.entry.take(), response)))
    }
}

async fn grpc_connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: Paced<S>,
    calls: Calls,
    channel: Arc<Channel>,
    stop: Stop,
) {
    let inline = InlineCalls::default();
    let mut builder = hyper::server::conn::http2::Builder::new(inline.clone());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .auto_date_header(false);
    channel.set(&mut builder);
    let used = Arc::clone(&calls.used);
    let connection = builder.serve_connection(TokioIo::new(stream), calls);
    let age = channel.age;
    let driver = InlineDriver::new(inline);
    let poll =
        |connection: Pin<&mut _>, context: &mut Context<'_>| driver.poll(connection, context);
    if let Err(error) = drive(connection, poll, &*used, age, stop).await {
        tracing::debug!("gRPC connection ended: {error}");
    }
}

async fn rest_connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    peer: SocketAddr,
    read: Duration,
    rest: Rest,
    access: AccessLog,
    stop: Stop,
) {
    let turn = Arc::<Turn>::default();
    let stream = Paced::http1(stream, read, Arc::clone(&turn));
    let service = {
        let turn = Arc::clone(&turn);
        service_fn(move |mut request: Request<Incoming>| {
            turn.begin();
            let entry = access.begin(Protocol::Http, peer, &mut request);
            let (rest, turn) = (rest.clone(), Arc::clone(&turn));
            async move {
                let response = rest.answer(request).await;
                turn.answered();
                let response = Entry::answered(entry, response);
                Ok::<_, Infallible>(response.map(|body| Answer { body, turn }))
            }
        })
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = drive(connection, Future::poll, &*turn, None, stop).await {
        tracing::debug!("REST connection ended: {error}");
    }
}

/// Whether a connection has anything to bring to its end.
trait AtWork {
    fn is(&self) -> bool;

    /// Told when the server stops while there is.
    fn stop(&self) {}
}

/// Whether there has been a request at all: how far HTTP/2 has sent an answer cannot be seen.
impl AtWork for AtomicBool {
    fn is(&self) -> bool {
        self.load(Ordering::Acquire)
    }
}

impl AtWork for Turn {
    fn is(&self) -> bool {
        self.busy()
    }

    fn stop(&self) {
        Self::stop(self);
    }
}

/// Waits for the sign to stop.
async fn stopped(stop: &mut Stop) {
    // An error is the end of the sender, which is a stop as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Runs a connection to its end, polled in its own way; after the sign to stop, or when it is old, to
/// the end of what it is at. One that is at nothing is dropped.
async fn drive<C: GracefulConnection>(
    connection: C,
    poll: impl Fn(Pin<&mut C>, &mut Context<'_>) -> Poll<C::Output>,
    at_work: &(dyn AtWork + Sync),
    age: Option<Duration>,
    mut stop: Stop,
) -> Result<(), C::Error> {
    let mut connection = std::pin::pin!(connection);
    if let Some(age) = age {
        tokio::select! {
            ended = poll_fn(|context| poll(connection.as_mut(), context)) => return ended,
            () = sleep(age) => connection.as_mut().graceful_shutdown(),
            () = stopped(&mut stop) => {}
        }
    }
    tokio::select! {
        ended = poll_fn(|context| poll(connection.as_mut(), context)) => return ended,
        () = stopped(&mut stop) => {
            if !at_work.is() {
                return Ok(());
            }
            at_work.stop();
            connection.as_mut().graceful_shutdown();
        }
    }
    poll_fn(|context| poll(connection.as_mut(), context)).await
}

/// The body of an HTTP/1 answer, which tells the turn when it is over.
struct Answer<B> {
    body: B,
    turn: Arc<Turn>,
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.turn.made();
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
