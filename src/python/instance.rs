//! Use of a handler by one run of a graph.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use pyovms::message::{Execute, Instance, Numbered, Order};
use tokio::{sync::mpsc, time::Instant};

use super::{
    HandlerTensor, Produced,
    error::HandlerError,
    handler::PythonHandler,
    worker::{
        WorkerSeat,
        group::CallPlace,
        held::{Held, State, kill, within},
        link::Link,
        waiting::{Answer, TakenSet},
    },
};
use crate::{
    task::{Task, to_its_end},
    trace::{TraceContext, TraceSpan},
};

/// Sets that a generator may be ahead of those who take them.
const AHEAD: u32 = 64;

/// Maximum size of a set for that in bytes; larger ones are given one at a time.
const MAX_SET_BYTES: usize = 64 << 10;

/// Use of a handler by one run of a graph, in one worker; closed with it.
pub struct HandlerInstance {
    handler: Arc<PythonHandler>,
    seat: Arc<WorkerSeat>,
    number: u64,
    state: Mutex<Option<Arc<State>>>,
    line: Option<CallLine>,
}

/// Calls of an instance that run one after the other. They are sent without a wait for the answers before, so that the
/// way to the worker and back is one for many of them.
#[derive(Default)]
struct CallLine {
    /// Held by a call until it is sent, in the order in which they began.
    turn: tokio::sync::Mutex<()>,
    unanswered: AtomicUsize,
    is_abandoned: AtomicBool,
}

impl CallLine {
    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

impl HandlerInstance {
    pub(super) fn new(handler: Arc<PythonHandler>, seat: Arc<WorkerSeat>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            handler,
            seat,
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            state: Mutex::default(),
            line: None,
        }
    }

    /// Returns what it works for, as in messages: `graph g`.
    pub fn owner(&self) -> &str {
        self.handler.group().owner()
    }

    /// Makes its calls run one after the other, in the order in which they begin.
    #[must_use]
    pub fn in_line(mut self) -> Self {
        self.line = Some(CallLine::default());
        self
    }

    /// Asks the worker to skip what it was sent and has not begun: the run has failed, or is dropped.
    pub fn abandon(&self) {
        if let Some(line) = &self.line
            && !line.is_abandoned.swap(true, Ordering::Relaxed)
            && let Some(link) = self.seat.current()
        {
            self.skip(&link);
        }
    }

    fn skip(&self, link: &Link) {
        let number = self.number;
        link.send(Order::Abandon(Numbered { number }));
    }

    /// Returns whether it has a state, which has to be opened and closed.
    pub fn has_state(&self) -> bool {
        self.handler.stateful()
    }

    /// Makes the state, if it has one: calls `create_state`. Where the caller leaves meanwhile, the state ends.
    ///
    /// # Errors
    ///
    /// Fails if that raises an exception, or there is no worker.
    pub async fn open(&self) -> Result<(), HandlerError> {
        if !self.has_state() {
            return Ok(());
        }
        let used = self.handler.enter()?;
        let (link, _place) = self.ready().await?;
        let node = self.handler.node_name();
        link.has_room(node)?;
        let state = State::new(Arc::clone(&link), used, node, self.named(0));
        let held = Held::State(Arc::clone(&state));
        let order = |call| Order::Open(self.named(call));
        let (number, answer) = link.begin(node, None, Some(held), order)?;
        let answer = async { answer.await.unwrap_or_else(|_| Err(link.death(node))) };
        let answer = self.limited(&link, Some(number), answer).await?;
        self.heard(answer)?;
        *self.state.lock() = Some(state);
        Ok(())
    }

    fn named(&self, call: u64) -> Instance {
        Instance {
            call,
            node: self.handler.number(),
            instance: self.number,
        }
    }

    /// Waits for a call, and kills the worker if that takes too long: also if nobody waits any more for the call of that
    /// number.
    async fn limited<T>(
        &self,
        link: &Arc<Link>,
        number: Option<u64>,
        call: impl Future<Output = Result<T, HandlerError>>,
    ) -> Result<T, HandlerError> {
        let limit = self.handler.timeout();
        let mut watch = number.zip(limit).map(|(number, limit)| LeftCall {
            instance: self,
            link,
            number,
            end: Instant::now() + limit,
            limit,
            is_over: false,
        });
        let done = within(limit, link, call).await;
        if let Some(watch) = &mut watch {
            watch.is_over = true;
        }
        done
    }

    /// Waits for a place among the calls in flight.
    async fn place(&self) -> CallPlace {
        self.handler.group().place(self.handler.places()).await
    }

    /// Waits for a worker, and for a place among the calls in flight, which others have while a worker is waited for.
    async fn ready(&self) -> Result<(Arc<Link>, CallPlace), HandlerError> {
        loop {
            let link = self.seat.link().await?;
            let place = self.place().await;
            if link.is_alive() {
                return Ok((link, place));
            }
        }
    }

