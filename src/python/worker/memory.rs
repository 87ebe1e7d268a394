//! The part of the budget that inputs of one graph or pipeline can have in its workers.

use std::sync::Arc;

use crate::{
    budget::{Budget, BudgetOwner},
    error::{Error, ErrorKind},
};

/// Quarters of the budget: requests to others have the rest, whatever a handler keeps.
const QUARTERS: usize = 3;

/// Bytes that they can have of a small budget, as far as that goes: memory is charged in pieces of 4 MiB.
const LEAST: usize = 16 << 20;

/// Makes the budget of inputs in the workers of a graph or pipeline, called such as `graph g`, as part of the whole one.
pub(super) fn input_budget(of: &str, whole: &Budget) -> Budget {
    let owner = HeldInputs { of: of.to_owned() };
    let most = (whole.max() / 4 * QUARTERS).max(whole.max().min(LEAST));
    whole.part(most, Arc::new(owner))
}

/// Inputs that are in shared memory.
struct HeldInputs {
    of: String,
}

impl BudgetOwner for HeldInputs {
    fn exhausted(&self, max: usize) -> Error {
        let text = format!(
            "Server is overloaded - inputs of Python handlers of {}: the most bytes allowed are {max} of \
             --max-bytes-in-flight; try again later",
            self.of
        );
        Error::new(ErrorKind::Exhausted, text)
    }

    fn too_large(&self, max: usize) -> Error {
        let text = format!(
            "Request is too large - it needs more than {max} bytes, which is the most for inputs of Python handlers of \
             {}; send less at once, or raise --max-bytes-in-flight",
            self.of
        );
        Error::new(ErrorKind::TooLarge, text)
    }
}
