//! The thread that writes.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use prost_types::Timestamp;
use serde::{Serialize, Serializer};

use super::{Open, Peer, Protocol};
use crate::{config::LogFormat, task, whole_lines::put};

/// Records that may wait to be written.
const WAITING: usize = 8192;

/// Bytes of lines that are written together.
const BLOCK: usize = 8 << 10;

/// The shortest time between two words about lines that were lost.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(1);

enum Message {
    Write(Box<Record>),
    Reopen,
    /// Answered when all before it is written.
    Flush(SyncSender<()>),
}

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(format: LogFormat, mut open: Open) -> io::Result<Self> {
        let (queue, messages) = sync_channel(WAITING);
        let lost = Arc::<AtomicU64>::default();
        let mut lines = Lines {
            format,
            out: open()?,
            gathered: Vec::with_capacity(BLOCK),
            is_torn: false,
            open,
            lost: Arc::clone(&lost),
            cause: None,
            warned: None,
        };
        task::thread("access log", move || lines.run(&messages))?;
        Ok(Self { queue, lost })
    }

    /// Hands a record over, or counts it as lost.
    pub(super) fn write(&self, record: Record) {
        if self
            .queue
            .try_send(Message::Write(Box::new(record)))
            .is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks for the place to be opened again. A queue that is full is asked once more at the next
    /// signal.
    pub(super) fn reopen(&self) {
        if self.queue.try_send(Message::Reopen).is_err() {
            tracing::warn!("the access log is not opened again: too many lines wait to be written");
        }
    }

    /// Waits until all so far is written.
    pub(super) fn flush(&self, limit: Duration) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(limit);
        }
    }
}

struct Lines {
    format: LogFormat,
    out: Box<dyn Write + Send>,
    /// Whole lines that are still to be written.
    gathered: Vec<u8>,
    /// Indicates that the last write ended within a line.
    is_torn: bool,
    open: Open,
    lost: Arc<AtomicU64>,
    /// Error that lines were lost by last; `None` if more came than the queue takes.
    cause: Option<io::Error>,
    warned: Option<Instant>,
}

impl Lines {
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let message = match messages.try_recv() {
                Ok(message) => Some(message),
                Err(_) => {
                    // Nothing else to do: what is there can be read by others.
                    self.flush();
                    match messages.recv_timeout(BETWEEN_WARNINGS) {
                        Ok(message) => Some(message),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            };
            match message {
                Some(Message::Write(record)) => {
                    let line = record.line(self.format);
                    if self.gathered.len() + line.len() > BLOCK {
                        self.flush();
                    }
                    self.gathered.extend_from_slice(line.as_bytes());
                }
                Some(Message::Reopen) => self.reopen(),
                Some(Message::Flush(done)) => {
                    self.flush();
                    let _ = done.try_send(());
                }
                None => {}
            }
            self.warn();
        }
    }

    fn reopen(&mut self) {
        self.flush();
        match (self.open)() {
            Ok(out) => self.out = out,
            Err(error) => tracing::error!("cannot open the access log again: {error}"),
        }
    }

    /// Writes the lines that are there. Those that cannot be written are not kept: a full disk must not become full
    /// memory. What it has cut of a line is ended before the next one.
    fn flush(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let end = usize::from(self.is_torn);
        if self.is_torn {
            self.gathered.insert(0, b'\n');
        }
        match put(&mut self.out, &self.gathered) {
            Ok(()) => self.is_torn = false,
            Err((written, error)) => {
                if let Some(last) = written.checked_sub(1) {
                    self.is_torn = self.gathered[last] != b'\n';
                }
                let lost = &self.gathered[written.max(end)..];
                let lost = lost.iter().filter(|byte| **byte == b'\n').count();
                self.lost.fetch_add(lost as u64, Ordering::Relaxed);
                self.cause = Some(error);
            }
        }
        self.gathered.clear();
        if let Err(error) = self.out.flush() {
            tracing::debug!("cannot write the access log: {error}");
        }
    }

