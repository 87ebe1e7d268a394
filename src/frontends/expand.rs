//! Bodies and messages that are gzip, expanded within the budget and off the async workers.

use std::{
    io::Read,
    sync::{Arc, LazyLock},
};

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
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
        return Ok(expansion.finish());
    }
    // Those that wait hold what is packed. The semaphore is never closed.
    let turn = turns().acquire_owned().await.ok();
    task::blocking("expand", move || {
        let done = expansion.run(usize::MAX);
        drop(turn);
        done.map(|_| expansion.finish())
    })
    .await
}

/// Returns the turns of what is expanded beside the async workers: one for each core, since it is work for
/// the processor, and memory that several threads have expanded into is slow to come back.
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

/// A body that is being expanded, a piece at a time: pieces that grew would leave memory behind.
struct Expansion {
    reader: MultiGzDecoder<bytes::buf::Reader<Bytes>>,
    limit: usize,
    /// Pieces that are full.
    pieces: Vec<Vec<u8>>,
    /// The piece that is filled, as long as its room; `filled` bytes of it are there.
    last: Vec<u8>,
    filled: usize,
    length: usize,
    charge: Charge,
}

impl Expansion {
    fn new(body: Bytes, limit: usize, budget: &Budget) -> Self {
        Self {
            reader: MultiGzDecoder::new(body.reader()),
            limit,
            pieces: Vec::new(),
            last: Vec::new(),
            filled: 0,
            length: 0,
            charge: budget.empty(),
        }
    }

    /// Expands until so many bytes are there; returns whether that is all.
    fn run(&mut self, until: usize) -> Result<bool> {
        while self.length < until {
            if self.filled == self.last.len() {
                self.begin_piece()?;
            }
            let read = self
                .reader
                .read(&mut self.last[self.filled..])
                .map_err(|error| {
                    Error::invalid(format!("request body is not valid gzip: {error}"))
                })?;
            if read == 0 {
                return Ok(true);
            }
            self.filled += read;
            self.length += read;
            if self.length > self.limit {
                return Err(too_large(self.limit));
            }
        }
        Ok(false)
    }

    /// Begins a piece as large as all before it, within bounds.
    fn begin_piece(&mut self) -> Result<()> {
        let size = self.length.clamp(FIRST, PIECE);
        self.charge.add(size)?;
        let full = std::mem::replace(&mut self.last, vec![0; size]);
        if !full.is_empty() {
            self.pieces.push(full);
        }
        self.filled = 0;
        Ok(())
    }

    /// Returns all that was expanded as one buffer, which has the charge.
    fn finish(mut self) -> Bytes {
        self.last.truncate(self.filled);
        if self.pieces.is_empty() {
            return self.charge.keep(self.last.into());
        }
        // The system gives the memory as it is written to, and each piece goes as soon as it is copied.
        let mut whole = Vec::with_capacity(self.length);
        for piece in self.pieces.drain(..) {
            whole.extend_from_slice(&piece);
        }
        whole.extend_from_slice(&self.last);
        self.charge.keep(whole.into())
    }
}
