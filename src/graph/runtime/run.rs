//! Single run of a graph: the state machine, the calculators, and their pending futures.
//!
//! The owner drives a run: [`Run::turn`] runs all steps possible without waiting, up to a limit,
//! and [`Run::finished`] waits for asynchronous steps. Dropping a run ends it at once: pending
//! steps are abandoned, and calculators are not closed, only dropped.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
    time::{Duration, Instant},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::scheduler::{GraphJob, Scheduler, Ticket};
use crate::{
    graph::{
        calculators::{
            calculator::{Calculator, CalculatorContext, Emit, Env, Later, Resources, StepOutcome},
            error::{CalculatorStep, GraphRunError},
            packet::Packet,
            timestamp::Timestamp,
        },
        check::plan::GraphPlan,
    },
    metrics::NodeTimes,
    trace::TraceSpan,
};

/// Maximum duration of a turn before others get theirs. Checked between steps of nodes, each of
/// which takes microseconds, or continues asynchronously.
const MAX_TURN: Duration = Duration::from_micros(200);

/// Number of steps between checks of the clock.
const STEPS: usize = 16;

/// Observer of the steps of a run's nodes.
pub trait GraphObserver: Send + Sync {
    /// Called after a step of a node. `took` is from its begin to its end, including asynchronous work.
    fn ran(&self, node: usize, step: CalculatorStep, at: Timestamp, began: Instant, took: Duration);
}

/// Single run of a graph.
pub(in crate::graph) struct Run {
    plan: Arc<GraphPlan>,
    pub(in crate::graph) scheduler: Scheduler,
    /// Step that the next turn begins with, if it was looked for.
    next: Option<GraphJob>,
    nodes: Vec<Box<dyn Calculator>>,
    elsewhere: FuturesUnordered<OngoingStep>,
    pub(in crate::graph) env: Env,
    /// Indicates that nodes without inputs are to stop: nobody wants more of them.
    pub(in crate::graph) is_sated: bool,
    times: Arc<[Arc<NodeTimes>]>,
    /// End of the last step of each node that is pipelined, if durations are asked for.
    ends: Vec<Option<Instant>>,
    watch: Option<Arc<dyn GraphObserver>>,
    /// Indicates that the calculators know that the run has failed.
    is_abandoned: bool,
}

/// Asynchronous step in flight.
struct OngoingStep {
    rest: BoxFuture<'static, Result<Later, GraphRunError>>,
    /// Output operations before `rest`.
    emits: Vec<Emit>,
    /// The step, without its outcome; `None` once that is there.
    begun: Option<Done>,
}

impl Future for OngoingStep {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Done> {
        let outcome = ready!(self.rest.as_mut().poll(context));
        let emits = std::mem::take(&mut self.emits);
        match self.begun.take() {
            Some(mut done) => {
                done.outcome = outcome.map(|mut later| {
                    if !emits.is_empty() {
                        later.emits.splice(0..0, emits);
                    }
                    later
                });
                Poll::Ready(done)
            }
            None => Poll::Pending,
        }
    }
}

/// Completed asynchronous step.
struct Done {
    ticket: Ticket,
    at: Timestamp,
    /// Begin of the step, if its duration is asked for.
    began: Option<Instant>,
    outcome: Result<Later, GraphRunError>,
    span: Option<TraceSpan>,
}

