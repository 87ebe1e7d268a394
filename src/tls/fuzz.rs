//! Fuzz target of certificates of clients.

use rustls::pki_types::CertificateDer;

use super::certificate::{CertificateFacts, subject_names};

/// A certificate (DER): its names are of its bytes.
pub(crate) fn certificates(data: &[u8]) {
    let certificate = CertificateDer::from(data);
    let names = subject_names(&certificate);
    // An address of 16 bytes has 39 characters.
    let length: usize = names.iter().map(String::len).sum();
    assert!(length <= 3 * data.len(), "{names:?}");
    let _ = CertificateFacts::read(&certificate);
}
