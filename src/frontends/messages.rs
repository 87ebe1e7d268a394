//! The messages of a gRPC call that takes any number of them, read one by one.
//!
//! Between messages a client may pause for as long as it likes; one that has begun has to go on. A
//! message is counted among the bodies of all connections for as long as it is used, and takes
//! room among those of its stream, so that a client that sends large ones has few on their way.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap, Request};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Code, Status};

use super::{
    access::Note,
    body::{self, Paced},
    intake::Intake,
    reply,
    unary::{MOST_AHEAD, PREFIX, incomplete, too_large},
};
use crate::task;

/// What room is counted in, as a power of two of bytes; less is not counted.
const UNIT: u32 = 12;

/// The room of a stream: 8 MiB of messages on their way, or a larger one alone.
const ROOM: u32 = 8 << (20 - UNIT);

/// The encodings that messages may have.
const ENCODINGS: &str = "gzip,identity";

/// The messages of a call.
pub(super) struct Messages<B = Incoming> {
    body: B,
    intake: Intake,
    extensions: Extensions,
    note: Option<Arc<Note>>,
    /// What has come and was not read yet.
    rest: Bytes,
    is_gzip: bool,
    room: Arc<Semaphore>,
}

/// A message, and the room that it takes.
pub(super) struct Message {
    pub(super) bytes: Bytes,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl<B> Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    /// Takes the body of a request.
    ///
    /// # Errors
    ///
    /// Fails if the messages have an encoding that is not known.
    pub(super) fn new(request: Request<B>, intake: &Intake) -> Result<Self, Status> {
        let (parts, body) = request.into_parts();
        Ok(Self {
            body,
            intake: intake.clone(),
            is_gzip: is_gzip(&parts.headers)?,
            note: Note::of(&parts.extensions),
            extensions: parts.extensions,
            rest: Bytes::new(),
            room: Arc::new(Semaphore::new(ROOM as usize)),
        })
    }

    /// Returns what the way of the request has added to it.
    pub(super) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Reads the next message; `None` if there are no more.
    ///
    /// # Errors
    ///
    /// Fails if the message is cut short, too large, or stops coming, and if all bodies together
    /// are too much.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Status> {
        if self.rest.is_empty() && !self.first().await? {
            return Ok(None);
        }
        while self.rest.len() < PREFIX {
            let more = self.more().await?;
            self.rest = [std::mem::take(&mut self.rest), more].concat().into();
        }
        let is_compressed = match self.rest.get_u8() {
            0 => false,
            1 if self.is_gzip => true,
            1 => {
                return Err(Status::internal(
                    "protocol error: received message with compressed-flag but no grpc-encoding \
                     was specified",
                ));
            }
            flag => {
                return Err(Status::internal(format!(
                    "protocol error: received message with invalid compression flag: {flag} \
                     (valid flags are 0 and 1)"
                )));
            }
        };
        let length = self.rest.get_u32() as usize;
        let limit = self.intake.message_size();
        if length > limit {
            return Err(too_large("decoded", length, limit));
        }
        let room = self.room(length).await;
        let mut hold = self.intake.hold();
        let mut grow = |bytes| hold.grow(bytes).map_err(|error| reply::status(&error));
        let bytes = if self.rest.len() >= length {
            grow(length)?;
            self.rest.split_to(length)
        } else {
            let mut message = BytesMut::with_capacity(length.min(MOST_AHEAD));
            message.extend_from_slice(&std::mem::take(&mut self.rest));
            while message.len() < length {
                let mut more = self.more().await?;
                let piece = more.split_to(more.len().min(length - message.len()));
                grow(message.len() + piece.len())?;
                message.extend_from_slice(&piece);
                self.rest = more;
            }
            message.freeze()
        };
        let bytes = if is_compressed {
            let expand = move || body::expand(&bytes, limit, hold);
            let expanded = task::sized("expand", length, expand).await;
            expanded.map_err(|error| reply::status(&error))?
        } else {
            hold.keep(bytes)
        };
        Ok(Some(Message { bytes, room }))
    }

    /// Waits for as long as it takes for something to come; whether it did.
    async fn first(&mut self) -> Result<bool, Status> {
        while let Some(frame) = self.body.frame().await {
            // The client is gone, and nobody reads what is said of it.
            let frame = frame.map_err(|error| Status::new(Code::Cancelled, error.to_string()))?;
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                if let Some(note) = &self.note {
                    note.received(data.len() as u64);
                }
                self.rest = data;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits for more of a message that has begun.
    async fn more(&mut self) -> Result<Bytes, Status> {
        let mut body = Paced::new(&mut self.body, &self.intake, &self.extensions);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| reply::status(&error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(data);
            }
        }
        Err(incomplete())
    }

    /// Waits until the messages before leave room for one of this length.
    async fn room(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(length >> UNIT).map_or(ROOM, |units| units.min(ROOM));
        if units == 0 {
            return None;
        }
        // Never closed.
        Arc::clone(&self.room).acquire_many_owned(units).await.ok()
    }
}

