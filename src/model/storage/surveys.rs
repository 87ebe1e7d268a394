//! Surveys of folders of this machine that are known from before, and still hold.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    is_remote,
    repository::{FoundVersion, SourceError, look_at},
};
use crate::{
    model::{FolderSurvey, repository::RepositoryError},
    task,
};

/// Age below which a change cannot be distinguished from one right after it: some file systems count seconds.
const COARSE: Duration = Duration::from_secs(2);

/// Source of a survey: a base path, and the name of the model file in each version, if that is given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyPlace {
    /// The base path.
    pub base_path: String,
    /// The name of the model file.
    pub model_file: Option<Arc<str>>,
}

/// The last surveys.
///
/// A pass over many models mostly finds what it has found before. To see that takes a look at each file
/// and folder, and not the reading of the folders.
#[derive(Debug, Default)]
pub struct KnownSurveys(BTreeMap<SurveyPlace, KnownSurvey>);

#[derive(Debug)]
struct KnownSurvey {
    survey: Arc<FolderSurvey<FoundVersion>>,
    seen: Vec<(PathBuf, Stamp)>,
}

/// Identity of a file or folder, and its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Returns whether a change that came later would show, as far as seconds show.
    fn is_older_than(&self, seconds: i64) -> bool {
        self.modified.0 < seconds && self.changed.0 < seconds
    }
}

/// Everything that a survey has looked at; `None` once there was something whose changes do not show.
#[derive(Debug)]
pub(super) struct Looks(Option<Vec<(PathBuf, Stamp)>>);

impl Looks {
    /// Makes the looks of a survey that is not kept.
    pub(super) fn unused() -> Self {
        Self(None)
    }

    /// Notes a file or folder that a survey depends on.
    pub(super) fn note(&mut self, path: &Path, found: &Metadata) {
        if let Some(seen) = &mut self.0 {
            seen.push((path.to_owned(), Stamp::of(found)));
        }
    }

    /// Notes a folder that is about to be read.
    pub(super) fn note_folder(&mut self, path: &Path) {
        match path.metadata() {
            Ok(found) if found.is_dir() => self.note(path, &found),
            _ => self.0 = None,
        }
    }

    /// Notes something that may change without a trace.
    pub(super) fn give_up(&mut self) {
        self.0 = None;
    }
}

impl KnownSurveys {
    /// Finds the versions of places that are folders of this machine, by the names of their models;
    /// others are left out. A survey that still holds is the same object as before.
    ///
    /// In one go, since the way to a thread that may block and back takes longer than the look at a folder.
    pub async fn renew(
        self,
        places: BTreeMap<String, SurveyPlace>,
    ) -> (
        Self,
        BTreeMap<String, Result<Arc<FolderSurvey<FoundVersion>>, SourceError>>,
    ) {
        let look = move || {
            let mut before = self;
            let mut renewed = Self::default();
            let places = places.into_iter();
            let local = places.filter(|(_, place)| !is_remote(&place.base_path));
            let surveys = local
                .map(|(name, place)| (name, renewed.look(&mut before, place).map_err(Into::into)))
                .collect();
            (renewed, surveys)
        };
        task::blocking("repository scan", look).await
    }

    /// Finds the versions of a folder, and keeps what `before` knows if it still holds.
    fn look(
        &mut self,
        before: &mut Self,
        place: SurveyPlace,
    ) -> Result<Arc<FolderSurvey<FoundVersion>>, RepositoryError> {
        if let Some(known) = self.0.get(&place) {
            return Ok(Arc::clone(&known.survey));
        }
        let known = before.0.remove(&place).filter(KnownSurvey::holds);
        let known = match known {
            Some(known) => known,
            None => {
                let mut looks = Looks(Some(Vec::new()));
                let begun = SystemTime::now();
                let (path, file) = (Path::new(&place.base_path), place.model_file.as_deref());
                let survey = Arc::new(look_at(path, file, &mut looks)?);
                let seen = looks.0.filter(|seen| are_settled(seen, begun));
                let Some(seen) = seen else {
                    return Ok(survey);
                };
                KnownSurvey { survey, seen }
            }
        };
        let survey = Arc::clone(&known.survey);
        self.0.insert(place, known);
        Ok(survey)
    }
}

impl KnownSurvey {
    /// Returns whether everything is as it was.
    fn holds(&self) -> bool {
        let mut seen = self.seen.iter();
        seen.all(|(path, stamp)| fs::metadata(path).is_ok_and(|found| Stamp::of(&found) == *stamp))
    }
}

/// Returns whether everything was left alone for long enough before the look, that a later change shows.
fn are_settled(seen: &[(PathBuf, Stamp)], begun: SystemTime) -> bool {
    let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    let limit = i64::try_from(begun.saturating_sub(COARSE).as_secs()).unwrap_or_default();
    seen.iter().all(|(_, stamp)| stamp.is_older_than(limit))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::FileTimes,
        time::{Duration, SystemTime},
    };

    use super::*;

    /// A repository whose files are so old that changes of it show.
    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("1")).unwrap();
        fs::write(root.path().join("1/model.onnx"), "a").unwrap();
        root
    }

    fn place(root: &Path) -> SurveyPlace {
        SurveyPlace {
            base_path: root.display().to_string(),
            model_file: None,
        }
    }

    /// Looks until the folder is left alone for long enough; returns what is known then.
    fn settled(root: &Path) -> KnownSurveys {
        let begun = std::time::Instant::now();
        loop {
            let mut known = KnownSurveys::default();
            known
                .look(&mut KnownSurveys::default(), place(root))
                .unwrap();
            if !known.0.is_empty() {
                return known;
            }
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    /// Returns whether a look at a changed folder gives what was known.
    fn is_known(known: &mut KnownSurveys, root: &Path) -> bool {
        let path = place(root);
        let before = known.0.get(&path).map(|known| Arc::clone(&known.survey));
        let found = KnownSurveys::default().look(known, path).unwrap();
        before.is_some_and(|before| Arc::ptr_eq(&before, &found))
    }

    #[test]
    fn a_survey_holds_until_something_changes() {
        let root = repository();
        assert!(is_known(&mut settled(root.path()), root.path()));
        let model = root.path().join("1/model.onnx");

        let mut known = settled(root.path());
        fs::write(&model, "b").unwrap();
        // Of the same size, and its time set back to what it was.
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        let file = fs::File::options().write(true).open(&model).unwrap();
        file.set_times(times).unwrap();
        assert!(!is_known(&mut known, root.path()));

        let mut known = settled(root.path());
        fs::create_dir(root.path().join("2")).unwrap();
        assert!(!is_known(&mut known, root.path()));

        let mut known = settled(root.path());
        fs::write(root.path().join("1/labels.txt"), "").unwrap();
        assert!(!is_known(&mut known, root.path()));

        let mut known = settled(root.path());
        fs::remove_file(&model).unwrap();
        assert!(!is_known(&mut known, root.path()));
    }

    #[test]
    fn a_folder_that_was_just_changed_is_looked_at_again() {
        let root = repository();
        let mut known = KnownSurveys::default();
        let path = place(root.path());
        known.look(&mut KnownSurveys::default(), path).unwrap();
        assert!(known.0.is_empty());
    }

    #[test]
    fn links_are_looked_at_again() {
        let root = repository();
        std::os::unix::fs::symlink(root.path().join("1"), root.path().join("2")).unwrap();
        let mut looks = Looks(Some(Vec::new()));
        look_at(root.path(), None, &mut looks).unwrap();
        assert!(looks.0.is_none());
    }
}
