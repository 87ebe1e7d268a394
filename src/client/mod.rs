//! The other end of the wire: talks to a model server.
//!
//! [`Client`] is one face over the wires of [`Api`]: it connects, asks for models, their states and their
//! inputs, and sends a [`Request`], once, or as a [`EncodedRequest`] that is encoded once and sent many
//! times, or many of them over one stream ([`RequestSender`], [`ResponseReceiver`]). [`spelled`] has a
//! request for other programs to send. What wires have in common is in `grpc`, `http` and `tfs`. [`input`]
//! makes tensors of files and JSON, [`output`] makes rows, JSON and files of an [`ClientResponse`],
//! [`sequence`] cuts inputs into steps for models that remember, [`session`] sends them one after another, and [`load`](mod@load) measures. Nothing
//! here prints or reads flags; `commands/infer` and `commands/bench` do.
//!
//! Any server of the KServe v2 or TensorFlow Serving protocols will do, not only this crate's.

mod address;
mod call;
mod closed;
mod connection;
mod connector;
mod error;
mod events;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod grpc;
mod http;
pub mod input;
mod json;
mod kserve_grpc;
mod kserve_rest;
pub mod load;
mod message;
mod options;
pub mod output;
mod protocol;
pub mod sequence;
mod server_counters;
pub mod session;
pub mod spelled;
mod stranger;
mod stream;
mod tfs;
mod tfs_grpc;
mod tfs_rest;
mod wire;

pub use address::Api;
pub use address::{Address, AddressError};
pub use connection::{Client, EncodedRequest, Reply, SEQUENCE};
pub use connector::{TlsEndpoint, speaks_tls};
pub use error::{
    AnswerError, BoxError, CallPhase, ClientError, RequestError, ServerError, ServerErrorCode,
};
pub use message::{
    ClientResponse, LiveSequence, LiveSequences, ModelBatching, ModelId, ModelMetadata,
    ModelProperties, Opaque, ReloadFailure, Request, TensorForm, TensorMetadata, header,
};
pub use options::ClientOptions;
pub use server_counters::{ServerCounters, ServerSplit};
pub use stranger::ForeignAnswer;
pub use stream::{RequestSender, ResponseReceiver, StreamAnswer, StreamEvent};
pub use {message::ModelStatus, message::ServerMetadata, message::VersionStatus};
