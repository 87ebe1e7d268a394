//! Fuzz targets of saved states, and of the XML of models.

use bytes::Bytes;

use super::{Snapshot, ir::IrFacts};
use crate::fuzzing::check_error;

/// A saved state. What is written of it is the same state. A checksum that does not fit is made to, so that the rest is
/// read as well.
pub(crate) fn snapshots(data: &[u8]) {
    let mut file = Bytes::copy_from_slice(data);
    for _ in 0..2 {
        match Snapshot::decode(&file) {
            Ok(snapshot) => {
                let written = snapshot.encode().expect("what was read has a form");
                let again = Snapshot::decode(&written.into()).expect("it was written");
                assert_eq!(again, snapshot);
                return;
            }
            Err(error) => {
                check_error(&error);
                let Some(repaired) = repaired(&file, error.message()) else {
                    return;
                };
                file = repaired;
            }
        }
    }
}

/// Puts the checksum into a file that the error about it expects.
fn repaired(file: &[u8], error: &str) -> Option<Bytes> {
    let (_, rest) = error.split_once("checksum is ")?;
    let (found, rest) = rest.split_once("; expected ")?;
    let (expected, _) = rest.split_once(": the file has changed")?;
    if found.len() != expected.len() {
        return None;
    }
    let place = file
        .windows(found.len())
        .position(|it| it == found.as_bytes())?;
    let mut file = file.to_vec();
    file[place..place + expected.len()].copy_from_slice(expected.as_bytes());
    Some(file.into())
}

/// The XML of a model.
pub(crate) fn xml(data: &[u8]) {
    let facts = IrFacts::parse(data);
    if let Some(info) = &facts.rt_info {
        serde_json::to_vec(info).expect("a tree of texts is JSON");
    }
    assert!(facts.layouts.keys().map(String::len).sum::<usize>() <= data.len());
}
