//! Runs of graphs: a state machine of packets, timestamps and bounds, and the driver of the calculators.

pub(super) mod handlers;
pub(super) mod run;
pub(super) mod scheduler;
