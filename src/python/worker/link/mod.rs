//! The server's side of the link to a worker.

mod tensors;
mod wire;

pub(super) use tensors::max_shared;

use std::{
    collections::BTreeSet,
    fmt,
    io::{self, ErrorKind},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use pyovms::{
    memory::{Announce, Shared},
    message::{Arena, FromWorker, Hello, Next, Numbered, Order, Outcome, Report, Set},
    stream::Incoming,
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
};

use self::{tensors::Announced, wire::Wire};
use super::{
    group::COMMON,
    held::Held,
    process::{Ended, Exit, Process},
    stacks::{Places, Stacks},
    waiting::{Answer, Call, OpenGenerator, TakenSet, Waiting},
};
use crate::{budget::Budget, python::error::HandlerError, task::Task};

/// Time after which a call that has not ended is worth a warning; it comes after twice of it at the latest.
const LONG: Duration = Duration::from_secs(5);

/// Maximum number of calls of a worker that have not ended: those whose clients have left are among them.
const MAX_CALLS: usize = 1024;

/// A link to a worker that lives.
pub(in crate::python) struct Link {
    own: Weak<Self>,
    wire: Arc<Wire>,
    shared: Arc<Shared>,
    /// Memory of the worker that this side may see.
    announced: Mutex<Announced>,
    process: Process,
    stacks: Stacks,
    /// The turn to ask for them.
    asks: Semaphore,
    /// Files of its handlers.
    handlers: Mutex<Vec<PathBuf>>,
    /// Stacks of its threads at its end, once known.
    places: OnceLock<Option<Places>>,
    /// Graph or pipeline that the worker works for, in messages.
    of: String,
    last: AtomicU64,
    calls: Mutex<Waiting>,
    /// Calls that have not ended, and steps of generators.
    busy: AtomicUsize,
    /// Reason why the server killed the worker, if it did.
    killed_for: Mutex<Option<String>>,
    /// Runtime on which it is read.
    runtime: Handle,
    /// Indicates that its end is in the log.
    is_reported: AtomicBool,
}

/// A worker that is ready.
pub(super) struct Started {
    pub(super) link: Arc<Link>,
    pub(super) hello: Hello,
}

impl Link {
    /// Takes the socket to a new worker, and waits until that is ready.
    pub(super) async fn start(
        socket: UnixStream,
        process: Process,
        stacks: Stacks,
        of: String,
        inputs: Budget,
    ) -> Result<Started, String> {
        let failed = |error: io::Error| format!("the worker has no link: {error}");
        let wire = Wire::new(socket, of.clone(), inputs).map_err(failed)?;
        let link = Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            shared: Shared::new(Arc::clone(&wire) as Arc<dyn Announce>),
            wire,
            announced: Mutex::default(),
            process,
            stacks,
            asks: Semaphore::new(1),
            handlers: Mutex::default(),
            places: OnceLock::new(),
            of,
            last: AtomicU64::new(0),
            calls: Mutex::default(),
            busy: AtomicUsize::new(0),
            killed_for: Mutex::default(),
            runtime: Handle::current(),
            is_reported: AtomicBool::new(false),
        });
        let (ready, hello) = oneshot::channel();
        Task::spawn(Self::run(Arc::downgrade(&link), ready)).detach();
        match hello.await {
            Ok(hello) => Ok(Started { link, hello }),
            Err(_) => Err(format!("it {}", link.exit().wait().await.text())),
        }
    }

    /// Reads until the worker has ended, and then ends its calls.
    async fn run(this: Weak<Self>, ready: oneshot::Sender<Hello>) {
        let Some(link) = this.upgrade() else {
            return;
        };
        let (wire, exit, handle) = (Arc::clone(&link.wire), link.exit(), link.process.handle());
        drop(link);
        let mut ready = Some(ready);
        let mut incoming = Incoming::default();
        let reading = async {
            loop {
                let Ok(mut readable) = wire.socket.readable().await else {
                    return;
                };
                let received = incoming.receive(wire.socket.get_ref());
                if incoming.has_all() {
                    readable.clear_ready();
                }
                let Some(link) = this.upgrade() else {
                    return;
                };
                let read = match received {
                    Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                    Ok(_) => link.read(&mut incoming, &mut ready),
                    // It was not readable after all.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(error) => Err(error),
                };
                if let Err(error) = read {
                    // One that was killed may not have read everything.
                    match error.kind() {
                        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {}
                        ErrorKind::QuotaExceeded => {
                            tracing::error!(of = link.of, "a Python worker {error}");
                        }
                        _ => tracing::error!(
                            of = link.of,
                            "a Python worker is not understood: {error}"
                        ),
                    }
                    return;
                }
            }
        };
        let works = async {
            tokio::select! {
                () = wire.drain() => {}
                () = reading => {}
                () = Self::watch(&this) => {}
            }
            // One that is neither read nor written any more is of no use.
            if let Some(link) = this.upgrade() {
                link.process.kill();
            }
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = Process::ended(handle, &exit) => ended,
            never = works => never,
        };
        if let Some(link) = this.upgrade() {
            link.died(ended);
        }
    }

    /// Warns of calls and steps of generators that do not end, each once, and lets go of memory while there are none,
    /// until the link is dropped.
    async fn watch(this: &Weak<Self>) {
        // Calls have numbers that grow: those up to `before` have been there for an interval.
        let (mut before, mut warned) = (0, 0);
        loop {
            tokio::time::sleep(LONG).await;
            let Some(link) = this.upgrade() else {
                return;
            };
            let last = link.last.load(Ordering::Relaxed);
            if link.busy() == 0 || last == before {
                // It is charged, and others may need the room.
                link.shared.end_free();
            }
            let (call, step) = {
                let mut waiting = link.calls.lock();
                let look = waiting.look();
                match waiting.oldest(warned + 1..=before) {
                    None => (None, waiting.long_step(look)),
                    call => (call, None),
                }
            };
            let call = call.map(|(number, node)| (number, node, "call"));
            let long = call.or_else(|| Some((warned, step?, "step of the generator")));
            if let Some((number, node, what)) = long {
                let at = link.handler_places().await;
                let at = at.map_or_else(String::new, |at| format!(": it is at {at}"));
                let long = LONG.as_secs();
                match link.is_loading() {
                    true => tracing::warn!(
                        of = link.of,
                        node,
                        "the load of the handler has not ended for {long} s{at}; nothing is served until it ends"
                    ),
                    false => tracing::warn!(
                        of = link.of,
                        node,
                        "a {what} of the handler has not ended for {long} s{at}; python_timeout_ms would end it"
                    ),
                }
                warned = number;
            }
            before = last;
        }
    }

    /// Asks the worker for its stacks, and waits for them for a moment; those of its end are there already. The
    /// caller has the turn, `asks`.
    async fn ask(&self) -> Option<Places> {
        let read = || self.stacks.read(&self.handlers.lock());
        let fatal = read().filter(|places| places.is_fatal);
        if fatal.is_none() {
            self.stacks.clear();
            self.process.ask();
            self.stacks.written().await;
        }
        fatal.or_else(read)
    }

    /// Asks the worker where its handlers are; `None` if it does not say, or runs none.
    pub(in crate::python) async fn handler_places(&self) -> Option<String> {
        self.places_now().await?.of_handlers()
    }

    /// Asks the worker whether Python's debugger has stopped a handler.
    pub(in crate::python) async fn is_debugged(&self) -> bool {
        let places = self.places_now().await;
        places.is_some_and(|places| places.is_debugged)
    }

    async fn places_now(&self) -> Option<Places> {
        // It is never closed.
        let _turn = self.asks.acquire().await;
        // What is written before it is killed stays.
        if !self.is_alive() {
            return None;
        }
        let places = self.ask().await;
        // Its end may write none.
        if !places.as_ref().is_some_and(|places| places.is_fatal) {
            self.stacks.clear();
        }
        places
    }

    /// Reads the messages that are whole.
    fn read(
        &self,
        incoming: &mut Incoming,
        ready: &mut Option<oneshot::Sender<Hello>>,
    ) -> io::Result<()> {
        while let Some(message) = incoming.take::<FromWorker>()? {
            // What it refers to may be among what it gives back; whoever waits for it finds that free.
            let FromWorker { report, freed } = message;
            let mut ended = None;
            match report {
                Some(Report::Hello(hello)) => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(hello);
                    }
                }
                Some(Report::Done(done)) => {
                    ended = Some((done.call, self.answer(done.outcome)?));
                }
                Some(Report::Set(set)) => self.set(set)?,
                Some(Report::Arena(Arena { number, bytes: 0 })) => self.unmap(number),
                Some(Report::Arena(arena)) => self.map(&arena, incoming.descriptor()?)?,
                Some(Report::Log(log)) => {
                    let raised = log
                        .raised
                        .map(crate::python::Raised::from)
                        .unwrap_or_default();
                    let text = raised.for_log(&format!("{}: {raised}", log.text));
                    tracing::error!(of = self.of, node = log.node, "{text}");
                }
                None => {}
            }
            for place in &freed {
                self.shared.returned(place);
            }
            if let Some((call, answer)) = ended {
                self.done(call, answer);
            }
        }
        Ok(())
    }

    fn answer(&self, outcome: Option<Outcome>) -> io::Result<Result<Answer, HandlerError>> {
        Ok(Ok(match outcome {
            Some(Outcome::Outputs(outputs)) => {
                return Ok(self.all_received(outputs)?.map(Answer::Outputs));
            }
            Some(Outcome::Generator(_)) => Answer::Generator,
            Some(Outcome::Raised(raised)) => Answer::Raised(raised.into()),
            Some(outcome) => Answer::Other(outcome),
            None => return Err(ErrorKind::InvalidData.into()),
        }))
    }

    fn done(&self, number: u64, answer: Result<Answer, HandlerError>) {
        let mut waiting = self.calls.lock();
        let Some(call) = waiting.calls.remove(&number) else {
            return;
        };
        let goes_on = match answer {
            Ok(Answer::Generator) => waiting.given(number),
            _ => {
                waiting.generators.remove(&number);
                false
            }
        };
        if !goes_on {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        drop(waiting);
        // Before its caller goes on, who may be the last to have a state then.
        drop(call.held);
        // The client has gone.
        if let Err(Ok(Answer::Generator)) = call.reply.send(answer) {
            self.close_generator(number);
        }
    }

    fn set(&self, set: Set) -> io::Result<()> {
        let is_over = set.outputs.is_none();
        let taken = match (set.outputs, set.raised) {
            (Some(outputs), _) => self.all_received(outputs)?.map(Some),
            (None, Some(raised)) => Err(HandlerError::Raised(raised.into())),
            (None, None) => Ok(None),
        };
        let is_refused = !is_over && taken.is_err();
        let mut waiting = self.calls.lock();
        let waits = waiting.gave(set.generator, is_over);
        if let Some((_, true)) = waits {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        drop(waiting);
        if let Some((sets, _)) = waits {
            let _ = sets.send(taken);
        }
        if is_refused {
            // It would go on otherwise.
            self.close_generator(set.generator);
        }
        Ok(())
    }

    /// Ends everything that waits: the worker has ended.
    fn died(&self, ended: Ended) {
        let how = self.how(ended);
        if let (Some(terminal), Some(places)) = (COMMON.terminal(), self.places()) {
            (terminal.show)(&places.to_string());
        }
        let mut waiting = self.calls.lock();
        let (calls, generators) = waiting.end(&how);
        drop(waiting);
        for (_, call) in calls {
            let error =
                HandlerError::Worker(format!("worker of {} {how} in node {}", self.of, call.node));
            let _ = call.reply.send(Err(error));
        }
        // Those who wait for a set see the end of the channel.
        drop(generators);
        self.shared.returned_all();
        // Nobody looks at it any more.
        self.shared.end_free();
    }

    /// Returns the end of the worker, to be waited for.
    pub(super) fn exit(&self) -> Arc<Exit> {
        Arc::clone(&self.process.exit)
    }

    /// Returns how the worker has ended, in words.
    pub(super) fn how(&self, ended: Ended) -> String {
        let reason = self.killed_for.lock().clone();
        reason.unwrap_or_else(|| ended.text())
    }

    /// Notes the file of a handler.
    pub(super) fn handles(&self, path: &Path) {
        let mut handlers = self.handlers.lock();
        if !handlers.iter().any(|known| known == path) {
            handlers.push(path.to_owned());
        }
    }

    /// Notes whether it is about to load a handler.
    pub(super) fn loads(&self, is_loading: bool) {
        self.calls.lock().is_loading = is_loading;
    }

    /// Returns whether it loads a handler, or has died of that.
    pub(in crate::python) fn is_loading(&self) -> bool {
        self.calls.lock().is_loading
    }

    /// Returns the nodes that the worker is at, or was when it ended.
    pub(in crate::python) fn nodes(&self) -> BTreeSet<String> {
        self.calls.lock().nodes()
    }

    /// Returns where the threads of a worker that has ended were, if it could write that.
    pub(super) fn places(&self) -> Option<Places> {
        let read = || self.stacks.read(&self.handlers.lock());
        self.places.get_or_init(read).clone()
    }

    /// Returns whether its end is in the log by now, and notes that it will be.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported.swap(true, Ordering::Relaxed)
    }

    /// Asks the worker to end, once it has done what it was asked.
    pub(super) fn close(&self) {
        let _ = rustix::net::shutdown(self.wire.socket.get_ref(), rustix::net::Shutdown::Write);
    }

    /// Returns whether the worker lives, as far as is known.
    pub(in crate::python) fn is_alive(&self) -> bool {
        self.calls.lock().died.is_none() && self.killed_for.lock().is_none()
    }

    /// Returns the error for those who wait for a set of a generator when the worker has ended.
    pub(in crate::python) fn death(&self, node: &str) -> HandlerError {
        let known = || self.exit().get().map(|ended| self.how(ended));
        let how = self.ended_how().or_else(known);
        let how = how.unwrap_or_else(|| "has ended".to_owned());
        HandlerError::Worker(format!("worker of {} {how} in node {node}", self.of))
    }

    /// Returns how the worker has ended, if those who waited for it know.
    pub(in crate::python) fn ended_how(&self) -> Option<String> {
        self.calls.lock().died.clone()
    }

    /// Returns how many calls, and steps of generators, have not ended.
    pub(in crate::python) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Kills the worker, which nobody needs any more.
    pub(super) fn put_an_end(&self) {
        self.process.kill();
    }

    /// Kills the worker, for a reason that its calls fail with, after it had a moment to say where it is. It gets no new
    /// calls meanwhile.
    pub(in crate::python) fn kill(&self, reason: String) {
        let mut killed_for = self.killed_for.lock();
        if killed_for.is_some() {
            return;
        }
        *killed_for = Some(reason);
        drop(killed_for);
        let Some(link) = self.own.upgrade() else {
            return;
        };
        // Of its own: the call whose time is over may be dropped.
        let runtime = self.runtime.clone();
        Task::spawn_on(&runtime, async move {
            let _turn = link.asks.acquire().await;
            link.ask().await;
            link.process.kill();
        })
        .detach();
    }

    /// Returns the number of the worker's process.
    pub(in crate::python) fn pid(&self) -> u32 {
        self.process.pid().as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends an order that has no answer.
    pub(in crate::python) fn send(&self, order: Order) {
        self.wire.send(Some(order), None);
    }

    /// Makes a call, and waits for its end.
    pub(in crate::python) async fn call(
        &self,
        node: &str,
        order: impl FnOnce(u64) -> Order,
    ) -> Result<Answer, HandlerError> {
        let answer = self.begin(node, None, None, order)?.1.await;
        answer.unwrap_or_else(|_| Err(self.death(node)))
    }

    /// Checks that a request may have another call there: those whose clients have left are among those that have not
    /// ended, and so are steps of generators. What ends a state or a handler is not refused.
    ///
    /// # Errors
    ///
    /// Fails if there are too many.
    pub(in crate::python) fn has_room(&self, node: &str) -> Result<(), HandlerError> {
        if self.busy() < MAX_CALLS {
            return Ok(());
        }
        let text = format!(
            "Server is overloaded - worker of {} has {MAX_CALLS} calls that have not ended; node {node} was not called",
            self.of
        );
        Err(HandlerError::Memory(
            crate::error::ErrorKind::Exhausted,
            text,
        ))
    }

    /// Begins a call, whose number is also that of the generator that it may give. What is held is kept until it ends.
    pub(in crate::python) fn begin(
        &self,
        node: &str,
        sets: Option<mpsc::UnboundedSender<TakenSet>>,
        held: Option<Held>,
        order: impl FnOnce(u64) -> Order,
    ) -> Result<(u64, oneshot::Receiver<Result<Answer, HandlerError>>), HandlerError> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = oneshot::channel();
        let mut waiting = self.calls.lock();
        if let Some(how) = &waiting.died {
            let text = format!("worker of {} {how} before node {node} was called", self.of);
            return Err(HandlerError::Worker(text));
        }
        let node = node.to_owned();
        if let Some(sets) = sets {
            let generator = OpenGenerator::new(sets, node.clone());
            waiting.generators.insert(number, generator);
        }
        waiting.calls.insert(number, Call { reply, node, held });
        self.busy.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        self.send(order(number));
        Ok((number, answer))
    }

    /// Returns whether a call has not ended.
    pub(in crate::python) fn is_at(&self, call: u64) -> bool {
        self.calls.lock().calls.contains_key(&call)
    }

    /// Lets a generator give more sets, if it has not ended.
    pub(in crate::python) fn go_on(&self, generator: u64, credits: u32) {
        let order = Order::Next(Next { generator, credits });
        self.step(order, |waiting| waiting.goes_on(generator, credits));
    }

    /// Closes a generator, if it has not ended.
    pub(in crate::python) fn close_generator(&self, number: u64) {
        let order = Order::CloseGenerator(Numbered { number });
        self.step(order, |waiting| waiting.closes(number));
    }

    /// Sends an order to a generator, which begins a step if it was at none; none if there is no such generator.
    fn step(&self, order: Order, change: impl FnOnce(&mut Waiting) -> Option<bool>) {
        let mut waiting = self.calls.lock();
        let Some(begins) = change(&mut waiting) else {
            return;
        };
        if begins {
            self.busy.fetch_add(1, Ordering::Relaxed);
        }
        drop(waiting);
        self.send(order);
    }

    /// Releases an object of the worker.
    pub(in crate::python) fn release(&self, number: u64) {
        self.send(Order::Release(Numbered { number }));
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}
