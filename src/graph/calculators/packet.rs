//! Packets of streams: a shared value and a timestamp.

use std::{fmt, sync::Arc};

use super::{servables::ServableSession, timestamp::Timestamp};
use crate::{
    python,
    request::{InferRequest, InferResponse, InputTensor},
    tensor::{DataType, Tensor},
};

/// Value with a timestamp; cheap to clone. An empty packet means that there is no value at that
/// timestamp.
#[derive(Debug, Clone)]
pub struct Packet {
    payload: Option<Arc<Payload>>,
    at: Timestamp,
}

impl Packet {
    /// Creates a packet.
    pub fn new(payload: Payload, at: Timestamp) -> Self {
        Self {
            payload: Some(Arc::new(payload)),
            at,
        }
    }

    /// Creates a packet without a value.
    pub const fn empty(at: Timestamp) -> Self {
        Self { payload: None, at }
    }

    /// Creates a side packet, which has no timestamp.
    pub fn side(payload: Payload) -> Self {
        Self::new(payload, Timestamp::UNSET)
    }

    /// Returns the timestamp.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the same value at another timestamp.
    pub fn moved(&self, at: Timestamp) -> Self {
        Self {
            payload: self.payload.clone(),
            at,
        }
    }

    /// Returns whether there is no value.
    pub const fn is_empty(&self) -> bool {
        self.payload.is_none()
    }

    /// Returns the value.
    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_deref()
    }

    /// Returns the approximate size of the value, in bytes.
    pub fn bytes(&self) -> usize {
        self.payload().map_or(0, Payload::bytes)
    }

    /// Returns the shared value.
    pub fn shared(&self) -> Option<&Arc<Payload>> {
        self.payload.as_ref()
    }
}

/// Value of a packet.
#[derive(Clone)]
pub enum Payload {
    /// Tensor or image of one of the supported frameworks.
    Tensor(TensorKind, Tensor),
    /// A `pyovms.Tensor`.
    Python(python::HandlerTensor),
    /// `int`, and integer request parameters (`int64`).
    Int(i64),
    /// `uint64`.
    UInt(u64),
    /// `float` and `double`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// `std::string`.
    Text(String),
    /// Timestamp.
    Time(Timestamp),
    /// List of values; for vectors and pairs.
    List(Vec<Self>),
    /// Complete request.
    Request(Arc<InferRequest>),
    /// Complete response.
    Response(Arc<InferResponse>),
    /// Access to models and pipelines.
    Session(Arc<dyn ServableSession>),
    /// Marker without a value: Python objects of the server, or a token that only wakes a node.
    Token,
}

/// Framework of a tensor. All are stored alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// OpenVINO tensor.
    OpenVino,
    /// MediaPipe tensor.
    MediaPipe,
    /// TensorFlow tensor.
    TensorFlow,
    /// TensorFlow Lite tensor.
    TfLite,
    /// Image: height, width, channels.
    Image,
}

impl TensorKind {
    /// Returns whether tensors of the framework have elements of a type.
    pub fn supports(self, dtype: DataType) -> bool {
        use DataType::{Bf16, Bool, F16, F32, I8, I32, String, U8};
        match self {
            Self::OpenVino => true,
            Self::MediaPipe => matches!(dtype, F32 | F16 | I32 | I8 | U8 | Bool),
            Self::TensorFlow => !matches!(dtype, Bf16 | String),
            Self::TfLite => dtype == F32,
            Self::Image => false,
        }
    }
}

/// Name of the side packet that the server gives to Python nodes.
pub(in crate::graph) const PYTHON_RESOURCES: &str = "py";

/// Type of the packets of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// Any type.
    Any,
    /// Type of the input or side packet at this index of the same node; of outputs.
    SameAsInput(usize),
    /// Type of the side packet at this index of the same node; of output streams.
    SameAsSide(usize),
    /// Tensor or image.
    Tensor(TensorKind),
    /// A `pyovms.Tensor`.
    Python,
    /// `int` or `int64`.
    Int,
    /// `uint64`.
    UInt,
    /// `float` or `double`.
    Float,
    /// `bool`.
    Bool,
    /// `std::string`.
    Text,
    /// Timestamp.
    Time,
    /// Vector of a type.
    List(Box<Self>),
    /// One of several types.
    Either(Vec<Self>),
    /// Complete request.
    Request,
    /// Complete response.
    Response,
    /// Access to models and pipelines.
    Session,
    /// Python objects of the server for Python nodes.
    PythonResources,
}

