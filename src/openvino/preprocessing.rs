//! Colors, element type, mean and scale of a model's one input, as steps within the model.
//!
//! The `openvino` crate has the preprocessor, and not all of its settings; those that it has not are
//! set through the C interface itself, with the pointers that the crate's types wrap. The crate is
//! pinned to one release for that.

use openvino::{
    Model,
    prepostprocess::{InputInfo, InputTensorInfo, Pipeline, Steps},
};
use openvino_sys::{
    ov_color_format_e, ov_preprocess_input_tensor_info_set_color_format,
    ov_preprocess_input_tensor_info_set_element_type, ov_preprocess_input_tensor_info_t,
    ov_preprocess_preprocess_steps_convert_color, ov_preprocess_preprocess_steps_mean,
    ov_preprocess_preprocess_steps_mean_multi_channels, ov_preprocess_preprocess_steps_scale,
    ov_preprocess_preprocess_steps_scale_multi_channels, ov_preprocess_preprocess_steps_t,
    ov_status_e,
};

use super::{
    convert,
    error::ModelLoadError,
    layouts,
    names::Port,
    options::{ColorFormat, Conversion, LayoutOption, PerChannel, Precision, Preprocessing},
    runtime_error::OpenVinoError,
};
use crate::tensor::Layout;

/// The letters of layouts; the runtime finds the channels of an input by theirs.
const LETTERS: &str = "NCHWD";

/// Layout assumptions of [`steps_pointer`] and [`tensor_pointer`].
const _: () = assert!(
    size_of::<Steps>() == size_of::<*mut ov_preprocess_preprocess_steps_t>()
        && align_of::<Steps>() == align_of::<*mut ov_preprocess_preprocess_steps_t>()
        && size_of::<InputTensorInfo>() == size_of::<*mut ov_preprocess_input_tensor_info_t>()
        && align_of::<InputTensorInfo>() == align_of::<*mut ov_preprocess_input_tensor_info_t>()
);

/// Adds the preprocessing of the one input, the transposition to the model's layout with it.
///
/// `own` is the layout that the model file gives. Clients see what the preprocessing takes: one input,
/// or one for each plane of the colors.
pub(super) fn add(
    model: &Model,
    inputs: &mut Vec<Port>,
    option: Option<&LayoutOption>,
    own: Option<&Layout>,
    wanted: &Preprocessing,
) -> Result<Model, ModelLoadError> {
    let [input] = inputs.as_slice() else {
        let known: Vec<&str> = inputs.iter().map(|input| input.public.as_str()).collect();
        return Err(ModelLoadError::PreprocessingInputs {
            count: known.len(),
            known: known.join(", "),
        });
    };
    let layouts = named_axes(input, option, own)?;
    let fail =
        |setting| move |source: OpenVinoError| ModelLoadError::Preprocessing { setting, source };
    let whole = |error: openvino::InferenceError| ModelLoadError::Preprocessing {
        setting: "the preprocessing of the input",
        source: error.into(),
    };
    let pipeline = Pipeline::new(model).map_err(whole)?;
    let info = pipeline.get_input_info_by_index(0).map_err(whole)?;
    if let Some((ours, theirs)) = layouts {
        set_layouts(&info, &ours, &theirs).map_err(whole)?;
    }
    let mut tensor = info.get_tensor_info().map_err(whole)?;
    let mut steps = info.get_steps().map_err(whole)?;
    if let Some(color) = wanted.color {
        convert_color(&mut tensor, &mut steps, color).map_err(fail("color_format"))?;
    }
    if let Some(precision) = wanted.precision {
        convert_precision(&mut tensor, &mut steps, precision).map_err(fail("precision"))?;
    }
    if let Some(mean) = &wanted.mean {
        subtract(&mut steps, mean).map_err(fail("mean"))?;
    }
    if let Some(scale) = &wanted.scale {
        divide(&mut steps, scale).map_err(fail("scale"))?;
    }
    let model = pipeline.build_new_model().map_err(whole)?;
    let planes = wanted.color.map_or(&[][..], |color| color.source.planes());
    if !planes.is_empty() {
        let of_plane = |plane: &&str| Port {
            public: format!("{}/{plane}", input.public),
            ..input.clone()
        };
        *inputs = planes.iter().map(of_plane).collect();
    }
    Ok(model)
}

/// Returns the names of the axes that clients send, and of those of the model; `None` if nothing is
/// known of them.
fn named_axes(
    input: &Port,
    option: Option<&LayoutOption>,
    own: Option<&Layout>,
) -> Result<Option<(String, String)>, ModelLoadError> {
    let turned = layouts::turned(input, option)?;
    let Some(rank) = input.rank() else {
        return Ok(None);
    };
    let of_model = option.map(|option| option.model.as_ref().unwrap_or(&option.tensor));
    layouts::check(input, option)?;
    let Some(layout) = of_model.or(own).filter(|layout| layout.fits(rank)) else {
        return Ok(None);
    };
    // Each axis has a name of its own, so that layouts with `?` and `...` can be turned.
    let mut names: Vec<String> = (0..rank).map(|axis| format!("d{axis}")).collect();
    for letter in LETTERS.chars() {
        if let Some(axis) = layout.axis(letter, rank) {
            names[axis] = letter.to_string();
        }
    }
    let theirs = format!("[{}]", names.join(","));
    let ours = match turned {
        Some(axes) => {
            let names: Vec<&str> = axes.iter().map(|&axis| names[axis].as_str()).collect();
            format!("[{}]", names.join(","))
        }
        None => theirs.clone(),
    };
    Ok(Some((ours, theirs)))
}

