//! State of a sequence between its requests, and access to it for a run.
//!
//! In mode `tensors` a state is the contents of the model's variables, which are inputs and outputs
//! of the compiled model ([`split`], [`read`], [`variables`], [`tensors`]); in mode `requests` it is an infer request with the
//! variables inside.

mod batch;
pub(super) mod read;
mod saved;
mod split;
pub(super) mod tensors;
mod variables;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::variables::StateValues;
pub use self::{saved::SavedVariables, split::attribute as xml_attribute};
use super::{
    describe::{self, Described},
    ffi::{CompiledModel, InferRequest},
    leftovers,
    slot::Slot,
    slot_error::{SlotError, runtime},
};

/// Bytes of inputs and outputs up to which they belong to each sequence; more is lent. To give an infer
/// request another input and output takes 3 to 5 us (measured with the CPU plugin on one core), and
/// such small ones make little difference to what an infer request takes anyway: 9 KB without, 12 KB
/// with tensors of its own.
const SMALL: usize = 4096;

/// The state of a sequence. It is made by the first run, with every variable at its initial value.
#[derive(Default)]
pub struct SequenceState {
    kept: Option<Kept>,
    /// Number of the maker that has made it within an infer request; 0 for none.
    maker: u64,
}

impl SequenceState {
    /// Takes an infer request out, which has the state; what is left is known to be lost.
    pub fn lose(&mut self) -> Self {
        Self {
            kept: self.kept.take(),
            maker: self.maker,
        }
    }

    /// Returns the contents of the variables, if it has any yet.
    pub(super) fn values(&mut self) -> Option<&mut StateValues> {
        match &mut self.kept {
            Some(Kept::Values(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns the same, to read.
    fn contents(&self) -> Option<&StateValues> {
        match &self.kept {
            Some(Kept::Values(values)) => Some(values),
            _ => None,
        }
    }

    /// Makes a state of the contents of variables.
    pub(super) fn of(values: StateValues) -> Self {
        Self {
            kept: Some(Kept::Values(values)),
            maker: 0,
        }
    }
}

/// Contents of a sequence's state.
pub(super) enum Kept {
    /// An infer request that uses the tensors of the slot that it runs on.
    Borrowing(Bound),
    /// An infer request with tensors of its own.
    Owning(Box<Slot>),
    /// The contents of the variables.
    Values(StateValues),
}

/// An infer request, and the set of tensors that it has been given last; 0 for none.
pub(super) struct Bound {
    pub(super) request: InferRequest,
    pub(super) set: u64,
}

impl Bound {
    pub(super) fn new(request: InferRequest) -> Self {
        Self { request, set: 0 }
    }
}

/// A model that makes states for as long as it is served.
pub(super) struct Maker {
    /// Number that distinguishes it from others.
    number: u64,
    model: Mutex<CompiledModel>,
    inputs: Vec<Described>,
    outputs: Vec<Described>,
    /// Lets sequences borrow the tensors of slots.
    lends: bool,
}

impl Maker {
    pub(super) fn new(
        model: CompiledModel,
        inputs: Vec<Described>,
        outputs: Vec<Described>,
    ) -> Self {
        let total = describe::fixed_bytes(&inputs, &outputs);
        let has_copies = leftovers::are_possible(&inputs, &outputs);
        Self {
            number: new_set(),
            model: Mutex::new(model),
            inputs,
            outputs,
            // Strings that are copied by address are forgotten by the slot that owns the infer request.
            lends: total.is_none_or(|total| total > SMALL) && !has_copies,
        }
    }

    /// Makes the tensors that are lent.
    pub(super) fn lender(self: &std::sync::Arc<Self>) -> Result<Slot, SlotError> {
        Slot::lender(self, &self.inputs, &self.outputs)
    }

    /// Returns the contents of a state, made if it has none yet.
    ///
    /// # Errors
    ///
    /// Fails if another maker has made it, whose compiled model was replaced, or the runtime fails.
    pub(super) fn kept<'a>(&self, state: &'a mut SequenceState) -> Result<&'a mut Kept, SlotError> {
        if ![0, self.number].contains(&state.maker) {
            return Err(SlotError::Lost);
        }
        let kept = match state.kept.take() {
            Some(kept) => kept,
            None => self.make()?,
        };
        state.maker = self.number;
        Ok(state.kept.insert(kept))
    }

    fn make(&self) -> Result<Kept, SlotError> {
        let mut model = self.model.lock();
        if self.lends {
            let request = model.create_infer_request();
            let request = request.map_err(runtime("create an infer request"))?;
            Ok(Kept::Borrowing(Bound::new(request)))
        } else {
            let slot = Slot::new(&mut model, &self.inputs, &self.outputs, None)?;
            Ok(Kept::Owning(Box::new(slot)))
        }
    }
}

/// Numbers a set of tensors, or a maker of states.
pub(super) fn new_set() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Resources that a run holds until it ends, wherever it runs and whether its client still waits or not.
pub trait Hold: Send + 'static {
    /// Returns the state to run on, if the run has one. Called right before the run.
    fn state(&mut self) -> Option<&mut SequenceState>;

    /// Records that the run has ended, before its client gets the response. Not called if the run panics.
    fn ended(&mut self, success: bool);

    /// Records the same of a run that can be repeated elsewhere: contents of variables are as they were.
    fn undone(&mut self);
}

/// Runs without a state.
impl Hold for () {
    fn state(&mut self) -> Option<&mut SequenceState> {
        None
    }

    fn ended(&mut self, _: bool) {}

    fn undone(&mut self) {}
}
