//! The messages of a gRPC call, read one by one.
//!
//! Between messages of a stream a client may pause for as long as it likes; one that has begun has to go
//! on. A message is charged from its first byte for as long as it is used, and takes
//! room among those of its stream, so that a client that sends large ones has few on their way.

use std::sync::Arc;

use axum::http::{Extensions, HeaderName, HeaderValue, Request};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Code, Status};

use super::{
    body::{BodyLimits, RateLimitedBody},
    expand::{Coding, MAX_QUERY, expand},
    gather::Gather,
    received::Received,
};
use crate::{
    budget::{Charge, OVERHEAD},
    error::{Error, ErrorKind, Result},
    text::cut_chars,
};

/// Unit of the accounting, as a power of two of bytes; less is not counted.
const UNIT: u32 = 12;

/// The room of a stream: 8 MiB of messages on their way, or a larger one alone.
const ROOM: u32 = 8 << (20 - UNIT);

/// The encodings that messages may have.
const ENCODINGS: &str = "gzip,deflate,identity";

/// Maximum size of a piece that any part of it may keep.
const MAX_SHARED_PIECE: usize = 16 << 10;

/// The least part of a larger piece that may keep it, as a divisor.
const LEAST_PART: usize = 4;

/// Bytes of a message that are put together before other tasks of the thread are next.
const MAX_TURN: usize = 128 << 10;

/// The flag and the length before a message.
pub(super) const PREFIX: usize = 5;

/// Memory of a call before it has any message: its headers and futures.
pub(super) const CALL: usize = 8 << 10;

/// Reads the messages of a call.
pub(super) struct Reader<B = Received> {
    body: RateLimitedBody<B>,
    /// Additions to the request on its way.
    extensions: Extensions,
    limits: BodyLimits,
    /// Received bytes that were not parsed yet.
    rest: Bytes,
    /// Size of the piece that they are the end of.
    piece: usize,
    /// Encoding of the messages that say that they have one.
    encoding: Option<HeaderValue>,
    /// Charge of the call itself.
    charge: Charge,
    /// Room for the messages of a stream, once there is one.
    room: Option<Arc<Semaphore>>,
}

/// A message of a stream, and the room that it takes.
pub(super) struct Message {
    pub(super) bytes: Bytes,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    /// Takes the body of a request, and charges what the call takes without it.
    ///
    /// # Errors
    ///
    /// Fails if the budget has nothing left.
    pub(super) fn new(request: Request<B>, limits: &BodyLimits) -> Result<Self, Status> {
        let charge = limits.budget.charge(CALL);
        let (mut parts, body) = request.into_parts();
        Ok(Self {
            body: RateLimitedBody::new(body, limits, &parts.extensions),
            limits: limits.clone(),
            rest: Bytes::new(),
            piece: 0,
            encoding: parts.headers.remove(&ENCODING),
            charge: charge?,
            extensions: parts.extensions,
            room: None,
        })
    }

    /// Returns what the way of the request has added to it.
    pub(super) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Ends reading; returns the charge of the call, and what its way has added to the request.
    pub(super) fn into_parts(self) -> (Charge, Extensions) {
        (self.charge, self.extensions)
    }

    /// Charges what has come of the messages that follow, which stays while those before have no room.
    fn hold(&mut self) -> Result<(), Status> {
        let held = CALL + self.rest.len();
        self.charge.shrink(held);
        Ok(self.charge.grow(held)?)
    }

    /// Waits for as long as it takes for something to come; returns whether it did.
    async fn wait(&mut self) -> Result<bool, Status> {
        self.body.pause();
        while self.rest.is_empty() {
            match self.piece().await? {
                Some(piece) => self.receive(piece),
                None => return Ok(false),
            }
        }
        self.body.begin();
        Ok(true)
    }

    /// Reads the flag and the length before a message.
    async fn head(&mut self) -> Result<(Option<Coding>, usize), Status> {
        while self.rest.len() < PREFIX {
            if !self.rest.is_empty() {
                self.rest = Bytes::copy_from_slice(&self.rest);
            }
            let more = self.piece().await?.ok_or_else(incomplete)?;
            let whole = match self.rest.is_empty() {
                true => more,
                false => [std::mem::take(&mut self.rest), more].concat().into(),
            };
            self.receive(whole);
        }
        let coding = match self.rest.get_u8() {
            0 => None,
            1 => Some(coding(self.encoding.as_ref())?),
            flag => {
                return Err(Status::internal(format!(
                    "protocol error: received message with invalid compression flag: {flag} \
                     (valid flags are 0 and 1)"
                )));
            }
        };
        let length = self.rest.get_u32() as usize;
        let limit = self.limits.message_size;
        if length > limit {
            return Err(too_large("decoded", length, limit));
        }
        self.limits.budget.fits(length)?;
        Ok((coding, length))
    }

