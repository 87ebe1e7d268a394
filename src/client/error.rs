//! Errors of calls.

use std::{fmt, time::Duration};

use super::{
    address::{Address, Api},
    stranger::ForeignAnswer,
};
use crate::{
    proto::tensorflow::error::Code as TfCode,
    tensor::{DataType, values::ValueError},
};

/// Error of a call to a server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An address without a listener, or with one of another kind.
    #[error("no server answers at {address}")]
    Unreachable {
        /// The server's address.
        address: Address,
        /// Error of the connection.
        source: BoxError,
    },
    /// The connection was closed when a request was on it.
    #[error("the connection to {address} was closed before the answer came")]
    Closed {
        /// The server's address.
        address: Address,
        /// Error of the connection.
        source: BoxError,
    },
    /// The server answered with an error.
    #[error("the server refused the request: {0}")]
    Refused(ServerError),
    /// The time limit passed.
    #[error("no answer from {address} within {limit:?}")]
    Timeout {
        /// The server's address.
        address: Address,
        /// The limit.
        limit: Duration,
        /// Phase of the call.
        step: CallPhase,
    },
    /// The time limit passed when some of the responses to a request of a stream had come.
    #[error("{came} of {expected} responses came from {address} within {limit:?}")]
    Partial {
        /// The server's address.
        address: Address,
        /// The limit.
        limit: Duration,
        /// Number of responses that came.
        came: u64,
        /// Number of responses that answer a request.
        expected: u64,
    },
    /// The answer does not follow the protocol.
    #[error("cannot read the answer of {address}")]
    Protocol {
        /// The server's address.
        address: Address,
        /// Cause.
        source: AnswerError,
    },
    /// The request has no form in the protocol.
    #[error("cannot write the request")]
    Request(#[from] RequestError),
}

/// The cause of a failed connection.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Phases of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPhase {
    /// The connection.
    Connect,
    /// The answer to a request.
    Answer,
}

/// A server's error: its code and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The gRPC code, or the HTTP status.
    pub code: ServerErrorCode,
    /// The server's text.
    pub message: String,
    /// Marks an error that does not have the form of a model server's.
    pub is_foreign: bool,
}

/// The code of a server's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerErrorCode {
    /// A gRPC code.
    Grpc(tonic::Code),
    /// An HTTP status.
    Http(reqwest::StatusCode),
}

impl ServerError {
    /// Returns whether the server does not know the model, or its version.
    pub fn is_not_found(&self) -> bool {
        match self.code {
            ServerErrorCode::Grpc(code) => code == tonic::Code::NotFound,
            ServerErrorCode::Http(status) => status == reqwest::StatusCode::NOT_FOUND,
        }
    }

