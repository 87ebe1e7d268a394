//! A loaded version: its contents, how it is made, and its end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::Shared};
use tokio::sync::oneshot;

use super::{
    decoding::Decoding,
    ir::{IrFacts, RtInfo},
    labels, mapping,
    repository::{self, ModelFiles, RepositoryError},
    storage::SourceError,
    warmup,
};
use crate::{
    config::{StatefulConfig, Warmup},
    error::{Error, ErrorKind, chain},
    openvino::{self, BatchingFacts, Inspected, Load, LoadOptions, ModelLoadError, SavedVariables},
    sequence::Bounds,
    servable::{ServableInfo, TensorInfo},
    task::{self, Task},
};

/// Interval between checks for the end of the last request.
const LOOK: Duration = Duration::from_millis(10);

/// Source and options of a loaded version.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The version folder, or the model file.
    pub folder: PathBuf,
    /// Options of the load.
    pub options: LoadOptions,
    /// Settings of sequences, if the model has any.
    pub stateful: Option<StatefulConfig>,
    /// Requests that it answers before it serves.
    pub warmup: Vec<Warmup>,
}

/// Input shapes that a request asks for, by name.
pub(super) type Asked = Vec<(String, Vec<usize>)>;

/// A load in flight, for all who wait for it: the loaded version, or the failure's text.
pub(super) type SharedLoad = Shared<oneshot::Receiver<SharedOutcome>>;

/// Outcome of a load that several wait for.
pub(super) type SharedOutcome = Result<Arc<Loaded>, Arc<str>>;

/// Starts a load on its own: a client that leaves does not break it off for the others.
pub(super) fn start_shared(
    load: impl Future<Output = SharedOutcome> + Send + 'static,
) -> SharedLoad {
    let (done, outcome) = oneshot::channel();
    let load = async move {
        let _ = done.send(load.await);
    };
    Task::spawn(load).detach();
    outcome.shared()
}

/// A model version that can run.
pub struct Loaded {
    /// Inputs and outputs.
    pub info: ServableInfo,
    /// The `model_info` that the model file carries, if any.
    pub rt_info: Option<RtInfo>,
    /// Names of the scores, one per line, if there are any.
    pub labels: Option<Arc<str>>,
    /// Spec that it was loaded from.
    pub spec: Arc<Spec>,
    /// The shapes that a request asked for, if it was loaded for them.
    pub(super) asked: Asked,
    pub(super) runner: openvino::Runner,
    /// The variables, if states of sequences are tensors.
    pub(super) variables: Option<SavedVariables>,
    pub(crate) decoding: Decoding,
    /// Bytes of the outputs whose shapes are fixed, all together.
    pub(super) fixed_outputs: usize,
    /// Time until which sequences continue on it, since it takes no new ones.
    pub(super) left_until: OnceLock<Instant>,
}

