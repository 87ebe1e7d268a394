//! What the files of a graph contain: whether a reload would load anything else.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    calculators, check,
    definition::{GraphSource, handler_path},
};

/// The most files beside handlers that are looked at.
const MOST_FILES: usize = 1000;

/// Digests of the files of a graph: the graph itself, its handlers, and the modules beside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Fingerprint {
    /// Reads the files of a graph as they are now. Blocks.
    #[must_use]
    pub fn read(source: &GraphSource) -> Self {
        let mut files = BTreeMap::new();
        let text = fs::read(&source.graph_path).ok();
        let handlers = text.as_deref().and_then(handlers);
        files.insert(source.graph_path.clone(), text.as_deref().map(digest));
        for handler in handlers.unwrap_or_default() {
            add(&mut files, source.base_path.join(handler));
        }
        Self(files)
    }

    /// Reads a handler and the modules beside it as they are now. Blocks.
    #[must_use]
    pub fn of_handler(path: &Path) -> Self {
        let mut files = BTreeMap::new();
        add(&mut files, path.to_owned());
        Self(files)
    }
}

/// Reads a handler and the modules beside it.
fn add(files: &mut BTreeMap<PathBuf, Option<Vec<u8>>>, path: PathBuf) {
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = modules(folder);
    for path in beside.into_iter().chain([path]) {
        let content = fs::read(&path).ok();
        files.insert(path, content.as_deref().map(digest));
    }
}

/// Returns the handlers that a graph names; a graph that cannot be read has none.
fn handlers(text: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(text).ok()?;
    let checked = check::check(text, "", calculators::all()).ok()?;
    let nodes = checked.plan.nodes.iter();
    Some(nodes.filter_map(handler_path).collect())
}

/// Finds the Python files beside a handler.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MOST_FILES).map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "py"))
        .collect()
}

fn digest(content: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, content)
        .as_ref()
        .to_vec()
}
