//! Unary requests: one request and one response, by a new graph or one of the pool.

use std::sync::Arc;

use super::{
    calculator::Env,
    convert,
    definition::GraphDefinition,
    error::{GraphRunError, explain, not_added},
    packet::Packet,
    plan::GraphPlan,
    pool::Seat,
    run::{GraphObserver, More, Run},
    timestamp::Timestamp,
};
use crate::{
    error::{Error, ErrorKind, Result},
    request::{InferRequest, InferResponse},
};

/// Events of a run, for metrics.
pub trait Tally: Send + Sync {
    /// Called when a request has pushed its packets.
    fn accepted(&self) {}
    /// Called when a request is rejected before or during that.
    fn rejected(&self) {}
    /// Called for each response.
    fn responded(&self) {}
    /// Called when the run has failed.
    fn failed(&self) {}
}

/// Implementation that counts nothing.
pub struct NoTally;

impl Tally for NoTally {}

/// First packet of each output of a graph.
struct Firsts {
    packets: Vec<Option<Packet>>,
    /// Whether each output is requested by the client.
    wanted: Vec<bool>,
}

impl Firsts {
    /// Creates an empty set for the outputs that a request asks for: all if it names none.
    fn new(plan: &GraphPlan, request: &InferRequest) -> Self {
        let asked = &request.outputs;
        let outputs = plan.outputs.iter();
        Self {
            packets: vec![None; plan.outputs.len()],
            wanted: outputs
                .map(|output| asked.is_empty() || asked.contains(&output.port.name))
                .collect(),
        }
    }

    /// Returns whether all packets are there.
    fn is_complete(&self) -> bool {
        let mut all = self.packets.iter().zip(&self.wanted);
        all.all(|(packet, is_wanted)| packet.is_some() || !is_wanted)
    }
}

impl GraphDefinition {
    /// Runs one request.
    ///
    /// # Errors
    ///
    /// Fails if the request is invalid, a node fails, or an output has no packet.
    pub async fn infer(
        self: &Arc<Self>,
        env: Env,
        request: InferRequest,
        tally: &dyn Tally,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<InferResponse> {
        let answer = if self.has_pool() {
            self.infer_pooled(env, request, tally).await
        } else {
            self.infer_once(env, request, tally, watch).await
        };
        if answer.is_ok() {
            tally.responded();
        }
        answer
    }

    async fn infer_once(
        self: &Arc<Self>,
        env: Env,
        mut request: InferRequest,
        tally: &dyn Tally,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        let mut firsts = Firsts::new(self.plan(), &request);
        let begun = self.begin(&request.parameters, env, watch);
        let fed = begun.and_then(|mut run| self.feed(&mut run, request, None).map(|_| run));
        let mut run = fed.inspect_err(|_| tally.rejected())?;
        tally.accepted();
        until_idle(&mut run, &mut firsts, Wish::Firsts).await;
        run.close_inputs();
        until_finished(&mut run, &mut firsts).await;
        if let Some(error) = run.error() {
            tally.failed();
            return Err(explain(&error));
        }
        self.answer(&id, firsts)
    }

    /// Pushes a request into a run: all inputs of the graph must be present. Returns its timestamp;
    /// without an explicit one, that is one after the last.
    fn feed(
        &self,
        run: &mut Run,
        request: InferRequest,
        last: Option<Timestamp>,
    ) -> Result<Timestamp> {
        let request = Arc::new(request);
        let at = match convert::timestamp(&request)? {
            Some(at) => at,
            None => convert::following(last)?,
        };
        let inputs = self.plan().inputs.len();
        let mut packets = Vec::with_capacity(inputs);
        for packet in convert::packets(self.plan(), &request, at) {
            packets.push(packet?);
        }
        if packets.len() < inputs {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "Invalid number of inputs - Not all input packets created",
            ));
        }
        for (input, packet) in packets {
            run.push(input, packet).map_err(|error| not_added(&error))?;
        }
        Ok(at)
    }

    /// Runs a request on an instance of the pool, which is reused.
    async fn infer_pooled(
        self: &Arc<Self>,
        env: Env,
        mut request: InferRequest,
        tally: &dyn Tally,
    ) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        // Validated first: rejected requests do not wait either.
        let side = convert::side_packets(self.plan(), &request.parameters, true);
        let side = side.inspect_err(|_| tally.rejected())?;
        let Some(pool) = self.pool() else {
            return Err(Error::internal("Internal server error")
                .with_source("a bug: a graph without a pool"));
        };
        let mut place = pool.take().await;
        // An instance that has used the last timestamp takes no further request without one.
        let usable = |seat: &Seat| convert::following(seat.last).is_ok();
        let mut seat = match place.take().filter(usable) {
            Some(seat) => seat,
            None => Seat {
                run: self.start(side, env, None)?,
                last: None,
            },
        };
        let mut firsts = Firsts::new(self.plan(), &request);
        let at = match self.feed(&mut seat.run, request, seat.last) {
            Ok(at) => at,
            Err(error) => {
                tally.rejected();
                // Unless packets were pushed, the instance is unchanged.
                if seat.run.error().is_none() {
                    place.put(seat);
                }
                return Err(error);
            }
        };
        tally.accepted();
        seat.last = Some(at);
        until_idle(&mut seat.run, &mut firsts, Wish::All).await;
        if let Some(failure) = seat.run.error() {
            // Closed properly for its nodes, then dropped: the next request starts a new instance.
            until_finished(&mut seat.run, &mut firsts).await;
            tally.failed();
            return Err(explain(&failure));
        }
        let answer = self.answer(&id, firsts);
        if answer.is_ok() {
            // Otherwise packets of this request may be left in it, which the next must not receive.
            place.put(seat);
        }
        answer
    }

    /// Builds the response from the first packet of each output.
    fn answer(&self, id: &str, firsts: Firsts) -> Result<InferResponse> {
        if !firsts.is_complete() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "Mediapipe execution failed. MP status - Unknown error during mediapipe execution",
            ));
        }
        let outputs = self.plan().outputs.iter().zip(&firsts.packets);
        let outputs = outputs.zip(&firsts.wanted);
        let packets = outputs.filter_map(|((port, packet), is_wanted)| {
            let packet = packet.as_ref().filter(|_| *is_wanted)?;
            Some((port, packet))
        });
        convert::response(self.name(), id, packets).map_err(|failure| explain(&failure))
    }
}

