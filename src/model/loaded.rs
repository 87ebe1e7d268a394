//! What a version has once it is loaded, how it is made, and how it goes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    decoding::Decoding,
    layouts, mapping,
    repository::{self, ModelFiles, RepositoryError},
    rt_info::{self, RtInfo},
    storage::SourceError,
    variables,
    warmup::{self, WarmupError},
};
use crate::{
    config::{StatefulConfig, Warmup},
    error::ErrorKind,
    openvino::{self, Compiled, Guard, Load, ModelLoadError, LoadOptions},
    sequence::Bounds,
    servable::{ServableInfo, TensorInfo},
    task,
    tensor::byte_size,
};

/// How often it is looked whether the last request has left.
const LOOK: Duration = Duration::from_millis(10);

/// What a version is loaded from.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The version folder, or the model file.
    pub folder: PathBuf,
    /// How to load the model.
    pub options: LoadOptions,
    /// How sequences are kept, if the model has any.
    pub stateful: Option<StatefulConfig>,
    /// Requests that it answers before it serves.
    pub warmup: Vec<Warmup>,
}

/// Whether shapes are tried before they run.
enum Watch {
    /// They are not, since no inference has failed.
    Off,
    /// On a spare model that is to be made.
    New,
    /// On that of the compiled model before.
    By(Arc<Guard>),
}

/// Input shapes that a request asks for, by name.
pub(super) type Asked = Vec<(String, Vec<usize>)>;

/// A model version that can run.
pub struct Loaded {
    /// Inputs and outputs.
    pub info: ServableInfo,
    /// The `model_info` that the model file carries, if any.
    pub rt_info: Option<RtInfo>,
    /// What it was loaded from.
    pub spec: Arc<Spec>,
    /// The shapes that a request asked for, if it was loaded for them.
    pub(super) asked: Asked,
    pub(super) runner: openvino::Runner,
    pub(super) decoding: Decoding,
    /// Bytes of the outputs whose shapes are fixed, all together.
    pub(super) fixed_outputs: usize,
}

/// Returns the bytes of a tensor that says how many it has.
fn fixed_bytes(tensor: &TensorInfo) -> Option<usize> {
    byte_size(tensor.dtype, &tensor.shape.fixed()?).ok()?
}

/// Why a version was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load version {number} of model `{model}`")]
pub struct VersionError {
    /// The model's name.
    pub model: String,
    /// The version.
    pub number: i64,
    /// What went wrong.
    #[source]
    pub source: Box<VersionFault>,
}

/// What went wrong with a load.
#[derive(Debug, thiserror::Error)]
pub enum VersionFault {
    /// The version folder is not as it must be.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The files do not come from where they are.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The runtime does not take the model.
    #[error(transparent)]
    Load(#[from] ModelLoadError),
    /// A request before the first one failed.
    #[error(transparent)]
    Warmup(#[from] WarmupError),
    /// The load ended in a bug of the runtime or of this server.
    #[error("Error while loading a model - the load ended in a panic")]
    Panicked,
}

impl VersionFault {
    /// Returns what a client that asked for the load can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(ModelLoadError::Compile { .. } | ModelLoadError::Reshape { .. }) => {
                ErrorKind::FailedPrecondition
            }
            Self::Repository(_)
            | Self::Source(_)
            | Self::Load(_)
            | Self::Warmup(_)
            | Self::Panicked => ErrorKind::Internal,
        }
    }
}

/// Tells what the inputs and outputs of a version are, without loading it. Blocks.
///
/// # Errors
///
/// Fails with what the repository said, or the runtime before it would have compiled the model.
pub fn inspect(
    name: &str,
    folder: &Path,
    options: &LoadOptions,
) -> Result<ServableInfo, VersionFault> {
    let files = repository::files(folder)?;
    let inspect = || with_load(name, &files, options, (&[], false), openvino::inspect);
    catch_unwind(AssertUnwindSafe(inspect)).unwrap_or(Err(VersionFault::Panicked))
}

