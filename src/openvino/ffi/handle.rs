//! Pointers to the runtime's objects, which are freed when dropped, and what else its calls take and
//! give: statuses, values, and texts.

use std::{
    ffi::{CStr, CString, c_char},
    mem,
    ptr::{self, NonNull},
};

use openvino::{ElementType, InferenceError, InferenceErrorKind};
use openvino_sys::{self as sys, ov_element_type_e, ov_status_e};

/// Outcome of a call of the C interface.
pub(super) type Result<T> = std::result::Result<T, InferenceError>;

/// An object of the C interface that its maker has to free.
pub(crate) trait Freed {
    /// Frees the object.
    ///
    /// # Safety
    ///
    /// The pointer is one that the C interface made, and not used any more.
    unsafe fn free(object: *mut Self);
}

/// The one pointer to an object that is ours.
pub(in crate::openvino) struct Handle<T: Freed>(NonNull<T>);

impl<T: Freed> Handle<T> {
    /// Calls a function that makes an object and puts its pointer into its argument.
    ///
    /// # Safety
    ///
    /// If the function returns that it went well, the pointer is null or that of an object that is
    /// the caller's to free.
    pub(super) unsafe fn made(make: impl FnOnce(*mut *mut T) -> ov_status_e) -> Result<Self> {
        let object = given(ptr::null_mut(), make)?;
        NonNull::new(object)
            .map(Self)
            .ok_or_else(|| unfit("the runtime gave nothing"))
    }

    /// Returns the pointer, which is good for as long as the handle is.
    pub(in crate::openvino) const fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Freed> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: `made` got the pointer from the C interface, and the only handle with it ends.
        unsafe { T::free(self.0.as_ptr()) }
    }
}

/// Names the functions that free objects.
macro_rules! freed {
    ($($object:ident: $free:ident,)+) => {$(
        impl Freed for sys::$object {
            unsafe fn free(object: *mut Self) {
                // SAFETY: the caller promises an object of this type that nobody uses any more.
                unsafe { sys::$free(object) }
            }
        }
    )+};
}

freed!(
    ov_core_t: ov_core_free,
    ov_model_t: ov_model_free,
    ov_compiled_model_t: ov_compiled_model_free,
    ov_infer_request_t: ov_infer_request_free,
    ov_output_const_port_t: ov_output_const_port_free,
    ov_tensor_t: ov_tensor_free,
    ov_preprocess_prepostprocessor_t: ov_preprocess_prepostprocessor_free,
    ov_preprocess_input_info_t: ov_preprocess_input_info_free,
    ov_preprocess_input_tensor_info_t: ov_preprocess_input_tensor_info_free,
    ov_preprocess_input_model_info_t: ov_preprocess_input_model_info_free,
    ov_preprocess_preprocess_steps_t: ov_preprocess_preprocess_steps_free,
    ov_layout_t: ov_layout_free,
);

/// Calls a function that puts a value in the place of another one.
pub(super) fn given<T>(mut value: T, call: impl FnOnce(*mut T) -> ov_status_e) -> Result<T> {
    check(call(&raw mut value))?;
    Ok(value)
}

/// Asks for the type of elements; one of a newer runtime that the bindings do not know is dynamic.
pub(super) fn element_type(
    call: impl FnOnce(*mut ov_element_type_e) -> ov_status_e,
) -> Result<ElementType> {
    let number = given(0_u32, |number| call(number.cast()))?;
    if number > ov_element_type_e::F8E8M0 as u32 {
        return Ok(ElementType::Dynamic);
    }
    // SAFETY: each number from zero to the last type is a type.
    Ok(unsafe { mem::transmute::<u32, ov_element_type_e>(number) }.into())
}

/// Turns a status into a result, with the runtime's last message of this thread.
pub(super) fn check(status: ov_status_e) -> Result<()> {
    if status == ov_status_e::OK {
        return Ok(());
    }
    InferenceError::convert(status, last_message())
}

/// Returns the runtime's last message of this thread. The C interface gives a copy of it, which the `openvino` crate does
/// not free.
fn last_message() -> Option<String> {
    // SAFETY: the pointer is null, or that of a text that ends with a zero byte and is ours to free, once.
    unsafe {
        let text = sys::ov_get_last_err_msg();
        if text.is_null() {
            return None;
        }
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        sys::ov_free(text);
        Some(copy)
    }
}

/// Makes an error for an argument that the C interface cannot take.
pub(super) fn unfit(reason: &str) -> InferenceError {
    InferenceError {
        kind: InferenceErrorKind::InvalidCParam,
        message: Some(reason.to_owned()),
    }
}

/// Makes a text for the C interface.
pub(super) fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| unfit("a text has a zero byte"))
}

/// Calls a function that makes a text and puts its pointer into its argument; copies the text and
/// frees it.
///
/// # Safety
///
/// If the function returns that it went well, the pointer is null or that of a text that is the
/// caller's to free.
pub(super) unsafe fn made_text(
    make: impl FnOnce(*mut *mut c_char) -> ov_status_e,
) -> Result<String> {
    let text = given(ptr::null_mut(), make)?;
    if text.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the caller promises a text of the C interface, which ends with a zero byte; it is ours
    // to free, with this call, and nobody has it afterwards.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        sys::ov_free(text);
        Ok(copy)
    }
}
