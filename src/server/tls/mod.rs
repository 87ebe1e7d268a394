//! TLS of the ports: its settings, which follow their files, and its handshakes.

mod handshake;
mod places;
mod watch;

use std::{path::Path, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::{
    ALL_VERSIONS, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    server::{
        NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier,
    },
    version::TLS13,
};
use tokio::sync::Notify;

use crate::{
    config::{ClientAuth, TlsSettings, TlsVersion},
    stamps::{Changes, FileReloads, Stamps},
    tls::{self, CertificateFacts, TlsFileError, TlsFileReason},
};

pub(super) use handshake::Handshakes;

/// Versions where 1.3 is the least.
static ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The certificate and key that serve, of the files of the settings.
#[derive(Debug)]
pub struct ServerTls {
    settings: TlsSettings,
    current: ArcSwap<Loaded>,
    /// Changes of the files since they were read.
    changes: Mutex<Changes>,
    /// Woken when a reload has taken other files.
    taken: Notify,
    /// Times that the files were read again.
    reloads: Arc<FileReloads>,
}

/// A version of the files.
#[derive(Debug)]
struct Loaded {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    facts: CertificateFacts,
    /// Taken before the files were read.
    stamps: Stamps,
}

/// The protocol below TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsProtocol {
    Grpc,
    Http,
}

impl ServerTls {
    /// Reads the files of the settings; blocks meanwhile. An expired certificate is one that can be served:
    /// the log and a metric say so.
    ///
    /// # Errors
    ///
    /// Fails if one of the files cannot be used, or they do not belong together.
    pub fn open(settings: &TlsSettings) -> Result<Self, TlsFileError> {
        let loaded = Loaded::read(settings)?;
        Ok(Self {
            changes: Mutex::new(Changes::new(loaded.stamps.clone())),
            current: ArcSwap::from_pointee(loaded),
            taken: Notify::new(),
            settings: settings.clone(),
            reloads: Arc::default(),
        })
    }

    /// Returns what the certificate says.
    pub fn facts(&self) -> CertificateFacts {
        self.current.load().facts.clone()
    }

    /// Returns the counts of the times that the files were read again.
    pub(super) fn reloads(&self) -> &Arc<FileReloads> {
        &self.reloads
    }

    /// Returns the settings for the next handshake.
    fn config(&self, protocol: TlsProtocol) -> Arc<ServerConfig> {
        let current = self.current.load();
        Arc::clone(match protocol {
            TlsProtocol::Grpc => &current.grpc,
            TlsProtocol::Http => &current.http,
        })
    }
}

impl Loaded {
    fn read(settings: &TlsSettings) -> Result<Self, TlsFileError> {
        let stamps = stamps(settings);
        let (cert, key) = (&settings.cert, &settings.key);
        let chain = tls::chain("--tls-cert", cert)?;
        let private = tls::key("--tls-key", key)?;
        let facts = CertificateFacts::read(&chain[0]);
        let facts = facts
            .map_err(|error| tls::failed("--tls-cert", cert)(TlsFileReason::Certificate(error)))?;
        let versions = match settings.min_version {
            TlsVersion::V12 => ALL_VERSIONS,
            TlsVersion::V13 => ONLY_13,
        };
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let builder = builder.map_err(|error| refused("--tls-cert", cert, error))?;
        let builder = builder.with_client_cert_verifier(verifier(settings)?);
        let config = builder.with_single_cert(chain, private);
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                tls::failed("--tls-key", key)(TlsFileReason::Mismatch(cert.clone()))
            }
            error => refused("--tls-key", key, error),
        })?;
        if settings.client_ca.is_some() && settings.client_auth != ClientAuth::Off {
            // In a session that goes on the certificate of its client is not verified again: one that has expired since
            // would open connections for as long as its tickets last.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let with = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        Ok(Self {
            grpc: with(b"h2"),
            http: with(b"http/1.1"),
            facts,
            stamps,
        })
    }

    /// Refuses a certificate whose time is over or has not begun.
    fn in_time(self, settings: &TlsSettings, now: SystemTime) -> Result<Self, TlsFileError> {
        let (start, end) = (self.facts.not_before, self.facts.not_after);
        let reason = if end.to_system_time() < now {
            TlsFileReason::Expired(end)
        } else if now < start.to_system_time() {
            TlsFileReason::NotYetValid(start)
        } else {
            return Ok(self);
        };
        Err(tls::failed("--tls-cert", &settings.cert)(reason))
    }
}

/// Looks at the files of the settings; blocks meanwhile.
fn stamps(settings: &TlsSettings) -> Stamps {
    let both = [&*settings.cert, &settings.key];
    Stamps::of(both.into_iter().chain(settings.client_ca.as_deref()))
}

/// Makes what verifies the certificates of clients.
fn verifier(settings: &TlsSettings) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let Some(path) = settings.client_ca.as_deref() else {
        return Ok(Arc::new(NoClientAuth));
    };
    let roots = Arc::new(tls::roots("--tls-client-ca", path)?);
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let builder = match settings.client_auth {
        ClientAuth::Off => return Ok(Arc::new(NoClientAuth)),
        ClientAuth::Optional => builder.allow_unauthenticated(),
        ClientAuth::Required => builder,
    };
    builder.build().map_err(|error| {
        let error = rustls::Error::General(error.to_string());
        refused("--tls-client-ca", path, error)
    })
}

fn refused(setting: &'static str, path: &Path, error: rustls::Error) -> TlsFileError {
    tls::failed(setting, path)(TlsFileReason::Refused(error))
}

#[cfg(test)]
mod tests;
