//! Patterns in the names of files (`*`, `?`, `[…]`, `**`), since no shell expands them behind `@`.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use glob::{MatchOptions, Pattern, PatternError};

use super::{Argument, ElementSource, InputError};

/// Maximum number of files of a pattern: more images than a request of 2 GiB has room for.
const MAX_FILES: usize = 4096;

/// Matches as shells do: names that begin with a dot are left out.
const AS_IN_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Returns an argument for each file that a pattern matches, in the order of the names; any other argument as it is.
///
/// # Errors
///
/// Fails if no file matches, or too many do.
pub(super) fn expanded(argument: Argument) -> Result<Vec<Argument>, InputError> {
    let ElementSource::File { path, kind, output } = &argument.source else {
        return Ok(vec![argument]);
    };
    let Some(pattern) = path.to_str().filter(|it| is_pattern(it)) else {
        return Ok(vec![argument]);
    };
    let files = files(pattern)?.into_iter().map(|path| Argument {
        source: ElementSource::File {
            path,
            kind: *kind,
            output: output.clone(),
        },
        ..argument.clone()
    });
    Ok(files.collect())
}

/// Returns whether a name is a pattern, and not that of a file.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[']) && Path::new(name).symlink_metadata().is_err()
}

/// Part of a pattern between two slashes.
enum Part {
    /// One name, as it is.
    Name(OsString),
    /// Names that match.
    Names(Pattern),
    /// Folders of any depth: `**`.
    Folders,
}

impl Part {
    fn new(part: &OsStr) -> Result<Self, PatternError> {
        let text = part.to_string_lossy();
        if text == "**" {
            return Ok(Self::Folders);
        }
        match text.contains(['*', '?', '[']) {
            true => Pattern::new(&text).map(Self::Names),
            false => Ok(Self::Name(part.to_owned())),
        }
    }
}

/// Finds the files, also those whose names are no text: `glob` itself does not get past one.
fn files(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    let refused = |source| InputError::Pattern {
        pattern: pattern.to_owned(),
        source,
    };
    Pattern::new(pattern).map_err(refused)?;
    if pattern.ends_with('/') {
        // Folders alone match, and none of them is an input.
        return Err(InputError::NoMatch(pattern.to_owned()));
    }
    let parts = Path::new(pattern).components();
    let parts = parts.map(|part| Part::new(part.as_os_str()));
    let mut parts: Vec<Part> = parts.collect::<Result<_, _>>().map_err(refused)?;
    parts.dedup_by(|next, last| matches!((next, last), (Part::Folders, Part::Folders)));
    let mut files = BTreeSet::new();
    let mut left = vec![(PathBuf::new(), &parts[..])];
    while let Some((path, parts)) = left.pop() {
        match parts.split_first() {
            None if path.is_dir() => {}
            None => {
                files.insert(path);
            }
            Some((Part::Name(name), rest)) => {
                let path = path.join(name);
                if path.symlink_metadata().is_ok() {
                    left.push((path, rest));
                }
            }
            Some((Part::Names(names), rest)) => {
                let is_match =
                    |name: &OsStr| names.matches_with(&name.to_string_lossy(), AS_IN_A_SHELL);
                let found = entries(&path, is_match)?.into_iter();
                left.extend(found.map(|path| (path, rest)));
            }
            Some((Part::Folders, rest)) => {
                let is_shown = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
                let found = entries(&path, is_shown)?.into_iter();
                // Not through links, of which some lead back up.
                let is_folder = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| it.is_dir());
                left.extend(found.filter(is_folder).map(|path| (path, parts)));
                left.push((path, rest));
            }
        }
        if files.len() > MAX_FILES {
            return Err(InputError::TooManyFiles {
                pattern: pattern.to_owned(),
                most: MAX_FILES,
            });
        }
    }
    match files.is_empty() {
        true => Err(InputError::NoMatch(pattern.to_owned())),
        false => Ok(files.into_iter().collect()),
    }
}

/// Returns what is in a folder and has such a name; nothing of a file.
fn entries(folder: &Path, is_one: impl Fn(&OsStr) -> bool) -> Result<Vec<PathBuf>, InputError> {
    let read = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    if !read.is_dir() {
        return Ok(Vec::new());
    }
    let names = fs::read_dir(read).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name()));
        names.collect::<io::Result<Vec<OsString>>>()
    });
    let names = names.map_err(|error| InputError::File {
        path: read.to_owned(),
        source: error.into(),
    })?;
    let names = names.into_iter().filter(|name| is_one(name));
    Ok(names.map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

    use super::{MAX_FILES, files};

    /// Returns the files of a pattern below a folder, by their paths there.
    fn found(folder: &Path, pattern: &str) -> Vec<String> {
        let files = files(&format!("{}/{pattern}", folder.display())).unwrap_or_default();
        let files = files.iter().map(|it| it.strip_prefix(folder).unwrap());
        files.map(|it| it.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_pattern_matches_as_in_a_shell_also_names_that_are_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let odd = OsStr::from_bytes(b"caf\xe9.png");
        for name in ["b.png", "a.png", ".hidden.png", "a.txt", "[x].png"] {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::write(folder.join(odd), "").unwrap();
        for inner in ["x/y", "x/x", ".git", "folder.png"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
            fs::write(folder.join(inner).join("c.png"), "").unwrap();
        }
        let all = ["[x].png", "a.png", "b.png", "caf\u{fffd}.png"];
        assert_eq!(found(folder, "*.png"), all);
        assert!(
            files(&format!("{}/c*.png", folder.display())).is_ok_and(|it| it == [folder.join(odd)])
        );
        assert_eq!(found(folder, "?.png"), ["a.png", "b.png"]);
        assert_eq!(found(folder, "[!b].png"), ["a.png"]);
        assert_eq!(found(folder, "[[]x].png"), ["[x].png"]);
        assert_eq!(found(folder, ".*.png"), [".hidden.png"]);
        assert_eq!(found(folder, "*/c.png"), ["folder.png/c.png"]);
        assert_eq!(found(folder, "x/../?.png"), ["x/../a.png", "x/../b.png"]);
        for link in ["x/up", "x/y/up"] {
            std::os::unix::fs::symlink(folder, folder.join(link)).unwrap();
        }
        let deep = ["folder.png/c.png", "x/x/c.png", "x/y/c.png"];
        assert_eq!(found(folder, "**/**/c.png"), deep);
        assert_eq!(found(folder, "**/x/**/c.png"), &deep[1..]);
        for nothing in ["nosuch/*.png", "a.png/*.png", "*.jpg", "**", ".", "*.png/"] {
            assert!(found(folder, nothing).is_empty(), "{nothing}");
        }
        assert!(files("a/***.png").is_err());
        assert!(files("*/[a.png").is_err());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..MAX_FILES {
            fs::write(folder.path().join(format!("{index}.png")), "").unwrap();
        }
        let pattern = format!("{}/*.png", folder.path().display());
        assert_eq!(files(&pattern).unwrap().len(), MAX_FILES);
        fs::write(folder.path().join("last.png"), "").unwrap();
        let error = files(&pattern).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("more than 4096 files match `{pattern}`")
        );
    }
}
