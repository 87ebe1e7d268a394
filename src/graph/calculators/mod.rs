//! Built-in calculators.
//!
//! One file for each purpose, with a table of its factories. Calculators with a variant for each
//! element type (`BeginLoopFloatCalculator`, …) share one implementation and a table of names and
//! types.

mod absent;
mod bounds;
mod contract;
mod converter;
mod elements;
mod forward;
mod gate;
mod inference;
mod items;
mod joins;
mod limiter;
mod lists;
mod loopback;
mod loops;
mod mux;
mod python_executor;
mod resampler;
mod session;
mod shift;
mod side;
mod source;
mod strings;
mod thinner;
mod value;

use std::sync::LazyLock;

pub use absent::absent;

use super::calculator::Factory;

/// Calculators with a single variant.
static SINGLE: &[&[Factory]] = &[
    forward::FACTORIES,
    gate::FACTORIES,
    joins::FACTORIES,
    limiter::FACTORIES,
    loopback::FACTORIES,
    mux::FACTORIES,
    resampler::FACTORIES,
    shift::FACTORIES,
    side::FACTORIES,
    source::FACTORIES,
    thinner::FACTORIES,
];

/// Calculators with a variant for each element type.
static FAMILIES: &[&[elements::Typed]] = &[
    items::CLIP,
    items::GET,
    items::SIZE,
    lists::CONCATENATE,
    lists::SPLIT,
    loops::BEGIN,
    loops::END,
    strings::PARSE,
];

/// Calculators that use models and Python, and convert tensors for them.
static REACHING: [&Factory; 4] = [
    &converter::FACTORY,
    &inference::FACTORY,
    &python_executor::FACTORY,
    &session::FACTORY,
];

static ALL: LazyLock<Vec<&'static Factory>> = LazyLock::new(|| {
    let single = SINGLE.iter().copied().flatten();
    let typed = FAMILIES.iter().copied().flatten();
    let typed = typed.map(|typed| &typed.factory);
    let mut all: Vec<&'static Factory> = single.chain(typed).chain(REACHING).collect();
    all.sort_unstable_by_key(|factory| factory.name);
    all
});

/// Returns all calculators, sorted by name.
#[must_use]
pub fn all() -> &'static [&'static Factory] {
    &ALL
}

/// Finds a calculator by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Factory> {
    let place = ALL.binary_search_by_key(&name, |factory| factory.name);
    place.ok().map(|place| ALL[place])
}

#[cfg(test)]
mod tests;
