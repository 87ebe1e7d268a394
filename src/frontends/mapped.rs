//! Memory of the system's own for what is large and grows: the system has each piece back as soon as it is
//! dropped. An allocator keeps what one thread has freed for a while, when the next body already grows in
//! another.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::error::{Error, ErrorKind, Result};

/// The size of a piece.
pub(super) const PIECE: usize = 1 << 20;

/// Bytes in pieces.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pieces: Vec<MmapMut>,
    length: usize,
}

impl Mapped {
    /// Returns how many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the next byte needs another piece.
    pub(super) fn is_full(&self) -> bool {
        self.length == self.pieces.len() * PIECE
    }

    /// Returns room for at least one byte.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no memory.
    pub(super) fn room(&mut self) -> Result<&mut [u8]> {
        if self.is_full() {
            self.pieces.push(map(PIECE)?);
        }
        Ok(&mut self.pieces[self.length / PIECE][self.length % PIECE..])
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

    /// Returns all of it behind `first` as one buffer.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no memory.
    pub(super) fn join(self, first: &[u8]) -> Result<Bytes> {
        // The system gives the memory as it is written to.
        let mut whole = map(first.len() + self.length)?;
        let (start, mut rest) = whole.split_at_mut(first.len());
        start.copy_from_slice(first);
        for piece in self.pieces {
            let (filled, others) = rest.split_at_mut(rest.len().min(PIECE));
            filled.copy_from_slice(&piece[..filled.len()]);
            rest = others;
        }
        Ok(Bytes::from_owner(whole))
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
    fn nothing_is_lost_between_pieces() {
        let bytes: Vec<u8> = (0..2 * PIECE + 7)
            .map(|index| (index % 251) as u8)
            .collect();
        let mut mapped = Mapped::default();
        for part in bytes.chunks(300_001) {
            mapped.extend(part).unwrap();
        }
        assert_eq!(mapped.len(), bytes.len());
        let joined = mapped.join(b"first").unwrap();
        assert_eq!(&joined[..5], b"first");
        assert_eq!(&joined[5..], bytes);
    }
}
