//! Steps that are added to a model before its inputs.

use openvino::{ElementType, InferenceError};
use openvino_sys::{
    ov_color_format_e, ov_layout_create, ov_layout_free, ov_layout_t,
    ov_preprocess_input_info_free, ov_preprocess_input_info_get_model_info,
    ov_preprocess_input_info_get_preprocess_steps, ov_preprocess_input_info_get_tensor_info,
    ov_preprocess_input_info_t, ov_preprocess_input_model_info_free,
    ov_preprocess_input_model_info_set_layout, ov_preprocess_input_model_info_t,
    ov_preprocess_input_tensor_info_free, ov_preprocess_input_tensor_info_set_color_format,
    ov_preprocess_input_tensor_info_set_element_type, ov_preprocess_input_tensor_info_set_layout,
    ov_preprocess_input_tensor_info_t, ov_preprocess_prepostprocessor_build,
    ov_preprocess_prepostprocessor_create, ov_preprocess_prepostprocessor_free,
    ov_preprocess_prepostprocessor_get_input_info_by_index, ov_preprocess_prepostprocessor_t,
    ov_preprocess_preprocess_steps_convert_color,
    ov_preprocess_preprocess_steps_convert_element_type, ov_preprocess_preprocess_steps_free,
    ov_preprocess_preprocess_steps_mean, ov_preprocess_preprocess_steps_mean_multi_channels,
    ov_preprocess_preprocess_steps_scale, ov_preprocess_preprocess_steps_scale_multi_channels,
    ov_preprocess_preprocess_steps_t,
};

use super::{
    Model,
    handle::{Handle, freed},
    status::{check, text, unfit},
};

freed!(
    ov_preprocess_prepostprocessor_t: ov_preprocess_prepostprocessor_free,
    ov_preprocess_input_info_t: ov_preprocess_input_info_free,
    ov_preprocess_input_tensor_info_t: ov_preprocess_input_tensor_info_free,
    ov_preprocess_input_model_info_t: ov_preprocess_input_model_info_free,
    ov_preprocess_preprocess_steps_t: ov_preprocess_preprocess_steps_free,
    ov_layout_t: ov_layout_free,
);

/// Steps for the inputs of a model. They belong to the model: it stays borrowed until they are built.
pub(in crate::openvino) struct Preprocessor<'a> {
    handle: Handle<ov_preprocess_prepostprocessor_t>,
    model: std::marker::PhantomData<&'a Model>,
}

impl<'a> Preprocessor<'a> {
    /// Makes a preprocessor without steps.
    pub(in crate::openvino) fn new(model: &'a Model) -> Result<Self, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new preprocessor there.
        let handle = unsafe {
            Handle::made(|made| ov_preprocess_prepostprocessor_create(model.get(), made))
        }?;
        Ok(Self {
            handle,
            model: std::marker::PhantomData,
        })
    }

    /// Returns the settings of an input, by its place.
    pub(in crate::openvino) fn input(&self, index: usize) -> Result<InputInfo<'_>, InferenceError> {
        // SAFETY: the preprocessor is alive; the function puts the pointer to new settings there.
        let handle = unsafe {
            Handle::made(|info| {
                let processor = self.handle.get();
                ov_preprocess_prepostprocessor_get_input_info_by_index(processor, index, info)
            })
        }?;
        Ok(InputInfo {
            handle,
            of: std::marker::PhantomData,
        })
    }

    /// Adds the steps to the model.
    pub(in crate::openvino) fn build(&self) -> Result<Model, InferenceError> {
        // SAFETY: the preprocessor is alive; the function puts the pointer to a new model there.
        let model = unsafe {
            Handle::made(|model| ov_preprocess_prepostprocessor_build(self.handle.get(), model))
        }?;
        Ok(Model::new(model))
    }
}

/// The settings of an input. Their memory is the preprocessor's.
pub(in crate::openvino) struct InputInfo<'a> {
    handle: Handle<ov_preprocess_input_info_t>,
    of: std::marker::PhantomData<&'a ()>,
}

impl InputInfo<'_> {
    /// Returns the settings of the tensor that clients give.
    pub(in crate::openvino) fn tensor(&self) -> Result<InputTensorInfo<'_>, InferenceError> {
        // SAFETY: the settings are alive; the function puts the pointer to new ones there.
        let handle = unsafe {
            Handle::made(|info| ov_preprocess_input_info_get_tensor_info(self.handle.get(), info))
        }?;
        Ok(InputTensorInfo {
            handle,
            of: std::marker::PhantomData,
        })
    }

    /// Returns the steps between the tensor that clients give and the model's.
    pub(in crate::openvino) fn steps(&self) -> Result<Steps<'_>, InferenceError> {
        // SAFETY: the settings are alive; the function puts the pointer to new steps there.
        let handle = unsafe {
            Handle::made(|steps| {
                ov_preprocess_input_info_get_preprocess_steps(self.handle.get(), steps)
            })
        }?;
        Ok(Steps {
            handle,
            of: std::marker::PhantomData,
        })
    }

    /// Names the axes of the tensor that clients give, and of the model's.
    pub(in crate::openvino) fn set_layouts(
        &self,
        ours: &str,
        theirs: &str,
    ) -> Result<(), InferenceError> {
        let (ours, theirs) = (layout(ours)?, layout(theirs)?);
        let tensor = self.tensor()?;
        // SAFETY: settings and layout are alive; the call copies the layout.
        check(unsafe {
            ov_preprocess_input_tensor_info_set_layout(tensor.handle.get(), ours.get())
        })?;
        // SAFETY: the settings are alive; the function puts the pointer to new ones there.
        let model: Handle<ov_preprocess_input_model_info_t> = unsafe {
            Handle::made(|info| ov_preprocess_input_info_get_model_info(self.handle.get(), info))
        }?;
        // SAFETY: settings and layout are alive; the call copies the layout.
        check(unsafe { ov_preprocess_input_model_info_set_layout(model.get(), theirs.get()) })
    }
}

