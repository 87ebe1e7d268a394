//! DAG pipelines and their custom nodes.

mod check_files;
mod config;
mod custom_node_errors;
mod custom_node_examples;
mod custom_node_libraries;
mod custom_nodes;
mod edits;
mod errors;
mod examples;
mod labels;
mod limits;
mod metrics;
mod names;
mod new;
mod parallel;
mod parts;
mod property;
mod python_reload;
mod reload;
mod run;
mod shared;
mod sheets;
mod terminal;
mod workers;
