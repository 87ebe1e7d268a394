//! The end of a connection whose client may still be sending.
//!
//! A socket that is closed with bytes unread, or that gets more of them later, answers with a
//! reset, and that takes away from the client what it has not read yet: the refusal of a head or of
//! a body that it is still sending. So what comes after the last answer is read and thrown away
//! until the client closes as well, within bounds of time and bytes (RFC 9112, 9.6).

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep},
};

/// Maximum time for which a client may send nothing and not close either.
const MAX_SILENCE: Duration = Duration::from_secs(2);

/// Maximum time in all.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum time from when the server stops.
const MAX_TIME_AT_STOP: Duration = Duration::from_millis(100);

/// Maximum amount that is thrown away: the rest of a body as large as the largest that is taken unless a
/// flag says otherwise.
const MAX_DISCARDED: usize = 1 << 30;

/// Bytes to read at a time.
const PIECE: usize = 1 << 14;

/// Reads and throws away what comes on a connection that is closed for writing.
pub(super) struct Linger {
    /// Bytes still to be read.
    left: usize,
    /// Time at which it is over, whatever comes.
    end: Instant,
    /// Indicates that `end` takes account of a stop.
    stopping: bool,
    /// The end of the present silence, or of all.
    timer: Pin<Box<Sleep>>,
}

impl Linger {
    /// Begins now.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            left: MAX_DISCARDED,
            end: now + MAX_TIME,
            stopping: false,
            timer: Box::pin(tokio::time::sleep_until(now + MAX_SILENCE)),
        }
    }

    /// Done when the client has closed, or has had its time; that is short when the server stops.
    pub(super) fn poll(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        stopping: bool,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let now = Instant::now();
        if stopping && !self.stopping {
            self.stopping = true;
            self.end = self.end.min(now + MAX_TIME_AT_STOP);
            let deadline = self.timer.deadline().min(self.end);
            self.timer.as_mut().reset(deadline);
        }
        // A client that never pauses leaves the timer no turn.
        if now >= self.end {
            return Poll::Ready(());
        }
        let mut buffer = [0; PIECE];
        let mut came = false;
        loop {
            let mut piece = ReadBuf::new(&mut buffer);
            match Pin::new(&mut *stream).poll_read(context, &mut piece) {
                Poll::Ready(Ok(())) if !piece.filled().is_empty() => {
                    came = true;
                    self.left = self.left.saturating_sub(piece.filled().len());
                    if self.left == 0 {
                        return Poll::Ready(());
                    }
                }
                // Closed, or gone.
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        if came {
            self.timer.as_mut().reset((now + MAX_SILENCE).min(self.end));
        }
        self.timer.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, repeat};

    use super::*;
    use crate::task::Task;

    /// Lingers, and returns for how long.
    async fn lingers(mut stream: impl AsyncRead + Unpin, stopping: bool) -> Duration {
        let began = Instant::now();
        let mut linger = Linger::new();
        poll_fn(|context| linger.poll(&mut stream, stopping, context)).await;
        began.elapsed()
    }

    /// A client that sends a byte at a time, with these pauses; closes after so many.
    fn drips(pause: Duration, bytes: usize) -> (DuplexStream, Task<()>) {
        let (mut client, server) = duplex(64);
        let sends = Task::spawn(async move {
            for _ in 0..bytes {
                tokio::time::sleep(pause).await;
                if client.write_all(b"x").await.is_err() {
                    return;
                }
            }
        });
        (server, sends)
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_is_read_until_the_client_closes() {
        let (mut client, server) = duplex(64);
        let sends = Task::spawn(async move {
            client.write_all(&[b'x'; 1_000_000]).await.unwrap();
        });
        assert!(lingers(server, false).await < MAX_SILENCE);
        sends.await.unwrap();
        let (server, _sends) = drips(MAX_SILENCE / 2, 4);
        assert_eq!(lingers(server, false).await, MAX_SILENCE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_neither_sends_nor_closes_is_let_go() {
        let (_client, server) = duplex(64);
        let took = lingers(server, false).await;
        assert!(took >= MAX_SILENCE && took < MAX_SILENCE * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_drips_is_let_go() {
        let (server, _sends) = drips(MAX_SILENCE / 2, 1000);
        let took = lingers(server, false).await;
        assert!(
            took >= MAX_TIME && took < MAX_TIME + MAX_SILENCE,
            "{took:?}"
        );
    }

    #[tokio::test]
    async fn a_client_that_sends_without_end_is_let_go() {
        let mut much = repeat(b'x').take(2 * MAX_DISCARDED as u64);
        lingers(&mut much, false).await;
        assert_eq!(much.limit(), MAX_DISCARDED as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_pauses_is_let_go() {
        let mut linger = Linger::new();
        tokio::time::advance(MAX_TIME).await;
        let mut much = repeat(b'x').take(1000);
        poll_fn(|context| linger.poll(&mut much, false, context)).await;
        assert_eq!(much.limit(), 1000, "nothing more is read");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_nobody() {
        let (_client, server) = duplex(64);
        assert!(lingers(server, true).await < MAX_TIME_AT_STOP * 2);
        let (server, _sends) = drips(MAX_TIME_AT_STOP / 4, 1000);
        assert!(lingers(server, true).await < MAX_TIME_AT_STOP * 2);
    }
}