    /// Takes exceptions apart, and logs them.
    fn heard(&self, answer: Answer) -> Result<Answer, HandlerError> {
        match answer {
            Answer::Raised(raised) => Err(self.logged(HandlerError::Raised(raised))),
            answer => Ok(answer),
        }
    }

    fn logged(&self, error: HandlerError) -> HandlerError {
        if let HandlerError::Raised(raised) = &error {
            let node = self.handler.node_name();
            let text = format!("Error occurred during node execution: {node} - {raised}");
            tracing::error!(of = self.owner(), node, "{}", raised.for_log(&text));
        }
        error
    }

    /// Calls `execute`. `complete` states whether all inputs of the node are present, and `generates` whether it may
    /// give a generator, which then begins. Nothing comes of a call that was skipped. If the request is traced there is a
    /// span: what the handler calls belongs under it, and so do the sets of its generator.
    ///
    /// # Errors
    ///
    /// Fails if it raises an exception, if it returns anything but what it may, or if the worker dies.
    pub async fn execute(
        &self,
        inputs: &[HandlerTensor],
        complete: bool,
        generates: bool,
        trace: Option<&TraceContext>,
    ) -> Result<Produced, HandlerError> {
        let mut span = trace.map(|trace| {
            let mut span = trace.span("python execute");
            span.set("ovms.node", self.handler.node_name().to_owned());
            span
        });
        let context = span.as_ref().map(TraceSpan::context);
        let produced = self.call_execute(inputs, complete, generates, context);
        let produced = produced.await;
        if let (Some(span), Err(error)) = (&mut span, &produced) {
            span.failed(error);
        }
        produced
    }

    async fn call_execute(
        &self,
        inputs: &[HandlerTensor],
        complete: bool,
        generates: bool,
        trace: Option<&TraceContext>,
    ) -> Result<Produced, HandlerError> {
        let line = self.line.as_ref();
        let turn = match line {
            Some(line) => Some(line.turn.lock().await),
            None => None,
        };
        let state = self.state.lock().clone();
        let held = match state {
            // One that is open goes on while its handler ends.
            Some(state) => Held::State(state),
            None => Held::Use(self.handler.enter()?),
        };
        let (link, _place) = match &held {
            Held::State(state) => (Arc::clone(state.link()), self.place().await),
            Held::Use(_) => self.ready().await?,
        };
        if line.is_some_and(CallLine::is_abandoned) {
            return Ok(Produced::Nothing);
        }
        link.has_room(self.handler.node_name())?;
        let tensors = link.all_sent(inputs).await?;
        let (sets, followed, held) = match generates {
            true => {
                let (sets, taken) = mpsc::unbounded_channel();
                (Some(sets), Some((taken, held)), None)
            }
            false => (None, None, Some(held)),
        };
        if let Some(line) = line {
            line.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        let node = self.handler.node_name();
        let (call, answer) = link.begin(node, sets, held, |call| {
            Order::Execute(Execute {
                call,
                node: self.handler.number(),
                instance: if self.has_state() { self.number } else { 0 },
                complete,
                inputs: tensors.into_sent(),
                credits: if generates { 1 } else { 0 },
                traceparent: trace.map(TraceContext::traceparent).unwrap_or_default(),
                tracestate: trace.map(TraceContext::tracestate).unwrap_or_default(),
                line: line.map_or(0, |_| self.number),
            })
        })?;
        // Before anybody can leave: nobody else closes what the call gives.
        let mut generator =
            followed.map(|followed| HandlerGenerator::of(&link, call, Some(followed)));
        if line.is_some_and(CallLine::is_abandoned) {
            self.skip(&link);
        }
        // A limit on the time of a call counts from here, so that the next has to wait for its end.
        let turn = turn.filter(|_| self.handler.timeout().is_some());
        let answer = async { answer.await.unwrap_or_else(|_| Err(link.death(node))) };
        let answer = self.limited(&link, Some(call), answer).await;
        drop(turn);
        if let Some(line) = line {
            line.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(generator) = &mut generator {
            generator.is_given = true;
            if !matches!(answer, Ok(Answer::Generator)) {
                generator.end();
            }
        }
        Ok(match self.heard(answer?)? {
            Answer::Outputs(tensors) => Produced::Outputs(tensors),
            Answer::Generator => {
                let none = || HandlerGenerator::of(&link, call, None);
                Produced::Generator(generator.unwrap_or_else(none))
            }
            _ => Produced::Nothing,
        })
    }

    /// Returns the next outputs of a generator; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// Fails if it raises an exception, if it yields anything but a list of tensors, or if the worker dies. The
    /// generator is over then.
    pub async fn next(
        &self,
        generator: &mut HandlerGenerator,
    ) -> Result<Option<Vec<HandlerTensor>>, HandlerError> {
        let link = Arc::clone(&generator.link);
        let Some(sets) = &mut generator.sets else {
            return Ok(None);
        };
        let set = async {
            let set = sets.recv().await;
            set.unwrap_or_else(|| Err(link.death(self.handler.node_name())))
        };
        let set = self.limited(&link, None, set).await;
        match &set {
            Ok(Some(tensors)) => {
                let bytes = tensors.iter().map(HandlerTensor::weight).sum();
                generator.taken(bytes);
            }
            // The worker still has it.
            Err(HandlerError::Memory(..)) => generator.leave(),
            _ => generator.end(),
        }
        set.map_err(|error| self.logged(error))
    }

    /// Closes the state of this instance, if it has one: calls `destroy_state` if the class has that, after the end
    /// of its generators.
    pub async fn close(&self) {
        let state = self.state.lock().take();
        if let Some(mut state) = state.and_then(Arc::into_inner) {
            // Where the caller leaves meanwhile, the state ends nevertheless.
            let _place = self.place().await;
            to_its_end(state.end()).await;
        }
    }
}

/// A call with a limit that somebody waits for.
struct LeftCall<'a> {
    instance: &'a HandlerInstance,
    link: &'a Arc<Link>,
    number: u64,
    end: Instant,
    limit: Duration,
    is_over: bool,
}

impl Drop for LeftCall<'_> {
    /// Applies the limit even if the client has left before the end: the worker is still at the call.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (link, number) = (Arc::downgrade(self.link), self.number);
        let (end, limit) = (self.end, self.limit);
        Task::spawn_on(self.instance.handler.group().runtime(), async move {
            tokio::time::sleep_until(end).await;
            if let Some(link) = link.upgrade().filter(|link| link.is_at(number)) {
                kill(&link, limit);
            }
        })
        .detach();
    }
}

