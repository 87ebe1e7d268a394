//! Emulators of cloud storage: moto for S3 and Azurite for Azure.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{LazyLock, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use super::{server::end_with_tests, thread};

/// A running emulator; killed on drop.
pub(crate) struct Emulator {
    child: Child,
    pub(crate) port: u16,
    readers: Vec<JoinHandle<()>>,
    /// Ends one that is kept.
    guard: Option<Child>,
}

impl Emulator {
    /// Starts an emulator of S3.
    fn s3() -> Self {
        Self::start(&mut moto())
    }

    /// Returns the emulator of S3 for all tests that have buckets of their own there.
    pub(crate) fn shared_s3() -> &'static Self {
        static SHARED: LazyLock<Emulator> = LazyLock::new(|| Emulator::s3().kept());
        &SHARED
    }

    /// Keeps an emulator until this process ends.
    pub(crate) fn kept(mut self) -> Self {
        self.guard = Some(end_with_tests(self.child.id(), Path::new("")));
        self
    }

    /// Starts an emulator of S3 with so many objects on a page of a list, instead of a thousand.
    pub(crate) fn s3_with_pages(objects: usize) -> Self {
        Self::start(moto().env("MOTO_S3_DEFAULT_MAX_KEYS", objects.to_string()))
    }

    /// Starts an emulator of S3 that authenticates clients, after a number of calls that need no
    /// credentials.
    pub(crate) fn s3_with_a_door(open_calls: usize) -> Self {
        Self::start(moto().env("INITIAL_NO_AUTH_ACTION_COUNT", open_calls.to_string()))
    }

    /// Starts an emulator of Azure Blob Storage.
    pub(crate) fn azure() -> Self {
        let program = root().join("target/azurite/azurite");
        Self::start(Command::new(program).args([
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            "0",
            "--inMemoryPersistence",
            "--disableTelemetry",
            "--silent",
        ]))
    }

    /// Starts a program and waits until it reports its address.
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; `make test` installs it"));
        let (found, port) = mpsc::channel();
        let readers = vec![
            read(child.stdout.take().unwrap(), found.clone()),
            read(child.stderr.take().unwrap(), found),
        ];
        let port = port
            .recv_timeout(Duration::from_secs(60))
            .expect("the emulator says where it listens");
        Self {
            child,
            port,
            readers,
            guard: None,
        }
    }

    /// Sends an authenticated S3 request; panics unless it succeeds.
    pub(crate) fn s3_call(&self, method: &str, path: &str, body: &[u8]) -> String {
        let headers = "Authorization: AWS4-HMAC-SHA256 \
                       Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
                       Signature=0\r\n";
        let (status, answer) = http(self.port, method, path, headers, body);
        assert!((200..300).contains(&status), "{status} {answer}");
        answer
    }

    /// Creates a container of Azure, or uploads a file to it.
    pub(crate) fn azure_put(&self, name: &str, body: Option<&[u8]>) {
        let mut command = Command::new(python());
        command
            .arg(root().join("tests/azurite/blobs.py"))
            .args([&self.port.to_string(), name]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        if let Some(body) = body {
            file.write_all(body).unwrap();
            command.arg(file.path());
        }
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Fails if the process has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("WORKSPACE_ROOT"))
}

/// Returns the Python that `make test` installs packages for.
pub(crate) fn python() -> PathBuf {
    root().join(".venv/bin/python")
}

fn moto() -> Command {
    let mut command = Command::new(root().join(".venv/bin/moto_server"));
    command.args(["-H", "127.0.0.1", "-p", "0"]);
    command
}

/// Reads lines to the end and passes on the port of the first URL.
fn read(source: impl Read + Send + 'static, found: mpsc::Sender<u16>) -> JoinHandle<()> {
    thread(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            // Lines of requests have no URLs in them.
            if let Some((_, port)) = line.split_once("http://127.0.0.1:")
                && let Ok(port) = port.trim().parse()
            {
                let _ = found.send(port);
            }
        }
    })
}

/// Sends a request verbatim, which no client library would for some paths; returns status and
/// body.
pub(crate) fn http(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         {headers}Content-Length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}
