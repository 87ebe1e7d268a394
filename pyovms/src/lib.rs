//! The Python package of OpenVINO Model Server: tensors of handlers, and the worker processes that run them.
//!
//! A server and a worker have a stream socket ([`stream`]) with [messages](message), and memory that both map
//! ([`memory`]): those three modules are of both sides. With the feature `extension` this is the module
//! `pyovms._pyovms` of Python, which has `Tensor` and the side of the worker.

pub mod memory;
pub mod message;
pub mod stream;

#[cfg(feature = "extension")]
mod extension;
