//! Statuses and texts of the C interface.

use std::ffi::{CStr, CString, c_char};

use openvino::{InferenceError, InferenceErrorKind};
use openvino_sys::{ov_free, ov_status_e};

/// Turns a status into a result, with the runtime's last message of this thread.
pub(super) fn check(status: ov_status_e) -> Result<(), InferenceError> {
    if status == ov_status_e::OK {
        return Ok(());
    }
    InferenceError::convert(status, openvino::get_last_error_message())
}

/// Makes an error for an argument that the C interface cannot take.
pub(super) fn unfit(reason: &str) -> InferenceError {
    InferenceError {
        kind: InferenceErrorKind::InvalidCParam,
        message: Some(reason.to_owned()),
    }
}

/// Makes a text for the C interface.
pub(super) fn text(text: &str) -> Result<CString, InferenceError> {
    CString::new(text).map_err(|_| unfit("a text has a zero byte"))
}

/// Copies a text that the runtime gave, and frees it.
///
/// # Safety
///
/// The text is null, or one that the C interface has just made for its caller.
pub(super) unsafe fn take_text(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises a text of the C interface, which ends with a zero byte; it is the
    // caller's to free, with this call, and nobody has it afterwards.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        ov_free(text);
        copy
    }
}
