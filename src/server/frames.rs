//! HTTP/2 frames as they are read and written: what they cost, and what streams are open.
//!
//! Header blocks cost far more time than data: a byte of them may stand for a whole header. So what
//! is read at a time is bounded by what it costs, and one connection does not keep a thread to itself.

use std::{collections::BTreeMap, io};

use crate::frontends::received::held;

/// The preface, and the head of a frame (RFC 9113, 3.4 and 4.1).
const PREFACE: usize = 24;
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The bits of the number of a stream; the highest one has no meaning.
const STREAM: u32 = u32::MAX >> 1;

/// Cost of one round of reading, after which other connections have their turn, in bytes of header
/// blocks.
pub(super) const ROUND: usize = 2 << 10;

/// Fixed cost of a frame.
const FRAME: usize = 16;

/// Bytes of data that cost as much as one of a header block; an estimate.
const DATA_SPEED: usize = 64;

/// Finds the heads of frames in what is read or written.
#[derive(Debug)]
struct Cutter {
    bytes: [u8; HEAD],
    /// Bytes of the head that are there.
    have: usize,
    /// Bytes of the payload, or the preface, that are yet to come.
    left: usize,
}

/// The last stream that a GOAWAY which is being written lets go on, the first bytes of its payload (RFC 9113, 6.8).
#[derive(Debug, Default)]
struct LastStream {
    bytes: [u8; 4],
    have: usize,
}

impl LastStream {
    /// Takes what is there of it; returns it once it is whole.
    fn take(&mut self, bytes: &[u8]) -> Option<u32> {
        let step = (self.bytes.len() - self.have).min(bytes.len());
        self.bytes[self.have..self.have + step].copy_from_slice(&bytes[..step]);
        self.have += step;
        (self.have == self.bytes.len()).then(|| u32::from_be_bytes(self.bytes) & STREAM)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u8,
    flags: u8,
    stream: u32,
    length: usize,
}

impl Head {
    /// Returns whether its sender sends no more of its stream.
    fn is_end(self) -> bool {
        match self.kind {
            RST_STREAM => true,
            DATA | HEADERS => self.flags & END_STREAM != 0,
            _ => false,
        }
    }
}

impl Cutter {
    /// Begins before so many bytes that are no frame.
    fn behind(left: usize) -> Self {
        Self {
            bytes: [0; HEAD],
            have: 0,
            left,
        }
    }

    /// Follows bytes up to the end of the next head; its payload is what follows.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        let step = self.left.min(bytes.len());
        self.left -= step;
        *bytes = &bytes[step..];
        let step = (HEAD - self.have).min(bytes.len());
        self.bytes[self.have..self.have + step].copy_from_slice(&bytes[..step]);
        self.have += step;
        *bytes = &bytes[step..];
        if self.have < HEAD {
            return None;
        }
        self.have = 0;
        let [high, middle, low, kind, flags, stream @ ..] = self.bytes;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        Some(Head {
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & STREAM,
            length: self.left,
        })
    }
}

/// Follows the frames of a connection both ways.
#[derive(Debug)]
pub(super) struct Frames {
    read: Cutter,
    written: Cutter,
    has_begun: bool,
    is_data: bool,
    /// Bytes of memory that were counted for the frame that is being read.
    counted: usize,
    /// The head of data of which the length of its padding, which is the first byte behind that, has not come.
    padded: Option<Head>,
    /// Bytes of the header block that is not at its end.
    block: usize,
    max_block: usize,
    cost: usize,
    /// The streams that are not over, with what has come for each, in bytes of memory.
    open: BTreeMap<u32, usize>,
    /// The last stream that was opened.
    last: u32,
    /// A GOAWAY whose last stream is not known yet.
    leaving: Option<LastStream>,
    /// The last stream that is answered: what comes for later ones is thrown away.
    answered: u32,
    /// Sum of what has come for the open streams.
    held: usize,
}

