//! An inference request and its response, free of any protocol.
//!
//! Frontends make an [`InferRequest`] of the bytes from the wire without validating it: datatype
//! and shape are as declared, data is as sent. `model::check` validates, with the model in hand, so
//! that every protocol gets the same errors in the same order.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::{
    budget::{Budget, Charge},
    error::{Error, Result},
    quota::{Priority, RunOwner},
    shared_memory::{RegionInput, RegionPart, RegionTensors},
    tensor::{DataType, TensorMap, strings},
    trace::TraceContext,
};

/// Origin of a call: the labels of its metrics, without influence on its behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestOrigin {
    /// The protocol.
    pub api: ApiFamily,
    /// The transport.
    pub interface: Interface,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiFamily {
    /// TensorFlow Serving.
    TensorFlowServing,
    /// KServe v2.
    KServe,
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interface {
    /// gRPC.
    Grpc,
    /// HTTP with JSON.
    Rest,
}

/// Parameter of an answer that says whether it is the last one of its request.
pub const FINAL: &str = "triton_final_response";

/// One inference request as it came over the wire.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InferRequest {
    /// The client's id of the request, echoed in the response; empty if there is none.
    pub id: String,
    /// Request parameters. Unknown ones are tolerated.
    pub parameters: Parameters,
    /// The inputs, in the order in which they came.
    pub inputs: Vec<InputTensor>,
    /// The outputs that the client wants, in its order; empty means all.
    pub outputs: Vec<String>,
    /// Number of inputs sent, special ones among them, and of their raw buffers, if these differ.
    pub raw_mismatch: Option<(usize, usize)>,
    /// Wording of errors.
    pub dialect: Dialect,
    /// The special inputs of stateful models, where the protocol has them in a form of their own;
    /// else they are among the inputs.
    pub special: Option<Box<SpecialInputs>>,
    /// Inputs and outputs that are in shared memory; the data of such inputs is empty until it is read.
    pub regions: Option<Box<RegionTensors>>,
    /// Parent context of its spans, if it is traced.
    pub trace: Option<TraceContext>,
    /// Priority that came beside it; else the parameter `priority` counts.
    pub priority: Option<Priority>,
    /// Request for the parameter [`FINAL`] in the answers of a stream, which marks the last one.
    pub marks_final: bool,
    /// Owner of the run of which it is a part, if it is that of a node.
    pub owner: Option<Box<RunOwner>>,
    /// Charge of what it has beside tensors, if that is much; its response, which has the id, shares it.
    pub texts: Option<Arc<Charge>>,
}

/// Bytes of a request beside its tensors that are free of charge, as nearly all requests have.
pub(crate) const FREE_TEXTS: usize = 4 << 10;

/// Copies of a text that there may be at a time: in the request, in one that is validated, and in what a frontend keeps
/// for the answer.
const TEXT_COPIES: usize = 3;

impl InferRequest {
    /// Charges the values that inputs were packed from, and what there is beside tensors.
    ///
    /// # Errors
    ///
    /// Fails if the budget has no room for them.
    pub fn charged(mut self, budget: &Budget) -> Result<Self> {
        for input in &mut self.inputs {
            let data = std::mem::replace(&mut input.data, Data::Both);
            input.data = data.charged(budget)?;
        }
        self.charge_texts(budget)?;
        Ok(self)
    }

    /// Charges what it has beside tensors, for as long as it or its response is there.
    ///
    /// # Errors
    ///
    /// Fails if the budget has no room for it.
    pub fn charge_texts(&mut self, budget: &Budget) -> Result<()> {
        let bytes = self.texts_size().saturating_mul(TEXT_COPIES);
        if bytes > FREE_TEXTS {
            self.texts = Some(Arc::new(budget.charge(bytes)?));
        }
        Ok(())
    }

    /// Returns how many bytes the id, the names, the shapes, and the parameters take.
    fn texts_size(&self) -> usize {
        let mut bytes = self.id.len()
            + size_of_val(&*self.inputs)
            + size_of_val(&*self.parameters)
            + size_of_val(&*self.outputs);
        for input in &self.inputs {
            bytes += input.name.len() + size_of_val(&*input.shape);
            if let Declared::Unknown(text) = &input.datatype {
                bytes += text.len();
            }
        }
        for (name, value) in &self.parameters {
            bytes += name.len();
            if let Parameter::Text(text) = value {
                bytes += text.len();
            }
        }
        for name in &self.outputs {
            bytes += name.len();
        }
        bytes
    }

    /// Checks that no input has more strings than so many. Each of them costs far more memory than the
    /// four bytes that an empty one has on the wire.
    ///
    /// # Errors
    ///
    /// Fails with the first input that has more.
    pub fn bound_strings(&self, most: usize) -> Result<()> {
        let mut inputs = self.inputs.iter();
        match inputs.find(|input| input.has_more_strings(most)) {
            None => Ok(()),
            Some(input) => Err(Error::invalid(format!(
                "Invalid number of strings - Expected: {most} at most, see --max-string-elements; \
                 Actual: more; input name: {}",
                input.name
            ))),
        }
    }
}

