//! A request on its way through a pipeline: the flow says what can run, and this runs it.
//!
//! One task drives a request. Each node that runs is a future of its own, so that branches and parts
//! go on beside each other; what a model runs on is waited for inside it, and never by the driver.
//! No more runs of a request are in flight for one model than that has infer requests, and where its
//! threads run them as many wait for these, so that no infer request stands idle meanwhile. So a
//! request of thousands of parts does not push the requests of others far back. Nothing holds an
//! infer request while it waits for anything else: pipelines that share one cannot lock each other
//! out.
//!
//! The first failure ends the request: what has not begun never does, and what runs ends by itself
//! and is not waited for. The same happens if the client leaves, which drops the driver.

mod node;

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Instant,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::sync::OnceCell;

use self::node::Way;
use super::{
    definition::{LoadedVersion, PipelineDefinition, Used},
    fit,
    flow::{NodeJob, RequestFlow},
    trace::{NodeTrace, PipelineWatch, Trace},
};
use crate::{
    budget::Budget,
    error::{Error, Result},
    python::{HandlerInstance, WorkerSeat},
    quota::RunOwner,
    request::RequestOrigin,
    task,
    tensor::Tensor,
    trace::{TraceContext, TraceSpan},
};

/// State shared by the runs of a request.
struct Shared {
    definition: Arc<PipelineDefinition>,
    used: Used,
    /// Python nodes of the request, by node, once they have run; empty without any.
    instances: Vec<OnceCell<Arc<HandlerInstance>>>,
    /// The worker of all of them.
    seat: OnceLock<Arc<WorkerSeat>>,
    origin: RequestOrigin,
    watched: bool,
    /// Parent context of the spans of its nodes, if it is traced.
    spans: Option<TraceContext>,
    owner: Option<RunOwner>,
    /// Budget of what is copied between its nodes.
    budget: Budget,
}

/// A node that can run, since when.
struct Waiting {
    job: NodeJob,
    since: Instant,
}

/// Outcome of a run.
struct Outcome {
    ready: super::Ready,
    since: Instant,
    done: Result<EndedRun>,
    span: Option<TraceSpan>,
}

/// A run that has ended well.
struct EndedRun {
    /// Kept for a trace only.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    started: Instant,
    ended: Instant,
}

type Running = FuturesUnordered<Pin<Box<dyn Future<Output = Outcome> + Send>>>;

/// Runs in flight at once, by what they run on.
struct Pool {
    most: usize,
    /// A node of the model, if it is one.
    model: Option<usize>,
    running: usize,
    waiting: VecDeque<Waiting>,
}

/// One request.
struct Driver<'a> {
    shared: Arc<Shared>,
    flow: RequestFlow,
    pools: Vec<Pool>,
    /// Runs beside each other; `None` before the first that does not run alone, as in many pipelines.
    running: Option<Running>,
    trace: Option<&'a Trace>,
    /// The exit, once it is its turn.
    exit: Option<NodeJob>,
}

impl PipelineDefinition {
    /// Runs a validated request: tensors in the order of the pipeline's inputs in the file. Returns the
    /// response's in the order of its outputs there.
    ///
    /// # Errors
    ///
    /// Fails with the first failure; the text names node and part.
    pub async fn run(
        self: &Arc<Self>,
        models: impl Fn(&str, Option<i64>) -> Result<LoadedVersion>,
        inputs: Vec<Tensor>,
        origin: RequestOrigin,
        watch: PipelineWatch<'_>,
    ) -> Result<Vec<Tensor>> {
        let PipelineWatch {
            trace,
            spans,
            owner,
            budget,
        } = watch;
        let plan = &self.plan;
        let used = self.used(models)?;
        let (flow, jobs) = RequestFlow::start(Arc::clone(plan), inputs)?;
        let pools = used.pools.iter().map(|&(most, model)| Pool {
            most,
            model,
            running: 0,
            waiting: VecDeque::new(),
        });
        let instances = self.workers().map_or(0, |_| plan.nodes.len());
        let driver = Driver {
            pools: pools.collect(),
            shared: Arc::new(Shared {
                definition: Arc::clone(self),
                used,
                instances: (0..instances).map(|_| OnceCell::new()).collect(),
                seat: OnceLock::new(),
                origin,
                watched: trace.is_some(),
                spans: spans.cloned(),
                owner: owner.cloned(),
                budget: budget.clone(),
            }),
            flow,
            running: None,
            trace,
            exit: None,
        };
        let tensors = driver.drive(jobs).await?;
        for output in plan.declared_outputs() {
            fit::output(output, &tensors[output.port])
                .map_err(|error| of_node(error, &plan.nodes[plan.exit()].name, ""))?;
        }
        Ok(tensors)
    }
}

