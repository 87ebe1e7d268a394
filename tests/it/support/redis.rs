//! Redis servers of tests, and those of Valkey, which take the same flags: on free ports, with a folder of its own.

use std::{
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use redis::FromRedisValue;
use tempfile::TempDir;

use super::{
    eventually, repository,
    server::{end_with_tests, free_ports},
    tools,
};

/// Flags of a server that keeps what it has answered.
pub(crate) const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A running Redis; killed on drop.
pub(crate) struct Redis {
    program: PathBuf,
    flags: Vec<String>,
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
    /// Another port, for whatever the flags say.
    pub(crate) second_port: u16,
    /// Ends a server that is kept.
    guard: Option<Child>,
}

impl Redis {
    /// Starts a server, if the program is there, and waits until it answers; `PORT2` in a flag is its second port.
    pub(crate) fn start(flags: &[&str]) -> Option<Self> {
        Self::of("redis-server", flags)
    }

    /// Starts one of Valkey in the same way.
    pub(crate) fn valkey(flags: &[&str]) -> Option<Self> {
        Self::of("valkey-server", flags)
    }

    fn of(program: &str, flags: &[&str]) -> Option<Self> {
        let program = tools::find(program)?;
        let ((port, second_port), folder) = (free_ports(), repository::folder());
        let second = second_port.to_string();
        let flags: Vec<_> = flags
            .iter()
            .map(|it| it.replace("PORT2", &second))
            .collect();
        let child = launch(&program, port, &folder, &flags);
        let server = Self {
            program,
            flags,
            child,
            folder,
            port,
            second_port,
            guard: None,
        };
        server.wait();
        Some(server)
    }

    /// Keeps a server until this process ends: for a `static` of a module whose tests share it.
    pub(crate) fn kept(mut self) -> Self {
        self.guard = Some(end_with_tests(self.child.id(), self.folder.path()));
        self
    }

    fn wait(&self) {
        eventually("the store listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
        eventually("the store has read its files", || {
            // One that wants a password says so.
            let answer = self.try_ask::<redis::Value>("PING");
            answer
                .map_or_else(|error| error.code() == Some("NOAUTH"), |_| true)
                .then_some(())
        });
    }

    /// Returns the address as a store.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command, whose words have no spaces, and must succeed.
    pub(crate) fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        let answer = self.try_ask(command);
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Sends a command, and returns what comes of it.
    pub(crate) fn try_ask<T: FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        words.for_each(|word| _ = command.arg(word));
        command.query(&mut redis::Client::open(self.url())?.get_connection()?)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Kills it as a crash would.
    pub(crate) fn crash(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Starts it again on the same port and folder, and waits until it answers.
    pub(crate) fn again(&mut self) {
        self.child = launch(&self.program, self.port, &self.folder, &self.flags);
        self.wait();
    }

    /// Moves to another port, which must be free.
    pub(crate) fn move_to(&mut self, port: u16) {
        self.ask::<()>(&format!("CONFIG SET port {port}"));
        self.port = port;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Fails if it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(program: &PathBuf, port: u16, folder: &TempDir, flags: &[String]) -> Child {
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--dir"])
        .arg(folder.path())
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the store starts")
}
