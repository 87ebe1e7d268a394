//! The other end of the wire: talks to a model server.
//!
//! [`Client`] is one face over the wires of [`Api`]: it connects, asks for a model's inputs, and
//! sends a [`Request`], once or as a [`Call`] that is encoded once and sent many times. [`input`]
//! makes tensors of files and JSON, [`output`] makes rows, JSON and files of an [`Answer`], and
//! [`bench`](mod@bench) measures. Nothing here prints or reads flags; `commands/infer` does.
//!
//! Any server of the KServe v2 protocol will do, not only this crate's.

mod address;
pub mod bench;
mod connection;
mod error;
pub mod input;
mod json;
mod kserve_grpc;
mod kserve_rest;
mod message;
pub mod output;

pub use address::{Address, AddressError};
pub use connection::{Api, Call, Client, Options, Reply};
pub use error::{AnswerError, Cause, ClientError, Code, Refusal, RequestError, Step};
pub use message::{Answer, Form, ModelId, ModelMetadata, Request, TensorMetadata, header};
