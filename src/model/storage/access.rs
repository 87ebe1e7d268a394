//! A service with its credentials, or without.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use object_store::ObjectStore;

use super::{
    StorageEnvironment, StorageError,
    answer::InnermostCause,
    azure, gcs,
    http::{Connector, retries},
    listing::FileIdentity,
    location::{Location, Service},
    options::StorageLimits,
    s3,
};
use crate::error::{Error, ErrorKind};

/// Access to a bucket.
#[derive(Debug)]
pub(super) struct Access {
    /// The service as the environment says: with credentials, or anonymously.
    given: Arc<dyn ObjectStore>,
    /// The service with the identity that a cloud gives its machines; for those without other
    /// credentials, and asked for only after anonymous access was denied.
    machine: Option<Arc<dyn ObjectStore>>,
    as_machine: AtomicBool,
    credentials: bool,
    /// Digest of the credentials, which changes when those in a file do.
    pub(super) digest: FileIdentity,
    /// The service's URL.
    pub(super) server: String,
    /// Region in which an S3 bucket is looked up.
    pub(super) region: String,
}

/// Function that opens a service with an identity.
pub(super) type Open =
    Box<dyn Fn(&Setting, Identity) -> object_store::Result<Arc<dyn ObjectStore>>>;

/// Findings of a service's module in the environment.
pub(super) struct Found {
    pub(super) server: String,
    pub(super) region: String,
    pub(super) open: Open,
    /// Indicates that the environment has credentials.
    pub(super) credentials: bool,
    /// Digest of those that are read once, from variables or a file.
    pub(super) digest: FileIdentity,
    /// Allows credentials to be requested from the machine.
    pub(super) ask_machine: bool,
}

/// Identity that a request is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Credentials of the environment.
    Given,
    /// No identity.
    Anonymous,
    /// The machine.
    Machine,
}

/// Settings for the builders of all services.
pub(super) struct Setting {
    pub(super) connector: Connector,
    pub(super) retries: object_store::RetryConfig,
}

impl Access {
    /// Prepares the access; blocks on files of credentials and certificates, asks no service.
    pub(super) fn new(
        location: &Location,
        environment: &StorageEnvironment,
        limits: &StorageLimits,
    ) -> Result<Self, StorageError> {
        let refuse = |error: Error| {
            let has_no_account = error.kind() == ErrorKind::NotFound;
            let text = format!("the credentials for {location} cannot be used");
            let refused = StorageError::caused(text, error);
            if has_no_account {
                refused.with_hint(azure::NO_ACCOUNT)
            } else {
                refused
            }
        };
        let found = match location.service {
            Service::S3 => s3::find(location, environment),
            Service::Gcs => gcs::find(location, environment),
            Service::Azure | Service::AzureFiles => azure::find(location, environment),
        };
        let found = found.map_err(refuse)?;
        let secure = found.server.starts_with("https://");
        let setting = Setting {
            connector: Connector::new(&location.to_string(), secure, environment, limits)?,
            retries: retries(limits),
        };
        let open = |identity| {
            (found.open)(&setting, identity).map_err(|error| {
                let cause = InnermostCause::of(&error);
                let text = format!("they are not of the right form: {cause}");
                refuse(Error::invalid(text))
            })
        };
        let identity = match found.credentials {
            true => Identity::Given,
            false => Identity::Anonymous,
        };
        let asks = !found.credentials && found.ask_machine;
        Ok(Self {
            given: open(identity)?,
            as_machine: AtomicBool::new(false),
            // A machine without an identity is no error.
            machine: asks.then(|| open(Identity::Machine).ok()).flatten(),
            credentials: found.credentials,
            digest: found.digest,
            server: found.server,
            region: found.region,
        })
    }

    /// Returns whether requests are anonymous.
    pub(super) fn is_anonymous(&self) -> bool {
        !self.credentials && !self.as_machine.load(Ordering::Relaxed)
    }

    /// Returns the store to ask.
    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        match &self.machine {
            Some(machine) if self.as_machine.load(Ordering::Relaxed) => machine,
            _ => &self.given,
        }
    }

    /// Returns the store with the machine's identity, if that has not been tried with success.
    pub(super) fn machine(&self) -> Option<&Arc<dyn ObjectStore>> {
        let untried = !self.as_machine.load(Ordering::Relaxed);
        self.machine.as_ref().filter(|_| untried)
    }

    /// Switches to the machine's identity.
    pub(super) fn go_on_as_machine(&self) {
        self.as_machine.store(true, Ordering::Relaxed);
    }
}

/// Makes the error of a file of credentials, which a variable names.
pub(super) fn unreadable(path: &Path, variable: &str, error: std::io::Error) -> Error {
    let text = format!("cannot read {}, which `{variable}` names", path.display());
    Error::invalid(text).with_source(error)
}
