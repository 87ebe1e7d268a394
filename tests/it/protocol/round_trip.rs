//! Round trips of any values in any small shape to the same bytes, in every form: gRPC raw and
//! typed, REST as JSON and as binary data.
//!
//! The CPU plugin has no 64-bit types inside. It returns INT64 and UINT64 numbers up to 2^31 - 1,
//! and FP64 numbers that FP32 can represent, so no others are tested. JSON cannot represent floats
//! that are not finite.

use std::fmt::Debug;

use ovms::proto::kserve::InferTensorContents;
use proptest::{
    collection::vec,
    num,
    prelude::{Strategy, any},
    test_runner::{Config, TestCaseError, TestRunner},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::support::{
    Server,
    grpc::{self, Grpc},
    http::{Answer, JSON_LENGTH, connect, exchange, head},
};

/// Number of cases: enough to cover each kind of shape, and few enough for every test run.
const CASES: u32 = 24;

/// An element of one datatype.
trait Element: Copy + Debug + 'static {
    const MODEL: &'static str;
    const DATATYPE: &'static str;

    fn bytes(self) -> Vec<u8>;

    /// Returns the elements in their field of a message, if there is one.
    fn typed(elements: &[Self]) -> Option<InferTensorContents>;

    /// Returns the elements as a JSON list, if they can be sent in that form.
    fn json(elements: &[Self]) -> Option<Value>;

    /// Parses an element from JSON.
    fn of_json(text: &str) -> Option<Self>;
}

