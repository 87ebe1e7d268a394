//! The process that forks workers: one for each interpreter, with what most handlers import.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rustix::{
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    process::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{
    group::COMMON,
    output, package,
    process::{Ended, Exit, Process},
};
use crate::task;

/// The descriptor of the socket in the process.
const DESCRIPTOR: i32 = 3;

/// Maximum size of a message in bytes.
const MAX_MESSAGE: usize = 4096;

/// Time that workers have to end by themselves once nothing is asked of them any more: they print what has no line end
/// yet.
const OWN_END: Duration = Duration::from_millis(500);

/// Time that the process and its keeper have to end once the socket has, and between two looks at that.
const END: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Request for a worker.
pub(super) struct Request<'a> {
    /// The worker's side of the link.
    pub(super) socket: BorrowedFd<'a>,
    /// Destination of its stacks.
    pub(super) stacks: BorrowedFd<'a>,
    /// Destination of its output; without, it has the terminal of this process.
    pub(super) streams: Option<[BorrowedFd<'a>; 2]>,
    /// Maximum size of its address space in bytes.
    pub(super) memory_limit: Option<u64>,
    /// Maximum number of bytes that it may share with the server.
    pub(super) shared_limit: u64,
}

#[derive(Serialize)]
struct Fork {
    request: u64,
    memory_limit: Option<u64>,
    shared_limit: u64,
    /// Makes it show what handlers raise.
    shows_raised: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Forked { request: u64, pid: i32 },
    Refused { request: u64, error: String },
    Ended { ended: i32, status: i32 },
}

type Forked = Result<(Pid, OwnedFd, Arc<Exit>), String>;

/// A process that forks workers.
pub(super) struct Zygote {
    socket: OwnedFd,
    state: Mutex<State>,
    end: Condvar,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    has_forked: bool,
    is_given_up: bool,
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Forked>>,
    exits: HashMap<i32, Arc<Exit>>,
}

/// Zygotes that run, by interpreter.
static ZYGOTES: Mutex<BTreeMap<PathBuf, ZygotePlace>> = Mutex::new(BTreeMap::new());

/// The one of an interpreter; held while it starts.
type ZygotePlace = Arc<Mutex<Option<Arc<Zygote>>>>;

impl Zygote {
    /// Returns the one of an interpreter, which starts if none runs. Blocks for as long as that takes; where another
    /// thread is about to start it, no longer than a limit.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses it.
    pub(super) fn of(program: &Path, limit: Duration) -> Result<Arc<Self>, String> {
        let place = Arc::clone(ZYGOTES.lock().entry(program.to_owned()).or_default());
        let Some(mut known) = place.try_lock_for(limit) else {
            let program = program.display();
            return Err(format!(
                "{program} has not started within {} s",
                limit.as_secs()
            ));
        };
        let goes_on = |it: &&Arc<Self>| {
            let state = it.state.lock();
            !state.has_ended && !state.is_given_up
        };
        if let Some(zygote) = known.as_ref().filter(goes_on) {
            return Ok(Arc::clone(zygote));
        }
        let zygote = Self::start(program)?;
        *known = Some(Arc::clone(&zygote));
        Ok(zygote)
    }