impl Frames {
    /// Takes a connection from its start; `max_block` is the longest header block.
    pub(super) fn new(max_block: usize) -> Self {
        Self {
            read: Cutter::behind(PREFACE),
            written: Cutter::behind(0),
            has_begun: false,
            is_data: false,
            counted: 0,
            padded: None,
            block: 0,
            max_block,
            cost: 0,
            open: BTreeMap::new(),
            last: 0,
            leaving: None,
            answered: STREAM,
            held: 0,
        }
    }

    /// Returns whether others are to have their turn; if so, the next starts from nothing.
    pub(super) fn is_round_over(&mut self) -> bool {
        let is_over = self.cost >= ROUND;
        if is_over {
            self.cost = 0;
        }
        is_over
    }

    /// Begins a new round, once all that there was has been read.
    pub(super) fn rest(&mut self) {
        self.cost = 0;
    }

    /// Returns whether the preface and the head of the first frame have been read.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns what has come for streams that are not over, in bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Returns how much to read at most.
    pub(super) fn most(&self) -> usize {
        match self.is_data {
            true => self.read.left + ROUND,
            false => ROUND,
        }
    }

    /// Returns what was counted for a piece of data that is not whole yet.
    pub(super) fn unfinished(&self) -> usize {
        match self.read.left > 0 {
            true => self.counted,
            false => 0,
        }
    }

