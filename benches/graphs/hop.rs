//! A message to another process and back over a pair of sockets, which no call of a worker can be without.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};

use ovms::task::Task;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::OwnedWriteHalf,
    sync::oneshot,
};

use super::python::python;

/// Size of a message in bytes, about that of a small call.
const SIZE: usize = 128;

/// Program of the other process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beyond {
    /// This program.
    Native,
    /// An interpreter of Python without anything of ours.
    Python,
}

/// Another process that returns what it gets; ends on drop.
pub(super) struct Hop {
    socket: UnixStream,
    child: Child,
}

impl Hop {
    pub(super) fn start() -> Self {
        let (socket, child) = start(Beyond::Native);
        Self { socket, child }
    }

    /// Sends messages one after the other; returns the median time until one is back, in microseconds.
    pub(super) fn p50_us(&mut self, count: usize) -> f64 {
        let mut message = [7; SIZE];
        let mut took: Vec<_> = (0..count)
            .map(|_| {
                let begun = Instant::now();
                self.socket.write_all(&message).expect("it reads");
                self.socket.read_exact(&mut message).expect("it answers");
                begun.elapsed()
            })
            .collect();
        took.sort();
        took[took.len() / 2].as_secs_f64() * 1e6
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(beyond: Beyond) -> (UnixStream, Child) {
    let (socket, other) = UnixStream::pair().expect("a pair of sockets");
    let mut command = match beyond {
        Beyond::Native => {
            let own = std::env::current_exe().expect("a program has a path");
            let mut command = Command::new(own);
            command.args(["--inner", "hop"]);
            command
        }
        Beyond::Python => {
            let mut command = python();
            command.args(["-c", &program()]);
            command
        }
    };
    let child = command
        .stdin(OwnedFd::from(other))
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts again");
    (socket, child)
}

/// Returns a program for Python that does the same as [`answer`], by way of a method of an object as handlers have.
fn program() -> String {
    format!(
        "import socket\nclass Handler:\n    def execute(self, inputs):\n        return [bytes(inputs[0])]\n\
         handler = Handler()\nend = socket.socket(fileno=0)\n\
         while message := end.recv({SIZE}, socket.MSG_WAITALL):\n    end.sendall(handler.execute([memoryview(message)])[0])\n"
    )
}

/// Another process that returns the messages of many requests in their order; it ends when its socket does.
pub(crate) struct SharedHop {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    waiting: Arc<Mutex<VecDeque<oneshot::Sender<()>>>>,
}

impl SharedHop {
    /// Starts it, within a runtime.
    pub(crate) fn start(beyond: Beyond) -> Self {
        let (socket, _child) = start(beyond);
        socket.set_nonblocking(true).expect("it is a socket");
        let socket = tokio::net::UnixStream::from_std(socket).expect("it is a socket");
        let (mut reader, writer) = socket.into_split();
        let waiting: Arc<Mutex<VecDeque<oneshot::Sender<()>>>> = Arc::default();
        let answered = Arc::clone(&waiting);
        let read = async move {
            let mut message = [0; SIZE];
            while reader.read_exact(&mut message).await.is_ok() {
                let first = answered.lock().expect("nobody panics").pop_front();
                // A client that has left does not wait for it.
                let _ = first.expect("one waits").send(());
            }
        };
        Task::spawn(read).detach();
        Self {
            writer: writer.into(),
            waiting,
        }
    }

    /// Sends a message and waits until it is back.
    pub(crate) async fn pass(&self) {
        let (back, came) = oneshot::channel();
        {
            let mut writer = self.writer.lock().await;
            self.waiting.lock().expect("nobody panics").push_back(back);
            writer.write_all(&[7; SIZE]).await.expect("it reads");
        }
        came.await.expect("it answers");
    }
}

/// Returns each message of its standard input, which is a socket.
pub(crate) fn answer() {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let mut socket = UnixStream::from(stdin.expect("there is standard input"));
    let mut message = [0; SIZE];
    while socket.read_exact(&mut message).is_ok() {
        socket.write_all(&message).expect("the other side reads");
    }
}
