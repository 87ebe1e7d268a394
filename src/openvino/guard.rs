//! Combinations of input shapes that a model takes, found out without the compiled one.
//!
//! A compiled model with dynamic shapes may be left with half-updated shapes by an inference whose
//! inputs do not fit each other, and then gives errors or wrong values for inputs that do. From a
//! model's first failed inference on, each combination of shapes is first tried on a spare,
//! uncompiled model, which is only reshaped, and what that refuses never runs.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    describe::Described,
    ffi::Model,
    pool::{PoolError, WaitingCount},
    run::RunError,
    runtime_error::OpenVinoError,
    slot_input::SlotInput,
};
use crate::{task, tensor::PartialShape};

/// Maximum number of combinations remembered as accepted; more push out those that are used least.
const MAX_ACCEPTED: usize = 2048;

/// Maximum number of combinations remembered as refused, each with a text.
const MAX_REFUSED: usize = 256;

/// A spare model, and the verdicts on combinations of shapes so far.
pub struct Guard {
    spare: Mutex<Spare>,
    verdicts: Mutex<Verdicts>,
    /// Held while the spare model is reshaped, also if nobody waits for the verdict any more.
    turn: Arc<Semaphore>,
    waiting: WaitingCount,
    max_waiting: usize,
}

/// A combination: the lengths of all inputs, whose ranks never change.
type Combination = Box<[usize]>;

struct Verdicts {
    accepted: Recent<()>,
    refused: Recent<OpenVinoError>,
}

/// The model, and its inputs' shapes as they are declared: all may change but for fixed ones.
struct Spare {
    model: Model,
    declared: Vec<(usize, PartialShape)>,
}

impl Guard {
    /// Makes a guard of an uncompiled model; `None` if all shapes of its inputs are fixed, so that
    /// there is nothing to find out.
    pub(super) fn new(model: Model, inputs: &[Described], max_waiting: usize) -> Option<Arc<Self>> {
        let declared: Vec<_> = inputs
            .iter()
            .map(|input| (input.info.port, input.info.shape.clone()))
            .filter(|(_, shape)| shape.fixed().is_none())
            .collect();
        if declared.is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            spare: Mutex::new(Spare { model, declared }),
            verdicts: Mutex::new(Verdicts {
                accepted: Recent::new(MAX_ACCEPTED),
                refused: Recent::new(MAX_REFUSED),
            }),
            turn: Arc::new(Semaphore::new(1)),
            waiting: WaitingCount::default(),
            max_waiting,
        }))
    }

    /// Checks whether the model takes the shapes of these inputs.
    ///
    /// # Errors
    ///
    /// Fails with the runtime's error about them, or if too many wait for a verdict.
    pub(super) async fn admit(self: &Arc<Self>, inputs: &[SlotInput]) -> Result<(), RunError> {
        let lengths = inputs.iter().flat_map(|input| input.shape.iter().copied());
        let combination: Combination = lengths.collect();
        if let Some(verdict) = self.known(&combination) {
            return verdict;
        }
        let place = self.waiting.enter();
        if place.ahead > self.max_waiting {
            return Err(RunError::Pool(PoolError::Shapes(self.max_waiting)));
        }
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        // One that waited for the same combination before may have its verdict by now.
        if let Some(verdict) = self.known(&combination) {
            return verdict;
        }
        let guard = Arc::clone(self);
        let shapes: Vec<_> = inputs.iter().map(|i| (i.port, i.shape.clone())).collect();
        task::blocking("try shapes", move || {
            let verdict = guard.spare.lock().takes(&shapes);
            let mut verdicts = guard.verdicts.lock();
            match &verdict {
                Ok(()) => verdicts.accepted.insert(combination, ()),
                Err(error) => verdicts.refused.insert(combination, error.clone()),
            }
            drop((verdicts, turn));
            verdict.map_err(RunError::Shapes)
        })
        .await
    }

    fn known(&self, combination: &Combination) -> Option<Result<(), RunError>> {
        let mut verdicts = self.verdicts.lock();
        if verdicts.accepted.get(combination).is_some() {
            return Some(Ok(()));
        }
        let refused = verdicts.refused.get(combination)?;
        Some(Err(RunError::Shapes(refused.clone())))
    }
}

impl Spare {
    fn takes(&mut self, shapes: &[(usize, Vec<usize>)]) -> Result<(), OpenVinoError> {
        let asked: Vec<_> = shapes
            .iter()
            .filter(|(port, _)| self.declared.iter().any(|(known, _)| known == port))
            .map(|(port, shape)| (*port, PartialShape::of(shape)))
            .collect();
        if self.model.reshape(&asked).is_ok() {
            return Ok(());
        }
        // Bodies of loops may keep results of an earlier combination, so that a refusal counts only
        // after a reset to the declared shapes.
        if self.model.reshape(&self.declared).is_err() {
            return Ok(());
        }
        self.model.reshape(&asked).map_err(OpenVinoError::from)
    }
}

/// Verdicts of a kind, in two generations: what was asked for since the younger one began is kept,
/// so that no flood of new combinations pushes out those that are in use.
struct Recent<V> {
    young: HashMap<Combination, V>,
    old: HashMap<Combination, V>,
    most: usize,
}

impl<V> Recent<V> {
    fn new(most: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            most: most / 2,
        }
    }

    fn get(&mut self, combination: &Combination) -> Option<&V> {
        if let Some((combination, verdict)) = self.old.remove_entry(combination) {
            self.insert(combination, verdict);
        }
        self.young.get(combination)
    }

    fn insert(&mut self, combination: Combination, verdict: V) {
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(combination, verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn a_flood_of_combinations_keeps_those_in_use_and_little_memory() {
        let mut recent = Recent::new(8);
        let used = || vec![1_usize, 8].into_boxed_slice();
        recent.insert(used(), 0);
        for length in 0..1000 {
            recent.insert(vec![2, length].into(), length);
            assert_eq!(recent.get(&used()), Some(&0), "after {length}");
            assert!(recent.young.len() + recent.old.len() <= 8);
        }
        assert_eq!(recent.get(&vec![2, 0].into()), None);
    }
}
