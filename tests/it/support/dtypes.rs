//! One row for each datatype: its fixture model, its name on the wire, and a few elements in each
//! form of the protocol.

use ovms::proto::kserve::InferTensorContents;

/// Elements of one datatype, the extremes among them.
pub(crate) struct Row {
    /// Fixture model that returns its input.
    pub(crate) model: &'static str,
    /// The datatype on the wire.
    pub(crate) datatype: &'static str,
    /// The elements as little-endian bytes.
    pub(crate) raw: Vec<u8>,
    /// The elements in a message, if the protocol has a field for them.
    pub(crate) typed: Option<InferTensorContents>,
    /// The elements as a JSON list.
    pub(crate) json: &'static str,
}

/// The number of elements in each row.
pub(crate) const ELEMENTS: usize = 3;

macro_rules! row {
    ($model:literal, $datatype:literal, $type:ty, [$($value:expr),*], $field:ident, $json:literal) => {
        Row {
            model: $model,
            datatype: $datatype,
            raw: [$($value as $type),*].iter().flat_map(|value| value.to_le_bytes()).collect(),
            typed: Some(InferTensorContents {
                $field: vec![$($value),*],
                ..InferTensorContents::default()
            }),
            json: $json,
        }
    };
}

/// Returns every datatype supported in inference. The values of 64-bit types are those that the
/// CPU plugin, which computes in 32 bits, returns unchanged.
pub(crate) fn rows() -> Vec<Row> {
    vec![
        row!(
            "passthrough_f32",
            "FP32",
            f32,
            [-0.5, 3.4e38, 1e-40],
            fp32_contents,
            "[-0.5,3.4e+38,1e-40]"
        ),
        row!(
            "passthrough_f64",
            "FP64",
            f64,
            [-0.5, f64::from(0.1_f32), 65536.0],
            fp64_contents,
            "[-0.5,0.10000000149011612,65536.0]"
        ),
        row!(
            "passthrough_i8",
            "INT8",
            i8,
            [-128, 0, 127],
            int_contents,
            "[-128,0,127]"
        ),
        row!(
            "passthrough_i16",
            "INT16",
            i16,
            [-32768, 0, 32767],
            int_contents,
            "[-32768,0,32767]"
        ),
        row!(
            "passthrough_i32",
            "INT32",
            i32,
            [i32::MIN, 0, i32::MAX],
            int_contents,
            "[-2147483648,0,2147483647]"
        ),
        row!(
            "passthrough_i64",
            "INT64",
            i64,
            [-2_147_483_648, 0, 2_147_483_647],
            int64_contents,
            "[-2147483648,0,2147483647]"
        ),
        row!(
            "passthrough_u8",
            "UINT8",
            u8,
            [0, 1, 255],
            uint_contents,
            "[0,1,255]"
        ),
        row!(
            "passthrough_u16",
            "UINT16",
            u16,
            [0, 1, 65535],
            uint_contents,
            "[0,1,65535]"
        ),
        row!(
            "passthrough_u32",
            "UINT32",
            u32,
            [0, 1, 2_147_483_647],
            uint_contents,
            "[0,1,2147483647]"
        ),
        row!(
            "passthrough_u64",
            "UINT64",
            u64,
            [0, 1, 2_147_483_647],
            uint64_contents,
            "[0,1,2147483647]"
        ),
        Row {
            model: "passthrough_boolean",
            datatype: "BOOL",
            raw: vec![1, 0, 1],
            typed: Some(InferTensorContents {
                bool_contents: vec![true, false, true],
                ..InferTensorContents::default()
            }),
            json: "[true,false,true]",
        },
        // 1.0, -2.0 and 65504 (f16) or 2^127 (bf16). Neither has a field of its own, and neither
        // may be sent as JSON; answers have them as numbers.
        Row {
            model: "passthrough_f16",
            datatype: "FP16",
            raw: vec![0x00, 0x3c, 0x00, 0xc0, 0xff, 0x7b],
            typed: None,
            json: "[1.0,-2.0,65504.0]",
        },
        Row {
            model: "passthrough_bf16",
            datatype: "BF16",
            raw: vec![0x80, 0x3f, 0x00, 0xc0, 0x00, 0x7f],
            typed: None,
            json: "[1.0,-2.0,1.7014118e+38]",
        },
    ]
}