/// Puts together what the runtime is to know of a version.
fn with_load<T>(
    name: &str,
    files: &ModelFiles,
    options: &LoadOptions,
    (asked, guarded): (&[(String, Vec<usize>)], bool),
    then: impl FnOnce(Load<'_>) -> Result<T, ModelLoadError>,
) -> Result<T, VersionFault> {
    let folder = files.folder();
    let names = mapping::read(folder).map_err(|error| ModelLoadError::Mapping {
        path: mapping::path(folder),
        source: error.into(),
    })?;
    let (model, weights) = files.paths();
    let done = then(Load {
        name,
        model,
        weights,
        options,
        names: &names,
        layouts: &layouts::read(files),
        asked,
        guarded,
    });
    Ok(done?)
}

impl Loaded {
    /// Loads a version and runs its warm-up requests.
    ///
    /// `asked` are the shapes that a request wants of inputs whose shape or batch is `auto`.
    ///
    /// # Errors
    ///
    /// Fails with what the repository or the runtime said.
    pub async fn load(
        model: &str,
        number: i64,
        spec: &Arc<Spec>,
        asked: Asked,
    ) -> Result<Arc<Self>, VersionError> {
        Self::load_watched(model, number, spec, asked, Watch::Off).await
    }

    /// Loads what was loaded before, as it was, to take its place: shapes are tried before they
    /// run from now on.
    pub(super) async fn load_again(
        &self,
        model: &str,
        number: i64,
    ) -> Result<Arc<Self>, VersionError> {
        let watch = self.runner.guard().map_or(Watch::New, Watch::By);
        Self::load_watched(model, number, &self.spec, self.asked.clone(), watch).await
    }

    async fn load_watched(
        model: &str,
        number: i64,
        spec: &Arc<Spec>,
        asked: Asked,
        watch: Watch,
    ) -> Result<Arc<Self>, VersionError> {
        let name = model.to_owned();
        let from = Arc::clone(spec);
        let compile = move || Self::compile(&name, &from, asked, watch);
        let load = move || catch_unwind(AssertUnwindSafe(compile));
        let loaded = match task::heavy("load", load).await {
            Ok(Ok(loaded)) => {
                let loaded = Arc::new(loaded);
                match warmup::run(&loaded, &spec.warmup).await {
                    Ok(()) => Ok(loaded),
                    Err(error) => {
                        loaded.drain().await;
                        Err(error.into())
                    }
                }
            }
            Ok(Err(fault)) => Err(fault),
            Err(_) => Err(VersionFault::Panicked),
        };
        loaded.map_err(|source| VersionError {
            model: model.to_owned(),
            number,
            source: Box::new(source),
        })
    }

    fn compile(
        name: &str,
        spec: &Arc<Spec>,
        asked: Asked,
        watch: Watch,
    ) -> Result<Self, VersionFault> {
        let files = repository::files(&spec.folder)?;
        let compiled = with_load(
            name,
            &files,
            &spec.options,
            (&asked, matches!(watch, Watch::New)),
            openvino::load,
        )?;
        let Compiled {
            info,
            runner,
            guard,
            from_cache,
        } = compiled;
        match watch {
            Watch::Off => {}
            Watch::New => runner.watch(guard),
            Watch::By(guard) => runner.watch(Some(guard)),
        }
        let options = &spec.options;
        if options.stateful && !options.low_latency && variables::exist(&files) == Some(false) {
            tracing::warn!(
                model = name,
                "served as stateful, and has no variables: its sequences remember nothing"
            );
        }
        if from_cache {
            tracing::info!(model = name, "taken from the cache of compiled models");
        }
        Ok(Self {
            fixed_outputs: info.outputs.iter().filter_map(fixed_bytes).sum(),
            info,
            rt_info: rt_info::read(&files),
            spec: Arc::clone(spec),
            asked,
            runner,
            decoding: Decoding::new(
                options.most_image_pixels,
                options.most_waiting,
                options.budget.clone(),
            ),
        })
    }

    /// Returns how many inferences may run at once.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.runner.slots()
    }

    /// Returns how many execution streams the device has for it.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.runner.streams()
    }

    /// Tells whether requests run on the states of sequences.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.spec.stateful.is_some()
    }

    /// Tells whether its batch size or a shape is that of each request.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.spec.options.is_auto()
    }

    /// Tells whether its sequences are removed when nobody uses them.
    #[must_use]
    pub fn cleans_sequences(&self) -> bool {
        let stateful = self.spec.stateful.as_ref();
        stateful.is_some_and(|config| config.idle_sequence_cleanup)
    }

    /// Returns the bounds of its sequences.
    pub(crate) fn bounds(&self) -> Bounds {
        let stateful = self.spec.stateful.as_ref();
        Bounds {
            sequences: stateful.map_or(0, |config| config.max_sequence_number),
            waiting: self.spec.options.most_waiting,
        }
    }

    /// Waits until the last request has left it, and frees it off the async workers.
    pub(super) async fn drain(self: Arc<Self>) {
        // Nobody can find it any more, so the count only falls.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(LOOK).await;
        }
        task::heavy("unload", move || drop(self)).await;
    }
}