    /// Reads the message behind its head.
    async fn contents(&mut self, coding: Option<Coding>, length: usize) -> Result<Bytes, Status> {
        let mut charge = self.limits.budget.charge(OVERHEAD)?;
        let bytes = if (1..=self.rest.len()).contains(&length) {
            // Most have come in one piece, which is not copied.
            charge.add(length)?;
            charge.keep(self.take(length))
        } else {
            self.gather(charge, length).await?
        };
        let Some(coding) = coding else {
            return Ok(bytes);
        };
        let limits = &self.limits;
        Ok(expand(bytes, coding, limits.message_size, &limits.budget).await?)
    }

    /// Puts a message together as it comes.
    async fn gather(&mut self, charge: Charge, length: usize) -> Result<Bytes, Status> {
        let mut gather = Gather::new(charge, length);
        let mut turn_end = MAX_TURN;
        loop {
            let missing = length - gather.len();
            let piece = self.take(self.rest.len().min(missing));
            gather.push(piece)?;
            if gather.len() == length {
                break;
            }
            if gather.len() > turn_end {
                turn_end = gather.len() + MAX_TURN;
                tokio::task::yield_now().await;
            }
            let piece = self.piece().await?.ok_or_else(incomplete)?;
            self.receive(piece);
        }
        Ok(gather.finish()?)
    }

    /// Reads the one message of a call of this path.
    ///
    /// # Errors
    ///
    /// Fails if there is none or more than one, if it is cut short, too large, or stops coming, and if the
    /// budget has no room for it.
    pub(super) async fn only(&mut self, path: &str) -> Result<Bytes, Status> {
        let (coding, length) = self.head().await?;
        let message = self.contents(coding, length).await?;
        // Known without asking in nearly all cases.
        while self.rest.is_empty() && !self.body.is_end_stream() {
            match self.piece().await? {
                None => break,
                Some(piece) => self.receive(piece),
            }
        }
        if self.rest.is_empty() {
            return Ok(message);
        }
        Err(Status::internal(format!(
            "a call of {} takes one message, and another one followed",
            name(path)
        )))
    }

    /// Takes what has come for what is to be parsed next.
    fn receive(&mut self, piece: Bytes) {
        self.piece = piece.len();
        self.rest = piece;
    }

    /// Takes bytes off what has come; a small part of a large piece is copied, since it would keep all of that.
    fn take(&mut self, length: usize) -> Bytes {
        let part = self.rest.split_to(length);
        match self.piece > MAX_SHARED_PIECE && length < self.piece / LEAST_PART {
            true => Bytes::copy_from_slice(&part),
            false => part,
        }
    }

    /// Waits for the next piece; `None` if there are no more.
    async fn piece(&mut self) -> Result<Option<Bytes>, Status> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the next message; `None` if there are no more.
    ///
    /// # Errors
    ///
    /// Fails if the message is cut short, too large, or stops coming, and if the budget has no room for it.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Status> {
        if !self.wait().await? {
            return Ok(None);
        }
        let (coding, length) = self.head().await?;
        let room = self.room(length).await;
        // That was no time of the client's.
        self.body.begin();
        let bytes = self.contents(coding, length).await?;
        self.hold()?;
        Ok(Some(Message { bytes, room }))
    }

    /// Waits until the messages before leave room for one of this length.
    async fn room(&mut self, length: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(length >> UNIT).map_or(ROOM, |units| units.min(ROOM));
        if units == 0 {
            return None;
        }
        let all = || Arc::new(Semaphore::new(ROOM as usize));
        let room = Arc::clone(self.room.get_or_insert_with(all));
        // Never closed.
        room.acquire_many_owned(units).await.ok()
    }
}

/// Returns the method of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The header with the compression of messages.
static ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// Maximum number of characters of the name of a compression that an error repeats.
const MAX_REPEATED: usize = 100;

/// Reads how a message is compressed that says that it is.
fn coding(encoding: Option<&HeaderValue>) -> Result<Coding, Status> {
    match encoding.map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Err(Status::internal(
            "protocol error: received message with compressed-flag but no grpc-encoding was \
             specified",
        )),
        Some(b"gzip") => Ok(Coding::Gzip),
        Some(b"deflate") => Ok(Coding::Deflate),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let other = cut_chars(&other, MAX_REPEATED);
            let text = format!("Content is compressed with `{other}` which isn't supported");
            let mut status = Status::unimplemented(text);
            let encodings = tonic::metadata::MetadataValue::from_static(ENCODINGS);
            status
                .metadata_mut()
                .insert("grpc-accept-encoding", encodings);
            Err(status)
        }
    }
}

