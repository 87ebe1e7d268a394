//! Errors of storage, in words for the log and the user.

use std::{path::PathBuf, time::Duration};

use super::answer::{InnermostCause, StorageRefusal};
use crate::https::CertificatesError;

/// Error of listing or downloading versions.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The base path cannot be one, or nothing is there.
    #[error("The provided base path is invalid or doesn't exists - {base_path}: {reason}")]
    BasePath {
        /// The base path.
        base_path: String,
        /// Reason it is invalid.
        reason: String,
    },
    /// A base path on an Azure file share.
    #[error(
        "The provided base path is invalid or doesn't exists - {0}: Azure file shares are not \
         supported"
    )]
    FileShare(String),
    /// The credentials in the environment make no sense.
    #[error("the credentials for {base_path} cannot be used")]
    Credentials {
        /// The base path.
        base_path: String,
        /// Error in the credentials.
        #[source]
        source: CredentialsError,
    },
    /// The service does not let us in.
    #[error(
        "access to {base_path} is denied{}",
        if *anonymous { " without credentials" } else { " to these credentials" }
    )]
    Denied {
        /// The base path.
        base_path: String,
        /// Whether no credentials were sent.
        anonymous: bool,
        /// Variables to set, to have credentials.
        wanted: &'static str,
        /// Response of the service.
        #[source]
        source: Box<StorageRefusal>,
    },
    /// There is no such bucket or container.
    #[error("bucket `{bucket}` does not exist")]
    NoBucket {
        /// The bucket, or container.
        bucket: String,
        /// Response of the service.
        #[source]
        source: Box<StorageRefusal>,
    },
    /// The bucket is in another region than the requests were sent to.
    #[error(
        "bucket `{bucket}` is in region `{}`, not in `{asked}`",
        region.as_deref().unwrap_or("another")
    )]
    Region {
        /// The bucket.
        bucket: String,
        /// Region of the bucket, if the service reported it.
        region: Option<String>,
        /// Region in which it was looked up.
        asked: String,
    },
    /// No connection to the service.
    #[error("cannot reach {server} for {base_path}")]
    Unreachable {
        /// The base path.
        base_path: String,
        /// The server, as a URL.
        server: String,
        /// Error of the connection.
        #[source]
        source: InnermostCause,
    },
    /// The service took too long.
    #[error("{server} did not answer for {base_path} within {} s", after.as_secs_f32())]
    TimedOut {
        /// The base path.
        base_path: String,
        /// The server, as a URL.
        server: String,
        /// Time waited.
        after: Duration,
    },
    /// Another failure of a request.
    #[error("cannot read {base_path}")]
    Request {
        /// The base path.
        base_path: String,
        /// Error of the service or the connection.
        #[source]
        source: InnermostCause,
    },
    /// An object whose name is no path below a version folder.
    #[error("`{name}` in {base_path} is refused: an object's name has to be a plain relative path")]
    ObjectName {
        /// The base path.
        base_path: String,
        /// The name, as far as it is known.
        name: String,
    },
    /// More objects than a model repository has.
    #[error("there are more than {limit} objects in {place}")]
    TooManyObjects {
        /// The base path, or version folder.
        place: String,
        /// The limit.
        limit: usize,
    },
    /// A version larger than what is downloaded.
    #[error("{place} has {bytes} bytes; at most {limit} are downloaded")]
    TooLarge {
        /// The version folder.
        place: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// An object became another one during the download.
    #[error("`{object}` changed while it was downloaded")]
    Changed {
        /// The object.
        object: String,
    },
    /// A download ended before its end.
    #[error("the download of `{object}` broke off after {received} of {expected} bytes")]
    BrokenOff {
        /// The object.
        object: String,
        /// Bytes received.
        received: u64,
        /// Bytes expected.
        expected: u64,
        /// Error of the connection, if any.
        #[source]
        source: Option<InnermostCause>,
    },
    /// The folder of downloaded versions.
    #[error("cannot use {} for downloaded models", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
    /// There is no folder for downloaded versions.
    #[error("there is no safe folder for downloaded models")]
    NoCache,
    /// A proxy that the environment names.
    #[error("`{variable}` is no URL of a proxy")]
    Proxy {
        /// The environment variable.
        variable: &'static str,
    },
    /// Nobody is trusted, so no connection can be made.
    #[error("cannot make secure connections for {base_path}")]
    Certificates {
        /// The base path.
        base_path: String,
        /// Error of the certificates.
        #[source]
        source: CertificatesError,
    },
}

/// Error in the credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// One of two that belong together.
    #[error("`{given}` is set and `{missing}` is not")]
    Half {
        /// Variable that is set.
        given: &'static str,
        /// Variable that is missing.
        missing: &'static str,
    },
    /// A file of credentials.
    #[error("cannot read {}, which `{variable}` names", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The variable.
        variable: &'static str,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A profile that is not in the file.
    #[error("there is no profile `{profile}` in {}", path.display())]
    NoProfile {
        /// Its name.
        profile: String,
        /// The file.
        path: PathBuf,
    },
    /// A profile without keys.
    #[error(
        "profile `{profile}` has no `{key}`; only profiles with keys are supported, not roles, \
         single sign-on or processes"
    )]
    NoKey {
        /// Its name.
        profile: String,
        /// The missing entry.
        key: &'static str,
    },
    /// A connection string that cannot be read.
    #[error("`AZURE_STORAGE_CONNECTION_STRING` {0}")]
    ConnectionString(&'static str),
    /// Azure needs an account in any case.
    #[error("no storage account is named")]
    NoAccount,
    /// The storage library refuses them.
    #[error("they are not of the right form: {0}")]
    Form(InnermostCause),
}

impl StorageError {
    /// Returns a hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::FileShare(_) => {
                "copy the models to a blob container and name it as az://container/path".to_owned()
            }
            Self::Denied {
                anonymous: true,
                wanted,
                ..
            } => format!("set {wanted}"),
            Self::Denied { source, .. } => format!(
                "{} the credentials need the right to list the bucket and to read its objects",
                if source.is_about_the_key() {
                    "check the key and the secret;"
                } else {
                    "check the bucket's name;"
                }
            ),
            Self::Credentials {
                source: CredentialsError::NoAccount,
                ..
            } => "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT for a public \
                  container"
                .to_owned(),
            Self::Region {
                region: Some(region),
                ..
            } => format!("set AWS_REGION={region}"),
            Self::Region { .. } => "set AWS_REGION to the region of the bucket".to_owned(),
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                "check the address, and the proxies in https_proxy, http_proxy and no_proxy"
                    .to_owned()
            }
            Self::Certificates { .. } => "install the package ca-certificates, or name a file of \
                                          certificates in SSL_CERT_FILE"
                .to_owned(),
            Self::Cache { .. } | Self::NoCache => {
                "name a folder of your own in OVMS_MODEL_CACHE".to_owned()
            }
            Self::TooManyObjects { .. } => {
                "is this the folder of one model, with its version folders?".to_owned()
            }
            _ => return None,
        })
    }
}