    /// Warns of lost lines, with their number, now and then.
    fn warn(&mut self) {
        if self.lost.load(Ordering::Relaxed) == 0
            || self
                .warned
                .is_some_and(|warned| warned.elapsed() < BETWEEN_WARNINGS)
        {
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        self.warned = Some(Instant::now());
        match self.cause.take() {
            Some(error) => tracing::warn!(
                lost,
                "the access log cannot be written: {error}; lines were lost"
            ),
            None => tracing::warn!(
                lost,
                "lines come faster than the access log is written; some were lost"
            ),
        }
    }
}

/// The longest path or name in a line, in bytes.
pub(super) const MAX_TEXT_LEN: usize = 1024;

/// The longest method in a line, in bytes; those of HTTP have seven at most, and clients may send any word.
pub(super) const MAX_METHOD_LEN: usize = 32;

/// Facts about a finished request, which are also its line as JSON.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Record {
    #[serde(serialize_with = "shown")]
    pub(super) timestamp: Timestamp,
    pub(super) peer: Peer,
    #[serde(serialize_with = "shown")]
    pub(super) protocol: Protocol,
    pub(super) method: String,
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<i64>,
    /// The HTTP status or the gRPC code.
    pub(super) status: u16,
    /// Bytes of the request's body as sent.
    pub(super) bytes_in: u64,
    /// Bytes of the answer's body.
    pub(super) bytes_out: u64,
    pub(super) duration_us: u128,
    /// Id of the trace, if the request is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
}

fn shown<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Record {
    /// Writes the line with its end.
    pub(super) fn line(&self, format: LogFormat) -> String {
        let mut line = match format {
            LogFormat::Json => serde_json::to_string(self).unwrap_or_default(),
            LogFormat::Text => {
                let path = printable(&self.path);
                let mut line = format!(
                    "{} {} {} {} {path} status={}",
                    self.timestamp, self.peer, self.protocol, self.method, self.status
                );
                if let Some(identity) = &self.identity {
                    let _ = write!(line, " identity={}", quoted(identity));
                }
                if let Some(model) = &self.model {
                    let _ = write!(line, " model={}", quoted(model));
                }
                if let Some(version) = self.version {
                    let _ = write!(line, " version={version}");
                }
                let _ = write!(
                    line,
                    " bytes_in={} bytes_out={} duration_us={}",
                    self.bytes_in, self.bytes_out, self.duration_us
                );
                if let Some(trace) = &self.trace_id {
                    let _ = write!(line, " trace_id={trace}");
                }
                line
            }
        };
        line.push('\n');
        line
    }
}

/// Escapes what would steer a terminal, or may end a line.
fn printable(path: &str) -> Cow<'_, str> {
    if path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return path.into();
    }
    let mut shown = String::with_capacity(path.len());
    for c in path.chars() {
        match c.is_ascii_graphic() {
            true => shown.push(c),
            false => shown.extend(c.escape_debug()),
        }
    }
    shown.into()
}

