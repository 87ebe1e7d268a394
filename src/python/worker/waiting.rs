//! Calls of a worker that have not ended, and those who wait for them.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    ops::RangeInclusive,
};

use pyovms::message::Outcome;
use tokio::sync::{mpsc, oneshot};

use super::held::Held;
use crate::python::{HandlerTensor, Raised, error::HandlerError};

/// End of a call.
#[derive(Debug)]
pub(in crate::python) enum Answer {
    /// Outputs.
    Outputs(Vec<HandlerTensor>),
    /// A generator.
    Generator,
    /// An exception.
    Raised(Raised),
    /// Anything else.
    Other(Outcome),
}

/// A set of a generator; `None` is its end.
pub(in crate::python) type TakenSet = Result<Option<Vec<HandlerTensor>>, HandlerError>;

/// Calls and generators of a worker, by their numbers.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) calls: HashMap<u64, Call>,
    pub(super) generators: HashMap<u64, OpenGenerator>,
    /// Number of looks at steps of generators that do not end.
    looks: u64,
    /// Indicates that a handler is being loaded, or that the worker has died of that.
    pub(super) is_loading: bool,
    /// Description of the worker's end.
    pub(super) died: Option<String>,
    /// Nodes that it was at then.
    at_end: BTreeSet<String>,
}

/// A call that has not ended.
pub(super) struct Call {
    pub(super) reply: oneshot::Sender<Result<Answer, HandlerError>>,
    pub(super) node: String,
    /// Kept until the call has ended, though its client may have left.
    pub(super) held: Option<Held>,
}

/// A generator that has not ended.
pub(super) struct OpenGenerator {
    sets: mpsc::UnboundedSender<TakenSet>,
    node: String,
    /// Indicates that its call has ended, behind which it has steps of its own.
    is_given: bool,
    /// Sets that it may still give.
    ahead: u32,
    is_closing: bool,
    /// Look before which its step began.
    since: u64,
    is_warned: bool,
}

impl OpenGenerator {
    /// Begins the call that may give it.
    pub(super) fn new(sets: mpsc::UnboundedSender<TakenSet>, node: String) -> Self {
        Self {
            sets,
            node,
            is_given: false,
            ahead: 0,
            is_closing: false,
            since: 0,
            is_warned: false,
        }
    }

    /// Returns whether the worker is at a step of it, or at its end.
    fn is_at_step(&self) -> bool {
        self.is_given && (self.ahead > 0 || self.is_closing)
    }

    /// Begins a step; returns whether it was at none before.
    fn begins(&mut self, look: u64, change: impl FnOnce(&mut Self)) -> bool {
        let was_at_step = self.is_at_step();
        change(self);
        if !was_at_step {
            (self.since, self.is_warned) = (look, false);
        }
        !was_at_step
    }
}

impl Waiting {
    /// Notes how the worker has ended, and takes everything that waits.
    pub(super) fn end(&mut self, how: &str) -> (HashMap<u64, Call>, HashMap<u64, OpenGenerator>) {
        self.at_end = self.nodes();
        self.died = Some(how.to_owned());
        (mem::take(&mut self.calls), mem::take(&mut self.generators))
    }

    /// Returns number and node of the first call among those with such numbers.
    pub(super) fn oldest(&self, numbers: RangeInclusive<u64>) -> Option<(u64, String)> {
        let calls = self
            .calls
            .iter()
            .filter(|(number, _)| numbers.contains(number));
        let (number, call) = calls.min_by_key(|(number, _)| **number)?;
        Some((*number, call.node.clone()))
    }

    /// Begins a look; returns its number.
    pub(super) fn look(&mut self) -> u64 {
        self.looks += 1;
        self.looks - 1
    }

    /// Returns the node of a generator whose step has not ended since the look before this one, once for each step.
    pub(super) fn long_step(&mut self, look: u64) -> Option<String> {
        let steps = self.generators.values_mut();
        let long = steps.filter(|it| it.is_at_step() && it.since < look && !it.is_warned);
        let oldest = long.min_by_key(|it| it.since)?;
        oldest.is_warned = true;
        Some(oldest.node.clone())
    }

    /// Notes that a call has given a generator, which is at its first step; returns whether it is known.
    pub(super) fn given(&mut self, number: u64) -> bool {
        let look = self.looks;
        let generator = self.generators.get_mut(&number);
        generator.is_some_and(|it| it.begins(look, |it| (it.is_given, it.ahead) = (true, 1)))
    }

    /// Lets a generator give more sets; returns whether it was at no step. `None` if it has ended.
    pub(super) fn goes_on(&mut self, number: u64, credits: u32) -> Option<bool> {
        let look = self.looks;
        let generator = self.generators.get_mut(&number)?;
        Some(generator.begins(look, |it| it.ahead += credits))
    }

