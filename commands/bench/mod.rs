//! `ovms bench`: load measurement.
//!
//! [`BenchArgs`] are the flags as typed; `plan` checks them and reads their files before anything is sent. `mix` makes
//! the requests, `measure` runs level after level with the engine in [`ovms::client::load`], `report` has the
//! results. `text`, `csv`, and `html` show them, `condition` checks them; `saved` does so with two that were saved.
//! `differences` has in what two reports differ beside their figures. `foreign` has the flags of another program.

mod args;
mod condition;
mod csv;
mod differences;
mod foreign;
mod html;
mod levels;
mod measure;
mod mix;
mod plan;
mod report;
mod run;
mod saved;
mod text;

pub(crate) use args::BenchArgs;
pub(crate) use foreign::{hint_of_flag, hint_of_value};
pub(crate) use run::run;
