//! The calculators that there are.

mod python_executor;

use super::Factory;

static ALL: [&Factory; 1] = [&python_executor::FACTORY];

/// Returns the calculators, by name.
#[must_use]
pub fn all() -> &'static [&'static Factory] {
    &ALL
}
