//! Counts of the requests that were denied.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strum::{EnumCount, VariantArray};

/// Reason for which a request is denied; its text is a label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, EnumCount, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Denial {
    /// No credential, or one of no identity.
    Credentials,
    /// Too many credentials of no identity from its address; this one was not looked at.
    Failures,
    /// No right of the identity, for what is about no servable.
    Right,
    /// No right of the identity to the servable, which was answered as an unknown one.
    Servable,
}

/// Numbers of requests that were denied, by reason.
#[derive(Debug, Default)]
pub struct DenialCounts([AtomicU64; Denial::COUNT]);

impl DenialCounts {
    /// Counts a request.
    pub fn add(&self, denial: Denial) {
        self.0[denial as usize].fetch_add(1, Relaxed);
    }

    /// Returns the reasons with their numbers.
    pub fn get(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        Denial::VARIANTS.iter().map(|it| it.into()).zip(counts)
    }
}
