//! Tensors between messages and objects.

use std::{cell::RefCell, fmt, io, sync::Arc};

use bytes::Bytes;
use pyo3::{
    exceptions::PyMemoryError,
    ffi, intern,
    prelude::*,
    types::{PyAny, PyBytes, PyMemoryView},
};

use super::{
    tensor::PyTensor,
    view::{Memory, View},
};
use crate::{
    memory::{Place, Shared, Span},
    message::{Contents, MAX_INLINE, Tensor},
};

/// Maximum number of views of views that are followed.
const MAX_DEPTH: usize = 8;

/// Creates the object of a tensor that has come.
pub(super) fn received<'py>(
    py: Python<'py>,
    shared: &Shared,
    tensor: Tensor,
) -> PyResult<Bound<'py, PyTensor>> {
    let memory = match tensor.contents {
        Some(Contents::Shared(place)) => Memory::Shared(borrowed(shared, &place, &tensor.name)?),
        Some(Contents::Inline(bytes)) => Memory::Inline(bytes),
        None => Memory::Inline(Bytes::new()),
    };
    PyTensor::received(
        py,
        tensor.name,
        tensor.datatype,
        tensor.shape,
        memory,
        tensor.typed,
    )
}

/// Returns the memory of an input; there may be no room for it, below a limit.
fn borrowed(shared: &Shared, place: &Place, name: &str) -> PyResult<Span> {
    shared.borrow(place).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => {
            let bytes = place.length;
            let reason = match error.get_ref() {
                Some(reason) => format!(": {reason}"),
                None => "; python_memory_limit has to be larger".to_owned(),
            };
            PyMemoryError::new_err(format!(
                "no memory for the {bytes} bytes of input {name:?}{reason}"
            ))
        }
        _ => error.into(),
    })
}

thread_local! {
    /// Memory of the server that the report of this thread refers to, and which is not to be given back before that.
    static REFERRED: RefCell<Vec<Span>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of what a report refers to, which has been said.
pub(super) fn said() {
    // Not within the borrow: a span that is dropped says so.
    drop(REFERRED.take());
}

/// Returns the contents of a tensor for a message: copied, unless the server sees the memory anyway. Once the message
/// has been said, so is `said`.
pub(super) fn contents(
    py: Python<'_>,
    shared: &Arc<Shared>,
    tensor: &PyTensor,
) -> PyResult<Contents> {
    let view = tensor.view();
    let length = view.len();
    if length <= MAX_INLINE {
        return Ok(Contents::Inline(inline(py, view)?));
    }
    if let Some(span) = common(py, view) {
        let place = shared.lend(&span);
        REFERRED.with_borrow_mut(|referred| referred.push(span));
        return Ok(Contents::Shared(place));
    }
    Ok(Contents::Shared(shared.lend(&pooled(py, shared, view)?)))
}

/// Copies contents to memory of the heap.
pub(super) fn inline(py: Python<'_>, view: &View) -> PyResult<Bytes> {
    let length = view.len();
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|error| no_memory(length, &error))?;
    view.copy_to(py, bytes.as_mut_ptr())?;
    // SAFETY: so many bytes have room, and were copied there.
    unsafe { bytes.set_len(length) };
    Ok(Bytes::from(bytes))
}

/// Returns the error where there is no room for so many bytes.
pub(super) fn no_memory(length: usize, error: &dyn fmt::Display) -> PyErr {
    PyMemoryError::new_err(format!(
        "pyovms.Tensor: no memory for {length} bytes: {error}"
    ))
}

/// Copies contents to shared memory.
fn pooled(py: Python<'_>, shared: &Arc<Shared>, view: &View) -> PyResult<Span> {
    let length = view.len();
    let taken = shared.take(length);
    let span = taken.map_err(|error| no_memory(length, &error))?;
    view.copy_to(py, span.start())?;
    Ok(span)
}