/// Puts a name in quotes that would otherwise look like more than one word, or end the line.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:+@".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, atomic::Ordering},
        time::{Duration, SystemTime},
    };

    use parking_lot::Mutex;

    use super::{Lines, Peer, Protocol, Record};
    use crate::config::LogFormat;

    /// Disk with room for some bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, text) = &mut *self.0.lock();
            let length = bytes.len().min(*room);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= length;
            text.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Writes texts as lines, each lot of them to a disk with room for so many bytes more.
    fn written(lots: &[(usize, &str)]) -> (String, u64) {
        let disk = Disk::default();
        let opened = disk.clone();
        let mut lines = Lines {
            format: LogFormat::Text,
            out: Box::new(disk.clone()),
            gathered: Vec::new(),
            is_torn: false,
            open: Box::new(move || Ok(Box::new(opened.clone()))),
            lost: Arc::default(),
            cause: None,
            warned: None,
        };
        for (room, lot) in lots {
            disk.0.lock().0 += room;
            if lot.is_empty() {
                lines.reopen();
            }
            for word in lot.split_whitespace() {
                lines.gathered.extend_from_slice(word.as_bytes());
                lines.gathered.push(b'\n');
            }
            lines.flush();
        }
        let text = String::from_utf8(disk.0.lock().1.clone()).unwrap();
        (text, lines.lost.load(Ordering::Relaxed))
    }

    #[test]
    fn a_line_that_a_full_disk_has_cut_is_lost_and_ends_before_the_next() {
        let lots = [
            (9, "one second third"),
            (0, "fourth"),
            (1, "fifth"),
            (100, "sixth"),
        ];
        assert_eq!(written(&lots), ("one\nsecon\nsixth\n".to_owned(), 4));
        // One that ends where a line does.
        let lots = [(4, "one second"), (100, "third")];
        assert_eq!(written(&lots), ("one\nthird\n".to_owned(), 1));
    }

    #[test]
    fn a_cut_line_is_ended_where_the_log_is_opened_again() {
        let lots = [(9, "one second"), (0, ""), (100, "third")];
        assert_eq!(written(&lots), ("one\nsecon\nthird\n".to_owned(), 1));
    }

    fn record() -> Record {
        Record {
            timestamp: (SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456))
                .into(),
            peer: Peer::Address("127.0.0.1:50000".parse().unwrap()),
            protocol: Protocol::Http,
            method: "POST".to_owned(),
            path: "/v2/models/m/infer".to_owned(),
            identity: Some("team a".to_owned()),
            model: Some("m".to_owned()),
            version: Some(3),
            status: 200,
            bytes_in: 12,
            bytes_out: 34,
            duration_us: 567,
            trace_id: None,
        }
    }

    #[test]
    fn a_line_says_all_that_is_known() {
        let mut lines = record().line(LogFormat::Text);
        lines.push_str(&record().line(LogFormat::Json));
        let unknown = Record {
            protocol: Protocol::Grpc,
            identity: None,
            model: None,
            version: None,
            status: 1,
            ..record()
        };
        lines.push_str(&unknown.line(LogFormat::Text));
        lines.push_str(&unknown.line(LogFormat::Json));
        insta::assert_snapshot!(lines, @r#"
        2023-11-14T22:13:20.123456Z 127.0.0.1:50000 HTTP POST /v2/models/m/infer status=200 identity="team a" model=m version=3 bytes_in=12 bytes_out=34 duration_us=567
        {"timestamp":"2023-11-14T22:13:20.123456Z","peer":"127.0.0.1:50000","protocol":"HTTP","method":"POST","path":"/v2/models/m/infer","identity":"team a","model":"m","version":3,"status":200,"bytes_in":12,"bytes_out":34,"duration_us":567}
        2023-11-14T22:13:20.123456Z 127.0.0.1:50000 gRPC POST /v2/models/m/infer status=1 bytes_in=12 bytes_out=34 duration_us=567
        {"timestamp":"2023-11-14T22:13:20.123456Z","peer":"127.0.0.1:50000","protocol":"gRPC","method":"POST","path":"/v2/models/m/infer","status":1,"bytes_in":12,"bytes_out":34,"duration_us":567}
        "#);
    }

    #[test]
    fn a_request_that_is_traced_has_its_trace() {
        let traced = Record {
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            ..record()
        };
        let text = traced.line(LogFormat::Text);
        let trace = " duration_us=567 trace_id=0af7651916cd43dd8448eb211c80319c\n";
        assert!(text.ends_with(trace), "{text}");
        let json = traced.line(LogFormat::Json);
        let trace = ",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\"}\n";
        assert!(json.ends_with(trace), "{json}");
    }

    #[test]
    fn a_path_cannot_end_a_line_or_steer_a_terminal() {
        let forged = Record {
            path: "/a\u{85}b\u{2028}c\u{2029}d\u{9b}2J\u{7f}/ü\"".to_owned(),
            ..record()
        };
        let text = forged.line(LogFormat::Text);
        let path = r#" POST /a\u{85}b\u{2028}c\u{2029}d\u{9b}2J\u{7f}/ü" status"#;
        assert!(text.contains(path), "{text}");
    }

    #[test]
    fn a_name_cannot_look_like_another_line() {
        let forged = Record {
            model: Some("m\n2026 \"x\"".to_owned()),
            ..record()
        };
        let text = forged.line(LogFormat::Text);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#" model="m\n2026 \"x\"" "#), "{text}");
        assert_eq!(forged.line(LogFormat::Json).lines().count(), 1);
    }
}
