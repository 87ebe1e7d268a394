//! Sequences for those who manage the server: states saved and restored, lists, and ends; each between two steps.

use std::{sync::Arc, time::Duration};

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

/// Live sequences of a model.
#[derive(Debug)]
pub struct SequenceList {
    /// Total number, as far as this server and its store know.
    pub total: usize,
    /// Some of them, sorted by their ids.
    pub listed: Vec<ListedSequence>,
}

/// A live sequence of a list.
#[derive(Debug)]
pub struct ListedSequence {
    /// Its id.
    pub id: u64,
    /// The version that has its state; unknown if that is not here.
    pub version: Option<i64>,
    /// Number of steps so far.
    pub steps: u64,
    /// Time since the last step, if known.
    pub idle: Option<Duration>,
    /// Place of its state.
    pub place: SequencePlace,
}

/// Place of the state of a sequence, as one server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequencePlace {
    /// State in this server.
    Here,
    /// State in the store alone, or in another server that shares it.
    Store,
}

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
        let site = match stateful.holder(&found, id) {
            Some(held) => held,
            None => {
                // So that a client learns before it starts one that it cannot be saved.
                found.loaded.variables()?;
                stored(found)?
            }
        };
        site.loaded.variables()?;
        let control = SequenceControl::Next;
        let command = SequenceCommand { id, control };
        let turn = match site.keeper() {
            Some(keeper) => {
                let mut turn = stateful.turn(&site, command).await?;
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
                let turn = stateful.turn(&site, command).await?;
                let begun = keeper.begin_with(turn, Arc::clone(&site.version), (state, place));
                stateful.to_its_end(begun).await?;
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

    /// Lists up to so many live sequences: those of a version, or of all, and those that only the store has.
    ///
    /// # Errors
    ///
    /// Fails if there is no such model or version, it is not stateful, or the store fails.
    pub async fn sequences(
        self: &Arc<Self>,
        model: &str,
        version: Option<i64>,
        most: usize,
    ) -> Result<SequenceList> {
        let _place = self.enter_flight()?;
        let (stateful, found) = self.stateful(model, version)?;
        let versions = match stateful.named {
            true => vec![Arc::clone(&found.version)],
            false => stateful.model.versions(),
        };
        // Ids are those of the model in a store.
        let all = stateful.model.versions();
        if let Some(keeper) = found.keeper() {
            keeper.let_listed_go(&all, most).await?;
        }
        let mut total: usize = versions.iter().map(|it| it.sequences().len()).sum();
        let mut listed = Vec::new();
        for version in &versions {
            let here = version.sequences().list(most - listed.len());
            listed.extend(here.into_iter().map(|it| ListedSequence {
                id: it.id,
                version: Some(version.number()),
                steps: it.steps,
                idle: Some(it.idle),
                place: SequencePlace::Here,
            }));
        }
        if let Some(keeper) = found.keeper() {
            let stored = keeper.list(found.version.model(), &all, most);
            let (live, stored) = stored.await?;
            total = total.max(live);
            let is_here = |id| all.iter().any(|it| it.sequences().instance(id).is_some());
            let elsewhere = stored.into_iter().filter(|it| !is_here(it.id));
            let room = most - listed.len();
            listed.extend(elsewhere.take(room).map(|it| ListedSequence {
                id: it.id,
                version: None,
                steps: it.steps,
                idle: it.idle,
                place: SequencePlace::Store,
            }));
        }
        listed.sort_unstable_by_key(|it| (it.id, it.version));
        Ok(SequenceList { total, listed })
    }

    /// Ends a sequence once it is its turn, as a request would have; returns the version.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, or the store fails.
    pub async fn end_sequence(
        self: &Arc<Self>,
        model: &str,
        version: Option<i64>,
        id: u64,
    ) -> Result<i64> {
        let _place = self.enter_flight()?;
        let (stateful, found) = self.stateful(model, version)?;
        let held = stateful.holder(&found, id);
        let site = held.map_or_else(|| stored(found), Ok)?;
        let control = SequenceControl::End;
        let command = SequenceCommand { id, control };
        let number = site.version.number();
        if let Some(keeper) = site.keeper() {
            let turn = stateful.turn(&site, command).await?;
            let ended = keeper.end(turn, site.version);
            stateful.to_its_end(ended).await?;
            return Ok(number);
        }
        let begun = stateful.begin(&site, command).map_err(explain)?;
        let mut turn = begun.turn().await.map_err(explain)?;
        if turn.state().is_none() {
            return Err(unknown());
        }
        turn.run();
        drop(turn.ended(true));
        Ok(number)
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

/// Returns a version that a sequence may go on with by way of the store, though it is not there.
///
/// # Errors
///
/// Fails if there is no store.
fn stored(found: Site) -> Result<Site> {
    match found.keeper() {
        Some(_) => Ok(found),
        None => Err(unknown()),
    }
}

fn unknown() -> Error {
    explain(SequenceRefusal::Unknown)
}
