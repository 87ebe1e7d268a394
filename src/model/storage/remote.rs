//! A base path in the cloud: its versions, and their copies on disk.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::TryStreamExt as _;
use object_store::{ObjectMeta, ObjectStore};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use super::{
    StorageEnvironment, StorageError,
    access::Access,
    answer::{Failure, InnermostCause},
    copies::{Copies, Source},
    download::{Download, DownloadProgress},
    listing::{FileIdentity, Object, RemoteVersion, files, sorted},
    location::Location,
    options::{StorageLimits, StorageOptions},
};
use crate::{model::folders::FolderSurvey, task};

/// Minimum time limit of a download, however small.
const LEAST_TIME: Duration = Duration::from_secs(60);

/// A model repository in the cloud.
#[derive(Debug)]
pub struct Storage {
    location: Location,
    environment: StorageEnvironment,
    access: ArcSwap<Access>,
    copies: Arc<Copies>,
    limits: StorageLimits,
    progress: watch::Sender<DownloadProgress>,
    /// One download at a time: two would only share the line, and progress is of one. The map has the
    /// versions whose last download failed: that another one begins is no news.
    downloading: Mutex<HashMap<i64, FileIdentity>>,
}

impl Storage {
    /// Prepares the access to a base path such as `s3://bucket/prefix`; asks no service yet.
    ///
    /// # Errors
    ///
    /// Fails if the base path or the credentials make no sense, or the folder for downloads cannot
    /// be used.
    pub async fn open(base_path: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        let location = Location::parse(base_path)?;
        let options = options.clone();
        task::blocking("storage open", move || {
            let access = Access::new(&location, &options.environment, &options.limits)?;
            let source = Source {
                server: &access.server,
                base_path: &location.to_string(),
            };
            let copies = Copies::open(&options.cache, &source)?;
            Ok(Self {
                copies: Arc::new(copies),
                access: ArcSwap::from_pointee(access),
                location,
                environment: options.environment,
                limits: options.limits,
                progress: watch::Sender::default(),
                downloading: Mutex::default(),
            })
        })
        .await
    }

    /// Lists the versions with their objects, and the folders that are none.
    ///
    /// # Errors
    ///
    /// Fails within the time limit of listings, or twice that where credentials were renewed, if the service cannot be
    /// reached, does not let us in, or has nothing below the base path.
    pub async fn survey(&self) -> Result<FolderSurvey<RemoteVersion>, StorageError> {
        let objects = self.list().await?;
        if objects.is_empty() && !self.location.prefix.is_root() {
            let base_path = self.location.to_string();
            let reason = "there are no objects below it";
            return Err(StorageError::base_path(&base_path, reason));
        }
        Ok(sorted(&self.location.prefix, objects))
    }

    /// Returns the folder with a version's files; downloads them unless they are there.
    ///
    /// The folder stays until [`Self::keep_only`] deletes it; until this storage is dropped no other
    /// server deletes it.
    ///
    /// # Errors
    ///
    /// Fails if an object cannot be read to its end, is another one than was listed, or cannot be
    /// written. Nothing is left of a download that failed.
    pub async fn fetch(&self, version: &RemoteVersion) -> Result<PathBuf, StorageError> {
        let files = files(&self.location, version, &self.limits)?;
        let mut failed = self.downloading.lock().await;
        if let Some(path) = self.find(version, &files).await {
            tracing::debug!(folder = %path.display(), "already downloaded");
            return Ok(path);
        }
        let again = failed.get(&version.number) == Some(&version.identity);
        let downloaded = self.download(version, &files, again).await;
        match downloaded {
            Ok(_) => failed.remove(&version.number),
            Err(_) => failed.insert(version.number, version.identity),
        };
        downloaded
    }

    /// Downloads a version; `again` if that was tried before.
    async fn download(
        &self,
        version: &RemoteVersion,
        files: &Arc<[Object]>,
        again: bool,
    ) -> Result<PathBuf, StorageError> {
        let copies = Arc::clone(&self.copies);
        let unfinished = task::blocking("storage begin", move || copies.begin()).await?;
        let base_path = self.location.to_string();
        let expected = version.bytes();
        if again {
            tracing::debug!(
                from = base_path,
                version = version.number,
                "downloading again"
            );
        } else {
            tracing::info!(
                from = base_path,
                version = version.number,
                files = files.len(),
                bytes = expected,
                "downloading"
            );
        }
        let started = tokio::time::Instant::now();
        self.progress.send_replace(DownloadProgress {
            version: version.number,
            received: 0,
            expected,
        });
        let access = self.access.load_full();
        let download = Download {
            store: access.store(),
            base_path: &base_path,
            folder: unfinished.path(),
            progress: &self.progress,
            logged: std::sync::Mutex::new(std::time::Instant::now()),
            explain: &|error| self.explain(&error),
        };
        let limit = LEAST_TIME + Duration::from_secs(expected / self.limits.slowest.max(1));
        timeout(limit, download.run(files))
            .await
            .map_err(|_| self.timed_out(limit))??;
        let (copies, files) = (Arc::clone(&self.copies), Arc::clone(files));
        let (number, version) = (version.number, version.clone());
        let finish = move || copies.finish(unfinished, &version, &files);
        let path = task::blocking("storage finish", finish).await?;
        tracing::info!(
            from = base_path,
            version = number,
            seconds = started.elapsed().as_secs_f32(),
            "downloaded"
        );
        Ok(path)
    }

