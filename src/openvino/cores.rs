//! Runtimes that loads use one after the other.
//!
//! A new one asks its devices for all they know before the first model: milliseconds of each load. One
//! with the same properties does as well; properties cannot be taken back, so others need another.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{device, error::ModelLoadError, ffi::Core, options::LoadOptions};

/// Maximum number of runtimes kept for the next load.
const MAX_KEPT: usize = 8;

/// Idle runtimes, the one used last at the end.
static IDLE: Mutex<VecDeque<(Setting, Core)>> = Mutex::new(VecDeque::new());

/// Property for mapping weights from their file instead of reading them.
const MMAP: &str = "ENABLE_MMAP";

/// Settings that a runtime was given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    device: String,
    properties: Vec<(String, String)>,
    cache: Option<String>,
}

/// Calls a function with a runtime that has the properties and the extension of these options, and keeps
/// compiled models in the folder `cache`. The next load has it if this one goes well.
pub(super) fn with<T>(
    options: &LoadOptions,
    cache: Option<&str>,
    work: impl FnOnce(&mut Core) -> Result<T, ModelLoadError>,
) -> Result<T, ModelLoadError> {
    let setting = Setting {
        device: options.device.clone(),
        properties: options.properties.clone(),
        cache: cache.map(ToOwned::to_owned),
    };
    // The file of an extension may be another one by the next load.
    if options.cpu_extension.is_some() {
        return work(&mut make(&setting, options)?);
    }
    let mut core = match take(&setting) {
        Some(core) => core,
        None => make(&setting, options)?,
    };
    let done = work(&mut core)?;
    let mut idle = IDLE.lock();
    idle.push_back((setting, core));
    let oldest = (idle.len() > MAX_KEPT).then(|| idle.pop_front());
    drop(idle);
    // Takes a moment.
    drop(oldest);
    Ok(done)
}

/// Makes a runtime.
fn make(setting: &Setting, options: &LoadOptions) -> Result<Core, ModelLoadError> {
    let mut core = Core::new().map_err(|error| ModelLoadError::Runtime(error.into()))?;
    if let Some(path) = &options.cpu_extension {
        let load = format_args!("load the CPU extension {}", path.display());
        core.add_extension(path)
            .map_err(ModelLoadError::refused(load))?;
    }
    let device = &setting.device;
    // A file that is mapped and overwritten in place, as `cp` does, takes the process down.
    if !setting.properties.iter().any(|(key, _)| key == MMAP) {
        device::set_of_runtime(&mut core, device, MMAP, "NO")?;
    }
    device::set_properties(&mut core, device, &setting.properties)?;
    if let Some(folder) = &setting.cache {
        device::set_of_runtime(&mut core, device, "CACHE_DIR", folder)?;
    }
    Ok(core)
}

fn take(setting: &Setting) -> Option<Core> {
    let mut idle = IDLE.lock();
    let at = idle.iter().rposition(|(known, _)| known == setting)?;
    idle.remove(at).map(|(_, core)| core)
}
