//! Certificates and keys in files of PEM.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
};
use x509_cert::der::{self, DateTime};

/// The largest file that is read; a bundle of all public authorities has half a megabyte.
const MAX_FILE: u64 = 8 << 20;

/// Marks of a key that only its password opens.
const ENCRYPTED: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

/// A file of certificates or of a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {setting} {}", path.display())]
pub struct TlsFileError {
    /// The flag or the variable that names it, such as `--tls-cert`.
    pub setting: &'static str,
    /// The file as named.
    pub path: PathBuf,
    /// Reason.
    #[source]
    pub reason: TlsFileReason,
}

/// Reason why a file of certificates or of a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileReason {
    /// The system does not give it.
    #[error("cannot read the file")]
    Read(#[source] io::Error),
    /// More bytes than such a file should have.
    #[error("the file has more than {MAX_FILE} bytes")]
    Size,
    /// No block of the expected kind.
    #[error("found no {what} in PEM form, expected `-----BEGIN {label}-----`")]
    Missing {
        /// The thing that is missing.
        what: &'static str,
        /// Label in PEM of that thing.
        label: &'static str,
        /// The thing that is in the file instead, if it is of the other kind.
        found: Option<&'static str>,
    },
    /// Key that needs a password.
    #[error("found an encrypted private key, expected one without a password")]
    Encrypted,
    /// Contents that are cut short, or not base64.
    #[error("the PEM text is damaged")]
    Damaged(#[source] pem::Error),
    /// Contents of PEM blocks that are no certificate.
    #[error("the first certificate cannot be decoded")]
    Certificate(#[source] der::Error),
    /// No certificate that can be that of an authority.
    #[error("found no CA certificate that can be decoded")]
    Authorities,
    /// The key belongs to another certificate.
    #[error("the key is not that of the certificate in {}", .0.display())]
    Mismatch(PathBuf),
    /// The certificate's time is over.
    #[error("the certificate has expired: it was valid until {0}")]
    Expired(DateTime),
    /// The certificate's time has not begun.
    #[error("the certificate is not valid before {0}")]
    NotYetValid(DateTime),
    /// The TLS library does not take it.
    #[error("the TLS library does not accept it")]
    Refused(#[source] rustls::Error),
}

impl TlsFileError {
    /// Returns the next step, if there is a typical one.
    pub fn hint(&self) -> Option<String> {
        let path = self.path.display();
        Some(match &self.reason {
            TlsFileReason::Read(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                format!("let the user that runs ovms read {path}")
            }
            TlsFileReason::Read(_) => "check the path".to_owned(),
            TlsFileReason::Missing {
                found: Some(found), ..
            } => format!("{path} has a {found}; are the files of certificate and key swapped?"),
            TlsFileReason::Missing { what, .. } if *what == KEY => {
                format!("a key in DER form becomes PEM by `openssl pkey -inform DER -in {path}`")
            }
            TlsFileReason::Missing { .. } => format!(
                "a certificate in DER form becomes PEM by `openssl x509 -inform DER -in {path}`"
            ),
            TlsFileReason::Encrypted => {
                format!("`openssl pkey -in {path}` writes it without its password")
            }
            TlsFileReason::Mismatch(_) => {
                "give the key that the certificate was requested with".to_owned()
            }
            TlsFileReason::Expired(_) => "renew the certificate".to_owned(),
            TlsFileReason::NotYetValid(_) => "check the clock of this machine".to_owned(),
            TlsFileReason::Size
            | TlsFileReason::Damaged(_)
            | TlsFileReason::Certificate(_)
            | TlsFileReason::Authorities
            | TlsFileReason::Refused(_) => return None,
        })
    }
}

const KEY: &str = "private key";
const CERTIFICATE: &str = "certificate";

/// Returns the other thing that a file has, if a label of it is there.
fn other(text: &[u8], label: &str, what: &'static str) -> Option<&'static str> {
    String::from_utf8_lossy(text)
        .contains(label)
        .then_some(what)
}

/// Returns what makes the error of a file.
pub(crate) fn failed<'a>(
    setting: &'static str,
    path: &'a Path,
) -> impl Fn(TlsFileReason) -> TlsFileError + 'a {
    move |reason| TlsFileError {
        setting,
        path: path.to_owned(),
        reason,
    }
}

/// Reads the certificate of an end, and those that lead to its authority; one at least.
pub(crate) fn chain(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let failed = failed(setting, path);
    let text = read(path).map_err(&failed)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| failed(TlsFileReason::Damaged(error)))?;
    match found.is_empty() {
        false => Ok(found),
        true => Err(failed(TlsFileReason::Missing {
            what: CERTIFICATE,
            label: "CERTIFICATE",
            found: other(&text, "PRIVATE KEY-----", KEY),
        })),
    }
}

/// Reads a private key: PKCS#8, PKCS#1, or SEC1.
pub(crate) fn key(
    setting: &'static str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let failed = failed(setting, path);
    let text = read(path).map_err(&failed)?;
    let is_encrypted = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        ENCRYPTED.iter().any(|mark| text.contains(mark))
    };
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        failed(match error {
            _ if is_encrypted(&text) => TlsFileReason::Encrypted,
            pem::Error::NoItemsFound => TlsFileReason::Missing {
                what: KEY,
                label: "PRIVATE KEY",
                found: other(&text, "BEGIN CERTIFICATE-----", CERTIFICATE),
            },
            error => TlsFileReason::Damaged(error),
        })
    })
}

