//! Signals that stop a server.

use std::{
    fs,
    future::Future,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal, SignalKind, signal as listen_for};

use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// Time after the first signal during which SIGTERM does not count as a second one.
const TOGETHER: Duration = Duration::from_millis(100);

/// Returns whether SIGHUP, sent when the terminal is closed, would end the process. `nohup` ignores it so
/// that the process continues; if the state is unknown, this returns false.
pub(super) fn is_hangup_heard() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    !is_hangup_ignored(&status).unwrap_or(true)
}

/// Parses the signals that a process ignores: one bit each, the first for SIGHUP.
fn is_hangup_ignored(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask?.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

/// Returns a future that resolves at the first SIGINT or SIGTERM, or SIGHUP if requested. The second one
/// ends the process, and removes the temporary folder that would otherwise be left.
pub(super) fn signal(
    temporary: Option<PathBuf>,
    hangup: bool,
) -> Result<impl Future<Output = ()>, Failure> {
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = hangup.then(|| listen(SignalKind::hangup())).transpose()?;
    let (first, done) = tokio::sync::oneshot::channel();
    ovms::task::Task::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {
                tracing::info!("SIGHUP: stopping");
            }
        }
        let _ = first.send(());
        // Both the system and the shell report that a terminal is closed, and `timeout` signals a process
        // and its group, so that these are no second signals.
        let began = Instant::now();
        loop {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = terminate.recv() => if began.elapsed() > TOGETHER { break },
            }
        }
        tracing::warn!("second signal; ending at once");
        ui::clear_foot();
        if let Some(folder) = temporary {
            let _ = fs::remove_dir_all(folder);
        }
        std::process::exit(i32::from(FailureKind::Interrupted.code()));
    })
    .detach();
    Ok(async move {
        let _ = done.await;
    })
}

/// Listens for a signal.
pub(super) fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    listen_for(kind).map_err(|error| Failure::system("cannot listen for signals").caused_by(&error))
}

#[cfg(test)]
mod tests {
    use super::is_hangup_ignored;

    #[test]
    fn the_mask_of_ignored_signals_tells() {
        let of =
            |mask: &str| is_hangup_ignored(&format!("Name:\tovms\nSigIgn:\t{mask}\nSigCgt:\t1\n"));
        assert_eq!(of("0000000000000001"), Some(true));
        assert_eq!(of("8000000000001001"), Some(true));
        assert_eq!(of("0000000000001000"), Some(false));
        assert_eq!(of("-"), None);
        assert_eq!(is_hangup_ignored(""), None);
    }
}
