//! Inferences as they are written.

use bytes::Bytes;
use ovms::{
    proto::{
        kserve::InferTensorContents,
        tensorflow::{DataType, TensorProto},
    },
    tensor::strings,
};
use serde_json::{Value, json};

use crate::support::tfs;

/// Most elements that are filled in.
const MAX_FILLED: i64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) version: String,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) datatype: String,
    pub(super) shape: Vec<i64>,
    pub(super) elements: Vec<Value>,
}

impl Request {
    pub(super) fn parse(line: &str) -> Self {
        let (inputs, outputs) = line.split_once(" -> ").unwrap_or((line, ""));
        let (model, inputs) = inputs.split_once(' ').unwrap_or((inputs, ""));
        let (model, version) = model.split_once(':').unwrap_or((model, ""));
        Self {
            model: model.replace("\"\"", ""),
            version: version.to_owned(),
            inputs: inputs
                .split(", ")
                .filter(|input| !input.is_empty())
                .map(Input::parse)
                .collect(),
            outputs: outputs.split_whitespace().map(str::to_owned).collect(),
        }
    }

    pub(super) fn path(&self, start: &str, end: &str) -> String {
        let version = if self.version.is_empty() {
            String::new()
        } else {
            format!("/versions/{}", self.version)
        };
        format!("{start}/models/{}{version}{end}", self.model)
    }
}

impl Input {
    fn parse(text: &str) -> Self {
        let (head, elements) = match text.split_once(" =") {
            Some((head, elements)) => (head, Some(elements)),
            None => (text, None),
        };
        let words: Vec<&str> = head.split_whitespace().collect();
        let [name, datatype, shape] = words[..] else {
            panic!("{text}: an input is NAME TYPE SHAPE");
        };
        let shape: Vec<i64> = serde_json::from_str(shape).unwrap();
        let zero = match datatype {
            "BOOL" => json!(false),
            "BYTES" => json!(""),
            _ => json!(0),
        };
        let count = shape
            .iter()
            .try_fold(1_i64, |count, length| count.checked_mul(*length));
        let count = count
            .filter(|count| *count <= MAX_FILLED)
            .unwrap_or(1)
            .max(0);
        let elements = match elements {
            None => vec![zero; usize::try_from(count).unwrap()],
            Some(elements) => elements.split_whitespace().flat_map(element).collect(),
        };
        Self {
            name: name.to_owned(),
            datatype: datatype.replace("\"\"", ""),
            shape,
            elements,
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        let mut bytes = Vec::new();
        for element in &self.elements {
            let integer = || element.as_i64().unwrap_or_default().to_le_bytes();
            let float = element.as_f64().unwrap_or_default();
            match self.datatype.as_str() {
                "FP32" => bytes.extend((float as f32).to_le_bytes()),
                "FP64" => bytes.extend(float.to_le_bytes()),
                "FP16" => bytes.extend(half::f16::from_f64(float).to_le_bytes()),
                "BF16" => bytes.extend(half::bf16::from_f64(float).to_le_bytes()),
                "BOOL" => bytes.push(u8::from(element == true)),
                "BYTES" => strings::push(&mut bytes, element.as_str().unwrap().as_bytes()).unwrap(),
                "INT8" | "UINT8" => bytes.extend_from_slice(&integer()[..1]),
                "INT16" | "UINT16" => bytes.extend_from_slice(&integer()[..2]),
                "INT64" | "UINT64" => bytes.extend_from_slice(&integer()),
                _ => bytes.extend_from_slice(&integer()[..4]),
            }
        }
        bytes.into()
    }

    /// Returns the elements in their field of KServe's message.
    pub(super) fn typed(&self) -> InferTensorContents {
        let mut contents = InferTensorContents::default();
        for element in &self.elements {
            let float = element.as_f64().unwrap_or_default();
            let integer = element.as_i64().unwrap_or_default();
            match self.datatype.as_str() {
                "FP64" => contents.fp64_contents.push(float),
                "BOOL" => contents.bool_contents.push(element == true),
                "BYTES" => contents
                    .bytes_contents
                    .push(element.as_str().unwrap().to_owned().into()),
                "INT8" | "INT16" | "INT32" => contents.int_contents.push(integer as i32),
                "INT64" => contents.int64_contents.push(integer),
                "UINT8" | "UINT16" | "UINT32" => contents.uint_contents.push(integer as u32),
                "UINT64" => contents.uint64_contents.push(integer as u64),
                _ => contents.fp32_contents.push(float as f32),
            }
        }
        contents
    }

    /// Returns the tensor of TensorFlow Serving with its elements in their field.
    pub(super) fn tfs_typed(&self, dtype: DataType) -> TensorProto {
        let mut tensor = tfs::tensor(dtype, &self.shape);
        for element in &self.elements {
            let float = element.as_f64().unwrap_or_default();
            let integer = element.as_i64().unwrap_or_default();
            match dtype {
                DataType::DtFloat => tensor.float_val.push(float as f32),
                DataType::DtDouble => tensor.double_val.push(float),
                DataType::DtInt64 => tensor.int64_val.push(integer),
                DataType::DtUint32 => tensor.uint32_val.push(integer as u32),
                DataType::DtUint64 => tensor.uint64_val.push(integer as u64),
                DataType::DtBool => tensor.bool_val.push(element == true),
                DataType::DtHalf => tensor
                    .half_val
                    .push(half::f16::from_f64(float).to_bits().into()),
                DataType::DtBfloat16 => tensor
                    .half_val
                    .push(half::bf16::from_f64(float).to_bits().into()),
                DataType::DtString => tensor
                    .string_val
                    .push(element.as_str().unwrap().to_owned().into()),
                _ => tensor.int_val.push(integer as i32),
            }
        }
        tensor
    }

    /// Returns the elements as lists in lists; `None` if they do not fill the shape.
    pub(super) fn nested(&self) -> Option<Value> {
        let mut level = self.elements.clone();
        for length in self.shape.iter().skip(1).rev() {
            let length = usize::try_from(*length).ok().filter(|length| *length > 0)?;
            if !level.len().is_multiple_of(length) {
                return None;
            }
            level = level.chunks(length).map(|part| json!(part)).collect();
        }
        match self.shape.first() {
            None if level.len() == 1 => level.pop(),
            Some(length) if usize::try_from(*length).ok()? == level.len() => Some(json!(level)),
            _ => None,
        }
    }
}

/// Reads an element, which may be there several times.
fn element(text: &str) -> Vec<Value> {
    let (text, count) = match text.rsplit_once('*') {
        Some((text, count)) if !text.starts_with('"') || text.ends_with('"') => {
            (text, count.parse().unwrap())
        }
        _ => (text, 1),
    };
    vec![serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")); count]
}