    /// Follows what was read.
    ///
    /// # Errors
    ///
    /// Fails if a header block is too long.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            if let (Some(head), Some(&padding)) = (self.padded, bytes.first()) {
                self.padded = None;
                let length = head.length.saturating_sub(1 + usize::from(padding));
                self.receive(head.stream, length);
            }
            match self.read.next(&mut bytes) {
                Some(head) => self.begin(head)?,
                None => return Ok(()),
            }
        }
    }

    /// Follows what was written.
    pub(super) fn written(&mut self, mut bytes: &[u8]) {
        loop {
            if let Some(last) = &mut self.leaving
                && let Some(last) = last.take(bytes)
            {
                self.leaving = None;
                self.leave(last);
            }
            let Some(head) = self.written.next(&mut bytes) else {
                return;
            };
            if head.is_end() {
                self.end(head.stream);
            }
            self.leaving = (head.kind == GOAWAY).then(LastStream::default);
        }
    }

    /// Forgets the streams after the last one that is answered.
    fn leave(&mut self, last: u32) {
        self.answered = self.answered.min(last);
        let ignored = self.open.split_off(&self.answered.saturating_add(1));
        self.held -= ignored.values().sum::<usize>();
    }

    /// Counts data without its padding, which is at most 255 bytes of it.
    fn receive(&mut self, stream: u32, length: usize) {
        // A frame without data is not kept, either.
        self.counted = if length > 0 { held(length) } else { 0 };
        if let Some(received) = self.open.get_mut(&stream) {
            *received += self.counted;
            self.held += self.counted;
        }
    }

    fn end(&mut self, stream: u32) {
        self.held -= self.open.remove(&stream).unwrap_or_default();
    }

    fn begin(&mut self, head: Head) -> io::Result<()> {
        self.has_begun = true;
        self.is_data = head.kind == DATA;
        self.counted = 0;
        self.cost += FRAME
            + match self.is_data {
                true => head.length / DATA_SPEED,
                false => head.length,
            };
        match head.kind {
            HEADERS if head.stream > self.last => {
                self.last = head.stream;
                if head.stream <= self.answered {
                    self.open.insert(head.stream, 0);
                }
            }
            RST_STREAM => self.end(head.stream),
            DATA if head.flags & PADDED != 0 => {
                self.padded = Some(head).filter(|head| head.length > 0);
            }
            DATA => self.receive(head.stream, head.length),
            _ => {}
        }
        if head.kind == HEADERS || head.kind == CONTINUATION {
            self.block += head.length;
            if self.block > self.max_block {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a header block is longer than {} bytes", self.max_block),
                ));
            }
            if head.flags & END_HEADERS != 0 {
                self.block = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEAD, HEADERS, PADDED,
        PREFACE, ROUND, RST_STREAM, STREAM, held,
    };

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let length_bytes = u32::try_from(length).unwrap().to_be_bytes();
        let head = [
            length_bytes[1],
            length_bytes[2],
            length_bytes[3],
            kind,
            flags,
            0,
            0,
            0,
            1,
        ];
        [&head[..], &vec![255; length]].concat()
    }

    fn frames(pieces: &[&[u8]]) -> std::io::Result<Frames> {
        let mut frames = Frames::new(1000);
        frames.read(&[b'P'; PREFACE])?;
        for piece in pieces {
            frames.read(piece)?;
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let wire = [
            frame(4, 0, 0),
            frame(HEADERS, END_HEADERS, 100),
            frame(DATA, 1, 3200),
        ];
        let wire = wire.concat();
        for size in [1, 2, 8, 9, 10, 100, wire.len()] {
            let pieces: Vec<&[u8]> = wire.chunks(size).collect();
            let frames = frames(&pieces).unwrap();
            assert_eq!(frames.cost, 3 * 16 + 100 + 50, "{size}");
            assert_eq!(
                (frames.read.left, frames.read.have, frames.block),
                (0, 0, 0)
            );
        }
    }

    #[test]
    fn streams_after_the_last_that_is_answered_do_not_count() {
        let of = |stream: u8, mut wire: Vec<u8>| {
            wire[HEAD - 1] = stream;
            wire
        };
        let goaway = |last: u32| {
            let mut wire = of(0, frame(GOAWAY, 0, 8));
            wire[HEAD..HEAD + 4].copy_from_slice(&last.to_be_bytes());
            wire
        };
        let open = |stream| of(stream, frame(HEADERS, END_HEADERS, 3));
        let data = |stream| of(stream, frame(DATA, 0, 100));
        for size in [1, 3, 9, 11, 17, 100] {
            let mut frames = frames(&[&open(1), &open(3), &data(1), &data(3)]).unwrap();
            let write = |frames: &mut Frames, wire: Vec<u8>| {
                wire.chunks(size).for_each(|piece| frames.written(piece));
            };
            // The first one says only that an end is near.
            write(&mut frames, goaway(STREAM));
            frames.read(&open(5)).unwrap();
            frames.read(&data(5)).unwrap();
            assert_eq!(frames.held(), 3 * held(100), "{size}");
            write(&mut frames, goaway(3));
            assert_eq!(frames.held(), 2 * held(100), "{size}");
            for stream in [5, 7, 9] {
                frames.read(&open(stream)).unwrap();
                frames.read(&data(stream)).unwrap();
            }
            assert_eq!(frames.open.len(), 2, "{size}");
            assert_eq!(frames.held(), 2 * held(100), "{size}");
            frames.read(&data(3)).unwrap();
            assert_eq!(frames.held(), 3 * held(100), "{size}");
            write(
                &mut frames,
                of(3, frame(HEADERS, END_HEADERS | END_STREAM, 10)),
            );
            assert_eq!(frames.held(), held(100), "{size}");
        }
    }

    #[test]
    fn data_counts_for_streams_that_are_open() {
        let wire = |kind, flags, length| frame(kind, flags, length);
        let open = wire(HEADERS, END_HEADERS, 3);
        let mut frames = frames(&[&wire(DATA, 0, 50), &open, &wire(DATA, 0, 100)]).unwrap();
        assert_eq!(frames.held(), held(100));
        // Without data, and as the end of a stream, which is not the end of what is kept for it.
        frames.read(&wire(DATA, 0, 0)).unwrap();
        frames.read(&wire(DATA, END_STREAM, 0)).unwrap();
        assert_eq!(frames.held(), held(100));
        for (kind, flags) in [(HEADERS, END_HEADERS), (DATA, 0)] {
            frames.written(&wire(kind, flags, 10));
        }
        assert_eq!(frames.held(), held(100));
        let end = wire(HEADERS, END_HEADERS | END_STREAM, 10);
        for piece in end.chunks(4) {
            frames.written(piece);
        }
        assert_eq!(frames.held(), 0);
        frames.read(&wire(DATA, 0, 100)).unwrap();
        frames.read(&open).unwrap();
        frames.read(&wire(DATA, 0, 100)).unwrap();
        assert_eq!(frames.held(), 0, "it is over");
    }

    #[test]
    fn padding_is_not_counted_wherever_it_is_cut() {
        let open = frame(HEADERS, END_HEADERS, 3);
        // Their first byte is 255, the length of the padding.
        let large = frame(DATA, PADDED, 1000);
        let empty = frame(DATA, PADDED, 256);
        let none = frame(DATA, PADDED, 0);
        let wrong = frame(DATA, PADDED, 10);
        let plain = frame(DATA, 0, 100);
        let wire = [open, large, empty, none, wrong, plain].concat();
        let expected = held(1000 - 256) + held(100);
        for size in [1, 2, 9, 10, 100, wire.len()] {
            let pieces: Vec<&[u8]> = wire.chunks(size).collect();
            assert_eq!(frames(&pieces).unwrap().held(), expected, "{size}");
        }
        let large = frame(DATA, PADDED, 1000);
        let mut part = frames(&[&large[..9]]).unwrap();
        assert_eq!(part.unfinished(), 0, "it is not counted yet");
        part.read(&large[9..10]).unwrap();
        assert_eq!(part.unfinished(), held(1000 - 256));
    }

    #[test]
    fn a_stream_that_either_side_resets_is_over() {
        let reset = frame(RST_STREAM, 0, 4);
        for by_client in [true, false] {
            let open = frame(HEADERS, END_HEADERS, 3);
            let mut frames = frames(&[&open, &frame(DATA, 0, 9)]).unwrap();
            assert_eq!(frames.held(), held(9));
            match by_client {
                true => frames.read(&reset).unwrap(),
                false => frames.written(&reset),
            }
            assert_eq!(frames.held(), 0);
        }
    }

    #[test]
    fn a_round_has_more_data_than_headers() {
        let is_over = |kind, length| {
            let frame = frame(kind, END_HEADERS, length);
            let mut frames = Frames::new(1 << 20);
            frames.read(&[0; PREFACE]).unwrap();
            frames.read(&frame).unwrap();
            let is_over = frames.is_round_over();
            assert!(!frames.is_round_over(), "it begins anew");
            is_over
        };
        assert!(is_over(HEADERS, ROUND));
        assert!(!is_over(DATA, ROUND));
        assert!(is_over(DATA, 64 * ROUND));
    }

    #[test]
    fn a_header_block_that_is_too_long_is_refused_in_any_number_of_frames() {
        let first = frame(HEADERS, 0, 600);
        let more = frame(CONTINUATION, 0, 300);
        assert!(frames(&[&first, &more]).is_ok());
        let error = frames(&[&first, &more, &more]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a header block is longer than 1000 bytes"
        );
        let last = frame(CONTINUATION, END_HEADERS, 300);
        assert!(frames(&[&first, &last, &first]).is_ok());
        // Known from its head, before it has come.
        assert!(frames(&[&frame(HEADERS, END_HEADERS, 1001)[..9]]).is_err());
    }

    #[test]
    fn data_is_read_in_one_go_and_all_else_in_small_pieces() {
        let large = frame(DATA, 0, 1 << 20);
        let mut part = frames(&[&large[..9]]).unwrap();
        assert_eq!(part.most(), (1 << 20) + ROUND);
        assert_eq!(part.unfinished(), held(1 << 20));
        part.read(&large[9..]).unwrap();
        assert_eq!(part.unfinished(), 0);
        let large = frame(HEADERS, 0, 900);
        assert_eq!(frames(&[&large[..9]]).unwrap().most(), ROUND);
    }
}