fn layout(description: &str) -> Result<Handle<ov_layout_t>, InferenceError> {
    let description = text(description)?;
    // SAFETY: the text ends with a zero byte and lives until the call returns; the function puts the
    // pointer to a new layout there.
    unsafe { Handle::made(|layout| ov_layout_create(description.as_ptr(), layout)) }
}

/// The settings of the tensor that clients give.
pub(in crate::openvino) struct InputTensorInfo<'a> {
    handle: Handle<ov_preprocess_input_tensor_info_t>,
    of: std::marker::PhantomData<&'a ()>,
}

impl InputTensorInfo<'_> {
    /// Sets the colors that clients give.
    pub(in crate::openvino) fn set_color_format(
        &mut self,
        format: ov_color_format_e,
    ) -> Result<(), InferenceError> {
        // SAFETY: the settings are alive; the format is a value of the runtime's enumeration.
        check(unsafe {
            ov_preprocess_input_tensor_info_set_color_format(self.handle.get(), format)
        })
    }

    /// Sets the type of the elements that clients give.
    pub(in crate::openvino) fn set_element_type(
        &mut self,
        element: ElementType,
    ) -> Result<(), InferenceError> {
        // SAFETY: the settings are alive; the type is a value of the runtime's enumeration.
        check(unsafe {
            ov_preprocess_input_tensor_info_set_element_type(self.handle.get(), element.into())
        })
    }
}

/// Steps between the tensor that clients give and the model's, in their order.
pub(in crate::openvino) struct Steps<'a> {
    handle: Handle<ov_preprocess_preprocess_steps_t>,
    of: std::marker::PhantomData<&'a ()>,
}

impl Steps<'_> {
    /// Adds a conversion of colors.
    pub(in crate::openvino) fn convert_color(
        &mut self,
        format: ov_color_format_e,
    ) -> Result<(), InferenceError> {
        // SAFETY: the steps are alive; the format is a value of the runtime's enumeration.
        check(unsafe { ov_preprocess_preprocess_steps_convert_color(self.handle.get(), format) })
    }

    /// Adds a conversion of elements.
    pub(in crate::openvino) fn convert_element_type(
        &mut self,
        element: ElementType,
    ) -> Result<(), InferenceError> {
        // SAFETY: the steps are alive; the type is a value of the runtime's enumeration.
        check(unsafe {
            ov_preprocess_preprocess_steps_convert_element_type(self.handle.get(), element.into())
        })
    }

    /// Subtracts a number from each element.
    pub(in crate::openvino) fn mean(&mut self, value: f32) -> Result<(), InferenceError> {
        // SAFETY: the steps are alive.
        check(unsafe { ov_preprocess_preprocess_steps_mean(self.handle.get(), value) })
    }

    /// Subtracts a number of its own from the elements of each channel.
    pub(in crate::openvino) fn means(&mut self, values: &[f32]) -> Result<(), InferenceError> {
        let (steps, count) = (self.handle.get(), length(values)?);
        // SAFETY: the steps are alive; there are as many numbers as is said, and the call copies them.
        check(unsafe {
            ov_preprocess_preprocess_steps_mean_multi_channels(steps, values.as_ptr(), count)
        })
    }

    /// Divides each element by a number.
    pub(in crate::openvino) fn scale(&mut self, value: f32) -> Result<(), InferenceError> {
        // SAFETY: the steps are alive.
        check(unsafe { ov_preprocess_preprocess_steps_scale(self.handle.get(), value) })
    }

    /// Divides the elements of each channel by a number of its own.
    pub(in crate::openvino) fn scales(&mut self, values: &[f32]) -> Result<(), InferenceError> {
        let (steps, count) = (self.handle.get(), length(values)?);
        // SAFETY: the steps are alive; there are as many numbers as is said, and the call copies them.
        check(unsafe {
            ov_preprocess_preprocess_steps_scale_multi_channels(steps, values.as_ptr(), count)
        })
    }
}

fn length(values: &[f32]) -> Result<i32, InferenceError> {
    i32::try_from(values.len()).map_err(|_| unfit("there are more numbers than 32 bits count"))
}
