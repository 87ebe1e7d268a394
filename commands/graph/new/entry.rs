//! Entries of a new graph and its model in a configuration file.

use std::path::Path;

use ovms::config;

use crate::{
    error::Failure,
    pipeline::new::models,
    places::{folder_of, or_here, resolved},
};

/// Returns the text of the file with the entries added; all else is unchanged.
pub(super) fn added(
    content: Option<&[u8]>,
    path: &Path,
    model: Option<(String, String)>,
    name: &str,
    folder: &Path,
) -> Result<String, Failure> {
    let graph = (name.to_owned(), below(folder, path)?);
    let add = |content: Option<&[u8]>, (name, base_path): &(String, String)| {
        config::add_model(content, (name, base_path), &[]).map_err(|error| {
            Failure::failed(format!("cannot add `{name}` to {}", path.display()))
                .caused_by(&error)
                .hint("choose another name, or another file with --config")
        })
    };
    let with_model = model.map(|model| add(content, &model)).transpose()?;
    add(with_model.as_deref().map(str::as_bytes).or(content), &graph)
}

/// Writes a folder for a configuration file: relative to the file if it is below that.
fn below(folder: &Path, config: &Path) -> Result<String, Failure> {
    let (base, folder) = (resolved(folder_of(config))?, resolved(folder)?);
    models::text(folder.strip_prefix(&base).map_or(&*folder, or_here))
}
