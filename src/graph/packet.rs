//! What travels on streams: a value that is shared, and its time.

use std::{fmt, sync::Arc};

use super::{calculator::Session, timestamp::Timestamp};
use crate::{
    python,
    request::{InferRequest, InferResponse, InputTensor},
    tensor::Tensor,
};

/// A value with its time; cheap to clone. One without a value says that there is nothing at that time.
#[derive(Debug, Clone)]
pub struct Packet {
    payload: Option<Arc<Payload>>,
    at: Timestamp,
}

impl Packet {
    /// Makes a packet.
    #[must_use]
    pub fn new(payload: Payload, at: Timestamp) -> Self {
        Self {
            payload: Some(Arc::new(payload)),
            at,
        }
    }

    /// Makes a packet without a value.
    #[must_use]
    pub const fn empty(at: Timestamp) -> Self {
        Self { payload: None, at }
    }

    /// Makes a side packet, which has no time.
    #[must_use]
    pub fn side(payload: Payload) -> Self {
        Self::new(payload, Timestamp::UNSET)
    }

    /// Returns the time.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the same value at another time.
    #[must_use]
    pub fn moved(&self, at: Timestamp) -> Self {
        Self {
            payload: self.payload.clone(),
            at,
        }
    }

    /// Tells whether there is no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.payload.is_none()
    }

    /// Returns the value.
    #[must_use]
    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_deref()
    }

    /// Returns about how many bytes the value holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload().map_or(0, Payload::bytes)
    }

    /// Returns the value to keep.
    #[must_use]
    pub fn shared(&self) -> Option<&Arc<Payload>> {
        self.payload.as_ref()
    }
}

/// A value of a packet.
#[derive(Clone)]
pub enum Payload {
    /// A tensor or picture of one of the frameworks that calculators speak of.
    Tensor(TensorKind, Tensor),
    /// A `pyovms.Tensor`.
    Python(python::Tensor),
    /// `int`, and what request parameters give (`int64`).
    Int(i64),
    /// `uint64`.
    UInt(u64),
    /// `float` and `double`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// `std::string`.
    Text(String),
    /// A time.
    Time(Timestamp),
    /// Several values; of vectors and pairs.
    List(Vec<Self>),
    /// A whole request.
    Request(Arc<InferRequest>),
    /// A whole response.
    Response(Arc<InferResponse>),
    /// What models and pipelines are reached through.
    Session(Arc<dyn Session>),
    /// What the server gives to nodes: Python objects, or a token that only wakes a node.
    Token,
}

/// Whose tensor a tensor is. All of them are kept alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// OpenVINO's.
    OpenVino,
    /// MediaPipe's.
    MediaPipe,
    /// TensorFlow's.
    TensorFlow,
    /// TensorFlow Lite's.
    TfLite,
    /// A picture: height, width, channels.
    Image,
}

/// What a stream may carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// Anything.
    Any,
    /// What the input or side packet in this place of the same node carries; of outputs.
    SameAsInput(usize),
    /// A tensor or picture.
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
    /// A time.
    Time,
    /// A vector of these.
    List(Box<Self>),
    /// Either of these.
    Either(Vec<Self>),
    /// A whole request.
    Request,
    /// A whole response.
    Response,
    /// What models and pipelines are reached through.
    Session,
    /// What the server gives to Python nodes.
    PythonResources,
}

impl PacketType {
    /// Tells whether a stream that gives `self` may feed one that takes `other`. What is open on either
    /// side fits.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any | Self::SameAsInput(_), _) | (_, Self::Any | Self::SameAsInput(_)) => true,
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
            Self::Any | Self::SameAsInput(_) => "anything",
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
                for (place, one) in some.iter().enumerate() {
                    let or = if place == 0 { "" } else { " or " };
                    write!(f, "{or}{one}")?;
                }
                return Ok(());
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
    /// Returns about how many bytes it holds.
    #[must_use]
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

    /// Returns what it is.
    #[must_use]
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
                let one = list.first().map_or(PacketType::Any, Self::kind);
                PacketType::List(Box::new(one))
            }
            Self::Request(_) => PacketType::Request,
            Self::Response(_) => PacketType::Response,
            Self::Session(_) => PacketType::Session,
            Self::Token => PacketType::Any,
        }
    }
}

impl fmt::Debug for Payload {
    /// Writes what it is, not what is in it.
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
