//! The socket to a worker, and what is to be written to it.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pyovms::{
    memory::{Announce, Place},
    message::{Arena, Order, ToWorker},
    stream::Outgoing,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
};

use super::super::{group::COMMON, process::follow};
use crate::{
    budget::{Budget, Charge},
    task,
};

/// Time between two warnings that inputs are refused.
const WARNING: Duration = Duration::from_secs(60);

/// Time after which a socket that is full is written again if it cannot be followed.
const RETRY: Duration = Duration::from_millis(5);

/// Orders that are sent while more of a turn are made, so that the worker begins meanwhile. Turns of that many or fewer
/// are sent as a whole.
const GROUP: usize = 8;

/// The socket, and what is to be written to it.
pub(super) struct Wire {
    own: Weak<Self>,
    /// Followed for what can be read alone: it can be written again whenever the worker reads, which would wake a
    /// thread for nothing each time.
    pub(super) socket: AsyncFd<UnixStream>,
    outgoing: Mutex<Pending>,
    /// Notified when messages wait.
    waits: Notify,
    freed: Mutex<Vec<Place>>,
    /// Budget of results.
    pub(super) budget: Budget,
    /// Budget of what the worker is given.
    inputs: Budget,
    /// Time of the last warning that there is no more of that.
    warned: Mutex<Option<Instant>>,
    /// Graph or pipeline that the worker is of.
    of: String,
    /// Charges of the memory that both sides have.
    charges: Mutex<HashMap<u32, Charge>>,
}

#[derive(Default)]
struct Pending {
    messages: Outgoing,
    /// Indicates that they wait for the end of a poll, or for the task that drains them.
    wait: bool,
    /// Orders since the last write.
    turn: usize,
    /// Orders of the largest turn of late.
    large_turn: usize,
}

impl Wire {
    /// Takes the socket to a worker of a graph or a pipeline, with the budget of its inputs.
    pub(super) fn new(socket: UnixStream, of: String, inputs: Budget) -> io::Result<Arc<Self>> {
        socket.set_nonblocking(true)?;
        let socket = follow(socket, Interest::READABLE)?;
        Ok(Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            socket,
            outgoing: Mutex::default(),
            waits: Notify::new(),
            freed: Mutex::default(),
            budget: COMMON.budget(),
            inputs,
            warned: Mutex::default(),
            of,
            charges: Mutex::default(),
        }))
    }

    /// Returns whether inputs of the graph or pipeline may have so many bytes of memory more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        fits(&self.inputs, bytes)
    }

    /// Warns, once a minute at most, if so many bytes of memory more are refused since inputs have all that they may.
    pub(super) fn warn_of_inputs(&self, bytes: usize) {
        let all = COMMON.inputs();
        let Some((full, whose)) = [(&self.inputs, ""), (&all, " of all graphs and pipelines")]
            .into_iter()
            .find(|(budget, _)| !fits(budget, bytes))
        else {
            return;
        };
        let mut warned = self.warned.lock();
        if warned.is_some_and(|at| at.elapsed() < WARNING) {
            return;
        }
        *warned = Some(Instant::now());
        drop(warned);
        let (charged, max) = (full.charged(), full.max());
        tracing::warn!(
            of = self.of,
            "requests are rejected: inputs{whose} take {charged} of at most {max} bytes, in flight or kept by handlers; copy \
             what a handler keeps (`numpy.array(tensor)`), or raise --max-bytes-in-flight"
        );
    }

    fn take_freed(&self) -> Vec<Place> {
        std::mem::take(&mut *self.freed.lock())
    }

    /// Sends an order, with those that follow before the caller's task waits: one system call is for all of them, or for
    /// each group of many.
    pub(super) fn send(&self, order: Option<Order>, descriptor: Option<OwnedFd>) {
        let freed = self.take_freed();
        let message = ToWorker { order, freed };
        let mut pending = self.outgoing.lock();
        match descriptor {
            Some(descriptor) => pending.messages.push_with(&message, descriptor),
            None => pending.messages.push(&message),
        }
        if !std::mem::replace(&mut pending.wait, true) {
            let own = Weak::clone(&self.own);
            // Without another task, if this is a poll that ends soon.
            let is_left = task::at_poll_end(move || {
                if let Some(own) = own.upgrade() {
                    own.flush();
                }
            });
            if !is_left {
                self.waits.notify_one();
            }
        }
        pending.turn += 1;
        if pending.turn.is_multiple_of(GROUP) && pending.large_turn > GROUP {
            // What is left, and that the worker has gone, is for the end of the poll, or the task.
            let _ = pending.messages.send(self.socket.get_ref());
        }
    }

    /// Sends what waits, and leaves what the socket does not take to the task that drains it.
    fn flush(&self) {
        if self.write() {
            self.waits.notify_one();
        }
    }

    /// Asks the worker to report what it has freed, which otherwise waits for the next call.
    pub(super) fn nudge(&self) {
        // One that does not read what it was sent does not read more.
        if !self.outgoing.lock().wait {
            self.send(None, None);
        }
    }

    /// Writes what waits, whenever the socket takes more.
    pub(super) async fn drain(&self) {
        loop {
            self.waits.notified().await;
            while self.write() {
                if self.writable().await.is_err() {
                    // This process has as many descriptors as it may, which passes.
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Waits until the socket takes more, followed a second time for as long.
    async fn writable(&self) -> io::Result<()> {
        let again = self.socket.get_ref().try_clone()?;
        let followed = follow(again, Interest::WRITABLE)?;
        followed.writable().await?.retain_ready();
        Ok(())
    }

    /// Writes what the socket takes; returns whether there is more.
    fn write(&self) -> bool {
        let mut pending = self.outgoing.lock();
        let sent = pending.messages.send(self.socket.get_ref());
        // That the worker has gone is noticed elsewhere.
        pending.wait = sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        // A turn of two groups comes back as one or two, and is to be two again.
        let turn = std::mem::take(&mut pending.turn);
        pending.large_turn = turn.max(pending.large_turn.saturating_sub(1));
        pending.wait
    }
}

fn fits(budget: &Budget, bytes: usize) -> bool {
    budget.charged().saturating_add(bytes) <= budget.max()
}

impl Announce for Wire {
    fn arena(&self, number: u32, bytes: usize, file: OwnedFd) -> io::Result<()> {
        let charge = self.inputs.charge(bytes).map_err(io::Error::other)?;
        let mut charges = self.charges.lock();
        charges.insert(number, charge);
        drop(charges);
        let bytes = bytes as u64;
        self.send(Some(Order::Arena(Arena { number, bytes })), Some(file));
        Ok(())
    }

    fn ended(&self, number: u32, _: usize) {
        let mut charges = self.charges.lock();
        let charge = charges.remove(&number);
        drop(charges);
        drop(charge);
        self.send(Some(Order::Arena(Arena { number, bytes: 0 })), None);
    }

    fn freed(&self, place: Place) {
        let mut freed = self.freed.lock();
        freed.push(place);
        drop(freed);
        // Large enough to be worth a message of its own.
        self.send(None, None);
    }
}
