//! Model repositories in the cloud: `s3://bucket/prefix`, `gs://bucket/prefix` and
//! `az://container/prefix`, brought to a folder of this machine.
//!
//! Not for local folders, which `model::repository` reads, nor for loading. A loader need not tell
//! the two apart: [`Repository`] is either.
//!
//! ```ignore
//! let repository = Repository::open(&config.base_path, Options::of_process).await?;
//! // At the start and at every reload pass:
//! let found = repository.survey(None).await?.versions; // number, identity, locator
//! // …choose by policy; load what is new or has another identity than what is loaded:
//! let folder = repository.local(&version.locator).await?;
//! let files = model::repository::files(&folder)?;
//! // After the swap, with what is served now:
//! repository.keep_only(&served).await;
//! ```
//!
//! Keep the [`Repository`] for as long as the model is configured: it holds connections, knows
//! whether the machine's identity is needed, and keeps other servers from deleting its copies.
//!
//! In order of use: [`location`] takes the base path apart, [`access`] finds the credentials and
//! opens the service ([`s3`], [`gcs`], [`azure`], over [`http`]), [`listing`] turns objects into
//! versions, [`download`] writes them into [`copies`]; [`answer`] and [`error`] are for failures.

mod access;
mod answer;
mod azure;
mod copies;
mod download;
mod environment;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod gcs;
mod http;
mod listing;
mod location;
mod options;
mod remote;
mod repository;
mod s3;
mod surveys;

pub use answer::{InnermostCause, StorageRefusal};
pub use download::DownloadProgress;
pub use environment::StorageEnvironment;
pub use error::StorageError;
pub use listing::{FileIdentity, Object, RemoteVersion};
pub use location::{check_remote, is_remote};
pub use options::{StorageLimits, StorageOptions};
pub use remote::Storage;
pub use repository::{FoundVersion, Locator, Repository, SourceError};
pub use surveys::{KnownSurveys, SurveyPlace};
