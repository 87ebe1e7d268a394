//! Operations that others have written for the CPU, as a shared library.
//!
//! The `openvino` crate has no call for it, so this one goes to the C interface itself, with the
//! pointer that the crate's `Core` wraps. The crate is pinned to one release for that.

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

use openvino::Core;
use openvino_sys::{ov_core_add_extension, ov_core_t, ov_status_e};

use super::runtime_error::OpenVinoError;

/// Layout assumptions of [`pointer`].
const _: () = assert!(
    size_of::<Core>() == size_of::<*mut ov_core_t>()
        && align_of::<Core>() == align_of::<*mut ov_core_t>()
);

/// Hands a library of operations to a core, for the models that it reads from then on.
///
/// # Errors
///
/// Fails with what the runtime said of the library.
pub(super) fn add(core: &Core, path: &Path) -> Result<(), OpenVinoError> {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(OpenVinoError::new("a path cannot have a zero byte"));
    };
    // SAFETY: the pointer is that of a live core, which `core` borrows for the length of the call;
    // the path is a string that ends with a zero byte. The library's own code runs here: whoever
    // names it trusts it.
    let status = unsafe { ov_core_add_extension(pointer(core), path.as_ptr()) };
    if status == ov_status_e::OK {
        return Ok(());
    }
    Err(OpenVinoError::last("it is no extension"))
}

/// Returns the pointer that a core wraps.
fn pointer(core: &Core) -> *const ov_core_t {
    // SAFETY: in the pinned release `Core` has one field, the pointer. Size and alignment are
    // those of a pointer, as is asserted above, so the field is all there is of it.
    unsafe { std::ptr::from_ref(core).cast::<*const ov_core_t>().read() }
}