/// Two are equal if they are the same load.
impl PartialEq for Loaded {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Error of a version that was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load version {number} of model `{model}`")]
pub struct VersionError {
    /// The model's name.
    pub model: String,
    /// The version.
    pub number: i64,
    /// Cause of a failed load.
    #[source]
    pub source: Box<VersionFailure>,
}

/// Cause of a failed load.
#[derive(Debug, thiserror::Error)]
pub enum VersionFailure {
    /// The version folder is invalid.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The files cannot be fetched from their source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The runtime refuses the model.
    #[error(transparent)]
    Load(#[from] ModelLoadError),
    /// The runtime refuses options that several models have.
    #[error("{}; {advice}", chain(source_error))]
    Shared {
        /// Error of the model.
        source_error: ModelLoadError,
        /// Next step.
        advice: Arc<str>,
    },
    /// The model cannot have the sequences of a `config.pbtxt`.
    #[error("{} has sequence_batching, and {reason}", file.display())]
    Sequences {
        /// The file.
        file: PathBuf,
        /// Reason, and next step.
        reason: &'static str,
    },
    /// The `config.pbtxt` of the model cannot be read.
    #[error("{0}; correct the file, or remove it to serve the model without its settings")]
    Settings(Arc<str>),
    /// A request before the first one failed.
    #[error(transparent)]
    Warmup(#[from] Error),
    /// The load ended in a bug of the runtime or of this server.
    #[error("Error while loading a model - the load ended in a panic")]
    Panicked,
}

impl VersionFailure {
    /// Returns the kind of the error for a client that asked for the load.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(ModelLoadError::Compile { .. } | ModelLoadError::Reshape { .. })
            | Self::Shared {
                source_error: ModelLoadError::Reshape { .. },
                ..
            } => ErrorKind::FailedPrecondition,
            _ => ErrorKind::Internal,
        }
    }
}

/// Returns the inputs and outputs of a version, without loading it. Blocks.
///
/// # Errors
///
/// Fails with the error of the repository, or that of the runtime before it would have compiled the
/// model.
pub fn inspect(
    name: &str,
    folder: &Path,
    options: &LoadOptions,
) -> Result<Inspected, VersionFailure> {
    let inspect = || {
        let load = openvino::inspect;
        let (mut inspected, (ir, doubt)) = with_load(name, folder, options, (&[], None), load)?;
        let labels = labels::read(folder, ir.rt_info.as_ref());
        let shapes = inspected.info.outputs.iter().map(|output| &output.shape);
        let misfit = labels.and_then(|labels| labels.misfit(shapes));
        let doubt = doubt.map(str::to_owned);
        let said = doubt
            .into_iter()
            .chain(misfit)
            .chain(rivals(folder, options));
        inspected.warnings.extend(said);
        Ok(inspected)
    };
    catch_unwind(AssertUnwindSafe(inspect)).unwrap_or(Err(VersionFailure::Panicked))
}

const REMEMBERS_NOTHING: &str = "served as stateful, but has no variables, so its sequences keep no state; omit stateful, \
                                 or export the model with its state as variables of OpenVINO IR";

const SHARES_STATE: &str = "has variables, but is not served as stateful: requests of all clients change the same state; \
                            set stateful for sequences";

/// Returns what to say of other models in the folder of a version, if nothing chooses between them.
fn rivals(folder: &Path, options: &LoadOptions) -> Option<String> {
    let is_open = options.model_file.is_none() && folder.is_dir();
    let files = is_open.then(|| repository::files(folder).ok()).flatten()?;
    repository::rivals(folder, &files)
}

/// Returns what a user probably did not mean by how a model is served.
fn doubt(files: &ModelFiles, ir: &IrFacts, options: &LoadOptions) -> Option<&'static str> {
    match (
        options.stateful,
        has_variables(files, ir, options.low_latency),
    ) {
        (true, Some(false)) => Some(REMEMBERS_NOTHING),
        (false, Some(true)) => Some(SHARES_STATE),
        _ => None,
    }
}

const NO_STATE: &str = "the model has no variables to keep a state in; export the model with its state, or remove \
                        sequence_batching from the file to serve each request by itself";

const AUTO_SHAPE: &str =
    "a shape or batch_size of auto is for models without state; set lengths or a range";

/// Returns whether a model has variables, as the files of its highest version say; `None` if they do not. Blocks.
pub(crate) fn has_state(base_path: &Path, options: &LoadOptions) -> Option<bool> {
    let versions = repository::versions(base_path).ok()?;
    let (_, folder) = versions.last()?;
    let files = repository::files_as(folder, options.model_file.as_deref()).ok()?;
    has_variables(&files, &IrFacts::read(&files), options.low_latency)
}

/// Returns whether a model has variables. The runtime reads formats other than its own without any, unless it makes
/// some of loops.
fn has_variables(files: &ModelFiles, ir: &IrFacts, low_latency: bool) -> Option<bool> {
    let found = match files.ir() {
        Some(_) => ir.has_variables,
        None => Some(false),
    };
    found.filter(|has_any| *has_any || !low_latency)
}

/// Refuses a model that cannot have the sequences that a `config.pbtxt` asks for.
fn check_sequences(
    files: &ModelFiles,
    ir: &IrFacts,
    options: &LoadOptions,
) -> Result<(), VersionFailure> {
    let Some(file) = &options.sequences_file else {
        return Ok(());
    };
    let reason = match has_variables(files, ir, options.low_latency) {
        Some(false) => NO_STATE,
        _ if options.is_auto() => AUTO_SHAPE,
        _ => return Ok(()),
    };
    Err(VersionFailure::Sequences {
        file: file.clone(),
        reason,
    })
}

