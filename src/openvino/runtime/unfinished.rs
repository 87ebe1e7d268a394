//! Marker of an installation of `ovms setup` that is running or was interrupted: its library may be half written.

use std::path::{Path, PathBuf};

/// Name of the marker file, in the folder that is installed into.
pub const UNFINISHED_MARKER: &str = "ovms-setup.unfinished";

/// Returns the folder of the unfinished installation that a path is in, or is itself.
pub(super) fn around(path: &Path) -> Option<PathBuf> {
    let mut folders = path.ancestors();
    folders
        .find(|folder| folder.join(UNFINISHED_MARKER).exists())
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{
        super::{RuntimeError, RuntimeOrigin, RuntimeSearchPath, find, find_managed, survey},
        UNFINISHED_MARKER,
    };

    /// Makes a folder with a library, as a virtual environment has it.
    fn environment(folder: &Path) {
        let libs = folder.join("lib/python3.12/site-packages/openvino/libs");
        fs::create_dir_all(&libs).unwrap();
        fs::write(libs.join("libopenvino_c.so.2641"), "").unwrap();
    }

    #[test]
    fn a_library_that_may_be_half_written_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let [managed, venv] = ["managed", "venv"].map(|name| root.path().join(name));
        environment(&managed);
        environment(&venv);
        let mark = managed.join(UNFINISHED_MARKER);
        fs::write(&mark, "").unwrap();
        let refused = |places: &RuntimeSearchPath| match find(places) {
            Err(RuntimeError::Unfinished(folder)) => Some(folder),
            _ => None,
        };
        let mut places = RuntimeSearchPath {
            managed: Some(managed.clone()),
            ..RuntimeSearchPath::default()
        };
        assert_eq!(refused(&places), Some(managed.clone()));
        assert_eq!(survey(&places)[0].unfinished, Some(managed.clone()));
        // The command that installs it finds it nevertheless.
        let found = find_managed(&managed).unwrap();
        assert_eq!(found.origin, RuntimeOrigin::Managed);
        // Others are looked for, unless it is named on purpose.
        places.library_path = Some(found.library.parent().unwrap().into());
        assert_eq!(refused(&places), Some(managed.clone()));
        places.venv = Some(venv);
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::ActiveVenv);
        places.install_dir = Some(managed.clone());
        assert_eq!(refused(&places), Some(managed.clone()));
        fs::remove_file(&mark).unwrap();
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::InstallDir);
        assert_eq!(survey(&places)[0].unfinished, None);
    }

    #[test]
    fn an_installation_without_a_library_yet_is_unfinished_and_not_missing() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(UNFINISHED_MARKER), "").unwrap();
        let places = RuntimeSearchPath {
            managed: Some(root.path().to_owned()),
            ..RuntimeSearchPath::default()
        };
        let error = find(&places).unwrap_err().to_string();
        let shown = root.path().display();
        let expected = format!("`ovms setup` has not finished installing OpenVINO into {shown}");
        assert_eq!(error, expected);
        let found = find_managed(root.path());
        assert!(matches!(found, Err(RuntimeError::Missing)));
    }
}
