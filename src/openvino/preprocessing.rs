//! Colors, element type, mean and scale of a model's one input, as steps within the model.

use openvino::ElementType;
use openvino_sys::ov_color_format_e;

use super::{
    convert,
    error::ModelLoadError,
    ffi::{Model, Preprocessor},
    layouts,
    names::{Port, listed},
    options::{ColorFormat, Precision, Preprocessing},
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
    inputs: &mut Vec<Port<'_>>,
    own: Option<&Layout>,
    wanted: &Preprocessing,
) -> Result<Model, ModelLoadError> {
    let [input] = inputs.as_slice() else {
        return Err(ModelLoadError::unfit(format!(
            "mean, scale, color_format and precision are for models with one input - the model has \
             {}: {}",
            inputs.len(),
            listed(&*inputs)
        )));
    };
    let layouts = named_axes(input, own)?;
    let fail = |steps| ModelLoadError::refused(format!("add {steps} to the model"));
    let whole = fail("the preprocessing of the input");
    let steps = Preprocessor::new(model).map_err(&whole)?;
    if let Some((ours, theirs)) = layouts {
        steps.set_layouts(0, &ours, &theirs).map_err(&whole)?;
    }
    if let Some(color) = wanted.color {
        let converted = steps.convert_color(format(color.source), format(color.target));
        converted.map_err(fail("color_format"))?;
    }
    if let Some(precision) = wanted.precision {
        let [from, to] = [precision.source, precision.target].map(element_type);
        let converted = steps.convert_element_type(from, to);
        converted.map_err(fail("precision"))?;
    }
    if let Some(mean) = &wanted.mean {
        steps.subtract(mean).map_err(fail("mean"))?;
    }
    if let Some(scale) = &wanted.scale {
        steps.divide(scale).map_err(fail("scale"))?;
    }
    let model = steps.build().map_err(&whole)?;
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
    input: &Port<'_>,
    own: Option<&Layout>,
) -> Result<Option<(String, String)>, ModelLoadError> {
    let turned = layouts::turned(input)?;
    let Some(rank) = input.rank() else {
        return Ok(None);
    };
    let option = input.layout;
    let of_model = option.map(|option| option.model.as_ref().unwrap_or(&option.tensor));
    layouts::check(input)?;
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
