//! The calculators that are built in.

mod converter;
mod inference;
mod session;

#[cfg(test)]
mod fake;

use super::calculator::Factory;

/// Those that reach models, and turn tensors for them.
static ALL: [&Factory; 3] = [&session::FACTORY, &inference::FACTORY, &converter::FACTORY];

/// Finds a calculator by its name in graph files.
#[must_use]
pub fn find(name: &str) -> Option<&'static Factory> {
    ALL.into_iter().find(|factory| factory.name == name)
}
