//! Traces of requests for OpenTelemetry: spans, the contexts that they begin under, and the way to a collector.
//!
//! A [`Tracer`] decides at the head of a request whether it is sampled. One that is has a [`TraceSpan`], and its
//! [`TraceContext`] goes with it, under which whatever has a part in it begins spans of its own. Any other has `None`
//! in that place: no span is made and nothing is allocated for it.

mod collector;
mod error;
mod headers;
mod sampling;
mod settings;
mod span;
mod tracer;
mod variables;

pub use error::TraceError;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use headers::check_headers;
pub use settings::TraceSettings;
pub(crate) use settings::collector_url;
pub use span::{TraceContext, TraceSpan};
pub use tracer::Tracer;