macro_rules! number {
    ($type:ty, $model:literal, $datatype:literal, $field:ident) => {
        impl Element for $type {
            const MODEL: &'static str = $model;
            const DATATYPE: &'static str = $datatype;

            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn typed(elements: &[Self]) -> Option<InferTensorContents> {
                Some(InferTensorContents {
                    $field: elements.iter().map(|&element| element.into()).collect(),
                    ..InferTensorContents::default()
                })
            }

            fn json(elements: &[Self]) -> Option<Value> {
                Some(elements.into())
            }

            fn of_json(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    };
}

number!(i8, "passthrough_i8", "INT8", int_contents);
number!(i16, "passthrough_i16", "INT16", int_contents);
number!(i32, "passthrough_i32", "INT32", int_contents);
number!(i64, "passthrough_i64", "INT64", int64_contents);
number!(u8, "passthrough_u8", "UINT8", uint_contents);
number!(u16, "passthrough_u16", "UINT16", uint_contents);
number!(u32, "passthrough_u32", "UINT32", uint_contents);
number!(u64, "passthrough_u64", "UINT64", uint64_contents);
number!(f32, "passthrough_f32", "FP32", fp32_contents);
number!(f64, "passthrough_f64", "FP64", fp64_contents);

impl Element for bool {
    const MODEL: &'static str = "passthrough_boolean";
    const DATATYPE: &'static str = "BOOL";

    fn bytes(self) -> Vec<u8> {
        vec![self.into()]
    }

    fn typed(elements: &[Self]) -> Option<InferTensorContents> {
        Some(InferTensorContents {
            bool_contents: elements.to_vec(),
            ..InferTensorContents::default()
        })
    }

    fn json(elements: &[Self]) -> Option<Value> {
        Some(elements.into())
    }

    fn of_json(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

macro_rules! half {
    ($type:ty, $model:literal, $datatype:literal) => {
        impl Element for $type {
            const MODEL: &'static str = $model;
            const DATATYPE: &'static str = $datatype;

            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn typed(_: &[Self]) -> Option<InferTensorContents> {
                None
            }

            fn json(_: &[Self]) -> Option<Value> {
                None
            }

            fn of_json(_: &str) -> Option<Self> {
                None
            }
        }
    };
}

half!(half::f16, "passthrough_f16", "FP16");
half!(half::bf16, "passthrough_bf16", "BF16");

/// Sends random tensors of a datatype in all its forms.
fn come_back<E: Element>(elements: impl Strategy<Value = E> + Clone + 'static) {
    let ways = Ways::new(Server::shared(E::MODEL));
    let tensors = (0..5_usize, 0..5_usize).prop_flat_map(move |(rows, columns)| {
        let elements = vec(elements.clone(), rows * columns);
        elements.prop_map(move |elements| ([rows, columns], elements))
    });
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&tensors, |(shape, elements)| {
        let bytes: Vec<u8> = elements
            .iter()
            .flat_map(|element| element.bytes())
            .collect();
        same("gRPC raw", &bytes, &ways.grpc_raw::<E>(shape, &bytes))?;
        if let Some(contents) = E::typed(&elements) {
            same("gRPC typed", &bytes, &ways.grpc_typed::<E>(shape, contents))?;
        }
        if let Some(json) = E::json(&elements) {
            same("REST JSON", &bytes, &ways.rest_json::<E>(shape, &json))?;
        }
        same("REST binary", &bytes, &ways.rest_binary::<E>(shape, &bytes))
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

fn same(way: &str, sent: &[u8], received: &[u8]) -> Result<(), TestCaseError> {
    if sent == received {
        Ok(())
    } else {
        Err(TestCaseError::fail(format!(
            "{way}: sent {sent:02x?}, received {received:02x?}"
        )))
    }
}

/// Parsed part of a JSON response.
#[derive(Deserialize)]
struct JsonAnswer {
    outputs: Vec<JsonOutput>,
}

#[derive(Deserialize)]
struct JsonOutput {
    shape: [usize; 2],
    data: Vec<Box<RawValue>>,
}

/// Clients of a server.
struct Ways<'a> {
    server: &'a Server,
    grpc: Grpc,
}

impl<'a> Ways<'a> {
    fn new(server: &'a Server) -> Self {
        Self {
            server,
            grpc: Grpc::connect(server),
        }
    }

    fn grpc_raw<E: Element>(&self, shape: [usize; 2], bytes: &[u8]) -> Vec<u8> {
        let shape = shape.map(|length| i64::try_from(length).unwrap());
        let answer = self
            .grpc
            .answered(grpc::raw(E::MODEL, "in", E::DATATYPE, &shape, bytes));
        assert_eq!(answer.outputs[0].shape, shape);
        answer.raw_output_contents[0].to_vec()
    }

    fn grpc_typed<E: Element>(&self, shape: [usize; 2], contents: InferTensorContents) -> Vec<u8> {
        let shape = shape.map(|length| i64::try_from(length).unwrap());
        let request = grpc::typed(E::MODEL, "in", E::DATATYPE, &shape, contents);
        self.grpc.answered(request).raw_output_contents[0].to_vec()
    }

    fn rest_json<E: Element>(&self, shape: [usize; 2], elements: &Value) -> Vec<u8> {
        let input =
            json!({"name": "in", "shape": shape, "datatype": E::DATATYPE, "data": elements});
        let answer = self.rest::<E>(&json!({"inputs": [input]}), b"");
        let answer: JsonAnswer = serde_json::from_slice(&answer.body).expect("it is JSON");
        assert_eq!(answer.outputs[0].shape, shape);
        // Number by number: read all at once they may be off by the last digit.
        let data = answer.outputs[0].data.iter();
        data.flat_map(|text| E::of_json(text.get()).expect("it is of the type").bytes())
            .collect()
    }

    fn rest_binary<E: Element>(&self, shape: [usize; 2], bytes: &[u8]) -> Vec<u8> {
        let request = json!({
            "inputs": [{"name": "in", "shape": shape, "datatype": E::DATATYPE}],
            "outputs": [{"name": "out", "parameters": {"binary_data": true}}],
        });
        self.rest::<E>(&request, bytes).parts().1.to_vec()
    }

    /// Sends JSON followed by bytes.
    fn rest<E: Element>(&self, request: &Value, bytes: &[u8]) -> Answer {
        let mut body = request.to_string().into_bytes();
        let length = body.len().to_string();
        body.extend_from_slice(bytes);
        let path = format!("/v2/models/{}/infer", E::MODEL);
        let head = head("POST", &path, body.len(), &[(JSON_LENGTH, &length)]);
        let answer = exchange(&mut connect(self.server), &head, &body);
        assert_eq!(
            answer.status,
            200,
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        answer
    }
}

#[test]
fn bool() {
    come_back(any::<bool>());
}

#[test]
fn int8() {
    come_back(any::<i8>());
}

#[test]
fn int16() {
    come_back(any::<i16>());
}

#[test]
fn int32() {
    come_back(any::<i32>());
}

#[test]
fn int64() {
    come_back(any::<i32>().prop_map(i64::from));
}

#[test]
fn uint8() {
    come_back(any::<u8>());
}

#[test]
fn uint16() {
    come_back(any::<u16>());
}

#[test]
fn uint32() {
    come_back(any::<u32>());
}

#[test]
fn uint64() {
    come_back((0..=i32::MAX.unsigned_abs()).prop_map(u64::from));
}

/// Returns a strategy for every finite value, subnormal ones included.
fn finite() -> impl Strategy<Value = f32> + Clone {
    num::f32::POSITIVE
        | num::f32::NEGATIVE
        | num::f32::NORMAL
        | num::f32::SUBNORMAL
        | num::f32::ZERO
}

#[test]
fn fp32() {
    come_back(finite());
}

#[test]
fn fp64() {
    come_back(finite().prop_map(f64::from));
}

#[test]
fn fp16() {
    come_back(
        any::<u16>()
            .prop_map(half::f16::from_bits)
            .prop_filter("finite", |value| value.is_finite()),
    );
}

#[test]
fn bf16() {
    come_back(
        any::<u16>()
            .prop_map(half::bf16::from_bits)
            .prop_filter("finite", |value| value.is_finite()),
    );
}
