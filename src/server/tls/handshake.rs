//! Handshakes, within bounds of time and number.

use std::{future::poll_fn, io, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{ServerTls, TlsProtocol, places::HandshakePlaces};
use crate::{
    config::Flags,
    frontends::access::Peer,
    server::{
        accept::{LAST, Stop, stopped},
        limits::LogLimit,
        linger::Linger,
        reaper::Reaper,
        stream::Stream,
        watchdog::{Close, Watchdog},
    },
};

/// Time that a handshake waits for its place, in multiples of its limit: those that have places are gone by then.
const PATIENCE: u32 = 2;

/// TLS of a port.
#[derive(Clone)]
pub(in crate::server) struct Handshakes {
    name: &'static str,
    tls: Arc<ServerTls>,
    protocol: TlsProtocol,
    limit: Duration,
    /// Places for those in progress.
    places: Arc<HandshakePlaces>,
    failed: Arc<LogLimit>,
}

impl Handshakes {
    pub(in crate::server) fn new(
        name: &'static str,
        tls: Arc<ServerTls>,
        protocol: TlsProtocol,
        flags: &Flags,
    ) -> Self {
        Self {
            name,
            tls,
            protocol,
            limit: Duration::from_secs(flags.tls_handshake_timeout_seconds.into()),
            places: HandshakePlaces::new(flags.max_tls_handshakes),
            failed: Arc::default(),
        }
    }

    /// Makes the stream of a port one of TLS, within the time for it; `None` if that fails, or the server
    /// stops or needs the place for another connection.
    pub(in crate::server) async fn secure(
        self,
        stream: Stream,
        peer: Peer,
        reaper: Arc<Reaper>,
        mut stop: Stop,
    ) -> Option<Stream> {
        let Stream::Tcp(stream) = stream else {
            return Some(stream);
        };
        // Idle until its first request, as the reaper sees it.
        let watchdog = Arc::new(Watchdog::http2(Arc::default()));
        reaper.watch(&watchdog);
        tokio::select! {
            secured = self.attempt(stream, peer) => secured,
            () = poll_fn(|context| watchdog.poll_asked(Close::Now, context)) => None,
            () = async {
                stopped(&mut stop).await;
                sleep(LAST).await;
            } => None,
        }
    }

    async fn attempt(&self, stream: TcpStream, peer: Peer) -> Option<Stream> {
        match self.accept(stream, peer).await {
            Ok(stream) => return Some(Stream::Tls(Box::new(stream))),
            Err((error, stream)) => {
                self.log(peer, &error);
                if let Some(stream) = stream {
                    end(stream).await;
                }
            }
        }
        None
    }

    /// Makes a handshake, which has all of its time once it has a place, unless another network needs that; a connection that
    /// is not ended by a word has no stream left.
    async fn accept(
        &self,
        stream: TcpStream,
        peer: Peer,
    ) -> Result<TlsStream<TcpStream>, (io::Error, Option<TcpStream>)> {
        let late = || (io::ErrorKind::TimedOut.into(), None);
        // One that says nothing takes no place from those that do. It is looked for a byte: an accepted stream counts as
        // readable until somebody has tried.
        match timeout(self.limit, stream.peek(&mut [0])).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err((error, Some(stream))),
            Err(_) => return Err(late()),
        }
        let patience = self.limit.saturating_mul(PATIENCE);
        let place = timeout(patience, self.places.enter(peer.source())).await;
        let mut place = place.map_err(|_| late())?;
        let config = self.tls.config(self.protocol);
        let handshake = TlsAcceptor::from(config).accept(stream).into_fallible();
        tokio::select! {
            made = timeout(self.limit, handshake) => match made {
                Ok(made) => made.map_err(|(error, stream)| (error, Some(stream))),
                Err(_) => Err(late()),
            },
            () = place.lost() => Err(late()),
        }
    }

    /// Logs a failed handshake: at a bounded rate, and without those that only look whether a port is open.
    fn log(&self, peer: Peer, error: &io::Error) {
        use io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof};
        let name = self.name;
        tracing::debug!("TLS handshake of {name} with {peer} failed: {error}");
        if !matches!(error.kind(), ConnectionReset | TimedOut | UnexpectedEof)
            && let Some(more) = self.failed.next()
        {
            tracing::warn!(
                more,
                "TLS handshake of {name} with {} failed: {error}",
                peer.source()
            );
        }
    }
}

/// Ends a connection whose client may still be sending: a reset would take the alert from it.
async fn end(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        let mut linger = Linger::new();
        poll_fn(|context| linger.poll(&mut stream, false, context)).await;
    }
}
