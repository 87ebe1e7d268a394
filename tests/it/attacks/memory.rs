//! Memory of a server under attack.

use std::fs;

use crate::support::{Server, server::memory as field};

/// Budget of a server under attack, in bytes.
pub(super) const BUDGET: usize = 64 << 20;

/// Flag for [`BUDGET`].
pub(super) const WITH_BUDGET: &str = "--max_bytes_in_flight=67108864";

/// Growth of a server's peak resident memory since creation.
pub(super) struct Growth<'a> {
    server: &'a Server,
    before: usize,
}

impl<'a> Growth<'a> {
    /// Starts to measure.
    pub(super) fn of(server: &'a Server) -> Self {
        // Makes the highest so far what it is now (proc(5)).
        fs::write(path(server, "clear_refs"), "5").expect("the process is ours");
        Self {
            server,
            before: field(server, "VmRSS:"),
        }
    }

    /// Returns the growth in bytes.
    pub(super) fn bytes(&self) -> usize {
        field(self.server, "VmHWM:").saturating_sub(self.before)
    }

    /// Asserts that the growth was at most the budget and a quarter.
    pub(super) fn check(&self) {
        self.check_for(BUDGET);
    }

    /// Asserts the same for another budget.
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

fn path(server: &Server, name: &str) -> String {
    format!("/proc/{}/{name}", server.id())
}
