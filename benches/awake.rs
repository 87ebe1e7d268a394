//! Processors that never rest: a processor of a virtual machine that has nothing to do is handed back to the
//! hypervisor, and takes tens of microseconds to return, more than what rows of tiny requests are about.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Threads that keep each processor awake until this is dropped. They are of the class `SCHED_IDLE`
/// (sched(7)): whatever else can run takes the processor from them at once.
pub(crate) struct Awake {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = (0..cores).map(|core| {
            let is_over = Arc::clone(&is_over);
            let spin = move || {
                yield_to_all(core);
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let thread = thread::Builder::new().name("awake".to_owned());
            thread.spawn(spin).expect("threads can be had")
        });
        Self {
            threads: threads.collect(),
            is_over,
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it only spins");
        }
    }
}

/// Binds this thread to a processor, of which it takes only what nobody else wants.
fn yield_to_all(core: usize) {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: all bits clear is an empty set, of which `CPU_SET` sets one bit within its bounds; both calls
    // are about this thread, and read what is there for the call.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut cores);
        // Where a container has other processors, it goes on unbound.
        libc::sched_setaffinity(0, size, &raw const cores);
        let lowest = libc::sched_param { sched_priority: 0 };
        let is_set = libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const lowest);
        assert_eq!(is_set, 0, "anybody may ask for less");
    }
}
