//! Values to try a graph with.

use super::stream::{ScaffoldStream, joined};
use crate::tensor::DataType;

/// Maximum number of values that are written out.
const MAX_VALUES: i64 = 6;

/// A tensor to try an input with.
pub(super) struct Sample {
    pub(super) dtype: DataType,
    pub(super) shape: Vec<i64>,
}

impl Sample {
    /// Makes one that an input takes.
    pub(super) fn of(stream: &ScaffoldStream) -> Self {
        let dtype = stream.dtype.unwrap_or(DataType::F32);
        let shape = match (stream.tried.as_ref().or(stream.shape.as_ref()), dtype) {
            // Where any length will do, 2.
            (Some(shape), _) => shape
                .iter()
                .map(|it| if *it == -1 { 2 } else { *it })
                .collect(),
            (None, DataType::String) => vec![1],
            (None, _) => vec![3],
        };
        Self { dtype, shape }
    }

    pub(super) fn count(&self) -> i64 {
        self.shape.iter().copied().fold(1, i64::saturating_mul)
    }

    /// Returns the name of its type in NumPy, if that has it.
    pub(super) fn numpy(&self) -> Option<&'static str> {
        Some(match self.dtype {
            DataType::Bool => "bool_",
            DataType::I8 => "int8",
            DataType::I16 => "int16",
            DataType::I32 => "int32",
            DataType::I64 => "int64",
            DataType::U8 => "uint8",
            DataType::U16 => "uint16",
            DataType::U32 => "uint32",
            DataType::U64 => "uint64",
            DataType::F16 => "float16",
            DataType::F32 => "float32",
            DataType::F64 => "float64",
            DataType::Bf16 | DataType::String => return None,
        })
    }

    /// Returns its size in bytes, if it has no texts.
    pub(super) fn size(&self) -> i64 {
        let each = self.dtype.size().unwrap_or(1) as i64;
        self.count().saturating_mul(each)
    }
}

/// Writes the flags of `ovms infer` and `ovms graph run` that give each input a value, as they are
/// typed in a shell.
pub fn flags(inputs: &[ScaffoldStream]) -> String {
    let mut is_random = false;
    let flag = |input: &ScaffoldStream| {
        let sample = Sample::of(input);
        let (name, dtype, lengths) = (&input.name, sample.dtype, joined(&sample.shape, ","));
        match (dtype, sample.count(), sample.shape.len()) {
            (DataType::String, 1, 0 | 1) => format!("-i {name}:BYTES=hello"),
            (DataType::String, _, _) => {
                let number = usize::try_from(sample.count()).map_or(64, |number| number.min(64));
                let all = vec!["\"hello\""; number].join(",");
                format!("-i '{name}:BYTES:{lengths}=[{all}]'")
            }
            (_, count @ 1..=MAX_VALUES, 1) => {
                let values: Vec<String> = (0..count).map(|it| value(dtype, it)).collect();
                format!("-i '{name}:{dtype}=[{}]'", values.join(","))
            }
            _ => {
                is_random = true;
                format!("-i {name}:{dtype}:{lengths}=")
            }
        }
    };
    let mut flags: Vec<String> = inputs.iter().map(flag).collect();
    flags.extend(is_random.then(|| "--random".to_owned()));
    flags.join(" ")
}

fn value(dtype: DataType, index: i64) -> String {
    match dtype {
        DataType::Bool => (index % 2 == 0).to_string(),
        _ => (index + 1).to_string(),
    }
}
