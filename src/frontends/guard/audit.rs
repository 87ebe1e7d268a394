//! The audit log: a line of JSON for each request that manages the server.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsFd as _, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use prost_types::Timestamp;
use serde::{Serialize, Serializer};
use tonic::Code;

use crate::{
    auth::Identity,
    frontends::access::{Peer, Protocol},
    task::{self, Task},
    text::cut_bytes,
    whole_lines::put,
};

/// The longest name in a line, in bytes.
const MAX_NAME_LEN: usize = 1024;

/// The audit log, to whose end lines are added.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<AuditFile>);

/// Destination of the lines.
#[derive(Debug)]
enum AuditPlace {
    /// A file, which is opened for each line, so that it can be moved away.
    Path(PathBuf),
    /// Stdout as the process has it. By its path a socket, as of a service, and a pipe of another user cannot be opened,
    /// and a file would have an end of its own, which the log on stdout writes over.
    Stdout(File),
}

#[derive(Debug)]
struct AuditFile {
    place: AuditPlace,
    /// Indicates that the last write has left a part of a line.
    is_torn: Mutex<bool>,
}

impl AuditLog {
    /// Opens a file, which is created for its owner alone; `-` is stdout.
    ///
    /// # Errors
    ///
    /// Fails if nothing can be added to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let place = match path == Path::new("-") {
            true => AuditPlace::Stdout(io::stdout().as_fd().try_clone_to_owned()?.into()),
            false => {
                append(path)?;
                AuditPlace::Path(path.to_owned())
            }
        };
        Ok(Self(Arc::new(AuditFile {
            place,
            is_torn: Mutex::new(false),
        })))
    }

    /// Writes a line.
    async fn write(self, trail: Arc<Trail>, outcome: Outcome) {
        let Self(file) = self;
        task::blocking("audit log", move || {
            let line = serde_json::to_vec(&trail.line(outcome)).unwrap_or_default();
            if let Err(error) = file.add(&line) {
                let line = String::from_utf8_lossy(&line);
                tracing::error!("cannot write the audit log: {error}: {line}");
            }
        })
        .await;
    }
}

impl AuditFile {
    fn add(&self, line: &[u8]) -> io::Result<()> {
        let mut is_torn = self.is_torn.lock();
        let opened;
        let file = match &self.place {
            AuditPlace::Path(path) => {
                opened = append(path)?;
                &opened
            }
            AuditPlace::Stdout(file) => file,
        };
        // What a full disk has cut ends here, unless the file is another one by now.
        let end: &[u8] = match *is_torn && file.metadata()?.len() > 0 {
            true => b"\n",
            false => b"",
        };
        // In one write, so that lines of several servers stay whole.
        let whole = [end, line, b"\n"].concat();
        match put(file, &whole) {
            Ok(()) => {
                *is_torn = false;
                Ok(())
            }
            Err((written, error)) => {
                if let Some(last) = written.checked_sub(1) {
                    *is_torn = whole[last] != b'\n';
                }
                Err(error)
            }
        }
    }
}

/// Line of a request that is in progress. One that is dropped says that nobody has waited for the answer, or that
/// the request was refused.
pub(in crate::frontends) struct Recording {
    audit: AuditLog,
    trail: Arc<Trail>,
    /// Outcome if nobody waits for the answer.
    unanswered: Outcome,
    is_over: bool,
}

impl Recording {
    pub(super) fn new(audit: &AuditLog, trail: Arc<Trail>) -> Self {
        Self {
            audit: audit.clone(),
            unanswered: Outcome::abandoned(trail.protocol),
            trail,
            is_over: false,
        }
    }

    /// Sets the outcome of a request that is refused, whether anybody waits for the answer or not.
    pub(super) fn refused(mut self, outcome: Outcome) -> Self {
        self.unanswered = outcome;
        self
    }

    /// Writes the line of a request that is refused.
    pub(super) async fn end_refused(self) {
        let outcome = self.unanswered;
        self.end(outcome).await;
    }