impl Drop for HandlerInstance {
    /// Abandons what is not answered, which nobody waits for any more.
    fn drop(&mut self) {
        if let Some(line) = &self.line
            && line.unanswered.load(Ordering::Relaxed) > 0
        {
            self.abandon();
        }
    }
}

impl fmt::Debug for HandlerInstance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("node", &self.handler.node_name())
            .finish_non_exhaustive()
    }
}

/// Generator of outputs that has begun and not ended. Dropping it closes it: the handler sees `GeneratorExit`, and is
/// not finalized before. One that has not ended after the limit of a call is killed with its worker.
pub struct HandlerGenerator {
    link: Arc<Link>,
    number: u64,
    /// `None` once it has ended.
    sets: Option<mpsc::UnboundedReceiver<TakenSet>>,
    /// Sets that it may still give.
    ahead: u32,
    held: Option<Held>,
    /// Indicates that the call that gives it has ended.
    is_given: bool,
}

impl HandlerGenerator {
    /// Follows a call that may give a generator: one that it gives is closed if its caller has left by then. Where it may
    /// give none, that has ended.
    fn of(
        link: &Arc<Link>,
        number: u64,
        followed: Option<(mpsc::UnboundedReceiver<TakenSet>, Held)>,
    ) -> Self {
        let (sets, held) = followed.unzip();
        Self {
            link: Arc::clone(link),
            number,
            sets,
            ahead: 1,
            held,
            is_given: false,
        }
    }

    /// Notes that it has ended, or that the call has given none.
    fn end(&mut self) {
        self.sets = None;
        self.held = None;
    }

    /// Counts a set that was taken, and lets the generator give more when it has few left.
    fn taken(&mut self, bytes: usize) {
        self.ahead -= 1;
        let wanted = if bytes > MAX_SET_BYTES { 1 } else { AHEAD };
        if self.ahead <= wanted / 2 {
            let more = wanted - self.ahead;
            self.ahead += more;
            self.link.go_on(self.number, more);
        }
    }

    /// Closes the generator, and keeps its state until it has ended.
    fn leave(&mut self) {
        let (Some(mut sets), Some(held)) = (self.sets.take(), self.held.take()) else {
            return;
        };
        self.link.close_generator(self.number);
        let Some((runtime, limit)) = held.life() else {
            return;
        };
        // Its call, which has a limit of its own, is before it.
        let patience = limit.map(|limit| if self.is_given { limit } else { 2 * limit });
        let link = Arc::downgrade(&self.link);
        Task::spawn_on(&runtime, async move {
            // It reports its end as well.
            let mut ended = std::pin::pin!(async { while sets.recv().await.is_some() {} });
            // A step that does not end is no better for the client having left; it has the limit of a call anew, since
            // its end and that of the generator are one to those who wait.
            let is_over = match patience {
                Some(patience) => tokio::time::timeout(patience, ended.as_mut()).await.is_ok(),
                None => false,
            };
            if !is_over {
                if let (Some(limit), Some(link)) = (limit, link.upgrade()) {
                    kill(&link, limit);
                }
                ended.await;
            }
            drop(held);
        })
        .detach();
    }
}

impl Drop for HandlerGenerator {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for HandlerGenerator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Generator")
            .field("ended", &self.sets.is_none())
            .finish_non_exhaustive()
    }
}
