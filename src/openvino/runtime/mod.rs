//! Finds the OpenVINO runtime on this machine and opens it.
//!
//! The runtime is a shared library, `libopenvino_c`, with its plugins beside it. It comes from
//! the `openvino` wheel on PyPI, an archive, or a system package. The places are searched in the
//! order of [`RuntimeOrigin`], and the first that opens is used.

pub mod start;
mod survey;
mod unfinished;

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

pub use survey::{Device, SearchedPlace, devices, devices_of_opened, list_devices_with, survey};
pub use unfinished::UNFINISHED_MARKER;

use super::{ffi::Core, runtime_error::OpenVinoError};

/// The release of the wheel that the project is built and tested with.
pub const PINNED_VERSION: &str = "2026.4.1";

/// Origin of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeOrigin {
    /// The folder that `OPENVINO_INSTALL_DIR` names.
    InstallDir,
    /// The Python environment that the program is installed in, by its wheel.
    OwnEnvironment,
    /// The virtual environment that is active.
    ActiveVenv,
    /// The virtual environment that `ovms setup` makes.
    Managed,
    /// A package of the system, or the library path.
    System,
}

impl fmt::Display for RuntimeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InstallDir => "OPENVINO_INSTALL_DIR",
            Self::OwnEnvironment => "the environment that ovms is installed in",
            Self::ActiveVenv => "the active virtual environment",
            Self::Managed => "the folder of `ovms setup`",
            Self::System => "the system",
        })
    }
}

/// A runtime on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRuntime {
    /// Its origin.
    pub origin: RuntimeOrigin,
    /// The shared library with the C interface.
    pub library: PathBuf,
}

/// Places to search, taken from the environment by the caller.
#[derive(Debug, Clone, Default)]
pub struct RuntimeSearchPath {
    /// `OPENVINO_INSTALL_DIR`.
    pub install_dir: Option<PathBuf>,
    /// The Python environment that the program is installed in; see [`own_environment`].
    pub own: Option<PathBuf>,
    /// `VIRTUAL_ENV` or `CONDA_PREFIX`.
    pub venv: Option<PathBuf>,
    /// The folder of `ovms setup`.
    pub managed: Option<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
    /// Includes the system's own folders.
    pub system: bool,
}

/// Error of opening a runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// No runtime in any of the places.
    #[error("no OpenVINO runtime found")]
    Missing,
    /// `OPENVINO_INSTALL_DIR` names a folder without one.
    #[error("OPENVINO_INSTALL_DIR is {}, where there is no OpenVINO runtime", .0.display())]
    InstallDir(PathBuf),
    /// An installation that is running, or that was interrupted, in this folder.
    #[error("`ovms setup` has not finished installing OpenVINO into {}", .0.display())]
    Unfinished(PathBuf),
    /// The library is there and does not open.
    #[error("cannot open {}: {reason}", library.display())]
    Open {
        /// The library.
        library: PathBuf,
        /// Error from the operating system.
        reason: String,
    },
    /// The library opens and cannot compile a model of one operation.
    #[error("{} does not work: {reason}", library.display())]
    Broken {
        /// The library.
        library: PathBuf,
        /// Error from the runtime.
        reason: String,
    },
}

/// Facts about an opened runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its location.
    pub found: FoundRuntime,
    /// Its version, as it says itself.
    pub version: String,
}

/// Finds the first runtime in the places. One whose installation is not finished is passed over.
///
/// # Errors
///
/// Fails if there is none, or if `OPENVINO_INSTALL_DIR` is given and has none: a place that was
/// named on purpose is not passed over in silence.
pub fn find(places: &RuntimeSearchPath) -> Result<FoundRuntime, RuntimeError> {
    let mut unfinished = None;
    for place in survey::searched(places) {
        let origin = place.origin;
        match (place.unfinished, place.library, place.folder) {
            (Some(folder), ..) if origin == RuntimeOrigin::InstallDir => {
                return Err(RuntimeError::Unfinished(folder));
            }
            (Some(folder), ..) => unfinished = unfinished.or(Some(folder)),
            (None, Some(library), _) => return Ok(FoundRuntime { origin, library }),
            (None, None, Some(dir)) if origin == RuntimeOrigin::InstallDir => {
                return Err(RuntimeError::InstallDir(dir));
            }
            _ => {}
        }
    }
    Err(unfinished.map_or(RuntimeError::Missing, RuntimeError::Unfinished))
}

