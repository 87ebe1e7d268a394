//! Owners of the runtime's objects over its C interface, with what this crate uses of them.
//!
//! The `openvino` crate keeps the pointers of its objects to itself: its ports are never freed, and
//! extensions and some settings of the preprocessing cannot be reached. Since each object is made by
//! another one, all those with a pointer are here: [`Core`], [`Model`], [`CompiledModel`],
//! [`InferRequest`], [`Tensor`], [`Port`] and [`Preprocessor`]. Shapes are lists of numbers, which
//! the C interface takes and gives as they are.
//!
//! The `openvino` crate serves for what has no pointer: element types, the names of devices and
//! properties, errors, and the version. `openvino-sys` finds the library's functions at run time.

mod compiled_model;
mod core;
mod handle;
mod infer_request;
mod model;
mod port;
mod preprocessor;
mod status;
mod tensor;

pub(super) use self::{
    compiled_model::CompiledModel,
    core::Core,
    infer_request::InferRequest,
    model::Model,
    port::{Port, Range},
    preprocessor::{InputTensorInfo, Preprocessor, Steps},
    tensor::Tensor,
};

#[cfg(test)]
mod tests;