/// Reads the certificates of authorities; those that cannot be decoded are left out.
pub(crate) fn roots(setting: &'static str, path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(setting, path)?);
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(failed(setting, path)(TlsFileReason::Authorities)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileReason> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(TlsFileReason::Read)?;
    let read = file.take(MAX_FILE + 1).read_to_end(&mut text);
    read.map_err(TlsFileReason::Read)?;
    match text.len() as u64 > MAX_FILE {
        true => Err(TlsFileReason::Size),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::generate_simple_self_signed;

    use super::{TlsFileError, chain, key, roots};
    use crate::error;

    fn text<T: std::fmt::Debug>(refused: Result<T, TlsFileError>, path: &Path) -> String {
        let refused = refused.unwrap_err();
        let hint = refused.hint().unwrap_or_default();
        let text = format!("{} / {hint}", error::chain(&refused));
        text.replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn files_are_read_or_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, private) = (made.cert.pem(), made.signing_key.serialize_pem());
        let write = |text: &str| fs::write(&path, text).unwrap();
        write(&(cert.clone() + &cert + &private));
        assert_eq!(chain("--tls-cert", &path).unwrap().len(), 2);
        assert_eq!(roots("--cacert", &path).unwrap().len(), 2);
        key("--tls-key", &path).unwrap();
        write(&cert);
        insta::assert_snapshot!(text(key("--tls-key", &path), &path), @"cannot use --tls-key FILE: found no private key in PEM form, expected `-----BEGIN PRIVATE KEY-----` / FILE has a certificate; are the files of certificate and key swapped?");
        write("");
        insta::assert_snapshot!(text(key("--tls-key", &path), &path), @"cannot use --tls-key FILE: found no private key in PEM form, expected `-----BEGIN PRIVATE KEY-----` / a key in DER form becomes PEM by `openssl pkey -inform DER -in FILE`");
        write(&private.replace("PRIVATE", "ENCRYPTED PRIVATE"));
        insta::assert_snapshot!(text(key("--tls-key", &path), &path), @"cannot use --tls-key FILE: found an encrypted private key, expected one without a password / `openssl pkey -in FILE` writes it without its password");
        write(&private);
        insta::assert_snapshot!(text(chain("--tls-cert", &path), &path), @"cannot use --tls-cert FILE: found no certificate in PEM form, expected `-----BEGIN CERTIFICATE-----` / FILE has a private key; are the files of certificate and key swapped?");
        write("");
        insta::assert_snapshot!(text(chain("--tls-cert", &path), &path), @"cannot use --tls-cert FILE: found no certificate in PEM form, expected `-----BEGIN CERTIFICATE-----` / a certificate in DER form becomes PEM by `openssl x509 -inform DER -in FILE`");
        write(&cert[..cert.len() / 2]);
        assert!(text(chain("--tls-cert", &path), &path).contains("the PEM text is damaged"));
        write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        insta::assert_snapshot!(text(roots("--tls-client-ca", &path), &path), @"cannot use --tls-client-ca FILE: found no CA certificate that can be decoded / ");
        fs::remove_file(&path).unwrap();
        insta::assert_snapshot!(text(chain("--tls-cert", &path), &path), @"cannot use --tls-cert FILE: cannot read the file: No such file or directory (os error 2) / check the path");
    }
}
