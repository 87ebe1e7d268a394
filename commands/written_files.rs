//! Several files that are written together, without replacing others by accident, and the report of them.

use std::{
    fs, io,
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
/// of them, and old ones unchanged.
fn write_all(
    files: &[(PathBuf, impl AsRef<[u8]>)],
    replaces: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let mut staged = Vec::new();
    for (path, contents) in files {
        let contents = contents.as_ref();
        let file = WholeFile::stage(path, replaces(path), |file| file.write_all(contents));
        staged.push((path, file.map_err(|error| failed(path, &error))?));
    }
    let mut new = Vec::new();
    for (path, staged) in staged {
        let is_new = path.symlink_metadata().is_err();
        if let Err(error) = staged.put() {
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
