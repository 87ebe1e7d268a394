//! Handling of Ctrl-C and SIGTERM: the first requests the end, the second does not wait for it.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// Time limit for ending a sequence after an error, or at Ctrl-C.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Receiver of the stop request.
#[derive(Debug, Clone)]
pub(in crate::infer) struct Stop(watch::Receiver<bool>);

/// Listener for Ctrl-C.
#[derive(Debug)]
pub(in crate::infer) struct Keys {
    stop: watch::Sender<bool>,
    interrupts: Signal,
    terminations: Signal,
}

/// Starts listening.
pub(in crate::infer) fn listen() -> io::Result<(Keys, Stop)> {
    let (pressed, stop) = watch::channel(false);
    let keys = Keys {
        stop: pressed,
        interrupts: signal(SignalKind::interrupt())?,
        terminations: signal(SignalKind::terminate())?,
    };
    Ok((keys, Stop(stop)))
}

impl Keys {
    /// Waits until waiting is over: at the second Ctrl-C, or at the time limit.
    pub(super) async fn give_up(&mut self) {
        self.pressed().await;
        self.stop.send_replace(true);
        tokio::select! {
            () = self.pressed() => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }

    /// Waits for Ctrl-C, or SIGTERM.
    pub(in crate::infer) async fn pressed(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
        }
    }
}

impl Stop {
    /// Waits until Ctrl-C is pressed.
    pub(super) async fn asked(&mut self) {
        if self.0.wait_for(|pressed| *pressed).await.is_err() {
            // Nobody waits for keys any more.
            std::future::pending::<()>().await;
        }
    }
}