impl Driver<'_> {
    async fn drive(mut self, jobs: Vec<NodeJob>) -> Result<Vec<Tensor>> {
        let mut next = self.take(jobs);
        loop {
            // What is alone needs no more than to be awaited.
            let outcome = match next.take() {
                Some(only) => self.shared.clone().run(only).await,
                None => {
                    let Some(running) = &mut self.running else {
                        break;
                    };
                    match running.next().await {
                        Some(outcome) => outcome,
                        None => break,
                    }
                }
            };
            next = self.finish(outcome)?;
            // Runs in place may all be done at once.
            tokio::task::coop::consume_budget().await;
        }
        let Some(exit) = self.exit.take() else {
            return Err(Error::internal("Internal server error")
                .with_source("a bug: nothing runs and the response is not there"));
        };
        node::gathered(exit, &self.shared).await
    }

    /// Takes in what can run and starts as much of it as may be. If that is one node and nothing else
    /// is in flight, it is returned instead.
    fn take(&mut self, jobs: Vec<NodeJob>) -> Option<Waiting> {
        let since = Instant::now();
        let exit = self.shared.definition.plan.exit();
        let is_idle = self.running.as_ref().is_none_or(Running::is_empty);
        let mut only = None;
        let single = jobs.len() == 1;
        for job in jobs {
            if job.ready.node == exit {
                self.exit = Some(job);
                continue;
            }
            let pool = self.shared.used.pool_of[job.ready.node];
            let waiting = Waiting { job, since };
            if single && is_idle {
                self.pools[pool].running += 1;
                only = Some(waiting);
            } else {
                self.pools[pool].waiting.push_back(waiting);
                self.start(pool);
            }
        }
        only
    }

    /// Starts what waits for a pool, as much as may run.
    fn start(&mut self, pool: usize) {
        let Pool {
            most,
            model,
            running,
            waiting,
        } = &mut self.pools[pool];
        let model = model.and_then(|node| self.shared.used.models[node].as_ref());
        let way = Way::of(model);
        let most = match way {
            Way::Threads => *most * 2,
            _ => *most,
        };
        while *running < most
            && let Some(next) = waiting.pop_front()
        {
            *running += 1;
            let run = Arc::clone(&self.shared).run(next);
            let all = self.running.get_or_insert_with(Running::new);
            all.push(if way == Way::Spread && most > 1 {
                // Another thread may take it.
                Box::pin(task::joined(async { task::Task::spawn(run).await }))
            } else {
                Box::pin(run)
            });
        }
    }

    /// Takes in how a run went; returns a node that can run alone, if so.
    fn finish(&mut self, mut outcome: Outcome) -> Result<Option<Waiting>> {
        let plan = Arc::clone(&self.shared.definition.plan);
        let ready = outcome.ready;
        let pool = self.shared.used.pool_of[ready.node];
        self.pools[pool].running -= 1;
        let key = || self.flow.schedule.sessions.key(&plan, ready.session);
        let name = &plan.nodes[ready.node].name;
        if let Some(mut span) = outcome.span.take() {
            let part = key();
            if !part.is_empty() {
                span.set("ovms.part", part);
            }
            if let Err(error) = &outcome.done {
                span.failed(error);
            }
        }
        let done = outcome.done;
        let done = done.map_err(|error| of_node(error, name, &key()))?;
        let took = done.ended.saturating_duration_since(done.started);
        self.shared.definition.times[ready.node].ran(took);
        if let Some(trace) = self.trace {
            trace.add(NodeTrace {
                node: ready.node,
                session: key(),
                ready: outcome.since,
                started: done.started,
                ended: done.ended,
                inputs: done.inputs,
                outputs: done.outputs.clone(),
            });
        }
        let jobs = self.flow.finished(ready, done.outputs).map_err(|error| {
            let key = self.flow.schedule.sessions.key(&plan, ready.session);
            of_part(error, &key)
        })?;
        self.start(pool);
        Ok(self.take(jobs))
    }
}

/// Adds the node that failed, and the part that it failed for, to an error.
fn of_node(error: Error, node: &str, session: &str) -> Error {
    let error = if error.message().contains(" - Node: ") {
        error
    } else {
        error.with_more(&format!(" - Node: {node}"))
    };
    of_part(error, session)
}

fn of_part(error: Error, session: &str) -> Error {
    if session.is_empty() || !error.message().contains(" - Node: ") {
        return error;
    }
    error.with_more(&format!("; shard: {session}"))
}
