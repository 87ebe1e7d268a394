//! Fingerprint of the files of a graph, to decide whether a reload would change anything.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use ring::digest::{SHA256, digest};

use crate::graph::{
    calculators, check,
    file::source::{GraphSource, read_graph},
};

/// Maximum number of files and packages checked beside a handler.
const MAX_FILES: usize = 1000;

/// File size in bytes above which size and modification time are compared instead of contents.
const MAX_BYTES: u64 = 16 << 20;

/// File that marks a folder as a package.
const PACKAGE: &str = "__init__.py";

/// Contents of the files of a graph: the graph itself, its handlers, and the modules beside them,
/// including those in packages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint(BTreeMap<PathBuf, Option<Print>>);

/// Files with the times when they were last written.
pub type Written = Vec<(PathBuf, Option<SystemTime>)>;

/// Contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Print {
    /// Digest of its bytes.
    Digest(Vec<u8>),
    /// Size and modification time of a large file.
    Large(u64, Option<SystemTime>),
}

impl Fingerprint {
    /// Reads the current files of a graph. Blocks.
    pub fn read(source: &GraphSource) -> Self {
        let mut files = BTreeMap::new();
        let path = &source.graph_path;
        files.insert(path.clone(), print(path));
        for handler in handlers(path).unwrap_or_default() {
            add(&mut files, source.base_path.join(handler));
        }
        Self(files)
    }

    /// Returns when the Python files among these were last written, by their paths. Blocks, but reads none.
    pub fn written(&self) -> Written {
        let python = self
            .0
            .keys()
            .filter(|path| path.extension().is_some_and(|it| it == "py"));
        let written = python.map(|path| {
            let written = fs::metadata(path).and_then(|it| it.modified());
            (path.clone(), written.ok())
        });
        written.collect()
    }

    /// Reads the current handler and the modules beside it. Blocks.
    pub fn of_handler(path: &Path) -> Self {
        let mut files = BTreeMap::new();
        add(&mut files, path.to_owned());
        Self(files)
    }
}

/// Adds a handler and the modules beside it.
fn add(files: &mut BTreeMap<PathBuf, Option<Print>>, path: PathBuf) {
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let packages = entries(&folder).filter(|path| path.join(PACKAGE).is_file());
    let packages: Vec<PathBuf> = packages.take(MAX_FILES).collect();
    let entries = [folder]
        .into_iter()
        .chain(packages)
        .flat_map(|folder| entries(&folder));
    let modules = entries.filter(|path| path.extension().is_some_and(|ext| ext == "py"));
    for path in modules.take(MAX_FILES).chain([path]) {
        let print = print(&path);
        files.insert(path, print);
    }
}

/// Returns the handlers named by a graph; none for a graph that cannot be read.
fn handlers(path: &Path) -> Option<Vec<String>> {
    let text = read_graph(path).ok()?;
    let checked = check::check(&text, "", calculators::all()).ok()?;
    let nodes = checked.plan.nodes.iter();
    Some(nodes.filter_map(|node| node.spec.handler_path()).collect())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Opens a regular file: reading others, such as pipes, may block for ever.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = File::open(path)?;
    let found = file.metadata()?;
    Ok((file, found))
}

/// Computes the fingerprint of a file; `None` for one that cannot be read.
fn print(path: &Path) -> Option<Print> {
    let (file, found) = open(path).ok()?;
    if found.len() > MAX_BYTES {
        return Some(Print::Large(found.len(), found.modified().ok()));
    }
    let mut bytes = Vec::new();
    // It may grow in the meantime.
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(Print::Digest(digest(&SHA256, &bytes).as_ref().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::{Path, PathBuf},
        time::{Duration, SystemTime},
    };

    use super::{Fingerprint, MAX_BYTES, MAX_FILES, Print};

    /// Creates a handler in a folder of its own.
    fn handler() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.py");
        fs::write(&path, "handler").unwrap();
        (folder, path)
    }

    /// Returns whether writing a file changes the fingerprint.
    fn sees(handler: &Path, file: &str) -> bool {
        let path = handler.with_file_name(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "one").unwrap();
        let before = Fingerprint::of_handler(handler);
        assert_eq!(before, Fingerprint::of_handler(handler));
        fs::write(&path, "two").unwrap();
        before != Fingerprint::of_handler(handler)
    }

    #[test]
    fn modules_beside_a_handler_and_in_packages_there_count() {
        let (_folder, handler) = handler();
        assert!(sees(&handler, "model.py"));
        assert!(sees(&handler, "helper.py"));
        assert!(!sees(&handler, "data.txt"));
        assert!(!sees(&handler, "folder/module.py"));
        assert!(sees(&handler, "package/__init__.py"));
        assert!(sees(&handler, "package/module.py"));
        assert!(!sees(&handler, "package/data.txt"));
    }

    #[test]
    fn other_files_do_not_use_up_the_limit() {
        let (folder, handler) = handler();
        for n in 0..=MAX_FILES {
            File::create(folder.path().join(format!("{n}.txt"))).unwrap();
        }
        assert!(sees(&handler, "helper.py"));
        for n in 0..=MAX_FILES {
            File::create(folder.path().join(format!("m{n}.py"))).unwrap();
        }
        let seen = Fingerprint::of_handler(&handler).0;
        assert!((MAX_FILES..=MAX_FILES + 1).contains(&seen.len()));
        assert!(sees(&handler, "model.py"), "the handler always counts");
    }

    #[test]
    fn a_pipe_holds_up_nobody() {
        let (folder, handler) = handler();
        let pipe = folder.path().join("pipe.py");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(Fingerprint::of_handler(&handler).0[&pipe], None);
    }

    #[test]
    fn of_large_files_size_and_time_count() {
        let (folder, handler) = handler();
        let path = folder.path().join("large.py");
        let file = File::create(&path).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        let before = Fingerprint::of_handler(&handler);
        assert!(matches!(before.0[&path], Some(Print::Large(size, _)) if size == MAX_BYTES + 1));
        let later = SystemTime::now() + Duration::from_secs(10);
        file.set_modified(later).unwrap();
        let after = Fingerprint::of_handler(&handler);
        assert_ne!(before, after);
        file.set_len(MAX_BYTES + 2).unwrap();
        file.set_modified(later).unwrap();
        assert_ne!(after, Fingerprint::of_handler(&handler));
        // Largest size that is read.
        file.set_len(MAX_BYTES).unwrap();
        let read = Fingerprint::of_handler(&handler);
        assert!(matches!(read.0[&path], Some(Print::Digest(_))));
    }
}
