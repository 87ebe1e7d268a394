//! The streams of connections, and the listeners that give them.

use std::{
    io,
    net::TcpListener as StdTcpListener,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use tokio_rustls::server::TlsStream;

use super::unix_socket::{SocketFile, UnixSocket};
use crate::{frontends::access::Peer, tls};

/// Silence after which the system asks whether the client's machine is still there, and asks
/// again as often.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of connections that are taken from the system's queue at the end; it holds no more unless it was set
/// to.
const MAX_WAITING: usize = 4096;

/// An open port or Unix socket.
#[derive(Debug)]
pub enum Listener {
    /// An address and port.
    Tcp(StdTcpListener),
    /// A Unix socket.
    Unix(UnixSocket),
}

/// A [`Listener`] within a runtime.
pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix {
        // Dropped first, so that the file goes before the socket is closed.
        file: SocketFile,
        listener: UnixListener,
    },
}

/// The stream of a connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Accepts until nobody waits. Errors of single connections end nothing.
fn queued<T>(accept: impl Fn() -> io::Result<T>) -> impl Iterator<Item = T> {
    let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    (0..MAX_WAITING)
        .map(move |_| accept())
        .take_while(move |accepted| !accepted.as_ref().is_err_and(is_empty))
        .flatten()
}

impl Acceptor {
    /// Takes a listener; needs a runtime.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(UnixSocket { file, listener }) => {
                let listener = UnixListener::from_std(listener)?;
                Self::Unix { file, listener }
            }
        })
    }

    /// Takes the connections that wait in the system's queue; nothing listens when they are dropped.
    pub(super) fn waiting(self) -> Vec<(Stream, Peer)> {
        let mut all = Vec::new();
        match self {
            Self::Tcp(listener) => {
                let Ok(listener) = listener.into_std() else {
                    return all;
                };
                for (stream, peer) in queued(|| listener.accept()) {
                    let is_set = stream.set_nonblocking(true);
                    if let (Ok(()), Ok(stream)) = (is_set, TcpStream::from_std(stream)) {
                        all.push((Stream::Tcp(stream), Peer::of_address(peer)));
                    }
                }
            }
            Self::Unix { file, listener } => {
                // Nobody comes any more.
                drop(file);
                let Ok(listener) = listener.into_std() else {
                    return all;
                };
                for (stream, _) in queued(|| listener.accept()) {
                    let is_set = stream.set_nonblocking(true);
                    if let (Ok(()), Ok(stream)) = (is_set, UnixStream::from_std(stream))
                        && let Ok(credentials) = stream.peer_cred()
                    {
                        let (user, process) = (credentials.uid(), credentials.pid());
                        all.push((Stream::Unix(stream), Peer::Unix { user, process }));
                    }
                }
            }
        }
        all
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::Tcp(stream), Peer::of_address(peer)))
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let credentials = stream.peer_cred()?;
                let (user, process) = (credentials.uid(), credentials.pid());
                Ok((Stream::Unix(stream), Peer::Unix { user, process }))
            }
        }
    }
}

impl Stream {
    /// Makes answers leave at once, and a client whose machine is gone lose its place.
    pub(super) fn prepare(&self) {
        let Self::Tcp(stream) = self else { return };
        // Answers are whole; waiting for more to send with them gains nothing.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot set TCP_NODELAY: {error}");
        }
        let alive = TcpKeepalive::new()
            .with_time(SILENCE)
            .with_interval(SILENCE);
        if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&alive) {
            tracing::debug!("cannot set SO_KEEPALIVE: {error}");
        }
    }
}

impl Stream {
    /// Returns the names of the client's certificate, which was verified; none if it has none.
    pub(super) fn certificate_names(&self) -> Vec<String> {
        let Self::Tls(stream) = self else {
            return Vec::new();
        };
        let chain = stream.get_ref().1.peer_certificates();
        let own = chain.and_then(<[_]>::first);
        own.map(tls::subject_names).unwrap_or_default()
    }
}

/// Passes a call on to the stream that it is.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => $call,
            Self::Unix($stream) => $call,
            Self::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        // Each of them is.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Error, ErrorKind, Write as _},
        net::{Ipv4Addr, TcpStream as StdTcpStream},
    };

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_taken_before_the_port_closes() {
        let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(Listener::Tcp(listener)).unwrap();
        let connect = |_| StdTcpStream::connect(address).unwrap();
        let mut clients: Vec<_> = (0..20).map(connect).collect();
        for client in &mut clients {
            client.write_all(b"x").unwrap();
        }
        let taken = acceptor.waiting();
        assert_eq!(taken.len(), clients.len());
        assert!(StdTcpStream::connect(address).is_err());
    }

    #[test]
    fn the_error_of_one_connection_leaves_those_behind_it() {
        let aborted = || Err(Error::from(ErrorKind::ConnectionAborted));
        let results = [
            Ok(1),
            aborted(),
            Ok(2),
            Err(ErrorKind::WouldBlock.into()),
            Ok(3),
        ];
        let results = std::cell::RefCell::new(results.into_iter());
        let accept = || results.borrow_mut().next().unwrap();
        assert_eq!(queued(accept).collect::<Vec<_>>(), [1, 2]);
    }
}
