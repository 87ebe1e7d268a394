//! A model's repository, wherever it is: what the loader looks at.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use tokio::sync::watch;

use super::{
    DownloadProgress, FileIdentity, RemoteVersion, Storage, StorageError, StorageOptions,
    is_remote, surveys::Looks,
};
use crate::{
    model::{
        folders::FolderSurvey,
        labels, mapping,
        repository::{self, RepositoryError},
    },
    task,
};

/// Maximum number of files of a version folder that make its identity; a model has a few, a `SavedModel` some
/// dozens.
const MAX_FILES: usize = 10_000;

/// Source of the versions of one model.
#[derive(Debug)]
pub enum Repository {
    /// A folder of this machine.
    Local(PathBuf),
    /// A bucket.
    Remote(Box<Storage>),
}

/// A version that a repository has.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// Its number.
    pub number: i64,
    /// Identity, which changes when a file does.
    pub identity: FileIdentity,
    /// Location of a version's files.
    pub locator: Locator,
}

/// Location of a version's files.
#[derive(Debug, Clone)]
pub enum Locator {
    /// In a folder.
    Folder(PathBuf),
    /// In the cloud.
    Remote(RemoteVersion),
}

/// Error of a repository that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A local one.
    #[error(transparent)]
    Local(#[from] RepositoryError),
    /// One in the cloud.
    #[error(transparent)]
    Remote(#[from] StorageError),
}

impl SourceError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Local(_) => None,
            Self::Remote(error) => error.hint(),
        }
    }
}

impl Repository {
    /// Prepares the access to a base path; `options` are asked for only if it is in the cloud.
    ///
    /// # Errors
    ///
    /// Fails as [`Storage::open`] does. A folder is not looked at yet.
    pub async fn open(
        base_path: &str,
        options: impl FnOnce() -> Result<StorageOptions, StorageError>,
    ) -> Result<Self, SourceError> {
        if !is_remote(base_path) {
            return Ok(Self::Local(base_path.into()));
        }
        let storage = Storage::open(base_path, &options()?).await?;
        Ok(Self::Remote(Box::new(storage)))
    }

    /// Returns the progress of the present download; `None` where nothing is downloaded.
    pub fn progress(&self) -> Option<watch::Receiver<DownloadProgress>> {
        match self {
            Self::Local(_) => None,
            Self::Remote(storage) => Some(storage.progress()),
        }
    }

    /// Finds the versions, and the folders that are none.
    ///
    /// # Errors
    ///
    /// Fails if the base path cannot be read.
    pub async fn survey(&self) -> Result<FolderSurvey<FoundVersion>, SourceError> {
        match self {
            Self::Local(base_path) => {
                let base_path = base_path.clone();
                let look = move || look_at(&base_path, &mut Looks::unused());
                Ok(task::blocking("repository scan", look).await?)
            }
            Self::Remote(storage) => {
                let listed = storage.survey().await?;
                Ok(listed.map(|version| FoundVersion {
                    number: version.number,
                    identity: version.identity,
                    locator: Locator::Remote(version),
                }))
            }
        }
    }

    /// Returns the folder with a version's files, after a download if need be.
    ///
    /// # Errors
    ///
    /// Fails as [`Storage::fetch`] does.
    pub async fn local(&self, locator: &Locator) -> Result<PathBuf, SourceError> {
        match (self, locator) {
            (_, Locator::Folder(path)) => Ok(path.clone()),
            (Self::Remote(storage), Locator::Remote(version)) => Ok(storage.fetch(version).await?),
            (Self::Local(path), Locator::Remote(_)) => Err(RepositoryError::NoModel(path.clone()))?,
        }
    }

    /// Deletes local copies but those of these versions; folders of this machine are never touched.
    pub async fn keep_only(&self, locators: &[Locator]) {
        if let Self::Remote(storage) = self {
            let versions: Vec<RemoteVersion> = locators
                .iter()
                .filter_map(|locator| match locator {
                    Locator::Remote(version) => Some(version.clone()),
                    Locator::Folder(_) => None,
                })
                .collect();
            storage.keep_only(&versions).await;
        }
    }
}

/// Finds the versions of a folder of this machine, and notes what that depends on.
pub(super) fn look_at(
    base_path: &Path,
    looks: &mut Looks,
) -> Result<FolderSurvey<FoundVersion>, RepositoryError> {
    looks.note_folder(base_path);
    let survey = repository::survey_noting(base_path, &mut || looks.give_up())?;
    Ok(survey.map(|(number, folder)| FoundVersion {
        number,
        identity: identity(&folder, base_path, looks),
        locator: Locator::Folder(folder),
    }))
}

