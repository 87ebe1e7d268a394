//! HTTP/2 frames as they are read, so that one connection does not keep a thread to itself.
//!
//! Header blocks cost far more time than data: a byte of them may stand for a whole header. So what
//! is read at a time is bounded by what it costs.

use std::io;

/// The preface, and the head of a frame (RFC 9113, 3.4 and 4.1).
const PREFACE: usize = 24;
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// What may be read before other connections have their turn, in bytes of header blocks.
pub(super) const ROUND: usize = 4 << 10;

/// What a frame costs whatever is in it.
const FRAME: usize = 16;

/// Bytes of data that cost as much as one of a header block; an estimate.
const DATA_SPEED: usize = 64;

/// Follows frames, and counts what they cost.
#[derive(Debug)]
pub(super) struct Frames {
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    have: usize,
    /// Bytes of the payload, or the preface, that are yet to come.
    left: usize,
    is_data: bool,
    /// Bytes of the header block that is not at its end.
    block: usize,
    most_block: usize,
    cost: usize,
}

impl Frames {
    /// Takes a connection from its start; `most_block` is the longest header block.
    pub(super) fn new(most_block: usize) -> Self {
        Self {
            head: [0; HEAD],
            have: 0,
            left: PREFACE,
            is_data: false,
            block: 0,
            most_block,
            cost: 0,
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

    /// All that there was has been read.
    pub(super) fn rest(&mut self) {
        self.cost = 0;
    }

    /// Returns how much to read at most.
    pub(super) fn most(&self) -> usize {
        match self.is_data {
            true => self.left + ROUND,
            false => ROUND,
        }
    }

    /// Follows what was read.
    ///
    /// # Errors
    ///
    /// Fails if a header block is too long.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                self.left -= step;
                bytes = &bytes[step..];
                continue;
            }
            let step = (HEAD - self.have).min(bytes.len());
            self.head[self.have..self.have + step].copy_from_slice(&bytes[..step]);
            self.have += step;
            bytes = &bytes[step..];
            if self.have == HEAD {
                self.have = 0;
                self.begin()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.is_data = kind == DATA;
        self.cost += FRAME
            + match self.is_data {
                true => self.left / DATA_SPEED,
                false => self.left,
            };
        if kind == HEADERS || kind == CONTINUATION {
            self.block += self.left;
            if self.block > self.most_block {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a header block is longer than {} bytes", self.most_block),
                ));
            }
            if flags & END_HEADERS != 0 {
                self.block = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTINUATION, DATA, END_HEADERS, Frames, HEADERS, PREFACE, ROUND};

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
            assert_eq!((frames.left, frames.have, frames.block), (0, 0, 0));
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
        assert_eq!(frames(&[&large[..9]]).unwrap().most(), (1 << 20) + ROUND);
        let large = frame(HEADERS, 0, 900);
        assert_eq!(frames(&[&large[..9]]).unwrap().most(), ROUND);
    }
}
