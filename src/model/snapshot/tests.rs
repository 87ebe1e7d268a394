//! Files of states: what is written is read, and nothing else.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Snapshot, TYPES};
use crate::tensor::{Tensor, TensorMap, named};

/// A snapshot with a variable of each datatype.
fn snapshot() -> Snapshot {
    let tensors = TYPES.iter().map(|&(dtype, _)| {
        let data = vec![1; 2 * dtype.size().unwrap()];
        let tensor = Tensor::new(dtype, vec![1, 2], data.into()).unwrap();
        (format!("of {dtype}"), tensor)
    });
    let mut tensors: TensorMap = tensors.collect();
    let empty = Tensor::new(TYPES[0].0, vec![3, 0], Bytes::new()).unwrap();
    tensors.push(("empty".to_owned(), empty));
    Snapshot {
        model: "speech \"ü\"".to_owned(),
        version: 3,
        digest: "00ff".to_owned(),
        sequence: u64::MAX,
        tensors,
    }
}

fn refused(file: Vec<u8>) -> String {
    let error = Snapshot::decode(&file.into()).unwrap_err();
    error.message().to_owned()
}

/// Returns the file with another text of the same length in its header.
fn with(from: &str, to: &str) -> Vec<u8> {
    let mut file = snapshot().encode().unwrap();
    let (from, to) = (from.as_bytes(), to.as_bytes());
    assert_eq!(from.len(), to.len());
    let place = file.windows(from.len()).position(|part| part == from);
    let place = place.unwrap();
    file[place..place + to.len()].copy_from_slice(to);
    file
}

#[test]
fn every_datatype_comes_back_with_its_bytes() {
    let expected = snapshot();
    let read = Snapshot::decode(&expected.encode().unwrap().into()).unwrap();
    assert_eq!(read.tensors.len(), expected.tensors.len());
    for (name, tensor) in expected.tensors.iter() {
        assert_eq!(named(&read.tensors, name), Some(tensor), "{name}");
    }
    let facts = |of: &Snapshot| (of.model.clone(), of.version, of.digest.clone(), of.sequence);
    assert_eq!(facts(&read), facts(&expected));
}

#[test]
fn a_file_that_is_not_as_it_was_written_is_refused_with_the_reason() {
    let file = snapshot().encode().unwrap();
    let mut changed = file.clone();
    *changed.last_mut().unwrap() ^= 1;
    let mut long = file.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let cut = file[..file.len() - 1].to_vec();
    let format = r#""ovms_state_format":"1""#;
    for (file, text) in [
        (
            cut,
            "no complete safetensors file: incomplete metadata, file not fully covered",
        ),
        (Vec::new(), "no complete safetensors file: header too small"),
        (
            long,
            "no safetensors file with a header of at most 1048576 bytes",
        ),
        (changed, "the file has changed"),
        (
            with(r#""version":"3""#, r#""version":"4""#),
            "the file has changed",
        ),
        (with("speech", "spooch"), "the file has changed"),
        (with("of INT8", "of INT9"), "the file has changed"),
        (
            with(format, r#""ovms_state_format":"2""#),
            "ovms_state_format is 2; expected 1",
        ),
        (
            with(format, r#""ovms_state_farmot":"1""#),
            "ovms_state_format is missing; expected 1",
        ),
    ] {
        let refused = refused(file);
        assert!(
            refused.starts_with("State of the sequence cannot be restored - "),
            "{refused}"
        );
        assert!(refused.ends_with(text), "{refused}");
    }
}

proptest! {
    #[test]
    fn garbage_is_refused(bytes: Vec<u8>) {
        prop_assert!(Snapshot::decode(&bytes.into()).is_err());
    }

    #[test]
    fn no_changed_byte_goes_unseen(place: prop::sample::Index, bit in 0..8u8) {
        let file = snapshot().encode().unwrap();
        let mut changed = file.clone();
        changed[place.index(file.len())] ^= 1u8 << bit;
        // Blanks behind the header and the case of a digit are nothing that counts.
        if let Ok(read) = Snapshot::decode(&changed.into()) {
            let expected = snapshot();
            prop_assert_eq!(read.version, expected.version);
            for (name, tensor) in expected.tensors.iter() {
                prop_assert_eq!(named(&read.tensors, name), Some(tensor));
            }
        }
    }

    #[test]
    fn headers_of_any_kind_do_not_panic(header in r#"\{("[a-z_]{1,12}":(\{("[a-z_]{1,12}":("[A-Z0-9]{1,3}"|\[[0-9,]{0,9}\]),?){0,3}\}|"x"),?){0,3}\}"#, data: Vec<u8>) {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(data);
        prop_assert!(Snapshot::decode(&file.into()).is_err());
    }
}
