//! Bodies and messages that are compressed, expanded within the budget and off the async workers.

use std::{
    io::{self, Read},
    sync::LazyLock,
};

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status, bufread::MultiGzDecoder};
use tokio::sync::Semaphore;

use super::gather::{Mapped, PIECE};
use crate::{
    budget::{Budget, Charge},
    error::{Error, ErrorKind, Result},
    task::{self, Task},
};

/// Maximum size of a message or body that is no inference; its strings are names, and it is read where it has come.
pub(super) const MAX_QUERY: usize = 4 << 20;

/// Bytes that are expanded at once, of a body that has no more; the rest elsewhere.
const AT_ONCE: usize = 16 << 10;

/// The room that the first bytes have.
const FIRST: usize = 8 << 10;

/// Compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// Any number of gzip members.
    Gzip,
    /// A zlib stream, which HTTP and gRPC call `deflate`.
    Deflate,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }
}

/// Expands a body of no more than `limit` bytes once it is expanded.
///
/// # Errors
///
/// Fails if it is not compressed so, is larger, or is more than the budget has left.
pub(super) async fn expand(
    body: Bytes,
    coding: Coding,
    limit: usize,
    budget: &Budget,
) -> Result<Bytes> {
    // There may be any number of them that expand to nothing.
    let is_small = body.len() <= AT_ONCE;
    let mut expansion = Expansion {
        reader: match coding {
            Coding::Gzip => Decoder::Gzip(MultiGzDecoder::new(body.reader())),
            Coding::Deflate => Decoder::Deflate(body, Some(Decompress::new(true))),
        },
        coding,
        limit,
        first: Vec::new(),
        filled: 0,
        rest: Mapped::default(),
        charge: budget.empty(),
    };
    if is_small && expansion.run(AT_ONCE)? {
        return Ok(expansion.finish());
    }
    // Those that wait hold what is packed. In a task of its own, since a turn would be kept from others by a stream that
    // is given it while it waits for its client. The semaphore is never closed.
    let expanded = Task::spawn(async move {
        let turn = TURNS.acquire().await.ok();
        task::blocking("expand", move || {
            let done = expansion.run(usize::MAX);
            drop(turn);
            done.map(|_| expansion.finish())
        })
        .await
    });
    expanded
        .await
        .unwrap_or_else(|error| Err(Error::internal("Internal server error").with_source(error)))
}

/// Turns of what is expanded beside the async workers: one for each core but one, since it is work for the
/// processor, and other requests need some of that.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores.saturating_sub(1).max(1))
});

/// The error of a body that is larger than it may be.
pub(super) fn too_large(limit: usize) -> Error {
    let text = match limit {
        MAX_QUERY => format!(
            "request body is larger than {limit} bytes, the maximum of requests other than inference"
        ),
        limit => format!("request body is larger than {limit} bytes; see --max-message-size"),
    };
    Error::new(ErrorKind::TooLarge, text)
}

/// Returns whether a coding of HTTP is gzip, by either of its names (RFC 9110, 8.4.1.3).
pub(super) fn is_gzip(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
}

/// Reader of what a body expands to.
enum Decoder {
    Gzip(MultiGzDecoder<bytes::buf::Reader<Bytes>>),
    /// The rest of the body, and its decoder until the end of the stream. The reader of the library takes a
    /// stream that is cut short for a whole one.
    Deflate(Bytes, Option<Decompress>),
}

impl Read for Decoder {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (body, decoder) = match self {
            Self::Gzip(reader) => return reader.read(room),
            Self::Deflate(_, None) => return Ok(0),
            Self::Deflate(body, Some(decoder)) => (body, decoder),
        };
        let before = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(body, room, FlushDecompress::None)?;
        // No more than there is of either.
        let taken = usize::try_from(decoder.total_in() - before.0).unwrap_or(body.len());
        let given = usize::try_from(decoder.total_out() - before.1).unwrap_or(room.len());
        body.advance(taken);
        match status {
            Status::StreamEnd if body.is_empty() => *self = Self::Deflate(Bytes::new(), None),
            Status::StreamEnd => {
                let text = format!("expected its end, found {} more bytes", body.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Status::Ok | Status::BufError if given == 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Status::Ok | Status::BufError => {}
        }
        Ok(given)
    }
}

/// A body that is being expanded, a piece at a time.
struct Expansion {
    reader: Decoder,
    coding: Coding,
    limit: usize,
    /// [`AT_ONCE`] bytes at most, as long as its room; `filled` bytes of it are there.
    first: Vec<u8>,
    filled: usize,
    /// All bytes, once they are more than the first ones.
    rest: Mapped,
    charge: Charge,
}

impl Expansion {
    fn len(&self) -> usize {
        self.filled + self.rest.len()
    }

