//! Skeleton of a custom node: a working source, the header, and the build files.

use std::path::{Path, PathBuf};

use ovms::custom_node::HEADER;

use super::save;
use crate::{
    error::Failure,
    ui::{OutputFormat, shell_word, visible},
};

/// Placeholder of the name in the files.
const NAME: &str = "@NAME@";

/// Writes the files into a folder; creates it if it is missing.
pub(super) fn write(
    name: &str,
    folder: Option<&Path>,
    force: bool,
    output: OutputFormat,
) -> Result<(), Failure> {
    named(name, "custom node")?;
    let folder = folder.map_or_else(|| PathBuf::from(name), Path::to_owned);
    let file = |file: &str, template: &str| (folder.join(file), template.replace(NAME, name));
    let files = [
        file(&format!("{name}.cpp"), include_str!("skeleton.cpp")),
        file("custom_node_interface.h", HEADER),
        file("Makefile", include_str!("skeleton.mk")),
        file("config.json", include_str!("skeleton.json")),
    ];
    // All of them or none.
    for (path, _) in &files {
        save::refuse_existing(path, force)?;
    }
    save::write_into(&folder, &files, force)?;
    let config = folder.join("config.json");
    let next = [
        format!("make -C {}", typed(&folder)),
        format!("ovms pipeline check {}", typed(&config)),
    ];
    let files: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    save::tell(&files, &next, output)
}

/// Writes a path for a shell.
pub(crate) fn typed(path: &Path) -> String {
    shell_word(&visible(&path.to_string_lossy()))
}

/// Rejects names that are not valid for files and libraries on all systems.
pub(crate) fn named(name: &str, of: &str) -> Result<(), Failure> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(good) {
        let text = format!("`{}` cannot be the name of a {of}", name.escape_debug());
        return Err(Failure::usage(text)
            .hint("it becomes that of a file: letters, digits, `_` and `-`, a letter first"));
    }
    Ok(())
}