/// Returns a tensor for another node of the worker, which sees what is in it now: the object itself if nobody writes to
/// its memory any more, else a copy. `is_sent` states whether the server gets the contents, too.
pub(super) fn settled<'py>(
    shared: &Arc<Shared>,
    object: &Bound<'py, PyTensor>,
    is_sent: bool,
) -> PyResult<Bound<'py, PyTensor>> {
    let (py, tensor) = (object.py(), object.get());
    let view = tensor.view();
    if is_settled(py, view) {
        return Ok(object.clone());
    }
    // What stays in the worker is nothing that the server has to map.
    let memory = match is_sent && view.len() > MAX_INLINE {
        true => Memory::Shared(pooled(py, shared, view)?),
        false => Memory::Inline(inline(py, view)?),
    };
    let copy = Bound::new(py, tensor.copy_in(memory))?;
    // What the handler has noted at it.
    let attributes = object.getattr(intern!(py, "__dict__"))?;
    copy.getattr(intern!(py, "__dict__"))?
        .call_method1(intern!(py, "update"), (attributes,))?;
    Ok(copy)
}

/// Returns whether nobody can write to the memory of a view any more: it cannot be written to, or nobody else has the
/// object that owns it. Memory of objects of which that is not known is not settled; that of `pyovms.empty` is not written
/// to once it was returned.
fn is_settled(py: Python<'_>, view: &View) -> bool {
    let Some(mut base) = view.owner(py) else {
        return true;
    };
    let mut is_shared = false;
    for _ in 0..MAX_DEPTH {
        if base.is_exact_instance_of::<PyBytes>() {
            return true;
        }
        if let Ok(tensor) = base.cast::<PyTensor>() {
            // It cannot be written to itself, whoever has it.
            match tensor.get().view().owner(py) {
                Some(owner) => base = owner,
                None => return true,
            }
            continue;
        }
        // One reference is that of what is a view of it, the other one is ours. Others may also have a part of a
        // memoryview, which is an object of its own.
        // SAFETY: the object lives, and the interpreter's lock is held.
        let count = unsafe { ffi::Py_REFCNT(base.as_ptr()) };
        // From Python 3.14 on there are flags in the upper half.
        is_shared |= count & 0xFFFF_FFFF > 2 || base.is_exact_instance_of::<PyMemoryView>();
        match under(&base) {
            Some(next) => base = next,
            None => return !is_shared && owns_memory(&base),
        }
    }
    false
}

/// Returns whether an object has memory of its own, and nobody can see that without the object.
fn owns_memory(object: &Bound<'_, PyAny>) -> bool {
    let owns = || -> PyResult<bool> {
        // An array of NumPy says so.
        if let Some(flags) = object.getattr_opt(intern!(object.py(), "flags"))? {
            return flags.getattr(intern!(object.py(), "owndata"))?.is_truthy();
        }
        let kind = object.get_type().fully_qualified_name()?;
        Ok(kind == "bytearray" || kind == "array.array")
    };
    owns().unwrap_or_default()
}

/// Follows a view to shared memory: through other tensors, `memoryview`, and arrays of NumPy.
fn common(py: Python<'_>, view: &View) -> Option<Span> {
    let (start, length) = view.place()?;
    if let Some(Memory::Shared(span)) = view.memory() {
        return Some(span.clone());
    }
    let mut base = view.owner(py)?;
    for _ in 0..MAX_DEPTH {
        if let Ok(tensor) = base.cast::<PyTensor>() {
            let inner = tensor.get().view();
            if let Some(Memory::Shared(span)) = inner.memory() {
                return span.part(start, length);
            }
            base = inner.owner(py)?;
            continue;
        }
        base = under(&base)?;
    }
    None
}

/// Returns the object that another one is a view of: that of a memoryview is its `obj`, that of an array its `base`.
fn under<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = object.py();
    let next = [intern!(py, "obj"), intern!(py, "base")]
        .into_iter()
        .find_map(|name| object.getattr_opt(name).ok().flatten());
    next.filter(|next| !next.is_none())
}
