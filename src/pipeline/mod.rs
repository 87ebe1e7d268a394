//! Pipelines: nodes that hand tensors on to one another, checked once and scheduled for each
//! request. No file is read here.
//!
//! [`check()`] makes a [`PipelinePlan`] of what is configured and of what [`Sources`] says of models and
//! custom nodes, or reports every error, and what could not be asked. For each request a [`RequestFlow`] takes
//! the outputs of the nodes that have run and says what can run next, with its inputs; it is made of a [`Schedule`], which knows no tensors, and [`shards`], which
//! knows nothing else. [`fit`] validates what nodes really gave. All that waits for nothing and runs
//! nothing.
//!
//! What does is [`PipelineDefinition::run`], the driver, and around it
//! [`Pipeline`]: the name, its state, and the definition that serves.
//!
//! A flow is driven by [`RequestFlow::start`] with the tensors of a validated request; each [`NodeJob`] in a
//! task of its own, which calls [`NodeJob::tensors`], runs the node and returns those of its outputs that
//! the plan names; [`RequestFlow::finished`] with them, and so on with the jobs that gives, or
//! [`RequestFlow::failed`]. The job of the exit is the last: its tensors are the response.

mod adapt;
mod check;
mod definition;
mod diagram;
mod dims;
mod empty;
pub mod fit;
mod flow;
mod live;
mod plan;
pub mod python;
pub mod rules;
mod run;
mod scheduler;
mod session;
pub mod shards;
mod sources;
mod trace;

pub use adapt::Adapter;
pub use check::{CheckedPipeline, check, name_taken, survey};
pub use definition::{CustomNode, PipelineDefinition, PipelineLimits};
pub use diagram::diagram;
pub use flow::{NodeJob, RequestFlow};
pub use live::{Pipeline, VERSION};
pub use plan::{Count, Input, Level, PipelinePlan, PipelinePlanNode, PlanOutput};
pub use python::PythonNode;
pub use scheduler::{MAX_SESSIONS, Ready, Schedule};
pub use session::{PipelineSession, Sessions};
pub use sources::{
    CustomError, CustomFacts, HandlerPlace, MissingModel, ModelFacts, Sources, TensorSource,
};
pub use trace::{DecodingTrace, NodeTrace, PipelineWatch, Trace, critical_path};

#[cfg(test)]
mod tests;

/// Maximum number of parts that a node's outputs are split into.
pub const MAX_SHARDS: usize = 10_000;
