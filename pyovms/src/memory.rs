//! Memory that a server and a worker share.
//!
//! Each side makes arenas, memory files without a name that can neither shrink nor grow, and takes blocks for its own
//! tensors from them; the other side maps an arena once. A block that is lent stays taken until the other side gives
//! it back, in any order and at any time. Places come from messages: they are checked against the arena, and what
//! they say is used once.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use memmap2::{MmapOptions, MmapRaw};
use prost::Message;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

use crate::message::{Contents, Tensor};

/// Blocks are multiples of it, so that elements of any type are aligned.
const UNIT: usize = 4 << 10;

/// Length of an arena that has several blocks.
const ARENA: usize = 4 << 20;

/// Blocks from this size on have an arena of their own, which ends with them.
const LARGE: usize = 1 << 20;

/// Maximum number of bytes in large blocks that are free and kept for the next tensors: pages that are there need not
/// be made.
const MAX_SPARE: usize = 64 << 20;

/// Number of forks between the process that this code began in and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Takes in that this process has just been forked. What its parent shares with the other side is the parent's affair from
/// here on: a block that both gave back would be taken twice, and locks may be held by threads that are not here.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of forks so far, by which a process knows what it has from its parent.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// A place in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Place {
    /// Number of the arena.
    #[prost(uint32, tag = "1")]
    pub arena: u32,
    /// Marks an arena of the side that receives this.
    #[prost(bool, tag = "2")]
    pub is_yours: bool,
    /// Offset of the block, in bytes.
    #[prost(uint64, tag = "3")]
    pub block: u64,
    /// Offset within the block, in bytes.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    /// Length, in bytes.
    #[prost(uint64, tag = "5")]
    pub length: u64,
    /// Marks a block given back whose arena has not come: its owner is to take no more from that.
    #[prost(bool, tag = "6")]
    pub is_missing: bool,
}

/// Notices to the other side.
pub trait Announce: Send + Sync {
    /// Announces an arena to the other side, before anything that is in it.
    ///
    /// # Errors
    ///
    /// Fails if there may not be so much, or the other side is gone.
    fn arena(&self, number: u32, bytes: usize, file: OwnedFd) -> io::Result<()>;

    /// An arena has ended, so that the other side need not map it any more.
    fn ended(&self, number: u32, bytes: usize);

    /// A block that the other side has lent is not used any more.
    fn freed(&self, place: Place);
}

/// Absent other side.
struct Alone;

impl Announce for Alone {
    fn arena(&self, _: u32, _: usize, _: OwnedFd) -> io::Result<()> {
        Ok(())
    }

    fn ended(&self, _: u32, _: usize) {}

    fn freed(&self, _: Place) {}
}

/// An arena as one side sees it.
struct Arena {
    number: u32,
    map: MmapRaw,
    /// Forks before it was mapped.
    forks: u32,
}

impl Arena {
    fn new(number: u32, map: MmapRaw) -> Arc<Self> {
        let forks = forks();
        Arc::new(Self { number, map, forks })
    }
}

/// A block of shared memory, which is given back when it is dropped.
pub struct Block {
    arena: Arc<Arena>,
    offset: usize,
    length: usize,
    home: Home,
}

enum Home {
    /// This side.
    Own(Weak<Shared>),
    /// The other side, which lends the block.
    Lent(Weak<dyn Announce>),
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.arena.forks != forks() {
            return;
        }
        match &self.home {
            Home::Own(shared) => {
                if let Some(shared) = shared.upgrade() {
                    shared.own().free(
                        Arc::clone(&self.arena),
                        self.offset,
                        self.length,
                        &*shared.announce,
                    );
                }
            }
            Home::Lent(announce) => {
                if let Some(announce) = announce.upgrade() {
                    announce.freed(Place {
                        arena: self.arena.number,
                        is_yours: true,
                        block: self.offset as u64,
                        length: self.length as u64,
                        ..Place::default()
                    });
                }
            }
        }
    }
}

/// Bytes in shared memory.
#[derive(Clone)]
pub struct Span {
    block: Arc<Block>,
    offset: usize,
    length: usize,
}

