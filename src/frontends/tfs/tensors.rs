//! Messages to an [`InferRequest`] and an [`InferResponse`] to messages.
//!
//! `tensor_content` stays a slice of the received message; values in the field of their type are
//! packed. Where both are sent, `tensor_content` counts, as in TensorFlow.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    budget::Budget,
    error::Result,
    frontends::gather::{fixed, one_by_one, values},
    proto::{
        tensorflow::TensorProto,
        tensorflow_serving::{PredictRequest, PredictResponse},
    },
    request::{
        Data, Declared, Dialect, InferRequest, InferResponse, InputTensor, Parameters, Special,
        SpecialInputs,
    },
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    tensor::{
        DataType, Tensor,
        tensorflow::{of_tf_type, tf_type},
    },
};

/// Reads a request; which model it is for has been used already, and whether that is stateful.
///
/// # Errors
///
/// Fails if the budget has no room for what lists are packed to.
pub(super) fn decode(
    mut message: PredictRequest,
    stateful: bool,
    budget: &Budget,
) -> Result<InferRequest> {
    let special = stateful.then(|| {
        let id = message.inputs.remove(SEQUENCE_ID);
        let control = message.inputs.remove(CONTROL_INPUT);
        Box::new(SpecialInputs {
            id: id.map(|tensor| decode_special(&tensor, &tensor.uint64_val)),
            control: control.map(|tensor| decode_special(&tensor, &tensor.uint32_val)),
        })
    });
    let inputs = message
        .inputs
        .into_iter()
        .map(|(name, tensor)| decode_input(name, tensor, budget))
        .collect::<Result<_>>()?;
    let mut request = InferRequest {
        id: String::new(),
        parameters: Parameters::new(),
        inputs,
        outputs: message.output_filter,
        raw_mismatch: None,
        dialect: Dialect::TensorFlowServing,
        special,
        regions: None,
        trace: None,
        priority: None,
        marks_final: false,
        owner: None,
        texts: None,
    };
    request.charge_texts(budget)?;
    Ok(request)
}

/// Reads a special input: its value is in the one field where the protocol puts it, whatever
/// its type says.
fn decode_special<T: Copy + Into<u64>>(tensor: &TensorProto, values: &[T]) -> Special {
    let shape = tensor.tensor_shape.as_ref();
    Special {
        shape: shape.map(|shape| shape.dim.iter().map(|dim| dim.size).collect()),
        value: match values {
            [value] => Some((*value).into()),
            _ => None,
        },
    }
}

fn decode_input(name: String, mut tensor: TensorProto, budget: &Budget) -> Result<InputTensor> {
    let mut shape = tensor.tensor_shape.take().unwrap_or_default();
    if shape.unknown_rank {
        shape.dim.clear();
    }
    let (datatype, data) = match of_tf_type(tensor.dtype) {
        // Refused later, if nothing before it is wrong.
        Some(dtype) if shape.unknown_rank => (Declared::Known(dtype), Data::Unranked),
        Some(dtype) => (Declared::Known(dtype), pack(dtype, tensor).charged(budget)?),
        // Refused later, with this text; the data is not looked at.
        None => (
            Declared::Unknown("INVALID".to_owned()),
            values(0, Bytes::new()),
        ),
    };
    Ok(InputTensor {
        name,
        datatype,
        shape: shape.dim.into_iter().map(|dim| dim.size).collect(),
        data,
    })
}

/// Packs the elements of a tensor; values in fields of other types do not count.
fn pack(dtype: DataType, tensor: TensorProto) -> Data {
    if dtype == DataType::String {
        if tensor.string_val.is_empty() && !tensor.tensor_content.is_empty() {
            return Data::Unfit("strings belong in string_val, not in tensor_content".to_owned());
        }
        return one_by_one(dtype, tensor.string_val, |packer, value| {
            packer.push_bytes(&value)
        });
    }
    if !tensor.tensor_content.is_empty() {
        return Data::Raw(tensor.tensor_content);
    }
    let packed = match dtype {
        DataType::F32 => fixed(&tensor.float_val, f32::to_le_bytes),
        DataType::F64 => fixed(&tensor.double_val, f64::to_le_bytes),
        DataType::I64 => fixed(&tensor.int64_val, i64::to_le_bytes),
        DataType::U32 => fixed(&tensor.uint32_val, u32::to_le_bytes),
        DataType::U64 => fixed(&tensor.uint64_val, u64::to_le_bytes),
        DataType::Bool => fixed(&tensor.bool_val, |value| [u8::from(value)]),
        DataType::I32 => fixed(&tensor.int_val, i32::to_le_bytes),
        DataType::I8 | DataType::I16 | DataType::U8 | DataType::U16 => {
            one_by_one(dtype, tensor.int_val, |packer, value| {
                packer.push_i64(value.into())
            })
        }
        DataType::F16 | DataType::Bf16 => return half(dtype, &tensor.half_val),
        DataType::String => unreachable!("answered above"),
    };
    match packed {
        // Nothing in either place: counted in bytes, save for the types that have but the list in
        // the C++ server.
        Data::Values { count: 0, .. } if dtype != DataType::U16 => Data::Raw(Bytes::new()),
        packed => packed,
    }
}

