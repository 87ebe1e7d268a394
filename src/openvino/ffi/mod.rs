//! Owners of the runtime's objects over its C interface, with what this crate uses of them.
//!
//! The `openvino` crate keeps the pointers of its objects to itself: its ports are never freed, and
//! extensions and some settings of the preprocessing cannot be reached. Since each object is made by
//! another one, all those with a pointer are here, each a [`Handle`](handle::Handle): [`Core`],
//! [`Model`], [`CompiledModel`], [`InferRequest`], [`Tensor`], [`Port`], and those of
//! [`Preprocessor`]. Shapes are lists of numbers, which the C interface takes and gives as they are.
//!
//! The `openvino` crate serves for what has no pointer: element types, the names of devices and
//! properties, errors, and the version. `openvino-sys` finds the library's functions at run time.

mod core;
mod handle;
mod heap;
mod infer_request;
mod model;
mod preprocessor;
mod tensor;
#[cfg(test)]
mod tests;

pub(super) use super::names::Side;

pub(super) use self::{
    core::Core,
    heap::heap,
    infer_request::{InferRequest, LentInput},
    model::{CompiledModel, Model, Port},
    preprocessor::Preprocessor,
    tensor::{FixedTensor, GivenOutput, Tensor},
};
