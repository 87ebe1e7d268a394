//! Ctrl-C while a check runs code of handlers.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::Duration,
};

use futures::FutureExt as _;
use ovms::{python, task};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{Receiver, Sender, channel},
    task::yield_now,
    time::timeout,
};

use crate::error::{Failure, FailureKind};

/// Time that a check has to end by itself, once the load of the handler that it was at has ended.
const LEFT: Duration = Duration::from_secs(2);

/// Interrupt of a check, which ends the load of the handler that it is at.
pub(crate) struct CheckInterrupt {
    heard: Arc<HeardInterrupt>,
    /// Queries for whether an interrupt has arrived; the thread drops the sender as its answer.
    asks: Sender<SyncSender<()>>,
}

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
        let (asks, mut asked) = channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut interrupts = {
            let _entered = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        // It ends with the process.
        task::thread("interrupts", move || {
            runtime.block_on(async move {
                let ask = next(&mut interrupts, &mut asked).await;
                if let Some(place) = python::handler_places().await {
                    let _ = of_task.place.set(place);
                    // The place answers all further queries.
                    drop((ask, asked));
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
        Ok(Self { heard, asks })
    }

    /// Returns the failure of a check that was interrupted, which ends with it. Asks the thread first: the end of an
    /// interpreter that got the same Ctrl-C may be noticed before the signal.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let (ask, known) = sync_channel(0);
        if self.asks.try_send(ask).is_ok() {
            // Nothing is sent.
            let _ = known.recv();
        }
        self.heard.place.get()?;
        self.heard.is_known.store(true, Ordering::Relaxed);
        Some(self.heard.failure())
    }
}

/// Waits for an interrupt; returns the query that it was found for, if any, which is still unanswered.
async fn next(
    interrupts: &mut Signal,
    asked: &mut Receiver<SyncSender<()>>,
) -> Option<SyncSender<()>> {
    loop {
        tokio::select! {
            biased;
            _ = interrupts.recv() => return None,
            Some(ask) = asked.recv() => {
                // Lets the runtime poll for signals.
                yield_now().await;
                if interrupts.recv().now_or_never().is_some() {
                    return Some(ask);
                }
            }
        }
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
