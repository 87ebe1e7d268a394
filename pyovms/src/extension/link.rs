//! The worker's side of the link to the server.

use std::{
    io,
    os::{
        fd::{FromRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyAny};

use super::{SHARED, calls::Calls, crew::Crew, loading::Tools};
use crate::{
    memory::{Announce, Place, Shared},
    message::{Arena, FromWorker, Hello, Order, Report, ToWorker, VERSION},
    stream::{Incoming, Outgoing},
};

/// Replies that wait for others before they are sent.
const MAX_WAITING: usize = 32 << 10;

/// The socket, and what is to be written to it.
pub(super) struct Link {
    socket: UnixStream,
    outgoing: Mutex<Outgoing>,
    freed: Mutex<Vec<Place>>,
    /// Bytes in arenas of this side, and the most of them.
    bytes: AtomicU64,
    limit: u64,
}

impl Link {
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        // Messages are added whole, here and below.
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn freed(&self) -> MutexGuard<'_, Vec<Place>> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message, to be sent with the next ones or by `flush`. Returns whether it is time for that.
    pub(super) fn say(&self, report: Report) -> bool {
        let freed = std::mem::take(&mut *self.freed());
        let mut outgoing = self.outgoing();
        outgoing.push(&FromWorker {
            report: Some(report),
            freed,
        });
        outgoing.len() > MAX_WAITING
    }

    /// Sends what there is; waits while the socket is full. A server that is gone is noticed by the reader.
    pub(super) fn flush(&self) {
        let freed = std::mem::take(&mut *self.freed());
        let mut outgoing = self.outgoing();
        if !freed.is_empty() {
            let report = None;
            outgoing.push(&FromWorker { report, freed });
        }
        let _ = outgoing.send(&self.socket);
    }
}

impl Announce for Link {
    fn arena(&self, number: u32, bytes: usize, file: OwnedFd) -> io::Result<()> {
        let bytes = bytes as u64;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.limit {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            // The server would end the worker.
            return Err(io::Error::other(format!(
                "a worker may share {} bytes of memory with the server; give less at once, or raise --max-bytes-in-flight",
                self.limit
            )));
        }
        let arena = Arena { number, bytes };
        let message = FromWorker {
            report: Some(Report::Arena(arena)),
            freed: Vec::new(),
        };
        self.outgoing().push_with(&message, file);
        Ok(())
    }

    fn ended(&self, number: u32, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.say(Report::Arena(Arena { number, bytes: 0 }));
    }

    fn freed(&self, place: Place) {
        self.freed().push(place);
    }
}

/// Reader of the socket.
pub(super) struct Source {
    link: Arc<Link>,
    shared: Arc<Shared>,
    incoming: Incoming,
}

impl Source {
    /// Waits for orders, and adds them; fails at the end. What is about memory is done at once.
    pub(super) fn read(&mut self, orders: &mut impl Extend<Order>) -> io::Result<()> {
        loop {
            if self.incoming.wait(&self.link.socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut any = false;
            while let Some(message) = self.incoming.take::<ToWorker>()? {
                for place in &message.freed {
                    self.shared.returned(place);
                }
                match message.order {
                    Some(Order::Arena(Arena { number, bytes: 0 })) => self.shared.unmap(number),
                    Some(Order::Arena(arena)) => match self.incoming.descriptor()? {
                        Some(file) => self.shared.map(arena.number, arena.bytes, file)?,
                        None => self.shared.miss(arena.number),
                    },
                    Some(order) => {
                        any = true;
                        orders.extend([order]);
                    }
                    None => {}
                }
            }
            if any {
                return Ok(());
            }
            // The server may wait for memory that was freed while no call ran.
            self.link.flush();
        }
    }
}

/// Returns an object as a text, whatever it is: a path may be in no encoding, and an entry of the search path no path.
fn shown(object: &Bound<'_, PyAny>) -> String {
    let text = object.str();
    text.map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// Serves a socket to its end.
pub(super) fn serve(
    py: Python<'_>,
    socket: i32,
    tools: &Bound<'_, PyAny>,
    limit: u64,
) -> PyResult<()> {
    // SAFETY: whoever starts a worker gives it this descriptor, for this alone.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(io::Error::from)?;
    let link = Arc::new(Link {
        socket: socket.into(),
        outgoing: Mutex::default(),
        freed: Mutex::default(),
        bytes: AtomicU64::new(0),
        limit,
    });
    let shared = SHARED.get_or_init(|| Shared::new(Arc::clone(&link) as Arc<dyn Announce>));
    let sys = py.import("sys")?;
    let version = Python::version_str();
    link.say(Report::Hello(Hello {
        version: VERSION,
        python: version
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
        prefix: shown(&sys.getattr("prefix")?),
        path: (sys.getattr("path")?.try_iter()?)
            .map(|entry| entry.as_ref().map(shown).unwrap_or_default())
            .collect(),
    }));
    link.flush();
    let source = Source {
        link: Arc::clone(&link),
        shared: Arc::clone(shared),
        incoming: Incoming::default(),
    };
    let calls = Calls::new(link, Arc::clone(shared), Tools::of(tools)?);
    let ended = py.detach(|| Crew::run(Arc::new(calls), source));
    ended.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
