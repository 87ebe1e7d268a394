//! Threads for what ends: generators that are closed, states that are destroyed, handlers that are
//! finalized. That is Python code that may take long, and nobody waits for it.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::task;

/// The most threads at once; more work waits.
const THREADS: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

struct Ends {
    queue: VecDeque<Work>,
    threads: usize,
}

static ENDS: Mutex<Ends> = Mutex::new(Ends {
    queue: VecDeque::new(),
    threads: 0,
});

fn ends() -> MutexGuard<'static, Ends> {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has work done soon, by a thread that may block.
pub(super) fn aside(work: impl FnOnce() + Send + 'static) {
    let mut now = ends();
    now.queue.push_back(Box::new(work));
    if now.threads < THREADS {
        now.threads += 1;
        drop(now);
        if task::thread("python end", run).is_err() {
            // The next one who comes tries again; what waits is done then.
            ends().threads -= 1;
        }
    }
}

/// Works until there is nothing to do.
fn run() {
    loop {
        let mut now = ends();
        let Some(work) = now.queue.pop_front() else {
            now.threads -= 1;
            return;
        };
        drop(now);
        work();
    }
}
