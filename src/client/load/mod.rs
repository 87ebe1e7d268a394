//! Load: many requests at once or at a rate, measured in windows until they agree.
//!
//! A [`LoadRun`] measures one level of a [`LoadPlan`]: its driver keeps lanes busy (closed loop), or starts each
//! request at its due moment (open loop), whose latency counts from there, whenever it is sent. A lane has what
//! a request needs for itself: a sequence, a stream, a connection. [`Traffic`] has the requests,
//! encoded once, and connections of its own: less processor time a request than with those of
//! [`Client`](super::Client), which make single requests simple. [`Comparison`] holds two reports against each other.
//!
//! Everything runs in the task of the caller; only connections are tasks. Nothing here prints.

mod alarm;
mod compare;
mod driver;
mod lane;
mod plan;
mod record;
mod report;
mod schedule;
mod stability;
mod traffic;

pub use compare::{Comparison, Difference, Metric, MetricDifference};
pub use driver::{LoadProgress, LoadRun};
pub use plan::{ArrivalProcess, LoadEnd, LoadPlan, LoadRunError, LoadTarget, Until};
pub use report::{ErrorCount, HistogramBin, LatencyFigures, LevelEnd, LevelReport, WindowReport};
pub use traffic::{Traffic, TrafficKind, WeightedRequest};
