//! The stateful path: a request finds its sequence, waits for its turn, and runs on the state.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    infer::Failed,
    keeper::{ModelTurn, Ownership},
    loaded::Loaded,
    overloaded,
    version::Version,
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::{RequestRecord, RunEnd, Times},
    openvino::{Hold, LoadOptions, SequenceState, SlotQueue, StateMode, Work},
    quota::ClientPlace,
    request::InferRequest,
    sequence::{Begun, SEQUENCE_ID, SequenceRefusal, Sequences},
    tensor::{DataType, Tensor, TensorMap},
};

/// Maximum number of runs of a step while inferences of others fail.
const MAX_ROUNDS: usize = 4;

/// The sequences of a model version.
pub type OfVersion = Sequences<Arc<Loaded>, LiveState>;

/// State of a sequence on this server.
#[derive(Default)]
pub struct LiveState {
    /// The state.
    pub(crate) state: SequenceState,
    /// Its record in a store, if there is one.
    pub(crate) stored: Option<Box<Ownership>>,
    /// Its place among the sequences of the client that has begun it.
    pub(crate) place: Option<ClientPlace>,
}

impl From<SequenceState> for LiveState {
    fn from(state: SequenceState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }
}

/// Returns what becomes of the sequences of a model whose states are no tensors, beside a store, and what to do.
pub fn not_stored(options: &LoadOptions) -> &'static str {
    match options.state_mode {
        StateMode::Requests => {
            "--sequence-store has none of its sequences, since its state_mode is requests: they end with the server; \
             leave state_mode out, or set it to tensors"
        }
        StateMode::Tensors => {
            "--sequence-store has none of its sequences, since its states cannot be tensors: they end with the server"
        }
    }
}

/// Outputs that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    /// The place of the id, if it is listed.
    id: Option<usize>,
    /// Indicates that the id alone is listed.
    pub(crate) alone: bool,
}

impl Selection {
    /// Takes the id out of the outputs that a request lists.
    ///
    /// # Errors
    ///
    /// Fails if it is there twice.
    pub(crate) fn take(request: &mut InferRequest) -> Result<Self> {
        let outputs = &mut request.outputs;
        let id = outputs.iter().position(|name| name == SEQUENCE_ID);
        if id.is_some() {
            let before = outputs.len();
            outputs.retain(|name| name != SEQUENCE_ID);
            if before - outputs.len() > 1 {
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {SEQUENCE_ID} is listed twice"
                )));
            }
        }
        Ok(Self {
            id,
            alone: id.is_some() && outputs.is_empty(),
        })
    }
}

/// Runs a validated request once it has its turn, its place being that of a sequence that begins; returns the outputs, the id of the sequence
/// among them, the id, and when the run ended.
///
/// # Errors
///
/// Fails if the sequence ends before, no infer request comes free, or the runtime fails.
pub(crate) async fn run(
    version: &Arc<Version>,
    begun: Begun<Arc<Loaded>, LiveState>,
    (mut work, selection, place): (Work, Selection, Option<ClientPlace>),
    call: &RequestRecord,
) -> Result<(TensorMap, u64, RunEnd)> {
    let turn = begun.turn().await.map_err(explain)?;
    let id = turn.id();
    let loaded = Arc::clone(turn.instance());
    if selection.alone {
        work.wanted.clear();
    }
    let ports = work.wanted.clone();
    let (held, back) = Held::new(turn, place);
    let run = loaded.run(work, held, call, SlotQueue::Bounded);
    let ran = match run.await {
        // In a box, so that steps that succeed do not carry room for it.
        Err(failed) => Box::pin(repeat(version, &loaded, failed, back, call)).await,
        ran => ran,
    };
    let (outputs, times) = ran.map_err(|failed| {
        let broke_off = failed.broke_off();
        let error = loaded.explain(failed);
        if broke_off {
            // What the state is now, nobody knows.
            error.with_more(&format!(" - sequence {id} has been closed"))
        } else {
            error
        }
    })?;
    let outputs = loaded.named(ports, outputs).await?;
    Ok((with_id(outputs, id, selection)?, id, times.end()))
}

