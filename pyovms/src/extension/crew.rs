//! The threads of a worker.
//!
//! One thread reads the socket and runs the calls that it has read, one after the other: no thread waits for another
//! then. Only when a call takes long another thread takes over, reads on, and runs what is there. The thread of
//! Python's `main` watches for that, and runs no code of handlers.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use pyo3::prelude::*;

use super::{calls::Calls, link::Source};
use crate::message::Order;

/// Time after which a call takes long.
pub(super) const LONG: Duration = Duration::from_millis(1);

/// Time for which the watch goes on without a call.
const LINGER: Duration = Duration::from_millis(100);

/// Maximum number of threads: the server has 1024 calls in flight at most, beside which the socket is read and states
/// are ended.
const MAX_THREADS: usize = 1024 + 64;

/// Room for the stack of a thread: as much as Linux gives those of Python itself. It takes memory as far as calls of one
/// another have come.
const STACK: usize = 8 << 20;

/// Replies that are sent while calls wait, so that the server goes on with them meanwhile.
const GROUP: usize = 8;

/// Ends the worker with a thread that panics, whose call would never be answered: those who wait are given how the worker
/// has ended, and another one takes its place. What the library for Python has made an exception of is a panic again
/// where the exception is taken.
struct EndsWorker;

impl Drop for EndsWorker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The threads.
pub(super) struct Crew {
    calls: Arc<Calls>,
    state: Mutex<State>,
    /// Threads without work wait here.
    work: Condvar,
    /// The watch waits here.
    watch: Condvar,
}

struct State {
    orders: VecDeque<Order>,
    /// Lines of which an order is being run, with those that have to wait for its end.
    lines: HashMap<u64, VecDeque<Order>>,
    /// `None` while a thread reads.
    source: Option<Source>,
    /// Orders that are being run.
    running: usize,
    /// Time at which the last of them began, or ended.
    moved: Instant,
    /// Orders that have ended since replies were sent.
    unsent: usize,
    idle: usize,
    threads: usize,
    is_watch_asleep: bool,
    has_ended: bool,
    /// Error that ended the reading, until the watch has seen it.
    ended: Option<io::Error>,
}

impl State {
    /// Takes the next order that need not wait for another one of its line.
    fn pop(&mut self) -> Option<Order> {
        loop {
            let order = self.orders.pop_front()?;
            let line = order.line();
            if line == 0 {
                return Some(order);
            }
            match self.lines.entry(line) {
                Entry::Vacant(free) => {
                    free.insert(VecDeque::new());
                    return Some(order);
                }
                Entry::Occupied(mut waiting) => waiting.get_mut().push_back(order),
            }
        }
    }

    /// Notes the end of an order of a line: those that have waited for it are next.
    fn ended(&mut self, line: u64) {
        self.running -= 1;
        self.moved = Instant::now();
        self.unsent += 1;
        for order in self.lines.remove(&line).into_iter().flatten().rev() {
            self.orders.push_front(order);
        }
    }
}

impl Crew {
    /// Runs the orders of a source to its end.
    pub(super) fn run(calls: Arc<Calls>, source: Source) -> io::Result<()> {
        let crew = Arc::new(Self {
            calls,
            state: Mutex::new(State {
                orders: VecDeque::new(),
                lines: HashMap::new(),
                source: Some(source),
                running: 0,
                moved: Instant::now(),
                unsent: 0,
                idle: 0,
                threads: 0,
                is_watch_asleep: false,
                has_ended: false,
                ended: None,
            }),
            work: Condvar::new(),
            watch: Condvar::new(),
        });
        crew.add_thread(&mut crew.state())?;
        crew.watch_over()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that panics is done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let crew = Arc::clone(self);
        std::thread::Builder::new()
            .name("pyovms calls".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let _ends = EndsWorker;
                // Without Python, whose lock a call may have for long: only those that have a call wait for that.
                if let Some(order) = crew.next(None) {
                    Python::attach(|py| crew.work(py, order));
                }
            })?;
        state.threads += 1;
        Ok(())
    }

    /// Lets another thread go on with the rest, if there is any that could.
    fn hand_over(self: &Arc<Self>, state: &mut State) {
        if state.idle > 0 {
            self.work.notify_one();
        } else if state.threads < MAX_THREADS {
            // Without a thread the rest waits.
            let _ = self.add_thread(state);
        }
    }

    /// Runs orders until there are no more.
    fn work(self: &Arc<Self>, py: Python<'_>, first: Order) {
        let mut next = Some(first);
        while let Some(order) = next {
            let line = order.line();
            self.calls.run(py, order);
            next = py.detach(|| self.next(Some(line)));
        }
    }

    /// Waits for the next order; an order of this line has ended before.
    fn next(self: &Arc<Self>, ended: Option<u64>) -> Option<Order> {
        let mut state = self.state();
        if let Some(line) = ended {
            state.ended(line);
        }
        loop {
            if state.unsent < GROUP
                && let Some(order) = state.pop()
            {
                state.running += 1;
                state.moved = Instant::now();
                if state.is_watch_asleep {
                    state.is_watch_asleep = false;
                    self.watch.notify_one();
                }
                if state.source.is_some() && self.calls.takes_long(&order) {
                    self.hand_over(&mut state);
                }
                return Some(order);
            }
            if std::mem::take(&mut state.unsent) > 0 {
                // Replies of several calls are sent together.
                drop(state);
                self.calls.flush();
                state = self.state();
                continue;
            }
            if state.has_ended {
                return None;
            }
            let Some(mut source) = state.source.take() else {
                state.idle += 1;
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let mut orders = VecDeque::new();
            let read = source.read(&mut orders);
            for order in &orders {
                if let Order::Abandon(line) = order {
                    self.calls.abandon(line.number);
                }
            }
            state = self.state();
            state.source = Some(source);
            state.orders.append(&mut orders);
            if let Err(error) = read {
                state.ended = Some(error);
                state.has_ended = true;
                self.work.notify_all();
                self.watch.notify_one();
            }
        }
    }

    /// Lets another thread go on where a call takes long, until the end of the source.
    fn watch_over(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.state();
        loop {
            if let Some(error) = state.ended.take() {
                return match error.kind() {
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(()),
                    _ => Err(error),
                };
            }
            if state.running == 0 && state.moved.elapsed() > LINGER {
                state.is_watch_asleep = true;
                state = self
                    .watch
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if state.running > 0 && state.moved.elapsed() > LONG {
                if state.source.is_some() {
                    self.hand_over(&mut state);
                    state.moved = Instant::now();
                }
                // The thread that has said a reply may be the one whose next call takes long, or the first step of the
                // generator that the reply is about.
                state.unsent = 0;
                drop(state);
                self.calls.flush();
                state = self.state();
            }
            let (woken, _) = self
                .watch
                .wait_timeout(state, LONG)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
    }
}
