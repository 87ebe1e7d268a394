//! A model's repository, wherever it is: what the loader looks at.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
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
        repository::{self, ModelFiles, RepositoryError},
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
    /// Identity, which changes when name, size, or time of a file does.
    pub identity: FileIdentity,
    /// Identity that changes when another file is in the place of one. Some file systems, such as those of buckets,
    /// number their files as they go, so that it may also change by itself.
    pub files: FileIdentity,
    /// Location of a version's files.
    pub locator: Locator,
}

/// Location of a version's files.
#[derive(Debug, Clone)]
pub enum Locator {
    /// Version in a folder.
    Folder(PathBuf),
    /// Version in the cloud.
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

    /// Finds the versions, and the folders that are none; `model_file` is the name of the model file in each version,
    /// if that is given.
    ///
    /// # Errors
    ///
    /// Fails if the base path cannot be read.
    pub async fn survey(
        &self,
        model_file: Option<Arc<str>>,
    ) -> Result<FolderSurvey<FoundVersion>, SourceError> {
        match self {
            Self::Local(base_path) => {
                let base_path = base_path.clone();
                let look = move || look_at(&base_path, model_file.as_deref(), &mut Looks::unused());
                Ok(task::blocking("repository scan", look).await?)
            }
            Self::Remote(storage) => {
                let listed = storage.survey().await?;
                Ok(listed.map(|version| FoundVersion {
                    number: version.number,
                    identity: version.identity,
                    files: version.identity,
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

/// Finds the versions of a folder of this machine, of which a model file may be named, and notes what that depends on.
pub(super) fn look_at(
    base_path: &Path,
    model_file: Option<&str>,
    looks: &mut Looks,
) -> Result<FolderSurvey<FoundVersion>, RepositoryError> {
    looks.note_folder(base_path);
    let survey = repository::survey_noting(base_path, &mut || looks.give_up())?;
    Ok(survey.map(|(number, folder)| {
        let facts = match folder.is_file() {
            true => facts_of_file(&folder, looks),
            false => facts_of_folder(&folder, base_path, model_file, looks),
        };
        let (identity, files) = identities(facts);
        FoundVersion {
            number,
            identity,
            files,
            locator: Locator::Folder(folder),
        }
    }))
}

/// Name, size and time of a file, and its device and inode.
type Fact = (String, (u64, u64));

/// Returns what changes with what a file says of itself, and what changes with the file as well.
fn identities(mut facts: Vec<Fact>) -> (FileIdentity, FileIdentity) {
    facts.sort();
    let files = facts.iter().map(|(_, file)| format!("{file:?}"));
    let files = FileIdentity::of(files);
    (FileIdentity::of(facts.into_iter().map(|it| it.0)), files)
}

/// Returns the facts about a model that is given as a file, and about the files beside it.
fn facts_of_file(file: &Path, looks: &mut Looks) -> Vec<Fact> {
    // Some of these files may be absent, and come.
    looks.give_up();
    let names = mapping::path(file.parent().unwrap_or(file));
    let files = repository::parts(file).into_iter().chain([names]);
    let files = files.chain(labels::paths(file)).chain(external_data(file));
    files.filter_map(|file| fact(&file, looks)).collect()
}

/// Returns the facts about the files of a version folder that a load reads, and about the labels beside it: notes and
/// logs come and change without a load.
fn facts_of_folder(
    folder: &Path,
    base_path: &Path,
    model_file: Option<&str>,
    looks: &mut Looks,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    looks.note_folder(folder);
    let files = repository::files_as(folder, model_file);
    let model_folder = files.as_ref().map_or(folder, ModelFiles::folder);
    if model_folder != folder {
        looks.note_folder(model_folder);
    }
    let walked = match files.as_ref().map(ModelFiles::paths) {
        Ok((model, Some(weights))) => {
            facts.extend([model, weights].iter().filter_map(|it| fact(it, looks)));
            Ok(())
        }
        // A `SavedModel` is its folder.
        Ok((model, None)) if model == model_folder => walk(model, &mut facts, looks),
        Ok((model, None)) if !repository::may_have_external_data(model) => {
            let parts = repository::parts(model);
            facts.extend(parts.iter().filter_map(|it| fact(it, looks)));
            Ok(())
        }
        // The weights of an ONNX file have any names, and what is incomplete may become anything.
        Ok(_) | Err(_) => walk(folder, &mut facts, looks),
    };
    if walked.is_err() {
        // An error ends the walk, and the identity is that of the files found until then.
        looks.give_up();
        return facts;
    }
    let labels = labels::paths(folder);
    let beside = std::iter::once(mapping::path(model_folder)).chain(labels);
    // What is not there may come, which the folders show that have been noted.
    for path in beside.filter(|path| path.symlink_metadata().is_ok()) {
        if ![Some(folder), Some(model_folder), Some(base_path)].contains(&path.parent()) {
            looks.give_up();
        }
        facts.extend(fact(&path, looks));
    }
    facts
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

/// Adds the facts about the files of a folder, and of those in it, that may be of a model.
fn walk(folder: &Path, facts: &mut Vec<Fact>, looks: &mut Looks) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if facts.len() >= MAX_FILES {
            looks.give_up();
            return Ok(());
        }
        let path = entry.path();
        if !repository::may_be_of_model(&path) {
            continue;
        }
        // Folders are entered, links to folders are not: they may lead in a circle.
        if entry.file_type()?.is_dir() {
            looks.note_folder(&path);
            walk(&path, facts, looks)?;
            continue;
        }
        facts.extend(fact(&path, looks));
    }
    Ok(())
}

/// Returns the facts about a file; `None` if there is none.
fn fact(path: &Path, looks: &mut Looks) -> Option<Fact> {
    let Ok(found) = path.metadata() else {
        looks.give_up();
        return None;
    };
    looks.note(path, &found);
    let changed = found.modified().ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let fact = format!(
        "{}\n{}\n{}",
        path.display(),
        found.len(),
        changed.unwrap_or_default().as_nanos()
    );
    // Not the time of the last change of its owner, rights, and links, which no load reads.
    Some((fact, (found.dev(), found.ino())))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, FileTimes},
        os::unix::fs::PermissionsExt as _,
    };

    use super::{FileIdentity, Looks, Repository, SourceError, StorageError, look_at};
    use crate::task::Task;

    #[tokio::test]
    async fn whoever_awaits_a_download_may_be_sent_to_another_thread() {
        // That this compiles is the test: references held over an await are what breaks it.
        let looked: Result<_, SourceError> = Task::spawn(async move {
            let repository =
                Repository::open("azfs://a/b", || Err(StorageError::no_cache())).await?;
            for found in repository.survey(None).await?.versions {
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
        let first = repository.survey(None).await.unwrap().versions;
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].number, 3);
        let folder = repository.local(&first[0].locator).await.unwrap();
        assert_eq!(folder, root.path().join("3"));
        let same = repository.survey(None).await.unwrap().versions;
        assert_eq!(first[0].identity, same[0].identity);
        fs::write(variables.join("index"), "b").unwrap();
        let changed = repository.survey(None).await.unwrap().versions;
        assert_ne!(first[0].identity, changed[0].identity);
        // Those that the version has count, and other files beside it do not.
        fs::write(root.path().join("notes.txt"), "c").unwrap();
        let same = repository.survey(None).await.unwrap().versions;
        assert_eq!(changed[0].identity, same[0].identity);
        fs::write(root.path().join("labels.txt"), "c").unwrap();
        let labelled = repository.survey(None).await.unwrap().versions;
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
            let found = repository
                .await
                .unwrap()
                .survey(None)
                .await
                .unwrap()
                .versions;
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

    #[test]
    fn files_that_no_load_reads_change_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("1");
        let identity = |file| {
            let found = look_at(root.path(), file, &mut Looks::unused());
            found.unwrap().versions[0].identity
        };
        let mut known: Option<[FileIdentity; 2]> = None;
        // Each file, and whether a load of this or that model reads it.
        for (name, of_default, of_named) in [
            ("1/m.xml", true, true),
            ("1/m.bin", true, true),
            ("1/named.onnx", false, true),
            ("1/NOTES.md", false, false),
            ("1/server.log", false, false),
            ("1/.m.bin.swp", false, false),
            ("1/backup.bin", false, true),
            ("1/encoder.weight", false, true),
            ("1/mapping_config.json", true, true),
            ("1/labels.txt", true, true),
            ("labels.txt", true, true),
        ] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(root.path().join(name), "").unwrap();
            let now = [None, Some("named.onnx")].map(&identity);
            if let Some(before) = known.replace(now) {
                assert_eq!(before[0] != now[0], of_default, "{name}");
                assert_eq!(before[1] != now[1], of_named, "{name}");
            }
        }
    }

    #[test]
    fn a_file_in_the_place_of_one_of_the_same_size_and_time_has_another_number() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("m.tflite");
        fs::write(&file, "a").unwrap();
        let look = || {
            let found = look_at(root.path(), None, &mut Looks::unused());
            found.unwrap().versions.remove(0)
        };
        let first = look();
        let permissions = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, permissions).unwrap();
        fs::hard_link(&file, root.path().join("link.txt")).unwrap();
        let same = look();
        assert_eq!((first.identity, first.files), (same.identity, same.files));
        let other = root.path().join("other");
        let times = FileTimes::new().set_modified(file.metadata().unwrap().modified().unwrap());
        fs::write(&other, "b").unwrap();
        let opened = fs::File::options().write(true).open(&other).unwrap();
        opened.set_times(times).unwrap();
        fs::rename(other, &file).unwrap();
        let replaced = look();
        assert_eq!(first.identity, replaced.identity);
        assert_ne!(first.files, replaced.files);
    }
}
