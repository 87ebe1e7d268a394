//! Ports of a model: its inputs and outputs.
//!
//! A port keeps its model alive, with its weights and the file that they are mapped from, so each
//! has to be freed for a load to leave no memory behind.

use std::ptr;

use openvino::{ElementType, InferenceError};
use openvino_sys::{
    ov_dimension_t, ov_element_type_e, ov_output_const_port_free, ov_output_const_port_t,
    ov_partial_shape_free, ov_partial_shape_t, ov_port_get_any_name, ov_port_get_element_type,
    ov_port_get_partial_shape, ov_rank_t,
};

use super::{
    handle::{Handle, freed},
    status::{check, take_text},
};

freed!(ov_output_const_port_t: ov_output_const_port_free);

/// The lengths that a dimension may have, as the runtime writes them: no upper limit is -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::openvino) struct Range {
    pub(in crate::openvino) least: i64,
    pub(in crate::openvino) most: i64,
}

impl Range {
    pub(super) const fn dimension(&self) -> ov_dimension_t {
        ov_dimension_t {
            min: self.least,
            max: self.most,
        }
    }
}

/// An input or output of a model, compiled or not.
pub(in crate::openvino) struct Port(Handle<ov_output_const_port_t>);

impl Port {
    pub(super) const fn new(port: Handle<ov_output_const_port_t>) -> Self {
        Self(port)
    }

    /// Returns one of its names; fails if it has none.
    pub(in crate::openvino) fn get_name(&self) -> Result<String, InferenceError> {
        let mut name = ptr::null_mut();
        // SAFETY: the port is alive; the text's pointer goes into a variable of ours.
        check(unsafe { ov_port_get_any_name(self.0.get(), &raw mut name) })?;
        // SAFETY: the call has just made the text.
        Ok(unsafe { take_text(name) })
    }

    /// Returns the type of its elements.
    pub(in crate::openvino) fn get_element_type(&self) -> Result<ElementType, InferenceError> {
        let mut element = ov_element_type_e::DYNAMIC;
        // SAFETY: the port is alive; the type goes into a variable of ours.
        check(unsafe { ov_port_get_element_type(self.0.get(), &raw mut element) })?;
        Ok(element.into())
    }

    /// Returns the lengths of its dimensions; `None` if even their number may vary.
    pub(in crate::openvino) fn get_shape(&self) -> Result<Option<Vec<Range>>, InferenceError> {
        let mut shape = ov_partial_shape_t {
            rank: ov_rank_t { min: 0, max: 0 },
            dims: ptr::null_mut(),
        };
        // SAFETY: the port is alive; the shape goes into a variable of ours.
        check(unsafe { ov_port_get_partial_shape(self.0.get(), &raw mut shape) })?;
        let rank = (shape.rank.min == shape.rank.max).then_some(shape.rank.max);
        let ranges = rank.map(|rank| {
            let count = match shape.dims.is_null() {
                true => 0,
                false => usize::try_from(rank).unwrap_or(0),
            };
            let range = |index| {
                // SAFETY: the shape has as many dimensions as its rank, and is freed below.
                let dimension = unsafe { *shape.dims.add(index) };
                Range {
                    least: dimension.min,
                    most: dimension.max,
                }
            };
            (0..count).map(range).collect()
        });
        // SAFETY: the shape was filled by the call above, and its dimensions have been copied.
        unsafe { ov_partial_shape_free(&raw mut shape) };
        Ok(ranges)
    }
}