/// Makes the error of a call that ends within a message, in the framework's own words.
fn incomplete() -> Status {
    Status::new(Code::Internal, "Unexpected EOF decoding stream.")
}

/// Makes the error of a message that is larger than it may be.
pub(super) fn too_large(what: &str, length: usize, limit: usize) -> Status {
    let more = match limit {
        MAX_QUERY => ", the maximum of requests other than inference",
        _ => "; see --max-message-size",
    };
    let text = format!(
        "Error, {what} message length too large: found {length} bytes, the limit is: {limit} bytes{more}"
    );
    Error::new(ErrorKind::TooLarge, text).into()
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Duration};

    use axum::http::Request;
    use bytes::Bytes;
    use futures::{FutureExt as _, StreamExt as _};
    use http_body_util::StreamBody;
    use hyper::body::{Body, Frame};

    use super::{MAX_QUERY, ROOM, Reader, UNIT, too_large};
    use crate::{budget::Budget, frontends::body::BodyLimits};

    type Piece = Result<Frame<Bytes>, std::io::Error>;

    fn piece(bytes: &[u8]) -> Piece {
        Ok(Frame::data(Bytes::copy_from_slice(bytes)))
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap();
        [&[flag], &length.to_be_bytes()[..], message].concat()
    }

    fn messages<B>(body: B, encoding: Option<&str>) -> Reader<B>
    where
        B: Body<Data = Bytes, Error = std::io::Error> + Unpin,
    {
        messages_at(0, body, encoding)
    }

    /// Reads what has to come at a rate.
    fn messages_at<B>(rate: u64, body: B, encoding: Option<&str>) -> Reader<B>
    where
        B: Body<Data = Bytes, Error = std::io::Error> + Unpin,
    {
        let mut request = Request::new(body);
        if let Some(encoding) = encoding {
            let encoding = encoding.parse().unwrap();
            request.headers_mut().insert("grpc-encoding", encoding);
        }
        let limits = BodyLimits {
            message_size: 1 << 26,
            pause: Duration::from_secs(5),
            rate,
            budget: Budget::default(),
        };
        Reader::new(request, &limits).unwrap()
    }

    /// Reads all messages of a body that comes in these pieces, and what ends them.
    async fn read(pieces: Vec<Piece>, encoding: Option<&str>) -> (Vec<Bytes>, String) {
        let body = StreamBody::new(futures::stream::iter(pieces));
        let mut messages = messages(body, encoding);
        let mut read = Vec::new();
        loop {
            match messages.next().await {
                Ok(Some(message)) => read.push(message.bytes),
                Ok(None) => return (read, String::new()),
                Err(status) => return (read, status.message().to_owned()),
            }
        }
    }

    #[tokio::test]
    async fn messages_are_found_however_they_are_cut() {
        let large = vec![7; 100_000];
        let whole = [
            framed(0, b"one"),
            framed(0, b""),
            framed(0, &large),
            framed(0, b"four"),
        ]
        .concat();
        for size in [1, 3, 5, 8, 1000, 70_000, whole.len()] {
            let pieces = whole.chunks(size).map(piece).collect();
            let (read, end) = read(pieces, None).await;
            assert_eq!(read, [b"one", &b""[..], &large, b"four"], "{size}");
            assert_eq!(end, "", "{size}");
        }
    }

    #[tokio::test]
    async fn a_small_message_does_not_keep_a_large_piece() {
        let both = [framed(0, &vec![7; 100_000]), framed(0, b"small")].concat();
        let large = Bytes::from([&both[..], &framed(0, b"cut")[..7]].concat());
        let last = piece(b"t");
        let pieces = [Ok(Frame::data(large.clone())), last];
        let mut messages = messages(StreamBody::new(futures::stream::iter(pieces)), None);
        drop(messages.next().await.unwrap());
        let small = messages.next().await.unwrap().unwrap();
        let cut = messages.next().await.unwrap().unwrap();
        assert!(large.is_unique());
        assert_eq!(
            (&small.bytes[..], &cut.bytes[..]),
            (&b"small"[..], &b"cut"[..])
        );
    }

    #[tokio::test]
    async fn what_is_no_message_ends_them() {
        let end = async |bytes: &[u8], encoding| read(vec![piece(bytes)], encoding).await.1;
        insta::assert_snapshot!(end(&framed(0, b"one")[..6], None).await, @"Unexpected EOF decoding stream.");
        insta::assert_snapshot!(end(&[0, 0], None).await, @"Unexpected EOF decoding stream.");
        insta::assert_snapshot!(end(&framed(1, b"one"), None).await, @"protocol error: received message with compressed-flag but no grpc-encoding was specified");
        insta::assert_snapshot!(end(&framed(2, b"one"), Some("gzip")).await, @"protocol error: received message with invalid compression flag: 2 (valid flags are 0 and 1)");
        insta::assert_snapshot!(end(&[0, 255, 0, 0, 0], None).await, @"Error, decoded message length too large: found 4278190080 bytes, the limit is: 67108864 bytes; see --max-message-size");
    }

    #[tokio::test]
    async fn compressed_messages_are_expanded_one_by_one() {
        let level = flate2::Compression::fast();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        gzip.write_all(b"packed").unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
        zlib.write_all(b"packed").unwrap();
        for (encoding, packed) in [
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
        ] {
            let both = [framed(1, &packed), framed(0, b"plain")].concat();
            let (read, end) = read(vec![piece(&both)], Some(encoding)).await;
            assert_eq!(
                (read, end),
                (vec!["packed".into(), "plain".into()], String::new()),
                "{encoding}"
            );
        }
    }

    #[tokio::test]
    async fn only_a_message_that_is_compressed_needs_a_known_encoding() {
        let both = [framed(0, b"plain"), framed(1, b"packed")].concat();
        let long = "%".repeat(7000);
        let (_, of_long) = read(vec![piece(&both)], Some(&long)).await;
        assert!(of_long.len() < 200, "{}", of_long.len());
        let (read, end) = read(vec![piece(&both)], Some("snappy")).await;
        assert_eq!(read, ["plain"]);
        insta::assert_snapshot!(end, @"Content is compressed with `snappy` which isn't supported");
    }

    #[test]
    fn only_the_limit_of_inferences_can_be_set() {
        insta::assert_snapshot!([1 << 20, MAX_QUERY].map(|limit| {
            too_large("decoded", 5_000_000, limit).message().to_owned()
        }).join("\n"), @"
        Error, decoded message length too large: found 5000000 bytes, the limit is: 1048576 bytes; see --max-message-size
        Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes, the maximum of requests other than inference
        ");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_message_that_has_begun_has_to_go_on() {
        let late = |bytes: Vec<u8>, after| {
            futures::stream::once(async move {
                tokio::time::sleep(Duration::from_secs(after)).await;
                piece(&bytes)
            })
        };
        let never = futures::stream::pending::<Piece>();
        let pieces = late(framed(0, b"one"), 3600)
            .chain(late(framed(0, b"two")[..7].to_vec(), 3600))
            .chain(never);
        let mut messages = messages(StreamBody::new(Box::pin(pieces)), None);
        assert_eq!(messages.next().await.unwrap().unwrap().bytes, "one");
        let status = messages.next().await.err().unwrap();
        insta::assert_snapshot!(status.message(), @"request body stopped coming for 5 s; see --read-timeout-seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_room_is_no_time_of_the_client() {
        let all = framed(0, &vec![0; (ROOM << UNIT) as usize]);
        let second = framed(0, &vec![0; (ROOM << UNIT) as usize]);
        let late = |bytes: &[u8]| {
            let piece = piece(bytes);
            futures::stream::once(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                piece
            })
        };
        // The length comes in two parts, so that the message is waited for before there is room.
        let pieces = late(&all)
            .chain(late(&second[..3]))
            .chain(late(&second[3..5]))
            .chain(late(&second[5..]));
        let body = StreamBody::new(Box::pin(pieces));
        let mut messages = messages_at(1_000_000, body, None);
        let first = messages.next().await.unwrap().unwrap();
        let busy = async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(messages.next(), busy);
        assert_eq!(second.unwrap().unwrap().bytes.len(), all.len() - 5);
    }

    #[tokio::test]
    async fn large_messages_wait_for_those_before_them() {
        let half = framed(0, &vec![0; (ROOM << UNIT) as usize / 2 + 1]);
        let pieces: Vec<_> = (0..3).map(|_| piece(&half)).collect();
        let mut messages = messages(StreamBody::new(futures::stream::iter(pieces)), None);
        let first = messages.next().await.unwrap().unwrap();
        let second = messages.next().await.unwrap().unwrap();
        assert!(messages.next().now_or_never().is_none());
        drop((first, second));
    }
}
