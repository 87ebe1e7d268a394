//! Request bodies: their bounds, and how they are read whole within these.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Extensions, header, request::Parts};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{
    access::Note,
    expand::{Coding, MAX_QUERY, expand, is_gzip, too_large},
    gather::Gather,
};
use crate::{
    budget::Budget,
    config::ServerSettings,
    error::{Error, ErrorKind, Result},
};

/// Memory of a request over HTTP/1 before it has a body: its head and its futures.
const CALL: usize = 4 << 10;

/// Maximum pause within a body, whatever the flags say: what is added to now has to be a time.
const MAX_PAUSE: Duration = Duration::from_secs(u32::MAX as u64);

/// Bounds of received bodies, and the budget that all that is received, queued, and answered is charged to: for
/// all connections of both protocols together.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Maximum size of one message or body in bytes.
    pub(super) message_size: usize,
    /// Maximum pause within a body.
    pub(super) pause: Duration,
    /// Bytes a second that a sender has to manage; 0 for any.
    pub(super) rate: u64,
    pub(super) budget: Budget,
}

impl BodyLimits {
    /// Makes the bounds that the settings name.
    pub fn of(settings: &ServerSettings) -> Self {
        let flags = &settings.flags;
        Self {
            message_size: flags.max_message_size.get(),
            pause: Duration::from_secs(flags.read_timeout_seconds),
            rate: flags.min_receive_rate.get() as u64,
            budget: settings.budget.clone(),
        }
    }

    /// Returns the same bounds, charged to a part of the budget.
    pub(super) fn with_budget(&self, budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            ..self.clone()
        }
    }

    /// Returns the same bounds for what is no inference.
    pub(super) fn of_query(&self) -> Self {
        self.with_message_size(self.message_size.min(MAX_QUERY))
    }

    /// Returns the same bounds, charged together, with another size for one message.
    pub fn with_message_size(&self, message_size: usize) -> Self {
        Self {
            message_size,
            ..self.clone()
        }
    }
}

/// Reads a body whole and expands it if it is gzip.
///
/// # Errors
///
/// Fails if the body is above the limit as sent or as expanded, stops coming, comes too slowly, or
/// is encoded in another way, or if the budget has no room for it.
pub(super) async fn read<B>(parts: &Parts, body: B, limits: &BodyLimits) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let limit = limits.message_size;
    let body = receive(parts, body, limits).await?.finish()?;
    match parts
        .headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes())
    {
        None => Ok(body),
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => Ok(body),
        Some(coding) if is_gzip(coding) => expand(body, Coding::Gzip, limit, &limits.budget).await,
        Some(other) => Err(Error::invalid(format!(
            "Content-Encoding {} is not supported; send gzip or no encoding",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Receives all of a body as it is sent.
async fn receive<B>(parts: &Parts, body: B, limits: &BodyLimits) -> Result<Gather>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let limit = limits.message_size;
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let expected = body.size_hint().exact().unwrap_or_default();
    let expected = usize::try_from(expected).unwrap_or_default();
    limits.budget.fits(expected)?;
    let mut gather = Gather::new(limits.budget.charge(CALL)?, expected);
    let mut body = std::pin::pin!(RateLimitedBody::new(body, limits, &parts.extensions));
    while let Some(frame) = body.frame().await {
        // Nobody waits for the rest of one that stopped or broke off.
        let frame = frame.map_err(Error::leaving_body)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if gather.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        gather.push(data)?;
    }
    Ok(gather)
}

/// Body with an idle timeout and a minimum receive rate.
///
/// The rate counts once the sender has used up the time of the timeout.
pub(super) struct RateLimitedBody<B> {
    body: B,
    pause: Duration,
    /// Bytes a second; 0 for any.
    rate: u64,
    received: u64,
    /// Time at which it was first waited for.
    since: Option<Instant>,
    /// Start of the present pause, and the time that it may last; only while nothing comes, so that a
    /// body that is there costs no timer.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    note: Option<Arc<Note>>,
    /// Exempts the sender from the limits while set.
    pausing: bool,
}

impl<B> RateLimitedBody<B> {
    /// Takes the body of a request with these extensions.
    pub(super) fn new(body: B, limits: &BodyLimits, extensions: &Extensions) -> Self {
        Self {
            body,
            pause: limits.pause.min(MAX_PAUSE),
            rate: limits.rate,
            received: 0,
            since: None,
            waiting: None,
            note: Note::of(extensions),
            pausing: false,
        }
    }

    /// Lets the sender take any time, until [`begin`](Self::begin).
    pub(super) fn pause(&mut self) {
        self.pausing = true;
    }

    /// Begins to watch the sender as if nothing had come so far.
    pub(super) fn begin(&mut self) {
        self.pausing = false;
        self.received = 0;
        self.since = None;
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
                "request body stopped coming for {} s; see --read-timeout-seconds",
                self.pause.as_secs()
            )
        } else {
            let since = self.since.map_or(Duration::ZERO, |since| since.elapsed());
            format!(
                "request body comes too slowly: {} bytes in {} s; see --min-receive-rate",
                self.received,
                since.as_secs()
            )
        };
        Error::new(ErrorKind::DeadlineExceeded, text)
    }
}

/// Distinguishes a malformed body, such as chunks without sizes, from a client that is gone.
fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let failure = causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .find(|cause| {
            matches!(
                cause.kind(),
                std::io::ErrorKind::InvalidInput
                    | std::io::ErrorKind::InvalidData
                    | std::io::ErrorKind::UnexpectedEof
            )
        });
    match failure {
        Some(failure) => Error::invalid(format!("request body cannot be read: {failure}")),
        None => Error::new(
            ErrorKind::Cancelled,
            format!("request body cannot be read: {error}"),
        ),
    }
}