impl Run {
    /// Creates a run with its side packets, in the order of the plan; those produced by nodes are empty.
    ///
    /// # Errors
    ///
    /// Fails if a side packet is missing.
    pub(in crate::graph) fn new(
        plan: &Arc<GraphPlan>,
        side: Vec<Option<Packet>>,
        resources: &dyn Resources,
        env: Env,
        times: &Arc<[Arc<NodeTimes>]>,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<Self, GraphRunError> {
        let scheduler = Scheduler::new(Arc::clone(plan), side)?;
        let nodes = plan.nodes.iter();
        Ok(Self {
            nodes: nodes
                .map(|node| (node.factory.make)(&node.spec, resources))
                .collect(),
            scheduler,
            next: None,
            plan: Arc::clone(plan),
            elsewhere: FuturesUnordered::new(),
            env,
            is_sated: false,
            times: Arc::clone(times),
            ends: vec![None; plan.nodes.len()],
            watch,
            is_abandoned: false,
        })
    }

    /// Returns whether all inputs accept packets; they do not while a queue behind one is full.
    pub(in crate::graph) fn accepts(&self) -> bool {
        (0..self.plan.inputs.len()).all(|input| self.scheduler.accepts(input))
    }

    /// Returns whether an asynchronous step is in flight.
    pub(in crate::graph) fn is_waiting(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Returns whether a step can run before another event. To be called when all outputs are taken, before a turn.
    pub(in crate::graph) fn has_step(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.scheduler.next_job();
        }
        self.next.is_some()
    }

    /// Runs steps for at most one turn, or until there is an output packet. Returns whether steps are
    /// left that can run before another event, as all turns do.
    pub(in crate::graph) fn turn_to_output(&mut self) -> bool {
        self.turn_while(|scheduler| !scheduler.has_output())
    }

    /// Runs steps until no node is being opened.
    pub(in crate::graph) async fn opened(&mut self) {
        loop {
            let more = self.turn();
            if !self.scheduler.is_opening() {
                return;
            }
            match more {
                true => tokio::task::yield_now().await,
                false => self.finished().await,
            }
        }
    }

    /// Runs steps for at most one turn.
    pub(in crate::graph) fn turn(&mut self) -> bool {
        self.turn_while(|_| true)
    }

    /// Runs steps for at most this time, and then to the end of the step that is running.
    pub(in crate::graph) fn turn_for(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        self.turn_while(|_| began.elapsed() < limit)
    }

    fn turn_while(&mut self, goes_on: impl Fn(&Scheduler) -> bool) -> bool {
        // It may have failed outside of a step.
        self.abandon_if_failed();
        let mut steps = 0;
        let mut began = None;
        // A step that was looked for runs before anything else can end the run.
        while self.next.is_some() || goes_on(&self.scheduler) {
            let Some(job) = (self.next.take()).or_else(|| self.scheduler.next_job()) else {
                return false;
            };
            self.step(job);
            steps += 1;
            if steps == STEPS {
                steps = 0;
                if began.get_or_insert_with(Instant::now).elapsed() > MAX_TURN {
                    return true;
                }
            }
        }
        !self.scheduler.is_idle()
    }

    /// Waits until an asynchronous step has completed; for ever if there is none.
    pub(in crate::graph) async fn finished(&mut self) {
        if self.elsewhere.is_empty() {
            return std::future::pending().await;
        }
        if let Some(done) = self.elsewhere.next().await {
            self.settle(done);
        }
        // Others may have completed by now as well.
        let mut context = TaskContext::from_waker(std::task::Waker::noop());
        // No waker is needed here: the next waiter polls it again.
        while let Poll::Ready(Some(done)) = self.elsewhere.poll_next_unpin(&mut context) {
            self.settle(done);
        }
    }

    fn step(&mut self, job: GraphJob) {
        let (ticket, at) = (job.ticket, job.at);
        let counts = self.watch.is_some() || self.times[ticket.node].counts();
        let began = counts.then(Instant::now);
        let node = &self.plan.nodes[ticket.node];
        let is_process = ticket.step == CalculatorStep::Process;
        if is_process && node.inputs.is_empty() && (self.is_sated || self.env.is_ending()) {
            let (emits, stop) = (Vec::new(), true);
            return self.scheduler.done(ticket, Ok(Later { emits, stop }));
        }
        let trace = self.env.trace.as_ref().filter(|_| is_process);
        let span = trace.map(|trace| {
            let mut span = trace.span(format!("calculator {}", node.spec.name));
            span.set("ovms.calculator", node.spec.calculator.clone());
            span.set("ovms.timestamp", at.to_string());
            span
        });
        let mut context = CalculatorContext {
            node: &node.spec,
            at,
            inputs: &job.inputs,
            side: &job.side,
            env: &self.env,
            trace: span.as_ref().map(TraceSpan::context),
            bounds: &job.bounds,
            emits: Vec::new(),
        };
        let calculator = &mut self.nodes[ticket.node];
        let flow = match ticket.step {
            CalculatorStep::Open => calculator.open(&mut context),
            CalculatorStep::Process => calculator.process(&mut context),
            CalculatorStep::Close => calculator.close(&mut context),
        };
        let emits = context.emits;
        let done = move |outcome| Done {
            ticket,
            at,
            began,
            outcome,
            span,
        };
        let outcome = match flow {
            Ok(StepOutcome::Next) => Ok(Later { emits, stop: false }),
            Ok(StepOutcome::Stop) => Ok(Later { emits, stop: true }),
            Ok(StepOutcome::Later(rest)) => {
                let begun = Some(done(Ok(Later::default())));
                return self.elsewhere.push(OngoingStep { rest, emits, begun });
            }
            Err(error) => Err(error),
        };
        self.settle(done(outcome));
    }

    fn settle(&mut self, mut done: Done) {
        if let (Some(span), Err(error)) = (&mut done.span, &done.outcome) {
            span.failed(&error.message);
        }
        drop(done.span.take());
        let Ticket { node, step, .. } = done.ticket;
        if let Some(mut began) = done.began {
            let now = Instant::now();
            if self.plan.nodes[node].is_pipelined() {
                // Until the one before it ended, it waited.
                let before = self.ends[node].replace(now);
                began = before.map_or(began, |before| before.max(began));
            }
            let took = now - began;
            if step == CalculatorStep::Process {
                self.times[node].ran(took);
            }
            if let Some(watch) = &self.watch {
                watch.ran(node, step, done.at, began, took);
            }
        }
        self.scheduler.done(done.ticket, done.outcome);
        self.abandon_if_failed();
    }

    /// Abandons the work of all calculators if the run has failed.
    fn abandon_if_failed(&mut self) {
        if self.scheduler.has_failed() && !std::mem::replace(&mut self.is_abandoned, true) {
            self.nodes.iter_mut().for_each(|node| node.abandon());
        }
    }
}
