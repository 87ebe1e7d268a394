//! The watch on the files of TLS: what changes in them is served from the next handshake on.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::{Loaded, ServerTls, stamps};
use crate::{
    engine::ReloadPart,
    error::{Error, ErrorKind, chain},
    metrics::Metrics,
    stamps::Changes,
    task,
    tls::CertificateFacts,
};

/// Time from one warning of the end of a certificate to the next.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl ServerTls {
    /// Looks at the files in intervals, if there is one, and takes what has changed; warns before the
    /// certificate expires.
    pub(in crate::server) async fn watch(
        self: Arc<Self>,
        interval: Option<Duration>,
        metrics: Arc<Metrics>,
    ) {
        loop {
            let facts = self.facts();
            let end = facts.not_after.unix_duration().as_secs();
            metrics.set_certificate_expiry(end);
            self.warn(&facts, SystemTime::now());
            if let Some(reason) = facts.unfit() {
                let path = self.settings.cert.display();
                tracing::warn!(
                    "the TLS certificate {path} {reason}; {}",
                    CertificateFacts::UNFIT_HINT
                );
            }
            let warned = Instant::now();
            while warned.elapsed() < DAY {
                let is_taken = tokio::select! {
                    () = sleep(interval.unwrap_or(DAY)) => interval.is_some() && self.follow().await,
                    () = self.taken.notified() => true,
                };
                if is_taken {
                    break;
                }
            }
        }
    }

    /// Reads the files if they have changed and are steady; returns whether others serve now.
    async fn follow(self: &Arc<Self>) -> bool {
        let this = Arc::clone(self);
        task::blocking("certificates", move || {
            let mut changes = this.changes.lock();
            changes.look(&stamps(&this.settings)) && this.read(&mut changes, false).is_ok()
        })
        .await
    }

    /// Reads the files, and has what is in them serve; blocks meanwhile. A reason to go on with what serves is
    /// logged if it is another one than before, or somebody has asked.
    fn read(&self, changes: &mut Changes, is_asked: bool) -> Result<(), Error> {
        let loaded = Loaded::read(&self.settings);
        let loaded = loaded.and_then(|it| it.in_time(&self.settings, SystemTime::now()));
        self.reloads.count(loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                match loaded.facts == self.facts() {
                    false => tracing::info!("TLS has a new certificate: {}", loaded.facts),
                    true => tracing::info!("TLS has read its files again: {}", loaded.facts),
                }
                changes.taken();
                self.current.store(Arc::new(loaded));
                Ok(())
            }
            Err(error) => {
                let (end, reason) = (self.facts().not_after, chain(&error).to_string());
                let text = format!("TLS keeps using the certificate that is valid until {end}");
                if changes.refused(reason.clone()) || is_asked {
                    tracing::warn!("{text}: {reason}");
                }
                let text = format!("{text} - {reason}");
                Err(Error::new(ErrorKind::FailedPrecondition, text))
            }
        }
    }

    fn warn(&self, facts: &CertificateFacts, now: SystemTime) {
        let (path, end) = (self.settings.cert.display(), facts.not_after);
        let days = facts.days_left(now);
        if facts.is_early(now) {
            let begin = facts.not_before;
            tracing::error!("the TLS certificate {path} is not valid before {begin}");
        } else if days < 0 {
            tracing::error!("the TLS certificate {path} has expired: it was valid until {end}");
        } else if days < CertificateFacts::WARN_DAYS {
            tracing::warn!("the TLS certificate {path} expires in {days} days, at {end}");
        }
    }
}

impl ReloadPart for ServerTls {
    /// Reads files that are others than those that serve, without waiting until they are steady.
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(task::blocking("certificates", move || {
            let mut changes = self.changes.lock();
            let found = stamps(&self.settings);
            if found == self.current.load().stamps {
                return Ok(());
            }
            *changes = Changes::new(found);
            self.read(&mut changes, true)?;
            self.taken.notify_one();
            Ok(())
        }))
    }
}
