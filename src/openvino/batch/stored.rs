//! Measured sizes beside the compiled models, so that the next start does not measure again.

use std::{
    fmt, fs,
    io::Write,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::sizes::{BatchSizes, CANDIDATES};
use crate::openvino::{
    model_file::{self, Load},
    runtime,
};

/// Outcome of the measurements of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Reason why requests run one by one, if they do.
    pub(super) refused: Option<String>,
    pub(super) sizes: BatchSizes,
    /// Number of candidates that were tried: fewer than there are if the time was over, so that the next start goes on.
    #[serde(default = "all")]
    pub(super) tried: usize,
}

/// Returns the number of all candidates.
fn all() -> usize {
    CANDIDATES.len()
}

/// Contents of the file.
#[derive(Serialize, Deserialize)]
struct StoredFile {
    /// Digest of all that may change while the file has the same name.
    digest: String,
    #[serde(flatten)]
    measured: Measured,
}

/// File of the measurements of a model.
pub(super) struct StoredSizes {
    path: PathBuf,
    digest: String,
}

impl StoredSizes {
    /// Names the file by the model, the options of its load, and the machine, so that a model whose files change has one
    /// file still, and machines may share the folder. What else the measurements depend on is in a digest within: those
    /// files, the runtime, and the sizes that are measured.
    pub(super) fn new(folder: &str, load: &Load<'_>) -> Self {
        let options = load.options;
        let files = model_file::files(load.model).chain(load.weights.map(Path::to_owned));
        let stamps: Vec<_> = files.map(|path| stamp(&path)).collect();
        let settings = (
            (&options.device, &options.properties, &options.cpu_extension),
            (&options.batch, &options.shapes, &options.layouts),
            &options.preprocessing,
        );
        let name = digits(&(load.model, load.weights, settings, machine()));
        let version = (runtime::version(), env!("CARGO_PKG_VERSION"));
        Self {
            path: Path::new(folder).join(format!("ovms-batches-{name}.json")),
            digest: digits(&(stamps, version, CANDIDATES)),
        }
    }

    /// Reads what was measured; `None` if nothing was, it was another model or runtime, it cannot be read, or no
    /// measurement can have found it.
    pub(super) fn read(&self) -> Option<Measured> {
        let file: StoredFile = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        let StoredFile { digest, measured } = file;
        let is_known = digest == self.digest && measured.sizes.are_found(measured.tried);
        is_known.then_some(measured)
    }

    /// Writes what was measured. A file that cannot be written only costs time at the next start.
    pub(super) fn write(&self, measured: &Measured) {
        let contents = StoredFile {
            digest: self.digest.clone(),
            measured: measured.clone(),
        };
        let write = || -> std::io::Result<()> {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(&contents)?)?;
            file.persist(&self.path)?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::debug!("cannot write {}: {error}", self.path.display());
        }
    }
}

/// Returns the first digits of the digest of facts.
fn digits(facts: &impl fmt::Debug) -> String {
    let digest = digest(&SHA256, format!("{facts:?}").as_bytes());
    let digits = digest.as_ref().iter().take(8);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns path, size, and time of a file.
fn stamp(path: &Path) -> (PathBuf, u64, u128) {
    let found = fs::metadata(path).ok();
    let time = found.as_ref().and_then(|found| found.modified().ok());
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let size = found.map_or(0, |found| found.len());
    (path.to_owned(), size, since.map_or(0, |it| it.as_nanos()))
}

/// Describes the processors of this machine.
fn machine() -> (usize, String) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find(|line| line.starts_with("model name"));
    (cores, model.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::sizes::BatchSize, *};

    #[test]
    fn what_was_measured_is_read_again_and_anything_else_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let of = |digest: &str| StoredSizes {
            path: folder.path().join("sizes.json"),
            digest: digest.to_owned(),
        };
        let stored = of("now");
        assert_eq!(stored.read(), None);
        for refused in [None, Some("an input is of strings".to_owned())] {
            let rows = BatchSize {
                rows: 8,
                took: Some(Duration::from_micros(2500)),
            };
            let sizes = BatchSizes {
                alone: Duration::from_millis(1),
                list: vec![rows],
            };
            let measured = Measured {
                refused,
                sizes,
                tried: 4,
            };
            of("before").write(&measured);
            assert_eq!(stored.read(), None, "the model was another one");
            stored.write(&measured);
            assert_eq!(stored.read(), Some(measured.clone()));
            let bare = serde_json::to_vec(&measured).unwrap();
            fs::write(&stored.path, bare).unwrap();
            assert_eq!(stored.read(), None, "it has no digest");
        }
        let sizes = BatchSizes::up_to(8);
        stored.write(&Measured {
            refused: None,
            sizes,
            tried: all(),
        });
        assert_eq!(stored.read(), None, "they were configured");
        fs::write(&stored.path, "{").unwrap();
        assert_eq!(stored.read(), None);
    }
}
