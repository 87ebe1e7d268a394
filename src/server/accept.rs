//! Connections: accepted within a bound, served, and closed in good order.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::OptionFuture;
use hyper::{
    HeaderMap, Request, Version,
    body::Incoming,
    header::{self, HeaderValue},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::yield_now,
    time::{Sleep, sleep},
};

use super::{
    channel::Channel,
    departure::Attended,
    inline_calls::{self, InlineCalls, InlineDriver},
    io_timeout::{ConnectionState, IoTimeouts, TimeoutStream},
    limits::{Addresses, Counted, LogLimit},
    listen::Listeners,
    pieces::Pieces,
    poll_turns::PollTurns,
    reaper::Reaper,
    stream::{Acceptor, Listener, Stream},
    tls::{Handshakes, TlsProtocol},
    watchdog::{Close, SharedStreams, Watchdog},
};
use crate::{
    config::{Flags, ServerSettings},
    error::chain,
    frontends::{
        access::{AccessLog, Entry, Peer, Protocol},
        grpc::GrpcService,
        received::{NotedBody, ReadBytes, Received, Unread},
        rest::Rest,
    },
    task::Task,
};

/// Window of a stream. With the default of 64 KiB, a tensor of 600 KB waits nine times for the other
/// side. It is also the unread data that a stream may hold, as one to a graph that takes no more.
const STREAM_WINDOW: u32 = 1 << 20;

/// Window of a connection, for all of its streams together.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// The largest piece that a sender may cut its data into.
const MAX_FRAME: u32 = 1 << 20;

/// Send buffer of a stream.
const SEND_BUFFER: usize = 2 << 20;

/// The largest head of an HTTP/1 request. Without a bound of its own, a head that is larger than
/// hyper's buffer is refused or taken as its pieces happen to arrive.
const MAX_HEAD: usize = 400 << 10;

/// Time in which a client that has no request in flight when the server stops may still send one: it may be
/// about to, or have done so already. It is answered, with the notice that the connection ends.
pub(super) const LAST: Duration = Duration::from_millis(250);

/// Time for which connections are accepted after the signal to stop: those that wait in the system's queue
/// would get a reset when it closes.
const ACCEPTING: Duration = Duration::from_millis(50);

/// Pause after the system refused a connection, for example for want of handles.
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

impl Service {
    fn reads_certificates(&self) -> bool {
        match self {
            Self::Grpc(grpc) => grpc.gate().reads_certificates(),
            Self::Rest(rest) => rest.gate().reads_certificates(),
        }
    }
}

/// Serves one connection until it ends, over any stream: for a server within another program, and
/// for tests. It is served as one of a port's.
pub async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: Service,
    access: AccessLog,
    settings: &ServerSettings,
) {
    let terms = Terms::new(&settings.flags, Arc::new(Channel::of(settings)));
    // Nobody else has it, so that there is no sign to stop.
    let stop = watch::Sender::new(false);
    let peer = Peer::Address(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let looks = Arc::clone(&terms.reaper);
    tokio::select! {
        () = connection(stream, (peer, Vec::new()), service, access, terms, stop.subscribe()) => {}
        () = looks.run() => {}
    }
}

/// Serves one connection until it ends; the names are those of its client's certificate, if they count.
async fn connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    (peer, names): (Peer, Vec<String>),
    service: Service,
    access: AccessLog,
    terms: Terms,
    stop: Stop,
) {
    match service {
        Service::Grpc(grpc) => {
            let grpc = grpc.connected(peer, names);
            grpc_connection(stream, peer, grpc, access, terms, stop).await;
        }
        Service::Rest(rest) => {
            let rest = rest.connected(peer, names);
            rest_connection(stream, peer, rest, access, terms, stop).await;
        }
    }
}

/// Signal that ends a connection.
pub(super) type Stop = watch::Receiver<bool>;