/// Reads how the messages of a call are compressed, where they say that they are.
fn is_gzip(headers: &HeaderMap) -> Result<bool, Status> {
    match headers.get("grpc-encoding").map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
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

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Duration};

    use axum::http::Request;
    use bytes::Bytes;
    use futures::{FutureExt as _, StreamExt as _};
    use http_body_util::StreamBody;
    use hyper::body::{Body, Frame};

    use super::{Messages, ROOM, UNIT};
    use crate::frontends::intake::Intake;

    type Piece = Result<Frame<Bytes>, std::io::Error>;

    fn piece(bytes: &[u8]) -> Piece {
        Ok(Frame::data(Bytes::copy_from_slice(bytes)))
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap();
        [&[flag], &length.to_be_bytes()[..], message].concat()
    }

    fn messages<B>(body: B, encoding: Option<&str>) -> Messages<B>
    where
        B: Body<Data = Bytes, Error = std::io::Error> + Unpin,
    {
        let mut request = Request::new(body);
        if let Some(encoding) = encoding {
            let encoding = encoding.parse().unwrap();
            request.headers_mut().insert("grpc-encoding", encoding);
        }
        let intake = Intake::new(1 << 26, Duration::from_secs(5), 0, 1 << 30);
        Messages::new(request, &intake).unwrap()
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
    async fn what_is_no_message_ends_them() {
        let end = async |bytes: &[u8], encoding| read(vec![piece(bytes)], encoding).await.1;
        insta::assert_snapshot!(end(&framed(0, b"one")[..6], None).await, @"Unexpected EOF decoding stream.");
        insta::assert_snapshot!(end(&[0, 0], None).await, @"Unexpected EOF decoding stream.");
        insta::assert_snapshot!(end(&framed(1, b"one"), None).await, @"protocol error: received message with compressed-flag but no grpc-encoding was specified");
        insta::assert_snapshot!(end(&framed(2, b"one"), Some("gzip")).await, @"protocol error: received message with invalid compression flag: 2 (valid flags are 0 and 1)");
        insta::assert_snapshot!(end(&[0, 255, 0, 0, 0], None).await, @"Error, decoded message length too large: found 4278190080 bytes, the limit is: 67108864 bytes; see --max_message_size");
    }

    #[tokio::test]
    async fn compressed_messages_are_expanded_one_by_one() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"packed").unwrap();
        let packed = encoder.finish().unwrap();
        let both = [framed(1, &packed), framed(0, b"plain")].concat();
        let (read, end) = read(vec![piece(&both)], Some("gzip")).await;
        assert_eq!(
            (read, end),
            (vec!["packed".into(), "plain".into()], String::new())
        );
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
        insta::assert_snapshot!(status.message(), @"request body stopped coming for 5 s; see --read_timeout_seconds");
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