/// Required extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// The first packet of each output; nodes that generate on their own may then stop.
    Firsts,
    /// All packets, with the run ready to continue afterwards.
    All,
}

/// Runs until no step can run without further input.
async fn until_idle(run: &mut Run, firsts: &mut Firsts, wish: Wish) {
    loop {
        // Generating nodes must stop before their next step.
        let more = run.turn_to_output();
        let any = collect(run, firsts);
        if any && wish == Wish::Firsts && firsts.is_complete() {
            run.end();
        }
        if run.is_idle() && more == More::No && !any {
            return;
        }
        wait(run, more, any).await;
    }
}

/// Runs until all nodes are closed.
async fn until_finished(run: &mut Run, firsts: &mut Firsts) {
    loop {
        let more = run.turn_to_output();
        let any = collect(run, firsts);
        if firsts.is_complete() {
            run.end();
        }
        if run.is_finished() {
            return;
        }
        if more == More::No && !any && run.is_idle() {
            // The state machine excludes this; an error is better than a request that hangs.
            debug_assert!(run.is_finished(), "a run that cannot end");
            run.fail(GraphRunError::internal("the graph cannot end"));
            run.turn();
            return;
        }
        wait(run, more, any).await;
    }
}

async fn wait(run: &mut Run, more: More, any: bool) {
    if more == More::Yes && any {
        // Its turn is not over.
        tokio::task::consume_budget().await;
    } else if more == More::Yes {
        tokio::task::yield_now().await;
    } else if run.is_waiting() {
        run.finished().await;
    }
}

/// Keeps the first packet of each output, and returns whether any packet has come.
fn collect(run: &mut Run, firsts: &mut Firsts) -> bool {
    let mut any = false;
    while let Some((output, packet)) = run.take_output() {
        any = true;
        if let Some(first @ None) = firsts.packets.get_mut(output) {
            *first = Some(packet);
        }
    }
    any
}