impl Span {
    /// Returns where they begin.
    pub fn start(&self) -> *mut u8 {
        // Within the arena, as was checked.
        self.block
            .arena
            .map
            .as_mut_ptr()
            .wrapping_add(self.block.offset + self.offset)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the part of these bytes that begins at an address, if it lies in them.
    pub fn part(&self, start: *const u8, length: usize) -> Option<Self> {
        let offset = (start as usize).checked_sub(self.start() as usize)?;
        (offset.checked_add(length)? <= self.length).then(|| Self {
            block: Arc::clone(&self.block),
            offset: self.offset + offset,
            length,
        })
    }

    /// Fills new bytes, which nobody else has yet, from an offset on.
    pub fn fill(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert_eq!(Arc::strong_count(&self.block), 1);
        let length = bytes.len().min(self.length.saturating_sub(offset));
        // SAFETY: the block is within the map, it is ours and was lent to nobody, and the bytes are not of it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.start().wrapping_add(offset),
                length,
            );
        }
    }

    /// Returns the bytes, for readers to whom it does not matter if the other side still writes to them: each byte
    /// counts for itself.
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }
}

impl AsRef<[u8]> for Span {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: they are within the map, which lives as long as this, and the file cannot shrink.
        unsafe { std::slice::from_raw_parts(self.start(), self.length) }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Span")
            .field("arena", &self.block.arena.number)
            .field("block", &self.block.offset)
            .field("offset", &self.offset)
            .field("length", &self.length)
            .finish()
    }
}

/// Blocks by arena and place, with how often the other side has them.
type Lent = HashMap<(u32, usize), (Arc<Block>, usize)>;

/// The memory of one side of a link.
pub struct Shared {
    announce: Arc<dyn Announce>,
    /// Indicates that there is no other side: a process that is forked has a copy of its own then.
    is_alone: bool,
    own: Mutex<Own>,
    /// Blocks of ours that the other side has, with how often it has them.
    lent: Mutex<Lent>,
    /// Arenas of the other side.
    others: Mutex<HashMap<u32, OtherArena>>,
}

/// An arena of the other side.
enum OtherArena {
    Mapped(Arc<Arena>),
    /// Arena that there was no room for: what lies in it is refused, unless there is room then.
    Unmapped(File, usize),
    /// Its descriptor has not come: what lies in it is refused.
    Missing,
}

impl OtherArena {
    /// Returns the arena, which is mapped now if it was not.
    fn mapped(&mut self, number: u32) -> io::Result<Arc<Arena>> {
        if let Self::Unmapped(file, length) = self {
            let map = MmapOptions::new().len(*length).map_raw(&*file)?;
            *self = Self::Mapped(Arena::new(number, map));
        }
        match self {
            Self::Mapped(arena) => Ok(Arc::clone(arena)),
            Self::Unmapped(..) => Err(io::ErrorKind::OutOfMemory.into()),
            Self::Missing => Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the process that takes them has as many files open as it may (ulimit -n)",
            )),
        }
    }
}

/// Arenas of this side.
#[derive(Default)]
struct Own {
    last: u32,
    /// Free blocks by length. Those of large ones are whole arenas.
    free: HashMap<usize, Vec<(Arc<Arena>, usize)>>,
    /// Bytes in large blocks that are free.
    spare: usize,
    /// The arena that has not been handed out to its end, and how far it has.
    current: Option<(Arc<Arena>, usize)>,
    /// Number of taken blocks of each arena that has several.
    taken: HashMap<u32, usize>,
    /// Arenas that the other side has not got: they end with what is taken of them.
    left: HashSet<u32>,
}

