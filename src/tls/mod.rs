//! TLS for both ends: certificates and keys of files, and the settings of clients.
//!
//! All of it is rustls with ring. The settings of the server, and how they follow their files, are in
//! `server/tls`; [`https`](crate::https) makes HTTP clients of what is here.

mod certificate;
mod client;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod problem;
mod words;

pub use certificate::CertificateFacts;
pub(crate) use certificate::subject_names;
pub use client::{
    ClientTls, ClientTlsError, ClientTlsOptions, ObservedCertificate, ServerIdentity,
};
pub(crate) use client::{ClientTlsNames, system_roots};
pub use files::{TlsFileError, TlsFileReason};
pub(crate) use files::{chain, failed, key, roots};
pub use problem::TlsProblem;
pub use words::in_words;