impl<B> Body for RateLimitedBody<B>
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
                let length = frame.data_ref().map_or(0, Bytes::len);
                self.received += length as u64;
                if let Some(note) = &self.note {
                    note.received(length as u64);
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| unreadable(&error))));
        }
        if self.pausing {
            return Poll::Pending;
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
    use futures::FutureExt as _;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio_stream::StreamExt as _;

    use super::{BodyLimits, MAX_QUERY, read};
    use crate::{budget::Budget, error::ErrorKind};

    /// Takes 100 bytes, and waits for five seconds.
    fn limits(rate: u64) -> BodyLimits {
        BodyLimits {
            message_size: 100,
            pause: Duration::from_secs(5),
            rate,
            budget: Budget::new(1 << 20),
        }
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
        let body = read(&parts(Some("gzip")), small, &limits(0)).await;
        assert_eq!(body.unwrap(), [b'a'; 100][..]);
        for (name, body) in [
            ("GZIP", gzip(b"same")),
            ("x-gzip", gzip(b"same")),
            ("Identity", b"same".to_vec()),
        ] {
            let body = read(&parts(Some(name)), Full::from(body), &limits(0)).await;
            assert_eq!(body.unwrap(), "same", "{name}");
        }
        for (parts, body) in [
            (parts(Some("gzip")), gzip(&[b'a'; 101])),
            (parts(None), vec![b'a'; 101]),
        ] {
            let error = read(&parts, Full::from(body), &limits(0))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
        }
    }

    #[tokio::test]
    async fn broken_gzip_and_other_encodings_are_refused() {
        let mut cut = gzip(&[b'a'; 1000]);
        cut.truncate(10);
        let error = read(&parts(Some("gzip")), Full::from(cut), &limits(0))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = read(&parts(Some("br")), Full::from("x"), &limits(0))
            .await
            .unwrap_err();
        insta::assert_snapshot!(error, @"Content-Encoding br is not supported; send gzip or no encoding");
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded_for_as_long_as_they_are_used() {
        let limits = BodyLimits {
            message_size: 1 << 20,
            ..limits(0)
        };
        let half = || Full::from(vec![0; 600_000]);
        let first = read(&parts(None), half(), &limits).await.unwrap();
        let refused = read(&parts(None), half(), &limits).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        insta::assert_snapshot!(refused, @"Server is overloaded - requests and answers in flight: the most bytes allowed are 1048576, see --max-bytes-in-flight; try again later");
        // What is expanded counts as well, a mebibyte at a time, for which there is never room here.
        let bomb = Full::from(gzip(&[0; 600_000]));
        let refused = read(&parts(Some("gzip")), bomb, &limits).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let slice = first.slice(10..20);
        drop(first);
        assert!(
            read(&parts(None), half(), &limits).await.is_err(),
            "a slice keeps it"
        );
        drop(slice);
        assert!(read(&parts(None), half(), &limits).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_no_inference_has_a_bound_of_its_own() {
        assert_eq!(limits(0).of_query().message_size, 100);
        let limits = BodyLimits {
            message_size: usize::MAX,
            budget: Budget::default(),
            ..limits(0)
        };
        let large = Full::from(vec![b' '; MAX_QUERY + 1]);
        let error = read(&parts(None), large, &limits.of_query()).await;
        insta::assert_snapshot!(error.unwrap_err(), @"request body is larger than 4194304 bytes, the maximum of requests other than inference");
        let most = Full::from(vec![b' '; MAX_QUERY]);
        assert!(read(&parts(None), most, &limits.of_query()).await.is_ok());
    }

    #[tokio::test]
    async fn only_the_error_of_a_body_that_is_not_whole_ends_its_connection() {
        let broken = read(&parts(Some("gzip")), Full::from("x"), &limits(0)).await;
        assert!(!broken.unwrap_err().leaves_body());
        let large = read(&parts(None), Full::from(vec![0; 101]), &limits(0)).await;
        assert!(
            !large.unwrap_err().leaves_body(),
            "it may be read to its end"
        );
        let lost = Err(std::io::Error::other("lost"));
        let lost = StreamBody::new(futures::stream::iter([lost]));
        let lost = read(&parts(None), lost, &limits(0)).await;
        assert!(lost.unwrap_err().leaves_body());
    }

    #[tokio::test]
    async fn a_pause_may_be_as_long_as_a_flag_can_say() {
        let limits = BodyLimits {
            pause: Duration::from_secs(u64::MAX),
            ..limits(1)
        };
        let stuck = StreamBody::new(futures::stream::pending::<Result<_, std::io::Error>>());
        let parts = parts(None);
        let body = Box::pin(read(&parts, stuck, &limits));
        assert!(body.now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_stops_is_given_up() {
        let stuck = StreamBody::new(futures::stream::pending::<Result<_, std::io::Error>>());
        let error = read(&parts(None), stuck, &limits(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        assert!(error.leaves_body());
        insta::assert_snapshot!(error, @"request body stopped coming for 5 s; see --read-timeout-seconds");
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
            read(&parts(None), drops(), &limits(0)).await.unwrap().len(),
            90
        );
        let error = read(&parts(None), drops(), &limits(1)).await.unwrap_err();
        insta::assert_snapshot!(error, @"request body comes too slowly: 2 bytes in 7 s; see --min-receive-rate");
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let pieces = ["ab", "", "cd", "e"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let body = Body::from_stream(futures::stream::iter(pieces));
        let whole = read(&parts(None), body, &limits(0)).await.unwrap();
        assert_eq!(whole, "abcde");
    }
}
