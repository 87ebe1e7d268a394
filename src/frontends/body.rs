//! Request bodies: read whole within bounds, and expanded within bounds.

use std::{
    io::Read,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{HeaderMap, header};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::{
    error::{Error, ErrorKind, Result},
    task,
};

/// The most that is set aside on the word of a `Content-Length` alone.
const MOST_AHEAD: u64 = 1 << 24;

/// Reads a body whole and expands it if it is gzip.
///
/// # Errors
///
/// Fails if the body is above the limit as sent or as expanded, stops coming, or is encoded in
/// another way.
pub(super) async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limit: usize,
    pause: Duration,
) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    let mut body = std::pin::pin!(Paced::new(body, pause));
    let mut whole: Option<Bytes> = None;
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let so_far = whole.as_ref().map_or(buffer.len(), Bytes::len);
        if so_far + data.len() > limit {
            return Err(too_large(limit));
        }
        // A body of one piece, which most are, is not copied.
        if so_far == 0 {
            whole = Some(data);
            continue;
        }
        if let Some(first) = whole.take() {
            buffer.reserve(usize::try_from(announced.min(MOST_AHEAD)).unwrap_or(0));
            buffer.extend_from_slice(&first);
        }
        buffer.extend_from_slice(&data);
    }
    let body = whole.unwrap_or_else(|| buffer.freeze());
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes())
    {
        None | Some(b"identity") => Ok(body),
        Some(b"gzip") => task::sized("expand", body.len(), move || expand(&body, limit)).await,
        Some(other) => Err(Error::invalid(format!(
            "Content-Encoding {} is not supported; send gzip or no encoding",
            String::from_utf8_lossy(other)
        ))),
    }
}

fn expand(body: &Bytes, limit: usize) -> Result<Bytes> {
    let mut expanded = Vec::new();
    let mut reader = flate2::bufread::MultiGzDecoder::new(body.clone().reader());
    (&mut reader)
        .take(limit as u64 + 1)
        .read_to_end(&mut expanded)
        .map_err(|error| Error::invalid(format!("request body is not valid gzip: {error}")))?;
    if expanded.len() > limit {
        return Err(too_large(limit));
    }
    Ok(expanded.into())
}

fn too_large(limit: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("request body is larger than {limit} bytes; see --max_message_size"),
    )
}

/// A body whose sender may not pause for longer than a limit.
pub(super) struct Paced<B> {
    body: B,
    limit: Duration,
    /// Armed only while nothing comes, so that a body that is there costs no timer.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> Paced<B> {
    pub(super) fn new(body: B, limit: Duration) -> Self {
        Self {
            body,
            limit,
            pause: None,
        }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.pause = None;
            return Poll::Ready(frame.map(|frame| {
                frame.map_err(|error| {
                    Error::new(
                        ErrorKind::Cancelled,
                        format!("request body cannot be read: {error}"),
                    )
                })
            }));
        }
        let limit = self.limit;
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        pause.as_mut().poll(context).map(|()| {
            Some(Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!(
                    "request body stopped coming for {} s; see --read_timeout_seconds",
                    limit.as_secs()
                ),
            )))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use axum::{body::Body, http::HeaderMap};
    use bytes::Bytes;
    use http_body_util::{Full, StreamBody};

    use super::read;
    use crate::error::ErrorKind;

    const PAUSE: Duration = Duration::from_secs(5);

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip_headers() -> HeaderMap {
        HeaderMap::from_iter([("content-encoding".parse().unwrap(), "gzip".parse().unwrap())])
    }

    #[tokio::test]
    async fn bodies_above_the_limit_are_refused_as_sent_and_as_expanded() {
        let small = gzip(&[b'a'; 100]);
        let body = read(&gzip_headers(), Full::from(small.clone()), 100, PAUSE).await;
        assert_eq!(body.unwrap(), [b'a'; 100][..]);
        for (headers, body) in [
            (gzip_headers(), gzip(&[b'a'; 101])),
            (HeaderMap::new(), vec![b'a'; 101]),
        ] {
            let error = read(&headers, Full::from(body), 100, PAUSE)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
        }
    }

    #[tokio::test]
    async fn broken_gzip_and_other_encodings_are_refused() {
        let mut cut = gzip(&[b'a'; 1000]);
        cut.truncate(10);
        let error = read(&gzip_headers(), Full::from(cut), 100, PAUSE)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let headers =
            HeaderMap::from_iter([("content-encoding".parse().unwrap(), "br".parse().unwrap())]);
        let error = read(&headers, Full::from("x"), 100, PAUSE)
            .await
            .unwrap_err();
        insta::assert_snapshot!(error, @"Content-Encoding br is not supported; send gzip or no encoding");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_stops_is_given_up() {
        let stuck = StreamBody::new(futures::stream::pending::<Result<_, std::io::Error>>());
        let error = read(&HeaderMap::new(), stuck, 100, PAUSE)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let pieces = ["ab", "", "cd", "e"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let body = Body::from_stream(futures::stream::iter(pieces));
        let whole = read(&HeaderMap::new(), body, 100, PAUSE).await.unwrap();
        assert_eq!(whole, "abcde");
    }
}
