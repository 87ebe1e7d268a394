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
pub(super) struct Stop(watch::Receiver<bool>);

/// Listener for Ctrl-C.
#[derive(Debug)]
pub(super) struct Keys {
    pressed: watch::Sender<bool>,
    interrupts: Signal,
    terminations: Signal,
}

/// Starts listening.
pub(super) fn listen() -> io::Result<(Keys, Stop)> {
    let (pressed, stop) = watch::channel(false);
    let keys = Keys {
        pressed,
        interrupts: signal(SignalKind::interrupt())?,
        terminations: signal(SignalKind::terminate())?,
    };
    Ok((keys, Stop(stop)))
}

impl Keys {
    /// Waits until waiting is over: at the second Ctrl-C, or at the time limit.
    pub(super) async fn give_up(&mut self) {
        self.signal().await;
        self.pressed.send_replace(true);
        tokio::select! {
            () = self.signal() => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }

    async fn signal(&mut self) {
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
