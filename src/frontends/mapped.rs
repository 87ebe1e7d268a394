//! Memory of the system's own for what is large and grows: the system has each piece back as soon as it is
//! dropped. An allocator keeps what one thread has freed for a while, when the next body already grows in
//! another.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::error::{Error, ErrorKind, Result};

/// Bytes that are filled at most before [`Mapped::is_full`] says so.
pub(super) const PIECE: usize = 1 << 20;

/// Growth of the room where the end is not known.
const GROWTH: usize = 4;

/// The same where it is known: nearly everything is written to its place at once. The room costs addresses,
/// and memory only once it is written to.
const GROWTH_TO_END: usize = 64;

/// Bytes of one buffer, which grows with them.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    map: Option<MmapMut>,
    length: usize,
    /// Expected length; 0 if unknown.
    expected: usize,
}

impl Mapped {
    /// Creates a buffer for an expected number of bytes, none of which are reserved.
    pub(super) fn expecting(expected: usize) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Returns how many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the next byte is the first of a piece.
    pub(super) fn is_full(&self) -> bool {
        self.length.is_multiple_of(PIECE)
    }

    /// Returns room for at least one byte, up to the end of a piece.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no memory.
    pub(super) fn room(&mut self) -> Result<&mut [u8]> {
        let map = match self.map.take() {
            Some(map) if map.len() > self.length => map,
            full => self.grow(full)?,
        };
        let map = self.map.insert(map);
        let end = (self.length / PIECE + 1) * PIECE;
        let end = end.min(map.len());
        Ok(&mut map[self.length..end])
    }
    /// Returns a larger buffer with the bytes of a full one.
    fn grow(&self, full: Option<MmapMut>) -> Result<MmapMut> {
        let size = match self.expected > self.length {
            true => self.expected.min(self.length * GROWTH_TO_END),
            false => self.length * GROWTH,
        };
        // The system gives the memory as it is written to.
        let mut map = map(size.max(PIECE))?;
        if let Some(full) = full {
            map[..self.length].copy_from_slice(&full[..self.length]);
        }
        Ok(map)
    }

    /// Says that so many bytes of the room are filled.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.length += bytes;
    }

    /// Adds bytes.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no memory.
    pub(super) fn extend(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.fill(now.len());
            bytes = later;
        }
        Ok(())
    }

    /// Returns all of it.
    pub(super) fn finish(self) -> Bytes {
        match self.map {
            Some(map) => Bytes::from_owner(map).slice(..self.length),
            None => Bytes::new(),
        }
    }
}

/// Asks the system for memory.
fn map(bytes: usize) -> Result<MmapMut> {
    MmapMut::map_anon(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Exhausted,
            format!("Server is overloaded - no memory for a body: {error}; try again later"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Mapped, PIECE};

    #[test]
    fn nothing_is_lost_as_it_grows() {
        let bytes: Vec<u8> = (0..5 * PIECE + 7)
            .map(|index| (index % 251) as u8)
            .collect();
        for expected in [0, PIECE, bytes.len(), 9 * PIECE] {
            let mut mapped = Mapped::expecting(expected);
            for part in bytes.chunks(300_001) {
                mapped.extend(part).unwrap();
            }
            assert_eq!(mapped.len(), bytes.len());
            assert_eq!(mapped.finish(), bytes);
        }
        assert!(Mapped::default().finish().is_empty());
    }
}
