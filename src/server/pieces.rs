//! Answers in pieces of at most 64 KiB, each of which is counted until it is with the system.
//!
//! hyper takes the next piece of a body when the client's window takes the one before, and hands a
//! piece to h2 whole. So no more than one is held by h2 above what the client has asked for.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use super::watchdog::SharedStreams;

/// The largest piece.
const MAX_PIECE: usize = 1 << 16;

/// A body in pieces.
pub(super) struct Pieces<B> {
    body: B,
    /// Rest of the data that the body returned last.
    rest: Bytes,
    streams: SharedStreams,
    stream: usize,
}

impl<B> Pieces<B> {
    /// Takes the body of a stream's answer.
    pub(super) fn new(body: B, streams: SharedStreams, stream: usize) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            streams,
            stream,
        }
    }

    fn piece(&mut self, mut bytes: Bytes) -> Piece {
        if bytes.len() > MAX_PIECE {
            self.rest = bytes.split_off(MAX_PIECE);
        }
        self.streams.lock().made(self.stream);
        Piece {
            bytes,
            streams: Arc::clone(&self.streams),
            stream: self.stream,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Pieces<B> {
    type Data = Piece;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, B::Error>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(Frame::data(self.piece(rest)))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| self.piece(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for before the first piece, when it is that of the body.
        match self.rest.is_empty() {
            true => self.body.size_hint(),
            false => SizeHint::default(),
        }
    }
}

/// A piece of an answer, on its way to the system.
pub(super) struct Piece {
    bytes: Bytes,
    streams: SharedStreams,
    stream: usize,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.streams.lock().left(self.stream);
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use axum::http::HeaderMap;
    use bytes::{Buf as _, Bytes};
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Body as _, Frame};

    use super::{MAX_PIECE, Pieces};
    use crate::server::watchdog::{SharedStreams, Stream, Watchdog};

    #[tokio::test]
    async fn nothing_is_lost_and_no_piece_is_too_large() {
        let data = |length| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![7; length])));
        let frames = [
            data(3),
            data(2 * MAX_PIECE + 1),
            data(MAX_PIECE),
            Ok(Frame::trailers(HeaderMap::new())),
        ];
        let streams = SharedStreams::default();
        let watchdog = Watchdog::http2(Arc::clone(&streams));
        let stream = streams.lock().begin();
        let body = StreamBody::new(futures::stream::iter(frames));
        let mut pieces = Pieces::new(body, Arc::clone(&streams), stream);
        let mut sizes = Vec::new();
        while let Some(Ok(frame)) = pieces.frame().await {
            sizes.push(frame.into_data().map_or(0, |piece| piece.remaining()));
        }
        assert_eq!(sizes, [3, MAX_PIECE, MAX_PIECE, 1, MAX_PIECE, 0]);
        assert!(pieces.is_end_stream() || pieces.frame().await.is_none());
        assert!(watchdog.activity().is_busy, "it has not ended");
        drop(Stream::claim(&streams));
        assert!(!watchdog.activity().is_busy);
    }
}
