//! Log file: its lines, and what is said of those that a full disk does not take.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use ovms::whole_lines::put;
use parking_lot::Mutex;

use super::ui;

/// Least time between two warnings of the same kind.
const PAUSE: Duration = Duration::from_secs(60);

/// Log file, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile(Option<LogWriter>);

impl LogFile {
    /// Opens a file, behind whose end lines are written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = append(path)?;
        Ok(Self(Some(LogWriter {
            file: Arc::new(ArcSwap::from_pointee(file)),
            path: path.into(),
            losses: Arc::default(),
        })))
    }

    /// Returns what writes its lines.
    pub(super) fn writer(&self) -> Option<LogWriter> {
        self.0.clone()
    }

    /// Returns whether there is a file.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Reopens the file, for log rotation.
    pub(crate) fn reopen(&self) {
        let Some(LogWriter { file, path, .. }) = &self.0 else {
            return;
        };
        match append(path) {
            Ok(opened) => file.store(Arc::new(opened)),
            Err(error) => tracing::error!("cannot open {} again: {error}", path.display()),
        }
    }
}

/// Opens a file for lines behind its end.
pub(super) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Writer that receives whole lines. One that cannot be written is counted, and stderr says so.
#[derive(Debug, Clone)]
pub(super) struct LogWriter {
    file: Arc<ArcSwap<File>>,
    path: Arc<Path>,
    losses: Arc<LineLosses>,
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let file = self.file.load();
        let report = self.losses.write(&**file, line, Instant::now());
        let path = self.path.display();
        match report {
            None => {}
            Some(LossReport::Losing(error)) => ui::warn(&format!(
                "warning: cannot write to the log file {path}: {error}; its lines are lost, those \
                 on stdout are not"
            )),
            Some(LossReport::Lost(lost)) => ui::warn(&format!(
                "warning: the log file {path} is written again; {} lost",
                match lost {
                    1 => "1 line was".to_owned(),
                    lost => format!("{lost} lines were"),
                }
            )),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that were lost, and when that was said.
#[derive(Debug, Default)]
struct LineLosses {
    /// Indicates losses that were not reported yet; without it, lines do not wait for each other.
    is_losing: AtomicBool,
    state: Mutex<LossState>,
}

#[derive(Debug, Default)]
struct LossState {
    /// Number of lines that were lost since the number was last said.
    lost: usize,
    /// Indicates that the file ends within a line.
    is_torn: bool,
    /// Moments of the last warnings.
    losing_said: Option<Instant>,
    lost_said: Option<Instant>,
}

/// News about losses.
#[derive(Debug)]
enum LossReport {
    /// A line was lost.
    Losing(io::Error),
    /// Lines are written again, after a number was lost.
    Lost(usize),
}

impl LineLosses {
    fn write(&self, file: impl Write, line: &[u8], now: Instant) -> Option<LossReport> {
        if !self.is_losing.load(Ordering::Relaxed) {
            let (written, error) = put(file, line).err()?;
            return self.state.lock().lose(written, line, error, now, self);
        }
        let mut state = self.state.lock();
        // The rest of a line that was cut ends here.
        let line = match state.is_torn {
            true => [b"\n", line].concat(),
            false => line.to_vec(),
        };
        if let Err((written, error)) = put(file, &line) {
            return state.lose(written, &line, error, now, self);
        }
        state.is_torn = false;
        if !is_due(state.lost_said, now) {
            return None;
        }
        self.is_losing.store(false, Ordering::Relaxed);
        state.lost_said = Some(now);
        Some(LossReport::Lost(std::mem::take(&mut state.lost)))
    }
}

impl LossState {
    fn lose(
        &mut self,
        written: usize,
        line: &[u8],
        error: io::Error,
        now: Instant,
        losses: &LineLosses,
    ) -> Option<LossReport> {
        losses.is_losing.store(true, Ordering::Relaxed);
        self.lost += 1;
        if let Some(last) = written.checked_sub(1) {
            self.is_torn = line[last] != b'\n';
        }
        if !is_due(self.losing_said, now) {
            return None;
        }
        self.losing_said = Some(now);
        Some(LossReport::Losing(error))
    }
}

fn is_due(said: Option<Instant>, now: Instant) -> bool {
    said.is_none_or(|said| now.saturating_duration_since(said) >= PAUSE)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        time::{Duration, Instant},
    };

    use super::{LineLosses, LossReport, PAUSE};

    /// Disk with room for some bytes.
    struct Disk {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= length;
            self.text.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(report: Option<LossReport>) -> String {
        match report {
            None => String::new(),
            Some(LossReport::Losing(error)) => error.to_string(),
            Some(LossReport::Lost(lost)) => format!("{lost} lost"),
        }
    }

    #[test]
    fn losses_are_said_once_and_counted() {
        let (losses, start) = (LineLosses::default(), Instant::now());
        let mut disk = Disk {
            room: 9,
            text: Vec::new(),
        };
        let mut write = |room: usize, line: &str, seconds| {
            disk.room += room;
            let now = start + Duration::from_secs(seconds);
            said(losses.write(&mut disk, line.as_bytes(), now))
        };
        assert_eq!(write(0, "one\n", 0), "");
        // The second one has room for five of its bytes.
        assert_eq!(write(0, "second\n", 1), "no storage space");
        assert_eq!(write(0, "third\n", 2), "");
        assert_eq!(write(100, "fourth\n", 3), "2 lost");
        assert_eq!(write(0, "fifth\n", 4), "");
        assert_eq!(
            String::from_utf8(disk.text).unwrap(),
            "one\nsecon\nfourth\nfifth\n"
        );
    }

    #[test]
    fn a_disk_that_is_full_again_and_again_is_reported_once_in_a_while() {
        let (losses, start) = (LineLosses::default(), Instant::now());
        let mut disk = Disk {
            room: 0,
            text: Vec::new(),
        };
        let mut reports = Vec::new();
        for round in 0..10 {
            let now = start + Duration::from_secs(round);
            disk.room = 0;
            reports.push(said(losses.write(&mut disk, b"a\n", now)));
            disk.room = 2;
            reports.push(said(losses.write(&mut disk, b"b\n", now)));
        }
        reports.retain(|report| !report.is_empty());
        assert_eq!(reports, ["no storage space", "1 lost"]);
        // What was not said is said later.
        disk.room = 2;
        let later = losses.write(&mut disk, b"c\n", start + PAUSE);
        assert_eq!(said(later), "9 lost");
    }
}
