//! Colors, element type, mean and scale of a model's one input, as steps within the model.

use openvino::{ElementType, InferenceError};
use openvino_sys::ov_color_format_e;

use super::{
    convert,
    error::ModelLoadError,
    ffi::{InputTensorInfo, Model, Preprocessor, Steps},
    layouts,
    names::Port,
    options::{ColorFormat, Conversion, LayoutOption, PerChannel, Precision, Preprocessing},
};
use crate::tensor::Layout;

/// The letters of layouts; the runtime finds the channels of an input by theirs.
const LETTERS: &str = "NCHWD";

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
    let fail = |setting| {
        move |error: InferenceError| ModelLoadError::Preprocessing {
            setting,
            source: error.into(),
        }
    };
    let whole = fail("the preprocessing of the input");
    let processor = Preprocessor::new(model).map_err(whole)?;
    let info = processor.input(0).map_err(whole)?;
    if let Some((ours, theirs)) = layouts {
        info.set_layouts(&ours, &theirs).map_err(whole)?;
    }
    let mut tensor = info.tensor().map_err(whole)?;
    let mut steps = info.steps().map_err(whole)?;
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
    let model = processor.build().map_err(whole)?;
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

fn convert_color(
    tensor: &mut InputTensorInfo<'_>,
    steps: &mut Steps<'_>,
    color: Conversion<ColorFormat>,
) -> Result<(), InferenceError> {
    tensor.set_color_format(format(color.source))?;
    steps.convert_color(format(color.target))
}

fn convert_precision(
    tensor: &mut InputTensorInfo<'_>,
    steps: &mut Steps<'_>,
    precision: Conversion<Precision>,
) -> Result<(), InferenceError> {
    tensor.set_element_type(element_type(precision.source))?;
    steps.convert_element_type(element_type(precision.target))
}

fn subtract(steps: &mut Steps<'_>, mean: &PerChannel) -> Result<(), InferenceError> {
    match mean {
        PerChannel::All(value) => steps.mean(*value),
        PerChannel::Each(values) => steps.means(values),
    }
}

fn divide(steps: &mut Steps<'_>, scale: &PerChannel) -> Result<(), InferenceError> {
    match scale {
        PerChannel::All(value) => steps.scale(*value),
        PerChannel::Each(values) => steps.scales(values),
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

const fn element_type(precision: Precision) -> ElementType {
    match precision {
        Precision::Type(dtype) => convert::element_type(dtype),
        Precision::Bit => ElementType::U1,
    }
}