    /// Deletes everything that was downloaded but these versions as they are listed.
    pub async fn keep_only(&self, versions: &[RemoteVersion]) {
        let (copies, versions) = (Arc::clone(&self.copies), versions.to_vec());
        task::blocking("storage keep", move || copies.keep_only(&versions)).await;
    }

    /// Returns the progress of the present download.
    pub fn progress(&self) -> watch::Receiver<DownloadProgress> {
        self.progress.subscribe()
    }

    async fn find(&self, version: &RemoteVersion, files: &Arc<[Object]>) -> Option<PathBuf> {
        let (copies, version) = (Arc::clone(&self.copies), version.clone());
        let files = Arc::clone(files);
        task::blocking("storage find", move || copies.find(&version, &files)).await
    }

    /// Lists every object; where access is denied, with the credentials that a file has meanwhile, or, if there are none,
    /// with this machine's identity.
    async fn list(&self) -> Result<Vec<ObjectMeta>, StorageError> {
        let mut access = self.access.load_full();
        let mut given = self.list_from(access.store(), self.limits.listing).await;
        if matches!(given, Err(StorageError::Denied { .. }))
            && let Some(renewed) = self.renewed(&access).await
        {
            self.access.store(Arc::clone(&renewed));
            access = renewed;
            given = self.list_from(access.store(), self.limits.listing).await;
        }
        let Err(denied @ StorageError::Denied { .. }) = given else {
            return given;
        };
        let Some(machine) = access.machine() else {
            return Err(denied);
        };
        match self.list_from(machine, self.limits.identity).await {
            Ok(objects) => {
                access.go_on_as_machine();
                Ok(objects)
            }
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::debug!(error, "this machine has no identity that is let in");
                Err(denied)
            }
        }
    }

    /// Reads the credentials again; `None` if they are as before, or cannot be used.
    async fn renewed(&self, before: &Access) -> Option<Arc<Access>> {
        let (location, limits) = (self.location.clone(), self.limits.clone());
        let environment = self.environment.clone();
        let read = move || Access::new(&location, &environment, &limits);
        let renewed = task::blocking("storage credentials", read).await.ok()?;
        (renewed.digest != before.digest).then(|| Arc::new(renewed))
    }

    async fn list_from(
        &self,
        store: &Arc<dyn ObjectStore>,
        limit: Duration,
    ) -> Result<Vec<ObjectMeta>, StorageError> {
        let prefix = Some(&self.location.prefix).filter(|prefix| !prefix.is_root());
        let listing = async {
            let mut objects = Vec::new();
            let mut listed = store.list(prefix);
            while let Some(object) = listed
                .try_next()
                .await
                .map_err(|error| self.explain(&error))?
            {
                if objects.len() == self.limits.objects {
                    let (limit, place) = (self.limits.objects, &self.location);
                    let text = format!("there are more than {limit} objects in {place}");
                    let hint = "is this the folder of one model, with its version folders?";
                    return Err(StorageError::other(text).with_hint(hint));
                }
                objects.push(object);
            }
            Ok(objects)
        };
        timeout(limit, listing)
            .await
            .map_err(|_| self.timed_out(limit))?
    }

    fn timed_out(&self, after: Duration) -> StorageError {
        StorageError::TimedOut {
            base_path: self.location.to_string(),
            server: self.access.load().server.clone(),
            after,
        }
    }

    /// Finds the words for a failure of the storage library.
    fn explain(&self, error: &object_store::Error) -> StorageError {
        let base_path = self.location.to_string();
        let bucket = &self.location.bucket;
        let access = self.access.load();
        match Failure::of(error) {
            Failure::Refused(refused) if matches!(refused.status, 301 | 307 | 308) => {
                let region = refused.region.as_deref();
                let hint = region.map_or_else(
                    || "set AWS_REGION to the region of the bucket".to_owned(),
                    |region| format!("set AWS_REGION={region}"),
                );
                StorageError::other(format!(
                    "bucket `{bucket}` is in region `{}`, not in `{}`",
                    region.unwrap_or("another"),
                    access.region
                ))
                .with_hint(hint)
            }
            Failure::Refused(refused) if refused.is_missing_bucket() => {
                StorageError::caused(format!("bucket `{bucket}` does not exist"), refused)
            }
            Failure::Refused(refused) if refused.wants_credentials() => StorageError::Denied {
                base_path,
                anonymous: access.is_anonymous(),
                wanted: self.location.wanted(),
                source: Box::new(refused),
            },
            Failure::Refused(refused) => {
                StorageError::request(&base_path, InnermostCause::of(&refused))
            }
            Failure::Connection(source) => StorageError::Unreachable {
                base_path,
                server: access.server.clone(),
                source,
            },
            Failure::TimedOut => self.timed_out(self.limits.silence),
            Failure::Name(name) => StorageError::object_name(&base_path, &name),
            Failure::Other(source) => StorageError::request(&base_path, source),
        }
    }
}
