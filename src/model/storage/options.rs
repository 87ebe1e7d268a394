//! Options of a storage: the folder of copies, time limits, and size limits.

use std::{
    fs::{DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{StorageEnvironment, StorageError};

/// The settings of a [`Storage`](super::Storage).
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// The folder of downloaded versions.
    pub cache: PathBuf,
    /// Credentials, endpoints and proxies.
    pub environment: StorageEnvironment,
    /// Times and sizes.
    pub limits: StorageLimits,
}

/// Bounds on what a service can make us wait for or store.
#[derive(Debug, Clone)]
pub struct StorageLimits {
    /// Time limit of connecting.
    pub connect: Duration,
    /// Maximum pause within a response.
    pub silence: Duration,
    /// Time limit of a listing, with all its pages and repetitions: so that a wrong address or
    /// missing credentials are reported within seconds.
    pub listing: Duration,
    /// Time limit of asking for this machine's identity, where a cloud would give it.
    pub identity: Duration,
    /// Number of retries of a request that failed for a passing reason.
    pub retries: usize,
    /// The slowest download in bytes a second, on the average of a version; one minute is granted
    /// in any case.
    pub slowest: u64,
    /// Maximum number of objects below a base path: a thousand come with one request, and a
    /// repository of 100 versions with a hundred files each has ten thousand.
    pub objects: usize,
    /// Maximum bytes of one version: more than the largest models that are served from one machine.
    pub bytes: u64,
}

impl Default for StorageLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            listing: Duration::from_secs(10),
            identity: Duration::from_secs(3),
            retries: 2,
            slowest: 64 << 10,
            objects: 10_000,
            bytes: 1 << 40,
        }
    }
}

impl StorageOptions {
    /// Returns the settings that this process's environment asks for; makes the folder.
    ///
    /// # Errors
    ///
    /// Fails if there is no folder to keep downloads in.
    pub fn of_process() -> Result<Self, StorageError> {
        let environment = StorageEnvironment::of_process();
        Ok(Self {
            cache: cache(&environment)?,
            environment,
            limits: StorageLimits::default(),
        })
    }
}

/// Finds the folder for downloads: `OVMS_MODEL_CACHE`; else `ovms/models` below the user's cache
/// folder (XDG base directories); else, where there is no home, a folder of this user's alone below
/// that for temporary files.
fn cache(environment: &StorageEnvironment) -> Result<PathBuf, StorageError> {
    if let Some(path) = environment.get("OVMS_MODEL_CACHE").map(PathBuf::from) {
        make(&path).map_err(|error| StorageError::cache(&path, error))?;
        return Ok(path);
    }
    let home = || Some(environment.path("HOME")?.join(".cache"));
    if let Some(caches) = environment.path("XDG_CACHE_HOME").or_else(home) {
        let path = caches.join("ovms/models");
        match make(&path) {
            Ok(()) => return Ok(path),
            // Containers often run as a user whose home is not its own.
            Err(error) => tracing::debug!(path = %path.display(), %error, "no folder for models"),
        }
    }
    let user = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("ovms-models-{user}"));
    let made = make(&path).and_then(|()| path.symlink_metadata());
    match made {
        Ok(found) if is_ours_alone(&found, user) => Ok(path),
        // Somebody else may have put it there, and models in it.
        Ok(_) => Err(StorageError::no_cache()),
        Err(error) => Err(StorageError::cache(&path, error)),
    }
}

fn is_ours_alone(found: &Metadata, user: u32) -> bool {
    found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0
}

/// Makes a folder, and those above it, that only its owner can change or look into.
pub(super) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // It may have been there, and not be ours.
    tempfile::tempfile_in(path).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{cache, is_ours_alone};
    use crate::model::storage::StorageEnvironment;

    #[test]
    fn the_folder_is_where_the_environment_says() {
        let root = tempfile::tempdir().unwrap();
        let below = |name: &str| root.path().join(name);
        let find = |variables: &[(&str, String)]| {
            let environment: StorageEnvironment = variables.iter().cloned().collect();
            cache(&environment).unwrap()
        };
        let text = |name: &str| below(name).display().to_string();
        let home = ("HOME", text("home"));
        let xdg = ("XDG_CACHE_HOME", text("xdg"));
        let own = ("OVMS_MODEL_CACHE", text("own"));
        assert_eq!(
            find(std::slice::from_ref(&home)),
            below("home/.cache/ovms/models")
        );
        assert_eq!(find(&[home.clone(), xdg.clone()]), below("xdg/ovms/models"));
        assert_eq!(find(&[home, xdg, own]), below("own"));
    }

    #[test]
    fn a_folder_of_ones_own_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().join("below").display().to_string();
        let environment = [("OVMS_MODEL_CACHE", path)].into_iter().collect();
        let refused = cache(&environment).unwrap_err().to_string();
        assert!(refused.starts_with("cannot use "), "{refused}");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_ours_alone() {
        let root = tempfile::tempdir().unwrap();
        let user = rustix::process::getuid().as_raw();
        let look = |mode| {
            fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
            is_ours_alone(&root.path().symlink_metadata().unwrap(), user)
        };
        assert!(look(0o700));
        assert!(!look(0o777));
    }
}
