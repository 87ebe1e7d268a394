//! The low latency transformation: operators that iterate over the steps of a sequence
//! (`TensorIterator`, `Loop`) become one step, with what they carry from step to step in variables.
//!
//! The pass is OpenVINO's own, `LowLatency2`. The C interface does not have it and the Python
//! package does, which is where the runtime of the wheel lies: so [`python`] runs `unroll.py`,
//! which saves the transformed model, and the load continues from there.

mod python;

use std::{fs, io, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use self::python::Python;
use super::{
    error::ModelLoadError,
    ffi::Core,
    layouts,
    model_file::{self, Load},
    names::Port,
    prepare, runtime,
    runtime_error::OpenVinoError,
};
use crate::{
    error::{Error, Result},
    tensor::{Dim, PartialShape},
};

/// Time limit of the transformation. Most of it goes to reading and writing the weights.
const LIMIT: Duration = Duration::from_secs(300);

const SCRIPT: &str = include_str!("unroll.py");

/// Input of the script.
#[derive(Debug, Serialize)]
struct Request<'a> {
    model: &'a Path,
    weights: Option<&'a Path>,
    extension: Option<&'a Path>,
    /// Seconds after which it ends by itself.
    seconds: u64,
    /// The process that removes the folder, if it is still there.
    server: u32,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// An input or output, by the model's own name and in its own layout.
#[derive(Debug, Serialize, PartialEq)]
struct Tensor {
    name: String,
    /// Shape as OpenVINO writes it; `None` if the model leaves even the rank open.
    shape: Option<String>,
}

/// Outcome of the script.
#[derive(Debug, Deserialize)]
struct Outcome {
    /// Number of operators that iterated.
    found: usize,
    /// Operators that still iterate.
    kept: Vec<Kept>,
}

#[derive(Debug, Deserialize)]
struct Kept {
    name: String,
    /// Number of iterations; -1 if unknown.
    iterations: i64,
}

/// Unrolls the loops of a model into one step, and lets `then` read it.
///
/// # Errors
///
/// Fails as reading and shaping the model as it is would, and if the pass cannot be run.
pub(super) fn read<T>(
    core: &mut Core,
    load: &Load<'_>,
    then: impl FnOnce(&mut Core, &Load<'_>) -> Result<T, ModelLoadError>,
) -> Result<T, ModelLoadError> {
    // Errors in names, layouts and shapes are reported as for any other model. The prepared model
    // determines the shapes that the pass is to see.
    let prepared = prepare::prepare(model_file::read(core, load)?, load, [0; 2])?;
    let request = Request {
        model: load.model,
        weights: load.weights,
        extension: load.options.cpu_extension.as_deref(),
        // Later than the server would end it.
        seconds: LIMIT.as_secs() + 10,
        server: std::process::id(),
        inputs: own(&prepared.inputs)?,
        outputs: own(&prepared.outputs)?,
    };
    drop(prepared.model);

    let outcome = folder().and_then(|folder| Ok((unroll(&request, folder.path())?, folder)));
    let (outcome, folder) = outcome.map_err(|error| {
        Error::internal("cannot apply low_latency_transformation").with_source(error)
    })?;
    if outcome.found == 0 {
        tracing::warn!(
            model = load.name,
            "low_latency_transformation changes nothing: the model has no TensorIterator or Loop"
        );
        return then(core, load);
    }
    if outcome.kept.is_empty() {
        tracing::info!(model = load.name, loops = outcome.found, "unrolled");
    } else {
        tracing::warn!(model = load.name, "{}", kept(&outcome.kept));
    }
    let model = folder.path().join("model.xml");
    then(
        core,
        &Load {
            model: &model,
            weights: None,
            ..*load
        },
    )
}

/// Describes tensors as the model itself has them.
fn own(ports: &[Port<'_>]) -> Result<Vec<Tensor>, ModelLoadError> {
    ports
        .iter()
        .map(|port| {
            let mut shape = port.shape.clone();
            if let (Some(shape), Some(axes)) = (&mut shape, layouts::turned(port)?) {
                let public = std::mem::take(&mut shape.0);
                let mut turned: Vec<_> = axes.into_iter().zip(public).collect();
                turned.sort_unstable_by_key(|(axis, _)| *axis);
                shape.0.extend(turned.into_iter().map(|(_, dim)| dim));
            }
            Ok(Tensor {
                name: port.own.clone(),
                shape: shape.as_ref().map(shape_text),
            })
        })
        .collect()
}

/// Writes a shape as OpenVINO reads it: `[1,2..8,?]`.
fn shape_text(shape: &PartialShape) -> String {
    let dims: Vec<String> = shape
        .0
        .iter()
        .map(|dim| match *dim {
            Dim::Fixed(length) => length.to_string(),
            Dim::Range(low, usize::MAX) => format!("{low}.."),
            Dim::Range(low, high) => format!("{low}..{high}"),
            Dim::Any => "?".to_owned(),
        })
        .collect();
    format!("[{}]", dims.join(","))
}

/// Returns the message about the loops that are left, and about what to do.
fn kept(loops: &[Kept]) -> String {
    let loops: Vec<String> = loops
        .iter()
        .map(|one| match one.iterations {
            ..0 => format!("{} runs as often as the request asks for", one.name),
            times => format!("{} runs {times} times", one.name),
        })
        .collect();
    format!(
        "low_latency_transformation keeps loops that run more than once: {}; to have one step a \
         request, set the option `shape` so that inputs have one step",
        loops.join(", ")
    )
}

/// Prefix of the names of our folders; the number of the process follows.
const PREFIX: &str = "ovms-unrolled-";

/// Removes the folders of servers that ended during a load.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        // Of other users' nothing can be removed, and those of systems without /proc stay.
        if let Some(process) = process.and_then(|process| process.parse::<u32>().ok())
            && Path::new("/proc/self").exists()
            && !Path::new("/proc").join(process.to_string()).exists()
        {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Makes a folder that only this user can read and that is removed when dropped.
pub(super) fn folder() -> Result<tempfile::TempDir> {
    sweep();
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempdir()
        .map_err(|error| unusable(&std::env::temp_dir(), error))
}

/// Runs the pass; the model that comes of it is in the folder then.
fn unroll(request: &Request<'_>, folder: &Path) -> Result<Outcome> {
    let unusable = |error| unusable(folder, error);
    let script = folder.join("unroll.py");
    fs::write(&script, SCRIPT).map_err(unusable)?;
    let text = serde_json::to_vec(request).map_err(failed)?;
    fs::write(folder.join("request.json"), text).map_err(unusable)?;
    Python::of_runtime(runtime::opened()).run(&script, LIMIT)?;
    let text = fs::read(folder.join("result.json")).map_err(unusable)?;
    serde_json::from_slice(&text).map_err(failed)
}

/// Makes the error of a folder that cannot be used; `TMPDIR` names another one.
pub(super) fn unusable(folder: &Path, error: io::Error) -> Error {
    let folder = folder.display();
    Error::internal(format!(
        "cannot use the folder for temporary files {folder}"
    ))
    .with_source(error)
}

/// Makes an error of what OpenVINO or the process said.
fn failed(error: impl ToString) -> Error {
    Error::internal(OpenVinoError::new(&error.to_string()).to_string())
}

#[cfg(test)]
mod tests {
    use super::{Kept, kept, own, shape_text};
    use crate::{
        openvino::{names::Port, options::LayoutOption},
        tensor::{Dim, Layout, PartialShape},
    };

    #[test]
    fn shapes_are_written_as_openvino_reads_them() {
        let shape = [
            Dim::Fixed(1),
            Dim::Range(2, 8),
            Dim::Range(3, usize::MAX),
            Dim::Any,
        ];
        assert_eq!(shape_text(&PartialShape(shape.into())), "[1,2..8,3..,?]");
        assert_eq!(shape_text(&PartialShape(Vec::new())), "[]");
    }

    #[test]
    fn tensors_are_described_in_the_models_own_layout() {
        let port = |shape, layout| Port {
            own: "x".to_owned(),
            public: "image".to_owned(),
            shape,
            layout,
        };
        let shape = PartialShape([1, 20, 30, 3].map(Dim::Fixed).into());
        let layout = |text| Layout::parse(text).unwrap();
        let turned = LayoutOption {
            tensor: layout("NHWC"),
            model: Some(layout("NCHW")),
        };
        let ports = [
            port(Some(shape.clone()), Some(&turned)),
            port(Some(shape), None),
            port(None, None),
        ];
        let tensors = own(&ports).unwrap();
        let reported: Vec<_> = tensors
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.shape.as_deref()))
            .collect();
        assert_eq!(
            reported,
            [
                ("x", Some("[1,3,20,30]")),
                ("x", Some("[1,20,30,3]")),
                ("x", None)
            ]
        );
    }

    #[test]
    fn loops_that_are_left_are_named() {
        let one = |name: &str, iterations| Kept {
            name: name.to_owned(),
            iterations,
        };
        insta::assert_snapshot!(
            kept(&[one("ti", 12), one("loop", -1)]),
            @"low_latency_transformation keeps loops that run more than once: ti runs 12 times, loop runs as often as the request asks for; to have one step a request, set the option `shape` so that inputs have one step"
        );
    }
}
