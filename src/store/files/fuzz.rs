//! Fuzz target of the files of sequences.

use std::{fs, path::PathBuf};

use flate2::Crc;

use super::record::{MAGIC, RecordFile};
use crate::{fuzzing::choice, store::StoreError};

thread_local! {
    /// A file of this thread, in memory where there is such a folder.
    static FILE: (tempfile::TempDir, PathBuf) = {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("there is a folder for files of tests");
        let path = folder.path().join("record");
        (folder, path)
    };
}

/// A file as it is, or a header that gets what comes before it, so that the rest is read as well.
pub(crate) fn records(data: &[u8]) {
    let (kind, rest) = choice(data);
    let file = match kind & 1 {
        0 => rest.to_vec(),
        _ => {
            let header = &rest[..rest.len().min(usize::from(kind >> 1))];
            let mut crc = Crc::new();
            crc.update(header);
            let length = u32::try_from(header.len()).expect("it is short");
            let before = [&MAGIC[..], &length.to_le_bytes(), &crc.sum().to_le_bytes()];
            [before.concat().as_slice(), rest].concat()
        }
    };
    FILE.with(|(_folder, path)| {
        fs::write(path, &file).expect("the file is ours");
        match RecordFile::open(path) {
            Ok(record) => {
                let record = record.expect("the file is there");
                let expected = record.header.state_bytes;
                let state = record.state().expect("the length was checked");
                assert_eq!(state.len() as u64, expected);
                assert!(file.ends_with(&state));
            }
            Err(StoreError::Garbage { reason, .. }) => assert!(!reason.is_empty()),
            Err(error) => panic!("{error}"),
        }
    });
}
