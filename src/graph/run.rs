//! Single run of a graph: the state machine, the calculators, and their pending futures.
//!
//! The owner drives a run: [`Run::turn`] runs all steps possible without waiting, up to a limit,
//! and [`Run::finished`] waits for asynchronous steps. Dropping a run ends it at once: pending
//! steps are abandoned, and calculators are not closed, only dropped.

use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    calculator::{Calculator, CalculatorContext, Env, Later, Resources, StepOutcome},
    error::{CalculatorStep, GraphRunError},
    packet::Packet,
    plan::GraphPlan,
    scheduler::{GraphJob, Scheduler, Ticket},
    timestamp::Timestamp,
};
use crate::metrics::NodeTimes;

/// Maximum duration of a turn before others get theirs. Checked between steps of nodes, each of
/// which takes microseconds, or continues asynchronously.
const TURN: Duration = Duration::from_micros(200);

/// Number of steps between checks of the clock.
const STEPS: usize = 16;

/// Observer of the steps of a run's nodes.
pub trait GraphObserver: Send + Sync {
    /// Called after a step of a node. `took` is from its begin to its end, including asynchronous work.
    fn ran(&self, node: usize, step: CalculatorStep, at: Timestamp, began: Instant, took: Duration);
}

/// Single run of a graph.
pub(super) struct Run {
    plan: Arc<GraphPlan>,
    scheduler: Scheduler,
    nodes: Vec<Box<dyn Calculator>>,
    elsewhere: FuturesUnordered<BoxFuture<'static, Done>>,
    env: Env,
    times: Arc<[Arc<NodeTimes>]>,
    watch: Option<Arc<dyn GraphObserver>>,
}

/// Completed asynchronous step.
struct Done {
    ticket: Ticket,
    step: Reported,
    outcome: Result<Later, GraphRunError>,
}

/// Description of a step, for metrics.
#[derive(Clone, Copy)]
struct Reported {
    node: usize,
    step: CalculatorStep,
    at: Timestamp,
    began: Option<Instant>,
}

/// Whether a turn has left any runnable steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// Steps are left.
    Yes,
    /// No step can run before another event.
    No,
}