/// Starts to serve on all listeners.
pub(super) fn serve(
    listeners: Listeners,
    grpc: GrpcService,
    rest: Rest,
    management: Rest,
    access: &AccessLog,
    settings: &ServerSettings,
) -> Connections {
    let stop = watch::Sender::new(false);
    let mut accepting = Vec::new();
    let channel = Arc::new(Channel::of(settings));
    // Management has places of its own, which no client of the other ports can take.
    let tls = listeners.tls.as_ref().zip(settings.tls.as_ref());
    for (name, service, listeners, has_tls) in [
        (
            "gRPC",
            Service::Grpc(grpc),
            listeners.grpc,
            tls.is_some_and(|(_, tls)| tls.grpc),
        ),
        (
            "REST",
            Service::Rest(rest),
            listeners.rest,
            tls.is_some_and(|(_, tls)| tls.rest),
        ),
        (
            "management",
            Service::Rest(management),
            listeners.management,
            tls.is_some_and(|(_, tls)| tls.management),
        ),
    ] {
        let protocol = match service {
            Service::Grpc(_) => TlsProtocol::Grpc,
            Service::Rest(_) => TlsProtocol::Http,
        };
        let handshakes = tls
            .filter(|_| has_tls)
            .map(|(tls, _)| Handshakes::new(name, Arc::clone(tls), protocol, &settings.flags));
        let (of_port, of_sockets): (Vec<_>, Vec<_>) =
            (listeners.into_iter()).partition(|listener| matches!(listener, Listener::Tcp(_)));
        // The addresses of a port have their places together, and each Unix socket has its own.
        let sockets = of_sockets.into_iter().map(|socket| vec![socket]);
        for listeners in sockets.chain([of_port]).filter(|it| !it.is_empty()) {
            let terms = Terms::new(&settings.flags, Arc::clone(&channel));
            let mut side = Side::new(name, &settings.flags, terms, stop.subscribe());
            side.tls.clone_from(&handshakes);
            let side = Arc::new(side);
            accepting.push(Arc::clone(&side).look_after());
            accepting.extend(listeners.into_iter().map(|listener| {
                Arc::clone(&side).accept(listener, service.clone(), access.clone())
            }));
        }
    }
    Connections { accepting, stop }
}

impl Connections {
    /// Stops accepting, lets connections end what they are at, and drops them after a limit.
    pub(super) async fn close(self, limit: Duration) {
        self.stop.send_replace(true);
        if tokio::time::timeout(limit, self.stop.closed())
            .await
            .is_err()
        {
            tracing::debug!("closing connections that did not close themselves");
        }
        drop(self.accepting);
    }
}

/// Settings of each connection of a port or Unix socket.
#[derive(Clone)]
struct Terms {
    timeouts: IoTimeouts,
    reaper: Arc<Reaper>,
    /// Turns of connections and calls that have more to do than one poll may.
    busy: Arc<PollTurns>,
    /// Settings of gRPC connections.
    channel: Arc<Channel>,
}

impl Terms {
    fn new(flags: &Flags, channel: Arc<Channel>) -> Self {
        let write = Duration::from_secs(flags.write_timeout_seconds.into());
        let idle = Duration::from_secs(flags.idle_timeout_seconds.into());
        Self {
            timeouts: IoTimeouts {
                read: Duration::from_secs(flags.read_timeout_seconds),
                write,
            },
            reaper: Arc::new(Reaper::new(flags.max_connections, idle, write)),
            busy: inline_calls::turns(),
            channel,
        }
    }
}

/// Bound and means of a port, whatever addresses it has, or of a Unix socket.
struct Side {
    name: &'static str,
    room: Arc<Semaphore>,
    most: usize,
    addresses: Addresses,
    terms: Terms,
    /// TLS of its connections, unless they come over a Unix socket.
    tls: Option<Handshakes>,
    stop: Stop,
    /// Limit of log lines that one client, or all together, could flood.
    full: LogLimit,
    crowded: LogLimit,
    refused: LogLimit,
}

impl Side {
    fn new(name: &'static str, flags: &Flags, terms: Terms, stop: Stop) -> Self {
        Self {
            name,
            room: Arc::new(Semaphore::new(
                flags.max_connections.min(Semaphore::MAX_PERMITS),
            )),
            most: flags.max_connections,
            addresses: Addresses::new(flags.max_connections_per_address),
            terms,
            tls: None,
            stop,
            full: LogLimit::default(),
            crowded: LogLimit::default(),
            refused: LogLimit::default(),
        }
    }

    /// Waits until no more connections are accepted.
    async fn ended(&self) {
        stopped(&mut self.stop.clone()).await;
        sleep(ACCEPTING).await;
    }

    /// Looks after the connections of all its listeners for as long as these accept any.
    fn look_after(self: Arc<Self>) -> Task<()> {
        Task::spawn(async move {
            tokio::select! {
                () = self.terms.reaper.run() => {}
                () = self.ended() => {}
            }
        })
    }

