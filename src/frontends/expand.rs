//! Bodies and messages that are gzip, expanded within the budget and off the async workers.

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use std::io::Read;

use crate::{
    budget::{Budget, Charge},
    error::{Error, ErrorKind, Result},
    task,
};

/// Bytes that are expanded at once; the rest elsewhere.
const AT_ONCE: usize = 64 << 10;

/// The room that the first bytes have.
const FIRST: usize = 8 << 10;

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
    task::blocking("expand", move || {
        expansion.run(usize::MAX)?;
        Ok(expansion.finish())
    })
    .await
}

/// The error of a body that is larger than it may be.
pub(super) fn too_large(limit: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("request body is larger than {limit} bytes; see --max_message_size"),
    )
}

/// A body that is being expanded.
struct Expansion {
    reader: MultiGzDecoder<bytes::buf::Reader<Bytes>>,
    limit: usize,
    /// As large as its room; of it, `filled` bytes are expanded.
    expanded: Vec<u8>,
    filled: usize,
    charge: Charge,
}

impl Expansion {
    fn new(body: Bytes, limit: usize, budget: &Budget) -> Self {
        Self {
            reader: MultiGzDecoder::new(body.reader()),
            limit,
            expanded: Vec::new(),
            filled: 0,
            charge: budget.empty(),
        }
    }

    /// Expands until so many bytes are there; returns whether that is all.
    fn run(&mut self, until: usize) -> Result<bool> {
        while self.filled < until {
            if self.filled == self.expanded.len() {
                self.grow()?;
            }
            let read = self
                .reader
                .read(&mut self.expanded[self.filled..])
                .map_err(|error| {
                    Error::invalid(format!("request body is not valid gzip: {error}"))
                })?;
            if read == 0 {
                return Ok(true);
            }
            self.filled += read;
            if self.filled > self.limit {
                return Err(too_large(self.limit));
            }
        }
        Ok(false)
    }

    /// Doubles the room. One byte beyond the limit shows that the body goes on.
    fn grow(&mut self) -> Result<()> {
        let old = self.expanded.len();
        let most = self.limit.saturating_add(1);
        let new = (old * 2).clamp(FIRST.min(most), most);
        // Both are there while the bytes move.
        self.charge.add(new)?;
        self.expanded.reserve_exact(new - old);
        self.expanded.resize(new, 0);
        self.charge.shrink(new);
        Ok(())
    }

    fn finish(mut self) -> Bytes {
        self.expanded.truncate(self.filled);
        self.charge.keep(self.expanded.into())
    }
}
