//! Requests to sequences that other servers may have as well.

use std::{sync::Arc, time::Instant};

use super::{
    in_flight::{InFlight, RequestInFlight},
    target::{OfModel, Site, Stateful, place},
};
use crate::{
    error::Result,
    metrics::{RequestRecord, RunEnd},
    model::{
        Loaded, Version,
        keeper::{
            BegunSequence, Keeper, ModelTurn, SettleReason, SharedStep, Start, StepRequest,
            UnclaimedStart,
        },
        stateful::{LiveState, Selection, explain},
    },
    openvino::Work,
    quota::CountedClient,
    request::InferRequest,
    sequence::{Begun, SequenceCommand, SequenceRefusal},
    task::{self, ToItsEnd},
    tensor::TensorMap,
};

/// Maximum number of look-ups for what a request can go on with.
const MAX_ROUNDS: u32 = 1000;

/// A validated request with its sequence and its idempotency key.
pub(super) type Validated = (SequenceCommand, Option<String>, Work);

/// Turn of a request, or the wait for it.
type Joined = Begun<Arc<Loaded>, LiveState>;

/// A sequence that a start without an id has begun in the store, how it is given up, which happens by
/// itself when this is dropped.
type Unclaimed = (BegunSequence, ToItsEnd<()>, UnclaimedStart);

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
            let (keeper, site, key) = (Arc::clone(&keeper), site.clone(), key.clone());
            let start = begin(keeper, site, key, stateful.shared_work());
            // What the store has begun is given up, whether its client still waits or not.
            (command.id, begun) = task::to_its_end(start).await?;
        }
        let mut rounds = 0;
        let turn = loop {
            let refusal = match stateful.join(&site, command).await? {
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
                if let Some((_, give_up, _)) = begun {
                    give_up.await;
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
        let begun = begun.map(|(begun, give_up, _)| {
            give_up.cancel();
            begun
        });
        let step = SharedStep::new(keeper, site.version, turn, command, begun, request);
        // A step that was run is stored, whether its client still waits or not.
        let stored = stateful.to_its_end(step.run());
        Ok((version, stored.await?))
    }
}

/// Begins a sequence whose id the store chooses; returns the id, and what is to be done with one that is new.
async fn begin(
    keeper: Arc<Keeper>,
    Site { version, loaded }: Site,
    key: Option<String>,
    work: RequestInFlight,
) -> Result<(u64, Option<Unclaimed>)> {
    let claim = keeper.claim();
    let started = keeper.start(&version, &loaded, 0, key.as_deref());
    Ok(match started.await? {
        Start::Begun(begun) => {
            let BegunSequence { id, epoch, .. } = begun;
            let give_up = async move {
                keeper.give_up(&version, id, epoch).await;
                drop(work);
            };
            (id, Some((begun, task::to_its_end(give_up), claim)))
        }
        Start::Repeated(id) => (id, None),
    })
}

impl Stateful {
    /// Counts work on a sequence of a store, which a stop waits for even if its request is given up.
    fn shared_work(&self) -> RequestInFlight {
        InFlight::enter(&self.engine.shared_work)
    }

    /// Makes work on a sequence of a store that is done whole once it has begun.
    pub(super) fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> ToItsEnd<T> {
        let counted = self.shared_work();
        task::to_its_end(async move {
            let done = work.await;
            drop(counted);
            done
        })
    }

    /// Joins a sequence once no other version has it. Ids in a store are those of the model: what another version has, it
    /// stores first, and lets go, whatever the request will do.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    async fn join(
        &self,
        site: &Site,
        command: SequenceCommand,
    ) -> Result<Result<Joined, SequenceRefusal>> {
        for _ in 0..MAX_ROUNDS {
            let other = {
                let _one_at_a_time = self.model.starting();
                match self.other_holder(site, command.id) {
                    None => return Ok(site.join(command)),
                    Some(other) => other,
                }
            };
            let (Site { version, loaded }, keeper) = other;
            let settles = async move {
                keeper
                    .settle(command.id, &loaded, &version, SettleReason::Leave)
                    .await
            };
            self.to_its_end(settles).await?;
        }
        Ok(Err(SequenceRefusal::Replaced))
    }

    /// Finds another version that has a sequence of the store, and what keeps it there.
    fn other_holder(&self, site: &Site, id: u64) -> Option<(Site, Arc<Keeper>)> {
        let versions = self.model.versions().into_iter();
        let mut others = versions.filter(|version| !Arc::ptr_eq(version, &site.version));
        others.find_map(|version| {
            let loaded = version.sequences().instance(id)?;
            let site = Site { version, loaded };
            let keeper = site.keeper()?;
            Some((site, keeper))
        })
    }

    /// Waits for a turn in a sequence.
    pub(super) async fn turn(&self, site: &Site, command: SequenceCommand) -> Result<ModelTurn> {
        let joined = self.join(site, command).await?;
        let turn = joined.map_err(explain)?.turn();
        turn.await.map_err(explain)
    }
}

impl Site {
    /// Returns what keeps its sequences in a store, if they are kept there.
    pub(super) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.version.keeper()?;
        self.loaded.shares_sequences().then(|| Arc::clone(keeper))
    }

    fn join(&self, command: SequenceCommand) -> Result<Joined, SequenceRefusal> {
        let sequences = self.version.sequences();
        sequences.join(
            command,
            &self.loaded,
            self.loaded.bounds(),
            &LiveState::is_spare,
        )
    }
}