impl Own {
    fn free(&mut self, arena: Arc<Arena>, offset: usize, length: usize, announce: &dyn Announce) {
        let is_left = self.left.contains(&arena.number);
        let mut has_ended = is_left;
        if length >= LARGE {
            has_ended |= self.spare + length > MAX_SPARE;
            if !has_ended {
                self.spare += length;
            }
        } else if let Some(taken) = self.taken.get_mut(&arena.number) {
            *taken -= 1;
            has_ended &= *taken == 0;
        }
        if has_ended {
            self.taken.remove(&arena.number);
            self.left.remove(&arena.number);
            announce.ended(arena.number, arena.map.len());
        } else if !is_left {
            self.free.entry(length).or_default().push((arena, offset));
        }
    }

    /// Takes nothing more from an arena, which ends with what is taken of it.
    fn leave(&mut self, number: u32) {
        self.left.insert(number);
        self.current.take_if(|(arena, _)| arena.number == number);
        for blocks in self.free.values_mut() {
            blocks.retain(|(arena, _)| arena.number != number);
        }
    }

    /// Ends the arenas of which nothing is taken; returns whether there were any.
    fn end_free(&mut self, announce: &dyn Announce) -> bool {
        let mut ended = HashMap::new();
        for (number, _) in self.taken.extract_if(|_, taken| *taken == 0) {
            ended.insert(number, ARENA);
        }
        self.spare = 0;
        self.free.retain(|length, blocks| {
            blocks.retain(|(arena, _)| {
                if *length >= LARGE {
                    ended.insert(arena.number, arena.map.len());
                }
                !ended.contains_key(&arena.number)
            });
            !blocks.is_empty()
        });
        self.current
            .take_if(|(arena, _)| ended.contains_key(&arena.number));
        for (number, length) in &ended {
            announce.ended(*number, *length);
        }
        !ended.is_empty()
    }
}

/// Returns the length of a block for so many bytes: an eighth more than they are, at most.
fn block_length(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(UNIT);
    bytes.max(1).next_multiple_of(step)
}

