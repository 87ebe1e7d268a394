//! One message or body, put together from the pieces in which it comes, and charged from the first;
//! and the lists of values in it as packed bytes.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::{
    budget::{Charge, OVERHEAD},
    error::{Error, ErrorKind, Result},
    request::Data,
    tensor::{
        DataType,
        values::{Packer, ValueError},
    },
};

/// Pieces below this size are copied together: each would keep the buffer in which it was received.
const SMALL: usize = 4 << 10;

/// Maximum size of a buffer that small pieces are copied into, which is then a piece.
const MAX_TAIL: usize = 64 << 10;

/// Messages longer than this are copied as they come: pieces kept until the last one arrives would
/// double the memory.
const LARGE: usize = 1 << 20;

/// Pieces that have come.
#[derive(Debug)]
pub(super) struct Gather {
    charge: Charge,
    pieces: Vec<Bytes>,
    /// Small pieces behind the others.
    tail: Vec<u8>,
    /// All bytes so far, in place of both, once they are many.
    mapped: Option<Mapped>,
    length: usize,
    expected: usize,
}

impl Gather {
    /// Begins with a charge, to which the pieces are added; `expected` is the length in the end, 0 if
    /// that is unknown.
    pub(super) fn new(charge: Charge, expected: usize) -> Self {
        Self {
            charge,
            pieces: Vec::new(),
            tail: Vec::new(),
            mapped: None,
            length: 0,
            expected,
        }
    }

    /// Returns how many bytes have come.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Takes the next piece.
    ///
    /// # Errors
    ///
    /// Fails if it is more than the budget has left.
    pub(super) fn push(&mut self, piece: Bytes) -> Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        self.charge.add(piece.len())?;
        self.length += piece.len();
        if let Some(mapped) = &mut self.mapped {
            return mapped.extend(&piece);
        }
        if self.pieces.is_empty() && self.tail.is_empty() {
            match piece.len() < SMALL && piece.len() < self.expected {
                // Others follow, whenever their sender likes.
                true => self.tail.extend_from_slice(&piece),
                // Most have but one, which is not copied.
                false => self.pieces.push(piece),
            }
            return Ok(());
        }
        if let [first] = &self.pieces[..]
            && first.len() < SMALL
            && self.tail.is_empty()
        {
            self.tail.extend_from_slice(first);
            self.pieces.clear();
        }
        if piece.len() < SMALL && self.tail.len() + piece.len() <= MAX_TAIL {
            self.tail.extend_from_slice(&piece);
            return Ok(());
        }
        self.end_tail()?;
        if piece.len() < SMALL {
            self.tail.extend_from_slice(&piece);
        } else {
            self.pieces.push(piece);
        }
        if self.length > LARGE {
            let mut mapped = Mapped::expecting(self.expected, self.length);
            for piece in self.pieces.drain(..) {
                mapped.extend(&piece)?;
            }
            mapped.extend(&std::mem::take(&mut self.tail))?;
            self.mapped = Some(mapped);
        }
        Ok(())
    }

    /// Makes a piece of the small ones.
    fn end_tail(&mut self) -> Result<()> {
        if !self.tail.is_empty() {
            self.charge.add(OVERHEAD)?;
            self.pieces.push(std::mem::take(&mut self.tail).into());
        }
        Ok(())
    }

    /// Returns all that has come as one buffer, which has the charge.
    ///
    /// # Errors
    ///
    /// Fails if the system has no memory for it.
    pub(super) fn finish(mut self) -> Result<Bytes> {
        if let Some(mapped) = self.mapped {
            return Ok(self.charge.keep(mapped.finish()));
        }
        if self.pieces.is_empty() {
            return Ok(match self.tail.is_empty() {
                true => Bytes::new(),
                false => self.charge.keep(self.tail.into()),
            });
        }
        if let [_] = &self.pieces[..]
            && self.tail.is_empty()
            && let Some(piece) = self.pieces.pop()
        {
            return Ok(self.charge.keep(piece));
        }
        let is_large = self.length >= MIN_ALIGNED;
        let mut whole: Vec<u8> =
            Vec::with_capacity(self.length + if is_large { ALIGNED } else { 0 });
        let skipped = match is_large {
            true => before(whole.as_ptr() as usize + self.length),
            false => 0,
        };
        whole.resize(skipped, 0);
        for piece in self.pieces.drain(..) {
            whole.extend_from_slice(&piece);
        }
        whole.extend_from_slice(&self.tail);
        Ok(self.charge.keep(Bytes::from(whole).slice(skipped..)))
    }
}

