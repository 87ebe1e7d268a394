//! Responses of another command, from a pipe or a file.
//!
//! That is the object that `ovms infer --output json` writes ([`answer_json`]), or the body of an
//! answer of KServe's REST, which has the same outputs. Datatypes and shapes stay as they are.
//!
//! [`answer_json`]: crate::client::output::answer_json

use serde::Deserialize;
use serde_json::{error::Category, value::RawValue};

use crate::{
    client::{error::BoxError, json},
    tensor::{DataType, MAX_RANK, Tensor},
};

/// Beginning of an object that is cut short if the process that wrote it was ended.
const BEGIN: &str = r#"{"model_name":"#;

/// Error of an answer that cannot be used as input.
#[derive(Debug, thiserror::Error)]
pub enum PipedProblem {
    /// The text ends in the middle.
    #[error("it ends in the middle")]
    Cut,
    /// An output is none that tensors can hold.
    #[error("cannot use its output `{name}`")]
    Output {
        /// The name of the output.
        name: String,
        /// The reason.
        source: BoxError,
    },
    /// No outputs that tensors can hold.
    #[error("it has no outputs with a datatype of tensors")]
    Nothing,
}

/// Fields of a response beside its outputs.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head {
    #[serde(default)]
    pub(super) id: String,
    pub(super) timestamp: Option<i64>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    outputs: Vec<Output<'a>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    name: String,
    datatype: String,
    #[serde(default)]
    shape: Vec<i64>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    not_finite: Vec<(usize, String)>,
}

/// Reads the head of an answer; `None` of what is no answer.
pub(super) fn head(text: &str) -> Option<Head> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let text = json::quote_not_finite(text);
    serde_json::from_str::<Answer<'_>>(&text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Reads the outputs of an answer; `None` of what is no answer.
pub(super) fn outputs(text: &str) -> Option<Result<Vec<(String, Tensor)>, PipedProblem>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let text = json::quote_not_finite(text);
    let answer: Answer<'_> = match serde_json::from_str(&text) {
        Ok(answer) => answer,
        Err(error) => {
            let is_cut = error.classify() == Category::Eof && text.starts_with(BEGIN);
            return is_cut.then_some(Err(PipedProblem::Cut));
        }
    };
    let mut tensors = Vec::with_capacity(answer.outputs.len());
    for output in &answer.outputs {
        // A type of the server's own has no tensor.
        let Some(dtype) = DataType::from_kserve(&output.datatype) else {
            continue;
        };
        match output.tensor(dtype) {
            Ok(tensor) => tensors.push((output.name.clone(), tensor)),
            Err(source) => {
                let name = output.name.clone();
                return Some(Err(PipedProblem::Output { name, source }));
            }
        }
    }
    if tensors.is_empty() {
        return Some(Err(PipedProblem::Nothing));
    }
    Some(Ok(tensors))
}

impl Output<'_> {
    fn tensor(&self, dtype: DataType) -> Result<Tensor, BoxError> {
        let length = |length: &i64| {
            usize::try_from(*length).map_err(|_| format!("found the length {length} in its shape"))
        };
        if self.shape.len() > MAX_RANK {
            let rank = self.shape.len();
            return Err(
                format!("found a shape of {rank} axes, expected {MAX_RANK} at most").into(),
            );
        }
        let shape: Vec<usize> = self.shape.iter().map(length).collect::<Result<_, _>>()?;
        let data = self.data.ok_or("found no `data`")?;
        let number = |(place, word): &(usize, String)| match json::not_finite(word) {
            Some(number) => Ok((*place, number)),
            None => Err(format!("found `{word}` in `not_finite`")),
        };
        let holes = self.not_finite.iter().map(number);
        let holes: Vec<_> = holes.collect::<Result<_, _>>()?;
        json::tensor(data.get(), dtype, shape, &holes)
    }
}

#[cfg(test)]
mod tests {
    use super::{head, outputs};
    use crate::{
        client::{message::ClientResponse, output::answer_json},
        error::chain,
        tensor::{
            DataType, Tensor, TensorMap,
            values::{Packer, write_json},
        },
    };

