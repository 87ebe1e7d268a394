//! Atomic writing of files, without replacing others by accident.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;
use tempfile::NamedTempFile;

use crate::{
    error::Failure,
    places::folder_of,
    ui::{self, OutputFormat, visible},
};

/// Permissions of new files, before the user's umask.
const MODE: u32 = 0o666;

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
    write_all(&[(path.to_owned(), contents)], force)
}

/// Writes several files. All are written under other names first, so that a failure leaves none
/// of them, and old ones unchanged.
fn write_all(files: &[(PathBuf, impl AsRef<[u8]>)], force: bool) -> Result<(), Failure> {
    let mut staged = Vec::new();
    for (path, contents) in files {
        let file =
            Staged::new(path, contents.as_ref(), force).map_err(|error| failed(path, &error))?;
        staged.push((path, file));
    }
    let mut new = Vec::new();
    for (path, staged) in staged {
        let is_new = path.symlink_metadata().is_err();
        if let Err(error) = staged.put(force) {
            for path in new {
                // A failure to remove the file adds nothing to the error that is reported.
                let _ = fs::remove_file(path);
            }
            return Err(failed(path, &error));
        }
        if is_new {
            new.push(path);
        }
    }
    Ok(())
}

/// Writes all files into a folder, or none; creates the folder if it is missing.
pub(crate) fn write_into(
    folder: &Path,
    files: &[(PathBuf, String)],
    force: bool,
) -> Result<(), Failure> {
    let is_missing =
        |folder: &&Path| *folder != Path::new("") && folder.symlink_metadata().is_err();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let written = fs::create_dir_all(folder)
        .map_err(|error| Failure::cannot("make the folder", folder, &error))
        .and_then(|()| write_all(files, force));
    if written.is_err() {
        for folder in made {
            // It is not there, or others have put something into it.
            let _ = fs::remove_dir(folder);
        }
    }
    written
}

/// File with all of its text, before it gets its name.
enum Staged {
    /// Temporary file in the folder of its target.
    Beside(NamedTempFile, PathBuf),
    /// Device or pipe, which cannot be replaced.
    Stream(fs::File, Vec<u8>),
}

impl Staged {
    fn new(path: &Path, contents: &[u8], force: bool) -> io::Result<Self> {
        // Where a link leads is what is replaced.
        let place = match path.canonicalize() {
            Ok(place) if force => place,
            _ => path.to_owned(),
        };
        let old = fs::metadata(&place).ok().filter(|_| force);
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            let file = OpenOptions::new().write(true).open(&place)?;
            return Ok(Self::Stream(file, contents.to_owned()));
        }
        let folder = folder_of(&place);
        // An error of its own, without the name of a file that nobody has heard of.
        folder.metadata()?;
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(folder)?;
        file.as_file_mut().write_all(contents)?;
        file.as_file().sync_all()?;
        if let Some(old) = old {
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(Self::Beside(file, place))
    }

    fn put(self, force: bool) -> io::Result<()> {
        let put = match self {
            Self::Stream(mut file, contents) => return file.write_all(&contents),
            Self::Beside(file, place) if force => file.persist(place),
            Self::Beside(file, place) => file.persist_noclobber(place),
        };
        put.map(drop).map_err(|error| error.error)
    }
}

/// Reports the written files and the next steps.
pub(crate) fn tell(files: &[&Path], next: &[String], format: OutputFormat) -> Result<(), Failure> {
    if format == OutputFormat::Json {
        return ui::print(reported_json(files, next));
    }
    let mut reported = String::new();
    for path in files {
        reported.extend(["wrote ", &visible(&path.display().to_string()), "\n"]);
    }
    for (index, command) in next.iter().enumerate() {
        let begin = if index == 0 { "next: " } else { "      " };
        reported.extend([begin, command, "\n"]);
    }
    ui::print(reported)
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
    let text = format!("{} is there already", path.display());
    Failure::failed(text).hint("choose another place, or replace it with --force")
}
