//! What a sequence keeps between its requests, and how a run gets hold of it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use openvino::{CompiledModel, InferRequest};

use super::slot::{SlotError, runtime};

/// A compiled model that makes infer requests for as long as it is served.
pub(super) type Maker = Arc<Mutex<CompiledModel>>;

/// The state of a sequence: an infer request with the model's variables inside. It is made by the
/// first run, with every variable at its initial value.
#[derive(Default)]
pub struct State {
    pub(super) request: Option<InferRequest>,
    /// The set of tensors that it has been given last; 0 for none.
    pub(super) bound: u64,
}

impl State {
    pub(super) fn of(request: InferRequest) -> Self {
        Self {
            request: Some(request),
            bound: 0,
        }
    }

    /// Makes the infer request, if there is none.
    pub(super) fn make(&mut self, model: &Maker) -> Result<(), SlotError> {
        if self.request.is_none() {
            // Nothing of it is changed by a panic of ours.
            let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
            let request = model.create_infer_request();
            self.request = Some(request.map_err(runtime("create an infer request"))?);
        }
        Ok(())
    }
}

/// Numbers a set of tensors.
pub(super) fn new_set() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a run holds for as long as it takes, wherever it runs and whether its client still waits
/// or not.
pub trait Hold: Send + 'static {
    /// Returns the state to run on, if the run has one. Called right before the run.
    fn state(&mut self) -> Option<&mut State>;

    /// Says that the run has ended, before its client is told. Not called if the run panics.
    fn ended(&mut self, success: bool);
}

/// Runs without a state.
impl Hold for () {
    fn state(&mut self) -> Option<&mut State> {
        None
    }

    fn ended(&mut self, _: bool) {}
}
