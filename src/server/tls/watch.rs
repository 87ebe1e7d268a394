//! The watch on the files of TLS: what changes in them is served from the next handshake on.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep};

use super::{Loaded, ServerTls, stamps};
use crate::{error::chain, metrics::Metrics, stamps::Changes, task, tls::CertificateFacts};

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
        let mut changes = Changes::new(self.current.load().stamps.clone());
        loop {
            let facts = self.facts();
            let end = facts.not_after.unix_duration().as_secs();
            metrics.set_certificate_expiry(end);
            self.warn(facts.days_left(SystemTime::now()));
            if let Some(reason) = facts.unfit() {
                let path = self.settings.cert.display();
                tracing::warn!(
                    "the TLS certificate {path} {reason}; {}",
                    CertificateFacts::UNFIT_HINT
                );
            }
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
        let found = task::blocking("certificates", move || stamps(&this.settings)).await;
        if !changes.look(&found) {
            return false;
        }
        let this = Arc::clone(self);
        let loaded = task::blocking("certificates", move || {
            let loaded = Loaded::read(&this.settings)?;
            loaded.in_time(&this.settings, SystemTime::now())
        });
        let loaded = loaded.await;
        self.reloads.count(loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                match loaded.facts == self.facts() {
                    false => tracing::info!("TLS has a new certificate: {}", loaded.facts),
                    true => tracing::info!("TLS has read its files again: {}", loaded.facts),
                }
                self.current.store(Arc::new(loaded));
                changes.taken();
                true
            }
            Err(error) => {
                let (end, reason) = (self.facts().not_after, chain(&error).to_string());
                if changes.refused(reason.clone()) {
                    tracing::warn!(
                        "TLS goes on with the certificate that is valid until {end}: {reason}"
                    );
                }
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
