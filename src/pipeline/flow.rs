//! One request: the schedule and the tensors together. Gives each node that can run its inputs,
//! and takes its outputs. Nothing is run here.

use std::sync::Arc;

use super::{
    empty,
    plan::{Count, PipelinePlan, PipelinePlanNode},
    scheduler::{Ready, Schedule},
    session::{PipelineSession, Sessions},
    shards::{Parts, Splitter, split},
};
use crate::{
    budget::{Budget, OVERHEAD},
    error::Result,
    tensor::Tensor,
};

/// A request on its way through a pipeline.
///
/// A tensor is kept until its last consumer has been given it.
#[derive(Debug)]
pub struct RequestFlow {
    /// State of the request's work.
    pub(super) schedule: Schedule,
    /// Tensors for each node and input, by the ordinal of their session, before gathering.
    inbox: Vec<Vec<Vec<Option<Tensor>>>>,
}

/// A node to run for a session.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeJob {
    /// The node and what it runs for.
    pub ready: Ready,
    /// Its inputs, in the order of [`PipelinePlanNode::inputs`], not gathered yet.
    pub inputs: Vec<Parts>,
}

impl NodeJob {
    /// Returns how much [`NodeJob::tensors`] has to do: the bytes that it copies, and as many for each
    /// part as take the time that a part takes.
    pub fn effort(&self, plan: &PipelinePlan) -> usize {
        const EACH: usize = 64;
        let wants = &plan.nodes[self.ready.node].inputs;
        let copied = self
            .inputs
            .iter()
            .zip(wants)
            .filter(|(input, wants)| input.tensors.len() > 1 || wants.convert.is_some());
        let parts = copied.flat_map(|(input, _)| &input.tensors);
        parts.map(|part| EACH + part.data().len()).sum()
    }

    /// Returns the inputs, gathered and converted, in the order of [`PipelinePlanNode::inputs`]. For the
    /// exit that is the response. Copies what is gathered or converted, charged to the budget, so it belongs where the
    /// node runs.
    ///
    /// # Errors
    ///
    /// Fails if parts that are gathered differ, or there are none and the node does not take that; and if the budget
    /// has no room for the copies.
    pub fn tensors(self, plan: &PipelinePlan, budget: &Budget) -> Result<Vec<Tensor>> {
        let node = &plan.nodes[self.ready.node];
        let inputs = node.inputs.iter().zip(self.inputs);
        let tensors = inputs.map(|(input, parts)| {
            let gathered = if parts.counts.contains(&0) {
                empty::tensor(plan, node, input, &parts)?
            } else if parts.tensors.len() > 1 {
                let charge = budget.charge(parts.size() + OVERHEAD)?;
                parts.gather(&node.name, &input.name)?.charged(charge)
            } else {
                parts.gather(&node.name, &input.name)?
            };
            match &input.convert {
                Some(adapter) => adapter.convert(gathered, budget),
                None => Ok(gathered),
            }
        });
        tensors.collect()
    }
}

impl RequestFlow {
    /// Begins a request with its tensors, in the order of the entry's outputs: as the inputs of
    /// the pipeline are in the file. Returns what can run.
    ///
    /// # Errors
    ///
    /// Fails if the request is to be split and cannot be.
    ///
    /// # Panics
    ///
    /// Panics if there are more or fewer tensors than inputs.
    pub fn start(plan: Arc<PipelinePlan>, inputs: Vec<Tensor>) -> Result<(Self, Vec<NodeJob>)> {
        let mut flow = Self {
            inbox: plan
                .nodes
                .iter()
                .map(|node| vec![Vec::new(); node.inputs.len()])
                .collect(),
            schedule: Schedule::new(plan),
        };
        let entry = PipelinePlan::ENTRY;
        let mut jobs = Vec::new();
        for ready in flow.schedule.start() {
            if ready.node != entry {
                jobs.push(flow.job(ready));
            }
        }
        let ready = Ready {
            node: entry,
            session: PipelineSession::WHOLE,
        };
        jobs.extend(flow.finished(ready, inputs)?);
        Ok((flow, jobs))
    }