/// Finds the runtime in a folder of `ovms setup`, also if its installation is not finished: for that command itself.
///
/// # Errors
///
/// Fails if there is none.
pub fn find_managed(folder: &Path) -> Result<FoundRuntime, RuntimeError> {
    let library = library_under(folder).ok_or(RuntimeError::Missing)?;
    let origin = RuntimeOrigin::Managed;
    Ok(FoundRuntime { origin, library })
}

/// Finds a runtime and opens it for the rest of the process. A second call changes nothing.
///
/// # Errors
///
/// Fails if none is found or the one that is found does not open.
pub fn open(places: &RuntimeSearchPath) -> Result<Opened, RuntimeError> {
    open_found(find(places)?)
}

/// Opens a runtime for the rest of the process. A second call changes nothing.
///
/// # Errors
///
/// Fails if it does not open.
pub fn open_found(found: FoundRuntime) -> Result<Opened, RuntimeError> {
    bound_arenas();
    openvino_sys::library::load_from(&found.library).map_err(|reason| RuntimeError::Open {
        library: found.library.clone(),
        reason,
    })?;
    let version = openvino::version().build_number;
    // The first library stays open, so the first path is the one to keep.
    OPENED.get_or_init(|| found.library.clone());
    Ok(Opened { found, version })
}

/// The library that is open.
static OPENED: OnceLock<PathBuf> = OnceLock::new();

/// Returns the path of the library that was opened.
pub(super) fn opened() -> Option<&'static Path> {
    OPENED.get().map(PathBuf::as_path)
}

/// Returns the version of the runtime that was opened, as it says itself; `None` if none was.
pub fn version() -> Option<String> {
    opened().map(|_| openvino::version().build_number)
}

/// Bounds the arenas of the system's allocator, which the runtime uses, to one for each core. Other
/// systems' allocators have no such number.
///
/// By default there are eight for each core, and the threads of each new model move to the next of
/// them, so that memory grows with reloads until all of them have been used.
fn bound_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let arenas = i32::try_from(cores.max(2)).unwrap_or(i32::MAX);
        // SAFETY: the call changes a number of the allocator and takes no pointer. A refusal (0)
        // leaves the default, which is no error.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
}

/// Asks the system's allocator, which the runtime uses, to give back what is free; other systems' see to
/// it themselves. Takes milliseconds where there is much: for after mass removals, never for the path of
/// a request.
pub fn trim() {
    // SAFETY: the call takes no pointer and only gives back what is free.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Compiles a model of one operation on the CPU, to see that the opened runtime has what it
/// needs: its plugins, its front ends, the libraries under them.
///
/// # Errors
///
/// Fails with what the runtime said.
pub fn check(opened: &Opened) -> Result<(), RuntimeError> {
    let compile = || -> Result<(), OpenVinoError> {
        let mut core = Core::new()?;
        let model = core.read_model_from_buffer(TINY_MODEL.as_bytes())?;
        core.compile_model(&model, "CPU")?;
        Ok(())
    };
    compile().map_err(|reason| RuntimeError::Broken {
        library: opened.found.library.clone(),
        reason: reason.to_string(),
    })
}

/// `y = relu(x)` for four numbers.
const TINY_MODEL: &str = r#"<?xml version="1.0"?>
<net name="check" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="4" element_type="f32"/>
<output><port id="0" precision="FP32" names="x"><dim>4</dim></port></output></layer>
<layer id="1" name="relu" type="ReLU" version="opset1">
<input><port id="0" precision="FP32"><dim>4</dim></port></input>
<output><port id="1" precision="FP32" names="y"><dim>4</dim></port></output></layer>
<layer id="2" name="y" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>4</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"#;

/// Locations of the library below the folder of an installation: the wheel, a virtual environment,
/// and the archive of each processor.
const BELOW: [&str; 9] = [
    "",
    "libs",
    "openvino/libs",
    "lib",
    "lib64",
    "runtime/lib/intel64",
    "runtime/lib/intel64/Release",
    "runtime/lib/aarch64",
    "runtime/lib/arm64/Release",
];

/// Finds the library in a folder or where installations keep it below.
fn library_under(dir: &Path) -> Option<PathBuf> {
    BELOW
        .iter()
        .find_map(|below| library_in(&dir.join(below)))
        .or_else(|| {
            site_packages(&dir.join("lib"))
                .into_iter()
                .find_map(|folder| library_in(&folder))
        })
}

/// Returns the Python environment that a program is installed in by its wheel: `bin/ovms` of a prefix whose
/// `site-packages` have the metadata of the wheel.
pub fn own_environment(program: &Path) -> Option<PathBuf> {
    let bin = program.parent().filter(|folder| folder.ends_with("bin"))?;
    let prefix = bin.parent()?;
    let is_ours = |libs: PathBuf| {
        libs.ancestors()
            .nth(2)
            .is_some_and(|packages| !sorted_entries(packages, "ovms-").is_empty())
    };
    site_packages(&prefix.join("lib"))
        .into_iter()
        .any(is_ours)
        .then(|| prefix.to_owned())
}

/// The wheel's folder below `lib/python3.*/`, for virtual environments and system Pythons.
fn site_packages(lib: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for python in sorted_entries(lib, "python3") {
        for packages in ["site-packages", "dist-packages"] {
            folders.push(python.join(packages).join("openvino/libs"));
        }
    }
    folders
}

/// The folders of system packages, archives under `/opt/intel`, and system Pythons.
fn system_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ]
    .map(PathBuf::from)
    .into();
    for archive in sorted_entries(Path::new("/opt/intel"), "openvino") {
        folders.extend(BELOW.iter().map(|below| archive.join(below)));
    }
    folders.extend(site_packages(Path::new("/usr/local/lib")));
    folders.extend(site_packages(Path::new("/usr/lib")));
    folders
}