fn set_layouts(info: &InputInfo, ours: &str, theirs: &str) -> Result<(), openvino::InferenceError> {
    info.get_tensor_info()?
        .set_layout(openvino::Layout::new(ours)?)?;
    info.get_model_info()?
        .set_layout(openvino::Layout::new(theirs)?)
}

fn convert_color(
    tensor: &mut InputTensorInfo,
    steps: &mut Steps,
    color: Conversion<ColorFormat>,
) -> Result<(), OpenVinoError> {
    // SAFETY: both pointers are those of live objects, which are borrowed for the length of the
    // calls; the formats are values of the runtime's enumeration.
    let statuses = unsafe {
        [
            ov_preprocess_input_tensor_info_set_color_format(
                tensor_pointer(tensor),
                format(color.source),
            ),
            ov_preprocess_preprocess_steps_convert_color(
                steps_pointer(steps),
                format(color.target),
            ),
        ]
    };
    statuses.into_iter().try_for_each(checked)
}

fn convert_precision(
    tensor: &mut InputTensorInfo,
    steps: &mut Steps,
    precision: Conversion<Precision>,
) -> Result<(), OpenVinoError> {
    // SAFETY: the pointer is that of a live object, which is borrowed for the length of the call.
    let status = unsafe {
        ov_preprocess_input_tensor_info_set_element_type(
            tensor_pointer(tensor),
            element_type(precision.source).into(),
        )
    };
    checked(status)?;
    steps.convert_element_type(element_type(precision.target))?;
    Ok(())
}

fn subtract(steps: &mut Steps, mean: &PerChannel) -> Result<(), OpenVinoError> {
    // SAFETY: the pointer is that of a live object, which is borrowed for the length of the call; the
    // numbers are copied during it.
    checked(unsafe {
        match mean {
            PerChannel::All(value) => {
                ov_preprocess_preprocess_steps_mean(steps_pointer(steps), *value)
            }
            PerChannel::Each(values) => ov_preprocess_preprocess_steps_mean_multi_channels(
                steps_pointer(steps),
                values.as_ptr(),
                length(values)?,
            ),
        }
    })
}

fn divide(steps: &mut Steps, scale: &PerChannel) -> Result<(), OpenVinoError> {
    // SAFETY: as above.
    checked(unsafe {
        match scale {
            PerChannel::All(value) => {
                ov_preprocess_preprocess_steps_scale(steps_pointer(steps), *value)
            }
            PerChannel::Each(values) => ov_preprocess_preprocess_steps_scale_multi_channels(
                steps_pointer(steps),
                values.as_ptr(),
                length(values)?,
            ),
        }
    })
}

fn length(values: &[f32]) -> Result<i32, OpenVinoError> {
    i32::try_from(values.len())
        .map_err(|_| OpenVinoError::new("there are more numbers than 32 bits count"))
}

fn checked(status: ov_status_e) -> Result<(), OpenVinoError> {
    match status {
        ov_status_e::OK => Ok(()),
        _ => Err(OpenVinoError::last("the runtime refuses it")),
    }
}

/// Returns the pointer that steps wrap.
fn steps_pointer(steps: &mut Steps) -> *mut ov_preprocess_preprocess_steps_t {
    // SAFETY: in the pinned release `Steps` has one field, the pointer. Size and alignment are
    // those of a pointer, as is asserted above, so the field is all there is of it.
    unsafe {
        std::ptr::from_mut(steps)
            .cast::<*mut ov_preprocess_preprocess_steps_t>()
            .read()
    }
}

/// Returns the pointer that the settings of a tensor wrap.
fn tensor_pointer(tensor: &mut InputTensorInfo) -> *mut ov_preprocess_input_tensor_info_t {
    // SAFETY: as for `Steps`.
    unsafe {
        std::ptr::from_mut(tensor)
            .cast::<*mut ov_preprocess_input_tensor_info_t>()
            .read()
    }
}

const fn format(color: ColorFormat) -> ov_color_format_e {
    match color {
        ColorFormat::Rgb => ov_color_format_e::RGB,
        ColorFormat::Bgr => ov_color_format_e::BGR,
        ColorFormat::Gray => ov_color_format_e::GRAY,
        ColorFormat::Nv12 => ov_color_format_e::NV12_SINGLE_PLANE,
        ColorFormat::Nv12Planes => ov_color_format_e::NV12_TWO_PLANES,
        ColorFormat::I420 => ov_color_format_e::I420_SINGLE_PLANE,
        ColorFormat::I420Planes => ov_color_format_e::I420_THREE_PLANES,
    }
}

const fn element_type(precision: Precision) -> openvino::ElementType {
    match precision {
        Precision::Type(dtype) => convert::element_type(dtype),
        Precision::Bit => openvino::ElementType::U1,
    }
}
