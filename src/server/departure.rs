//! Finds out that the client of a request has left, while the request is still at work.
//!
//! Over HTTP/2 a client that leaves resets its stream or ends the connection. Over HTTP/1 all that comes of it is the end of what it sends, and
//! that of a client which has said all and waits for its answer looks the same. They differ in what becomes of bytes
//! that are sent to them: `100 Continue`, which every client of HTTP/1.1 has to pass over (RFC 9110, 15.2.1), is
//! refused by the system of a client that is gone, and the next write fails. That drops the request as a
//! cancelled call of gRPC is dropped. The [reaper](super::reaper) says when to look, so that
//! a request which is answered soon costs nothing.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::io_timeout::ConnectionState;

/// The interim answer, which a client that is still there passes over.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Maximum number of bytes that are read ahead of the parser: a further request, which comes from a client that is
/// there.
const MAX_AHEAD: usize = 512;

/// Maximum number of checks between two interim answers; there are twice as many each time.
const MAX_PAUSE: u32 = 32;

/// An HTTP/1 connection that notices when its client leaves before the answer.
pub(super) struct Attended<S> {
    stream: S,
    state: Arc<ConnectionState>,
    /// Bytes that the parser has yet to be given.
    ahead: Vec<u8>,
    /// Indicates that the client has announced that it sends no more.
    has_ended: bool,
    /// Bytes of the interim answer that are yet to be written.
    unsent: &'static [u8],
    /// Looks until the next interim answer, and from that one to the one behind it.
    pause: u32,
    next_pause: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Attended<S> {
    pub(super) fn new(stream: S, state: Arc<ConnectionState>) -> Self {
        Self {
            stream,
            state,
            ahead: Vec::new(),
            has_ended: false,
            unsent: b"",
            pause: 0,
            next_pause: 1,
        }
    }

    /// Looks after the client, if it is time to; fails if it is gone.
    fn look(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.state.takes_look() {
            return Ok(());
        }
        if !self.has_ended && self.ahead.is_empty() {
            let mut bytes = [0; MAX_AHEAD];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) => {
                    self.has_ended = buffer.filled().is_empty();
                    self.ahead.extend_from_slice(buffer.filled());
                    // In case the parser waits for them.
                    context.waker().wake_by_ref();
                }
                // TLS that was not closed in its own way.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.has_ended = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        // One that is not whole yet goes on first.
        if !self.has_ended || !self.unsent.is_empty() || !self.state.takes_interim() {
            return Ok(());
        }
        match self.pause {
            0 => {
                self.unsent = INTERIM;
                self.pause = self.next_pause - 1;
                self.next_pause = (self.next_pause * 2).min(MAX_PAUSE);
            }
            _ => self.pause -= 1,
        }
        Ok(())
    }

    /// Writes what is left of an interim answer, which everything else comes behind.
    fn poll_interim(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent = &self.unsent[written..];
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let bytes = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead[..bytes]);
        self.ahead.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Attended<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The parser asks for this at each poll, also while a request is at work.
        self.look(context)?;
        ready!(self.poll_interim(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    fn at_work() -> (DuplexStream, Attended<DuplexStream>, Arc<ConnectionState>) {
        let (client, server) = duplex(1 << 10);
        let state = Arc::<ConnectionState>::default();
        state.begin(true);
        (client, Attended::new(server, Arc::clone(&state)), state)
    }

    async fn look(stream: &mut Attended<DuplexStream>, state: &ConnectionState) -> io::Result<()> {
        state.look();
        stream.flush().await
    }

    #[tokio::test]
    async fn one_that_is_gone_ends_the_request() {
        let (client, mut server, state) = at_work();
        drop(client);
        assert!(look(&mut server, &state).await.is_err());
    }

    #[tokio::test]
    async fn one_that_has_said_all_is_asked_to_wait_ever_more_rarely() {
        let (mut client, mut server, state) = at_work();
        client.shutdown().await.unwrap();
        for _ in 0..8 {
            look(&mut server, &state).await.unwrap();
        }
        server.write_all(b"answer").await.unwrap();
        drop(server);
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        // At the first look, the second, the fourth, and the eighth.
        assert_eq!(read, [INTERIM.repeat(4), b"answer".to_vec()].concat());
    }

    #[tokio::test]
    async fn an_interim_answer_that_is_not_whole_is_not_begun_again() {
        let (mut client, server) = duplex(10);
        let state = Arc::<ConnectionState>::default();
        state.begin(true);
        let mut server = Attended::new(server, Arc::clone(&state));
        client.shutdown().await.unwrap();
        let mut read = Vec::new();
        for _ in 0..8 {
            // It may have to wait for the client.
            drop(look(&mut server, &state).now_or_never());
            let mut some = [0; 4];
            if let Some(length) = client.read(&mut some).now_or_never() {
                read.extend_from_slice(&some[..length.unwrap()]);
            }
        }
        let answer = async {
            server.write_all(b"answer").await.unwrap();
            drop(server);
        };
        let (rest, ()) = tokio::join!(client.read_to_end(&mut read), answer);
        rest.unwrap();
        let interim = read.strip_suffix(b"answer").unwrap();
        assert!(!interim.is_empty());
        assert_eq!(interim, INTERIM.repeat(interim.len() / INTERIM.len()));
    }

    #[tokio::test]
    async fn one_that_sends_on_is_there_and_loses_nothing() {
        let (mut client, mut server, state) = at_work();
        look(&mut server, &state).await.unwrap();
        client.write_all(b"next").await.unwrap();
        look(&mut server, &state).await.unwrap();
        client.write_all(b" one").await.unwrap();
        client.shutdown().await.unwrap();
        look(&mut server, &state).await.unwrap();
        let mut read = String::new();
        server.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "next one");
        drop(server);
        assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn nothing_comes_before_an_old_answer_or_within_one() {
        for (is_http11, has_answer) in [(false, false), (true, true)] {
            let (mut client, mut server, state) = at_work();
            state.begin(is_http11);
            if has_answer {
                state.answered();
            }
            client.shutdown().await.unwrap();
            look(&mut server, &state).await.unwrap();
            look(&mut server, &state).await.unwrap();
            drop(server);
            assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        }
    }
}
