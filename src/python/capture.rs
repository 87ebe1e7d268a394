//! Capture of the results of a handler, for the rest of the server.
//!
//! The contents are taken while the lock is held: small ones are copied. Large ones are copied
//! unless nobody can change them any more, so that neither a handler that reuses its buffers nor
//! one with threads writes to data being sent.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::{
    ffi, intern,
    prelude::*,
    types::{PyByteArray, PyBytes},
};

use super::{
    class::{Kept, PyTensor, Returned},
    tensor::HandlerTensor,
    view::View,
};

/// Size in bytes up to which a copy is cheaper than holding the object.
const SMALL: usize = 1 << 16;

/// Maximum depth to which a view of a view is followed.
const DEEPEST: usize = 8;

/// Captures a tensor of a handler.
pub(super) fn capture(object: &Bound<'_, PyTensor>) -> PyResult<HandlerTensor> {
    let tensor = object.get();
    let large = tensor.view().len() > SMALL;
    let returned = Arc::new(Kept::new(object.clone().unbind(), large));
    let bytes = contents(object, tensor.view(), &returned)?;
    Ok(tensor.tensor(bytes, returned))
}

fn contents(object: &Bound<'_, PyTensor>, view: &View, returned: &Returned) -> PyResult<Bytes> {
    let py = object.py();
    if let Some(bytes) = view.bytes() {
        return Ok(bytes.clone());
    }
    if view.len() > SMALL
        && let Some((start, length)) = view.memory()
    {
        match settled(py, view, start, length) {
            Settled::Shared(bytes) => return Ok(bytes),
            Settled::Held => {
                return Ok(Bytes::from_owner(Held {
                    start,
                    length,
                    _object: Arc::clone(returned),
                }));
            }
            Settled::No => {}
        }
    }
    Ok(Bytes::from(view.copy(py)?))
}

/// Whether the memory of a view may still be written to.
enum Settled {
    /// Immutable: it is a part of these bytes.
    Shared(Bytes),
    /// Immutable, as long as the tensor lives.
    Held,
    /// Possibly mutable.
    No,
}

/// Follows a view to the underlying memory.
fn settled(py: Python<'_>, view: &View, start: *const u8, length: usize) -> Settled {
    let Some(mut base) = view.owner(py) else {
        return Settled::No;
    };
    // Whether it is the exporter of a tensor's buffer, not only the base of that.
    let mut exporter = true;
    for _ in 0..DEEPEST {
        if exporter && only_ours(&base) {
            return Settled::Held;
        }
        exporter = false;
        if let Ok(tensor) = base.cast::<PyTensor>() {
            let inner = tensor.get().view();
            if let Some(bytes) = inner.bytes() {
                return part(bytes, start, length).map_or(Settled::No, Settled::Shared);
            }
            let Some(next) = inner.owner(py) else {
                return Settled::No;
            };
            // The inner tensor holds its source as this one would.
            base = next;
            exporter = true;
            continue;
        }
        if let Ok(bytes) = base.cast_exact::<PyBytes>() {
            let whole = bytes.as_bytes().as_ptr_range();
            let within = whole.start <= start && start.wrapping_add(length) <= whole.end;
            return if within { Settled::Held } else { Settled::No };
        }
        // The base of a memoryview is its `obj`; that of an array view, its `base`.
        let next = [intern!(py, "obj"), intern!(py, "base")]
            .into_iter()
            .find_map(|name| base.getattr_opt(name).ok().flatten());
        match next {
            Some(next) if !next.is_none() => base = next,
            _ => return Settled::No,
        }
    }
    Settled::No
}

/// Returns whether the view holds the only reference to an object with memory of its own.
fn only_ours(object: &Bound<'_, PyAny>) -> bool {
    // The second reference is the one of this call.
    // SAFETY: the object lives.
    if unsafe { ffi::Py_REFCNT(object.as_ptr()) } != 2 || weakly_known(object) {
        return false;
    }
    if object.cast_exact::<PyByteArray>().is_ok() {
        return true;
    }
    let class = object.get_type();
    let is = |module: &str, name: &str| {
        class.module().is_ok_and(|found| found == module)
            && class.name().is_ok_and(|found| found == name)
    };
    if is("array", "array") {
        return true;
    }
    is("numpy", "ndarray")
        && object
            .getattr("flags")
            .and_then(|flags| flags.getattr("owndata"))
            .and_then(|own| own.is_truthy())
            .unwrap_or(false)
}

/// Returns whether there is a weak reference to an object.
fn weakly_known(object: &Bound<'_, PyAny>) -> bool {
    let count = object
        .py()
        .import(intern!(object.py(), "_weakref"))
        .and_then(|module| module.call_method1(intern!(object.py(), "getweakrefcount"), (object,)))
        .and_then(|count| count.extract::<usize>());
    count.map_or(true, |count| count > 0)
}

/// Returns the slice of bytes at this memory.
fn part(bytes: &Bytes, start: *const u8, length: usize) -> Option<Bytes> {
    let offset = (start as usize).checked_sub(bytes.as_ptr() as usize)?;
    let end = offset.checked_add(length)?;
    (end <= bytes.len()).then(|| bytes.slice(offset..end))
}

/// Memory of an object, which is no longer modified.
struct Held {
    start: *const u8,
    length: usize,
    _object: Returned,
}

// SAFETY: the memory is only read, and nobody writes to it; the object may be dropped anywhere.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the tensor keeps the buffer, which keeps this memory, and nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}
