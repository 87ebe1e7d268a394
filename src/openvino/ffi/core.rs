//! The runtime's core: devices, their properties, and models read and compiled.

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
};

use openvino::{PropertyKey, SetupError};
use openvino_sys as sys;

use super::{
    CompiledModel, Model,
    handle::{Handle, Result, check, given, made_text, text, unfit},
};

/// A core with the properties and extensions that it was given.
pub(in crate::openvino) type Core = Handle<sys::ov_core_t>;

// SAFETY: a core belongs to no thread; the runtime locks what its calls share.
unsafe impl Send for Core {}

impl Core {
    /// Makes a core; opens the library if it is not open yet.
    pub(crate) fn new() -> std::result::Result<Self, SetupError> {
        sys::library::load().map_err(openvino::LoadingError::SystemFailure)?;
        // SAFETY: the function puts the pointer to a new core there.
        Ok(unsafe { Self::made(|core| sys::ov_core_create(core)) }?)
    }

    /// Lists the devices of this machine.
    pub(crate) fn available_devices(&self) -> Result<Vec<String>> {
        let none = sys::ov_available_devices_t {
            devices: ptr::null_mut(),
            size: 0,
        };
        // SAFETY: the core is alive, and the list is one that the call may fill.
        let list = |list| unsafe { sys::ov_core_get_available_devices(self.get(), list) };
        let mut found = given(none, list)?;
        let names = (0..found.size).map(|index| {
            // SAFETY: the list has `size` texts, which end with a zero byte and are freed below.
            let name = unsafe { CStr::from_ptr(*found.devices.add(index)) };
            name.to_string_lossy().into_owned()
        });
        let names = names.collect();
        // SAFETY: the list was filled by the call above, and its texts have been copied.
        unsafe { sys::ov_available_devices_free(&raw mut found) };
        Ok(names)
    }

    /// Asks for a property of a device.
    pub(crate) fn get_property(&self, device: &str, key: &PropertyKey) -> Result<String> {
        let (device, key) = (text(device)?, text(key.as_ref())?);
        let (device, key) = (device.as_ptr(), key.as_ptr());
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns,
        // which makes another one.
        unsafe { made_text(|value| sys::ov_core_get_property(self.get(), device, key, value)) }
    }

    /// Sets a property of a device.
    pub(crate) fn set_property(&mut self, device: &str, key: &str, value: &str) -> Result<()> {
        let (device, key, value) = (text(device)?, text(key)?, text(value)?);
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns.
        check(unsafe {
            sys::ov_core_set_property(self.get(), device.as_ptr(), key.as_ptr(), value.as_ptr())
        })
    }

    /// Adds a library of operations, for the models that are read from then on.
    pub(crate) fn add_extension(&mut self, path: &Path) -> Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| unfit("a path cannot have a zero byte"))?;
        // SAFETY: the core is alive, the path ends with a zero byte and lives until the call returns.
        // The library's own code runs here: the one who names it trusts it.
        check(unsafe { sys::ov_core_add_extension(self.get(), path.as_ptr()) })
    }

    /// Reads a model from its file, or from its two.
    pub(crate) fn read_model_from_file(&mut self, model: &str, weights: &str) -> Result<Model> {
        let (model, weights) = (text(model)?, text(weights)?);
        let (model, weights) = (model.as_ptr(), weights.as_ptr());
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns;
        // the function puts the pointer to a new model there.
        unsafe { Handle::made(|read| sys::ov_core_read_model(self.get(), model, weights, read)) }
    }

    /// Reads a model without weights from memory.
    pub(crate) fn read_model_from_buffer(&mut self, model: &[u8]) -> Result<Model> {
        let (bytes, length) = (model.as_ptr().cast(), model.len());
        let read = sys::ov_core_read_model_from_memory_buffer;
        // SAFETY: the core is alive, the bytes are as many as is said and live until the call
        // returns, no weights are allowed; the function puts the pointer to a new model there.
        unsafe { Handle::made(|model| read(self.get(), bytes, length, ptr::null(), model)) }
    }

    /// Compiles a model for a device.
    pub(crate) fn compile_model(&mut self, model: &Model, device: &str) -> Result<CompiledModel> {
        let device = text(device)?;
        // SAFETY: core and model are alive, the text ends with a zero byte and lives until the call
        // returns, and no properties follow; the function puts the pointer to a new model there.
        unsafe {
            Handle::made(|compiled| {
                sys::ov_core_compile_model(self.get(), model.get(), device.as_ptr(), 0, compiled)
            })
        }
    }
}
