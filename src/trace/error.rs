//! Errors of setting up the export of traces.

use std::{io, path::PathBuf};

use opentelemetry_otlp::ExporterBuildError;

use crate::{https::CertificatesError, tls::ClientTlsError};

/// Error of setting up the export of traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The endpoint is no URL.
    #[error(
        "{name} has `{value}`, expected a URL with http:// or https://, such as http://collector:4317"
    )]
    Endpoint {
        /// The flag or the variable that has it.
        name: &'static str,
        /// Value of the flag or the variable.
        value: String,
    },
    /// A certificate of this server is without its key, or the other way round.
    #[error(
        "{set} is set but {missing} is not set: a client shows the collector a certificate with both"
    )]
    Pair {
        /// The variable that is set.
        set: &'static str,
        /// The variable beside it.
        missing: &'static str,
    },
    /// The endpoint, or a variable, is nothing that can be exported to.
    #[error("traces cannot be exported")]
    Exporter(#[from] ExporterBuildError),
    /// A certificate or a key of the variables cannot be used.
    #[error("the certificates for the collector of traces cannot be used")]
    Tls(#[from] ClientTlsError),
    /// One of them cannot be read any more.
    #[error("cannot read {0}")]
    File(PathBuf, #[source] io::Error),
    /// The client for HTTP cannot be made.
    #[error("traces cannot be exported over HTTP")]
    Certificates(#[from] CertificatesError),
    /// The client for HTTP cannot be made.
    #[error("traces cannot be exported over HTTP")]
    Client(#[from] reqwest::Error),
}

impl TraceError {
    /// Returns the next step.
    pub fn hint(&self) -> String {
        let of_file = match self {
            Self::Pair { set, missing } => {
                return format!("set {missing} as well, or take {set} away");
            }
            Self::Tls(ClientTlsError::File(error)) => error.hint(),
            _ => None,
        };
        of_file.unwrap_or_else(|| {
            "see --otlp-endpoint and the variables OTEL_EXPORTER_OTLP_…".to_owned()
        })
    }
}
