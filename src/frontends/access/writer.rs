//! The thread that writes.

use std::{
    io::{self, BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use super::{Open, line::Record};
use crate::{config::LogFormat, task};

/// Records that may wait to be written.
const WAITING: usize = 8192;

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
            out: BufWriter::new(open()?),
            open,
            lost: Arc::clone(&lost),
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
    out: BufWriter<Box<dyn Write + Send>>,
    open: Open,
    lost: Arc<AtomicU64>,
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
                    if self.out.write_all(line.as_bytes()).is_err() {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
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
            Ok(out) => self.out = BufWriter::new(out),
            Err(error) => tracing::error!("cannot open the access log again: {error}"),
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            // What cannot be written is not kept: a full disk must not become full memory.
            let sink: Box<dyn Write + Send> = Box::new(io::sink());
            let (out, _) = std::mem::replace(&mut self.out, BufWriter::new(sink)).into_parts();
            self.out = BufWriter::new(out);
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::debug!("cannot write the access log: {error}");
        }
    }

    /// Says how many lines were lost, now and then.
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
        tracing::warn!(
            lost,
            "the access log cannot be written, or not fast enough; lines were lost"
        );
    }
}
