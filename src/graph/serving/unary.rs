//! Unary requests: one request and one response, by a new graph or one of the pool.

use std::sync::{Arc, atomic::Ordering};

use super::{
    convert,
    definition::{GraphDefinition, Seat},
};
use crate::{
    error::{Error, Result},
    graph::{
        calculators::{
            calculator::Env,
            error::{GraphRunError, MissingInputs, explain, not_added},
            packet::Packet,
            timestamp::Timestamp,
        },
        check::plan::GraphPlan,
        runtime::run::Run,
    },
    metrics::GraphCall,
    request::{InferRequest, InferResponse},
};

/// First packets of the outputs of a graph.
struct Firsts {
    /// First packet of each output, and whether the client has requested it.
    outputs: Vec<(Option<Packet>, bool)>,
    /// Requested output with further packets, which the response does not have.
    repeated: Option<usize>,
}

impl Firsts {
    /// Creates an empty set for the outputs that a request asks for: all if it names none.
    fn new(plan: &GraphPlan, request: &InferRequest) -> Self {
        let asked = &request.outputs;
        let is_wanted = |name: &String| asked.is_empty() || asked.contains(name);
        let outputs = plan.outputs.iter();
        Self {
            outputs: outputs
                .map(|output| (None, is_wanted(&output.port.name)))
                .collect(),
            repeated: None,
        }
    }

    /// Keeps a packet if it is the first of its output.
    fn add(&mut self, output: usize, packet: Packet) {
        match self.outputs.get_mut(output) {
            Some((first @ None, _)) => *first = Some(packet),
            Some((Some(_), true)) => self.repeated = Some(output),
            Some((Some(_), false)) | None => {}
        }
    }

    /// Returns the first output without a packet.
    fn missing(&self) -> Option<usize> {
        self.outputs
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
        let keep = |mut seat: Seat| {
            if let Some(pool) = &self.pool {
                // What counts for the client of this request does so until it is answered.
                seat.run.env.end_request();
                pool.add(seat);
            }
        };
        let mut seat = match seat.filter(Seat::is_usable) {
            Some(mut seat) => {
                seat.run.env.begin_request(env);
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
            (self.remarks).failed(self.name(), self.plan(), &run.scheduler);
            // Closed properly for its nodes, then dropped: the next request starts a new instance.
            drive(run, &mut firsts, Goal::End).await;
            counts.error();
            return Err(explain(&error));
        }
        let repeated = firsts.repeated;
        let response = self.answer(&id, firsts)?;
        if let Some(output) = repeated {
            self.log_dropped(output);
        }
        // Packets of this request that are left in it would be those of the next, whatever was asked for.
        if !seat.run.scheduler.has_queued() {
            keep(seat);
        }
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
            let missing = (0..inputs).filter(|input| !packets.iter().any(|(it, _)| it == input));
            let names: Vec<&str> = missing
                .map(|input| self.plan().inputs[input].port.name.as_str())
                .collect();
            let names = names.join(", ");
            let expected = self.plan().inputs.iter();
            let expected = expected.map(|input| input.port.name.clone()).collect();
            return Err(Error::invalid(format!(
                "Invalid number of inputs - Not all input packets created - missing: {names}"
            ))
            .with_source(MissingInputs { expected }));
        }
        for (input, packet) in packets {
            run.scheduler
                .push(input, packet)
                .map_err(|error| not_added(&error))?;
        }
        Ok(at)
    }

    /// Logs, once for each definition, that a response lacks what a stream would get: further packets of an output.
    fn log_dropped(&self, output: usize) {
        if self.is_drop_logged.swap(true, Ordering::Relaxed) {
            return;
        }
        let (name, output) = (self.name(), &self.plan().outputs[output].port.name);
        tracing::info!(
            "graph {name}: a unary request got only the first packet of output \"{output}\"; `ovms infer {name} --stream`, ModelStreamInfer, \
             and POST /v2/models/{name}/generate_stream return all of them"
        );
    }

    /// Builds the response from the first packet of each output.
    fn answer(&self, id: &str, firsts: Firsts) -> Result<InferResponse> {
        if let Some(missing) = firsts.missing() {
            let unknown =
                "Mediapipe execution failed. MP status - Unknown error during mediapipe execution";
            let plan = self.plan();
            (self.remarks).no_output(self.name(), plan, &plan.outputs[missing]);
            let text = match plan.unreturned(&plan.outputs[missing]) {
                Some(unreturned) => format!("{unknown} - {unreturned}"),
                None => unknown.to_owned(),
            };
            return Err(Error::invalid(text));
        }
        let outputs = self.plan().outputs.iter().zip(&firsts.outputs);
        let packets = outputs.filter_map(|(port, (packet, is_wanted))| {
            let packet = packet.as_ref().filter(|_| *is_wanted)?;
            (self.remarks).given(self.name(), self.plan(), port, packet);
            Some((port, packet))
        });
        convert::response(self.name(), id, packets).map_err(|failure| explain(&failure))
    }
}

/// Required extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// The first packet of each output; nodes without inputs may then stop.
    Firsts,
    /// Feed of all packets, with the run ready to continue afterwards.
    Idle,
    /// All nodes closed, with nodes without inputs stopped as in `Firsts`.
    End,
}

/// Runs until no step can run without further input, or until all nodes are closed.
async fn drive(run: &mut Run, firsts: &mut Firsts, goal: Goal) {
    loop {
        // Nodes without inputs must stop before their next step.
        let more = run.turn_to_output();
        let mut any = false;
        while let Some((output, packet)) = run.scheduler.take_output() {
            any = true;
            firsts.add(output, packet);
        }
        if any && goal != Goal::Idle && firsts.missing().is_none() {
            run.is_sated = true;
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
