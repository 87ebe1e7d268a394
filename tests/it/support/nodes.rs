//! Custom nodes, compiled from `fixtures/custom_nodes` with the system's compiler.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, OnceLock},
};

use ovms::{
    custom_node::{Library, Node},
    tensor::{DataType, Tensor, TensorMap},
};
use tempfile::TempDir;

use super::{fixture, repository};

/// Returns the library of a source, compiled once for this process.
pub(crate) fn compiled(source: &str) -> PathBuf {
    compiled_with(source, &[])
}

/// Returns the library of a source that is compiled with more flags.
pub(crate) fn compiled_with(source: &str, flags: &[&str]) -> PathBuf {
    type Slot = Arc<OnceLock<PathBuf>>;
    static COMPILED: OnceLock<Mutex<HashMap<String, Slot>>> = OnceLock::new();
    let key: String = [&[source], flags]
        .concat()
        .join("_")
        .replace(|c: char| !c.is_alphanumeric() && c != '_', "-");
    let slot = {
        let mut slots = COMPILED.get_or_init(Mutex::default).lock().unwrap();
        Arc::clone(slots.entry(key.clone()).or_default())
    };
    slot.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("custom_nodes");
        fs::create_dir_all(&folder).unwrap();
        let library = folder.join(format!("lib{key}.so"));
        // Another process may do the same, or have this file open.
        let fresh = folder.join(format!("lib{key}.{}", std::process::id()));
        let arguments: Vec<&str> = ["-shared", "-fPIC", "-pthread", "-Wl,-z,lazy", "-o"].into();
        compile(
            source,
            &[&arguments[..], &[fresh.to_str().unwrap()], flags].concat(),
        );
        fs::rename(&fresh, &library).unwrap();
        library
    })
    .clone()
}

/// Runs the compiler of the source's language, with the header that we ship; warnings are shown, and
/// refused only with `-Werror`.
pub(crate) fn compile(source: &str, flags: &[&str]) {
    let (compiler, standard) = if source.ends_with(".cpp") || flags.contains(&"c++") {
        ("c++", "-std=c++14")
    } else {
        ("cc", "-std=c11")
    };
    let header = Path::new(env!("WORKSPACE_ROOT")).join("src/custom_node");
    let done = Command::new(compiler)
        .args([standard, "-D_POSIX_C_SOURCE=200809L", "-O1", "-g", "-Wall"])
        .args(["-Wextra", "-Wpedantic", "-I"])
        .arg(header)
        .args(flags)
        .arg(fixture("custom_nodes").join(source))
        .output()
        .expect("there is a C and a C++ compiler");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{compiler} {source}: {said}");
}

/// A private copy of a library, so that its books are those of one test.
pub(crate) struct Own {
    pub(crate) library: Arc<Library>,
    _folder: TempDir,
}

/// Contents of the ledger of a library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Books {
    /// A letter for each event, as `ledger.h` has them.
    pub(crate) events: String,
    /// Number of buffers not yet released.
    pub(crate) alive: i64,
    /// Number of buffers handed out, and of those released.
    pub(crate) buffers: [i64; 2],
    /// Number of handles opened, and of those closed.
    pub(crate) handles: [i64; 2],
    /// Number of calls that the interface does not allow.
    pub(crate) errors: i64,
}

impl Own {
    /// Opens a copy of a compiled source.
    pub(crate) fn open(source: &str) -> Self {
        let folder = repository::folder();
        let path = folder.path().join("libown.so");
        fs::copy(compiled(source), &path).unwrap();
        Self {
            library: Library::open("own", &path).unwrap(),
            _folder: folder,
        }
    }

    /// Creates a node.
    pub(crate) fn node(&self, params: &[(&str, &str)]) -> Arc<Node> {
        Node::initialize(&self.library, params.iter().copied()).unwrap()
    }

    /// Reads the books.
    pub(crate) fn books(&self) -> Books {
        let read = self.node(&[("probe", "")]).execute(&[]).unwrap();
        let events = String::from_utf8(
            ovms::tensor::named(&read, "events")
                .unwrap()
                .data()
                .to_vec(),
        )
        .unwrap();
        let counts: Vec<i64> = numbers(
            ovms::tensor::named(&read, "counts").unwrap(),
            i64::from_le_bytes,
        );
        let [alive, given, back, open, opened, closed, errors] = counts[..] else {
            panic!("the ledger has seven counts, found {counts:?}");
        };
        assert_eq!(open, opened - closed);
        Books {
            events,
            alive,
            buffers: [given, back],
            handles: [opened, closed],
            errors,
        }
    }

    /// Reads the books, which must balance: everything released and closed once, no errors.
    pub(crate) fn even(&self) -> Books {
        let books = self.books();
        assert_eq!((books.alive, books.errors), (0, 0), "{books:?}");
        assert_eq!(books.buffers[0], books.buffers[1], "{books:?}");
        assert_eq!(books.handles[0], books.handles[1], "{books:?}");
        books
    }
}

/// Makes a tensor of FP32.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor::new(DataType::F32, shape.to_vec(), data.into()).unwrap()
}

/// Reads the numbers of a tensor.
pub(crate) fn numbers<T, const N: usize>(tensor: &Tensor, read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, rest) = tensor.data().as_chunks::<N>();
    assert!(rest.is_empty());
    chunks.iter().map(|chunk| read(*chunk)).collect()
}

/// Reads the numbers of an output of FP32.
pub(crate) fn output(outputs: &TensorMap, name: &str) -> Vec<f32> {
    numbers(
        ovms::tensor::named(outputs, name).unwrap(),
        f32::from_le_bytes,
    )
}