/// Name of the parameter with the priority of a request.
const PRIORITY: &str = "priority";

/// Finds the priority among the parameters of a request. Anything but a number from 0 on may mean something else
/// to a handler, and counts for nothing here.
pub fn priority_of(parameters: &Parameters) -> Option<Priority> {
    let mut parameters = parameters.iter();
    let (_, value) = parameters.find(|(name, _)| name == PRIORITY)?;
    let number = match value {
        Parameter::Int(number) => u64::try_from(*number).ok()?,
        Parameter::UInt(number) => *number,
        Parameter::Bool(_) | Parameter::Double(_) | Parameter::Text(_) | Parameter::Empty => {
            return None;
        }
    };
    Priority::asked(number)
}

/// Sequence inputs of a request to a stateful model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialInputs {
    /// `sequence_id`.
    pub id: Option<Special>,
    /// `sequence_control_input`.
    pub control: Option<Special>,
}

/// A special input as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Special {
    /// The shape, if it has one.
    pub shape: Option<Vec<i64>>,
    /// The value, if there is exactly one where it belongs.
    pub value: Option<u64>,
}

/// Wording of errors in a request's tensors. It has no influence on which requests are errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// KServe v2: types are named as in requests.
    #[default]
    KServe,
    /// TensorFlow Serving: types are named as models' precisions are.
    TensorFlowServing,
}

/// One input as declared and sent.
#[derive(Debug, Clone, PartialEq)]
pub struct InputTensor {
    /// The name.
    pub name: String,
    /// The element type as declared.
    pub datatype: Declared,
    /// The shape as declared; a dimension may be anything here.
    pub shape: Vec<i64>,
    /// The elements as sent.
    pub data: Data,
}

impl InputTensor {
    /// Returns whether it has more than `most` strings.
    fn has_more_strings(&self, most: usize) -> bool {
        if self.datatype != Declared::Known(DataType::String) {
            return false;
        }
        match &self.data {
            Data::Values { count, .. } => *count > most,
            // Most are known to be few without a look.
            Data::Raw(bytes) => {
                bytes.len() / strings::PREFIX > most && strings::strings(bytes).nth(most).is_some()
            }
            Data::Region(_) | Data::Both | Data::Unfit(_) | Data::Unranked => false,
        }
    }

    /// Returns whether its elements are numbers or truth values.
    pub fn is_of_numbers(&self) -> bool {
        matches!(self.datatype, Declared::Known(dtype) if dtype != DataType::String)
    }

    /// Returns the bytes of its elements.
    pub fn bytes(&self) -> usize {
        match &self.data {
            Data::Raw(bytes) | Data::Values { bytes, .. } => bytes.len(),
            Data::Region(part) => part.size(),
            Data::Both | Data::Unfit(_) | Data::Unranked => 0,
        }
    }
}

/// A datatype as declared by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// A type that exists.
    Known(DataType),
    /// Any other text.
    Unknown(String),
}

impl Declared {
    /// Reads a KServe v2 datatype name.
    pub fn from_kserve(name: String) -> Self {
        match DataType::from_kserve(&name) {
            Some(dtype) => Self::Known(dtype),
            None => Self::Unknown(name),
        }
    }

    /// Returns the text that the client sent, or what stands for it in a dialect.
    pub fn text(&self, dialect: Dialect) -> &str {
        match self {
            Self::Known(dtype) => match dialect {
                Dialect::KServe => dtype.kserve(),
                Dialect::TensorFlowServing => dtype.precision(),
            },
            Self::Unknown(text) => text,
        }
    }
}

/// The elements of an input as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Little-endian bytes; strings as [`crate::tensor::strings`] has them.
    Raw(Bytes),
    /// Values one by one, packed by the frontend as the declared type: the same bytes.
    Values {
        /// Number of values.
        count: usize,
        /// The values as little-endian bytes.
        bytes: Bytes,
    },
    /// Numbers in shared memory, which are read when the inference begins. Shared, so that other elements take no more room.
    Region(Arc<RegionInput>),
    /// Values one by one beside raw bytes for the whole request, which is not allowed.
    Both,
    /// Values that are no elements of the declared type: the reason.
    Unfit(String),
    /// Values of a tensor of which the request does not say how many dimensions it has, which is not allowed; its
    /// shape is empty.
    Unranked,
}

