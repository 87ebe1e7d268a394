//! Steps that are added to a model before its inputs.

use std::marker::PhantomData;

use openvino::ElementType;
use openvino_sys::{
    self as sys, ov_color_format_e, ov_preprocess_preprocess_steps_t as Steps, ov_status_e,
};

use super::{
    Model,
    handle::{Handle, Result, check, text, unfit},
};
use crate::openvino::options::PerChannel;

/// Steps for the inputs of a model. They belong to the model: it stays borrowed until they are built.
pub(in crate::openvino) struct Preprocessor<'a> {
    handle: Handle<sys::ov_preprocess_prepostprocessor_t>,
    model: PhantomData<&'a Model>,
}

/// The settings of an input. Their memory is the preprocessor's, so they are never given away.
type InputInfo = Handle<sys::ov_preprocess_input_info_t>;

impl<'a> Preprocessor<'a> {
    /// Makes a preprocessor without steps.
    pub(crate) fn new(model: &'a Model) -> Result<Self> {
        let create = sys::ov_preprocess_prepostprocessor_create;
        Ok(Self {
            // SAFETY: the model is alive; the function puts the pointer to a new preprocessor there.
            handle: unsafe { Handle::made(|made| create(model.get(), made)) }?,
            model: PhantomData,
        })
    }

    /// Names the axes of the tensor that clients give for an input, and of the model's.
    pub(crate) fn set_layouts(&self, input: usize, ours: &str, theirs: &str) -> Result<()> {
        let (ours, theirs, input) = (layout(ours)?, layout(theirs)?, self.input(input)?);
        let tensor = tensor(&input)?;
        // SAFETY: settings and layout are alive; the call copies the layout.
        check(unsafe {
            sys::ov_preprocess_input_tensor_info_set_layout(tensor.get(), ours.get())
        })?;
        let get = sys::ov_preprocess_input_info_get_model_info;
        // SAFETY: the settings are alive; the function puts the pointer to new ones there.
        let model = unsafe { Handle::made(|info| get(input.get(), info)) }?;
        // SAFETY: settings and layout are alive; the call copies the layout.
        check(unsafe { sys::ov_preprocess_input_model_info_set_layout(model.get(), theirs.get()) })
    }

    /// Converts the colors that clients give for the first input.
    pub(crate) fn convert_color(
        &self,
        given: ov_color_format_e,
        wanted: ov_color_format_e,
    ) -> Result<()> {
        let input = self.input(0)?;
        let (tensor, steps) = (tensor(&input)?, steps(&input)?);
        // SAFETY: settings and steps are alive; the formats are values of the runtime's enumeration.
        unsafe {
            check(sys::ov_preprocess_input_tensor_info_set_color_format(
                tensor.get(),
                given,
            ))?;
            check(sys::ov_preprocess_preprocess_steps_convert_color(
                steps.get(),
                wanted,
            ))
        }
    }

    /// Converts the type of the elements that clients give for the first input.
    pub(crate) fn convert_element_type(
        &self,
        given: ElementType,
        wanted: ElementType,
    ) -> Result<()> {
        let set = sys::ov_preprocess_input_tensor_info_set_element_type;
        let convert = sys::ov_preprocess_preprocess_steps_convert_element_type;
        let input = self.input(0)?;
        let (tensor, steps) = (tensor(&input)?, steps(&input)?);
        // SAFETY: settings and steps are alive; the types are values of the runtime's enumeration.
        unsafe {
            check(set(tensor.get(), given.into()))?;
            check(convert(steps.get(), wanted.into()))
        }
    }

    /// Subtracts a number from the elements of the first input.
    pub(crate) fn subtract(&self, mean: &PerChannel) -> Result<()> {
        self.with_numbers(
            mean,
            sys::ov_preprocess_preprocess_steps_mean,
            sys::ov_preprocess_preprocess_steps_mean_multi_channels,
        )
    }

    /// Divides the elements of the first input by a number.
    pub(crate) fn divide(&self, scale: &PerChannel) -> Result<()> {
        self.with_numbers(
            scale,
            sys::ov_preprocess_preprocess_steps_scale,
            sys::ov_preprocess_preprocess_steps_scale_multi_channels,
        )
    }

    fn with_numbers(
        &self,
        numbers: &PerChannel,
        all: unsafe fn(*mut Steps, f32) -> ov_status_e,
        each: unsafe fn(*mut Steps, *const f32, i32) -> ov_status_e,
    ) -> Result<()> {
        let steps = steps(&self.input(0)?)?;
        // SAFETY: the steps are alive; there are as many numbers as is said, and the call copies them.
        check(unsafe {
            match numbers {
                PerChannel::All(value) => all(steps.get(), *value),
                PerChannel::Each(values) => each(steps.get(), values.as_ptr(), length(values)?),
            }
        })
    }

    /// Adds the steps to the model.
    pub(crate) fn build(&self) -> Result<Model> {
        let build = sys::ov_preprocess_prepostprocessor_build;
        // SAFETY: the preprocessor is alive; the function puts the pointer to a new model there.
        unsafe { Handle::made(|model| build(self.handle.get(), model)) }
    }

    fn input(&self, index: usize) -> Result<InputInfo> {
        let get = sys::ov_preprocess_prepostprocessor_get_input_info_by_index;
        // SAFETY: the preprocessor is alive; the function puts the pointer to new settings there.
        unsafe { Handle::made(|info| get(self.handle.get(), index, info)) }
    }
}

/// Returns the settings of the tensor that clients give.
fn tensor(input: &InputInfo) -> Result<Handle<sys::ov_preprocess_input_tensor_info_t>> {
    let get = sys::ov_preprocess_input_info_get_tensor_info;
    // SAFETY: the settings are alive; the function puts the pointer to new ones there.
    unsafe { Handle::made(|info| get(input.get(), info)) }
}

/// Returns the steps between the tensor that clients give and the model's.
fn steps(input: &InputInfo) -> Result<Handle<Steps>> {
    let get = sys::ov_preprocess_input_info_get_preprocess_steps;
    // SAFETY: the settings are alive; the function puts the pointer to new steps there.
    unsafe { Handle::made(|steps| get(input.get(), steps)) }
}

fn layout(description: &str) -> Result<Handle<sys::ov_layout_t>> {
    let description = text(description)?;
    // SAFETY: the text ends with a zero byte and lives until the call returns; the function puts the
    // pointer to a new layout there.
    unsafe { Handle::made(|layout| sys::ov_layout_create(description.as_ptr(), layout)) }
}

fn length(values: &[f32]) -> Result<i32> {
    i32::try_from(values.len()).map_err(|_| unfit("there are more numbers than 32 bits count"))
}