/// Bytes that are filled at most before [`Mapped::is_full`] says so.
pub(super) const PIECE: usize = 1 << 20;

/// The end of many bytes is put at a multiple of this. The last tensor of a message or a body is what ends it, so that
/// it begins at such a multiple, too, if its size is one, and is used where it lies.
const ALIGNED: usize = 64;

/// Bytes for which that matters.
const MIN_ALIGNED: usize = 256 << 10;

/// Growth of the room where the end is not known.
const GROWTH: usize = 4;

/// The same where it is known: nearly everything is written to its place at once. The room costs addresses,
/// and memory only once it is written to.
const GROWTH_TO_END: usize = 64;

/// Returns how many bytes are left out so that something ends at a multiple of [`ALIGNED`].
const fn before(end: usize) -> usize {
    (ALIGNED - end % ALIGNED) % ALIGNED
}

/// Bytes of one buffer, which grows with them.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    map: Option<MmapMut>,
    /// Bytes of the map that are left out, so that the expected end is aligned.
    skipped: usize,
    length: usize,
    /// Expected length; 0 if unknown.
    expected: usize,
    /// Bytes that are there before the first is added.
    received: usize,
}

impl Mapped {
    /// Creates a buffer for an expected number of bytes, none of which are reserved, if so many of them have been
    /// received: these alone make it as large as it would have grown with them, without the copies.
    pub(super) fn expecting(expected: usize, received: usize) -> Self {
        Self {
            skipped: before(expected),
            expected,
            received,
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
            Some(map) if map.len() > self.skipped + self.length => map,
            full => self.grow(full)?,
        };
        let map = self.map.insert(map);
        let end = self.skipped + (self.length / PIECE + 1) * PIECE;
        let end = end.min(map.len());
        Ok(&mut map[self.skipped + self.length..end])
    }

    /// Returns a larger buffer with the bytes of a full one.
    fn grow(&self, full: Option<MmapMut>) -> Result<MmapMut> {
        let length = self.length.max(self.received);
        let size = match self.expected > length {
            true => self.expected.min(length * GROWTH_TO_END),
            false => length * GROWTH,
        };
        // The system gives the memory as it is written to.
        let mut map = map(self.skipped + size.max(PIECE))?;
        if let Some(full) = full {
            let end = self.skipped + self.length;
            map[self.skipped..end].copy_from_slice(&full[self.skipped..end]);
        }
        Ok(map)
    }