impl Data {
    /// Returns the elements as bytes, if they can be read.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Raw(bytes) | Self::Values { bytes, .. } => Some(bytes),
            Self::Region(_) | Self::Both | Self::Unfit(_) | Self::Unranked => None,
        }
    }

    /// Charges values that were packed; raw bytes are those of the message, which is charged.
    ///
    /// # Errors
    ///
    /// Fails if the budget has no room for them.
    pub fn charged(self, budget: &Budget) -> Result<Self> {
        Ok(match self {
            Self::Values { count, bytes } => Self::Values {
                count,
                bytes: budget.keep(bytes)?,
            },
            other => other,
        })
    }
}

/// The outcome of an inference.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InferResponse {
    /// The name of the servable.
    pub model_name: String,
    /// The version that ran.
    pub model_version: i64,
    /// The id of the request.
    pub id: String,
    /// The outputs: those asked for in the order asked, else all by name.
    pub outputs: TensorMap,
    /// Outputs of which the datatype may be any text, behind the others; of graphs.
    pub loose: Vec<LooseTensor>,
    /// Parameters of the response beside its outputs.
    pub parameters: Parameters,
    /// Outputs that were written to shared memory, so that the client does not get their elements.
    pub placed: Vec<PlacedOutput>,
    /// Charge of the texts of the request, of which it has the id.
    pub texts: Option<Arc<Charge>>,
}

impl InferResponse {
    /// Returns where an output was written to, if that is shared memory.
    pub fn placed(&self, output: &str) -> Option<&PlacedOutput> {
        self.placed.iter().find(|placed| placed.name == output)
    }
}

/// An output that was written to shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedOutput {
    /// The name.
    pub name: String,
    /// The part of a region that the request named for it.
    pub part: RegionPart,
    /// The number of bytes that were written to the begin of that part.
    pub size: usize,
}

/// An output as a graph gives it: its declared type and shape are not validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LooseTensor {
    /// The name.
    pub name: String,
    /// The datatype, which may be any text.
    pub datatype: String,
    /// The shape, which need not fit the bytes.
    pub shape: Vec<i64>,
    /// The contents as they go to the client.
    pub data: Bytes,
}

/// Request parameters by name.
pub type Parameters = Vec<(String, Parameter)>;

/// The value of a request parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that was sent as `uint64`, or is above those of [`Parameter::Int`].
    UInt(u64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(String),
    /// No value, which a message of gRPC can have.
    Empty,
}

#[cfg(test)]
mod tests {
    use super::{
        Data, Declared, InferRequest, InputTensor, Parameter, Priority, TEXT_COPIES, priority_of,
    };
    use crate::budget::Budget;

    #[test]
    fn what_a_request_has_beside_tensors_is_charged_if_it_is_much() {
        const LONG: usize = 10_000;
        let long = || "x".repeat(LONG);
        let empty = InferRequest::default;
        let input = |name: String, datatype: Declared, shape: Vec<i64>| InferRequest {
            inputs: vec![InputTensor {
                name,
                datatype,
                shape,
                data: Data::Both,
            }],
            ..empty()
        };
        let unknown = |text| Declared::Unknown(text);
        let budget = Budget::new(1 << 20);
        for request in [
            InferRequest {
                id: long(),
                ..empty()
            },
            InferRequest {
                parameters: vec![("a".to_owned(), Parameter::Text(long()))],
                ..empty()
            },
            InferRequest {
                parameters: vec![(long(), Parameter::Bool(true))],
                ..empty()
            },
            InferRequest {
                outputs: vec![long()],
                ..empty()
            },
            InferRequest {
                outputs: vec![String::new(); LONG],
                ..empty()
            },
            input(long(), unknown(String::new()), Vec::new()),
            input(String::new(), unknown(long()), Vec::new()),
            input(String::new(), unknown(String::new()), vec![1; LONG]),
        ] {
            let request = request.charged(&budget).unwrap();
            assert!(budget.charged() >= TEXT_COPIES * LONG, "{request:?}");
            let shared = request.texts.clone();
            drop(request);
            assert!(budget.charged() > 0, "its response has it");
            drop(shared);
            assert_eq!(budget.charged(), 0);
        }
        let small = InferRequest {
            id: "1".to_owned(),
            ..input("b".to_owned(), unknown("X".to_owned()), vec![1, 10])
        };
        let small = small.charged(&budget).unwrap();
        assert_eq!((small.texts, budget.charged()), (None, 0));
        let large = InferRequest {
            id: "x".repeat(1 << 20),
            ..empty()
        };
        assert!(large.charged(&budget).is_err());
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn numbers_are_those_of_triton() {
        let of = |value| priority_of(&vec![("priority".to_owned(), value)]);
        assert_eq!(of(Parameter::Int(1)), Some(Priority::FIRST));
        assert_eq!(of(Parameter::Int(0)), None);
        assert_eq!(of(Parameter::UInt(u64::MAX)), Some(Priority::LAST));
        assert_eq!(of(Parameter::Int(11)), Some(Priority::LAST));
        assert_eq!(of(Parameter::Int(-1)), None);
        assert_eq!(of(Parameter::Text("high".to_owned())), None);
    }
}
