//! A step of a sequence: it waits for its turn, and runs on the state, again if its compiled model is replaced.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    infer::Failed,
    keeper::ModelTurn,
    loaded::Loaded,
    stateful::{LiveState, Selection, explain, with_id},
    version::Version,
};
use crate::{
    error::Result,
    metrics::{RequestRecord, RunEnd, Times},
    openvino::{Hold, SequenceState, SlotQueue, Work},
    quota::ClientPlace,
    sequence::Begun,
    tensor::{Tensor, TensorMap},
};

/// Maximum number of runs of a step while inferences of others fail.
const MAX_ROUNDS: usize = 4;

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

/// A turn on its way through a run.
struct Held {
    /// The turn, until it is given back.
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