impl PacketType {
    /// Types that clients know, by the prefixes of their tags.
    const BY_TAG: [(&str, Self); 7] = [
        ("OVTENSOR", Self::Tensor(TensorKind::OpenVino)),
        ("TENSOR", Self::Tensor(TensorKind::MediaPipe)),
        ("TFTENSOR", Self::Tensor(TensorKind::TensorFlow)),
        ("IMAGE", Self::Tensor(TensorKind::Image)),
        ("OVMS_PY_TENSOR", Self::Python),
        ("REQUEST", Self::Request),
        ("RESPONSE", Self::Response),
    ];

    /// Returns the type of an input or output of the graph with a tag: an OpenVINO tensor, without a tag
    /// or with any other one.
    pub fn of_tag(tag: &str) -> Self {
        let mut types = Self::BY_TAG.into_iter();
        let found = types.find(|(prefix, _)| tag.starts_with(prefix));
        found.map_or(Self::Tensor(TensorKind::OpenVino), |(_, kind)| kind)
    }

    /// Returns the prefix of tags of this type.
    pub fn prefix(&self) -> Option<&'static str> {
        let found = Self::BY_TAG.into_iter().find(|(_, kind)| kind == self);
        found.map(|(prefix, _)| prefix)
    }

    /// Returns the type of a side packet that no node makes: the value of a request parameter.
    pub fn parameter() -> Self {
        Self::Either(vec![Self::Text, Self::Int, Self::Bool])
    }

    /// Returns whether nothing is known of it.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Any | Self::SameAsInput(_) | Self::SameAsSide(_))
    }

    /// Returns whether a stream producing `self` may feed one that takes `other`. An open type on
    /// either side fits.
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (one, other) if one.is_open() || other.is_open() => true,
            (Self::Either(some), _) => some.iter().any(|one| one.fits(other)),
            (_, Self::Either(some)) => some.iter().any(|one| self.fits(one)),
            (Self::List(one), Self::List(other)) => one.fits(other),
            _ => self == other,
        }
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any | Self::SameAsInput(_) | Self::SameAsSide(_) => "anything",
            Self::Tensor(kind) => return kind.fmt(f),
            Self::Python => "Python tensor",
            Self::Int => "int",
            Self::UInt => "uint64",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Time => "timestamp",
            Self::List(one) => return write!(f, "list of {one}"),
            Self::Either(some) => {
                let some: Vec<String> = some.iter().map(Self::to_string).collect();
                return f.write_str(&some.join(" or "));
            }
            Self::Request => "request",
            Self::Response => "response",
            Self::Session => "session",
            Self::PythonResources => "Python node resources",
        })
    }
}

impl fmt::Display for TensorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenVino => "OpenVINO tensor",
            Self::MediaPipe => "MediaPipe tensor",
            Self::TensorFlow => "TensorFlow tensor",
            Self::TfLite => "TensorFlow Lite tensor",
            Self::Image => "image",
        })
    }
}

impl Payload {
    /// Returns the approximate size, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Tensor(_, tensor) => tensor.data().len(),
            Self::Python(tensor) => tensor.bytes().len(),
            Self::Text(text) => text.len(),
            Self::List(list) => list.iter().map(Self::bytes).sum(),
            Self::Request(request) => request.inputs.iter().map(InputTensor::bytes).sum(),
            _ => 0,
        }
    }

    /// Returns the type of the value.
    pub fn kind(&self) -> PacketType {
        match self {
            Self::Tensor(kind, _) => PacketType::Tensor(*kind),
            Self::Python(_) => PacketType::Python,
            Self::Int(_) => PacketType::Int,
            Self::UInt(_) => PacketType::UInt,
            Self::Float(_) => PacketType::Float,
            Self::Bool(_) => PacketType::Bool,
            Self::Text(_) => PacketType::Text,
            Self::Time(_) => PacketType::Time,
            Self::List(list) => {
                PacketType::List(Box::new(list.first().map_or(PacketType::Any, Self::kind)))
            }
            Self::Request(_) => PacketType::Request,
            Self::Response(_) => PacketType::Response,
            Self::Session(_) => PacketType::Session,
            Self::Token => PacketType::Any,
        }
    }
}

impl fmt::Debug for Payload {
    /// Formats the type, not the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(_, tensor) => write!(f, "{} {:?}", self.kind(), tensor.shape()),
            Self::Int(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Time(time) => write!(f, "{time}"),
            Self::List(list) => f.debug_list().entries(list).finish(),
            _ => write!(f, "{}", self.kind()),
        }
    }
}
