//! Runtimes that loads use one after the other.
//!
//! A new one asks its devices for all they know before the first model: milliseconds of each load. One
//! with the same properties does as well; properties cannot be taken back, so others need another.

use std::{
    collections::VecDeque,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{device, error::ModelLoadError, ffi::Core, options::LoadOptions};

/// Maximum number of runtimes kept for the next load.
const MAX: usize = 8;

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

/// A runtime that has its properties.
pub(super) struct Ready {
    core: Core,
    /// `None` if another load must not have it.
    setting: Option<Setting>,
}

impl Ready {
    /// Returns a runtime with the properties and the extension of these options, and with compiled
    /// models kept in the folder `cache`.
    pub(super) fn new(options: &LoadOptions, cache: Option<&str>) -> Result<Self, ModelLoadError> {
        let setting = Setting {
            device: options.device.clone(),
            properties: options.properties.clone(),
            cache: cache.map(ToOwned::to_owned),
        };
        // The file of an extension may be another one by the next load.
        if let Some(extension) = options.cpu_extension.as_deref() {
            let core = make(&setting, Some(extension))?;
            return Ok(Self {
                core,
                setting: None,
            });
        }
        let core = match take(&setting) {
            Some(core) => core,
            None => make(&setting, None)?,
        };
        Ok(Self {
            core,
            setting: Some(setting),
        })
    }

    /// Leaves it to the next load, since this one went well.
    pub(super) fn keep(self) {
        let Some(setting) = self.setting else {
            return;
        };
        let mut idle = idle();
        idle.push_back((setting, self.core));
        let oldest = (idle.len() > MAX).then(|| idle.pop_front());
        drop(idle);
        // Takes a moment.
        drop(oldest);
    }
}

impl Deref for Ready {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Ready {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

/// Makes a runtime.
fn make(setting: &Setting, extension: Option<&Path>) -> Result<Core, ModelLoadError> {
    let mut core = Core::new().map_err(|error| ModelLoadError::Runtime(error.into()))?;
    if let Some(path) = extension {
        core.add_extension(path)
            .map_err(|error| ModelLoadError::Extension {
                path: path.to_owned(),
                source: error.into(),
            })?;
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
    let mut idle = idle();
    let at = idle.iter().rposition(|(known, _)| known == setting)?;
    idle.remove(at).map(|(_, core)| core)
}

fn idle() -> MutexGuard<'static, VecDeque<(Setting, Core)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use openvino::{DeviceType, PropertyKey, RwPropertyKey};

    use super::*;
    use crate::openvino::testing::open;

    #[test]
    fn a_load_gets_a_runtime_with_its_own_properties() {
        open();
        let streams = |count: &str| {
            let options = LoadOptions {
                device: "CPU".to_owned(),
                properties: vec![("NUM_STREAMS".to_owned(), count.to_owned())],
                ..LoadOptions::default()
            };
            let core = Ready::new(&options, None).unwrap();
            let key = PropertyKey::Rw(RwPropertyKey::NumStreams);
            let reported = core.get_property(&DeviceType::CPU, &key).unwrap();
            core.keep();
            reported
        };
        let reported = ["2", "3", "2", "3"].map(streams);
        assert_eq!(reported, ["2", "3", "2", "3"]);
    }
}
