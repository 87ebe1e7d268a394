//! The calculators that are built in.

mod converter;
mod inference;
mod python_executor;
mod session;

#[cfg(test)]
mod fake;

use super::calculator::Factory;

/// Those that reach models and Python, and turn tensors for them.
static ALL: [&Factory; 4] = [
    &converter::FACTORY,
    &inference::FACTORY,
    &python_executor::FACTORY,
    &session::FACTORY,
];

/// Returns the calculators.
#[must_use]
pub fn all() -> &'static [&'static Factory] {
    &ALL
}

/// Finds a calculator by its name in graph files.
#[must_use]
pub fn find(name: &str) -> Option<&'static Factory> {
    all().iter().find(|factory| factory.name == name).copied()
}
