//! Custom nodes: the steps of a pipeline that others wrote in C or C++, as shared libraries.
//!
//! [`Library`] opens one, [`Node`] is one node made of it, with its parameters and the handle that
//! the library gave. A node reports its [`inputs`](Node::inputs) and [`outputs`](Node::outputs) and
//! [executes](Node::execute). What it returns is not copied: the [`Tensor`]s keep node and library
//! alive, and the last one who drops such a tensor gives its bytes back.
//!
//! Everything that a library says is validated before it is used. What cannot be validated, it is
//! trusted with: it runs in this process.
//!
//! [`Tensor`]: crate::tensor::Tensor

mod abi;
mod call;
mod error;
mod file;
mod info;
mod library;
mod node;
mod outputs;

pub use error::{LibraryError, NodeError};
pub use library::Library;
pub use node::{Node, alive};
pub use outputs::output;

/// Stack of the threads that run nodes, in bytes: that of the threads that most systems give to a program,
/// and of those of the C++ server, for which the nodes were written. A node that needs more ends the process.
pub const STACK_BYTES: usize = 8 << 20;

/// The header that nodes are compiled with.
pub const HEADER: &str = include_str!("custom_node_interface.h");
