//! A model file with what is to become of it: how it is read, and compiled.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{
    batch::BatchOutcome,
    device,
    error::ModelLoadError,
    ffi::{CompiledModel, Core, Model},
    names::TensorNames,
    options::LoadOptions,
    runtime_error::OpenVinoError,
};
use crate::tensor::Layout;

/// A model to load.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The servable's name, for thread names.
    pub name: &'a str,
    /// The model file, or the folder of formats that are one.
    pub model: &'a Path,
    /// The second file of formats that have two.
    pub weights: Option<&'a Path>,
    /// Options of the load.
    pub options: &'a LoadOptions,
    /// The names that clients use.
    pub names: &'a TensorNames,
    /// The layouts that the model file gives, by the model's own names.
    pub layouts: &'a BTreeMap<String, Layout>,
    /// The shapes that a request asks for, by the names and in the layouts that clients use; only
    /// those of inputs whose shape or batch is `auto` count.
    ///
    /// They are to be those of a request whose data is as large, since memory is set aside for
    /// them.
    pub asked: &'a [(String, Vec<usize>)],
    /// Keeps the model as read, to try the shapes of requests on from now on.
    pub guarded: bool,
    /// Batches of the load whose place it takes, which are not measured again; `None` for a load of its own.
    pub batches: Option<&'a BatchOutcome>,
}

/// Reads the model file.
pub(super) fn read(core: &mut Core, load: &Load<'_>) -> Result<Model, ModelLoadError> {
    let fail = |path: &Path, source| ModelLoadError::Read {
        path: path.to_owned(),
        source,
    };
    // The C interface takes texts, without zero characters.
    let text = |path| match Path::to_str(path) {
        Some(text) if !text.contains('\0') => Ok(text),
        _ => Err(fail(path, OpenVinoError::new("the path is not UTF-8"))),
    };
    let weights = load.weights.map(text).transpose()?;
    core.read_model_from_file(text(load.model)?, weights.unwrap_or_default())
        .map_err(|error| unread(load, error.into()))
}

/// Explains why the runtime does not read a model: it says the same of a file that it may not open as
/// of one that is broken.
fn unread(load: &Load<'_>, source: OpenVinoError) -> ModelLoadError {
    let mut files = files(load.model).chain(load.weights.map(Path::to_owned));
    if let Some((source, path)) = files.find_map(|path| Some((opened(&path).err()?, path))) {
        return ModelLoadError::Unreadable { path, source };
    }
    let path = load.model.to_owned();
    if let Some(weights) = source.stored_file().map(|file| path.with_file_name(file))
        && let Err(source) = opened(&weights)
    {
        return ModelLoadError::Weights {
            model: path,
            path: weights,
            source,
        };
    }
    let operators = source.operators();
    if operators.is_empty() {
        ModelLoadError::Read { path, source }
    } else {
        ModelLoadError::Operators {
            path,
            operators,
            source,
        }
    }
}

/// Returns the files that a model is read from: of a `SavedModel` those in its folder.
pub(super) fn files(model: &Path) -> impl Iterator<Item = PathBuf> {
    let (file, variables) = match model.is_dir() {
        true => (
            model.join("saved_model.pb"),
            fs::read_dir(model.join("variables")).ok(),
        ),
        false => (model.to_owned(), None),
    };
    let variables = variables.into_iter().flatten().flatten();
    std::iter::once(file).chain(variables.map(|entry| entry.path()))
}

/// Opens a file, as the runtime does; what is no plain file is left alone, since that may take forever.
fn opened(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path).map(drop),
        false => Ok(()),
    }
}

/// Compiles a model for the device of its options.
pub(super) fn compile(
    core: &mut Core,
    model: &Model,
    options: &LoadOptions,
) -> Result<CompiledModel, ModelLoadError> {
    core.compile_model(model, &options.device)
        .map_err(|error| ModelLoadError::Compile {
            device: options.device.clone(),
            known: device::available(core),
            source: error.into(),
        })
}
