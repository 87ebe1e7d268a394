//! Patterns in the names of files (`*`, `?`, `[…]`, `**`), since no shell expands them behind `@`.

use std::{
    io,
    path::{Path, PathBuf},
};

use glob::MatchOptions;

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

fn files(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    let matches =
        glob::glob_with(pattern, AS_IN_A_SHELL).map_err(|source| InputError::Pattern {
            pattern: pattern.to_owned(),
            source,
        })?;
    let mut files = Vec::new();
    for found in matches {
        let path = found.map_err(|error| InputError::File {
            path: error.path().to_owned(),
            source: io::Error::from(error).into(),
        })?;
        if path.is_dir() {
            continue;
        }
        files.push(path);
        if files.len() > MAX_FILES {
            return Err(InputError::TooManyFiles {
                pattern: pattern.to_owned(),
                most: MAX_FILES,
            });
        }
    }
    if files.is_empty() {
        return Err(InputError::NoMatch(pattern.to_owned()));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{MAX_FILES, files};

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