/// Returns what so many bytes more take at most, when no block is free: an arena.
pub fn arena_length(bytes: usize) -> usize {
    match block_length(bytes) {
        length if length < LARGE => ARENA,
        length => length,
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Shared {
    /// Makes the memory of a side.
    pub fn new(announce: Arc<dyn Announce>) -> Arc<Self> {
        Self::with(announce, false)
    }

    /// Makes the memory of a process that shares it with nobody.
    pub fn alone() -> Arc<Self> {
        Self::with(Arc::new(Alone), true)
    }

    fn with(announce: Arc<dyn Announce>, is_alone: bool) -> Arc<Self> {
        Arc::new(Self {
            announce,
            is_alone,
            own: Mutex::default(),
            lent: Mutex::default(),
            others: Mutex::default(),
        })
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        // No change can be left half done, here and below.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> MutexGuard<'_, HashMap<u32, OtherArena>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes memory for so many bytes; what is in it is anything.
    ///
    /// # Errors
    ///
    /// Fails if there may not be so much more.
    pub fn take(self: &Arc<Self>, bytes: usize) -> io::Result<Span> {
        if isize::try_from(bytes).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let length = block_length(bytes);
        let mut own = self.own();
        let free = own.free.get_mut(&length).and_then(Vec::pop);
        let (arena, offset) = match free {
            Some(free) => {
                if length >= LARGE {
                    own.spare -= length;
                }
                free
            }
            None if length >= LARGE => (self.made(&mut own, length)?, 0),
            None => {
                let current = own
                    .current
                    .take()
                    .filter(|(_, used)| used + length <= ARENA);
                let (arena, used) = match current {
                    Some(current) => current,
                    None => (self.made(&mut own, ARENA)?, 0),
                };
                own.current = Some((Arc::clone(&arena), used + length));
                (arena, used)
            }
        };
        if length < LARGE {
            *own.taken.entry(arena.number).or_default() += 1;
        }
        drop(own);
        let block = Block {
            arena,
            offset,
            length,
            home: Home::Own(Arc::downgrade(self)),
        };
        Ok(Span {
            block: Arc::new(block),
            offset: 0,
            length: bytes,
        })
    }

    /// Ends what is free and kept for the next tensors; returns whether there was anything.
    pub fn end_free(&self) -> bool {
        self.own().end_free(&*self.announce)
    }

    /// Makes an arena, in place of free ones if there may not be another one beside them.
    fn made(&self, own: &mut Own, bytes: usize) -> io::Result<Arc<Arena>> {
        self.make(own, bytes)
            .or_else(|error| match own.end_free(&*self.announce) {
                true => self.make(own, bytes),
                false => Err(error),
            })
    }

    /// Makes an arena, and announces it to the other side.
    fn make(&self, own: &mut Own, bytes: usize) -> io::Result<Arc<Arena>> {
        if self.is_alone {
            let map = MmapOptions::new().len(bytes).map_anon()?;
            own.last += 1;
            return Ok(Arena::new(own.last, map.into()));
        }
        let file = memfd_create(
            "ovms tensors",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        let file = File::from(file);
        file.set_len(bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        own.last += 1;
        self.announce.arena(own.last, bytes, file.into())?;
        Ok(Arena::new(own.last, map))
    }

    /// Maps an arena of the other side. One that there is no room for is refused when something in it is borrowed.
    ///
    /// # Errors
    ///
    /// Fails if it is none, or cannot be mapped for another reason.
    pub fn map(&self, number: u32, bytes: u64, file: OwnedFd) -> io::Result<()> {
        let seals = fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(invalid("an arena can shrink"));
        }
        let file = File::from(file);
        if file.metadata()?.len() != bytes || bytes == 0 {
            return Err(invalid("an arena has another length than was said"));
        }
        let length = usize::try_from(bytes).map_err(|_| invalid("an arena is too long"))?;
        let mut arena = OtherArena::Unmapped(file, length);
        match arena.mapped(number) {
            Err(error) if error.kind() != io::ErrorKind::OutOfMemory => return Err(error),
            _ => {}
        }
        self.others().insert(number, arena);
        Ok(())
    }

    /// Notes an arena of the other side whose descriptor has not come: what lies in it is refused, and the other side
    /// takes no more from it.
    pub fn miss(&self, number: u32) {
        self.others().insert(number, OtherArena::Missing);
    }

    /// Forgets an arena of the other side, which has ended.
    pub fn unmap(&self, number: u32) {
        let arena = self.others().remove(&number);
        drop(arena);
    }

    /// Lends bytes to the other side; it gives back its own by dropping what it borrows.
    pub fn lend(&self, span: &Span) -> Place {
        let block = &span.block;
        let is_own = matches!(block.home, Home::Own(_));
        if is_own {
            let mut lent = self.lent();
            let key = (block.arena.number, block.offset);
            lent.entry(key).or_insert_with(|| (Arc::clone(block), 0)).1 += 1;
        }
        Place {
            arena: block.arena.number,
            is_yours: !is_own,
            block: block.offset as u64,
            offset: span.offset as u64,
            length: span.length as u64,
            is_missing: false,
        }
    }

    /// Borrows bytes that the other side has lent, or finds those of ours that it refers to.
    ///
    /// # Errors
    ///
    /// Fails if the place is none.
    pub fn borrow(&self, place: &Place) -> io::Result<Span> {
        let number =
            |number: u64| usize::try_from(number).map_err(|_| invalid("a place is out of range"));
        let (start, offset, length) = (
            number(place.block)?,
            number(place.offset)?,
            number(place.length)?,
        );
        let block = match place.is_yours {
            true => {
                let lent = self.lent();
                let block = lent.get(&(place.arena, start));
                Arc::clone(&block.ok_or_else(|| invalid("a block is not lent"))?.0)
            }
            false => {
                let arena = self.others().get_mut(&place.arena).map(|arena| {
                    let is_missing = matches!(arena, OtherArena::Missing);
                    (arena.mapped(place.arena), is_missing)
                });
                let (arena, is_missing) = arena.ok_or_else(|| invalid("an arena is not known"))?;
                let arena = arena.inspect_err(|_| {
                    // Nobody else gives it back.
                    self.announce.freed(Place {
                        is_yours: true,
                        offset: 0,
                        is_missing,
                        ..*place
                    });
                })?;
                // How long the block is, is its owner's affair.
                let end = start
                    .checked_add(offset)
                    .and_then(|at| at.checked_add(length));
                let end = end.filter(|end| *end <= arena.map.len());
                let end = end.ok_or_else(|| invalid("a place is beyond its arena"))?;
                Arc::new(Block {
                    arena,
                    offset: start,
                    length: end - start,
                    home: Home::Lent(Arc::downgrade(&self.announce)),
                })
            }
        };
        if offset
            .checked_add(length)
            .is_none_or(|end| end > block.length)
        {
            return Err(invalid("a place is beyond its block"));
        }
        Ok(Span {
            block,
            offset,
            length,
        })
    }

    /// Takes back a block of ours.
    pub fn returned(&self, place: &Place) {
        let Ok(start) = usize::try_from(place.block) else {
            return;
        };
        let key = (place.arena, start);
        let mut lent = self.lent();
        let Some((_, count)) = lent.get_mut(&key) else {
            return;
        };
        *count -= 1;
        let last = match *count {
            0 => lent.remove(&key),
            _ => None,
        };
        drop(lent);
        if place.is_missing {
            self.own().leave(place.arena);
        }
        drop(last);
    }

    /// Takes back what was lent for tensors of a message that is not sent.
    pub fn take_back(&self, tensors: &[Tensor]) {
        for tensor in tensors {
            if let Some(Contents::Shared(place)) = &tensor.contents
                && !place.is_yours
            {
                self.returned(place);
            }
        }
    }

    /// Takes back all that the other side has: it is gone.
    pub fn returned_all(&self) {
        let lent = std::mem::take(&mut *self.lent());
        drop(lent);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io,
        os::fd::OwnedFd,
        sync::{Arc, Mutex},
    };

    use super::{Announce, Place, Shared, block_length};

    /// Keeps what a side announces, for the other.
    #[derive(Default)]
    struct Said {
        arenas: Mutex<Vec<(u32, usize, OwnedFd)>>,
        ended: Mutex<Vec<u32>>,
        freed: Mutex<Vec<Place>>,
    }

    impl Announce for Said {
        fn arena(&self, number: u32, bytes: usize, file: OwnedFd) -> io::Result<()> {
            self.arenas.lock().unwrap().push((number, bytes, file));
            Ok(())
        }

        fn ended(&self, number: u32, _: usize) {
            self.ended.lock().unwrap().push(number);
        }

        fn freed(&self, place: Place) {
            self.freed.lock().unwrap().push(place);
        }
    }

    /// The two sides of a link.
    struct Sides {
        one: Arc<Shared>,
        said: Arc<Said>,
        other: Arc<Shared>,
        other_said: Arc<Said>,
    }

    impl Sides {
        fn new() -> Self {
            let (said, other_said) = (Arc::<Said>::default(), Arc::<Said>::default());
            Self {
                one: Shared::new(said.clone()),
                said,
                other: Shared::new(other_said.clone()),
                other_said,
            }
        }

        /// Lends bytes to the other side, and returns what that sees.
        fn lend(&self, bytes: &[u8]) -> super::Span {
            let mut span = self.one.take(bytes.len()).unwrap();
            span.fill(0, bytes);
            let place = self.one.lend(&span);
            for (number, bytes, file) in self.said.arenas.lock().unwrap().drain(..) {
                self.other.map(number, bytes as u64, file).unwrap();
            }
            self.other.borrow(&place).unwrap()
        }

        fn give_back(&self) {
            for place in self.other_said.freed.lock().unwrap().drain(..) {
                self.one.returned(&place);
            }
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_refused_and_given_back() {
        let sides = Sides::new();
        let span = sides.one.take(1000).unwrap();
        let place = sides.one.lend(&span);
        drop(span);
        let (number, bytes, file) = sides.said.arenas.lock().unwrap().pop().unwrap();
        sides
            .other
            .map(number, bytes as u64, file.try_clone().unwrap())
            .unwrap();
        // A length that no process has room for.
        let arena = super::OtherArena::Unmapped(file.into(), 1 << 60);
        sides.other.others().insert(number, arena);
        let refused = sides.other.borrow(&place).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
        assert_eq!(sides.other_said.freed.lock().unwrap().len(), 1);
        sides.give_back();
        assert!(sides.one.lent().is_empty());
    }

    #[test]
    fn an_arena_that_has_not_come_is_refused_and_left() {
        for bytes in [1000, 40 << 20] {
            let sides = Sides::new();
            let spans = [
                sides.one.take(bytes).unwrap(),
                sides.one.take(bytes).unwrap(),
            ];
            for (number, ..) in sides.said.arenas.lock().unwrap().drain(..) {
                sides.other.miss(number);
            }
            let places = [sides.one.lend(&spans[0]), sides.one.lend(&spans[1])];
            for place in &places {
                let refused = sides.other.borrow(place).unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
            }
            let numbers = spans.each_ref().map(|span| span.block.arena.number);
            sides.give_back();
            assert!(sides.one.lent().is_empty());
            let [first, second] = spans;
            drop(first);
            let ended = sides.said.ended.lock().unwrap().clone();
            assert_eq!(ended.contains(&numbers[0]), numbers[0] != numbers[1]);
            drop(second);
            assert!(sides.said.ended.lock().unwrap().contains(&numbers[1]));
            assert!(sides.one.own().left.is_empty());
            // In another one.
            let seen = sides.lend(&vec![7; bytes]);
            assert!(!numbers.contains(&seen.block.arena.number));
            assert_eq!(seen.as_ref()[bytes - 1], 7);
        }
    }

    /// Refuses what is beyond a number of bytes.
    struct Bounded(Mutex<usize>);

    impl Announce for Bounded {
        fn arena(&self, _: u32, bytes: usize, _: OwnedFd) -> io::Result<()> {
            let mut left = self.0.lock().unwrap();
            *left = left.checked_sub(bytes).ok_or(io::ErrorKind::Other)?;
            Ok(())
        }

        fn ended(&self, _: u32, bytes: usize) {
            *self.0.lock().unwrap() += bytes;
        }

        fn freed(&self, _: Place) {}
    }

    #[test]
    fn free_blocks_make_room_for_those_of_another_length() {
        let side = Shared::new(Arc::new(Bounded(Mutex::new(40 << 20))));
        for megabytes in [10, 20, 30, 39, 1, 35] {
            let span = side.take(megabytes << 20).unwrap();
            drop(span);
        }
        let kept = side.take(30 << 20).unwrap();
        assert!(side.take(20 << 20).is_err());
        assert!(side.take(5 << 20).is_ok());
        drop(kept);
        assert!(side.take(20 << 20).is_ok());
        for bytes in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 2] {
            assert!(side.take(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn arenas_of_which_nothing_is_taken_make_room() {
        let side = Shared::new(Arc::new(Bounded(Mutex::new(9 << 20))));
        let mut small: Vec<_> = (0..3).map(|_| side.take(700_000).unwrap()).collect();
        assert!(side.take(8 << 20).is_err());
        small.truncate(1);
        assert!(side.take(8 << 20).is_err());
        assert!(side.take(5 << 20).is_ok());
        // What was free of the arena that stays is taken again, and what is in it stays.
        small.extend([side.take(700_000).unwrap(), side.take(100).unwrap()]);
        // The large one.
        assert!(side.end_free());
        assert!(!side.end_free());
        small.clear();
        assert!(side.take(8 << 20).is_ok());
        assert!(side.end_free());
        assert!(side.take(100).is_ok());
    }

    #[test]
    fn the_other_side_sees_bytes_and_gives_them_back() {
        let sides = Sides::new();
        let first = sides.lend(b"some bytes");
        assert_eq!(first.as_ref(), b"some bytes");
        let second = sides.lend(b"others");
        assert_eq!(
            (first.as_ref(), second.as_ref()),
            (&b"some bytes"[..], &b"others"[..])
        );
        // In any order.
        let start = first.start() as usize;
        drop(first);
        sides.give_back();
        assert_eq!(
            sides.lend(b"again").start() as usize,
            start,
            "its block is free"
        );
        assert_eq!(second.as_ref(), b"others");
    }

    #[test]
    fn a_block_that_was_lent_twice_is_given_back_twice() {
        let sides = Sides::new();
        let span = sides.one.take(100).unwrap();
        let places = [sides.one.lend(&span), sides.one.lend(&span)];
        drop(span);
        sides.one.returned(&places[0]);
        assert_eq!(sides.one.lent().len(), 1);
        sides.one.returned(&places[1]);
        assert!(sides.one.lent().is_empty());
        // What was never lent is nothing.
        sides.one.returned(&places[1]);
    }

    #[test]
    fn what_is_lent_back_is_ours() {
        let sides = Sides::new();
        let seen = sides.lend(&[7; 100]);
        let part = seen.part(seen.start().wrapping_add(10), 20).unwrap();
        let place = sides.other.lend(&part);
        assert!(place.is_yours);
        let own = sides.one.borrow(&place).unwrap();
        assert_eq!(own.as_ref(), [7; 20]);
        drop((seen, part));
        sides.give_back();
        // It is kept for as long as this side has it.
        assert_eq!(own.as_ref(), [7; 20]);
        assert!(sides.one.borrow(&place).is_err(), "it is not lent any more");
    }

    #[test]
    fn large_blocks_are_kept_for_the_next_within_bounds() {
        const LARGE: usize = 40 << 20;
        let sides = Sides::new();
        drop(sides.lend(&[1; LARGE]));
        sides.give_back();
        assert!(sides.said.ended.lock().unwrap().is_empty());
        let (first, second) = (sides.lend(&[2; LARGE]), sides.lend(&[3; LARGE]));
        assert_eq!(sides.one.own().last, 2, "the first one was used again");
        drop((first, second));
        sides.give_back();
        assert_eq!(*sides.said.ended.lock().unwrap(), [2]);
    }

    #[test]
    fn places_that_are_none_are_refused() {
        let sides = Sides::new();
        let seen = sides.lend(&[7; 100]);
        let good = Place {
            is_yours: false,
            length: 100,
            arena: 1,
            ..Place::default()
        };
        assert!(sides.other.borrow(&good).is_ok());
        let huge = u64::MAX;
        for bad in [
            Place { arena: 2, ..good },
            Place {
                is_yours: true,
                ..good
            },
            Place {
                block: huge,
                ..good
            },
            Place {
                offset: huge,
                ..good
            },
            Place {
                length: huge,
                ..good
            },
            Place {
                block: 4 << 20,
                ..good
            },
            Place {
                length: (4 << 20) + 1,
                ..good
            },
        ] {
            assert!(sides.other.borrow(&bad).is_err(), "{bad:?}");
        }
        assert!(seen.part(seen.start().wrapping_sub(1), 1).is_none());
        assert!(seen.part(seen.start().wrapping_add(90), 11).is_none());
    }

    #[test]
    fn a_file_that_can_shrink_is_no_arena() {
        let sides = Sides::new();
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(sides.other.map(1, 4096, file.into()).is_err());
        let span = sides.one.take(1).unwrap();
        let (number, bytes, file) = sides.said.arenas.lock().unwrap().pop().unwrap();
        let copy = File::from(file.try_clone().unwrap());
        assert!(copy.set_len(0).is_err() && copy.set_len(1 << 30).is_err());
        assert!(
            sides
                .other
                .map(number, bytes as u64 + 1, copy.into())
                .is_err()
        );
        assert!(sides.other.map(number, bytes as u64, file).is_ok());
        drop(span);
    }

    #[test]
    fn blocks_have_few_lengths() {
        for (bytes, length) in [
            (0, 4096),
            (1, 4096),
            (4096, 4096),
            (4097, 8192),
            (33_000, 36_864),
            (10 << 20, 10 << 20),
        ] {
            assert_eq!(block_length(bytes), length, "{bytes}");
        }
    }
}
