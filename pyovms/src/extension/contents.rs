//! Tensors between messages and objects.

use std::{cell::RefCell, io, sync::Arc};

use bytes::{Bytes, BytesMut};
use pyo3::{exceptions::PyMemoryError, intern, prelude::*};

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
        let mut bytes = BytesMut::zeroed(length);
        view.copy_to(py, bytes.as_mut_ptr())?;
        return Ok(Contents::Inline(bytes.freeze()));
    }
    if let Some(span) = common(py, view) {
        let place = shared.lend(&span);
        REFERRED.with_borrow_mut(|referred| referred.push(span));
        return Ok(Contents::Shared(place));
    }
    let span = shared.take(length).map_err(|error| {
        PyMemoryError::new_err(format!(
            "pyovms.Tensor: no memory for {length} bytes: {error}"
        ))
    })?;
    view.copy_to(py, span.start())?;
    Ok(Contents::Shared(shared.lend(&span)))
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
        // The base of a memoryview is its `obj`; that of an array, its `base`.
        let next = [intern!(py, "obj"), intern!(py, "base")]
            .into_iter()
            .find_map(|name| base.getattr_opt(name).ok().flatten());
        base = next.filter(|next| !next.is_none())?;
    }
    None
}