    /// Marks so many bytes of the room as filled.
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
            Some(map) => Bytes::from_owner(map).slice(self.skipped..self.skipped + self.length),
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

/// Packs elements that are of the type already.
pub(super) fn fixed<T: Copy, const N: usize>(
    elements: &[T],
    to_bytes: impl Fn(T) -> [u8; N],
) -> Data {
    let mut bytes = Vec::with_capacity(elements.len() * N);
    for &element in elements {
        bytes.extend_from_slice(&to_bytes(element));
    }
    values(elements.len(), bytes)
}

/// Packs elements of a wider type, each of which has to fit.
pub(super) fn one_by_one<T>(
    dtype: DataType,
    elements: Vec<T>,
    push: impl Fn(&mut Packer, T) -> Result<(), ValueError>,
) -> Data {
    let mut packer = Packer::new(dtype, elements.len());
    for element in elements {
        if let Err(error) = push(&mut packer, element) {
            return Data::Unfit(error.to_string());
        }
    }
    values(packer.count(), packer.finish())
}

/// Makes data of what is packed already.
pub(super) fn values(count: usize, bytes: impl Into<Bytes>) -> Data {
    Data::Values {
        count,
        bytes: bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{ALIGNED, Gather, Mapped, PIECE};
    use crate::budget::Budget;

    #[test]
    fn a_single_piece_is_not_copied() {
        let budget = Budget::new(1 << 20);
        let piece = Bytes::from(vec![1; 100]);
        let mut gather = Gather::new(budget.charge(10).unwrap(), 0);
        gather.push(piece.clone()).unwrap();
        let whole = gather.finish().unwrap();
        assert_eq!(whole.as_ptr(), piece.as_ptr());
        assert_eq!(budget.charged(), 110);
        drop(whole);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn a_small_piece_does_not_keep_its_buffer_while_others_are_waited_for() {
        let buffer = Bytes::from(vec![1; 1 << 20]);
        let mut gather = Gather::new(Budget::default().empty(), 20);
        gather.push(buffer.slice(..10)).unwrap();
        assert!(buffer.is_unique());
        gather.push(buffer.slice(..10)).unwrap();
        assert_eq!(gather.finish().unwrap(), [1; 20][..]);
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_first_byte() {
        let budget = Budget::new(150);
        let mut gather = Gather::new(budget.empty(), 0);
        gather.push(vec![1; 100].into()).unwrap();
        assert!(gather.push(vec![1; 51].into()).is_err());
        gather.push(vec![1; 1].into()).unwrap();
        drop(gather);
        assert_eq!(budget.charged(), 0);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_put_together(
            sizes in prop::collection::vec(prop_oneof![0_usize..20, 4000_usize..5000, Just(70_000), Just(600_000)], 0..40),
        ) {
            let budget = Budget::default();
            let mut gather = Gather::new(budget.empty(), 0);
            let mut expected = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let piece = vec![index.to_le_bytes()[0]; size];
                expected.extend_from_slice(&piece);
                gather.push(piece.into()).unwrap();
                prop_assert_eq!(gather.len(), expected.len());
            }
            let whole = gather.finish().unwrap();
            prop_assert_eq!(&whole, &expected);
            prop_assert!(budget.charged() >= expected.len());
            drop(whole);
            prop_assert_eq!(budget.charged(), 0);
        }
    }

    #[test]
    fn large_messages_end_at_a_multiple() {
        for (count, size) in [(2, 200_003), (3, 100_001), (30, 100_001)] {
            let mut gather = Gather::new(Budget::default().empty(), count * size);
            for _ in 0..count {
                gather.push(vec![1; size].into()).unwrap();
            }
            let whole = gather.finish().unwrap();
            assert_eq!(whole, vec![1; count * size]);
            assert_eq!(whole.as_ptr_range().end as usize % ALIGNED, 0, "{count}");
        }
    }

    #[test]
    fn nothing_is_lost_as_it_grows() {
        let bytes: Vec<u8> = (0..5 * PIECE + 7)
            .map(|index| (index % 251) as u8)
            .collect();
        for expected in [0, PIECE, bytes.len(), 9 * PIECE] {
            let mut mapped = Mapped::expecting(expected, bytes.len() / 2);
            for part in bytes.chunks(300_001) {
                mapped.extend(part).unwrap();
            }
            assert_eq!(mapped.len(), bytes.len());
            let whole = mapped.finish();
            assert_eq!(whole, bytes);
            if expected == bytes.len() {
                assert_eq!(whole.as_ptr_range().end as usize % ALIGNED, 0);
            }
        }
        assert!(Mapped::default().finish().is_empty());
    }
}
