//! Errors of storage, in words for the log and the user.

use std::{error::Error, io, path::Path, time::Duration};

use super::answer::{InnermostCause, StorageRefusal};

/// Error of listing or downloading versions.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The service does not let us in.
    #[error(
        "access to {base_path} is denied{}",
        if *anonymous { " without credentials" } else { " to these credentials" }
    )]
    Denied {
        /// The base path.
        base_path: String,
        /// Indicates that no credentials were sent.
        anonymous: bool,
        /// Variables to set, to have credentials.
        wanted: &'static str,
        /// Response of the service.
        #[source]
        source: Box<StorageRefusal>,
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
    /// An object became another one during the download.
    #[error("`{object}` changed while it was downloaded")]
    Changed {
        /// The object.
        object: String,
    },
    /// Any other error.
    #[error("{text}")]
    Other {
        /// Text for the log and the user.
        text: String,
        /// A hint for the user, if there is one.
        hint: Option<String>,
        /// Cause, if there is one.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl StorageError {
    /// Makes an error without a cause.
    pub(super) fn other(text: impl Into<String>) -> Self {
        Self::Other {
            text: text.into(),
            hint: None,
            source: None,
        }
    }

    /// Makes an error with its cause.
    pub(super) fn caused(
        text: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Other {
            text: text.into(),
            hint: None,
            source: Some(source.into()),
        }
    }

    /// Adds a hint for the user.
    pub(super) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Other { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Makes the error of a base path that cannot be one, or where nothing is.
    pub(super) fn base_path(base_path: &str, reason: &str) -> Self {
        Self::other(format!(
            "The provided base path is invalid or doesn't exists - {base_path}: {reason}"
        ))
    }

    /// Makes the error of a request that failed in another way.
    pub(super) fn request(base_path: &str, source: InnermostCause) -> Self {
        Self::caused(format!("cannot read {base_path}"), source)
    }

    /// Makes the error of an object whose name, as far as it is known, is no path below a version folder.
    pub(super) fn object_name(base_path: &str, name: &str) -> Self {
        Self::other(format!(
            "`{name}` in {base_path} is refused: an object's name has to be a plain relative path"
        ))
    }

    /// Makes the error of the folder of downloaded versions, or a file in it.
    pub(super) fn cache(path: &Path, source: io::Error) -> Self {
        let text = format!("cannot use {} for downloaded models", path.display());
        Self::caused(text, source).with_hint(OWN_FOLDER)
    }

    /// Makes the error that there is no folder for downloaded versions.
    pub(super) fn no_cache() -> Self {
        Self::other("there is no safe folder for downloaded models").with_hint(OWN_FOLDER)
    }

    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Denied {
                anonymous: true,
                wanted,
                ..
            } => Some(format!("set {wanted}")),
            Self::Denied { source, .. } => Some(format!(
                "{} the credentials need the right to list the bucket and to read its objects",
                if source.is_about_the_key() {
                    "check the key and the secret;"
                } else {
                    "check the bucket's name;"
                }
            )),
            Self::Unreachable { .. } | Self::TimedOut { .. } => Some(
                "check the address, and the proxies in https_proxy, http_proxy and no_proxy"
                    .to_owned(),
            ),
            Self::Changed { .. } => None,
            Self::Other { hint, .. } => hint.clone(),
        }
    }
}

const OWN_FOLDER: &str = "name a folder of your own in OVMS_MODEL_CACHE";
