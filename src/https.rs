//! The one place that makes HTTP clients, since each needs its TLS given.
//!
//! [`plain`] is for servers without TLS and reads nothing, [`with`] has settings of its own, and
//! [`trusting`] reads the certificates of authorities that the system has. Whether a request goes over TLS is
//! up to its URL.

use std::sync::Arc;

use reqwest::{ClientBuilder, Url};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::tls::{ClientTls, system_roots};

/// HTTP/1.1 is what reqwest would offer for it; HTTP/2 over TLS is not used.
const PROTOCOL: &[u8] = b"http/1.1";

/// Error of making a client that trusts any certificate authority.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// The system has none where they are usually kept.
    #[error("there are no CA certificates on this system")]
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

/// Makes a client with settings of its own for `https://`.
pub fn with(tls: &ClientTls) -> ClientBuilder {
    client(tls.config(PROTOCOL))
}

/// Makes a client that trusts the authorities that the system trusts, or those of `SSL_CERT_FILE`
/// and `SSL_CERT_DIR`; blocks the first time, while it reads them.
///
/// # Errors
///
/// Fails if there are none.
pub fn trusting() -> Result<ClientBuilder, CertificatesError> {
    let roots = system_roots().ok_or(CertificatesError::None)?;
    Ok(client(tls(roots)?))
}

/// Returns whether a URL names a server on this machine, which is never asked through a proxy.
pub fn is_of_this_machine(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

fn tls(roots: impl Into<Arc<RootCertStore>>) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

#[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
fn client(config: ClientConfig) -> ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_url_of_this_machine_is_known() {
        let is_local = |url: &str| super::is_of_this_machine(&url.parse().unwrap());
        for url in [
            "http://localhost:4318/v1",
            "http://127.0.0.1",
            "https://[::1]:1",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "http://localhost.example",
            "http://10.0.0.1",
            "http://127.0.0.1.example",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn the_tls_given_is_of_the_version_that_the_client_takes() {
        assert!(super::plain().unwrap().build().is_ok());
    }
}
