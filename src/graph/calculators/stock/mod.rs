//! Built-in calculators.
//!
//! One file for each purpose, with a table of its factories. Calculators with a variant for each
//! element type (`BeginLoopFloatCalculator`, …) share one implementation and a list of the words
//! in their names.

mod absent;
mod bounds;
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

/// The words that all files of this folder are written in.
mod prelude {
    pub(super) use super::{
        bounds::{Output, settled},
        value,
    };
    pub(super) use crate::graph::calculators::{
        calculator::{Calculator, CalculatorContext, Emit, Factory, StepOutcome, StepResult},
        contract::{Ask, Contract, Count, EVERY},
        error::{AbseilCode, GraphRunError},
        node::NodeSpec,
        packet::{Packet, PacketType, Payload},
        timestamp::Timestamp,
    };
}

static ALL: LazyLock<Vec<&'static Factory>> = LazyLock::new(|| {
    let tables = [
        converter::FACTORIES,
        forward::FACTORIES,
        gate::FACTORIES,
        inference::FACTORIES,
        items::CLIP,
        items::GET,
        items::SIZE,
        joins::FACTORIES,
        limiter::FACTORIES,
        lists::CONCATENATE,
        lists::SPLIT,
        loopback::FACTORIES,
        loops::BEGIN,
        loops::END,
        mux::FACTORIES,
        std::slice::from_ref(&python_executor::FACTORY),
        resampler::FACTORIES,
        session::FACTORIES,
        shift::FACTORIES,
        side::FACTORIES,
        source::FACTORIES,
        strings::PARSE,
        thinner::FACTORIES,
    ];
    let mut all: Vec<&'static Factory> = tables.into_iter().flatten().collect();
    all.sort_unstable_by_key(|factory| factory.name);
    all
});

/// Returns all calculators, sorted by name.
pub fn all() -> &'static [&'static Factory] {
    &ALL
}

/// Finds a calculator by name.
pub fn find(name: &str) -> Option<&'static Factory> {
    let place = ALL.binary_search_by_key(&name, |factory| factory.name);
    place.ok().map(|place| ALL[place])
}

#[cfg(test)]
mod tests;
