//! Ctrl-C while a check runs code of handlers.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use ovms::{python, task};
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Failure, FailureKind};

/// Interrupt of a check, which ends the load of the handler that it is at.
pub(crate) struct CheckInterrupt {
    /// Place where the handler was.
    place: Arc<OnceLock<String>>,
}

impl CheckInterrupt {
    /// Listens for Ctrl-C from now on. A second one ends the process, as does the first while no handler runs.
    pub(crate) fn listen() -> io::Result<Self> {
        let place = Arc::new(OnceLock::new());
        let known = Arc::clone(&place);
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
                    let _ = known.set(place);
                    python::end_loads("was killed: the check was interrupted");
                    interrupts.recv().await;
                }
                std::process::exit(FailureKind::Interrupted.code().into())
            });
        })?;
        Ok(Self { place })
    }

    /// Returns the failure of a check that was interrupted.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let place = self.place.get()?;
        let failure = Failure::interrupted("interrupted");
        Some(failure.detail(format!("the handler was at {place}")))
    }
}