/// Makes the identity of a folder: names, sizes and times of its files, those of the folders in it
/// too, and of the labels beside it. What cannot be read counts as absent; the load will say so.
fn identity(folder: &Path, base_path: &Path, looks: &mut Looks) -> FileIdentity {
    let mut facts = Vec::new();
    if folder.is_file() {
        // Some of these files may be absent, and come.
        looks.give_up();
        let names = mapping::path(folder.parent().unwrap_or(folder));
        let files = repository::parts(folder).into_iter().chain([names]);
        let files = files
            .chain(labels::paths(folder))
            .chain(external_data(folder));
        facts.extend(files.filter_map(|file| fact(&file, looks)));
    } else if walk(folder, &mut facts, looks).is_err() {
        // An error ends the walk, and the identity is that of the files found until then.
        looks.give_up();
    } else {
        let beside = labels::paths(folder).find(|path| path.parent() != Some(folder));
        if let Some(labels) = beside.filter(|path| path.is_file()) {
            // Otherwise the survey has noted the folder, in which it may come and go.
            if labels.parent() != Some(base_path) {
                looks.give_up();
            }
            facts.extend(fact(&labels, looks));
        }
    }
    facts.sort();
    FileIdentity::of(facts)
}

/// Returns where programs write the weights of an ONNX file that are not in it, beside it: `m.onnx.data`, `m.onnx_data`,
/// `m.data`.
fn external_data(file: &Path) -> impl Iterator<Item = PathBuf> {
    let appended = [".data", "_data"].map(|end| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        name.into()
    });
    appended.into_iter().chain([file.with_extension("data")])
}

fn walk(folder: &Path, facts: &mut Vec<String>, looks: &mut Looks) -> io::Result<()> {
    looks.note_folder(folder);
    for entry in fs::read_dir(folder)?.flatten() {
        if facts.len() >= MAX_FILES {
            looks.give_up();
            return Ok(());
        }
        let path = entry.path();
        // Folders are entered, links to folders are not: they may lead in a circle.
        if entry.file_type()?.is_dir() {
            walk(&path, facts, looks)?;
            continue;
        }
        facts.extend(fact(&path, looks));
    }
    Ok(())
}

/// Returns name, size and time of a file; `None` if there is none.
fn fact(path: &Path, looks: &mut Looks) -> Option<String> {
    let Ok(found) = path.metadata() else {
        looks.give_up();
        return None;
    };
    looks.note(path, &found);
    let changed = found.modified().ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Some(format!(
        "{}\n{}\n{}",
        path.display(),
        found.len(),
        changed.unwrap_or_default().as_nanos()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Repository, SourceError, StorageError};
    use crate::task::Task;

    #[tokio::test]
    async fn whoever_awaits_a_download_may_be_sent_to_another_thread() {
        // That this compiles is the test: references held over an await are what breaks it.
        let looked: Result<_, SourceError> = Task::spawn(async move {
            let repository =
                Repository::open("azfs://a/b", || Err(StorageError::no_cache())).await?;
            for found in repository.survey().await?.versions {
                repository.local(&found.locator).await?;
                repository
                    .keep_only(std::slice::from_ref(&found.locator))
                    .await;
            }
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(
            looked.unwrap_err().to_string(),
            "there is no safe folder for downloaded models"
        );
    }

    #[tokio::test]
    async fn a_local_repository_needs_no_options_and_notices_changes() {
        let root = tempfile::tempdir().unwrap();
        let variables = root.path().join("3/variables");
        fs::create_dir_all(&variables).unwrap();
        fs::write(root.path().join("3/saved_model.pb"), "a").unwrap();
        let base_path = root.path().display().to_string();
        let repository = Repository::open(&base_path, || Err(StorageError::no_cache()))
            .await
            .unwrap();
        let first = repository.survey().await.unwrap().versions;
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].number, 3);
        let folder = repository.local(&first[0].locator).await.unwrap();
        assert_eq!(folder, root.path().join("3"));
        let same = repository.survey().await.unwrap().versions;
        assert_eq!(first[0].identity, same[0].identity);
        fs::write(variables.join("index"), "b").unwrap();
        let changed = repository.survey().await.unwrap().versions;
        assert_ne!(first[0].identity, changed[0].identity);
        // Those that the version has count, and other files beside it do not.
        fs::write(root.path().join("notes.txt"), "c").unwrap();
        let same = repository.survey().await.unwrap().versions;
        assert_eq!(changed[0].identity, same[0].identity);
        fs::write(root.path().join("labels.txt"), "c").unwrap();
        let labelled = repository.survey().await.unwrap().versions;
        assert_ne!(changed[0].identity, labelled[0].identity);
        repository.keep_only(&[]).await;
        assert!(folder.exists());
    }

    #[tokio::test]
    async fn data_beside_a_model_file_belongs_to_it() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("m.onnx");
        fs::write(&file, "a").unwrap();
        let base_path = file.display().to_string();
        let identity = async || {
            let repository = Repository::open(&base_path, || Err(StorageError::no_cache()));
            let found = repository.await.unwrap().survey().await.unwrap().versions;
            found[0].identity
        };
        let first = identity().await;
        fs::write(root.path().join("n.onnx.data"), "b").unwrap();
        assert_eq!(first, identity().await, "it is another model's");
        fs::write(root.path().join("m.onnx.data"), "b").unwrap();
        let with_data = identity().await;
        assert_ne!(first, with_data);
        fs::write(root.path().join("m.onnx.data"), "bc").unwrap();
        assert_ne!(with_data, identity().await);
    }
}
