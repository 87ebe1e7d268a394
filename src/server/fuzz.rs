//! Fuzz targets of what is looked at of a connection before the libraries of its protocol.

use super::{frames::Frames, heads::Heads};
use crate::fuzzing::choice;

/// The longest header block.
const MAX_BLOCK: usize = 1000;

/// Pieces that bytes come in.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    let (size, wire) = choice(data);
    (usize::from(size).max(1), wire)
}

/// Requests of HTTP/1. The same line is refused, however they are cut.
pub(crate) fn heads(data: &[u8]) {
    let (size, wire) = pieces(data);
    let mut whole = Heads::default();
    let refused = whole.read(wire);
    if let Some(at) = refused {
        assert_eq!(wire[at], b'\n');
    }
    let mut parts = Heads::default();
    let mut before = 0;
    let found = wire.chunks(size).find_map(|piece| {
        let refused = parts.read(piece).map(|at| before + at);
        before += piece.len();
        refused
    });
    assert_eq!(found, refused);
    if refused.is_none() {
        // A byte more is counted for each piece.
        let [whole, parts] = [&whole, &parts].map(Heads::unfinished);
        assert!(
            whole <= parts && parts <= whole + wire.len() + 1,
            "{whole} {parts}"
        );
    }
}

/// Frames of HTTP/2, the first byte of which says how they are cut. What is counted does not depend on that.
pub(crate) fn frames(data: &[u8]) {
    let (size, wire) = pieces(data);
    let mut whole = Frames::new(MAX_BLOCK);
    let mut parts = Frames::new(MAX_BLOCK);
    let read = whole.read(wire);
    let by_parts = wire.chunks(size).try_for_each(|piece| parts.read(piece));
    assert_eq!(read.is_ok(), by_parts.is_ok());
    if read.is_ok() {
        assert_eq!(whole.held(), parts.held());
        assert_eq!(whole.has_begun(), parts.has_begun());
        assert_eq!(whole.most(), parts.most());
        assert_eq!(whole.unfinished(), parts.unfinished());
        assert_eq!(whole.is_round_over(), parts.is_round_over());
    }
    whole.written(wire);
    for piece in wire.chunks(size) {
        parts.written(piece);
    }
    if read.is_ok() {
        assert_eq!(whole.held(), parts.held());
    }
}
