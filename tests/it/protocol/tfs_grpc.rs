//! TensorFlow Serving over gRPC: responses to valid requests.

use ovms::proto::tensorflow::{DataType, TensorProto};
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    grpc::to_floats,
    tfs::{Tfs, content, dummy, request, shape, tensor},
};

/// Returns the protocol's type of a row, and the same elements in the field of that type.
fn typed(row: &dtypes::Row) -> TensorProto {
    let chunks = |size: usize| row.raw.chunks_exact(size).map(<[u8]>::to_vec);
    let ints = || -> Vec<i32> {
        let size = row.raw.len() / ELEMENTS;
        let signed = row.datatype.starts_with("INT");
        chunks(size)
            .map(|chunk| {
                let mut wide = [0; 4];
                wide[..size].copy_from_slice(&chunk);
                let fill = 32 - 8 * u32::try_from(size).unwrap();
                let shifted = i32::from_le_bytes(wide) << fill;
                if signed {
                    shifted >> fill
                } else {
                    i32::from_le_bytes(wide)
                }
            })
            .collect()
    };
    macro_rules! list {
        ($field:ident, $type:ty) => {
            TensorProto {
                $field: chunks(size_of::<$type>())
                    .map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap()))
                    .collect(),
                ..TensorProto::default()
            }
        };
    }
    let list = match row.datatype {
        "FP32" => list!(float_val, f32),
        "FP64" => list!(double_val, f64),
        "INT64" => list!(int64_val, i64),
        "UINT32" => list!(uint32_val, u32),
        "UINT64" => list!(uint64_val, u64),
        "BOOL" => TensorProto {
            bool_val: row.raw.iter().map(|&byte| byte == 1).collect(),
            ..TensorProto::default()
        },
        "FP16" | "BF16" => TensorProto {
            half_val: ints(),
            ..TensorProto::default()
        },
        _ => TensorProto {
            int_val: ints(),
            ..TensorProto::default()
        },
    };
    TensorProto {
        dtype: wire_type(row).into(),
        tensor_shape: tensor(wire_type(row), &[1, 3]).tensor_shape,
        ..list
    }
}

fn wire_type(row: &dtypes::Row) -> DataType {
    match row.datatype {
        "BOOL" => DataType::DtBool,
        "INT8" => DataType::DtInt8,
        "INT16" => DataType::DtInt16,
        "INT32" => DataType::DtInt32,
        "INT64" => DataType::DtInt64,
        "UINT8" => DataType::DtUint8,
        "UINT16" => DataType::DtUint16,
        "UINT32" => DataType::DtUint32,
        "UINT64" => DataType::DtUint64,
        "FP16" => DataType::DtHalf,
        "BF16" => DataType::DtBfloat16,
        "FP32" => DataType::DtFloat,
        "FP64" => DataType::DtDouble,
        other => panic!("{other} is no row"),
    }
}

#[test]
fn every_datatype_comes_back_as_bytes_and_from_its_field() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let tfs = Tfs::connect(&server);
        for tensor in [content(wire_type(&row), &[1, 3], &row.raw), typed(&row)] {
            let answer = tfs.answered(request(row.model, [("in", tensor)]));
            let out = &answer.outputs["out"];
            assert_eq!(out.dtype(), wire_type(&row));
            assert_eq!(shape(out), [1, 3], "{}", row.datatype);
            assert_eq!(out.tensor_content, row.raw, "{}", row.datatype);
            assert!(answer.model_spec.is_none());
        }
    }
}

#[test]
fn compressed_requests_take_the_general_path() {
    let server = Server::start("dummy");
    let tfs = Tfs::connect(&server);
    let mut client = tfs
        .prediction
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let answer = tfs
        .grpc
        .wait(async move { client.predict(dummy()).await })
        .unwrap();
    assert_eq!(to_floats(&answer.outputs["a"].tensor_content), [2.0; 10]);
}
