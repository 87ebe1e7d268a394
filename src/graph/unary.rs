//! One request and one response: a graph that lives for it, or one of the pool.

use std::sync::Arc;

use super::{
    calculator::Env,
    convert,
    definition::Definition,
    fault::{Code, Fault},
    packet::Packet,
    pool::Place,
    run::{More, Run, Watch},
    timestamp::Timestamp,
};
use crate::{
    error::{Error, ErrorKind, Result},
    request::{InferRequest, InferResponse, Parameter},
};

/// The version that graphs say they have.
pub const VERSION: i64 = 1;

/// What is told of a run while it goes on, for figures.
pub trait Tally: Send + Sync {
    /// A request has put its packets in.
    fn accepted(&self) {}
    /// A request was refused before, or while, it did.
    fn rejected(&self) {}
    /// A response was made.
    fn responded(&self) {}
    /// The run has failed.
    fn failed(&self) {}
}

/// Counts nothing.
pub struct NoTally;

impl Tally for NoTally {}

/// The first packet of each output of a graph.
type Firsts = Vec<Option<Packet>>;

impl Definition {
    /// Answers one request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit, or a node fails, or an output has nothing.
    pub async fn infer(
        self: &Arc<Self>,
        env: Env,
        request: InferRequest,
        tally: &dyn Tally,
        watch: Option<Arc<dyn Watch>>,
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
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        let begun = self
            .begin(&request, env, watch)
            .and_then(|mut run| self.feed(&mut run, request, Timestamp::new(0)).map(|()| run));
        let mut run = begun.inspect_err(|_| tally.rejected())?;
        tally.accepted();
        let mut firsts = vec![None; self.plan().outputs.len()];
        until_idle(&mut run, &mut firsts).await;
        run.close_inputs();
        until_finished(&mut run, &mut firsts).await;
        if let Some(fault) = run.fault() {
            tally.failed();
            return Err(explain(&fault));
        }
        self.answer(id, firsts)
    }

    /// Makes a run for a request.
    pub(super) fn begin(
        &self,
        request: &InferRequest,
        env: Env,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Run> {
        let side = convert::side_packets(self.plan(), &request.parameters, self.has_pool())?;
        self.start(side, env, watch)
    }

    /// Makes a run with its side packets.
    pub(super) fn start(
        &self,
        side: Vec<Option<Packet>>,
        env: Env,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Run> {
        let (plan, times) = (self.plan(), self.times());
        Run::new(plan, side, self, env, times, watch).map_err(|fault| {
            Error::new(
                ErrorKind::FailedPrecondition,
                format!("Failed to start mediapipe graph - {fault}"),
            )
        })
    }

    /// Puts a request into a run: all inputs of the graph have to be there.
    fn feed(&self, run: &mut Run, request: InferRequest, usual: Timestamp) -> Result<()> {
        let at = convert::timestamp(&request, usual)?;
        let inputs = self.plan().inputs.len();
        let mut packets = Vec::with_capacity(inputs);
        for packet in convert::packets(self.plan(), request, at) {
            packets.push(packet?);
        }
        if packets.len() < inputs {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "Invalid number of inputs - Not all input packets created",
            ));
        }
        for (input, packet) in packets {
            run.push(input, packet).map_err(|fault| not_added(&fault))?;
        }
        Ok(())
    }

