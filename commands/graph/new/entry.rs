//! Entries of a new graph and its model in a configuration file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ovms::config;

use crate::{error::Failure, pipeline::new::models};

/// Reads the file for the new entry; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::cannot("read", path, &error)),
    }
}

/// Returns the text of the file with the entries added; all else is unchanged.
pub(super) fn added(
    content: Option<&[u8]>,
    path: &Path,
    model: Option<(String, String)>,
    name: &str,
    folder: &Path,
) -> Result<String, Failure> {
    let folder = below(folder, path)?;
    let mut text = None;
    let graph = (name.to_owned(), folder);
    for (name, base_path) in model.into_iter().chain([graph]) {
        let before = text.as_deref().map(str::as_bytes).or(content);
        let after = config::add_model(before, (&name, &base_path), &[]).map_err(|error| {
            Failure::failed(format!("cannot add `{name}` to {}", path.display()))
                .caused_by(&error)
                .hint("choose another name, or another file with --config")
        })?;
        text = Some(after);
    }
    Ok(text.unwrap_or_default())
}

/// Writes a folder for a configuration file: relative to the file if it is below that.
fn below(folder: &Path, config: &Path) -> Result<String, Failure> {
    let absolute = |path: &Path| -> Result<PathBuf, Failure> {
        let path = match path == Path::new("") {
            true => Path::new("."),
            false => path,
        };
        // The folder may have to be made yet.
        let path = path.canonicalize().or_else(|_| std::path::absolute(path))?;
        Ok(path.components().collect())
    };
    let base = absolute(config.parent().unwrap_or(Path::new("")))?;
    let folder = absolute(folder)?;
    let path = match folder.strip_prefix(&base) {
        Ok(path) if path == Path::new("") => Path::new("."),
        Ok(path) => path,
        Err(_) => &folder,
    };
    models::text(path)
}
