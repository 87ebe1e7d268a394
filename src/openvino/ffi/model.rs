//! A model before it is compiled, one that is compiled for a device, and the ports of both.

use std::ptr;

use openvino::{ElementType, PropertyKey};
use openvino_sys::{self as sys, ov_dimension_t, ov_partial_shape_t, ov_rank_t};

use super::{
    InferRequest, Side,
    handle::{Handle, Result, check, element_type, given, made_text, text},
};
use crate::{openvino::convert, tensor::PartialShape};

/// A model with its graph and weights.
pub(in crate::openvino) type Model = Handle<sys::ov_model_t>;

// SAFETY: a model belongs to no thread, and calls that change it take it alone (`&mut`).
unsafe impl Send for Model {}

impl Model {
    /// Returns the number of inputs or outputs.
    pub(crate) fn count(&self, side: Side) -> Result<usize> {
        let size = match side {
            Side::Input => sys::ov_model_inputs_size,
            Side::Output => sys::ov_model_outputs_size,
        };
        // SAFETY: the model is alive; the number goes into a variable of ours.
        given(0, |count| unsafe { size(self.get(), count) })
    }

    /// Returns an input or output by its place.
    pub(crate) fn port(&self, side: Side, index: usize) -> Result<Port> {
        let get = match side {
            Side::Input => sys::ov_model_const_input_by_index,
            Side::Output => sys::ov_model_const_output_by_index,
        };
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        unsafe { Handle::made(|port| get(self.get(), index, port)) }
    }

    /// Returns whether a shape of the model may vary.
    pub(crate) fn is_dynamic(&self) -> bool {
        // SAFETY: the model is alive.
        unsafe { sys::ov_model_is_dynamic(self.get()) }
    }

    /// Gives inputs other shapes, by their places.
    pub(crate) fn reshape(&mut self, shapes: &[(usize, PartialShape)]) -> Result<()> {
        let mut dims: Vec<Vec<ov_dimension_t>> = shapes
            .iter()
            .map(|(_, shape)| shape.0.iter().map(convert::range).collect())
            .collect();
        let ports: Vec<usize> = shapes.iter().map(|(port, _)| *port).collect();
        let shapes: Vec<ov_partial_shape_t> = dims
            .iter_mut()
            .map(|dims| {
                let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
                ov_partial_shape_t {
                    rank: ov_rank_t {
                        min: rank,
                        max: rank,
                    },
                    dims: match dims.is_empty() {
                        true => ptr::null_mut(),
                        false => dims.as_mut_ptr(),
                    },
                }
            })
            .collect();
        let (model, count) = (self.get(), shapes.len());
        // SAFETY: the model is alive and ours alone (`&mut`); both lists have as many elements as is
        // said, and each shape as many dimensions as its rank. The call copies them.
        check(unsafe {
            sys::ov_model_reshape_by_port_indexes(model, ports.as_ptr(), shapes.as_ptr(), count)
        })
    }
}

/// A model that makes infer requests.
pub(in crate::openvino) type CompiledModel = Handle<sys::ov_compiled_model_t>;

// SAFETY: a compiled model belongs to no thread, and making infer requests takes it alone (`&mut`).
unsafe impl Send for CompiledModel {}

impl CompiledModel {
    /// Makes an infer request; its tensors are zero where the runtime has made them already.
    pub(crate) fn create_infer_request(&mut self) -> Result<InferRequest> {
        // SAFETY: the model is alive; the function puts the pointer to a new infer request there.
        let request: InferRequest = unsafe {
            Handle::made(|request| sys::ov_compiled_model_create_infer_request(self.get(), request))
        }?;
        let sides = [
            (
                Side::Input,
                given(0, |count| {
                    // SAFETY: the model is alive; the number goes into a variable of ours.
                    unsafe { sys::ov_compiled_model_inputs_size(self.get(), count) }
                })?,
            ),
            (
                Side::Output,
                given(0, |count| {
                    // SAFETY: as above.
                    unsafe { sys::ov_compiled_model_outputs_size(self.get(), count) }
                })?,
            ),
        ];
        for (side, count) in sides {
            for index in 0..count {
                request.tensor(side, index)?.clear()?;
            }
        }
        Ok(request)
    }

    /// Returns an input or output by its place.
    pub(crate) fn port(&self, side: Side, index: usize) -> Result<Port> {
        let get = match side {
            Side::Input => sys::ov_compiled_model_input_by_index,
            Side::Output => sys::ov_compiled_model_output_by_index,
        };
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        unsafe { Handle::made(|port| get(self.get(), index, port)) }
    }

    /// Asks for a property of the compiled model.
    pub(crate) fn get_property(&self, key: &PropertyKey) -> Result<String> {
        let key = text(key.as_ref())?;
        let ask = sys::ov_compiled_model_get_property;
        // SAFETY: the model is alive, the text ends with a zero byte and lives until the call
        // returns, which makes another one.
        unsafe { made_text(|value| ask(self.get(), key.as_ptr(), value)) }
    }
}

/// An input or output of a model, compiled or not. It keeps its model alive, with its weights and the
/// file that they are mapped from, so each has to be freed for a load to leave no memory behind.
pub(in crate::openvino) type Port = Handle<sys::ov_output_const_port_t>;

impl Port {
    /// Returns one of its names; fails if it has none.
    pub(crate) fn get_name(&self) -> Result<String> {
        // SAFETY: the port is alive; the call makes a text.
        unsafe { made_text(|name| sys::ov_port_get_any_name(self.get(), name)) }
    }

    /// Returns the type of its elements.
    pub(crate) fn get_element_type(&self) -> Result<ElementType> {
        // SAFETY: the port is alive; the type goes into a variable of ours.
        element_type(|element| unsafe { sys::ov_port_get_element_type(self.get(), element) })
    }

    /// Returns the lengths of its dimensions; `None` if even their number may vary.
    pub(crate) fn get_shape(&self) -> Result<Option<PartialShape>> {
        let empty = ov_partial_shape_t {
            rank: ov_rank_t { min: 0, max: 0 },
            dims: ptr::null_mut(),
        };
        // SAFETY: the port is alive; the shape goes into a variable of ours.
        let get = |shape| unsafe { sys::ov_port_get_partial_shape(self.get(), shape) };
        let mut shape = given(empty, get)?;
        let rank = (shape.rank.min == shape.rank.max).then_some(shape.rank.max);
        let ranges = rank.map(|rank| {
            let count = match shape.dims.is_null() {
                true => 0,
                false => usize::try_from(rank).unwrap_or(0),
            };
            // SAFETY: the shape has as many dimensions as its rank, and is freed below.
            let dim = |index| convert::dim(unsafe { *shape.dims.add(index) });
            PartialShape((0..count).map(dim).collect())
        });
        // SAFETY: the shape was filled by the call above, and its dimensions have been copied.
        unsafe { sys::ov_partial_shape_free(&raw mut shape) };
        Ok(ranges)
    }
}
