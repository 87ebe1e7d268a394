//! Ctrl-C: the first one asks for the end, the second one does not wait for it.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// How long the end of a sequence may take when something has gone wrong, or at Ctrl-C.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Whether Ctrl-C has been pressed.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

/// Waits for Ctrl-C.
#[derive(Debug)]
pub(super) struct Keys {
    pressed: watch::Sender<bool>,
    signal: Signal,
}

/// Begins to wait.
pub(super) fn listen() -> io::Result<(Keys, Stop)> {
    let (pressed, stop) = watch::channel(false);
    let signal = signal(SignalKind::interrupt())?;
    Ok((Keys { pressed, signal }, Stop(stop)))
}

impl Keys {
    /// Ends when there is nothing more to wait for: at the second Ctrl-C, or when patience ends.
    pub(super) async fn give_up(&mut self) {
        self.signal.recv().await;
        self.pressed.send_replace(true);
        tokio::select! {
            _ = self.signal.recv() => {}
            () = tokio::time::sleep(PATIENCE) => {}
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
