//! Element types of TensorFlow, which both ends of TensorFlow Serving's APIs name them by.

use super::DataType;
use crate::proto::tensorflow::DataType as TfType;

/// TensorFlow's types, in the order of ours.
const TYPES: [TfType; DataType::ALL.len()] = [
    TfType::DtBool,
    TfType::DtInt8,
    TfType::DtInt16,
    TfType::DtInt32,
    TfType::DtInt64,
    TfType::DtUint8,
    TfType::DtUint16,
    TfType::DtUint32,
    TfType::DtUint64,
    TfType::DtHalf,
    TfType::DtBfloat16,
    TfType::DtFloat,
    TfType::DtDouble,
    TfType::DtString,
];

/// Returns TensorFlow's type.
pub(crate) const fn tf_type(dtype: DataType) -> TfType {
    TYPES[dtype as usize]
}

/// Finds the type of a number of TensorFlow's.
pub(crate) fn of_tf_type(number: i32) -> Option<DataType> {
    let mut types = DataType::ALL.into_iter();
    types.find(|&dtype| tf_type(dtype) as i32 == number)
}

#[cfg(test)]
mod tests {
    use super::{of_tf_type, tf_type};
    use crate::tensor::DataType;

    #[test]
    fn types_have_the_names_of_tensorflow() {
        for dtype in DataType::ALL {
            assert_eq!(of_tf_type(tf_type(dtype).into()), Some(dtype));
            let name = tf_type(dtype).as_str_name();
            let expected = match dtype {
                DataType::F16 => "HALF".to_owned(),
                DataType::Bf16 => "BFLOAT16".to_owned(),
                DataType::F32 => "FLOAT".to_owned(),
                DataType::F64 => "DOUBLE".to_owned(),
                DataType::String => "STRING".to_owned(),
                same => same.kserve().to_owned(),
            };
            assert_eq!(name, format!("DT_{expected}"));
        }
        assert_eq!(of_tf_type(0), None);
        assert_eq!(of_tf_type(99), None);
    }
}