    /// Accepts connections until the task is dropped. Those above the bound wait, all but the first
    /// of them in the system's queue, until another one ends.
    fn accept(
        self: Arc<Self>,
        listener: Listener,
        service: Service,
        access: AccessLog,
    ) -> Task<()> {
        Task::spawn(async move {
            let listener = match Acceptor::new(listener) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!("cannot accept {} connections: {error}", self.name);
                    return;
                }
            };
            let accepts = async {
                while let Some(admitted) = self.next(&listener).await {
                    self.start(admitted, &service, &access);
                }
            };
            tokio::select! {
                () = accepts => {}
                () = self.ended() => {}
            }
            for (stream, peer) in listener.waiting() {
                // Nobody waits for a place any more.
                let place = Arc::clone(&self.room).try_acquire_owned();
                if let (Ok(place), Some(counted)) = (place, self.counted(&stream, peer)) {
                    self.start((stream, peer, (place, counted)), &service, &access);
                }
            }
        })
    }

    /// Serves a connection on a task of its own.
    fn start(&self, (stream, peer, place): Admitted, service: &Service, access: &AccessLog) {
        let (service, access) = (service.clone(), access.clone());
        let (terms, stop) = (self.terms.clone(), self.stop.clone());
        let tls = self.tls.clone();
        Task::spawn(async move {
            let stream = match tls {
                None => Some(stream),
                // On its own, so that connections without it have no room for it.
                Some(tls) => {
                    let reaper = Arc::clone(&terms.reaper);
                    Box::pin(tls.secure(stream, peer, reaper, stop.clone())).await
                }
            };
            if let Some(stream) = stream {
                let names = match service.reads_certificates() {
                    true => stream.certificate_names(),
                    false => Vec::new(),
                };
                connection(stream, (peer, names), service, access, terms, stop).await;
            }
            drop(place);
        })
        .detach();
    }

    /// Waits for a connection, and for its place.
    async fn next(&self, listener: &Acceptor) -> Option<Admitted> {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(more) = self.refused.next() {
                        let name = self.name;
                        tracing::warn!(more, "cannot accept a {name} connection: {error}");
                    }
                    sleep(AFTER_REFUSAL).await;
                    continue;
                }
            };
            if let Some(counted) = self.counted(&stream, peer) {
                let place = self.place().await?;
                return Some((stream, peer, (place, counted)));
            }
        }
    }

    /// Counts a connection with those of its address, and prepares it; `None` if there are too many.
    fn counted(&self, stream: &Stream, peer: Peer) -> Option<Counted> {
        let source = peer.source();
        let Some(counted) = self.addresses.count(source) else {
            if let Some(more) = self.crowded.next() {
                tracing::warn!(
                    more,
                    "closed a {} connection of {source}, which has as many open as one address \
                     may; see --max-connections-per-address",
                    self.name,
                );
            }
            return None;
        };
        stream.prepare();
        Some(counted)
    }

    /// Waits for a place; never `None`, since the semaphore is not closed.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(place);
        }
        if let Some(more) = self.full.next() {
            tracing::warn!(
                more,
                "all {} connections that the {} port may have are open; the longest idle make room \
                 for new ones, which wait; see --max-connections and --idle-timeout-seconds",
                self.most,
                self.name
            );
        }
        let _waits = self.terms.reaper.wait();
        Arc::clone(&self.room).acquire_owned().await.ok()
    }
}

/// A connection that was let in.
type Admitted = (Stream, Peer, Place);

/// The place of a connection, among all and among those of its address.
type Place = (OwnedSemaphorePermit, Counted);

async fn grpc_connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    peer: Peer,
    grpc: GrpcService,
    access: AccessLog,
    terms: Terms,
    stop: Stop,
) {
    let unread = Unread::new(grpc.budget());
    let max_block = terms.channel.max_block();
    let stream = TimeoutStream::http2(stream, terms.timeouts, max_block, Arc::clone(&unread));
    let streams = SharedStreams::default();
    let watchdog = Arc::new(Watchdog::http2(Arc::clone(&streams)));
    terms.reaper.watch(&watchdog);
    let inline = InlineCalls::new(Arc::clone(&streams), Arc::clone(&terms.busy));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let entry = access.begin(Protocol::Grpc, peer, &mut request);
        let read = ReadBytes::new(&unread);
        let answer = grpc.call(request.map(|body| Received::new(body, Arc::clone(&read))));
        // Its task is started next.
        let stream = streams.lock().begin();
        let streams = Arc::clone(&streams);
        async move {
            // On its own, so that the call is dropped before its line is written.
            let response = answer.await;
            let response = Entry::answered(entry, response, read);
            Ok::<_, Infallible>(response.map(|body| Pieces::new(body, streams, stream)))
        }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(inline.clone());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .auto_date_header(false);
    terms.channel.set(&mut builder);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let age = terms.channel.age;
    let mut driver = InlineDriver::new(inline, terms.busy);
    let poll =
        |connection: Pin<&mut _>, context: &mut Context<'_>| driver.poll(connection, context);
    if let Err(error) = drive(connection, poll, &watchdog, age, stop).await {
        tracing::debug!("gRPC connection ended: {}", chain(&error));
    }
}

