//! Bodies and messages that are gzip, expanded within the budget and off the async workers.

use std::{
    io::Read,
    sync::{Arc, LazyLock},
};

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use memmap2::MmapMut;
use tokio::sync::Semaphore;

use crate::{
    budget::{Budget, Charge},
    error::{Error, ErrorKind, Result},
    task,
};

/// Bytes that are expanded at once; the rest elsewhere.
const AT_ONCE: usize = 64 << 10;

/// The room that the first bytes have.
const FIRST: usize = 8 << 10;

/// The largest piece that is expanded into.
const PIECE: usize = 1 << 20;

/// Expands a body of no more than `limit` bytes once it is expanded.
///
/// # Errors
///
/// Fails if it is no gzip, is larger, or is more than the budget has left.
pub(super) async fn expand(body: Bytes, limit: usize, budget: &Budget) -> Result<Bytes> {
    let mut expansion = Expansion::new(body, limit, budget);
    if expansion.run(AT_ONCE)? {
        return expansion.finish();
    }
    // Those that wait hold what is packed. The semaphore is never closed.
    let turn = turns().acquire_owned().await.ok();
    task::blocking("expand", move || {
        let done = expansion.run(usize::MAX);
        drop(turn);
        done.and_then(|_| expansion.finish())
    })
    .await
}

/// Returns the turns of what is expanded beside the async workers: one for each core, since it is work for
/// the processor.
fn turns() -> Arc<Semaphore> {
    static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Semaphore::new(cores))
    });
    Arc::clone(&TURNS)
}

/// The error of a body that is larger than it may be.
pub(super) fn too_large(limit: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("request body is larger than {limit} bytes; see --max_message_size"),
    )
}

/// A body that is being expanded, a piece at a time.
///
/// What is more than its first bytes is in memory of the system's, which has each piece back as soon as it
/// is dropped: an allocator keeps what one thread has freed for a while, when the next body already grows
/// in another.
struct Expansion {
    reader: MultiGzDecoder<bytes::buf::Reader<Bytes>>,
    limit: usize,
    /// [`AT_ONCE`] bytes at most, as long as its room.
    first: Vec<u8>,
    /// Of [`PIECE`] bytes each.
    pieces: Vec<MmapMut>,
    /// Bytes that are there.
    length: usize,
    charge: Charge,
}

impl Expansion {
    fn new(body: Bytes, limit: usize, budget: &Budget) -> Self {
        Self {
            reader: MultiGzDecoder::new(body.reader()),
            limit,
            first: Vec::new(),
            pieces: Vec::new(),
            length: 0,
            charge: budget.empty(),
        }
    }

    /// Expands until so many bytes are there; returns whether that is all.
    fn run(&mut self, until: usize) -> Result<bool> {
        while self.length < until {
            self.make_room()?;
            let room = match self.length.checked_sub(AT_ONCE) {
                None => &mut self.first[self.length..],
                Some(beyond) => &mut self.pieces[beyond / PIECE][beyond % PIECE..],
            };
            let read = self.reader.read(room).map_err(|error| {
                Error::invalid(format!("request body is not valid gzip: {error}"))
            })?;
            if read == 0 {
                return Ok(true);
            }
            self.length += read;
            if self.length > self.limit {
                return Err(too_large(self.limit));
            }
        }
        Ok(false)
    }

    /// Sees to it that another byte finds room.
    fn make_room(&mut self) -> Result<()> {
        let room = self.first.len() + self.pieces.len() * PIECE;
        if self.length < room {
            return Ok(());
        }
        if room < AT_ONCE {
            let more = room.clamp(FIRST, AT_ONCE - room);
            self.charge.add(more)?;
            self.first.resize(room + more, 0);
        } else {
            self.charge.add(PIECE)?;
            self.pieces.push(map(PIECE)?);
        }
        Ok(())
    }

    /// Returns all that was expanded as one buffer, which has the charge.
    fn finish(mut self) -> Result<Bytes> {
        let Some(beyond) = self.length.checked_sub(AT_ONCE).filter(|bytes| *bytes > 0) else {
            self.first.truncate(self.length);
            return Ok(self.charge.keep(self.first.into()));
        };
        // The system gives the memory as it is written to, and has each piece back when it is copied.
        let mut whole = map(self.length)?;
        let (first, mut rest) = whole.split_at_mut(AT_ONCE);
        first.copy_from_slice(&self.first);
        debug_assert_eq!(rest.len(), beyond);
        for piece in self.pieces {
            let (filled, others) = rest.split_at_mut(rest.len().min(PIECE));
            filled.copy_from_slice(&piece[..filled.len()]);
            rest = others;
        }
        Ok(self.charge.keep(Bytes::from_owner(whole)))
    }
}

/// Asks the system for memory.
fn map(bytes: usize) -> Result<MmapMut> {
    MmapMut::map_anon(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Exhausted,
            format!(
                "Server is overloaded - no memory for an expanded body: {error}; try again later"
            ),
        )
    })
}
