//! A message to another process and back over a pair of sockets, which no call of a worker can be without.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    time::Instant,
};

/// Size of a message in bytes, about that of a small call.
const SIZE: usize = 128;

/// Another process that returns what it gets; ends on drop.
pub(super) struct Hop {
    socket: UnixStream,
    child: Child,
}

impl Hop {
    pub(super) fn start() -> Self {
        let (socket, other) = UnixStream::pair().expect("a pair of sockets");
        let child = Command::new(std::env::current_exe().expect("a program has a path"))
            .args(["--inner", "hop"])
            .stdin(OwnedFd::from(other))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts again");
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

/// Returns each message of its standard input, which is a socket.
pub(crate) fn answer() {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let mut socket = UnixStream::from(stdin.expect("there is standard input"));
    let mut message = [0; SIZE];
    while socket.read_exact(&mut message).is_ok() {
        socket.write_all(&message).expect("the other side reads");
    }
}
