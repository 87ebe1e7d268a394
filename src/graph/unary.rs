//! Unary requests: one request and one response, by a new graph or one of the pool.

use std::sync::Arc;

use super::{
    calculator::Env,
    convert,
    definition::{GraphDefinition, Seat},
    error::{GraphRunError, explain, not_added},
    packet::Packet,
    plan::GraphPlan,
    run::Run,
    timestamp::Timestamp,
};
use crate::{
    error::{Error, Result},
    metrics::GraphCall,
    request::{InferRequest, InferResponse},
};

/// First packet of each output of a graph, and whether the client has requested it.
struct Firsts(Vec<(Option<Packet>, bool)>);

impl Firsts {
    /// Creates an empty set for the outputs that a request asks for: all if it names none.
    fn new(plan: &GraphPlan, request: &InferRequest) -> Self {
        let asked = &request.outputs;
        let is_wanted = |name: &String| asked.is_empty() || asked.contains(name);
        let outputs = plan.outputs.iter();
        Self(
            outputs
                .map(|output| (None, is_wanted(&output.port.name)))
                .collect(),
        )
    }

    /// Returns the first output without a packet.
    fn missing(&self) -> Option<usize> {
        self.0
            .iter()
            .position(|(packet, is_wanted)| packet.is_none() && *is_wanted)
    }
}

impl GraphDefinition {
    /// Runs one request, by a new graph or on an instance of the pool, which is reused.
    ///
    /// # Errors
    ///
    /// Fails if the request is invalid, a node fails, or an output has no packet.
    pub async fn infer(
        self: &Arc<Self>,
        env: Env,
        mut request: InferRequest,
        counts: &GraphCall,
    ) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        let rejected = |_: &Error| counts.rejected();
        // Validated first: rejected requests do not wait either.
        let side = convert::side_packets(self.plan(), &request.parameters, self.has_pool());
        let side = side.inspect_err(rejected)?;
        let (_slot, seat) = match &self.pool {
            Some(pool) => pool.take().await,
            None => (None, None),
        };
        let keep = |seat: Seat| {
            if let Some(pool) = &self.pool {
                pool.add(seat);
            }
        };
        let mut seat = match seat.filter(Seat::is_usable) {
            Some(mut seat) => {
                seat.run.env.trace = env.trace;
                seat.run.env.owner = env.owner;
                seat
            }
            None => self
                .seat(side, env, self.has_pool())
                .inspect_err(rejected)?,
        };
        let mut firsts = Firsts::new(self.plan(), &request);
        let fed = self.feed(&mut seat.run, request, seat.last);
        seat.last = match fed.inspect_err(rejected) {
            Ok(at) => Some(at),
            Err(error) => {
                // Unless packets were pushed, the instance is unchanged.
                if seat.run.scheduler.error().is_none() {
                    keep(seat);
                }
                return Err(error);
            }
        };
        counts.accepted();
        let running = counts.running();
        let run = &mut seat.run;
        if self.has_pool() {
            drive(run, &mut firsts, Goal::Idle).await;
        } else {
            drive(run, &mut firsts, Goal::Firsts).await;
            run.scheduler.close_inputs();
            drive(run, &mut firsts, Goal::End).await;
        }
        if let Some(error) = run.scheduler.error() {
            // Closed properly for its nodes, then dropped: the next request starts a new instance.
            drive(run, &mut firsts, Goal::End).await;
            counts.error();
            return Err(explain(&error));
        }
        let response = self.answer(&id, firsts)?;
        // Otherwise packets of this request may be left in it, which the next must not receive.
        keep(seat);
        counts.response();
        running.succeeded();
        Ok(response)
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
            return Err(Error::invalid(
                "Invalid number of inputs - Not all input packets created",
            ));
        }
        for (input, packet) in packets {
            run.scheduler
                .push(input, packet)
                .map_err(|error| not_added(&error))?;
        }
        Ok(at)
    }

    /// Builds the response from the first packet of each output.
    fn answer(&self, id: &str, firsts: Firsts) -> Result<InferResponse> {
        if let Some(missing) = firsts.missing() {
            let unknown =
                "Mediapipe execution failed. MP status - Unknown error during mediapipe execution";
            let plan = self.plan();
            let text = match plan.unreturned(&plan.outputs[missing]) {
                Some(unreturned) => format!("{unknown} - {unreturned}"),
                None => unknown.to_owned(),
            };
            return Err(Error::invalid(text));
        }
        let outputs = self.plan().outputs.iter().zip(&firsts.0);
        let packets = outputs.filter_map(|(port, (packet, is_wanted))| {
            let packet = packet.as_ref().filter(|_| *is_wanted)?;
            Some((port, packet))
        });
        convert::response(self.name(), id, packets).map_err(|failure| explain(&failure))
    }
}

/// Required extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// The first packet of each output; nodes that generate on their own may then stop.
    Firsts,
    /// All packets, with the run ready to continue afterwards.
    Idle,
    /// All nodes closed, with nodes that generate on their own stopped as in `Firsts`.
    End,
}

/// Runs until no step can run without further input, or until all nodes are closed.
async fn drive(run: &mut Run, firsts: &mut Firsts, goal: Goal) {
    loop {
        // Generating nodes must stop before their next step.
        let more = run.turn_to_output();
        let mut any = false;
        while let Some((output, packet)) = run.scheduler.take_output() {
            any = true;
            if let Some((first, _)) = firsts.0.get_mut(output) {
                first.get_or_insert(packet);
            }
        }
        if any && goal != Goal::Idle && firsts.missing().is_none() {
            run.env.ending.end();
        }
        if goal == Goal::End && run.scheduler.is_finished() {
            return;
        }
        if !more && !any && run.scheduler.is_idle() {
            if goal == Goal::End {
                // The state machine excludes this; an error is better than a request that hangs.
                debug_assert!(run.scheduler.is_finished(), "a run that cannot end");
                run.scheduler
                    .fail(GraphRunError::internal("the graph cannot end"));
                run.turn();
            }
            return;
        }
        if more && any {
            // Its turn is not over.
            tokio::task::consume_budget().await;
        } else if more {
            tokio::task::yield_now().await;
        } else if run.is_waiting() {
            run.finished().await;
        }
    }
}
