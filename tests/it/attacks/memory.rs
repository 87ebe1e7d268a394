//! The memory that a server takes while it is attacked.

use std::fs;

use crate::support::Server;

/// The budget of a server under attack.
pub(super) const BUDGET: usize = 64 << 20;

/// The flag for it.
pub(super) const WITH_BUDGET: &str = "--max_bytes_in_flight=67108864";

/// The growth of a server's resident memory, at its highest, since this was made.
pub(super) struct Growth<'a> {
    server: &'a Server,
    before: usize,
}

impl<'a> Growth<'a> {
    /// Begins to watch.
    pub(super) fn of(server: &'a Server) -> Self {
        // Makes the highest so far what it is now (proc(5)).
        fs::write(path(server, "clear_refs"), "5").expect("the process is ours");
        Self {
            server,
            before: field(server, "VmRSS:"),
        }
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> usize {
        field(self.server, "VmHWM:").saturating_sub(self.before)
    }

    /// Sees to it that it was the budget and a quarter at most.
    pub(super) fn check(&self) {
        self.check_for(BUDGET);
    }

    /// Does so for another budget.
    pub(super) fn check_for(&self, budget: usize) {
        let bytes = self.bytes();
        let limit = budget + budget / 4;
        assert!(
            bytes <= limit,
            "found {} MiB more, expected {} at most",
            bytes >> 20,
            limit >> 20
        );
    }
}

/// Reads a field of a server's status, in bytes.
pub(super) fn field(server: &Server, name: &str) -> usize {
    let status = fs::read_to_string(path(server, "status")).expect("the process is there");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("Linux tells it");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<usize>();
    kibibytes.expect("a number") << 10
}

fn path(server: &Server, name: &str) -> String {
    format!("/proc/{}/{name}", server.id())
}
