//! Several files that are written together, without replacing others by accident, and the report of them.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use ovms::whole_file::WholeFile;
use serde_json::json;

use crate::{
    error::Failure,
    ui::{self, OutputFormat, visible},
};

/// Refuses an existing file, unless it is to be replaced.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    // A link that leads nowhere is something, too.
    if !force && path.symlink_metadata().is_ok() {
        return Err(taken(path));
    }
    Ok(())
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a new file, or replaces one.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>, force: bool) -> Result<(), Failure> {
    write_all(&[(path.to_owned(), contents)], |_| force)
}

/// Writes several files. All are written under other names first, so that a failure leaves none
/// of them, and old ones unchanged. Those that were replaced before it come back.
fn write_all(
    files: &[(PathBuf, impl AsRef<[u8]>)],
    replaces: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    // One alone that cannot be put in its place has replaced none.
    let are_several = files.len() > 1;
    let mut staged = Vec::new();
    for (path, contents) in files {
        let (contents, replaces) = (contents.as_ref(), replaces(path));
        let file = WholeFile::stage(path, replaces, |file| file.write_all(contents));
        let file = file.map_err(|error| failed(path, &error))?;
        let before = Before::of(path, replaces && are_several);
        let before = before.map_err(|error| Failure::cannot("back up", path, &error))?;
        staged.push((path, file, before));
    }
    let mut written = Vec::new();
    for (path, staged, before) in staged {
        if let Err(error) = staged.put() {
            // One that is written in its place may be half written.
            let half = matches!(before, Before::File(..)).then_some((path, before));
            let changed = written.into_iter().chain(half);
            return Err(
                changed.fold(failed(path, &error), |failure, (path, before)| match before
                    .restore(path)
                {
                    Ok(()) => failure,
                    Err(error) => {
                        failure.detail(format!("cannot restore {}: {error}", path.display()))
                    }
                }),
            );
        }
        written.push((path, before));
    }
    Ok(())
}

/// State of a place before it is written to.
enum Before {
    /// A free place.
    Free,
    /// Contents of a file, and the file once more, ready to take its place again.
    File(Vec<u8>, WholeFile),
    /// Target of a link that leads nowhere.
    Link(PathBuf),
    /// A device, or a file that is not to be replaced.
    Kept,
}

impl Before {
    fn of(path: &Path, replaces: bool) -> io::Result<Self> {
        let Ok(found) = path.symlink_metadata() else {
            return Ok(Self::Free);
        };
        match path.metadata() {
            _ if !replaces => Ok(Self::Kept),
            Ok(there) if there.is_file() => {
                let contents = fs::read(path)?;
                let again = WholeFile::stage(path, true, |file| file.write_all(&contents))?;
                Ok(Self::File(contents, again))
            }
            Err(_) if found.is_symlink() => fs::read_link(path).map(Self::Link),
            _ => Ok(Self::Kept),
        }
    }

    /// Makes the place as it was.
    fn restore(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Free => fs::remove_file(path),
            Self::File(contents, again) => match fs::read(path) {
                Ok(found) if found == contents => Ok(()),
                _ => again.put(),
            },
            Self::Link(target) => fs::remove_file(path).and_then(|()| symlink(target, path)),
            Self::Kept => Ok(()),
        }
    }
}

/// Writes all files, or none: those of a folder, which is created if it is missing, and others. `replaces` returns
/// whether a file may be there already.
pub(crate) fn write_into(
    folder: &Path,
    files: &[(PathBuf, String)],
    replaces: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let is_missing =
        |folder: &&Path| *folder != Path::new("") && folder.symlink_metadata().is_err();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let written = fs::create_dir_all(folder)
        .map_err(|error| Failure::cannot("create the folder", folder, &error))
        .and_then(|()| write_all(files, replaces));
    if written.is_err() {
        for folder in made {
            // It is not there, or others have put something into it.
            let _ = fs::remove_dir(folder);
        }
    }
    written
}

/// Reports the written files and, unless with `--quiet`, the next steps.
pub(crate) fn report(
    files: &[&Path],
    next: &[String],
    format: OutputFormat,
) -> Result<(), Failure> {
    ui::print(reported(files, next, format))
}

/// Formats that report.
pub(crate) fn reported(files: &[&Path], next: &[String], format: OutputFormat) -> String {
    if format == OutputFormat::Json {
        return reported_json(files, next);
    }
    let mut reported = String::new();
    for path in files {
        reported.extend(["wrote ", &visible(&path.display().to_string()), "\n"]);
    }
    for (index, command) in next.iter().enumerate().filter(|_| !ui::quiet()) {
        let begin = if index == 0 { "next: " } else { "      " };
        reported.extend([begin, command, "\n"]);
    }
    reported
}

/// Reports the same as JSON.
pub(crate) fn reported_json(files: &[&Path], next: &[String]) -> String {
    let files: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
    format!("{}\n", json!({ "files": files, "next": next }))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => taken(path),
        _ => Failure::cannot("write", path, error),
    }
}

fn taken(path: &Path) -> Failure {
    let text = format!("{} already exists", path.display());
    Failure::failed(text).hint("choose another place, or overwrite it with --force")
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
        path::PathBuf,
    };

    use super::{write_all, write_into};

    #[test]
    fn files_that_cannot_all_be_written_leave_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let [old, new, link, to, taken] = ["old", "new", "link", "to", "taken"];
        fs::write(root.join(old), "a longer old text").unwrap();
        fs::set_permissions(root.join(old), Permissions::from_mode(0o640)).unwrap();
        fs::write(root.join(to), "old").unwrap();
        fs::write(root.join(taken), "old").unwrap();
        symlink("nowhere", root.join(link)).unwrap();
        symlink(to, root.join("through")).unwrap();
        let files: Vec<(PathBuf, String)> = [old, new, link, "through", taken]
            .map(|name| (root.join(name), format!("new {name}")))
            .into();
        // The last one is found to be there when the others are written already.
        let refused = write_into(root, &files, |path| !path.ends_with(taken)).unwrap_err();
        let expected = format!("{} already exists", root.join(taken).display());
        assert_eq!(refused.line(), expected);
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!(read(old), "a longer old text");
        let mode = fs::metadata(root.join(old)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(!root.join(new).exists());
        let target = |name: &str| fs::read_link(root.join(name)).unwrap();
        assert_eq!(target(link), PathBuf::from("nowhere"));
        assert_eq!(target("through"), PathBuf::from(to));
        assert_eq!((read(to), read(taken)), ("old".into(), "old".into()));
        assert_eq!(fs::read_dir(root).unwrap().count(), 5);
        // And all are written where they may be.
        write_all(&files, |_| true).unwrap();
        for name in [old, new, link, to, taken] {
            assert!(read(name).starts_with("new "), "{name}");
        }
        assert_eq!(fs::read_dir(root).unwrap().count(), 6);
    }
}
