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
    let made = |folder: &Path| {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)
    };
    made(folder)?;
    // Anybody could have made one in a folder that is everybody's, or a link, which may lead elsewhere later.
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other(
            "it is no folder of the user of this process",
        ));
    }
    let package = folder.join("pyovms");
    made(&package)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{FILES, write};

    #[test]
    fn the_package_is_written_to_a_folder_and_to_no_link() {
        let cache = tempfile::tempdir().unwrap();
        let (folder, link) = (cache.path().join("a/folder"), cache.path().join("link"));
        write(&folder).unwrap();
        for (name, contents) in FILES {
            let written = std::fs::read(folder.join("pyovms").join(name)).unwrap();
            assert_eq!(written, *contents, "{name}");
        }
        // Another one is as good.
        write(&folder).unwrap();
        let elsewhere = cache.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &link).unwrap();
        assert!(write(&link).is_err());
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
