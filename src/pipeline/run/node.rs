//! One run of one node.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;

use super::{EndedRun, Outcome, Shared, Waiting};
use crate::{
    budget::Budget,
    custom_node::{self, Node},
    error::{Error, Result},
    metrics::RequestRecord,
    openvino::{self, SlotInput, SlotQueue},
    pipeline::{
        definition::{Model, Work},
        fit,
        flow::NodeJob,
        plan::{PipelinePlan, PipelinePlanNode},
        python::{self, PythonNode},
    },
    python::HandlerInstance,
    task,
    tensor::Tensor,
    trace::{TraceContext, TraceSpan},
};

/// Maximum number of runs of all custom nodes together: half of the threads for work that blocks, so that
/// those that never end leave the others to the rest of the server.
static ALL_CUSTOM: Semaphore = Semaphore::const_new(256);

/// Runs in place that take less than this are not worth a hand-over to another thread.
const WORTH_A_TASK: Duration = Duration::from_micros(25);

/// Scheduling of the runs of a pool beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Runs in place, one after the other.
    InTurn,
    /// Runs in place, each in a task of its own.
    Spread,
    /// Runs on the threads of the model, each of which goes on with the next that waits.
    Threads,
    /// Runs on threads, one at a time for each place.
    Places,
}

impl Way {
    /// Returns the way of the runs of a model, or of a custom node.
    pub(super) fn of(model: Option<&Model>) -> Self {
        match model.map(|model| model.loaded.in_place()) {
            None => Self::Places,
            Some(None) => Self::Threads,
            Some(Some(usual)) if usual >= WORTH_A_TASK => Self::Spread,
            Some(Some(_)) => Self::InTurn,
        }
    }
}

/// Gathers the inputs of a node, away from the async workers if that is a lot to copy.
pub(super) async fn gathered(job: NodeJob, shared: &Arc<Shared>) -> Result<Vec<Tensor>> {
    let effort = job.effort(&shared.definition.plan);
    let shared = Arc::clone(shared);
    let gather = move || job.tensors(&shared.definition.plan, &shared.budget);
    task::sized("gather", effort, gather).await
}

/// Outputs of a node, with start and end of its run.
type Timed = (Vec<Tensor>, Instant, Instant);

impl Shared {
    pub(super) async fn run(self: Arc<Self>, waiting: Waiting) -> Outcome {
        let Waiting { job, since } = waiting;
        let ready = job.ready;
        let span = self.spans.as_ref().map(|trace| {
            let name = &self.definition.plan.nodes[ready.node].name;
            let mut span = trace.span(format!("node {name}"));
            span.begun(since);
            span
        });
        let done = self.execute(job, span.as_ref().map(TraceSpan::context));
        Outcome {
            ready,
            since,
            done: done.await,
            span,
        }
    }

    async fn execute(
        self: &Arc<Self>,
        job: NodeJob,
        trace: Option<&TraceContext>,
    ) -> Result<EndedRun> {
        let plan = &self.definition.plan;
        let id = job.ready.node;
        let node = &plan.nodes[id];
        let tensors = gathered(job, self).await?;
        let inputs = match self.watched {
            true => tensors.clone(),
            false => Vec::new(),
        };
        let (outputs, started, ended) = match (&self.definition.works[id], &self.used.models[id]) {
            (Work::Custom(custom, gate, _), _) => {
                validate_given(node, &tensors)?;
                let inputs = node.inputs.iter().map(|input| input.name.clone());
                let inputs = inputs.zip(tensors).collect();
                run_custom(custom, gate, node, inputs, &self.budget).await?
            }
            (Work::Python(python, _), _) => {
                let instance = &self.instances[id];
                let instance = instance.get_or_try_init(|| python.open(&self.seat)).await?;
                run_python(python, instance, node, tensors, trace).await?
            }
            (_, Some(model)) => self.run_model(model, node, tensors, trace).await?,
            _ => {
                return Err(Error::internal("Internal server error")
                    .with_source("a bug: a node without anything to run"));
            }
        };
        Ok(EndedRun {
            inputs,
            outputs,
            started,
            ended,
        })
    }

