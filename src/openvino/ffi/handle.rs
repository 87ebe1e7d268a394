//! Pointers to the runtime's objects, which are freed when dropped.

use std::ptr::{self, NonNull};

use openvino::InferenceError;
use openvino_sys::ov_status_e;

use super::status::{check, unfit};

/// An object of the C interface that its maker has to free.
pub(super) trait Freed {
    /// Frees the object.
    ///
    /// # Safety
    ///
    /// The pointer is one that the C interface made, and not used any more.
    unsafe fn free(object: *mut Self);
}

/// The one pointer to an object that is ours.
pub(super) struct Handle<T: Freed>(NonNull<T>);

impl<T: Freed> Handle<T> {
    /// Calls a function that makes an object and puts its pointer into its argument.
    ///
    /// # Safety
    ///
    /// If the function returns that it went well, the pointer is null or that of an object that is
    /// the caller's to free.
    pub(super) unsafe fn made(
        make: impl FnOnce(*mut *mut T) -> ov_status_e,
    ) -> Result<Self, InferenceError> {
        let mut object = ptr::null_mut();
        check(make(&raw mut object))?;
        NonNull::new(object)
            .map(Self)
            .ok_or_else(|| unfit("the runtime gave nothing"))
    }

    /// Returns the pointer, which is good for as long as the handle is.
    pub(super) const fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Freed> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: `made` got the pointer from the C interface, and the only handle with it ends.
        unsafe { T::free(self.0.as_ptr()) }
    }
}

/// Names the function that frees objects of a type.
macro_rules! freed {
    ($($object:ty: $free:path),+ $(,)?) => {
        $(
            impl $crate::openvino::ffi::handle::Freed for $object {
                unsafe fn free(object: *mut Self) {
                    // SAFETY: the caller promises an object of this type that nobody uses any more.
                    unsafe { $free(object) }
                }
            }
        )+
    };
}

pub(super) use freed;
