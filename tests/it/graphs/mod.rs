//! Graphs with Python nodes, and streams.

mod check;
mod config;
mod departures;
mod generate;
mod handler_output;
mod metrics;
mod models;
mod new;
mod pool;
mod python;
mod python_errors;
mod reload;
mod remarks;
mod run;
mod saves;
mod sheets;
mod states;
mod stream_ends;
mod stream_models;
mod streams;
mod streams_ends;
mod worker_ends;
mod worker_leftovers;
mod worker_loads;
mod worker_memory;
mod workers;
