//! Scheduling of threads that load, beside threads that answer requests.

/// Longest time slice that the system grants, in nanoseconds.
#[cfg(target_os = "linux")]
const MAX_SLICE: u64 = 100_000_000;

/// Lets every other thread that wakes go before this one, which keeps its share of the time;
/// threads that it starts are as any other. Does nothing where the system has no such setting, or
/// is configured otherwise.
///
/// A load computes for 20 ms and more, and a thread that wakes beside one waits for it for
/// milliseconds, since the system lets a thread go on until its slice is over. A thread with a shorter
/// slice does not wait (Linux 6.12 and newer, sched(7)): so this one asks for the longest. A lower
/// priority would do so too, but would hold up a load on a busy machine, and the threads of the runtime that
/// begin in it would have it for ever.
#[cfg(target_os = "linux")]
pub(super) fn give_way() {
    use std::mem::{size_of, zeroed};

    let size = size_of::<libc::sched_attr>();
    // SAFETY: all its fields are numbers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    // SAFETY: the kernel writes at most `size` bytes, which is the size of what the pointer is to; 0 is
    // this thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    let is_usual = attributes.sched_policy == libc::SCHED_OTHER as u32;
    // Threads of one that is preferred would no longer be.
    if known != 0 || !is_usual || attributes.sched_nice < 0 {
        return;
    }
    attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.sched_runtime = MAX_SLICE;
    // SAFETY: the kernel reads as many bytes as `size` says, which the call above has set. A refusal
    // changes nothing.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// Does nothing: other systems have no such setting.
#[cfg(not(target_os = "linux"))]
pub(super) fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns the scheduling attributes of this thread.
    fn attributes() -> libc::sched_attr {
        // SAFETY: all its fields are numbers, for which zero is a value.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes at most `size` bytes.
        let known =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        assert_eq!(known, 0);
        attributes
    }

    /// Runs a function on a thread of its own.
    fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = std::sync::mpsc::channel();
        let work = move || done.send(work()).expect("it is waited for");
        crate::task::thread("test", work).expect("there is room for a thread");
        result.recv().expect("no test panics there")
    }

    #[test]
    fn a_thread_that_loads_gives_way_and_those_it_starts_do_not() {
        let (before, after, started) = on_thread(|| {
            let before = attributes();
            give_way();
            (before, attributes(), on_thread(attributes))
        });
        let nice = [before.sched_nice, after.sched_nice, started.sched_nice];
        assert_eq!(nice, [before.sched_nice; 3]);
        let reset = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        assert_eq!(after.sched_flags & reset, reset);
        assert_eq!(started.sched_flags & reset, 0);
        // Older systems report no slice, and have no other.
        assert!(after.sched_runtime == before.sched_runtime || after.sched_runtime == MAX_SLICE);
        assert_eq!(started.sched_runtime, before.sched_runtime);
    }
}