    /// Expands until so many bytes are there; returns whether that is all.
    fn run(&mut self, until: usize) -> Result<bool> {
        while self.len() < until {
            let is_first = self.rest.len() == 0 && self.filled < AT_ONCE;
            let room = match is_first {
                true => {
                    self.grow_first()?;
                    &mut self.first[self.filled..]
                }
                false => {
                    if self.rest.is_full() {
                        self.charge.add(PIECE)?;
                        self.rest.extend(&std::mem::take(&mut self.first))?;
                        self.filled = 0;
                    }
                    self.rest.room()?
                }
            };
            let read = self.reader.read(room).map_err(|error| {
                let coding = self.coding.name();
                Error::invalid(format!("request body is not valid {coding}: {error}"))
            })?;
            if read == 0 {
                return Ok(true);
            }
            match is_first {
                true => self.filled += read,
                false => self.rest.fill(read),
            }
            if self.len() > self.limit {
                return Err(too_large(self.limit));
            }
        }
        Ok(false)
    }

    /// Makes room among the first bytes.
    fn grow_first(&mut self) -> Result<()> {
        let room = self.first.len();
        if self.filled == room {
            let more = room.clamp(FIRST, AT_ONCE - room);
            self.charge.add(more)?;
            self.first.resize(room + more, 0);
        }
        Ok(())
    }

    /// Returns all that was expanded as one buffer, which has the charge.
    fn finish(mut self) -> Bytes {
        self.first.truncate(self.filled);
        let whole = match self.rest.len() {
            0 => self.first.into(),
            _ => self.rest.finish(),
        };
        self.charge.keep(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{
        Compression,
        write::{GzEncoder, ZlibEncoder},
    };
    use futures::FutureExt as _;

    use super::{AT_ONCE, Coding, expand};
    use crate::{budget::Budget, error::ErrorKind};

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn a_large_body_is_expanded_elsewhere_even_to_nothing() {
        let budget = Budget::new(1 << 20);
        let small = expand(gzip(b"small").into(), Coding::Gzip, 100, &budget);
        assert_eq!(small.now_or_never().unwrap().unwrap(), "small");
        let empty = gzip(b"");
        let members = empty.repeat(AT_ONCE / empty.len() + 1);
        assert!(members.len() > AT_ONCE);
        let mut large = Box::pin(expand(members.into(), Coding::Gzip, 100, &budget));
        assert!(large.as_mut().now_or_never().is_none(), "it is elsewhere");
        assert_eq!(large.await.unwrap(), "");
        assert_eq!(budget.charged(), 0);
    }

    #[tokio::test]
    async fn a_zlib_stream_is_expanded_within_the_same_limits() {
        let budget = Budget::new(8 << 20);
        let expanded =
            async |body: Vec<u8>, limit| expand(body.into(), Coding::Deflate, limit, &budget).await;
        // At once, elsewhere, and elsewhere after a beginning at once.
        let noise: Vec<u8> = (0..100_000u32)
            .map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes()[0])
            .collect();
        for data in [&b""[..], b"small", &noise, &vec![7; 3 << 20]] {
            let limit = data.len();
            assert_eq!(expanded(zlib(data), limit).await.unwrap(), data);
            if let Some(limit) = limit.checked_sub(1) {
                let error = expanded(zlib(data), limit).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TooLarge);
            }
            let packed = zlib(data);
            for cut in [0, 1, packed.len() / 2, packed.len() - 1] {
                let error = expanded(packed[..cut].to_vec(), limit).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{cut}");
            }
        }
        let error = async |body| expanded(body, 100).await.unwrap_err().to_string();
        let mut wrong = zlib(b"small");
        *wrong.last_mut().unwrap() ^= 1;
        insta::assert_snapshot!([
            error(Vec::new()).await,
            error(gzip(b"small")).await,
            error(wrong).await,
            error([zlib(b"small"), b"more".to_vec()].concat()).await,
        ].join("\n"), @"
        request body is not valid deflate: unexpected end of file
        request body is not valid deflate: deflate decompression error
        request body is not valid deflate: deflate decompression error
        request body is not valid deflate: expected its end, found 4 more bytes
        ");
        // More than the budget has at all.
        let bomb = expanded(zlib(&vec![0; 9 << 20]), usize::MAX).await;
        assert_eq!(bomb.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(budget.charged(), 0);
    }
}
