//! The package `pyovms`, unpacked for interpreters.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The files of the package `pyovms`, by their names in its folder.
pub const FILES: &[(&str, &[u8])] = &[
    (
        "__init__.py",
        include_bytes!("../../../pyovms/python/pyovms/__init__.py"),
    ),
    (
        "__init__.pyi",
        include_bytes!("../../../pyovms/python/pyovms/__init__.pyi"),
    ),
    (
        "loading.py",
        include_bytes!("../../../pyovms/python/pyovms/loading.py"),
    ),
    (
        "py.typed",
        include_bytes!("../../../pyovms/python/pyovms/py.typed"),
    ),
    (
        "worker.py",
        include_bytes!("../../../pyovms/python/pyovms/worker.py"),
    ),
    #[cfg(feature = "python")]
    (
        "_pyovms.abi3.so",
        include_bytes!(concat!(env!("OUT_DIR"), "/_pyovms.abi3.so")),
    ),
];

/// Returns the folder with the package, for `PYTHONPATH`.
///
/// # Errors
///
/// Fails if it cannot be written.
pub(super) fn folder() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOLDER.get_or_init(|| unpack(&cache())).clone()
}

/// Returns the user's folder for what can be made again.
fn cache() -> PathBuf {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("ovms")
}

/// Unpacks the package into a folder named after its contents, unless it is there.
fn unpack(cache: &Path) -> Result<PathBuf, String> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for (name, contents) in FILES {
        digest.update(name.as_bytes());
        digest.update(contents);
    }
    let digest = digest.finish();
    let name = digest
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"));
    let name: String = name.collect();
    let refused = |folder: &Path, error: io::Error| {
        format!(
            "the package for Python cannot be unpacked to {}: {error}",
            folder.display()
        )
    };
    let folder = cache.join(format!("pyovms-{name}"));
    match write(&folder) {
        Ok(()) => Ok(folder),
        Err(first) => {
            // A home that cannot be written to, as in many containers.
            let own = std::env::temp_dir().join(format!(
                "ovms-{}-{name}",
                rustix::process::getuid().as_raw()
            ));
            write(&own)
                .map(|()| own)
                .map_err(|_| refused(&folder, first))
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let package = folder.join("pyovms");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&package)?;
    // Anybody could have made one in a folder that is everybody's.
    if fs::metadata(folder)?.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other("it belongs to somebody else"));
    }
    for (name, contents) in FILES {
        let file = package.join(name);
        if fs::read(&file).is_ok_and(|found| found == *contents) {
            continue;
        }
        let mut new = tempfile::NamedTempFile::new_in(&package)?;
        io::Write::write_all(&mut new, contents)?;
        new.persist(&file)?;
    }
    Ok(())
}
