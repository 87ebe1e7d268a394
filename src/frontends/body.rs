//! Request bodies: read whole within bounds, and expanded within bounds.

use std::{
    io::Read,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Extensions, header, request::Parts};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{
    access::Note,
    intake::{Hold, Intake},
};
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
/// Fails if the body is above the limit as sent or as expanded, stops coming, comes too slowly, or
/// is encoded in another way, or if the bodies of all connections together are too much.
pub(super) async fn read<B>(parts: &Parts, body: B, intake: &Intake) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let limit = intake.message_size();
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    let mut hold = intake.hold();
    let mut body = std::pin::pin!(Paced::new(body, intake, &parts.extensions));
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
        hold.grow(so_far + data.len())?;
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
    match parts
        .headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes())
    {
        None | Some(b"identity") => Ok(hold.keep(body)),
        Some(b"gzip") => {
            task::sized("expand", body.len(), move || expand(&body, limit, hold)).await
        }
        Some(other) => Err(Error::invalid(format!(
            "Content-Encoding {} is not supported; send gzip or no encoding",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Expands gzip.
pub(super) fn expand(body: &Bytes, limit: usize, mut hold: Hold) -> Result<Bytes> {
    /// What is expanded before it is counted.
    const STEP: u64 = 1 << 20;
    let mut expanded = Vec::new();
    let mut reader = flate2::bufread::MultiGzDecoder::new(body.clone().reader());
    loop {
        let more = (limit - expanded.len()) as u64 + 1;
        let read = (&mut reader)
            .take(more.min(STEP))
            .read_to_end(&mut expanded)
            .map_err(|error| Error::invalid(format!("request body is not valid gzip: {error}")))?;
        if expanded.len() > limit {
            return Err(too_large(limit));
        }
        if read == 0 {
            return Ok(hold.keep(expanded.into()));
        }
        hold.grow(body.len() + expanded.len())?;
    }
}

fn too_large(limit: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("request body is larger than {limit} bytes; see --max_message_size"),
    )
}

/// A body whose sender may not pause for longer than a limit, nor send slower than a rate once it
/// has used that time up.
pub(super) struct Paced<B> {
    body: B,
    pause: Duration,
    /// Bytes a second; 0 for any.
    rate: u64,
    received: u64,
    /// When it was first waited for.
    since: Option<Instant>,
    /// When the present pause began, and the time it may last; only while nothing comes, so that a
    /// body that is there costs no timer.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    note: Option<Arc<Note>>,
    /// Counts what has come, for a body that nobody else counts.
    hold: Option<Hold>,
}

impl<B> Paced<B> {
    /// Takes the body of a request with these extensions.
    pub(super) fn new(body: B, intake: &Intake, extensions: &Extensions) -> Self {
        Self {
            body,
            pause: intake.pause(),
            rate: intake.rate(),
            received: 0,
            since: None,
            waiting: None,
            note: Note::of(extensions),
            hold: None,
        }
    }

    /// Counts what comes among the bodies of all connections, until this is dropped.
    pub(super) fn counted(mut self, intake: &Intake) -> Self {
        self.hold = Some(intake.hold());
        self
    }

    /// Begins to wait for more.
    fn wait(&mut self) -> (Instant, Pin<Box<Sleep>>) {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let pause = now + self.pause;
        let limit = match self.received.checked_div(self.rate) {
            None => pause,
            Some(seconds) => pause.min(since + self.pause + Duration::from_secs(seconds)),
        };
        (now, Box::pin(tokio::time::sleep_until(limit)))
    }

    fn given_up(&self, pause: Duration) -> Error {
        let text = if pause >= self.pause {
            format!(
                "request body stopped coming for {} s; see --read_timeout_seconds",
                self.pause.as_secs()
            )
        } else {
            let since = self.since.map_or(Duration::ZERO, |since| since.elapsed());
            format!(
                "request body comes too slowly: {} bytes in {} s; see --min_receive_rate",
                self.received,
                since.as_secs()
            )
        };
        Error::new(ErrorKind::DeadlineExceeded, text)
    }
}

/// Tells a body that is no body, such as chunks without sizes, from a client that is gone.
fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let fault = causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .find(|cause| {
            matches!(
                cause.kind(),
                std::io::ErrorKind::InvalidInput
                    | std::io::ErrorKind::InvalidData
                    | std::io::ErrorKind::UnexpectedEof
            )
        });
    match fault {
        Some(fault) => Error::invalid(format!("request body cannot be read: {fault}")),
        None => Error::new(
            ErrorKind::Cancelled,
            format!("request body cannot be read: {error}"),
        ),
    }
}

impl<B> Drop for Paced<B> {
    fn drop(&mut self) {
        if let Some(note) = &self.note {
            note.received(self.received);
        }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waiting = None;
            if let Some(Ok(frame)) = &frame {
                self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                let received = usize::try_from(self.received).unwrap_or(usize::MAX);
                if let Some(Err(error)) = self.hold.as_mut().map(|hold| hold.grow(received)) {
                    return Poll::Ready(Some(Err(error)));
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| unreadable(&error))));
        }
        let (began, mut deadline) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => self.wait(),
        };
        let over = deadline.as_mut().poll(context);
        if over.is_pending() {
            self.waiting = Some((began, deadline));
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(self.given_up(began.elapsed()))))
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

    use axum::{body::Body, http::request::Parts};
    use bytes::Bytes;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio_stream::StreamExt as _;

    use super::read;
    use crate::{error::ErrorKind, frontends::intake::Intake};

    /// Takes 100 bytes, and waits for five seconds.
    fn intake(rate: u64) -> Intake {
        Intake::new(100, Duration::from_secs(5), rate, 1 << 20)
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn parts(encoding: Option<&str>) -> Parts {
        let mut request = axum::http::Request::new(());
        if let Some(encoding) = encoding {
            let encoding = encoding.parse().unwrap();
            request.headers_mut().insert("content-encoding", encoding);
        }
        request.into_parts().0
    }

    #[tokio::test]
    async fn bodies_above_the_limit_are_refused_as_sent_and_as_expanded() {
        let small = Full::from(gzip(&[b'a'; 100]));
        let body = read(&parts(Some("gzip")), small, &intake(0)).await;
        assert_eq!(body.unwrap(), [b'a'; 100][..]);
        for (parts, body) in [
            (parts(Some("gzip")), gzip(&[b'a'; 101])),
            (parts(None), vec![b'a'; 101]),
        ] {
            let error = read(&parts, Full::from(body), &intake(0))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
        }
    }

    #[tokio::test]
    async fn broken_gzip_and_other_encodings_are_refused() {
        let mut cut = gzip(&[b'a'; 1000]);
        cut.truncate(10);
        let error = read(&parts(Some("gzip")), Full::from(cut), &intake(0))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = read(&parts(Some("br")), Full::from("x"), &intake(0))
            .await
            .unwrap_err();
        insta::assert_snapshot!(error, @"Content-Encoding br is not supported; send gzip or no encoding");
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded_for_as_long_as_they_are_used() {
        let intake = Intake::new(1 << 20, Duration::from_secs(5), 0, 1 << 20);
        let half = || Full::from(vec![0; 600_000]);
        let first = read(&parts(None), half(), &intake).await.unwrap();
        let refused = read(&parts(None), half(), &intake).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Overloaded);
        insta::assert_snapshot!(refused, @"Server is overloaded - bodies of requests under way: the most bytes allowed are 1048576, see --max_bytes_in_flight; try again later");
        // What is expanded counts as well.
        let bomb = Full::from(gzip(&[0; 600_000]));
        let refused = read(&parts(Some("gzip")), bomb, &intake).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Overloaded);
        let slice = first.slice(10..20);
        drop(first);
        assert!(
            read(&parts(None), half(), &intake).await.is_err(),
            "a slice keeps it"
        );
        drop(slice);
        assert!(read(&parts(None), half(), &intake).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_stops_is_given_up() {
        let stuck = StreamBody::new(futures::stream::pending::<Result<_, std::io::Error>>());
        let error = read(&parts(None), stuck, &intake(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        insta::assert_snapshot!(error, @"request body stopped coming for 5 s; see --read_timeout_seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_drips_is_given_up() {
        // A byte each four seconds: no pause is too long.
        let drops = || {
            let drops = futures::stream::iter(0..90)
                .map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"x"))));
            StreamBody::new(Box::pin(drops.throttle(Duration::from_secs(4))))
        };
        assert_eq!(
            read(&parts(None), drops(), &intake(0)).await.unwrap().len(),
            90
        );
        let error = read(&parts(None), drops(), &intake(1)).await.unwrap_err();
        insta::assert_snapshot!(error, @"request body comes too slowly: 2 bytes in 7 s; see --min_receive_rate");
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let pieces = ["ab", "", "cd", "e"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let body = Body::from_stream(futures::stream::iter(pieces));
        let whole = read(&parts(None), body, &intake(0)).await.unwrap();
        assert_eq!(whole, "abcde");
    }
}