    /// Answers a request by an instance of the pool, which lives on.
    async fn infer_pooled(
        self: &Arc<Self>,
        env: Env,
        mut request: InferRequest,
        tally: &dyn Tally,
    ) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        // Judged first: whoever may not come in does not wait either.
        let side = convert::side_packets(self.plan(), &request.parameters, true);
        let side = side.inspect_err(|_| tally.rejected())?;
        let mut place = self.pool().take().await;
        let mut seat = match place.take() {
            Some(seat) => seat,
            None => Seat {
                run: self.start(side, env, None)?,
                next: Timestamp::new(0),
            },
        };
        let mut firsts = vec![None; self.plan().outputs.len()];
        let fed = convert::timestamp(&request, seat.next)
            .and_then(|at| self.feed(&mut seat.run, request, seat.next).map(|()| at));
        let at = match fed {
            Ok(at) => at,
            Err(error) => {
                tally.rejected();
                // Unless packets were pushed it is as it was.
                if seat.run.fault().is_none() {
                    place.put(seat);
                }
                return Err(error);
            }
        };
        tally.accepted();
        seat.next = at.next_allowed();
        until_idle(&mut seat.run, &mut firsts).await;
        if let Some(fault) = seat.run.fault() {
            // Closed for the sake of its nodes, then dropped: the next request makes another one.
            until_finished(&mut seat.run, &mut firsts).await;
            tally.failed();
            return Err(explain(&fault));
        }
        if firsts.iter().all(Option::is_some) {
            place.put(seat);
        }
        self.answer(id, firsts)
    }

    /// Makes the response of the first packet of each output.
    fn answer(&self, id: String, firsts: Firsts) -> Result<InferResponse> {
        let outputs = &self.plan().outputs;
        let Some(firsts) = firsts.into_iter().collect::<Option<Vec<Packet>>>() else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "Mediapipe execution failed. MP status - Unknown error during mediapipe execution",
            ));
        };
        let mut response = InferResponse {
            model_name: self.name().to_owned(),
            model_version: VERSION,
            id,
            ..InferResponse::default()
        };
        for (port, packet) in outputs.iter().zip(&firsts) {
            convert::add(port, packet, &mut response).map_err(|fault| explain(&fault))?;
        }
        if let Some(first) = firsts.first() {
            let time = Parameter::Int(first.at().value());
            response.parameters.retain(|(name, _)| name != convert::TIMESTAMP);
            response.parameters.push((convert::TIMESTAMP.to_owned(), time));
        }
        Ok(response)
    }
}

/// A graph of the pool: started, and where its time stands.
pub(super) struct Seat {
    pub(super) run: Run,
    pub(super) next: Timestamp,
}

/// Runs until nothing can run any more before something comes in.
async fn until_idle(run: &mut Run, firsts: &mut Firsts) {
    loop {
        let more = run.turn();
        collect(run, firsts);
        if run.is_idle() && more == More::No {
            // What was in the way was taken out.
            if run.turn() == More::No && run.is_idle() {
                collect(run, firsts);
                return;
            }
            continue;
        }
        wait(run, more).await;
    }
}

/// Runs until all nodes are closed.
async fn until_finished(run: &mut Run, firsts: &mut Firsts) {
    loop {
        let more = run.turn();
        collect(run, firsts);
        if run.is_finished() {
            return;
        }
        if more == More::No && !run.is_waiting() && run.is_idle() {
            // The state machine says so of no graph; better a fault than a request that hangs.
            debug_assert!(run.is_finished(), "a run that cannot end");
            run.fail(Fault::internal("the graph cannot end"));
            run.turn();
            return;
        }
        wait(run, more).await;
    }
}

async fn wait(run: &mut Run, more: More) {
    if more == More::Yes {
        tokio::task::yield_now().await;
    } else if run.is_waiting() {
        run.finished().await;
    }
}

/// Keeps the first packet of each output. Once all are there, nothing more is wanted.
fn collect(run: &mut Run, firsts: &mut Firsts) {
    let mut any = false;
    while let Some((output, packet)) = run.take_output() {
        if let Some(first @ None) = firsts.get_mut(output) {
            *first = Some(packet);
            any = true;
        }
    }
    if any && firsts.iter().all(Option::is_some) {
        run.end();
    }
}

/// Says why a packet was not taken.
pub(super) fn not_added(fault: &Fault) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!("Failed to add packet to mediapipe graph input stream - {fault}"),
    )
}

/// Says why a run has failed.
pub(super) fn explain(fault: &Fault) -> Error {
    if fault.code == Code::FailedPrecondition {
        let text = format!("Mediapipe graph precondition failed - {fault}");
        return Error::new(ErrorKind::FailedPrecondition, text);
    }
    Error::new(
        ErrorKind::InvalidArgument,
        format!("Mediapipe execution failed. MP status - {fault}"),
    )
}
