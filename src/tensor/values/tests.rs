use super::{Packer, Value, values, write_json};
use crate::tensor::{Tensor, dtype::DataType};

fn pack(dtype: DataType, numbers: &[i64]) -> Result<Tensor, super::ValueError> {
    let mut packer = Packer::new(dtype, numbers.len());
    for &number in numbers {
        packer.push_i64(number)?;
    }
    Ok(Tensor::new(dtype, vec![numbers.len()], packer.finish()).expect("as many as pushed"))
}

#[test]
fn numbers_out_of_range_are_refused_with_the_value() {
    assert_eq!(
        pack(DataType::I8, &[-128, 127, 128])
            .unwrap_err()
            .to_string(),
        "128 does not fit INT8"
    );
    assert_eq!(
        pack(DataType::U64, &[-1]).unwrap_err().to_string(),
        "-1 does not fit UINT64"
    );
    assert_eq!(
        pack(DataType::Bool, &[1]).unwrap_err().to_string(),
        "found 1, expected a value of BOOL"
    );
}

#[test]
fn floats_take_whole_numbers() {
    for dtype in DataType::ALL.into_iter().filter(|dtype| dtype.is_float()) {
        let tensor = pack(dtype, &[-2, 0, 3]).unwrap();
        let read: Vec<_> = values(&tensor)
            .map(|value| value.as_f64().unwrap())
            .collect();
        assert_eq!(read, [-2.0, 0.0, 3.0], "{dtype}");
    }
}

#[test]
fn json_has_words_for_what_is_not_finite() {
    let data: Vec<u8> = [1.0, 0.1, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .iter()
        .flat_map(|value: &f32| value.to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F32, vec![5], data.into()).unwrap();
    let mut out = Vec::new();
    write_json(&tensor, &mut out);
    assert_eq!(out, b"[1.0,0.1,NaN,Infinity,-Infinity]");
}

#[test]
fn strings_are_framed_and_broken_framing_ends() {
    let mut packer = Packer::new(DataType::String, 2);
    packer.push_bytes(b"ab").unwrap();
    packer.push_bytes(b"").unwrap();
    let whole = packer.finish();
    let tensor = Tensor::new(DataType::String, vec![2], whole.clone()).unwrap();
    let read: Vec<_> = values(&tensor).collect();
    assert_eq!(read, [Value::Bytes(b"ab"), Value::Bytes(b"")]);
    let cut = Tensor::new(DataType::String, vec![2], whole.slice(..5)).unwrap();
    assert_eq!(values(&cut).count(), 0);
}
