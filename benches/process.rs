//! What the kernel says about a process (Linux, proc(5)).

use std::{fs, time::Duration};

/// Kernel ticks a second; 100 on every Linux that this runs on.
const TICKS: f64 = 100.0;

/// Returns the processor time, user and system, of all threads that there are and were.
pub(crate) fn cpu(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("the process runs");
    // The name, in brackets, may contain spaces; fields 14 and 15 are counted from behind it.
    let fields = stat.rsplit(')').next().expect("one part at least");
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().expect("ticks are numbers"))
        .sum();
    Duration::from_secs_f64(ticks / TICKS)
}

/// Returns the processor time of the threads that there are, to the nanosecond: for spans that are
/// short against a tick, of a process whose threads stay.
pub(crate) fn cpu_of_threads(id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("the process runs");
    let nanoseconds = threads.filter_map(|thread| {
        // A thread may end while this looks.
        let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Returns the resident memory.
pub(crate) fn resident_mb(id: u32) -> f64 {
    status_mb(id, "VmRSS:")
}

/// Returns the most resident memory so far.
pub(crate) fn peak_mb(id: u32) -> f64 {
    status_mb(id, "VmHWM:")
}

fn status_mb(id: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the process runs");
    let kilobytes: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .expect("the field is there");
    kilobytes / 1024.0
}
