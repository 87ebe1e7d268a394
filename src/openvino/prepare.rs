//! Preparation of a model between reading and compiling: public names, transposition and
//! preprocessing of inputs, shapes.
//!
//! Layouts come before shapes, since configured shapes are those that clients see. Outputs are
//! transposed when they are read (`slot`): the C interface of the runtime has no layouts for
//! outputs.

use openvino::InferenceError;

use super::{
    convert,
    error::ModelLoadError,
    ffi::{self, Model, Preprocessor},
    layouts,
    load::Load,
    names::{self, Port, Stale},
    options::LayoutOption,
    preprocessing, shapes,
};
use crate::tensor::{Layout, PartialShape};

/// A model that can be compiled.
pub(super) struct Prepared<'a> {
    pub(super) model: Model,
    /// Its inputs in its own order, as clients see them, with the layouts configured for them.
    pub(super) inputs: Vec<(Port, Option<&'a LayoutOption>)>,
    /// Its outputs, likewise, but with the shapes that the model gives them.
    pub(super) outputs: Vec<(Port, Option<&'a LayoutOption>)>,
    /// Names for tensors that it does not have.
    pub(super) stale: Vec<Stale>,
}

pub(super) fn prepare<'a>(model: Model, load: &Load<'a>) -> Result<Prepared<'a>, ModelLoadError> {
    let mut stale = Vec::new();
    let names = load.names;
    let mut inputs = names::publish("input", inputs_of(&model)?, &names.inputs, &mut stale)?;
    let outputs = names::publish("output", outputs_of(&model)?, &names.outputs, &mut stale)?;
    let (mut of_inputs, of_outputs) = layouts::choose(&inputs, &outputs, &load.options.layouts)?;
    let mut model = if load.options.preprocessing.is_empty() {
        turn(model, &mut inputs, &of_inputs)?
    } else {
        preprocess(&model, &mut inputs, &mut of_inputs, load)?
    };
    let known: Vec<Layout> = inputs
        .iter()
        .zip(&of_inputs)
        .map(|(input, option)| layouts::public(input, *option, load.layouts))
        .collect();
    let wanted = shapes::decide(&inputs, &known, load.options, load.asked)?;
    reshape(&mut model, &mut inputs, wanted)?;
    Ok(Prepared {
        model,
        inputs: inputs.into_iter().zip(of_inputs).collect(),
        outputs: outputs.into_iter().zip(of_outputs).collect(),
        stale,
    })
}

/// Adds the preprocessing of the one input, transposition included.
fn preprocess<'a>(
    model: &Model,
    inputs: &mut Vec<Port>,
    options: &mut Vec<Option<&'a LayoutOption>>,
    load: &Load<'a>,
) -> Result<Model, ModelLoadError> {
    let option = options.first().copied().flatten();
    let own = inputs
        .first()
        .and_then(|input| load.layouts.get(&input.own));
    let wanted = &load.options.preprocessing;
    let model = preprocessing::add(model, inputs, option, own, wanted)?;
    for (input, (_, shape)) in inputs.iter_mut().zip(inputs_of(&model)?) {
        input.shape = shape;
    }
    // Planes of one image have its layout.
    options.resize(inputs.len(), option);
    Ok(model)
}

/// Adds the transposition of inputs that clients have in another layout than the model.
fn turn(
    model: Model,
    inputs: &mut [Port],
    options: &[Option<&LayoutOption>],
) -> Result<Model, ModelLoadError> {
    let mut turned = Vec::new();
    for (port, (input, option)) in inputs.iter().zip(options).enumerate() {
        if let Some(axes) = layouts::turned(input, *option)? {
            turned.push((port, axes));
        }
    }
    if turned.is_empty() {
        return Ok(model);
    }
    let model = add_transposition(&model, &turned)
        .map_err(|error| ModelLoadError::Transpose(error.into()))?;
    for (input, (_, shape)) in inputs.iter_mut().zip(inputs_of(&model)?) {
        input.shape = shape;
    }
    Ok(model)
}

fn add_transposition(
    model: &Model,
    turned: &[(usize, Vec<usize>)],
) -> Result<Model, InferenceError> {
    let steps = Preprocessor::new(model)?;
    for (port, axes) in turned {
        // Each axis has a name of its own here, so that layouts with `?` and `...` can be turned.
        let layout = |axes: &mut dyn Iterator<Item = usize>| {
            let names: Vec<String> = axes.map(|axis| format!("d{axis}")).collect();
            format!("[{}]", names.join(","))
        };
        let ours = layout(&mut axes.iter().copied());
        let theirs = layout(&mut (0..axes.len()));
        steps.input(*port)?.set_layouts(&ours, &theirs)?;
    }
    steps.build()
}

/// Gives inputs the shapes that are wanted.
fn reshape(
    model: &mut Model,
    inputs: &mut [Port],
    wanted: Vec<Option<PartialShape>>,
) -> Result<(), ModelLoadError> {
    let mut changed = Vec::new();
    for (port, (input, wanted)) in inputs.iter_mut().zip(wanted).enumerate() {
        if let Some(shape) = wanted
            && input.shape.as_ref() != Some(&shape)
        {
            changed.push((port, input.public.clone(), shape.clone()));
            input.shape = Some(shape);
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    set_shapes(model, &changed).map_err(|error| ModelLoadError::Reshape {
        wanted: changed
            .iter()
            .map(|(_, name, shape)| (name.clone(), shape.clone()))
            .collect(),
        source: error.into(),
    })
}

fn set_shapes(
    model: &mut Model,
    shapes: &[(usize, String, PartialShape)],
) -> Result<(), InferenceError> {
    let shapes = shapes
        .iter()
        .map(|(port, _, shape)| (*port, convert::ranges(shape)))
        .collect::<Vec<_>>();
    model.reshape(&shapes)
}

/// Reads name and shape of each input.
fn inputs_of(model: &Model) -> Result<Vec<(String, Option<PartialShape>)>, ModelLoadError> {
    ports(
        "input",
        model.get_inputs_len(),
        |port| model.get_input_by_index(port),
        "input_",
    )
}

fn outputs_of(model: &Model) -> Result<Vec<(String, Option<PartialShape>)>, ModelLoadError> {
    ports(
        "output",
        model.get_outputs_len(),
        |port| model.get_output_by_index(port),
        // The name that clients of model servers know for an output without one.
        "out_",
    )
}

fn ports(
    direction: &'static str,
    count: Result<usize, InferenceError>,
    node: impl Fn(usize) -> Result<ffi::Port, InferenceError>,
    prefix: &str,
) -> Result<Vec<(String, Option<PartialShape>)>, ModelLoadError> {
    let fail = |port| {
        move |error: InferenceError| ModelLoadError::Port {
            direction,
            port,
            source: error.into(),
        }
    };
    (0..count.map_err(fail(0))?)
        .map(|port| {
            let node = node(port).map_err(fail(port))?;
            // A tensor without a name makes the call fail.
            let name = node
                .get_name()
                .ok()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| format!("{prefix}{port}"));
            let shape = node.get_shape().map_err(fail(port))?;
            Ok((name, shape.as_deref().map(convert::partial_shape)))
        })
        .collect()
}
