//! The memory that a message of Protocol Buffers takes once it is decoded, computed from its bytes.
//!
//! An empty element of a list can be two bytes on the wire and some hundred in memory, so that the
//! length of a message does not bound what decoding it takes. [`Kind::weight`] goes over the fields of a
//! message, not over their contents, and adds up what each becomes.

use std::mem::size_of;

use bytes::{Buf, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::proto::{
    kserve::{
        InferParameter, InferTensorContents,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
    },
    tensorflow::{TensorProto, tensor_shape_proto::Dim},
};

/// Lists double their room when they are full.
const SPARE: usize = 2;

/// Overhead of a map entry.
const ENTRY: usize = 64;

/// A byte below this is a number of variable length by itself.
const SHORT: u8 = 0x80;

/// Levels of messages within messages that are looked into: no field below holds a list.
const MAX_DEPTH: usize = 8;

/// A kind of message: its fields that take more than the few bytes of a number, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Kind(&'static [(u32, Field)]);

/// Representation of a field in memory.
#[derive(Debug)]
enum Field {
    /// Each is an element of a list or map, of so many bytes, and a copy of its contents.
    Text(usize),
    /// Each is a slice of the message: so many bytes beside it.
    Slice(usize),
    /// Each is a message, of so many bytes.
    Message(usize, &'static Kind),
    /// Each is an entry of a map, which prost reads as a message whatever the type of its key says.
    Entry(usize, &'static Kind),
    /// Numbers of so many bytes each, alone or packed; of variable length on the wire if there is no width.
    Numbers { size: usize, width: Option<usize> },
}

const fn varints(size: usize) -> Field {
    Field::Numbers { size, width: None }
}

const fn fixed(size: usize) -> Field {
    Field::Numbers {
        size,
        width: Some(size),
    }
}

const TEXT: Field = Field::Text(size_of::<String>());

/// A map from names to parameters.
const PARAMETERS: Field = Field::Entry(
    size_of::<String>() + size_of::<InferParameter>() + ENTRY,
    &Kind(&[(1, TEXT), (2, Field::Message(0, &Kind(&[(3, TEXT)])))]),
);

/// `inference.ModelInferRequest`.
pub(super) const INFER: Kind = Kind(&[
    (1, TEXT),
    (2, TEXT),
    (3, TEXT),
    (4, PARAMETERS),
    (
        5,
        Field::Message(
            size_of::<InferInputTensor>(),
            &Kind(&[
                (1, TEXT),
                (2, TEXT),
                (3, varints(8)),
                (4, PARAMETERS),
                (
                    5,
                    Field::Message(size_of::<InferTensorContents>(), &CONTENTS),
                ),
            ]),
        ),
    ),
    (
        6,
        Field::Message(
            size_of::<InferRequestedOutputTensor>(),
            &Kind(&[(1, TEXT), (2, PARAMETERS)]),
        ),
    ),
    (7, Field::Slice(size_of::<Bytes>())),
]);

/// `inference.InferTensorContents`. Strings are copied into one buffer afterwards, numbers as well.
const CONTENTS: Kind = Kind(&[
    (1, varints(1)),
    (2, varints(4)),
    (3, varints(8)),
    (4, varints(4)),
    (5, varints(8)),
    (6, fixed(4)),
    (7, fixed(8)),
    (8, Field::Text(size_of::<Bytes>())),
]);

/// `tensorflow.serving.PredictRequest`.
pub(super) const PREDICT: Kind = Kind(&[
    (
        1,
        Field::Message(256, &Kind(&[(1, TEXT), (3, TEXT), (4, TEXT)])),
    ),
    (
        2,
        Field::Entry(
            size_of::<String>() + size_of::<TensorProto>() + ENTRY,
            &Kind(&[(1, TEXT), (2, Field::Message(0, &TENSOR))]),
        ),
    ),
    (3, TEXT),
]);

/// `tensorflow.TensorProto`.
const TENSOR: Kind = Kind(&[
    (
        2,
        Field::Message(
            0,
            &Kind(&[(2, Field::Message(size_of::<Dim>(), &Kind(&[(2, TEXT)])))]),
        ),
    ),
    (4, Field::Slice(0)),
    (5, fixed(4)),
    (6, fixed(8)),
    (7, varints(4)),
    (8, Field::Text(size_of::<Bytes>())),
    (9, fixed(4)),
    (10, varints(8)),
    (11, varints(1)),
    (12, fixed(8)),
    (13, varints(4)),
    // Handles and variants, which no tensor of ours has, may nest.
    (14, Field::Message(512, &NESTED)),
    (15, Field::Message(512, &NESTED)),
    (16, varints(4)),
    (17, varints(8)),
]);

/// Messages that are read and not used: as if any two bytes were another message.
const NESTED: Kind = Kind(&[]);
const NESTED_FACTOR: usize = 512;

impl Kind {
    /// Returns how many bytes a message is going to take, or that part of it that can be read.
    pub(super) fn weight(&self, message: &[u8]) -> usize {
        self.within(message, 0)
    }

    fn within(&self, mut rest: &[u8], depth: usize) -> usize {
        if self.0.is_empty() || depth > MAX_DEPTH {
            return rest.len().saturating_mul(NESTED_FACTOR / 2);
        }
        let mut weight = 0_usize;
        while let Some((number, wire)) = key(&mut rest) {
            let field = self.0.iter().find(|(known, _)| *known >= number);
            let field = field.filter(|(known, _)| *known == number);
            let field = field.map(|(_, field)| field);
            let wire = match field {
                Some(Field::Entry(..)) => WireType::LengthDelimited,
                _ => wire,
            };
            let Some(value) = value(&mut rest, wire) else {
                break;
            };
            let Some(field) = field else {
                continue;
            };
            weight = weight.saturating_add(match (field, value) {
                // Its slot, its contents, and a framed copy of a string of a tensor.
                (Field::Text(size), Value::Bytes(bytes)) => SPARE * (size + bytes.len()),
                (Field::Slice(size), Value::Bytes(_)) => SPARE * size,
                (Field::Message(size, kind) | Field::Entry(size, kind), Value::Bytes(bytes)) => {
                    (SPARE * size).saturating_add(kind.within(bytes, depth + 1))
                }
                (Field::Numbers { size, width }, Value::Bytes(bytes)) => {
                    // The list, and what it is packed to.
                    (SPARE + 1) * size * count(bytes, *width)
                }
                (Field::Numbers { size, .. }, Value::Number) => (SPARE + 1) * size,
                _ => 0,
            });
        }
        weight
    }
}

/// Returns how many bytes a JSON body takes besides itself once it is read: behind a comma is a number, of
/// eight bytes at most in lists that double, and before a colon the name of something larger.
pub(super) fn of_json(json: &[u8]) -> usize {
    const ELEMENT: usize = 32;
    const MEMBER: usize = 128;
    // As many as a byte counts, and vectors hold: the compiler compares sixteen at a time, eight times as fast as one
    // count of all.
    const PART: usize = 192;
    let count = |wanted| -> usize {
        let parts = json.chunks(PART);
        parts
            .map(|part| usize::from(part.iter().map(|&it| u8::from(it == wanted)).sum::<u8>()))
            .sum()
    };
    ELEMENT * count(b',') + MEMBER * count(b':')
}

/// Returns how many numbers there are in packed ones.
fn count(bytes: &[u8], width: Option<usize>) -> usize {
    match width {
        Some(width) => bytes.len() / width,
        // The last byte of each has the highest bit clear.
        None => bytes.iter().filter(|&&byte| byte < 0x80).count(),
    }
}

enum Value<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// Takes the key of the next field off a message; `None` at its end, or where it cannot be read.
fn key(rest: &mut &[u8]) -> Option<(u32, WireType)> {
    match **rest {
        [] => None,
        // Fields up to the fifteenth, which are nearly all: a request goes through here for each of its fields.
        [byte @ 8..SHORT, ref others @ ..] => {
            *rest = others;
            let wire = WireType::try_from(u64::from(byte & 7)).ok()?;
            Some((u32::from(byte >> 3), wire))
        }
        _ => decode_key(rest).ok(),
    }
}

/// Takes a number of variable length off a message.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    match **rest {
        [byte @ ..SHORT, ref others @ ..] => {
            *rest = others;
            Some(u64::from(byte))
        }
        _ => decode_varint(rest).ok(),
    }
}

/// Takes the value of a field off a message.
fn value<'a>(rest: &mut &'a [u8], wire: WireType) -> Option<Value<'a>> {
    Some(match wire {
        WireType::Varint => varint(rest).map(|_| Value::Number)?,
        WireType::SixtyFourBit => skip(rest, 8).map(|_| Value::Number)?,
        WireType::ThirtyTwoBit => skip(rest, 4).map(|_| Value::Number)?,
        WireType::LengthDelimited => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(skip(rest, length)?)
        }
        // Of a group, which no message of ours has, the fields are read as if they were its neighbours'.
        WireType::StartGroup | WireType::EndGroup => Value::Number,
    })
}

