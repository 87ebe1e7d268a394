//! Failed handshakes of clients, by what their user can do about them.

use std::{error::Error, io};

use rustls::{CertificateError, pki_types::UnixTime};
use x509_cert::der::DateTime;

/// Text of rustls before the name of an alert.
const ALERT: &str = "received fatal alert: ";

/// Text of the TLS stream for a connection that ends in the handshake.
const END: &str = "tls handshake eof";

/// Name that webpki has for a certificate of an authority in the place of a server's.
const AUTHORITY: &str = "CaUsedAsEndEntity";

/// A failed handshake, by what its user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsProblem {
    /// The other end does not speak TLS.
    NotTls,
    /// The other end has closed the connection in the handshake, as servers without TLS may do.
    Closed,
    /// The authority of the server's certificate is not among those that are trusted.
    UnknownAuthority,
    /// The server's certificate is marked as one of an authority, as those are that `openssl req -x509` makes.
    AuthorityItself,
    /// The server's certificate is for other names.
    OtherName {
        /// The host names and addresses that it is for, as far as they are known.
        names: Vec<String>,
    },
    /// The server's certificate has expired.
    Expired {
        /// Last moment of the certificate, in UTC.
        until: Option<DateTime>,
    },
    /// The time of the server's certificate has not begun.
    NotYetValid {
        /// First moment of the certificate, in UTC.
        since: Option<DateTime>,
    },
    /// The server's certificate is signed with an algorithm that is not accepted, such as SHA-1.
    UnsupportedSignature,
    /// The server's certificate is for other purposes than that of a server.
    OtherPurpose,
    /// The server wants a certificate of the client.
    CertificateRequired,
    /// The server rejected the client certificate.
    CertificateRefused,
    /// No common version or cipher, or no common protocol (ALPN).
    NothingInCommon,
    /// Anything else.
    Other,
}

impl TlsProblem {
    /// Finds the error of a handshake among the causes of an error.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::of_tls(error));
            }
            let text = error.to_string();
            if text == END {
                return Some(Self::Closed);
            }
            // HTTP/2 keeps no more than the text of an alert that comes after the handshake.
            if let Some((_, name)) = text.split_once(ALERT) {
                let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next();
                return Some(Self::of_alert(name.unwrap_or_default()));
            }
            // One that is within an error of the system is none of its causes.
            let inner = error.downcast_ref::<io::Error>();
            cause = match inner.and_then(io::Error::get_ref) {
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        None
    }

    /// Returns the problem that an alert of the other end is about, by the alert's name.
    fn of_alert(name: &str) -> Self {
        match name {
            // TLS 1.2 has no alert of its own for a missing certificate.
            "CertificateRequired" | "HandshakeFailure" => Self::CertificateRequired,
            "BadCertificate"
            | "UnknownCA"
            | "CertificateUnknown"
            | "CertificateExpired"
            | "UnsupportedCertificate"
            | "DecryptError" => Self::CertificateRefused,
            "ProtocolVersion" | "InsufficientSecurity" | "NoApplicationProtocol" => {
                Self::NothingInCommon
            }
            _ => Self::Other,
        }
    }

    /// Returns what can be done about an error of the TLS library.
    pub fn of_tls(error: &rustls::Error) -> Self {
        use rustls::Error as E;
        match error {
            E::InvalidMessage(_) => Self::NotTls,
            E::InvalidCertificate(error) => Self::of_certificate(error),
            E::AlertReceived(alert) => Self::of_alert(&format!("{alert:?}")),
            E::PeerIncompatible(_) | E::NoApplicationProtocol => Self::NothingInCommon,
            _ => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            // The last two are of an authority that has the name of the trusted one, and another key.
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                Self::UnknownAuthority
            }
            CertificateError::NotValidForName => Self::OtherName { names: Vec::new() },
            CertificateError::NotValidForNameContext { presented, .. } => Self::OtherName {
                names: presented.iter().filter_map(|name| plain(name)).collect(),
            },
            CertificateError::Expired => Self::Expired { until: None },
            CertificateError::ExpiredContext { not_after, .. } => Self::Expired {
                until: moment(*not_after),
            },
            CertificateError::NotValidYet => Self::NotYetValid { since: None },
            CertificateError::NotValidYetContext { not_before, .. } => Self::NotYetValid {
                since: moment(*not_before),
            },
            CertificateError::UnsupportedSignatureAlgorithmContext { .. } => {
                Self::UnsupportedSignature
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::OtherPurpose
            }
            // The library has no type for it.
            CertificateError::Other(error) if format!("{error:?}").contains(AUTHORITY) => {
                Self::AuthorityItself
            }
            CertificateError::Other(_) => Self::UnknownAuthority,
            _ => Self::Other,
        }
    }
}

/// Returns a name as a URL has it, of the form in which webpki writes names: `DnsName("localhost")`.
fn plain(name: &str) -> Option<String> {
    let (kind, name) = name.strip_suffix(')')?.split_once('(')?;
    let is_host = matches!(kind, "DnsName" | "IpAddress");
    is_host.then(|| name.trim_matches('"').to_owned())
}

fn moment(time: UnixTime) -> Option<DateTime> {
    let since = std::time::Duration::from_secs(time.as_secs());
    DateTime::from_unix_duration(since).ok()
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc, time::Duration};

    use rustls::{
        AlertDescription, CertificateError, Error, OtherError,
        pki_types::{ServerName, UnixTime},
    };

    use super::TlsProblem;

    fn of(error: Error) -> Option<TlsProblem> {
        TlsProblem::of(&io::Error::other(error))
    }

    #[test]
    fn problems_are_found_in_errors_of_the_system_and_in_texts() {
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            Some(TlsProblem::UnknownAuthority)
        );
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::BadSignature)),
            Some(TlsProblem::UnknownAuthority)
        );
        let unsupported = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: Vec::new(),
            supported_algorithms: Vec::new(),
        };
        assert_eq!(
            of(unsupported.into()),
            Some(TlsProblem::UnsupportedSignature)
        );
        assert_eq!(
            of(CertificateError::InvalidPurpose.into()),
            Some(TlsProblem::OtherPurpose)
        );
        let other = OtherError(Arc::new(io::Error::other("CaUsedAsEndEntity")));
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::Other(other))),
            Some(TlsProblem::AuthorityItself)
        );
        let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
        let text = io::Error::other(format!("h2: {alert}\", …"));
        assert_eq!(TlsProblem::of(&text), Some(TlsProblem::CertificateRequired));
        assert_eq!(of(alert), Some(TlsProblem::CertificateRequired));
        let end = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        assert_eq!(TlsProblem::of(&end), Some(TlsProblem::Closed));
        let plain = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(TlsProblem::of(&plain), None);
    }

    #[test]
    fn names_and_times_of_a_certificate_are_kept() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired = CertificateError::ExpiredContext {
            time: at(1_709_251_300),
            not_after: at(1_709_251_200),
        };
        let Some(TlsProblem::Expired { until: Some(until) }) = of(expired.into()) else {
            panic!("expected the end of its time");
        };
        assert_eq!(until.to_string(), "2024-03-01T00:00:00Z");
        let names = [
            "DnsName(\"models.example\")",
            "IpAddress(10.0.0.1)",
            "UniformResourceIdentifier(\"spiffe://a\")",
            "DirectoryName",
        ];
        let other = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("localhost").unwrap(),
            presented: names.map(str::to_owned).to_vec(),
        };
        let names = vec!["models.example".to_owned(), "10.0.0.1".to_owned()];
        assert_eq!(of(other.into()), Some(TlsProblem::OtherName { names }));
    }
}