/// Packs 16 bits of each number.
fn half(dtype: DataType, patterns: &[i32]) -> Data {
    let mut bytes = Vec::with_capacity(patterns.len() * 2);
    for &pattern in patterns {
        let Ok(pattern) = u16::try_from(pattern) else {
            return Data::Unfit(format!("{pattern} in half_val is no 16 bits of {dtype}"));
        };
        bytes.extend_from_slice(&pattern.to_le_bytes());
    }
    values(patterns.len(), bytes)
}

/// Writes a response; that of a stateful model has the id of the sequence where clients write it.
pub(super) fn encode(response: InferResponse, stateful: bool) -> PredictResponse {
    // Collected, they would be in a list first, and sorted.
    let mut outputs = BTreeMap::new();
    for (name, tensor) in response.outputs {
        let is_id = stateful && name == SEQUENCE_ID && tensor.dtype() == DataType::U64;
        let mut output = encode_output(tensor);
        if is_id {
            let id = output.tensor_content.split_off(0);
            let numbers = id.chunks_exact(8).filter_map(|id| id.try_into().ok());
            output.uint64_val = numbers.map(u64::from_le_bytes).collect();
        }
        outputs.insert(name, output);
    }
    PredictResponse {
        outputs,
        model_spec: None,
    }
}

fn encode_output(tensor: Tensor) -> TensorProto {
    let (dtype, shape, data) = tensor.into_parts();
    let lengths = shape.into_iter();
    let lengths = lengths.map(|length| i64::try_from(length).unwrap_or(i64::MAX));
    let mut output = TensorProto {
        dtype: tf_type(dtype).into(),
        tensor_shape: Some(super::shape(lengths)),
        ..TensorProto::default()
    };
    if dtype == DataType::String {
        output.string_val = strings(data);
    } else {
        output.tensor_content = data;
    }
    output
}

