//! Requests to sequences that other servers may have as well.

use std::{sync::Arc, time::Instant};

use super::target::{OfModel, Site, Stateful, place};
use crate::{
    error::Result,
    metrics::{RequestRecord, RunEnd},
    model::{
        Version,
        keeper::{Keeper, ModelTurn, SharedStep, Start, StepRequest},
        stateful::{LiveState, Selection, explain},
    },
    openvino::SlotInput,
    quota::CountedClient,
    request::InferRequest,
    sequence::{Begun, SequenceCommand, SequenceRefusal},
    task,
    tensor::TensorMap,
};

/// Maximum number of look-ups for a replacement of the instance that a request has found.
const MAX_ROUNDS: u32 = 1000;

/// A validated request: its sequence, its idempotency key, inputs, and wanted outputs.
pub(super) type Validated = (
    SequenceCommand,
    Option<String>,
    (Vec<SlotInput>, Vec<usize>),
);

impl OfModel {
    /// Runs a request to a sequence that may be anywhere.
    pub(super) async fn infer_shared(
        &self,
        (stateful, client): (&Stateful, Option<&Arc<CountedClient>>),
        keeper: Arc<Keeper>,
        request: &InferRequest,
        (mut command, key, mut validated): Validated,
        selection: Selection,
        call: &RequestRecord,
    ) -> Result<(Arc<Version>, (TensorMap, u64, RunEnd))> {
        let arrived = Instant::now();
        let place = place(client, command)?;
        let mut begun = None;
        let mut site = self.site(stateful, command).await?;
        if command.id == 0 {
            let started = keeper
                .start(&site.version, &site.loaded, 0, key.as_deref())
                .await?;
            (command.id, begun) = match started {
                Start::Begun(id, epoch) => (id, Some(epoch)),
                Start::Repeated(id) => (id, None),
            };
        }
        let mut rounds = 0;
        let turn = loop {
            let refusal = match site.join(command) {
                Ok(joined) => {
                    // Whoever comes next may enter now.
                    if let Some(arrival) = &stateful.arrival {
                        arrival.leave();
                    }
                    match joined.turn().await {
                        Ok(turn) => break turn,
                        Err(refusal) => refusal,
                    }
                }
                Err(refusal) => refusal,
            };
            // A request before it has ended the sequence here, and the store knows more: it may be the same request.
            let again = [SequenceRefusal::Replaced, SequenceRefusal::Unknown].contains(&refusal);
            if !again || rounds == MAX_ROUNDS {
                if let Some(epoch) = begun {
                    keeper.give_up(&site.version, command.id, epoch).await;
                }
                return Err(explain(refusal));
            }
            rounds += 1;
            tokio::task::yield_now().await;
            let now = self.site(stateful, command).await?;
            if !Arc::ptr_eq(&now.loaded, &site.loaded) {
                validated = now.validate(request, call).await?;
            }
            site = now;
        };
        let request = StepRequest {
            validated,
            selection,
            key,
            arrived,
            place,
            client: client.cloned(),
            call: call.twin(),
        };
        let version = Arc::clone(&site.version);
        let step = SharedStep::new(keeper, site.version, turn, command, begun, request);
        // A step that was run is stored, whether its client still waits or not.
        Ok((version, task::to_its_end(step.run()).await?))
    }
}

impl Site {
    /// Returns what keeps its sequences in a store, if they are kept there.
    pub(super) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.version.keeper()?;
        self.loaded.shares_sequences().then(|| Arc::clone(keeper))
    }

    fn join(
        &self,
        command: SequenceCommand,
    ) -> Result<Begun<Arc<crate::model::Loaded>, LiveState>, SequenceRefusal> {
        let sequences = self.version.sequences();
        sequences.join(
            command,
            &self.loaded,
            self.loaded.bounds(),
            &LiveState::is_spare,
        )
    }

    /// Waits for a turn in a sequence.
    pub(super) async fn turn(&self, command: SequenceCommand) -> Result<ModelTurn> {
        self.join(command)
            .map_err(explain)?
            .turn()
            .await
            .map_err(explain)
    }
}
