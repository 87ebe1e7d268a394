//! States of sequences saved and restored, each between two steps.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    engine::Engine,
    find::find_version,
    registry::not_found,
    servable::Servable,
    target::{Site, Stateful},
};
use crate::{
    budget::Budget,
    error::{Error, ErrorKind, Result},
    model::{
        Snapshot,
        stateful::{LiveState, explain},
    },
    quota::ClientPlace,
    sequence::{SequenceCommand, SequenceControl, SequenceRefusal},
    task,
};

/// Bytes of a file beside the state itself, about.
const HEADER: usize = 4096;

impl Engine {
    /// Saves the state of a sequence once it is its turn, as a request would have; returns the file and
    /// the version. The sequence stays as it is, and counts as unused.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, its state is no tensors, or the budget has no room for the file.
    pub async fn save_sequence(
        self: &Arc<Self>,
        model: &str,
        version: Option<i64>,
        id: u64,
        budget: &Budget,
    ) -> Result<(Bytes, i64)> {
        let _place = self.enter_flight()?;
        let (stateful, found) = self.stateful(model, version)?;
        let unknown = || explain(SequenceRefusal::Unknown);
        let held = stateful.holder(&found, id);
        let site = held.or(found.keeper().map(|_| found)).ok_or_else(unknown)?;
        site.loaded.variables()?;
        let control = SequenceControl::Next;
        let command = SequenceCommand { id, control };
        let turn = match site.keeper() {
            Some(keeper) => {
                let mut turn = site.turn(command).await?;
                keeper.fetch(&mut turn, &site.version).await?;
                turn
            }
            None => {
                let begun = stateful.begin(&site, command).map_err(explain)?;
                begun.turn().await.map_err(explain)?
            }
        };
        let size = match turn.state() {
            Some(live) => site.loaded.variables()?.size(&live.state),
            None => return Err(unknown()),
        };
        // The copy of the state, and the file.
        let mut charge = budget.charge(2 * size + HEADER)?;
        let save = move || {
            let of = (site.version.model(), site.version.number());
            let live = turn.state().ok_or_else(unknown)?;
            let snapshot = Snapshot::new(of, id, site.loaded.variables()?, &live.state);
            // Others may go on.
            drop(turn);
            let file = Bytes::from(snapshot?.encode()?);
            charge.shrink(file.len() + HEADER);
            Ok((charge.keep(file), site.version.number()))
        };
        task::sized("save the state of a sequence", size, save).await
    }

    /// Begins a sequence with a state from a file, which has a place if its client is counted; returns the version.
    ///
    /// # Errors
    ///
    /// Fails if the file is none of the model, or no sequence with the id can begin.
    pub async fn restore_sequence(
        self: &Arc<Self>,
        model: &str,
        version: Option<i64>,
        id: u64,
        (file, place): (Bytes, Option<ClientPlace>),
    ) -> Result<i64> {
        let _place = self.enter_flight()?;
        let (stateful, found) = self.stateful(model, version)?;
        let site = stateful.newest(&found.version).await?;
        site.loaded.variables()?;
        let size = file.len();
        let read = {
            let site = site.clone();
            move || {
                let of = (site.version.model(), site.version.number());
                let snapshot = Snapshot::decode(&file)?;
                snapshot.restore(of, site.loaded.variables()?)
            }
        };
        let state = task::sized("restore the state of a sequence", size, read).await?;
        let control = SequenceControl::Start;
        let command = SequenceCommand { id, control };
        match site.keeper() {
            Some(keeper) => {
                let turn = site.turn(command).await?;
                let begun = keeper.begin_with(turn, Arc::clone(&site.version), (state, place));
                task::to_its_end(begun).await?;
            }
            None => {
                let begun = stateful.begin(&site, command).map_err(explain)?;
                begun.begin_with(LiveState {
                    state,
                    place,
                    stored: None,
                });
            }
        }
        Ok(site.version.number())
    }

    /// Finds a stateful model by its name.
    fn stateful(self: &Arc<Self>, model: &str, version: Option<i64>) -> Result<(Stateful, Site)> {
        let Servable::Model(model) = self.servable(model)? else {
            return Err(not_found());
        };
        let named = version.is_some();
        let (version, loaded) = find_version(&model, version)?;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(not_loaded) => version.draining().ok_or(not_loaded)?,
        };
        if !loaded.is_stateful() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                "Model has no sequences - it is served without `stateful`",
            ));
        }
        let engine = Arc::clone(self);
        let stateful = Stateful {
            engine,
            model,
            named,
            arrival: None,
            key: None,
        };
        Ok((stateful, Site { version, loaded }))
    }
}
