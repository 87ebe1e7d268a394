//! Stream of requests to a graph with the lifetime of the stream.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{convert, definition::GraphDefinition, finals::FinalMarks};
use crate::{
    error::{Error, ErrorKind, MAX_TEXT_LEN, Result},
    graph::{
        calculators::{
            calculator::Env,
            error::{explain, not_added},
            timestamp::Timestamp,
        },
        runtime::run::{GraphObserver, Run},
    },
    metrics::GraphCall,
    request::{InferRequest, InferResponse, Parameters},
    text::cut_bytes,
};

/// Size in bytes of the responses waiting to be taken. A larger response waits alone.
const MAX_WAITING: u32 = 4 << 20;

/// Time window in which responses are sent together, once some have come out that quickly. Other
/// responses are sent before the next step, which may take long.
const BURST: Duration = Duration::from_micros(50);

/// Maximum number of requests that are taken before asynchronous steps begin, and are asked whether they have
/// completed.
const MAX_TOGETHER: usize = 16;

/// Receives a request if one is there, and the task has not used up its budget.
async fn ready<T>(requests: &mut mpsc::Receiver<T>) -> Option<T> {
    poll_fn(|context| match requests.poll_recv(context) {
        Poll::Ready(came) => Poll::Ready(came),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for the client. Asynchronous steps complete meanwhile, and give back what others wait for, such as an infer
/// request or a place with a Python worker; no step begins.
async fn beside<T>(run: &mut Run, client: impl Future<Output = T>) -> T {
    let mut client = pin!(client);
    loop {
        tokio::select! {
            biased;
            done = &mut client => return done,
            () = run.finished(), if run.is_waiting() => {}
        }
    }
}

/// Response of a stream, in the order of production.
#[derive(Debug)]
pub enum GraphResponse {
    /// Output packet of the graph. Its share of the buffer is freed when the permit is dropped.
    Response(InferResponse, Option<OwnedSemaphorePermit>),
    /// Rejection of a request; the stream continues.
    Error(String),
}

/// Open stream: its graph, and its current timestamp.
pub struct GraphSession {
    definition: Arc<GraphDefinition>,
    run: Run,
    /// Timestamp of the last request that was read completely.
    last: Option<Timestamp>,
    is_first: bool,
    marks: FinalMarks,
}

impl GraphDefinition {
    /// Opens a stream with the parameters of its first request; the request itself is not pushed yet.
    ///
    /// # Errors
    ///
    /// Fails if a parameter cannot be a side packet, or a side packet is missing.
    pub fn open(
        self: &Arc<Self>,
        parameters: &Parameters,
        env: Env,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<GraphSession> {
        let side = convert::side_packets(self.plan(), parameters, self.has_pool())?;
        Ok(GraphSession {
            run: self.start(side, env, watch, self.worker(true))?,
            definition: Arc::clone(self),
            last: None,
            is_first: true,
            marks: FinalMarks::default(),
        })
    }
}

impl GraphSession {
    /// Serves the stream until the graph has ended: after the last request, or with an error. Takes
    /// no request while the queues of the graph are full, and runs no steps while responses are not
    /// taken. If the receiver of the responses is dropped, it ends at once. `read` converts a
    /// received item to a request, which is dropped when its packets are in the graph, or rejects
    /// it.
    ///
    /// # Errors
    ///
    /// Fails with the error of the graph, which is reported after everything before it.
    pub async fn serve<T: Send>(
        mut self,
        requests: &mut mpsc::Receiver<T>,
        mut read: impl FnMut(&mut T) -> Result<InferRequest> + Send,
        answers: &mpsc::Sender<GraphResponse>,
        counts: &GraphCall,
    ) -> Result<()> {
        let room = Arc::new(Semaphore::new(MAX_WAITING as usize));
        let mut is_open = true;
        let mut is_burst = false;
        let mut together = 0;
        let mut given = vec![false; self.definition.plan().outputs.len()];
        loop {
            let began = Instant::now();
            let more = match is_burst {
                true => self.run.turn_for(BURST),
                false => self.run.turn_to_output(),
            };
            let took = began.elapsed();
            let mut count = 0;
            while let Some((output, packet)) = self.run.scheduler.take_output() {
                count += 1;
                given[output] = true;
                let port = &self.definition.plan().outputs[output];
                let name = self.definition.name();
                let remarks = &self.definition.remarks;
                remarks.given(name, self.definition.plan(), port, &packet);
                let mut response = match convert::response(name, "", [(port, &packet)]) {
                    Ok(response) => response,
                    Err(failure) => {
                        self.run.scheduler.fail(failure);
                        // What came out after it is not sent.
                        while self.run.scheduler.take_output().is_some() {}
                        break;
                    }
                };
                self.marks.not_last(&mut response);
                let bytes: usize = response.loose.iter().map(|output| output.data.len()).sum();
                let wanted = u32::try_from(bytes).map_or(MAX_WAITING, |b| b.min(MAX_WAITING));
                let room = Arc::clone(&room);
                let sent = beside(&mut self.run, async {
                    let place = tokio::select! {
                        // It is never closed.
                        place = room.acquire_many_owned(wanted) => place.ok(),
                        () = answers.closed() => return Err(gone()),
                    };
                    let sent = answers.send(GraphResponse::Response(response, place));
                    sent.await.map_err(|_| gone())
                });
                sent.await?;
                counts.response();
            }
            // After a request of the highest timestamp the graph ends by itself, and the client has
            // yet to be notified if it sends more.
            let is_at_the_end = is_open && self.last == Some(Timestamp::MAX);
            let is_over = self.run.scheduler.error().is_some() || !is_at_the_end;
            if self.run.scheduler.is_finished() && is_over {
                break;
            }
            is_burst = count > 1 || (count == 1 && !is_burst && took < BURST);
            if count > 0 {
                // The step may take long: the responses are sent before it.
                if self.run.has_step() {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            // What is in the graph now waits for further requests, if for anything.
            if !more && !self.run.is_waiting() && self.run.scheduler.error().is_none() {
                self.send_marks(answers).await?;
            }
            // Requests that have come together are taken together, each after the responses of the one before, as long
            // as steps are short: asynchronous steps do not go on meanwhile.
            let takes = is_open && self.takes();
            let may_be_more = takes && !more && took < BURST && together < MAX_TOGETHER;
            let mut came = match may_be_more {
                true => ready(requests).await,
                false => None,
            };
            together = came.as_ref().map_or(0, |_| together + 1);
            if came.is_none() {
                tokio::select! {
                    () = self.run.finished(), if self.run.is_waiting() => {}
                    request = requests.recv(), if takes => {
                        if request.is_none() {
                            is_open = false;
                            self.run.scheduler.close_inputs();
                        }
                        came = request;
                    }
                    () = answers.closed() => return Err(gone()),
                    () = tokio::task::yield_now(), if more => {}
                }
            }
            if let Some(came) = came {
                self.take(came, &mut read, answers, counts).await?;
            }
        }
        if let Some(failure) = self.run.scheduler.error() {
            let (name, plan) = (self.definition.name(), self.definition.plan());
            let remarks = &self.definition.remarks;
            remarks.failed(name, plan, &self.run.scheduler);
            counts.error();
            return Err(explain(&failure));
        }
        self.send_marks(answers).await?;
        if self.last.is_some() {
            self.log_unreturned(&given);
        }
        Ok(())
    }

    /// Returns whether a request can be taken now.
    fn takes(&self) -> bool {
        !self.run.scheduler.has_failed() && self.run.accepts()
    }

    /// Takes a request, or rejects it.
    async fn take<T>(
        &mut self,
        mut came: T,
        read: &mut impl FnMut(&mut T) -> Result<InferRequest>,
        answers: &mpsc::Sender<GraphResponse>,
        counts: &GraphCall,
    ) -> Result<()> {
        let refused = match read(&mut came) {
            Ok(request) => self.put(request, counts),
            Err(error) => {
                counts.rejected();
                Some(error.message().to_owned())
            }
        };
        drop(came);
        if let Some(text) = refused {
            // It may wait for its client, and repeat much of the request.
            let text = cut_bytes(&text, MAX_TEXT_LEN);
            let sent = answers.send(GraphResponse::Error(text));
            let sent = beside(&mut self.run, sent).await;
            sent.map_err(|_| gone())?;
        }
        Ok(())
    }

    /// Sends the marks of all requests whose last answers have been sent.
    async fn send_marks(&mut self, answers: &mpsc::Sender<GraphResponse>) -> Result<()> {
        while let Some(mark) = self.marks.take(self.definition.name()) {
            let sent = answers.send(GraphResponse::Response(mark, None));
            let sent = beside(&mut self.run, sent).await;
            sent.map_err(|_| gone())?;
        }
        Ok(())
    }

    /// Logs which outputs of Python nodes the whole stream was without: that may be intended.
    fn log_unreturned(&self, given: &[bool]) {
        let (name, plan) = (self.definition.name(), self.definition.plan());
        for (output, _) in plan.outputs.iter().zip(given).filter(|(_, given)| !**given) {
            if let Some(unreturned) = plan.unreturned(output) {
                tracing::info!("graph {name}: {unreturned} in a whole stream");
            }
        }
    }

    /// Pushes a request, as far as it can be read; returns the error otherwise.
    fn put(&mut self, request: InferRequest, counts: &GraphCall) -> Option<String> {
        let which = match std::mem::take(&mut self.is_first) {
            true => "first request",
            false => "subsequent requests",
        };
        let refuse = |error: &Error| {
            counts.rejected();
            let text = error.message();
            Some(format!("{text}; partial deserialization of {which}"))
        };
        // The outputs of a generator since the last request have used timestamps of their own; the
        // one where it continues, or would have, is free.
        let following = || -> Result<Timestamp> {
            let at = convert::following(self.last)?;
            Ok(self.run.scheduler.generated().map_or(at, |it| it.max(at)))
        };
        let outputs = self.definition.plan().validate_outputs(&request.outputs);
        if let Err(error) = outputs.and_then(|()| self.marks.admit(&request)) {
            return refuse(&error);
        }
        let given = convert::timestamp(&request);
        let at = match given.and_then(|at| at.map_or_else(following, Ok)) {
            Ok(at) => at,
            Err(error) => return refuse(&error),
        };
        let request = Arc::new(request);
        for packet in convert::packets(self.definition.plan(), &request, at) {
            let (input, packet) = match packet {
                Ok(packet) => packet,
                Err(error) => return refuse(&error),
            };
            if let Err(failure) = self.run.scheduler.push(input, packet) {
                counts.rejected();
                return Some(not_added(&failure).message().to_owned());
            }
        }
        self.last = Some(at);
        self.marks.add(&request, at);
        counts.accepted();
        None
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the client has left")
}