    /// Closes a generator; returns whether it was at no step. `None` if nothing is to be done: it has ended, or closes
    /// already, or its call has not ended, which closes it for those who have left.
    pub(super) fn closes(&mut self, number: u64) -> Option<bool> {
        let look = self.looks;
        let generator = self.generators.get_mut(&number)?;
        let is_left = generator.is_given && !generator.is_closing;
        is_left.then(|| generator.begins(look, |it| it.is_closing = true))
    }

    /// Takes in that a generator has given a set, or has ended; returns who waits for that, and whether it is at no step
    /// any more.
    pub(super) fn gave(
        &mut self,
        number: u64,
        is_over: bool,
    ) -> Option<(mpsc::UnboundedSender<TakenSet>, bool)> {
        if is_over {
            let generator = self.generators.remove(&number)?;
            let was_at_step = generator.is_at_step();
            return Some((generator.sets, was_at_step));
        }
        let look = self.looks;
        let generator = self.generators.get_mut(&number)?;
        let was_at_step = generator.is_at_step();
        generator.ahead = generator.ahead.saturating_sub(1);
        (generator.since, generator.is_warned) = (look, false);
        let has_ended = was_at_step && !generator.is_at_step();
        Some((generator.sets.clone(), has_ended))
    }

    /// Returns the nodes that the worker is at, or was when it ended.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        let of_calls = self.calls.values().map(|call| &call.node);
        let of_generators = self.generators.values().map(|generator| &generator.node);
        let nodes = of_calls.chain(of_generators).chain(&self.at_end);
        nodes.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::{OpenGenerator, Waiting};

    fn waiting() -> Waiting {
        let mut waiting = Waiting::default();
        for number in [1, 2] {
            let (sets, _) = mpsc::unbounded_channel();
            let generator = OpenGenerator::new(sets, format!("node {number}"));
            waiting.generators.insert(number, generator);
        }
        waiting
    }

    fn long_step(waiting: &mut Waiting) -> Option<String> {
        let look = waiting.look();
        waiting.long_step(look)
    }

    #[test]
    fn a_step_that_does_not_end_is_named_once_at_the_second_look() {
        let mut waiting = waiting();
        assert!(waiting.given(1));
        // The other one's call goes on, which is no step.
        assert_eq!(long_step(&mut waiting), None);
        assert_eq!(long_step(&mut waiting).as_deref(), Some("node 1"));
        assert_eq!(long_step(&mut waiting), None);
        // The next one counts anew.
        assert_eq!(waiting.goes_on(1, 2), Some(false));
        waiting.gave(1, false);
        assert_eq!(long_step(&mut waiting), None);
        assert_eq!(long_step(&mut waiting).as_deref(), Some("node 1"));
        waiting.gave(1, false);
        waiting.gave(1, false);
        for _ in 0..3 {
            assert_eq!(long_step(&mut waiting), None, "it waits for leave");
        }
        assert_eq!(waiting.closes(1), Some(true));
        assert_eq!(long_step(&mut waiting), None);
        assert_eq!(long_step(&mut waiting).as_deref(), Some("node 1"));
    }

    #[test]
    fn a_generator_is_at_a_step_while_it_may_give_sets_and_until_it_is_closed() {
        let mut waiting = waiting();
        assert!(!waiting.given(3), "it is not known");
        assert_eq!(waiting.closes(1), None, "its call has not ended");
        assert!(waiting.given(1));
        let gives = |waiting: &mut Waiting, is_over| waiting.gave(1, is_over).map(|it| it.1);
        assert_eq!(gives(&mut waiting, false), Some(true));
        assert_eq!(waiting.goes_on(1, 2), Some(true));
        assert_eq!(waiting.goes_on(1, 1), Some(false));
        for _ in 0..2 {
            assert_eq!(gives(&mut waiting, false), Some(false));
        }
        assert_eq!(waiting.closes(1), Some(false));
        assert_eq!(waiting.closes(1), None, "it closes");
        assert_eq!(gives(&mut waiting, false), Some(false));
        assert_eq!(gives(&mut waiting, true), Some(true));
        assert_eq!(gives(&mut waiting, true), None);
        assert_eq!((waiting.closes(1), waiting.goes_on(1, 1)), (None, None));
        // One that waits for leave is at none.
        assert!(waiting.given(2));
        assert_eq!(waiting.gave(2, false).map(|it| it.1), Some(true));
        assert_eq!(waiting.gave(2, true).map(|it| it.1), Some(false));
    }
}
