//! Survey of the runtime beyond the fact that it works: all places searched, and the devices.

use std::{path::PathBuf, sync::OnceLock};

use openvino::PropertyKey;
use serde::{Deserialize, Serialize};

use super::{
    super::{ffi::Core, runtime_error::OpenVinoError},
    Opened, RuntimeError, RuntimeOrigin, RuntimeSearchPath, library_in, library_under,
    system_folders, unfinished,
};

/// One of the places that [`find`](super::find) looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedPlace {
    /// Origin that the place stands for.
    pub origin: RuntimeOrigin,
    /// The folder that it names; `None` for the system, which has several.
    pub folder: Option<PathBuf>,
    /// The library there, if there is one.
    pub library: Option<PathBuf>,
    /// The folder of the installation there, if `ovms setup` has not finished it.
    pub unfinished: Option<PathBuf>,
}

/// A device that models can run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the device for `--target-device`.
    pub name: String,
    /// Name by its maker; empty if the runtime does not say.
    pub full_name: String,
}

/// Looks at every place that there is, in the order of [`find`](super::find), and opens nothing.
pub fn survey(places: &RuntimeSearchPath) -> Vec<SearchedPlace> {
    searched(places).collect()
}

/// Looks at one place after the other.
pub(super) fn searched(places: &RuntimeSearchPath) -> impl Iterator<Item = SearchedPlace> {
    let named = [
        (RuntimeOrigin::InstallDir, &places.install_dir),
        (RuntimeOrigin::OwnEnvironment, &places.own),
        (RuntimeOrigin::ActiveVenv, &places.venv),
        (RuntimeOrigin::Managed, &places.managed),
    ];
    let named = named.into_iter().filter_map(|(origin, folder)| {
        let folder = folder.clone()?;
        let library = library_under(&folder);
        Some(SearchedPlace {
            origin,
            unfinished: unfinished::around(library.as_deref().unwrap_or(&folder)),
            library,
            folder: Some(folder),
        })
    });
    let of_system = || {
        let from_path = places.library_path.iter().flat_map(std::env::split_paths);
        let system = places.system.then(system_folders).unwrap_or_default();
        let mut folders = from_path.chain(system).peekable();
        folders.peek()?;
        let library = folders.find_map(|folder| library_in(&folder));
        Some(SearchedPlace {
            origin: RuntimeOrigin::System,
            folder: None,
            unfinished: library.as_deref().and_then(unfinished::around),
            library,
        })
    };
    named.chain(std::iter::once_with(of_system).flatten())
}

/// Lists the devices of the opened runtime. Blocks: plugins are loaded for it.
///
/// # Errors
///
/// Fails with what the runtime said.
pub fn devices(opened: &Opened) -> Result<Vec<Device>, RuntimeError> {
    list().map_err(|reason| RuntimeError::Broken {
        library: opened.found.library.clone(),
        reason: reason.to_string(),
    })
}

/// Function by which this process lists the devices of the runtime that it has opened.
static LISTER: OnceLock<Box<dyn Fn() -> Vec<Device> + Send + Sync>> = OnceLock::new();

/// Makes [`devices_of_opened`] ask in a process of its own: plugins of devices that nobody
/// wants stay out of this one. The first caller counts.
pub fn list_devices_with(list: impl Fn() -> Vec<Device> + Send + Sync + 'static) {
    // A second one lists the same.
    let _ = LISTER.set(Box::new(list));
}

/// Lists the devices of the runtime that was opened in this process; none if there is no such, or if
/// it cannot say. Blocks as [`devices`] does.
pub fn devices_of_opened() -> Vec<Device> {
    if let Some(list) = LISTER.get() {
        return list();
    }
    let devices = super::opened().and_then(|_| list().ok());
    devices.unwrap_or_default()
}

fn list() -> Result<Vec<Device>, OpenVinoError> {
    let core = Core::new()?;
    let devices = core.available_devices()?;
    let describe = |name: String| Device {
        full_name: core
            .get_property(&name, &PropertyKey::DeviceFullName)
            .map(|name| name.trim().to_owned())
            .unwrap_or_default(),
        name,
    };
    Ok(devices.into_iter().map(describe).collect())
}