    /// Takes what a node has given: its outputs in the order of [`PipelinePlanNode::outputs`], none for
    /// the exit. Returns what can run now; nothing after a failure.
    ///
    /// # Errors
    ///
    /// Fails if the outputs are to be split and cannot be. Nothing can run any more then.
    ///
    /// # Panics
    ///
    /// Panics if there are more or fewer tensors than outputs.
    pub fn finished(&mut self, ran: Ready, outputs: Vec<Tensor>) -> Result<Vec<NodeJob>> {
        if self.schedule.stopped {
            return Ok(Vec::new());
        }
        let plan = Arc::clone(self.plan());
        let node = &plan.nodes[ran.node];
        assert_eq!(
            outputs.len(),
            node.outputs.len(),
            "every output that is used"
        );
        let names = node.outputs.iter().map(|output| output.name.as_str());
        let count = splitter(&plan, ran.node).map(|it| it.count(names.zip(&outputs)));
        let ready = (count.transpose())
            .and_then(|count| Ok((count, self.schedule.finished(ran, count)?)))
            .inspect_err(|_| self.failed());
        let (count, ready) = ready?;
        if count == Some(0) {
            self.keep_empty(node, outputs);
        } else {
            self.deliver(node, ran.session, outputs);
        }
        Ok(ready.into_iter().map(|ready| self.job(ready)).collect())
    }

    /// Takes note that a run has failed: nothing can run any more, and what is kept is dropped.
    pub fn failed(&mut self) {
        self.schedule.stop();
        self.inbox.iter_mut().flatten().for_each(Vec::clear);
    }

    fn plan(&self) -> &Arc<PipelinePlan> {
        &self.schedule.plan
    }

    /// Puts the outputs of a run before those who take them.
    fn deliver(&mut self, node: &PipelinePlanNode, session: PipelineSession, outputs: Vec<Tensor>) {
        let sessions = &self.schedule.sessions;
        for (output, tensor) in node.outputs.iter().zip(outputs) {
            let mut put = |session: PipelineSession, tensor: &Tensor| {
                for (consumer, input) in &output.consumers {
                    let places = &mut self.inbox[*consumer][*input];
                    let place = sessions.ordinal(session);
                    if places.len() <= place {
                        places.resize(place + 1, None);
                    }
                    places[place] = Some(tensor.clone());
                }
            };
            match node.opens {
                None => put(session, &tensor),
                Some(level) => {
                    for (session, shard) in sessions.parts(session, level).zip(split(&tensor)) {
                        put(session, &shard);
                    }
                }
            }
        }
    }

    /// Keeps what has nothing to be split for those who gather its parts: it says what they would
    /// be. It has the place of the first part, which is free: where there is one after all, not
    /// all sessions have as many parts, and nothing comes of it.
    fn keep_empty(&mut self, node: &PipelinePlanNode, outputs: Vec<Tensor>) {
        let plan = Arc::clone(self.plan());
        for (output, tensor) in node.outputs.iter().zip(outputs) {
            for (consumer, input) in &output.consumers {
                let gathers = &plan.nodes[*consumer].gathers;
                let places = &mut self.inbox[*consumer][*input];
                if node.opens.is_some_and(|level| gathers.contains(&level)) && places.is_empty() {
                    places.push(Some(tensor.clone()));
                }
            }
        }
    }

    /// Takes the inputs of a node.
    fn job(&mut self, ready: Ready) -> NodeJob {
        let plan = Arc::clone(self.plan());
        let node = &plan.nodes[ready.node];
        let sessions = &self.schedule.sessions;
        // Each level replaces the sessions by their parts, in order.
        let mut from = vec![ready.session];
        let mut counts = Vec::with_capacity(node.gathers.len());
        for level in &node.gathers {
            let most = match plan.levels[*level].count {
                Count::Fixed(count) => count,
                Count::Dynamic => from
                    .iter()
                    .filter_map(|session| sessions.count(*session, *level))
                    .max()
                    .unwrap_or_default(),
            };
            counts.push(most);
            from = from
                .iter()
                .flat_map(|session| sessions.parts(*session, *level))
                .collect();
        }
        let inbox = self.inbox[ready.node].iter_mut();
        let inputs = inbox.map(|places| Parts {
            counts: counts.clone(),
            tensors: if from.is_empty() {
                places
                    .first_mut()
                    .and_then(Option::take)
                    .into_iter()
                    .collect()
            } else {
                from.iter()
                    .map(|from| take(places, sessions, *from))
                    .collect()
            },
        });
        NodeJob {
            ready,
            inputs: inputs.collect(),
        }
    }
}

fn take(places: &mut [Option<Tensor>], sessions: &Sessions, session: PipelineSession) -> Tensor {
    let place = &mut places[sessions.ordinal(session)];
    place.take().expect("delivered before the node got ready")
}

/// Returns how a node's outputs are split, if they are.
fn splitter(plan: &PipelinePlan, id: usize) -> Option<Splitter<'_>> {
    let node = &plan.nodes[id];
    let level = &plan.levels[node.opens?];
    Some(Splitter {
        node: &node.name,
        entry: id == PipelinePlan::ENTRY,
        count: level.count,
        allows_empty: plan.allows_empty,
    })
}
