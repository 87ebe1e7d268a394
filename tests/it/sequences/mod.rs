//! Stateful models and their sequences.

mod batches;
mod drain;
mod errors;
mod failure;
mod infer_sequence;
mod infer_sequence_ends;
mod listed;
mod low_latency;
mod metrics;
mod order;
mod params;
mod reload;
mod saved;
mod shared;
mod sheets;
mod state_modes;
mod store;
