//! The watch on the files of TLS: what changes in them is served from the next handshake on.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep};

use super::{Loaded, ServerTls};
use crate::{config::TlsSettings, error::chain, metrics::Metrics, task, tls::CertificateFacts};

/// Time from one warning of the end of a certificate to the next.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// State of the files, by which a change is seen without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stamps([Option<Stamp>; 3]);

/// Device, inode, size, and the times of the contents and of the file.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Stamps {
    /// Looks at the files of the settings; blocks meanwhile.
    pub(super) fn of(settings: &TlsSettings) -> Self {
        let stamp = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((
                found.dev(),
                found.ino(),
                found.size(),
                (found.mtime(), found.mtime_nsec()),
                (found.ctime(), found.ctime_nsec()),
            ))
        };
        let ca = settings.client_ca.as_deref();
        Self([
            stamp(&settings.cert),
            stamp(&settings.key),
            ca.and_then(stamp),
        ])
    }
}

/// Decides when changed files are read.
#[derive(Debug)]
struct Changes {
    /// State of the files that were read last, whether they could be used or not.
    read: Stamps,
    /// State at the last look.
    seen: Stamps,
}

impl Changes {
    fn new(read: Stamps) -> Self {
        Self { read, seen: read }
    }

    /// Returns whether the files are to be read now: when they have changed, and not since the last look.
    /// Certificate and key are often written one after the other.
    fn look(&mut self, found: Stamps) -> bool {
        let is_steady = std::mem::replace(&mut self.seen, found) == found;
        let is_due = is_steady && found != self.read;
        if is_due {
            self.read = found;
        }
        is_due
    }
}

impl ServerTls {
    /// Looks at the files in intervals, if there is one, and takes what has changed; warns before the
    /// certificate expires.
    pub(in crate::server) async fn watch(
        self: Arc<Self>,
        interval: Option<Duration>,
        metrics: Arc<Metrics>,
    ) {
        let mut changes = Changes::new(self.current.load().stamps);
        loop {
            let facts = self.facts();
            let end = facts.not_after.unix_duration().as_secs();
            metrics.set_certificate_expiry(end);
            self.warn(facts.days_left(SystemTime::now()));
            let warned = Instant::now();
            while warned.elapsed() < DAY {
                sleep(interval.unwrap_or(DAY)).await;
                if interval.is_some() && self.follow(&mut changes).await {
                    break;
                }
            }
        }
    }

    /// Reads the files if they have changed; returns whether others serve now.
    async fn follow(self: &Arc<Self>, changes: &mut Changes) -> bool {
        let this = Arc::clone(self);
        let found = task::blocking("certificates", move || Stamps::of(&this.settings)).await;
        if !changes.look(found) {
            return false;
        }
        let this = Arc::clone(self);
        let loaded = task::blocking("certificates", move || {
            let loaded = Loaded::read(&this.settings)?;
            loaded.in_time(&this.settings, SystemTime::now())
        });
        match loaded.await {
            Ok(loaded) => {
                tracing::info!("TLS has a new certificate: {}", loaded.facts);
                self.current.store(Arc::new(loaded));
                true
            }
            Err(error) => {
                let end = self.facts().not_after;
                tracing::warn!(
                    "TLS goes on with the certificate that is valid until {end}: {}",
                    chain(&error)
                );
                false
            }
        }
    }

    fn warn(&self, days: i64) {
        let (path, end) = (self.settings.cert.display(), self.facts().not_after);
        if days < 0 {
            tracing::error!("the TLS certificate {path} has expired: it was valid until {end}");
        } else if days < CertificateFacts::WARN_DAYS {
            tracing::warn!("the TLS certificate {path} expires in {days} days, at {end}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Stamps};

    #[test]
    fn changes_are_taken_when_nothing_more_changes() {
        let stamps = |number| Stamps([Some((number, 0, 0, (0, 0), (0, 0))), None, None]);
        let mut changes = Changes::new(stamps(1));
        assert!(!changes.look(stamps(1)));
        // The certificate, and at the next look the key.
        assert!(!changes.look(stamps(2)));
        assert!(!changes.look(stamps(3)));
        assert!(changes.look(stamps(3)));
        assert!(!changes.look(stamps(3)), "it is taken, or refused, once");
        // Gone, and back as it was.
        assert!(!changes.look(Stamps::default()));
        assert!(!changes.look(stamps(3)));
        assert!(!changes.look(stamps(3)));
    }
}