    /// Ends it if it has not forked anything yet, since what it imports does not end.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        if !state.has_forked {
            state.is_given_up = true;
            drop(state);
            self.shut();
        }
    }

    /// Ends its side of the socket, and so itself.
    fn shut(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn start(program: &Path) -> Result<Arc<Self>, String> {
        let failed = |error: io::Error| format!("{} does not start: {error}", program.display());
        let (own, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        let zygote = Arc::new(Self {
            socket: own,
            state: Mutex::default(),
            end: Condvar::new(),
        });
        let mut command = Command::new(program);
        command
            // The working directory is no place for packages, see `pyovms.worker`.
            .args(["-P", "-m", "pyovms.worker", &DESCRIPTOR.to_string()])
            .env("PYTHONPATH", path(&package::folder()?))
            .env("PYTHONUNBUFFERED", "1")
            .stdin(match COMMON.terminal().is_some() {
                true => Stdio::inherit(),
                false => Stdio::null(),
            });
        let raw = other.as_raw_fd();
        // SAFETY: both calls may be made between fork and exec, and the descriptor is open until then.
        unsafe {
            command.pre_exec(move || {
                let socket = BorrowedFd::borrow_raw(raw);
                if raw == DESCRIPTOR {
                    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty())?;
                } else {
                    let mut target = std::mem::ManuallyDrop::new(
                        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(DESCRIPTOR),
                    );
                    rustix::io::dup2(socket, &mut target)?;
                }
                Ok(())
            });
        }
        let (reply, started) = mpsc::channel();
        let reader = Arc::clone(&zygote);
        // This thread stays: what a process asks of its parent's end is about the thread that has made it.
        task::thread("python workers", move || match command.spawn() {
            Ok(child) => {
                drop(other);
                let _ = reply.send(Ok(()));
                reader.read(child);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        })
        .map_err(failed)?;
        match started.recv() {
            Ok(started) => started.map_err(failed)?,
            Err(_) => return Err("the thread for Python workers has ended".to_owned()),
        }
        Ok(zygote)
    }

    /// Reads what it says until it ends.
    fn read(&self, mut child: Child) {
        while let Ok(true) = self.receive() {}
        // It may be there, and not have been understood.
        self.shut();
        // The keeper, of which that is a child, kills all that comes of it, so this takes a moment; without the keeper
        // each of them ends.
        let end = Instant::now() + END;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = child.kill();
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let mut state = self.state.lock();
        state.has_ended = true;
        state.waiting.clear();
        for (_, exit) in state.exits.drain() {
            exit.set(Ended::Unknown);
        }
        drop(state);
        self.end.notify_all();
        let _ = child.wait();
    }

    fn receive(&self) -> io::Result<bool> {
        let mut bytes = [0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(
                &self.socket,
                &mut slices,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        if received.bytes == 0 {
            return Ok(false);
        }
        let mut handle = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                handle = descriptors.next();
            }
        }
        let reply: Reply = serde_json::from_slice(&bytes[..received.bytes])?;
        let mut state = self.state.lock();
        match reply {
            Reply::Forked { request, pid } => {
                state.has_forked = true;
                let known = Pid::from_raw(pid).zip(handle);
                let Some(waiting) = state.waiting.remove(&request) else {
                    return Ok(true);
                };
                let forked = known.ok_or_else(|| "a worker came without its handle".to_owned());
                let forked = forked.map(|(number, handle)| {
                    let exit = Arc::<Exit>::default();
                    state.exits.insert(pid, Arc::clone(&exit));
                    (number, handle, exit)
                });
                let _ = waiting.send(forked);
            }
            Reply::Refused { request, error } => {
                if let Some(waiting) = state.waiting.remove(&request) {
                    let _ = waiting.send(Err(error));
                }
            }
            Reply::Ended { ended, status } => {
                if let Some(exit) = state.exits.remove(&ended) {
                    exit.set(Ended::of_wait(status));
                    self.end.notify_all();
                }
            }
        }
        Ok(true)
    }

    /// Forks a worker.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses it, or this has ended.
    pub(super) async fn fork(&self, request: Request<'_>) -> Result<Process, String> {
        let (reply, forked) = oneshot::channel();
        let number = {
            let mut state = self.state.lock();
            if state.has_ended {
                return Err(ENDED.to_owned());
            }
            state.last += 1;
            let number = state.last;
            state.waiting.insert(number, reply);
            number
        };
        self.ask(number, &request)
            .map_err(|error| format!("no worker can be asked for: {error}"))?;
        let (pid, handle, exit) = forked.await.map_err(|_| ENDED.to_owned())??;
        Ok(Process::new(pid, handle, exit))
    }

    fn ask(&self, number: u64, request: &Request<'_>) -> io::Result<()> {
        let message = serde_json::to_vec(&Fork {
            request: number,
            memory_limit: request.memory_limit,
            shared_limit: request.shared_limit,
            shows_raised: COMMON.terminal().is_some_and(|it| it.shows_raised),
        })?;
        let mut descriptors = vec![request.socket, request.stacks];
        descriptors.extend(request.streams.into_iter().flatten());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let slices = [IoSlice::new(&message)];
        rustix::io::retry_on_intr(|| {
            sendmsg(
                self.socket.as_fd(),
                &slices,
                &mut ancillary,
                SendFlags::NOSIGNAL,
            )
        })?;
        Ok(())
    }
}

/// Reason why there is no worker when the process that forks them has gone.
const ENDED: &str = "Python has ended before it had a worker; see the log for what it printed";

/// Returns the value of `PYTHONPATH` with a folder in front.
fn path(folder: &Path) -> std::ffi::OsString {
    let before = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned())
        .chain(std::env::split_paths(&before).filter(|it| !it.as_os_str().is_empty()));
    std::env::join_paths(folders).unwrap_or_else(|_| folder.into())
}

/// Waits for workers that come to their end, ends all others, and waits until they have gone, all within a limit.
pub(in crate::python) fn stop(limit: Duration) {
    let places = std::mem::take(&mut *ZYGOTES.lock());
    let end = Instant::now() + limit;
    let own = Instant::now() + limit.min(OWN_END);
    // One that is about to start ends with this process.
    let known = places
        .values()
        .map(|place| place.try_lock_until(own)?.clone());
    let zygotes: Vec<Arc<Zygote>> = known.flatten().collect();
    for zygote in &zygotes {
        let left = own.saturating_duration_since(Instant::now());
        let mut state = zygote.state.lock();
        let has_workers = |state: &mut State| !state.has_ended && !state.exits.is_empty();
        zygote.end.wait_while_for(&mut state, has_workers, left);
    }
    for zygote in &zygotes {
        zygote.shut();
    }
    for zygote in &zygotes {
        let left = end.saturating_duration_since(Instant::now());
        let mut state = zygote.state.lock();
        zygote
            .end
            .wait_while_for(&mut state, |state| !state.has_ended, left);
    }
    output::settle(end.saturating_duration_since(Instant::now()));
}