/// Cuts framed strings apart without copying them.
fn strings(mut framed: Bytes) -> Vec<Bytes> {
    let mut strings = Vec::new();
    while let Some((length, _)) = framed.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if framed.len() - 4 < length {
            break;
        }
        let mut string = framed.split_to(4 + length);
        strings.push(string.split_off(4));
    }
    strings
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    use super::{Budget, SEQUENCE_ID, decode, encode, encode_output, pack, strings};
    use crate::{
        proto::{
            tensorflow::{TensorProto, TensorShapeProto},
            tensorflow_serving::PredictRequest,
        },
        request::{Data, InferResponse},
        tensor::{DataType, Tensor},
    };

    /// A tensor with values in every field.
    fn full() -> TensorProto {
        TensorProto {
            half_val: vec![0x3c00, 0xffff],
            float_val: vec![1.0, 2.0],
            double_val: vec![1.0, 2.0],
            int_val: vec![1, 2],
            string_val: vec![Bytes::from_static(b"a"), Bytes::new()],
            int64_val: vec![1, 2],
            bool_val: vec![true, false],
            uint32_val: vec![1, 2],
            uint64_val: vec![1, 2],
            ..TensorProto::default()
        }
    }

    #[test]
    fn every_type_has_its_number_and_its_field() {
        for dtype in DataType::ALL {
            let Data::Values { count, bytes } = pack(dtype, full()) else {
                panic!("{dtype} has no field");
            };
            assert_eq!(count, 2, "{dtype}");
            let expected = dtype.size().map_or(9, |size| 2 * size);
            assert_eq!(bytes.len(), expected, "{dtype}");
        }
    }

    #[test]
    fn content_counts_before_values_and_is_not_copied() {
        let content = Bytes::from_static(b"12345678");
        let tensor = TensorProto {
            tensor_content: content.clone(),
            ..full()
        };
        let Data::Raw(bytes) = pack(DataType::F32, tensor.clone()) else {
            panic!("it is raw");
        };
        assert_eq!(bytes.as_ptr(), content.as_ptr());
        // Strings have no such form here.
        assert!(matches!(
            pack(DataType::String, tensor),
            Data::Values { count: 2, .. }
        ));
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let unfit = |dtype, tensor| match pack(dtype, tensor) {
            Data::Unfit(reason) => reason,
            other => panic!("{other:?}"),
        };
        let ints = |int_val| TensorProto {
            int_val,
            ..TensorProto::default()
        };
        assert_eq!(
            unfit(DataType::I8, ints(vec![128])),
            "128 does not fit INT8"
        );
        assert_eq!(
            unfit(DataType::U16, ints(vec![-1])),
            "-1 does not fit UINT16"
        );
        let half = TensorProto {
            half_val: vec![0, 0x1_0000],
            ..TensorProto::default()
        };
        assert_eq!(
            unfit(DataType::F16, half),
            "65536 in half_val is no 16 bits of FP16"
        );
        let content = TensorProto {
            tensor_content: Bytes::from_static(b"a"),
            ..TensorProto::default()
        };
        assert_eq!(
            unfit(DataType::String, content),
            "strings belong in string_val, not in tensor_content"
        );
    }

    #[test]
    fn a_shape_of_unknown_rank_is_left_to_the_validation() {
        let tensor = TensorProto {
            tensor_shape: Some(TensorShapeProto {
                unknown_rank: true,
                ..TensorShapeProto::default()
            }),
            dtype: 1,
            ..TensorProto::default()
        };
        let request = PredictRequest {
            inputs: [("b".to_owned(), tensor)].into(),
            ..PredictRequest::default()
        };
        let decoded = decode(request, false, &Budget::default()).unwrap();
        assert_eq!(decoded.inputs[0].data, Data::Unranked);
    }

    #[test]
    fn strings_are_cut_apart_and_broken_framing_ends() {
        let framed = Bytes::from_static(b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c");
        assert_eq!(strings(framed.clone()), ["ab", "", "c"]);
        assert_eq!(strings(framed.slice(..framed.len() - 1)), ["ab", ""]);
        let tensor = Tensor::new(DataType::String, vec![3], framed).unwrap();
        let output = encode_output(tensor);
        assert_eq!((output.dtype, output.string_val.len()), (7, 3));
        assert!(output.tensor_content.is_empty());
    }

    #[test]
    fn the_id_of_a_sequence_is_a_value_and_an_output_of_its_name_is_not() {
        let content = Bytes::from_static(&[7, 0, 0, 0, 0, 0, 0, 0]);
        let encoded = |stateful| {
            let id = Tensor::new(DataType::U64, vec![1], content.clone()).unwrap();
            let response = InferResponse {
                outputs: [(SEQUENCE_ID.to_owned(), id)].into(),
                ..InferResponse::default()
            };
            encode(response, stateful).outputs.remove(SEQUENCE_ID)
        };
        let (id, output) = (encoded(true).unwrap(), encoded(false).unwrap());
        assert_eq!(
            (&id.uint64_val[..], id.tensor_content),
            (&[7][..], Bytes::new())
        );
        assert_eq!(
            (&output.uint64_val[..], output.tensor_content),
            (&[][..], content)
        );
    }

    proptest! {
        /// Any message is decoded or refused, and what is decoded can be packed.
        #[test]
        fn no_message_makes_it_fall_over(
            dtype in -1_i32..30,
            sizes in prop::collection::vec(any::<i64>(), 0..4),
            content in prop::collection::vec(any::<u8>(), 0..8),
            ints in prop::collection::vec(any::<i32>(), 0..4),
            is_unranked in any::<bool>(),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let tensor = TensorProto {
                dtype,
                tensor_shape: Some(TensorShapeProto {
                    dim: sizes.into_iter().map(|size| crate::proto::tensorflow::tensor_shape_proto::Dim { size, name: String::new() }).collect(),
                    unknown_rank: is_unranked,
                }),
                tensor_content: content.into(),
                int_val: ints.clone(),
                half_val: ints,
                ..full()
            };
            let request = PredictRequest {
                inputs: [("b".to_owned(), tensor)].into(),
                output_filter: vec!["a".to_owned()],
                ..PredictRequest::default()
            };
            prop_assert_eq!(decode(request.clone(), false, &Budget::default()).unwrap().inputs.len(), 1);
            let mut wire = request.encode_to_vec();
            let place = place.index(wire.len());
            wire[place] = byte;
            if let Ok(request) = PredictRequest::decode(&wire[..]) {
                drop(decode(request, false, &Budget::default()));
            }
        }
    }
}
