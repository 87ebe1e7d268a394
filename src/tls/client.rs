//! TLS of clients: the authorities they trust, their own certificate, and what they see of a server.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::files::{self, TlsFileError, TlsFileReason};

/// Settings of a client's TLS, as its user gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTlsOptions {
    /// Certificates of the authorities to trust; those of the system if `None`.
    pub cacert: Option<PathBuf>,
    /// Certificate of the client.
    pub cert: Option<PathBuf>,
    /// Private key of the client; needs a certificate.
    pub key: Option<PathBuf>,
    /// Accepts any certificate of a server.
    pub insecure: bool,
}

/// Flags or variables that the files of [`ClientTlsOptions`] come from, as errors name them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientTlsNames {
    pub(crate) cacert: &'static str,
    pub(crate) cert: &'static str,
    pub(crate) key: &'static str,
}

/// The flags of commands that are clients.
const FLAGS: ClientTlsNames = ClientTlsNames {
    cacert: "--cacert",
    cert: "--cert",
    key: "--key",
};

/// Settings of a client's TLS, read and checked.
#[derive(Debug, Clone)]
pub struct ClientTls {
    options: ClientTlsOptions,
    config: ClientConfig,
}

/// Error of setting up the TLS of a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientTlsError {
    /// One of its files cannot be used.
    #[error(transparent)]
    File(#[from] TlsFileError),
    /// The system has no authorities where they are usually kept.
    #[error("there are no CA certificates on this system")]
    NoAuthorities,
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up")]
    Setup(#[from] Error),
}

impl ClientTls {
    /// Reads the files of the options, which come from flags; blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if one of them cannot be used, or the system has no authorities and none are given.
    pub fn new(options: ClientTlsOptions) -> Result<Self, ClientTlsError> {
        Self::named(options, FLAGS)
    }

    /// Reads the files of options that come from elsewhere, as [`Self::new`] does.
    pub(crate) fn named(
        options: ClientTlsOptions,
        names: ClientTlsNames,
    ) -> Result<Self, ClientTlsError> {
        let config = match options.insecure {
            true => config(&options, names, ObservedCertificate::new(None))?,
            false => config(&options, names, verifier(&options, names)?)?,
        };
        Ok(Self { options, config })
    }

    /// Returns whether the client has a certificate.
    pub fn has_certificate(&self) -> bool {
        self.options.cert.is_some()
    }

    /// Reads the files of the options for a client that goes on whatever the certificate of the server
    /// is, and keeps it with the verdict; blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::new`] does.
    pub fn observing(
        options: ClientTlsOptions,
    ) -> Result<(Self, Arc<ObservedCertificate>), ClientTlsError> {
        let verifier = match options.insecure {
            true => None,
            false => Some(verifier(&options, FLAGS)?),
        };
        let observed = ObservedCertificate::new(verifier);
        let config = config(&options, FLAGS, Arc::clone(&observed))?;
        Ok((Self { options, config }, observed))
    }

    /// Returns the options that it was made of.
    pub fn options(&self) -> &ClientTlsOptions {
        &self.options
    }

    /// Returns the settings for a protocol, by its name in ALPN (RFC 7301).
    pub(crate) fn config(&self, protocol: &[u8]) -> ClientConfig {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Makes what verifies the certificates of servers.
fn verifier(
    options: &ClientTlsOptions,
    names: ClientTlsNames,
) -> Result<Arc<WebPkiServerVerifier>, ClientTlsError> {
    let roots = match &options.cacert {
        Some(path) => Arc::new(files::roots(names.cacert, path)?),
        None => system_roots().ok_or(ClientTlsError::NoAuthorities)?,
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
    let verifier = verifier.build();
    // It refuses an empty list alone, which is refused before.
    verifier.map_err(|error| Error::General(error.to_string()).into())
}

fn config(
    options: &ClientTlsOptions,
    names: ClientTlsNames,
    verifier: Arc<impl ServerCertVerifier + 'static>,
) -> Result<ClientConfig, ClientTlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let (Some(cert), Some(key)) = (&options.cert, &options.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = files::chain(names.cert, cert)?;
    let private = files::key(names.key, key)?;
    let made = builder.with_client_auth_cert(chain, private);
    made.map_err(|error| {
        let reason = match error {
            Error::InconsistentKeys(_) => TlsFileReason::Mismatch(cert.clone()),
            error => TlsFileReason::Refused(error),
        };
        files::failed(names.key, key)(reason).into()
    })
}

/// Returns the authorities that the system trusts, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`; `None`
/// if there are none. Blocks the first time, while it reads them.
pub(crate) fn system_roots() -> Option<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Option<Arc<RootCertStore>>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "certificates that cannot be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        (!roots.is_empty()).then(|| Arc::new(roots))
    });
    roots.clone()
}

/// The certificate of a server that was taken whatever it is.
#[derive(Debug)]
pub struct ObservedCertificate {
    verifier: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    seen: OnceLock<ServerIdentity>,
}

/// A server's certificate, and the verdict on it.
#[derive(Debug, Clone)]
pub struct ServerIdentity {
    /// The certificate of the server itself.
    pub certificate: CertificateDer<'static>,
    /// Result of its verification; also `Ok` if nobody was to verify it.
    pub verdict: Result<(), Error>,
}

impl ObservedCertificate {
    fn new(verifier: Option<Arc<WebPkiServerVerifier>>) -> Arc<Self> {
        Arc::new(Self {
            verifier,
            algorithms: ring::default_provider().signature_verification_algorithms,
            seen: OnceLock::new(),
        })
    }

    /// Returns what the first handshake has shown.
    pub fn seen(&self) -> Option<&ServerIdentity> {
        self.seen.get()
    }
}

impl ServerCertVerifier for ObservedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.seen.get_or_init(|| {
            let verifier = self.verifier.as_ref();
            let verdict = verifier.map_or(Ok(()), |verifier| {
                let verified =
                    verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
                verified.map(drop)
            });
            ServerIdentity {
                certificate: certificate.clone().into_owned(),
                verdict,
            }
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
