//! The runtime's core: devices, their properties, and models read and compiled.

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
};

use openvino::{DeviceType, InferenceError, PropertyKey, RwPropertyKey, SetupError};
use openvino_sys::{
    ov_available_devices_free, ov_available_devices_t, ov_core_add_extension,
    ov_core_compile_model, ov_core_create, ov_core_free, ov_core_get_available_devices,
    ov_core_get_property, ov_core_read_model, ov_core_read_model_from_memory_buffer,
    ov_core_set_property, ov_core_t,
};

use super::{
    CompiledModel, Model,
    handle::{Handle, freed},
    status::{check, take_text, text, unfit},
};

freed!(ov_core_t: ov_core_free);

/// A core with the properties and extensions that it was given.
pub(in crate::openvino) struct Core(Handle<ov_core_t>);

// SAFETY: a core belongs to no thread; the runtime locks what its calls share.
unsafe impl Send for Core {}

impl Core {
    /// Makes a core; opens the library if it is not open yet.
    pub(in crate::openvino) fn new() -> Result<Self, SetupError> {
        openvino_sys::library::load().map_err(openvino::LoadingError::SystemFailure)?;
        // SAFETY: the function puts the pointer to a new core there.
        let core = unsafe { Handle::made(|core| ov_core_create(core)) }?;
        Ok(Self(core))
    }

    /// Lists the devices of this machine.
    pub(in crate::openvino) fn available_devices(&self) -> Result<Vec<String>, InferenceError> {
        let mut found = ov_available_devices_t {
            devices: ptr::null_mut(),
            size: 0,
        };
        // SAFETY: the core is alive, and the list is one that the call may fill.
        check(unsafe { ov_core_get_available_devices(self.0.get(), &raw mut found) })?;
        let names = (0..found.size).map(|index| {
            // SAFETY: the list has `size` texts, which end with a zero byte and are freed below.
            let name = unsafe { CStr::from_ptr(*found.devices.add(index)) };
            name.to_string_lossy().into_owned()
        });
        let names = names.collect();
        // SAFETY: the list was filled by the call above, and its texts have been copied.
        unsafe { ov_available_devices_free(&raw mut found) };
        Ok(names)
    }

    /// Asks for a property of a device.
    pub(in crate::openvino) fn get_property(
        &self,
        device: &DeviceType<'_>,
        key: &PropertyKey,
    ) -> Result<String, InferenceError> {
        let (device, key) = (text(device.as_ref())?, text(key.as_ref())?);
        let mut value = ptr::null_mut();
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns.
        check(unsafe {
            ov_core_get_property(self.0.get(), device.as_ptr(), key.as_ptr(), &raw mut value)
        })?;
        // SAFETY: the call has just made the text.
        Ok(unsafe { take_text(value) })
    }

    /// Sets a property of a device.
    pub(in crate::openvino) fn set_property(
        &mut self,
        device: &DeviceType<'_>,
        key: &RwPropertyKey,
        value: &str,
    ) -> Result<(), InferenceError> {
        let (device, key, value) = (text(device.as_ref())?, text(key.as_ref())?, text(value)?);
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns.
        check(unsafe {
            ov_core_set_property(self.0.get(), device.as_ptr(), key.as_ptr(), value.as_ptr())
        })
    }

    /// Adds a library of operations, for the models that are read from then on.
    pub(in crate::openvino) fn add_extension(&mut self, path: &Path) -> Result<(), InferenceError> {
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| unfit("a path cannot have a zero byte"))?;
        // SAFETY: the core is alive, the path ends with a zero byte and lives until the call returns.
        // The library's own code runs here: the one who names it trusts it.
        check(unsafe { ov_core_add_extension(self.0.get(), path.as_ptr()) })
    }

    /// Reads a model from its file, or from its two.
    pub(in crate::openvino) fn read_model_from_file(
        &mut self,
        model: &str,
        weights: &str,
    ) -> Result<Model, InferenceError> {
        let (model, weights) = (text(model)?, text(weights)?);
        // SAFETY: the core is alive, the texts end with a zero byte and live until the call returns;
        // the function puts the pointer to a new model there.
        let model = unsafe {
            Handle::made(|read| {
                ov_core_read_model(self.0.get(), model.as_ptr(), weights.as_ptr(), read)
            })
        }?;
        Ok(Model::new(model))
    }

    /// Reads a model without weights from memory.
    pub(in crate::openvino) fn read_model_from_buffer(
        &mut self,
        model: &[u8],
    ) -> Result<Model, InferenceError> {
        // SAFETY: the core is alive, the bytes are as many as is said and live until the call
        // returns, no weights are allowed; the function puts the pointer to a new model there.
        let model = unsafe {
            Handle::made(|read| {
                let (bytes, length) = (model.as_ptr().cast(), model.len());
                ov_core_read_model_from_memory_buffer(
                    self.0.get(),
                    bytes,
                    length,
                    ptr::null(),
                    read,
                )
            })
        }?;
        Ok(Model::new(model))
    }

    /// Compiles a model for a device.
    pub(in crate::openvino) fn compile_model(
        &mut self,
        model: &Model,
        device: &DeviceType<'_>,
    ) -> Result<CompiledModel, InferenceError> {
        let device = text(device.as_ref())?;
        // SAFETY: core and model are alive, the text ends with a zero byte and lives until the call
        // returns, and no properties follow; the function puts the pointer to a new model there.
        let compiled = unsafe {
            Handle::made(|compiled| {
                ov_core_compile_model(self.0.get(), model.get(), device.as_ptr(), 0, compiled)
            })
        }?;
        Ok(CompiledModel::new(compiled))
    }
}
