//! Ctrl-C while a check runs code of handlers.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ovms::{python, task};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use crate::error::{Failure, FailureKind};

/// Time that a check has to end by itself, once the load of the handler that it was at has ended.
const LEFT: Duration = Duration::from_secs(2);

/// Interrupt of a check, which ends the load of the handler that it is at.
pub(crate) struct CheckInterrupt(Arc<HeardInterrupt>);

#[derive(Default)]
struct HeardInterrupt {
    /// Place where the handler was.
    place: OnceLock<String>,
    /// Indicates that the check ends with its failure.
    is_known: AtomicBool,
}

impl CheckInterrupt {
    /// Listens for Ctrl-C from now on. A second one ends the process; so does the first while no handler runs, and
    /// after a while where the handler is at something else than its load, such as `finalize`.
    pub(crate) fn listen() -> io::Result<Self> {
        let heard = Arc::<HeardInterrupt>::default();
        let of_task = Arc::clone(&heard);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut interrupts = {
            let _entered = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        // It ends with the process.
        task::thread("interrupts", move || {
            runtime.block_on(async {
                interrupts.recv().await;
                if let Some(place) = python::handler_places().await {
                    let _ = of_task.place.set(place);
                    python::end_loads("was killed: the check was interrupted");
                    let next = timeout(LEFT, interrupts.recv()).await;
                    if next.is_err() && of_task.is_known.load(Ordering::Relaxed) {
                        interrupts.recv().await;
                    }
                }
                if !of_task.is_known.load(Ordering::Relaxed) {
                    let _ = of_task.failure().print();
                }
                std::process::exit(FailureKind::Interrupted.code().into())
            });
        })?;
        Ok(Self(heard))
    }

    /// Returns the failure of a check that was interrupted, which ends with it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.0.place.get()?;
        self.0.is_known.store(true, Ordering::Relaxed);
        Some(self.0.failure())
    }
}

impl HeardInterrupt {
    fn failure(&self) -> Failure {
        let failure = Failure::interrupted("interrupted");
        let place = self.place.get().into_iter();
        place.fold(failure, |failure, place| {
            failure.detail(format!("the handler was at {place}"))
        })
    }
}
