use std::io::{Cursor, Write};

use bytes::Bytes;

use super::{MAX_ARCHIVE, read, read_archive, write};
use crate::tensor::{
    Tensor,
    dtype::DataType,
    values::{Packer, Value, values, write_json},
};

/// A file as NumPy writes it: the header's text, padded, and the data.
fn file(text: &str, data: &[u8]) -> Bytes {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    let padded = format!("{text:<117}\n");
    file.extend_from_slice(&u16::try_from(padded.len()).unwrap().to_le_bytes());
    file.extend_from_slice(padded.as_bytes());
    file.extend_from_slice(data);
    file.into()
}

fn round_trip(tensor: &Tensor) -> Tensor {
    let mut file = Vec::new();
    write(tensor, &mut file).unwrap();
    read(&file.into()).unwrap()
}

fn json(tensor: &Tensor) -> String {
    let mut out = Vec::new();
    write_json(tensor, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_numpy_type_comes_back_as_it_was() {
    for dtype in DataType::ALL {
        let Some(size) = dtype.size() else { continue };
        if dtype == DataType::Bf16 {
            continue;
        }
        let data: Vec<u8> = (0..6 * size)
            .map(|byte| u8::from(byte % size == 0))
            .collect();
        for shape in [vec![6], vec![2, 3], vec![1, 2, 3, 1]] {
            let tensor = Tensor::new(dtype, shape, data.clone().into()).unwrap();
            assert_eq!(round_trip(&tensor), tensor, "{dtype}");
        }
    }
}

#[test]
fn scalars_and_empty_arrays_come_back_as_they_were() {
    let scalar = Tensor::new(DataType::F32, vec![], vec![0, 0, 128, 63].into()).unwrap();
    assert_eq!(round_trip(&scalar), scalar);
    let empty = Tensor::new(DataType::I64, vec![0, 3], Bytes::new()).unwrap();
    assert_eq!(round_trip(&empty), empty);
}

#[test]
fn bf16_becomes_fp32_of_the_same_values() {
    let mut packer = Packer::new(DataType::Bf16, 3);
    for value in [1.5, -2.0, 0.0] {
        packer.push_f64(value).unwrap();
    }
    let tensor = Tensor::new(DataType::Bf16, vec![3], packer.finish()).unwrap();
    let read = round_trip(&tensor);
    assert_eq!(read.dtype(), DataType::F32);
    assert!(values(&read).eq([1.5, -2.0, 0.0].map(Value::Single)));
}

#[test]
fn strings_come_back_without_their_padding() {
    let mut packer = Packer::new(DataType::String, 3);
    for text in ["", "abc", "é"] {
        packer.push_bytes(text.as_bytes()).unwrap();
    }
    let tensor = Tensor::new(DataType::String, vec![3], packer.finish()).unwrap();
    assert_eq!(round_trip(&tensor), tensor);
}

#[test]
fn the_data_starts_at_a_multiple_of_64() {
    let tensor = Tensor::new(DataType::U8, vec![3], vec![7, 8, 9].into()).unwrap();
    let mut file = Vec::new();
    write(&tensor, &mut file).unwrap();
    assert_eq!(file.len(), 128 + 3);
    assert_eq!(
        String::from_utf8_lossy(&file[10..128]).trim_end(),
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
    );
}

#[test]
fn column_order_becomes_row_order() {
    let text = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }";
    let tensor = read(&file(text, &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!(tensor.shape(), [2, 3]);
    assert_eq!(&tensor.data()[..], [1, 2, 3, 4, 5, 6]);
}

#[test]
fn big_endian_becomes_little_endian() {
    let text = "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }";
    assert_eq!(
        json(&read(&file(text, &[0, 1, 255, 254])).unwrap()),
        "[1,-2]"
    );
    let text = "{'descr': '>U2', 'fortran_order': False, 'shape': (2,), }";
    let data = [0, 0, 0, b'a', 0, 0, 0, b'b', 0, 0, 0, b'c', 0, 0, 0, 0];
    assert_eq!(json(&read(&file(text, &data)).unwrap()), r#"["ab","c"]"#);
}

#[test]
fn what_no_tensor_holds_is_refused_by_name() {
    let cases: &[(Bytes, &str)] = &[
        (
            Bytes::from_static(b"PK"),
            "found no `.npy` header at the start",
        ),
        (
            Bytes::from_static(b"\x93NUMPY\x04\x00\x00\x00"),
            "found version 4 of the format, expected 1, 2 or 3",
        ),
        (
            Bytes::from_static(b"\x93NUMPY\x01\x00\xff\x00{"),
            "the file ends within its header: found 11 bytes, expected 265 or more",
        ),
        (
            Bytes::from_static(b"\x93NUMPY\x01"),
            "the file ends within its header: found 7 bytes, expected 10 or more",
        ),
        (
            Bytes::from_static(b"\x93NUMPY\x02\x00\xff\x00\x00"),
            "the file ends within its header: found 11 bytes, expected 12 or more",
        ),
        (
            Bytes::from_static(b"\x93NUMPY\x01\x00\x01\x00\xff"),
            "found a header that is not text",
        ),
        (
            file(
                "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
                b"",
            ),
            "found elements of type `|O`, which no tensor has",
        ),
        (
            file(
                "{'descr': '<c8', 'fortran_order': False, 'shape': (), }",
                b"",
            ),
            "found elements of type `<c8`, which no tensor has",
        ),
        (
            file(
                "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (), }",
                b"",
            ),
            "found elements of type `record`, which no tensor has",
        ),
        (
            file(
                "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                &[0; 7],
            ),
            "shape (2) of FP32 needs 8 bytes, found 7",
        ),
        (
            file("{'descr': '<f4', 'shape': (2,), }", &[0; 8]),
            "found no readable `fortran_order` in the header",
        ),
    ];
    for (file, text) in cases {
        assert_eq!(read(file).unwrap_err().to_string(), *text);
    }
}

#[test]
fn an_archive_gives_its_arrays_by_name() {
    let tensor = Tensor::new(DataType::U8, vec![2], vec![1, 2].into()).unwrap();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, method) in [
        ("x.npy", zip::CompressionMethod::Stored),
        ("y.npy", zip::CompressionMethod::Deflated),
        ("note.txt", zip::CompressionMethod::Stored),
    ] {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(name, options).unwrap();
        let mut file = Vec::new();
        write(&tensor, &mut file).unwrap();
        archive.write_all(&file).unwrap();
    }
    let bytes = archive.finish().unwrap().into_inner().into();
    let arrays = read_archive(&bytes, MAX_ARCHIVE).unwrap();
    assert_eq!(
        arrays,
        [("x".to_owned(), tensor.clone()), ("y".to_owned(), tensor)]
    );
    assert_eq!(
        read_archive(&bytes.slice(..10), MAX_ARCHIVE)
            .unwrap_err()
            .to_string(),
        "found no readable archive"
    );
}

/// Returns an archive of some kilobytes whose arrays have a number of mebibytes together.
fn bomb(arrays: usize, mebibytes: usize) -> Bytes {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let method = zip::CompressionMethod::Deflated;
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    let zeros = Tensor::new(
        DataType::U8,
        vec![mebibytes << 20],
        vec![0; mebibytes << 20].into(),
    );
    let mut file = Vec::new();
    write(&zeros.unwrap(), &mut file).unwrap();
    for name in 0..arrays {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(&file).unwrap();
    }
    archive.finish().unwrap().into_inner().into()
}

#[test]
fn an_archive_that_expands_without_end_is_refused() {
    let bomb = bomb(4, 8);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    assert_eq!(read_archive(&bomb, 64 << 20).unwrap().len(), 4);
    // Before what is too much is in memory.
    let mut refused = None;
    let used = allocation_counter::measure(|| refused = read_archive(&bomb, 17 << 20).err());
    assert_eq!(
        refused.unwrap().to_string(),
        "found arrays of more than 17825792 bytes in all"
    );
    assert!(used.bytes_max < 64 << 20, "{}", used.bytes_max);
}

#[test]
fn pickled_objects_are_refused_by_their_type() {
    // As NumPy writes them, and in the names that would have it unpickle a record or a number.
    for descr in ["'|O'", "'O'", "'<O8'", "[('a', '|O')]"] {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        let object = b"\x80\x04cos\nsystem\n(S'true'\ntR.";
        let error = read(&file(&text, object)).unwrap_err().to_string();
        assert!(error.starts_with("found elements of type `"), "{error}");
    }
}

#[test]
fn shapes_without_end_are_refused() {
    for order in ["True", "False"] {
        let ones = "1,".repeat(30_000);
        let text = format!("{{'descr': '|u1', 'fortran_order': {order}, 'shape': (2,{ones}), }}");
        let error = read(&file(&text, &[1, 2])).unwrap_err().to_string();
        assert_eq!(error, "found a shape of 30001 axes, expected 64 at most");
    }
}
