//! The stateful path: a request finds its sequence, waits for its turn, and runs on the state.

use std::{collections::HashSet, fmt, sync::Arc, time::Instant};

use super::{Arrival, Command, Instance, Refusal, SEQUENCE_ID, Sequences, Turn};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::Call,
    model::{Loaded, Version},
    openvino::{Hold, State},
    request::InferRequest,
    tensor::{DataType, Tensor, TensorMap},
};

/// A load of a model version, which sequences run on.
#[derive(Clone)]
pub struct LoadedInstance(pub Arc<Loaded>);

impl PartialEq for LoadedInstance {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Instance for LoadedInstance {}

impl fmt::Debug for LoadedInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedInstance").finish_non_exhaustive()
    }
}

/// The sequences of a model version.
pub type OfVersion = Sequences<LoadedInstance, State>;

/// What a run in a sequence gives.
#[derive(Debug)]
pub struct Answer {
    /// The outputs, and the id of the sequence as one of them.
    pub outputs: TensorMap,
    /// The id of the sequence.
    pub id: u64,
    /// When the run ended.
    pub ran: Instant,
}

impl Version {
    /// Runs one request of a sequence, after those of it that came before. `request` has what it
    /// says about the sequence taken out already. Ids in `taken` are not free for new sequences.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit the model, the rules of sequences do not allow it, no
    /// infer request comes free, or the runtime fails.
    pub async fn infer_in_sequence(
        &self,
        loaded: &Arc<Loaded>,
        command: Command,
        mut request: InferRequest,
        arrival: Option<&Arrival>,
        taken: &HashSet<u64>,
        call: &Call,
    ) -> Result<Answer> {
        let place = request.outputs.iter().position(|name| name == SEQUENCE_ID);
        let listed = !request.outputs.is_empty();
        if place.is_some() {
            let others = request.outputs.iter().filter(|name| *name == SEQUENCE_ID);
            if others.count() > 1 {
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {SEQUENCE_ID} is listed twice"
                )));
            }
            request.outputs.retain(|name| name != SEQUENCE_ID);
        }
        let nothing_else = listed && request.outputs.is_empty();
        let mut loaded = Arc::clone(loaded);
        let (inputs, wanted, begun) = loop {
            // A sequence stays on the instance that it began on.
            if !command.control.starts()
                && let Some(LoadedInstance(own)) = self.sequences().instance(command.id)
            {
                loaded = own;
            }
            let given = if command.control.starts() {
                request.clone()
            } else {
                std::mem::take(&mut request)
            };
            let (inputs, mut wanted) = loaded.judge(&loaded.info, given).await?;
            if nothing_else {
                wanted.clear();
            }
            if let Some(arrival) = arrival {
                arrival.turn(self.model()).await;
            }
            let bounds = loaded.bounds();
            let instance = LoadedInstance(Arc::clone(&loaded));
            let begun = self.sequences().begin(command, &instance, bounds, taken);
            match begun {
                // Nothing of the sequence is known yet, so that it can begin on the new one.
                Err(Refusal::Replaced) => {
                    tokio::task::yield_now().await;
                    loaded = self.loaded()?;
                }
                begun => break (inputs, wanted, begun),
            }
        };
        // Whoever comes next may enter now.
        if let Some(arrival) = arrival {
            arrival.leave();
        }
        let turn = begun.map_err(refused)?.turn().await.map_err(refused)?;
        let id = turn.id();
        let held = Held { turn, spent: None };
        let (mut outputs, ran) =
            loaded
                .run(inputs, wanted, held, call)
                .await
                .map_err(|failed| {
                    let ran = failed.broke_off();
                    let error = failed.explain();
                    if ran {
                        // What the state is now, nobody knows.
                        error.with_more(&format!(" - sequence {id} has been closed"))
                    } else {
                        error
                    }
                })?;
        let value = Tensor::new(DataType::U64, vec![1], id.to_le_bytes().to_vec().into());
        let value = value.map_err(|error| Error::internal("Internal error").with_source(error))?;
        let place = place.unwrap_or(outputs.len()).min(outputs.len());
        outputs.insert(place, SEQUENCE_ID, value);
        Ok(Answer { outputs, id, ran })
    }
}

/// A turn on its way through a run.
struct Held {
    turn: Turn<LoadedInstance, State>,
    /// The state of a sequence that is over, freed with this.
    spent: Option<State>,
}

impl Hold for Held {
    fn state(&mut self) -> Option<&mut State> {
        Some(self.turn.run().get_or_insert_default())
    }

    fn ended(&mut self, success: bool) {
        self.spent = self.turn.ended(success);
    }
}

/// Says why a request has no turn.
fn refused(refusal: Refusal) -> Error {
    let (kind, text) = match refusal {
        Refusal::Full => (
            ErrorKind::Overloaded,
            "Max sequence number has been reached. Could not create new sequence.",
        ),
        Refusal::Exists => (
            ErrorKind::AlreadyExists,
            "Sequence with provided ID already exists",
        ),
        Refusal::Ending => (
            ErrorKind::FailedPrecondition,
            "Sequence last request is being processed and it's not available anymore",
        ),
        Refusal::Unknown | Refusal::Replaced => (
            ErrorKind::NotFound,
            "Sequence with provided ID does not exist",
        ),
        Refusal::Crowded(waiting) => {
            return Error::new(
                ErrorKind::Overloaded,
                format!(
                    "Server is overloaded - requests that wait for others of their sequences: \
                     {waiting}, the most allowed; try again later"
                ),
            );
        }
    };
    Error::new(kind, text)
}
