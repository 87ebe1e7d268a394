//! Exemplars: of each size of request times, the last request that was traced.

use std::{
    array,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::cells::{BUCKETS, bucket};
use crate::{request::Interface, trace::TraceContext};

/// A request that stands for others that took about as long.
#[derive(Debug, Clone)]
pub(super) struct Exemplar {
    trace: TraceContext,
    took: Duration,
    at: SystemTime,
}

impl Exemplar {
    /// Writes it as it stands behind a sample in OpenMetrics: labels, microseconds, and seconds since 1970.
    pub(super) fn text(&self) -> String {
        let (trace, span) = (self.trace.trace_id(), self.trace.span_id());
        let micros = self.took.as_nanos();
        let (whole, rest) = (micros / 1000, micros % 1000);
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, milliseconds) = (at.as_secs(), at.subsec_millis());
        format!(
            r#" # {{trace_id="{trace}",span_id="{span}"}} {whole}.{rest:03} {seconds}.{milliseconds:03}"#
        )
    }
}

/// Exemplars by size.
type BySize = [Option<Exemplar>; BUCKETS];

/// The exemplars of one version, by interface.
#[derive(Debug)]
pub(super) struct Exemplars([Mutex<BySize>; 2]);

impl Default for Exemplars {
    fn default() -> Self {
        Self(array::from_fn(|_| Mutex::new([const { None }; BUCKETS])))
    }
}

impl Exemplars {
    /// Keeps a request in the place of the one before it.
    pub(super) fn keep(&self, interface: Interface, took: Duration, trace: &TraceContext) {
        let exemplar = Exemplar {
            trace: trace.clone(),
            took,
            at: SystemTime::now(),
        };
        self.0[interface as usize].lock()[bucket(took)] = Some(exemplar);
    }

    /// Returns those of an interface.
    pub(super) fn of(&self, interface: Interface) -> BySize {
        self.0[interface as usize].lock().clone()
    }
}