    async fn run_model(
        &self,
        model: &Model,
        node: &PipelinePlanNode,
        tensors: Vec<Tensor>,
        trace: Option<&TraceContext>,
    ) -> Result<Timed> {
        let expected = &model.bound.inputs;
        let mut inputs = Vec::with_capacity(tensors.len());
        for ((port, expected), tensor) in expected.iter().zip(tensors) {
            fit::input(&node.name, expected, &tensor)?;
            let (_, shape, data) = tensor.into_parts();
            inputs.push(SlotInput::new(*port, shape, data));
        }
        let call = RequestRecord::new(model.version.reporter(), self.origin);
        if let Some(trace) = trace {
            call.trace(trace.clone());
        }
        if let Some(owner) = &self.owner {
            call.own(owner.clone());
        }
        let wanted = model.bound.outputs.clone();
        let work = openvino::Work::new(inputs, wanted);
        // Requests to pipelines are bounded before they begin.
        let queue = SlotQueue::Admitted;
        let ran = (model.version).run_ports(&model.loaded, work, &call, queue);
        let (outputs, times) = ran.await.inspect_err(|error| call.failed(error))?;
        call.ran_node(times.end());
        Ok((outputs, times.started, times.ended))
    }
}

/// Validates what a custom node is given by what it declares: other custom nodes, and gathering, give what
/// the check could not know. What comes as the client sent it has been validated with the request.
fn validate_given(node: &PipelinePlanNode, tensors: &[Tensor]) -> Result<()> {
    for (input, tensor) in node.inputs.iter().zip(tensors) {
        let is_sent = input.source == PipelinePlan::ENTRY && node.gathers.is_empty();
        if let Some(expected) = input.tensor.as_ref().filter(|_| !is_sent) {
            fit::input(&node.name, expected, tensor)?;
        }
    }
    Ok(())
}

async fn run_python(
    handle: &Arc<PythonNode>,
    instance: &HandlerInstance,
    node: &PipelinePlanNode,
    tensors: Vec<Tensor>,
    trace: Option<&TraceContext>,
) -> Result<Timed> {
    let names = node.inputs.iter().map(|input| &input.name);
    let inputs = names.zip(&tensors);
    let mut inputs: Vec<_> = inputs
        .map(|(name, tensor)| python::input(name, tensor))
        .collect();
    inputs.sort_by(|a, b| a.name().cmp(b.name()));
    let started = Instant::now();
    let produced = instance.execute(&inputs, true, false, trace);
    let outputs = handle.outputs(produced.await);
    let ended = Instant::now();
    let outputs = outputs?;
    let wanted = node.outputs.iter();
    let wanted = wanted.map(|output| handle.wanted(&outputs, &output.name));
    Ok((wanted.collect::<Result<_>>()?, started, ended))
}

async fn run_custom(
    custom: &Arc<Node>,
    gate: &Arc<Semaphore>,
    node: &PipelinePlanNode,
    inputs: Vec<(String, Tensor)>,
    budget: &Budget,
) -> Result<Timed> {
    // A run that never ends keeps its place, and no more than these are ever lost to it.
    let place = Arc::clone(gate).acquire_owned().await;
    let of_all = ALL_CUSTOM.acquire().await;
    let (handle, budget) = (Arc::clone(custom), budget.clone());
    let (outputs, started, ended) = task::blocking("custom node", move || {
        let started = Instant::now();
        let named: Vec<(&str, &Tensor)> = inputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let outputs = handle.execute_within(&named, &budget);
        drop((place, of_all));
        (outputs, started, Instant::now())
    })
    .await;
    let outputs = outputs?;
    let named = node.outputs.iter().map(|output| {
        let found = custom_node::output(&outputs, &output.name)?;
        Ok(found.clone())
    });
    Ok((named.collect::<Result<_>>()?, started, ended))
}
