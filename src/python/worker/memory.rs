//! The part of the budget that inputs of one graph or pipeline can have in its workers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    budget::{Budget, BudgetOwner},
    error::{Error, ErrorKind},
};

/// Quarters of the budget: requests to others have the rest, whatever a handler keeps.
const QUARTERS: usize = 3;

/// Bytes that they can have of a small budget, as far as that goes: memory is charged in pieces of 4 MiB.
const LEAST: usize = 16 << 20;

/// Time between two warnings.
const PAUSE: Duration = Duration::from_secs(60);

/// Makes the budget of inputs in the workers of a graph or pipeline, called such as `graph g`, as part of the whole one.
pub(super) fn input_budget(of: &str, whole: &Budget) -> Budget {
    let owner = HeldInputs {
        of: of.to_owned(),
        warned: Mutex::default(),
    };
    let most = (whole.max() / 4 * QUARTERS).max(whole.max().min(LEAST));
    whole.part(most, Arc::new(owner))
}

/// Inputs that are in shared memory.
struct HeldInputs {
    of: String,
    /// Time of the last warning.
    warned: Mutex<Option<Instant>>,
}

impl BudgetOwner for HeldInputs {
    fn exhausted(&self, max: usize) -> Error {
        let mut warned = self.warned.lock();
        if warned.is_none_or(|at| at.elapsed() > PAUSE) {
            *warned = Some(Instant::now());
            tracing::warn!(
                of = self.of,
                "Python handlers hold {max} bytes of inputs, all that they may, so that requests are refused; copy \
                 what a handler keeps (`numpy.array(tensor)`), or raise --max-bytes-in-flight"
            );
        }
        drop(warned);
        let text = format!(
            "Server is overloaded - inputs that Python handlers of {} hold: the most bytes allowed are {max}, three \
             quarters of --max-bytes-in-flight; try again later",
            self.of
        );
        Error::new(ErrorKind::Exhausted, text)
    }

    fn too_large(&self, max: usize) -> Error {
        let text = format!(
            "Request is too large - it needs more than {max} bytes, which is the most for inputs of Python handlers of \
             {}, three quarters of --max-bytes-in-flight; send less at once, or raise that",
            self.of
        );
        Error::new(ErrorKind::TooLarge, text)
    }
}