/// Finds `libopenvino_c.so`, or the newest of `libopenvino_c.so.*`, in a folder.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let name = format!(
        "{}openvino_c{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let plain = folder.join(&name);
    if plain.is_file() {
        return Some(plain);
    }
    sorted_entries(folder, &format!("{name}.")).pop()
}

/// The entries of a folder whose names begin with a prefix, sorted; none if it cannot be read.
fn sorted_entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{RuntimeError, RuntimeOrigin, RuntimeSearchPath, find, own_environment, survey};

    fn place(root: &std::path::Path, below: &str) {
        fs::create_dir_all(root.join(below)).unwrap();
        fs::write(root.join(below).join("libopenvino_c.so.2641"), "").unwrap();
    }

    #[test]
    fn a_survey_lists_every_place_in_order() {
        let root = tempfile::tempdir().unwrap();
        place(&root.path().join("managed"), "openvino/libs");
        place(&root.path().join("path"), "");
        let places = RuntimeSearchPath {
            venv: Some(root.path().join("venv")),
            managed: Some(root.path().join("managed")),
            library_path: Some(root.path().join("path").into()),
            ..RuntimeSearchPath::default()
        };
        let looked = survey(&places);
        let found: Vec<_> = looked
            .iter()
            .map(|it| (it.origin, it.library.is_some()))
            .collect();
        assert_eq!(
            found,
            [
                (RuntimeOrigin::ActiveVenv, false),
                (RuntimeOrigin::Managed, true),
                (RuntimeOrigin::System, true),
            ]
        );
        assert_eq!(looked[1].library, Some(find(&places).unwrap().library));
        assert_eq!(survey(&RuntimeSearchPath::default()), []);
    }

    #[test]
    fn an_environment_is_that_of_a_program_if_its_wheel_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages.join("openvino-2026.4.1.dist-info")).unwrap();
        let program = root.path().join("bin/ovms");
        assert_eq!(own_environment(&program), None);
        fs::create_dir_all(packages.join("ovms-0.1.0.dist-info")).unwrap();
        assert_eq!(own_environment(&program).as_deref(), Some(root.path()));
        assert_eq!(own_environment(&root.path().join("target/ovms")), None);
        assert_eq!(own_environment(std::path::Path::new("/ovms")), None);
    }

    #[test]
    fn the_places_are_searched_in_order() {
        let root = tempfile::tempdir().unwrap();
        let dir = |name: &str| Some(root.path().join(name));
        let mut places = RuntimeSearchPath {
            managed: dir("managed"),
            library_path: Some(root.path().join("path").into()),
            ..RuntimeSearchPath::default()
        };
        assert!(matches!(find(&places), Err(RuntimeError::Missing)));

        place(&root.path().join("path"), "");
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::System);
        place(
            &root.path().join("managed"),
            "lib/python3.11/site-packages/openvino/libs",
        );
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::Managed);
        places.venv = dir("venv");
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::Managed);
        place(
            &root.path().join("venv"),
            "lib/python3.12/site-packages/openvino/libs",
        );
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::ActiveVenv);
        places.own = dir("own");
        place(
            &root.path().join("own"),
            "lib/python3.13/site-packages/openvino/libs",
        );
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::OwnEnvironment);
        places.install_dir = dir("archive");
        assert!(matches!(find(&places), Err(RuntimeError::InstallDir(_))));
        place(&root.path().join("archive"), "runtime/lib/intel64");
        assert_eq!(find(&places).unwrap().origin, RuntimeOrigin::InstallDir);
    }
}