    /// Returns whether the server has no room for the request, or a limit of the client refuses it.
    pub fn is_exhausted(&self) -> bool {
        match self.code {
            ServerErrorCode::Grpc(code) => code == tonic::Code::ResourceExhausted,
            ServerErrorCode::Http(status) => status == reqwest::StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Returns whether the server, or the model, takes no requests for now.
    pub fn is_unavailable(&self) -> bool {
        match self.code {
            ServerErrorCode::Grpc(code) => code == tonic::Code::Unavailable,
            ServerErrorCode::Http(status) => status == reqwest::StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns whether a proxy has no answer of the server.
    pub fn is_of_gateway(&self) -> bool {
        use reqwest::StatusCode;
        let gateway = [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];
        matches!(self.code, ServerErrorCode::Http(status) if gateway.contains(&status))
    }

    /// Returns whether the server asks for a credential, or for another one.
    pub fn is_unauthenticated(&self) -> bool {
        match self.code {
            ServerErrorCode::Grpc(code) => code == tonic::Code::Unauthenticated,
            ServerErrorCode::Http(status) => status == reqwest::StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns whether the server may lack what it was asked, whatever it was asked about.
    pub fn is_unknown_call(&self) -> bool {
        match self.code {
            ServerErrorCode::Grpc(code) => code == tonic::Code::Unimplemented,
            ServerErrorCode::Http(status) => matches!(status.as_u16(), 400 | 404 | 405 | 501),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{}", self.code)
        } else {
            write!(f, "{}: {}", self.code, self.message)
        }
    }
}

impl fmt::Display for ServerErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // TensorFlow has gRPC's codes, with the same numbers and names.
            Self::Grpc(code) => f.write_str(
                TfCode::try_from(*code as i32)
                    .unwrap_or(TfCode::Unknown)
                    .as_str_name(),
            ),
            Self::Http(status) => write!(f, "{status}"),
        }
    }
}

/// Errors in a server's response.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The message or JSON cannot be decoded.
    #[error("found a body that cannot be decoded")]
    Decode(#[source] BoxError),
    /// An answer that is longer than what is read.
    #[error("found an answer of more than {0} bytes, which is the most that is read")]
    Size(usize),
    /// A page of HTML.
    #[error("found {0}, expected JSON of a model server")]
    Page(ForeignAnswer),
    /// JSON that describes no model.
    #[error("found JSON without the name of a model")]
    NoModel,
    /// A datatype that no tensor has.
    #[error("found the datatype `{datatype}` of output `{name}`")]
    Datatype {
        /// The name of the output.
        name: String,
        /// The datatype as sent.
        datatype: String,
    },
    /// The shape, or the number of elements, is impossible.
    #[error("cannot read output `{name}`")]
    Output {
        /// The name of the output.
        name: String,
        /// The reason.
        source: BoxError,
    },
    /// An output came without its elements.
    #[error("found no elements of output `{0}`")]
    Missing(String),
    /// An output whose name or type only the model's metadata has.
    #[error("found the output `{0}`, which the model's metadata does not have")]
    Unknown(String),
    /// One output without a name, of a model that has several or none.
    #[error("found an output without a name")]
    Nameless,
    /// The header that tells where JSON ends points past the end, or is no number.
    #[error("found `{0}` as the length of the JSON part")]
    HeaderLength(String),
}

impl AnswerError {
    /// Makes the error of a body that cannot be decoded.
    pub(super) fn decode(source: impl Into<BoxError>) -> Self {
        Self::Decode(source.into())
    }

    /// Makes the error of an output.
    pub(super) fn output(name: &str, source: impl Into<BoxError>) -> Self {
        Self::Output {
            name: name.to_owned(),
            source: source.into(),
        }
    }
}

/// Error of a request that has no form in the chosen protocol.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The datatype exists only as raw bytes.
    #[error("{dtype} of input `{name}` has only a raw form")]
    RawOnly {
        /// The name of the input.
        name: String,
        /// Datatype of the input.
        dtype: DataType,
    },
    /// JSON has no form for bytes that are not UTF-8.
    #[error("input `{0}` has bytes that are not UTF-8, for which JSON has no form")]
    NotText(String),
    /// JSON has no form for the shape of a tensor without elements.
    #[error("input `{0}` has no elements, and lists in JSON cannot tell its shape")]
    Empty(String),
    /// The protocol has no field for it.
    #[error("{api} has no {what}")]
    NoField {
        /// The protocol.
        api: Api,
        /// Thing to send.
        what: &'static str,
    },
    /// The protocol's versions are numbers of 63 bits.
    #[error("found the version `{0}`, expected a number up to 9223372036854775807")]
    Version(String),
    /// The message is longer than its frame can tell.
    #[error("the request is larger than 4 GiB")]
    Size,
    /// A header that the protocol itself uses, or one with characters that headers do not have.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
    /// The name of a header has characters that names do not have.
    #[error("a header has a name that cannot be sent")]
    HeaderName,
    /// A value does not fit the wire's field.
    #[error(transparent)]
    Value(#[from] ValueError),
}