    /// Writes the line; a request is answered after that.
    pub(in crate::frontends) async fn end(mut self, outcome: Outcome) {
        self.is_over = true;
        self.audit
            .clone()
            .write(Arc::clone(&self.trail), outcome)
            .await;
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.is_over {
            let written = (self.audit.clone()).write(Arc::clone(&self.trail), self.unanswered);
            Task::spawn(written).detach();
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

/// Result of a request, with its HTTP status or gRPC code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::frontends) struct Outcome {
    result: AuditResult,
    status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum AuditResult {
    Done,
    /// The sender lacks the right.
    Denied,
    /// The sender has sent too much.
    Limited,
    Failed,
    /// The sender has left before the answer; what was asked for may be done.
    Abandoned,
}

impl Outcome {
    /// Returns that of an answer over HTTP.
    pub(super) fn of_response(status: StatusCode) -> Self {
        Self {
            result: match status.is_success() {
                true => AuditResult::Done,
                false => AuditResult::Failed,
            },
            status: status.as_u16(),
        }
    }

    /// Returns that of a call, whose code is in the head unless it is good.
    pub(in crate::frontends) fn of_call(headers: &HeaderMap) -> Self {
        let code = headers.get("grpc-status").and_then(|it| it.to_str().ok());
        let status = code.and_then(|code| code.parse().ok()).unwrap_or(0);
        Self {
            result: match status {
                0 => AuditResult::Done,
                _ => AuditResult::Failed,
            },
            status,
        }
    }

    pub(in crate::frontends) const fn denied(protocol: Protocol) -> Self {
        Self {
            result: AuditResult::Denied,
            status: match protocol {
                Protocol::Http => 403,
                Protocol::Grpc => Code::PermissionDenied as u16,
            },
        }
    }

    pub(super) const fn limited(protocol: Protocol) -> Self {
        Self {
            result: AuditResult::Limited,
            status: match protocol {
                Protocol::Http => 429,
                Protocol::Grpc => Code::ResourceExhausted as u16,
            },
        }
    }

    fn abandoned(protocol: Protocol) -> Self {
        Self {
            result: AuditResult::Abandoned,
            status: protocol.unanswered(),
        }
    }
}

/// Facts about a request that manages the server, collected on its way.
#[derive(Debug)]
pub(crate) struct Trail {
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) peer: Peer,
    pub(super) protocol: Protocol,
    /// Method of gRPC, or method and path of HTTP.
    pub(super) action: String,
    target: OnceLock<String>,
}

impl Trail {
    pub(super) fn new(
        identity: Option<Arc<Identity>>,
        peer: Peer,
        protocol: Protocol,
        action: &str,
    ) -> Self {
        Self {
            identity,
            peer,
            protocol,
            action: cut_bytes(action, MAX_NAME_LEN),
            target: OnceLock::new(),
        }
    }

    pub(super) fn about(&self, target: &str) {
        let _ = self.target.set(cut_bytes(target, MAX_NAME_LEN));
    }

    fn line(&self, outcome: Outcome) -> Line<'_> {
        let identity = self.identity.as_deref();
        Line {
            timestamp: SystemTime::now().into(),
            identity: identity.map(Identity::name),
            subject: identity.and_then(Identity::subject),
            peer: self.peer,
            protocol: self.protocol.to_string(),
            action: &self.action,
            target: self.target.get().map(String::as_str),
            result: outcome.result,
            status: outcome.status,
        }
    }
}

/// A line, in the order of its members.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "shown")]
    timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    peer: Peer,
    protocol: String,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    result: AuditResult,
    status: u16,
}

fn shown<S: Serializer>(value: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::{Read as _, Write as _},
        net::{Ipv4Addr, SocketAddr},
        os::{fd::OwnedFd, unix::net::UnixStream},
        sync::Arc,
        time::Duration,
    };

    use parking_lot::Mutex;

    use super::{AuditFile, AuditLog, AuditPlace, Outcome, Peer, Protocol, Recording, Trail};

    #[tokio::test]
    async fn a_refusal_that_nobody_waits_for_is_one_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let audit = AuditLog::open(&path).unwrap();
        let peer = Peer::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000)));
        let recording = || {
            let trail = Trail::new(None, peer, Protocol::Http, "POST /v1/config/reload");
            Recording::new(&audit, Arc::new(trail))
        };
        for (recording, expected) in [
            (
                recording().refused(Outcome::denied(Protocol::Http)),
                r#""result":"denied","status":403"#,
            ),
            (recording(), r#""result":"abandoned","status":499"#),
        ] {
            drop(recording);
            let written = async {
                while !fs::read_to_string(&path).unwrap().contains(expected) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let written = tokio::time::timeout(Duration::from_secs(60), written).await;
            assert!(written.is_ok(), "{expected}");
        }
    }

    #[test]
    fn a_line_behind_one_that_was_cut_begins_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let file = AuditFile {
            place: AuditPlace::Path(path.clone()),
            is_torn: Mutex::new(false),
        };
        file.add(b"{1}").unwrap();
        fs::write(&path, "{1}\n{2").unwrap();
        *file.is_torn.lock() = true;
        file.add(b"{3}").unwrap();
        file.add(b"{4}").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{1}\n{2\n{3}\n{4}\n");
        // Another file has no part of a line.
        fs::remove_file(&path).unwrap();
        *file.is_torn.lock() = true;
        file.add(b"{5}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{5}\n");
    }

    #[test]
    fn lines_on_stdout_go_on_behind_those_of_the_log() {
        let on = |file: File| AuditFile {
            place: AuditPlace::Stdout(file),
            is_torn: Mutex::new(false),
        };
        // As with `> FILE`.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = File::create(&path).unwrap();
        let audit = on(out.try_clone().unwrap());
        out.write_all(b"1\n").unwrap();
        audit.add(b"{2}").unwrap();
        out.write_all(b"3\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n{2}\n3\n");
        // As of a service.
        let (mut journal, out) = UnixStream::pair().unwrap();
        let audit = on(OwnedFd::from(out).into());
        audit.add(b"{1}").unwrap();
        drop(audit);
        let mut text = String::new();
        journal.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{1}\n");
    }
}
