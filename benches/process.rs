//! Kernel statistics of a process (Linux), and programs of others.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Folders of programs that the tests and the comparison of servers have fetched.
const TOOLS: [&str; 2] = ["target/tools/bin", "target/peers/tools/bin"];

/// Finds a program of others: one that was fetched, or of `PATH`.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    TOOLS
        .map(|folder| Path::new(env!("WORKSPACE_ROOT")).join(folder))
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Returns the processor time, user and system, of all threads, running and ended, to the
/// nanosecond: turns are short against a tick of `/proc`, and threads end between two looks.
pub(crate) fn cpu(id: u32) -> Duration {
    let id = libc::pid_t::try_from(id).expect("ids of processes are small");
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is there for the call, which writes one id to it.
    let found = unsafe { libc::clock_getcpuclockid(id, &raw mut clock) };
    assert_eq!(found, 0, "the process runs");
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is there for the call, which writes one time to it.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(read, 0, "the process runs");
    let seconds = u64::try_from(time.tv_sec).expect("it does not run backwards");
    let nanoseconds = u32::try_from(time.tv_nsec).expect("there are as many in a second");
    Duration::new(seconds, nanoseconds)
}

/// Returns the resident memory.
pub(crate) fn resident_mb(id: u32) -> f64 {
    status_mb(id, "VmRSS:")
}

/// Returns the resident memory that is of no file: pages of code come and go as the system likes.
pub(crate) fn own_mb(id: u32) -> f64 {
    status_mb(id, "RssAnon:")
}

/// Returns the peak resident memory so far.
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

/// Returns the memory that no other process shares.
pub(crate) fn private_mb(id: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).expect("the process runs");
    let kilobytes = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("Private_Clean:");
        let rest = rest.or_else(|| line.strip_prefix("Private_Dirty:"))?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    });
    kilobytes.sum::<f64>() / 1024.0
}

/// Returns the processes that a process has started and that run.
pub(crate) fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("the process runs");
    let lists = threads.flatten().map(|thread| {
        // One that has ended since has none.
        fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    });
    let ids = lists.flat_map(|list| {
        let ids = list.split_whitespace().map(str::parse);
        ids.collect::<Result<Vec<u32>, _>>()
            .expect("ids are numbers")
    });
    ids.collect()
}
