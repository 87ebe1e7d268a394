//! The parts of the budget that inputs can have in workers: of one graph or pipeline, and of all.

use std::sync::Arc;

use crate::{
    budget::{Budget, BudgetOwner},
    error::{Error, ErrorKind},
};

/// Sixteenths of the budget for one graph or pipeline: requests to others have the rest, whatever its handlers keep.
const SIXTEENTHS: usize = 12;

/// Sixteenths for all of them: what has no handlers has the rest. It is less than the part from which on connections are
/// not read, see [`crate::frontends::received`].
const ALL_SIXTEENTHS: usize = 13;

/// Bytes that one can have of a small budget, as far as that goes: memory is charged in pieces of 4 MiB, of which
/// another one is to have one beside it.
const LEAST: usize = 16 << 20;
const ALL_LEAST: usize = LEAST + (4 << 20);

/// Makes the budget of all inputs in workers as part of the whole one.
pub(super) fn all_inputs(whole: &Budget) -> Budget {
    let owner = HeldInputs {
        of: "all graphs and pipelines".to_owned(),
    };
    whole.part(
        most(whole.max(), ALL_SIXTEENTHS, ALL_LEAST),
        Arc::new(owner),
    )
}

/// Makes that of a graph or pipeline, called such as `graph g`, as part of that of all; `whole` is the bound of everything.
pub(super) fn input_budget(of: &str, whole: usize, all: &Budget) -> Budget {
    let owner = HeldInputs { of: of.to_owned() };
    all.part(most(whole, SIXTEENTHS, LEAST), Arc::new(owner))
}

fn most(whole: usize, sixteenths: usize, least: usize) -> usize {
    (whole / 16 * sixteenths).max(whole.min(least))
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
