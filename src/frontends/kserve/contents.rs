//! Typed contents of gRPC messages to packed bytes.

use crate::{
    frontends::packed::{fixed, one_by_one, values},
    proto::kserve::InferTensorContents,
    request::{Data, Declared},
    tensor::DataType,
};

/// Packs the field that belongs to the declared type; values in other fields do not count.
pub(super) fn pack(declared: &Declared, contents: InferTensorContents) -> Data {
    let Declared::Known(dtype) = declared else {
        // The type is refused later, with its text; the data is not looked at.
        return values(0, Vec::new());
    };
    let dtype = *dtype;
    match dtype {
        DataType::F32 => fixed(&contents.fp32_contents, f32::to_le_bytes),
        DataType::F64 => fixed(&contents.fp64_contents, f64::to_le_bytes),
        DataType::I32 => fixed(&contents.int_contents, i32::to_le_bytes),
        DataType::I64 => fixed(&contents.int64_contents, i64::to_le_bytes),
        DataType::U32 => fixed(&contents.uint_contents, u32::to_le_bytes),
        DataType::U64 => fixed(&contents.uint64_contents, u64::to_le_bytes),
        DataType::Bool => fixed(&contents.bool_contents, |value| [u8::from(value)]),
        DataType::I8 | DataType::I16 => {
            one_by_one(dtype, contents.int_contents, |packer, value| {
                packer.push_i64(value.into())
            })
        }
        DataType::U8 | DataType::U16 => {
            one_by_one(dtype, contents.uint_contents, |packer, value| {
                packer.push_u64(value.into())
            })
        }
        DataType::String => one_by_one(dtype, contents.bytes_contents, |packer, value| {
            packer.push_bytes(&value)
        }),
        DataType::F16 | DataType::Bf16 if is_empty(&contents) => values(0, Vec::new()),
        DataType::F16 | DataType::Bf16 => Data::Unfit(format!(
            "{dtype} has no field in InferTensorContents; send it in raw_input_contents"
        )),
    }
}

/// Returns whether contents hold no value at all.
pub(super) fn is_empty(contents: &InferTensorContents) -> bool {
    contents.bool_contents.is_empty()
        && contents.int_contents.is_empty()
        && contents.int64_contents.is_empty()
        && contents.uint_contents.is_empty()
        && contents.uint64_contents.is_empty()
        && contents.fp32_contents.is_empty()
        && contents.fp64_contents.is_empty()
        && contents.bytes_contents.is_empty()
}

#[cfg(test)]
mod tests {
    use super::pack;
    use crate::{
        proto::kserve::InferTensorContents,
        request::{Data, Declared},
        tensor::DataType,
    };

    #[test]
    fn only_the_field_of_the_type_counts() {
        let contents = InferTensorContents {
            int_contents: vec![1, -1],
            fp32_contents: vec![1.0],
            ..InferTensorContents::default()
        };
        let packed = pack(&Declared::Known(DataType::I16), contents.clone());
        assert_eq!(
            packed,
            Data::Values {
                count: 2,
                bytes: vec![1, 0, 255, 255].into()
            }
        );
        let none = pack(&Declared::Known(DataType::U64), contents);
        assert!(matches!(none, Data::Values { count: 0, .. }));
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let contents = InferTensorContents {
            int_contents: vec![1, 128],
            ..InferTensorContents::default()
        };
        let unfit = |text: &str| Data::Unfit(text.to_owned());
        assert_eq!(
            pack(&Declared::Known(DataType::I8), contents.clone()),
            unfit("128 does not fit INT8")
        );
        assert_eq!(
            pack(&Declared::Known(DataType::F16), contents),
            unfit("FP16 has no field in InferTensorContents; send it in raw_input_contents")
        );
    }
}
