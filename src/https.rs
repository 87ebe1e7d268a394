//! The one place that makes HTTP clients, since each needs its TLS given.
//!
//! [`plain`] is for servers without TLS and reads nothing; [`trusting`] reads the certificates of
//! authorities that the system has. Whether a request goes over TLS is up to its URL.

use std::sync::{Arc, OnceLock};

use reqwest::ClientBuilder;
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Error of making a client that trusts any certificate authority.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// The system has none where they are usually kept.
    #[error("there are no certificates of authorities on this system")]
    None,
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up")]
    Setup(#[from] rustls::Error),
}

/// Makes a client that has no certificates: it reaches `http://` only.
///
/// # Errors
///
/// Fails if the TLS library refuses its settings.
pub fn plain() -> Result<ClientBuilder, CertificatesError> {
    Ok(client(tls(RootCertStore::empty())?))
}

/// Makes a client that trusts the authorities that the system trusts, or those of `SSL_CERT_FILE`
/// and `SSL_CERT_DIR`; blocks the first time, while it reads them.
///
/// # Errors
///
/// Fails if there are none.
pub fn trusting() -> Result<ClientBuilder, CertificatesError> {
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = SYSTEM.get() {
        return Ok(client(config.clone()));
    }
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "certificates that cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(CertificatesError::None);
    }
    let config = tls(roots)?;
    Ok(client(SYSTEM.get_or_init(|| config).clone()))
}

fn tls(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    // HTTP/1.1 is what reqwest would offer for it; HTTP/2 over TLS is not used.
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
fn client(config: ClientConfig) -> ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tls_given_is_of_the_version_that_the_client_takes() {
        assert!(super::plain().unwrap().build().is_ok());
    }
}
