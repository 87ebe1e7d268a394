//! Version folders of a model: recognised by name, on disk and in the cloud alike.
//!
//! The number that a name begins with is the version concerned, and only a folder named by its
//! number alone is that version: `3.tmp` is still being copied, and `2.bak` was put aside. Upstream
//! comes to the same, since it opens `<base path>/<number>`.

use std::{collections::BTreeMap, fmt};

/// Contents of a model's base path.
#[derive(Debug)]
pub struct FolderSurvey<V> {
    /// The versions, the lowest first, each number once.
    pub versions: Vec<V>,
    /// The other folders by name, but those with hidden names.
    pub ignored: Vec<Ignored>,
}

/// A folder that is no version, or a model outside of them; displayed as a message about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ignored {
    /// Its name.
    pub name: String,
    /// Reason it is not a version.
    pub reason: Reason,
}

/// Reason a folder is not a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Name without a leading number from 1 on.
    NoNumber,
    /// Name with more than this number in it.
    More(i64),
    /// Another folder of this number, with this name.
    Twice(i64, String),
    /// Model file beside version folders.
    Beside,
}

impl Ignored {
    /// Returns the version that it would be by the number in its name, if there is one.
    pub fn number(&self) -> Option<i64> {
        match self.reason {
            Reason::NoNumber | Reason::Beside => None,
            Reason::More(number) | Reason::Twice(number, _) => Some(number),
        }
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::NoNumber => f.write_str("ignoring a folder whose name is not a version number"),
            Reason::More(number) => write!(
                f,
                "ignoring a folder whose name has more than the version number in it; to be \
                 version {number}, it must be named by the number alone: `{number}`"
            ),
            Reason::Twice(number, other) => write!(
                f,
                "ignoring another folder of version {number}; the one named `{other}` is served"
            ),
            Reason::Beside => f.write_str(
                "ignoring a model beside version folders; to be served, it must be in one of them",
            ),
        }
    }
}

impl<V> FolderSurvey<V> {
    /// Sorts folders into versions, which `make` makes of number, name and what is known of the
    /// folder, and others.
    pub(super) fn of<T>(
        folders: impl IntoIterator<Item = (String, T)>,
        mut make: impl FnMut(i64, String, T) -> V,
    ) -> Self {
        let mut numbered: BTreeMap<i64, Vec<(String, T)>> = BTreeMap::new();
        let mut ignored = Vec::new();
        // Hidden folders, such as the `..data` of volumes in Kubernetes, are never reported.
        let folders = folders
            .into_iter()
            .filter(|(name, _)| !name.starts_with('.'));
        for (name, folder) in folders {
            match number_of(&name) {
                Ok(number) => numbered.entry(number).or_default().push((name, folder)),
                Err(reason) => ignored.push(Ignored { name, reason }),
            }
        }
        let mut versions = Vec::with_capacity(numbered.len());
        for (number, mut folders) in numbered {
            let plain = number.to_string();
            folders.sort_by(|(one, _), (other, _)| {
                (*one != plain, one).cmp(&(*other != plain, other))
            });
            let mut folders = folders.into_iter();
            let Some((first, folder)) = folders.next() else {
                continue;
            };
            ignored.extend(folders.map(|(name, _)| Ignored {
                name,
                reason: Reason::Twice(number, first.clone()),
            }));
            versions.push(make(number, first, folder));
        }
        ignored.sort();
        Self { versions, ignored }
    }

    /// Makes something else of each version.
    pub(super) fn map<W>(self, make: impl FnMut(V) -> W) -> FolderSurvey<W> {
        FolderSurvey {
            versions: self.versions.into_iter().map(make).collect(),
            ignored: self.ignored,
        }
    }
}

/// Returns the version that a folder is by its name, unless another folder is, too; else the reason that
/// it is none.
fn number_of(name: &str) -> Result<i64, Reason> {
    let rest = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = name[..name.len() - rest.len()].parse().ok();
    match number.filter(|&number| number > 0) {
        None => Err(Reason::NoNumber),
        Some(number) if rest.is_empty() => Ok(number),
        Some(number) => Err(Reason::More(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::FolderSurvey;

    /// Returns `number name` of each version, and `name: what is said` of each other folder.
    fn survey(names: &[&str]) -> (Vec<String>, Vec<String>) {
        let folders = names.iter().map(|&name| (name.to_owned(), ()));
        let survey = FolderSurvey::of(folders, |number, name, ()| format!("{number} {name}"));
        let reported = |ignored: &super::Ignored| format!("{}: {ignored}", ignored.name);
        (
            survey.versions,
            survey.ignored.iter().map(reported).collect(),
        )
    }

    #[test]
    fn a_folder_named_by_its_number_alone_is_a_version() {
        let (versions, ignored) = survey(&["10", "9", "007"]);
        assert_eq!(versions, ["7 007", "9 9", "10 10"]);
        assert!(ignored.is_empty());
    }

    #[test]
    fn more_than_the_number_is_no_version_and_says_how_to_become_one() {
        let (versions, ignored) = survey(&["1", "3.tmp", "2.bak", "1_old", "12 ", "1\u{fffd}"]);
        assert_eq!(versions, ["1 1"]);
        let names: Vec<&str> = ignored
            .iter()
            .filter_map(|it| it.split(':').next())
            .collect();
        assert_eq!(names, ["12 ", "1_old", "1\u{fffd}", "2.bak", "3.tmp"]);
        assert_eq!(
            ignored[4],
            "3.tmp: ignoring a folder whose name has more than the version number in it; to be \
             version 3, it must be named by the number alone: `3`"
        );
    }

    #[test]
    fn names_without_a_number_are_reported_unless_they_are_hidden() {
        let strange = ["+1", "-1", "0", "99999999999999999999", "old", "v1"];
        let (versions, ignored) = survey(&[&strange[..], &[".git", "..data", ".1"]].concat());
        assert!(versions.is_empty());
        let expected = strange
            .map(|name| format!("{name}: ignoring a folder whose name is not a version number"));
        assert_eq!(ignored, expected);
    }

    #[test]
    fn of_several_folders_of_a_number_the_plain_one_is_the_version() {
        let (versions, ignored) = survey(&["07", "7", "007", "02", "002"]);
        assert_eq!(versions, ["2 002", "7 7"]);
        assert_eq!(
            ignored,
            [
                "007: ignoring another folder of version 7; the one named `7` is served",
                "02: ignoring another folder of version 2; the one named `002` is served",
                "07: ignoring another folder of version 7; the one named `7` is served",
            ]
        );
    }
}