fn skip<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let taken = rest.get(..length)?;
    rest.advance(length);
    Some(taken)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::{kserve::ModelInferRequest, tensorflow_serving::PredictRequest};

    fn of_infer(request: &ModelInferRequest) -> usize {
        INFER.weight(&request.encode_to_vec())
    }

    #[test]
    fn elements_of_two_bytes_count_as_what_they_become() {
        let inputs = ModelInferRequest {
            inputs: vec![InferInputTensor::default(); 1000],
            ..ModelInferRequest::default()
        };
        assert!(inputs.encoded_len() == 2000);
        assert!(of_infer(&inputs) >= 1000 * size_of::<InferInputTensor>());
        let outputs = ModelInferRequest {
            outputs: vec![InferRequestedOutputTensor::default(); 1000],
            ..ModelInferRequest::default()
        };
        assert!(of_infer(&outputs) >= 1000 * size_of::<InferRequestedOutputTensor>());
        let contents = |contents| ModelInferRequest {
            inputs: vec![InferInputTensor {
                contents: Some(contents),
                ..InferInputTensor::default()
            }],
            ..ModelInferRequest::default()
        };
        let strings = contents(InferTensorContents {
            bytes_contents: vec![Bytes::new(); 1000],
            ..InferTensorContents::default()
        });
        assert!(of_infer(&strings) >= 1000 * size_of::<Bytes>());
        let numbers = contents(InferTensorContents {
            int64_contents: vec![1; 1000],
            ..InferTensorContents::default()
        });
        assert!((16_000..30_000).contains(&of_infer(&numbers)));
        let large = contents(InferTensorContents {
            int64_contents: vec![i64::MAX; 1000],
            ..InferTensorContents::default()
        });
        assert_eq!(of_infer(&large), of_infer(&numbers));
    }

    #[test]
    fn entries_of_maps_count_whatever_their_keys_say() {
        // A key of field 4 that ends a group; prost reads an empty entry.
        let mut wire = vec![0x24, 0];
        wire.extend([0x2a, 0].repeat(1000));
        let read = ModelInferRequest::decode(&*wire).unwrap();
        assert_eq!((read.parameters.len(), read.inputs.len()), (1, 1000));
        assert!(INFER.weight(&wire) >= 1000 * size_of::<InferInputTensor>());
        let mut wire = vec![0x14, 0];
        wire.extend([0x1a, 0].repeat(1000));
        let read = PredictRequest::decode(&*wire).unwrap();
        assert_eq!((read.inputs.len(), read.output_filter.len()), (1, 1000));
        assert!(PREDICT.weight(&wire) >= 1000 * size_of::<String>());
    }

    #[test]
    fn raw_contents_are_not_copied() {
        let raw = ModelInferRequest {
            raw_input_contents: vec![vec![0; 1 << 20].into()],
            ..ModelInferRequest::default()
        };
        assert!(of_infer(&raw) < 1000);
        let tensor = TensorProto {
            tensor_content: vec![0; 1 << 20].into(),
            ..TensorProto::default()
        };
        let predict = PredictRequest {
            inputs: [("a".to_owned(), tensor)].into(),
            ..PredictRequest::default()
        };
        assert!(PREDICT.weight(&predict.encode_to_vec()) < 2000);
    }

    #[test]
    fn tensors_of_tensorflow_count_by_their_lists() {
        let tensor = TensorProto {
            string_val: vec![Bytes::new(); 1000],
            int_val: vec![1; 1000],
            double_val: vec![1.0; 1000],
            ..TensorProto::default()
        };
        let predict = PredictRequest {
            inputs: [("a".to_owned(), tensor)].into(),
            output_filter: vec![String::new(); 1000],
            ..PredictRequest::default()
        };
        let least = 1000 * (size_of::<Bytes>() + 4 + 8 + size_of::<String>());
        assert!(PREDICT.weight(&predict.encode_to_vec()) >= least);
    }

    #[test]
    fn each_comma_and_colon_of_json_counts() {
        for length in [0, 1, 191, 192, 193, 1000] {
            assert_eq!(of_json(&vec![b','; length]), 32 * length);
            assert_eq!(
                of_json(&[b":1"[..].repeat(length), vec![b' '; 7]].concat()),
                128 * length
            );
        }
    }

    #[test]
    fn keys_are_read_as_prost_reads_them() {
        for first in 0..=u8::MAX {
            let message = [first, 1, 0x7f];
            let (mut read, mut expected) = (&message[..], &message[..]);
            assert_eq!(key(&mut read), decode_key(&mut expected).ok(), "{first}");
            let (mut read, mut expected) = (&message[..], &message[..]);
            let numbers = (varint(&mut read), decode_varint(&mut expected).ok());
            assert_eq!(numbers.0, numbers.1);
            assert_eq!(read, expected);
        }
        assert_eq!(varint(&mut &[][..]), None);
    }

    #[test]
    fn fields_are_in_the_order_of_their_numbers() {
        fn check(kind: &Kind) {
            assert!(kind.0.is_sorted_by(|(one, _), (next, _)| one < next));
            for (_, field) in kind.0 {
                if let Field::Message(_, of) | Field::Entry(_, of) = field {
                    check(of);
                }
            }
        }
        check(&INFER);
        check(&PREDICT);
    }

    #[test]
    fn what_is_no_message_ends_the_count() {
        assert_eq!(INFER.weight(&[0xff; 20]), 0);
        // 2 GiB follow, it says.
        assert_eq!(INFER.weight(&[0x3a, 0xff, 0xff, 0xff, 0xff, 7, 1]), 0);
        assert_eq!(INFER.weight(b""), 0);
    }
}
