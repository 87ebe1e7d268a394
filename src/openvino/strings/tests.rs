//! The layout against the real runtime, and headers that are none.

use proptest::prelude::*;

use super::{CppString, LOCAL_AT, is_known, new_tensor, read, write};
use crate::{
    openvino::{ffi::Tensor, testing::open},
    tensor::strings::push,
};

fn framed(strings: &[Vec<u8>]) -> Vec<u8> {
    let mut framed = Vec::new();
    for string in strings {
        push(&mut framed, string).unwrap();
    }
    framed
}

#[test]
fn a_tensor_that_is_filled_again_has_the_new_strings_only() {
    open();
    assert!(is_known(), "the wheel for Linux has the known layout");
    let mut tensor = new_tensor(3).unwrap();
    let long = vec![b'x'; 100_000];
    for strings in [
        [b"".to_vec(), long.clone(), b"fifteen letters".to_vec()],
        [
            long.clone(),
            b"sixteen  letters".to_vec(),
            b"a\0b\0".to_vec(),
        ],
        [b"\0".to_vec(), vec![0; 40], b"\xff\xfe".to_vec()],
        [b"".to_vec(), b"".to_vec(), b"".to_vec()],
    ] {
        write(&mut tensor, &framed(&strings)).unwrap();
        assert_eq!(read(&tensor).unwrap(), framed(&strings));
    }
}

#[test]
fn another_number_of_strings_is_refused() {
    open();
    let mut tensor = new_tensor(2).unwrap();
    let three = framed(&[vec![], vec![], vec![]]);
    assert_eq!(
        write(&mut tensor, &three).unwrap_err().message(),
        "found 3 strings for a tensor of 2"
    );
    let mut none = new_tensor(0).unwrap();
    write(&mut none, &[]).unwrap();
    assert!(read(&none).unwrap().is_empty());
}

#[test]
fn numbers_are_not_read_as_strings() {
    open();
    let numbers = Tensor::zeros(openvino::ElementType::F64, &[4]).unwrap();
    assert_eq!(
        read(&numbers).unwrap_err().message(),
        "this build of OpenVINO keeps strings in a form that cannot be read"
    );
}

#[test]
fn fields_that_cannot_be_a_string_are_reported() {
    let at = 0x1000;
    let string = |data, length, room| CppString {
        data,
        length,
        local: [room, 0],
    };
    assert!(string(at + LOCAL_AT, 15, usize::MAX).is_sound(at));
    assert!(string(0x9000, 16, 30).is_sound(at));
    for wrong in [
        string(at + LOCAL_AT, 16, 0),
        string(0, 0, 0),
        string(0x9000, 31, 30),
        string(0x9000, 3, usize::MAX),
    ] {
        assert!(!wrong.is_sound(at), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn any_strings_come_back(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8)) {
        open();
        let mut tensor = new_tensor(strings.len()).unwrap();
        write(&mut tensor, &framed(&strings)).unwrap();
        prop_assert_eq!(read(&tensor).unwrap(), framed(&strings));
    }
}