    fn through(dtype: DataType, shape: &[usize], data: Vec<u8>) -> Tensor {
        let tensor = Tensor::new(dtype, shape.to_vec(), data.into()).unwrap();
        let answer = ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter([("y".to_owned(), tensor.clone())]),
            opaque: Vec::new(),
        };
        let text = String::from_utf8(answer_json(&answer, None, &["a.png".to_owned()])).unwrap();
        let mut read = outputs(&text).expect("an answer").unwrap();
        let (name, read) = read.remove(0);
        assert_eq!(name, "y");
        assert_eq!(read, tensor, "{text}");
        read
    }

    #[test]
    fn every_value_comes_through() {
        let bytes = |list: &[&[u8]]| {
            let mut packer = Packer::new(DataType::String, list.len());
            for bytes in list {
                packer.push_bytes(bytes).unwrap();
            }
            packer.finish().to_vec()
        };
        through(
            DataType::I64,
            &[2],
            [i64::MIN, i64::MAX].map(i64::to_le_bytes).concat(),
        );
        through(DataType::U64, &[1, 1], u64::MAX.to_le_bytes().to_vec());
        through(DataType::Bool, &[2], vec![1, 0]);
        through(DataType::F32, &[0, 3], Vec::new());
        through(DataType::F32, &[], (-0.0f32).to_le_bytes().to_vec());
        through(
            DataType::F64,
            &[5],
            [
                f64::MIN_POSITIVE,
                f64::MAX,
                0.1,
                f64::INFINITY,
                f64::NEG_INFINITY,
            ]
            .map(f64::to_le_bytes)
            .concat(),
        );
        through(
            DataType::F32,
            &[3],
            [f32::NAN, 1.0e-45, f32::NEG_INFINITY]
                .map(f32::to_le_bytes)
                .concat(),
        );
        through(
            DataType::String,
            &[2, 2],
            bytes(&[b"", b"\xff\0", "größe\n\"".as_bytes(), b"NaN"]),
        );
    }

    #[test]
    fn every_half_comes_through() {
        // What is not a number has many forms, of which one comes through.
        let is_finite = |bits: &u16, exponent: u16| bits & exponent != exponent;
        for (dtype, exponent) in [(DataType::F16, 0x7c00), (DataType::Bf16, 0x7f80)] {
            let all: Vec<u16> = (0..=u16::MAX)
                .filter(|bits| is_finite(bits, exponent))
                .collect();
            let data: Vec<u8> = all.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            through(dtype, &[all.len()], data);
            through(dtype, &[1], exponent.to_le_bytes().to_vec());
        }
    }

    #[test]
    fn what_is_no_answer_is_a_value() {
        for text in [
            "[1]",
            "",
            "{}",
            r#"{"outputs":[1,2]}"#,
            r#"{"outputs":{"y":[1]}}"#,
            r#"{"x":[1,2"#,
            r#"{"error":"no"}"#,
        ] {
            assert!(outputs(text).is_none(), "{text}");
            assert!(head(text).is_none(), "{text}");
        }
    }

    #[test]
    fn bodies_of_servers_are_answers() {
        let text = r#" {"outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[[NaN,1]]}],
            "id":"7","timestamp":3}"#;
        let read = outputs(text).unwrap().unwrap();
        let mut out = Vec::new();
        write_json(&read[0].1, &mut out);
        assert_eq!(out, b"[NaN,1.0]");
        assert_eq!(read[0].1.shape(), [1, 2]);
        let head = head(text).unwrap();
        assert_eq!((head.id.as_str(), head.timestamp), ("7", Some(3)));
    }

    #[test]
    fn errors_name_the_output() {
        let of = |rest: &str| {
            let text = format!(r#"{{"model_name":"m","outputs":[{{"name":"y",{rest}"#);
            chain(&outputs(&text).expect("an answer").unwrap_err())
        };
        for (rest, expected) in [
            (
                r#""datatype":"FP32","shape":[2],"data":[1"#,
                "it ends in the middle",
            ),
            (
                r#""datatype":"FP32","shape":[2],"data":[1]}]}"#,
                "cannot use its output `y`: found 1 elements for shape (2)",
            ),
            (
                r#""datatype":"FP32","shape":[-1],"data":[1]}]}"#,
                "cannot use its output `y`: found the length -1 in its shape",
            ),
            (
                r#""datatype":"FP32","shape":[1]}]}"#,
                "cannot use its output `y`: found no `data`",
            ),
            (
                r#""datatype":"FP32","shape":[1],"data":[null]}]}"#,
                "cannot use its output `y`: invalid type: null, expected a list or a value of FP32 \
                 at line 1 column 5",
            ),
            (
                r#""datatype":"FP32","shape":[1],"data":[null],"not_finite":[[0,"nan"]]}]}"#,
                "cannot use its output `y`: found `nan` in `not_finite`",
            ),
            (
                r#""datatype":"my own","shape":[1],"b64":""}]}"#,
                "it has no outputs with a datatype of tensors",
            ),
        ] {
            assert_eq!(of(rest), expected, "{rest}");
        }
    }
}