async fn rest_connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    peer: Peer,
    rest: Rest,
    access: AccessLog,
    terms: Terms,
    stop: Stop,
) {
    let state = Arc::<ConnectionState>::default();
    let stream = TimeoutStream::http1(stream, terms.timeouts, Arc::clone(&state), rest.budget());
    let stream = Attended::new(stream, Arc::clone(&state));
    let watchdog = Arc::new(Watchdog::http1(Arc::clone(&state)));
    terms.reaper.watch(&watchdog);
    let service = {
        let (state, is_read) = (Arc::clone(&state), Arc::<AtomicBool>::default());
        let rest = Arc::new(rest);
        service_fn(move |mut request: Request<Incoming>| {
            state.begin(request.version() == Version::HTTP_11);
            let entry = access.begin(Protocol::Http, peer, &mut request);
            let (rest, state) = (Arc::clone(&rest), Arc::clone(&state));
            let is_large = has_large_body(request.headers());
            let is_read = Arc::clone(&is_read);
            async move {
                let request = request.map(|body| NotedBody::new(body, &is_read));
                let mut response = rest.answer(request).await;
                let is_left = !is_read.load(Ordering::Relaxed);
                if is_left && !is_large {
                    // hyper takes what is there when it is polled next. If that is not all, it ends the connection, and says
                    // so in a head that is not written yet.
                    yield_now().await;
                }
                if state.is_stopping() || (is_left && is_large) {
                    // Else clients would send their next request on a connection that ends (RFC 9112, 9.6).
                    let headers = response.headers_mut();
                    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                state.answered();
                Ok::<_, Infallible>(Entry::answered(entry, response, Made(state)))
            }
        })
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(MAX_HEAD)
        // A client that has said all may still want to hear the answer; whether it does, `Attended` finds out.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = drive(connection, Future::poll, &watchdog, None, stop).await {
        tracing::debug!("REST connection ended: {}", chain(&error));
    }
}

/// Bytes of a body that hyper reads to its end although nobody wants it, since they are there already.
const DRAINED: u64 = 8 << 10;

/// Returns whether a body may be more than is drained when it is left.
fn has_large_body(headers: &HeaderMap) -> bool {
    match headers.get(header::CONTENT_LENGTH) {
        Some(length) => !length
            .to_str()
            .is_ok_and(|text| text.parse().is_ok_and(|length: u64| length <= DRAINED)),
        None => headers.contains_key(header::TRANSFER_ENCODING),
    }
}

/// Waits for the sign to stop.
pub(super) async fn stopped(stop: &mut Stop) {
    // An error is the end of the sender, which is a stop as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Runs a connection to its end, polled in its own way; after the sign to stop, or when it is old or
/// asked to, to the end of what it is at, with a moment for a last request.
async fn drive<C: GracefulConnection>(
    connection: C,
    mut poll: impl FnMut(Pin<&mut C>, &mut Context<'_>) -> Poll<C::Output>,
    watchdog: &Watchdog,
    age: Option<Duration>,
    mut stop: Stop,
) -> Result<(), C::Error> {
    let mut connection = std::pin::pin!(connection);
    let mut old = std::pin::pin!(OptionFuture::from(age.map(sleep)));
    let mut is_ending = false;
    let mut is_stopping = false;
    let mut last: Option<Pin<Box<Sleep>>> = None;
    loop {
        let next = match is_ending {
            false => Close::Gracefully,
            true => Close::Now,
        };
        tokio::select! {
            ended = poll_fn(|context| poll(connection.as_mut(), context)) => return ended,
            () = poll_fn(|context| watchdog.poll_asked(next, context)) => {
                if next == Close::Now {
                    return Ok(());
                }
            }
            Some(()) = &mut old, if !is_ending => {}
            Some(()) = OptionFuture::from(last.as_mut()) => {
                last = None;
                if !watchdog.is_at_work() {
                    // One that is within the head of a request is not ended by the first word.
                    if is_ending {
                        return Ok(());
                    }
                    last = Some(Box::pin(sleep(LAST)));
                }
            }
            () = stopped(&mut stop), if !is_stopping => {
                is_stopping = true;
                let is_at_work = watchdog.is_at_work();
                watchdog.stop();
                if !is_at_work {
                    last = Some(Box::pin(sleep(LAST)));
                    continue;
                }
            }
        }
        is_ending = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// The answer to an HTTP/1 request, which notes in the state when all of it is made.
struct Made(Arc<ConnectionState>);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.made();
    }
}
