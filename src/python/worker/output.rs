//! Output of workers, as events of the log.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::task;

/// Streams that have not ended.
static OPEN: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A stream, until it is dropped.
struct Open;

impl Open {
    fn new() -> Self {
        *OPEN.0.lock() += 1;
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *OPEN.0.lock() -= 1;
        OPEN.1.notify_all();
    }
}

/// Waits until all that workers have printed is logged, once they have ended, but no longer than a limit.
pub(super) fn settle(limit: Duration) {
    OPEN.1
        .wait_while_for(&mut OPEN.0.lock(), |open| *open > 0, limit);
}

/// Maximum size of a line in bytes; a longer one is cut into several.
const MAX_LINE: u64 = 16 << 10;

/// Marks before and behind the name of a node, where a line begins with one.
const BEFORE: char = '\x1e';
const BEHIND: char = '\x1f';

/// Nodes whose code has run in a worker.
#[derive(Default)]
pub(super) struct NodeNames(Mutex<BTreeSet<String>>);

impl NodeNames {
    /// Adds one, before its code runs.
    pub(super) fn add(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    /// Returns the one that there is, unless there are more: whatever is printed comes of its code.
    fn only(&self) -> Option<String> {
        let names = self.0.lock();
        let first = names.first().filter(|_| names.len() == 1);
        first.cloned()
    }
}

/// Logs the lines of a stream of a worker, in which these nodes run, to its end. A log that is slow holds up the worker
/// alone.
///
/// # Errors
///
/// Fails if the system has no thread for it.
pub(super) fn log(
    stream: &'static str,
    of: &str,
    nodes: &Arc<NodeNames>,
    pipe: OwnedFd,
) -> std::io::Result<()> {
    let (of, nodes) = (of.to_owned(), Arc::clone(nodes));
    let open = Open::new();
    task::thread("python output", move || {
        let _open = open;
        let mut pipe = BufReader::new(File::from(pipe));
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match pipe.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches('\n');
            let (node, line) = split(line);
            let node = node.map(str::to_owned).or_else(|| nodes.only());
            tracing::info!(target: "ovms::python", of, node, stream, "{line}");
        }
    })
}

/// Splits the name of the node off a line.
fn split(line: &str) -> (Option<&str>, &str) {
    let named = line
        .strip_prefix(BEFORE)
        .and_then(|line| line.split_once(BEHIND));
    match named {
        Some(("", line)) => (None, line),
        Some((node, line)) => (Some(node), line),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_line_may_begin_with_its_node() {
        assert_eq!(split("\x1en\x1fa line"), (Some("n"), "a line"));
        assert_eq!(split("\x1e\x1fa line"), (None, "a line"));
        assert_eq!(split("by a library"), (None, "by a library"));
        assert_eq!(split("\x1ecut"), (None, "\x1ecut"));
    }
}
