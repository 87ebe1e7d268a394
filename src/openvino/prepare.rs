//! Preparation of a model between reading and compiling: public names, transposition and
//! preprocessing of inputs, shapes.
//!
//! Layouts come before shapes, since configured shapes are those that clients see. Outputs are
//! transposed when they are read (`slot`): the C interface of the runtime has no layouts for
//! outputs.

use openvino::InferenceError;

use super::{
    error::ModelLoadError,
    ffi::{Model, Preprocessor, Side},
    layouts,
    model_file::Load,
    names::{self, Port},
    preprocessing, shapes,
};
use crate::tensor::{Layout, PartialShape};

/// A model that can be compiled.
pub(super) struct Prepared<'a> {
    pub(super) model: Model,
    /// Its inputs in its own order, as clients see them.
    pub(super) inputs: Vec<Port<'a>>,
    /// Its outputs, likewise, but with the shapes that the model gives them.
    pub(super) outputs: Vec<Port<'a>>,
    /// Texts about names for tensors that it does not have.
    pub(super) stale: Vec<String>,
}

/// Prepares a model, whose last inputs and outputs may be none of clients: so many are hidden.
pub(super) fn prepare<'a>(
    model: Model,
    load: &Load<'a>,
    hidden: [usize; 2],
) -> Result<Prepared<'a>, ModelLoadError> {
    let mut stale = Vec::new();
    let mut named = |side, hidden, names| {
        let mut shown = ports(&model, side)?;
        shown.truncate(shown.len().saturating_sub(hidden));
        names::publish(side, shown, names, &mut stale)
    };
    let mut inputs = named(Side::Input, hidden[0], &load.names.inputs)?;
    let mut outputs = named(Side::Output, hidden[1], &load.names.outputs)?;
    layouts::choose(&mut inputs, &mut outputs, &load.options.layouts)?;
    let mut model = add_steps(model, &mut inputs, load)?;
    let known: Vec<Layout> = inputs
        .iter()
        .map(|input| layouts::public(input, load.layouts))
        .collect();
    let wanted = shapes::decide(&inputs, &known, load.options, load.asked)?;
    reshape(&mut model, &mut inputs, wanted)?;
    Ok(Prepared {
        model,
        inputs,
        outputs,
        stale,
    })
}

/// Adds the preprocessing of the one input, or the transposition of inputs that clients have in another
/// layout than the model.
fn add_steps(
    model: Model,
    inputs: &mut Vec<Port<'_>>,
    load: &Load<'_>,
) -> Result<Model, ModelLoadError> {
    let wanted = &load.options.preprocessing;
    let model = if wanted.is_empty() {
        let mut turned = Vec::new();
        for (port, input) in inputs.iter().enumerate() {
            turned.extend(layouts::turned(input)?.map(|axes| (port, axes)));
        }
        if turned.is_empty() {
            return Ok(model);
        }
        let refused = ModelLoadError::refused("add the transposition of inputs");
        transpose(&model, &turned).map_err(refused)?
    } else {
        let first = inputs.first();
        let own = first.and_then(|input| load.layouts.get(&input.own));
        preprocessing::add(&model, inputs, own, wanted)?
    };
    for (input, (_, shape)) in inputs.iter_mut().zip(ports(&model, Side::Input)?) {
        input.shape = shape;
    }
    Ok(model)
}

fn transpose(model: &Model, turned: &[(usize, Vec<usize>)]) -> Result<Model, InferenceError> {
    let steps = Preprocessor::new(model)?;
    for (port, axes) in turned {
        // Each axis has a name of its own here, so that layouts with `?` and `...` can be turned.
        let layout = |axes: &mut dyn Iterator<Item = usize>| {
            let names: Vec<String> = axes.map(|axis| format!("d{axis}")).collect();
            format!("[{}]", names.join(","))
        };
        let ours = layout(&mut axes.iter().copied());
        let theirs = layout(&mut (0..axes.len()));
        steps.set_layouts(*port, &ours, &theirs)?;
    }
    steps.build()
}

/// Gives inputs the shapes that are wanted.
fn reshape(
    model: &mut Model,
    inputs: &mut [Port<'_>],
    wanted: Vec<Option<PartialShape>>,
) -> Result<(), ModelLoadError> {
    let mut changed = Vec::new();
    let mut texts = Vec::new();
    for (port, (input, wanted)) in inputs.iter_mut().zip(wanted).enumerate() {
        if let Some(shape) = wanted
            && input.shape.as_ref() != Some(&shape)
        {
            texts.push(format!("{} {shape}", input.public));
            changed.push((port, shape.clone()));
            input.shape = Some(shape);
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    model
        .reshape(&changed)
        .map_err(|error| ModelLoadError::Reshape {
            wanted: texts.join(", "),
            source: error.into(),
        })
}

/// Reads name and shape of each input or output.
fn ports(model: &Model, side: Side) -> Result<Vec<(String, Option<PartialShape>)>, ModelLoadError> {
    let prefix = match side {
        Side::Input => "input_",
        // The name that clients of model servers know for an output without one.
        Side::Output => "out_",
    };
    let fail = |index| ModelLoadError::refused(format!("describe {side} {index} of the model"));
    (0..model.count(side).map_err(fail(0))?)
        .map(|index| {
            let fail = fail(index);
            let port = model.port(side, index).map_err(&fail)?;
            // A tensor without a name makes the call fail.
            let name = port.get_name().ok().filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| format!("{prefix}{index}"));
            Ok((name, port.get_shape().map_err(&fail)?))
        })
        .collect()
}