/// Runs a step that has failed again, on what takes the place of its compiled model, if it was not its own failure; closes
/// its sequence if it was.
async fn repeat(
    version: &Arc<Version>,
    loaded: &Arc<Loaded>,
    mut failed: Failed,
    mut back: TurnBack,
    call: &RequestRecord,
) -> Result<(Vec<Tensor>, Times), Failed> {
    let mut loaded = Arc::clone(loaded);
    let mut rounds = 0;
    loop {
        let returned = match (failed.is_before_run(), back) {
            (true, Some(back)) => back.await.ok(),
            _ => None,
        };
        let Some((mut turn, place)) = returned else {
            version.tend(&loaded);
            return Err(failed);
        };
        if !loaded.shares_sequences() && turn.state().is_some() {
            failed = failed.without_state();
        }
        rounds += 1;
        let recovered = match rounds < MAX_ROUNDS {
            true => version.recover(&loaded, failed).await,
            false => Err(failed),
        };
        match recovered {
            Ok((fresh, work)) if turn.follow(&fresh) => {
                let (held, next) = Held::new(turn, place);
                match fresh.run(work, held, call, SlotQueue::Bounded).await {
                    Ok(ran) => return Ok(ran),
                    Err(again) => (loaded, failed, back) = (fresh, again, next),
                }
            }
            // It has stayed where it was, or is gone.
            Ok(_) => return Err(close(turn, Failed::lost())),
            Err(failed) if failed.broke_off() => return Err(close(turn, failed)),
            Err(failed) => return Err(failed),
        }
    }
}

/// Ends the sequence of a step that has failed.
fn close(mut turn: ModelTurn, failed: Failed) -> Failed {
    turn.run();
    drop(turn.ended(false));
    failed
}

/// Puts the id of the sequence among the outputs.
pub(super) fn with_id(mut outputs: TensorMap, id: u64, selection: Selection) -> Result<TensorMap> {
    let value = Tensor::new(DataType::U64, vec![1], id.to_le_bytes().to_vec().into());
    let value = value.map_err(|error| Error::internal("Internal error").with_source(error))?;
    let place = selection.id.unwrap_or(outputs.len()).min(outputs.len());
    outputs.insert(place, (SEQUENCE_ID.into(), value));
    Ok(outputs)
}

/// A turn on its way through a run.
struct Held {
    /// Nothing once it has been given back.
    turn: Option<ModelTurn>,
    /// Place of a sequence that begins, until it has a state.
    place: Option<ClientPlace>,
    /// The state of a sequence that is over, freed with this.
    spent: Option<LiveState>,
    /// The way back of a turn that has not been used, if the run can be repeated.
    back: Option<oneshot::Sender<Unused>>,
}

/// A turn that has not been used, and the place of a sequence that begins.
type Unused = (ModelTurn, Option<ClientPlace>);

/// The way back of a turn, if the run can be repeated.
type TurnBack = Option<oneshot::Receiver<Unused>>;

impl Held {
    fn new(turn: ModelTurn, place: Option<ClientPlace>) -> (Self, TurnBack) {
        let repeats = turn.instance().may_be_replaced();
        let (back, returned) = repeats.then(oneshot::channel).unzip();
        let held = Self {
            turn: Some(turn),
            place,
            spent: None,
            back,
        };
        (held, returned)
    }
}

impl Hold for Held {
    fn state(&mut self) -> Option<&mut SequenceState> {
        let live = self.turn.as_mut()?.run().get_or_insert_default();
        if self.place.is_some() {
            live.place = self.place.take();
        }
        Some(&mut live.state)
    }

    fn ended(&mut self, success: bool) {
        self.spent = self.turn.take().and_then(|mut turn| turn.ended(success));
    }

    fn undone(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.place();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(turn), Some(back)) = (self.turn.take(), self.back.take()) {
            // If nobody waits for it any more, it is passed on.
            drop(back.send((turn, self.place.take())));
        }
    }
}

/// Returns the error of a request that gets no turn.
pub(crate) fn explain(refusal: SequenceRefusal) -> Error {
    let (kind, text) = match refusal {
        SequenceRefusal::Full => (
            ErrorKind::Overloaded,
            "Max sequence number has been reached. Could not create new sequence.",
        ),
        SequenceRefusal::Exists => (
            ErrorKind::AlreadyExists,
            "Sequence with provided ID already exists",
        ),
        SequenceRefusal::Ending => (
            ErrorKind::FailedPrecondition,
            "Sequence last request is being processed and it's not available anymore",
        ),
        SequenceRefusal::Unknown => (
            ErrorKind::NotFound,
            "Sequence with provided ID does not exist",
        ),
        SequenceRefusal::Replaced => (
            ErrorKind::Overloaded,
            "Model is being reloaded - no sequence can start at this moment; try again",
        ),
        SequenceRefusal::Crowded(waiting) => {
            return overloaded(format_args!(
                "requests that wait for others of their sequences: {waiting}, the most allowed"
            ));
        }
    };
    Error::new(kind, text)
}