impl Run {
    /// Creates a run with its side packets, in the order of the plan; those produced by nodes are empty.
    ///
    /// # Errors
    ///
    /// Fails if a side packet is missing.
    pub(super) fn new(
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
            plan: Arc::clone(plan),
            elsewhere: FuturesUnordered::new(),
            env,
            times: Arc::clone(times),
            watch,
        })
    }

    /// Sends a packet into an input of the graph.
    ///
    /// # Errors
    ///
    /// Fails, and the run with it, if the packet's timestamp is not above that of the last one.
    pub(super) fn push(&mut self, input: usize, packet: Packet) -> Result<(), GraphRunError> {
        self.scheduler.push(input, packet)
    }

    /// Returns whether all inputs accept packets; they do not while a queue behind one is full.
    #[must_use]
    pub(super) fn accepts(&self) -> bool {
        (0..self.plan.inputs.len()).all(|input| self.scheduler.accepts(input))
    }

    /// Returns the timestamp that generating nodes have reached.
    #[must_use]
    pub(super) fn generated(&self) -> Option<Timestamp> {
        self.scheduler.generated()
    }

    /// Closes all inputs.
    pub(super) fn close_inputs(&mut self) {
        self.scheduler.close_inputs();
    }

    /// Requests an early end: nodes that generate on their own stop.
    pub(super) fn end(&self) {
        self.env.end();
    }

    /// Fails the run.
    pub(super) fn fail(&mut self, error: GraphRunError) {
        self.scheduler.fail(error);
    }

    /// Returns the error of the run.
    #[must_use]
    pub(super) fn error(&self) -> Option<GraphRunError> {
        self.scheduler.error()
    }

    /// Takes the next output packet of the graph.
    pub(super) fn take_output(&mut self) -> Option<(usize, Packet)> {
        self.scheduler.take_output()
    }

    /// Returns whether no step is running or can run.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Returns whether all nodes are closed.
    #[must_use]
    pub(super) fn is_finished(&self) -> bool {
        self.scheduler.is_finished()
    }

    /// Returns whether an asynchronous step is in flight.
    #[must_use]
    pub(super) fn is_waiting(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Runs steps for at most one turn, or until there is an output packet.
    pub(super) fn turn_to_output(&mut self) -> More {
        self.turn_while(|scheduler| !scheduler.has_output())
    }

    /// Runs steps for at most one turn.
    pub(super) fn turn(&mut self) -> More {
        self.turn_while(|_| true)
    }

    /// Runs steps for at most this time, and then to the end of the step that is running.
    pub(super) fn turn_for(&mut self, limit: Duration) -> More {
        let began = Instant::now();
        self.turn_while(|_| began.elapsed() < limit)
    }

    fn turn_while(&mut self, goes_on: impl Fn(&Scheduler) -> bool) -> More {
        let mut steps = 0;
        let mut began = None;
        while goes_on(&self.scheduler) {
            let Some(job) = self.scheduler.next() else {
                return More::No;
            };
            self.step(job);
            steps += 1;
            if steps == STEPS {
                steps = 0;
                if began.get_or_insert_with(Instant::now).elapsed() > TURN {
                    return More::Yes;
                }
            }
        }
        match self.scheduler.is_idle() {
            true => More::No,
            false => More::Yes,
        }
    }

    /// Waits until an asynchronous step has completed; for ever if there is none.
    pub(super) async fn finished(&mut self) {
        if self.elsewhere.is_empty() {
            return std::future::pending().await;
        }
        if let Some(done) = self.elsewhere.next().await {
            self.settle(done);
        }
        self.settle_all();
    }

    /// Handles all asynchronous steps that have completed by now.
    fn settle_all(&mut self) {
        let mut context = TaskContext::from_waker(std::task::Waker::noop());
        // No waker is needed here: the next waiter polls it again.
        while let Poll::Ready(Some(done)) = self.elsewhere.poll_next_unpin(&mut context) {
            self.settle(done);
        }
    }

    fn step(&mut self, job: GraphJob) {
        let counts = self.watch.is_some() || self.times[job.node].counts();
        let reported = Reported {
            node: job.node,
            step: job.step,
            at: job.at,
            began: counts.then(Instant::now),
        };
        let node = &self.plan.nodes[job.node];
        if job.step == CalculatorStep::Process && node.inputs.is_empty() && self.env.is_ending() {
            let stop = Later {
                stop: true,
                ..Later::default()
            };
            self.scheduler.done(job.ticket, Ok(stop));
            return;
        }
        let mut context = CalculatorContext::new(
            &node.spec,
            job.at,
            &job.inputs,
            &job.side,
            &job.bounds,
            &self.env,
        );
        let calculator = &mut self.nodes[job.node];
        let flow = match job.step {
            CalculatorStep::Open => calculator.open(&mut context),
            CalculatorStep::Process => calculator.process(&mut context),
            CalculatorStep::Close => calculator.close(&mut context),
        };
        let emits = context.into_emits();
        let outcome = match flow {
            Ok(StepOutcome::Next) => Ok(Later { emits, stop: false }),
            Ok(StepOutcome::Stop) => Ok(Later { emits, stop: true }),
            Ok(StepOutcome::Later(rest)) => {
                let ticket = job.ticket;
                self.elsewhere.push(Box::pin(async move {
                    let outcome = rest.await.map(|mut later| {
                        if !emits.is_empty() {
                            later.emits.splice(0..0, emits);
                        }
                        later
                    });
                    Done {
                        ticket,
                        step: reported,
                        outcome,
                    }
                }));
                return;
            }
            Err(error) => Err(error),
        };
        self.settle(Done {
            ticket: job.ticket,
            step: reported,
            outcome,
        });
    }

    fn settle(&mut self, done: Done) {
        let Reported {
            node,
            step,
            at,
            began,
        } = done.step;
        if let Some(began) = began {
            let took = began.elapsed();
            if step == CalculatorStep::Process {
                self.times[node].ran(took);
            }
            if let Some(watch) = &self.watch {
                watch.ran(node, step, at, began, took);
            }
        }
        self.scheduler.done(done.ticket, done.outcome);
    }
}