/// Returns why a model cannot have the settings that its `config.pbtxt` asks for, if it cannot. Blocks.
pub fn settings_refusal(base_path: &Path, options: &LoadOptions) -> Option<VersionFailure> {
    if let Some(error) = &options.settings_error {
        return Some(VersionFailure::Settings(Arc::clone(error)));
    }
    let versions = repository::versions(base_path).ok()?;
    let (_, folder) = versions.last()?;
    let files = repository::files_as(folder, options.model_file.as_deref()).ok()?;
    check_sequences(&files, &IrFacts::read(&files), options).err()
}

/// Adds the next step to a refusal of options that are those of several models.
fn advised(error: ModelLoadError, options: &LoadOptions) -> VersionFailure {
    let is_misfit = match &error {
        ModelLoadError::Reshape { .. } => true,
        ModelLoadError::Other(error) => error.kind() == ErrorKind::InvalidArgument,
        _ => false,
    };
    match options.advice.clone().filter(|_| is_misfit) {
        Some(advice) => VersionFailure::Shared {
            source_error: error,
            advice,
        },
        None => error.into(),
    }
}

/// Assembles the load of a version for the runtime, which may take the place of a runner; returns what came of it, what the file says of the model, and
/// what a user probably did not mean.
fn with_load<T>(
    name: &str,
    folder: &Path,
    options: &LoadOptions,
    (asked, before): (&[(String, Vec<usize>)], Option<&openvino::Runner>),
    then: impl FnOnce(Load<'_>) -> Result<T, ModelLoadError>,
) -> Result<(T, (IrFacts, Option<&'static str>)), VersionFailure> {
    if let Some(error) = &options.settings_error {
        return Err(VersionFailure::Settings(Arc::clone(error)));
    }
    let files = repository::files_as(folder, options.model_file.as_deref())?;
    let folder = files.folder();
    let names = mapping::read(folder).map_err(|error| {
        let file = mapping::path(folder);
        let error = Error::invalid(format!("cannot use {}", file.display())).with_source(error);
        ModelLoadError::Other(error)
    })?;
    let (model, weights) = files.paths();
    let ir = IrFacts::read(&files);
    check_sequences(&files, &ir, options)?;
    let batches = before.and_then(openvino::Runner::batch_outcome);
    let done = then(Load {
        name,
        model,
        weights,
        options,
        names: &names,
        layouts: &ir.layouts,
        asked,
        // The spare model of the one before does.
        guarded: before.is_some_and(|before| before.health().guard().is_none()),
        batches: batches.as_ref(),
    });
    let done = done.map_err(|error| advised(error, options))?;
    let doubt = doubt(&files, &ir, options);
    Ok((done, (ir, doubt)))
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
        Self::load_after(None, model, number, spec, asked).await
    }

    /// Loads the same version again, to take its place: shapes are tried before they run from now on.
    pub(super) async fn load_again(
        self: &Arc<Self>,
        model: &str,
        number: i64,
    ) -> Result<Arc<Self>, VersionError> {
        let (spec, asked) = (&self.spec, self.asked.clone());
        Self::load_after(Some(Arc::clone(self)), model, number, spec, asked).await
    }

    async fn load_after(
        before: Option<Arc<Self>>,
        model: &str,
        number: i64,
        spec: &Arc<Spec>,
        asked: Asked,
    ) -> Result<Arc<Self>, VersionError> {
        let name = model.to_owned();
        let from = Arc::clone(spec);
        let compile = move || Self::compile(before.as_deref(), &name, &from, asked);
        let load = move || catch_unwind(AssertUnwindSafe(compile));
        let loaded = match task::heavy("load", load).await {
            Ok(Ok(loaded)) => {
                let loaded = Arc::new(loaded);
                // A load for the shapes of a request has that one to answer, and warm-up files are of other shapes.
                let warmups = match loaded.asked.is_empty() {
                    true => &spec.warmup[..],
                    false => &[],
                };
                match warmup::run(&loaded, warmups).await {
                    Ok(()) => Ok(loaded),
                    Err(error) => {
                        loaded.drain().await;
                        Err(error.into())
                    }
                }
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(VersionFailure::Panicked),
        };
        loaded.map_err(|source| VersionError {
            model: model.to_owned(),
            number,
            source: Box::new(source),
        })
    }

    /// Compiles a version; `before` is the load whose place it takes after a failed inference.
    fn compile(
        before: Option<&Self>,
        name: &str,
        spec: &Arc<Spec>,
        asked: Asked,
    ) -> Result<Self, VersionFailure> {
        let before = before.map(|before| &before.runner);
        let (compiled, (ir, doubt)) = with_load(
            name,
            &spec.folder,
            &spec.options,
            (&asked, before),
            openvino::load,
        )?;
        if let Some(guard) = before.and_then(|before| before.health().guard()) {
            compiled.runner.health().watch(Some(Arc::clone(guard)));
        }
        let options = &spec.options;
        // Loads for the shapes of requests would say it again and again.
        let is_first = asked.is_empty();
        if let Some(doubt) = doubt.filter(|_| is_first) {
            tracing::warn!(model = name, "{doubt}");
        }
        if let Some(rivals) = rivals(&spec.folder, options).filter(|_| is_first) {
            tracing::warn!(model = name, "{rivals}");
        }
        if compiled.from_cache {
            tracing::info!(model = name, "taken from the cache of compiled models");
        }
        let labels = labels::read(&spec.folder, ir.rt_info.as_ref());
        let shapes = compiled.info.outputs.iter().map(|output| &output.shape);
        let misfit = labels.as_ref().and_then(|labels| labels.misfit(shapes));
        if let Some(misfit) = misfit.filter(|_| is_first) {
            tracing::warn!(model = name, "{misfit}");
        }
        let outputs = compiled.info.outputs.iter();
        let fixed = outputs.filter_map(TensorInfo::fixed_bytes);
        Ok(Self {
            fixed_outputs: fixed.sum(),
            left_until: OnceLock::new(),
            info: compiled.info,
            labels: labels.map(|labels| labels.text),
            rt_info: ir.rt_info,
            spec: Arc::clone(spec),
            asked,
            runner: compiled.runner,
            variables: compiled.variables,
            decoding: Decoding::new(
                options.max_image_pixels,
                options.max_waiting,
                options.budget.clone(),
            ),
        })
    }

    /// Returns the number of inferences that may run at once.
    pub fn slots(&self) -> usize {
        self.runner.slots()
    }

    /// Returns the number of requests that wait for a free infer request.
    pub fn in_queue(&self) -> usize {
        self.runner.in_queue()
    }

    /// Returns the number of execution streams that the device has for it.
    pub fn streams(&self) -> u32 {
        self.runner.streams()
    }

    /// Describes the batches of requests that wait, if the settings ask for any.
    pub fn batching(&self) -> Option<BatchingFacts> {
        self.runner.batching()
    }

    /// Returns whether requests run on the states of sequences.
    pub fn is_stateful(&self) -> bool {
        self.spec.stateful.is_some()
    }

    /// Returns whether its batch size or a shape is taken from each request.
    pub fn is_auto(&self) -> bool {
        self.spec.options.is_auto()
    }

    /// Returns whether other servers can go on with its sequences, given a store.
    #[must_use]
    pub fn shares_sequences(&self) -> bool {
        self.variables.is_some()
    }

    /// Returns whether another load may take its place while requests run, since inferences of others fail or are stuck.
    pub(super) fn may_be_replaced(&self) -> bool {
        let is_limited = self.spec.options.inference_timeout.is_some();
        self.runner.health().may_be_spoilt() || is_limited
    }

    /// Returns whether another load of the version can go on with its sequences.
    pub(super) fn has_same_states(&self, other: &Self) -> bool {
        let digest = |loaded: &Self| loaded.variables.as_ref().map(|it| it.digest().to_owned());
        digest(self) == digest(other) && self.info.is_same_but_for_shapes(&other.info)
    }

    /// Notes that it takes no new sequences, and for how long others continue.
    pub(super) fn leave(&self, limit: Duration) {
        if let Some(until) = Instant::now().checked_add(limit) {
            let _ = self.left_until.set(until);
        }
    }

    /// Returns for how long its sequences still continue; `None` if it takes new ones, or there is no end.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let until = self.left_until.get()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Returns whether idle sequences are removed.
    pub fn cleans_sequences(&self) -> bool {
        let stateful = self.spec.stateful.as_ref();
        stateful.is_some_and(|config| config.idle_sequence_cleanup)
    }

    /// Returns the bounds of its sequences.
    pub(crate) fn bounds(&self) -> Bounds {
        let stateful = self.spec.stateful.as_ref();
        Bounds {
            sequences: stateful.map_or(0, |config| config.max_sequence_number),
            waiting: self.spec.options.max_waiting,
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
