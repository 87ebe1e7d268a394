//! Outputs of a library, from the moment they are ours until they have been given back.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::Arc,
};

use bytes::Bytes;

use super::{
    abi::{RawTensor, dtype},
    error::failed,
    node::Node,
};
use crate::{
    error::Result,
    task::{Task, blocking},
    tensor::{ShapeText, Tensor, TensorMap, byte_size, named},
};

/// Maximum number of entries of an array that are believed.
const MAX_ENTRIES: c_int = 4096;

/// Expected number of entries in errors about [`MAX_ENTRIES`].
pub(super) const EXPECTED_ENTRIES: &str = "1 to 4096";

/// Maximum number of dimensions that are believed, as many as NumPy allows. A library that gives more has
/// left the number uninitialized.
const MAX_DIMS: u64 = 64;

/// Finds an output by name.
///
/// # Errors
///
/// Fails if the node did not return it.
pub fn output<'a>(outputs: &'a TensorMap, name: &str) -> Result<&'a Tensor> {
    named(outputs, name).ok_or_else(|| {
        let found = outputs.iter().map(|(name, _)| format!("`{name}`"));
        let found = found.collect::<Vec<_>>().join(", ");
        let what = format!("found no output `{name}`; the node returned {found}");
        failed("Custom node output is missing", what)
    })
}

/// A buffer of the library's own, given back when dropped.
pub(super) struct Borrowed<'a> {
    node: &'a Node,
    buffer: *mut c_void,
}

impl<'a> Borrowed<'a> {
    /// Takes a buffer over.
    ///
    /// # Safety
    ///
    /// The buffer is null, or the library returned it by a call for this node and nobody else gives
    /// it back.
    pub(super) unsafe fn new<T>(node: &'a Node, buffer: *mut T) -> Self {
        Self {
            node,
            buffer: buffer.cast(),
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // SAFETY: as `new` demands; this is the only time.
        unsafe { self.node.release(self.buffer) };
    }
}

/// The elements of an output, given back when the last user is done; until then they keep the node.
struct Data {
    /// `None` only while this is dropped.
    node: Option<Arc<Node>>,
    start: *mut u8,
    /// 0 until the size has been validated.
    length: usize,
}

// SAFETY: the interface says that elements are given back on any thread, and until then the library
// leaves them alone: there are only readers.
unsafe impl Send for Data {}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `start` is not null if `length` is more than 0, and the library says that it has
        // so many bytes there, which stay as they are until they are given back.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let Some(node) = self.node.take() else {
            return;
        };
        // SAFETY: the library returned the buffer by a call for this node; this is the only time
        // that it is given back, and there is no slice left, since slices hold `self`.
        unsafe { node.release(self.start.cast()) };
        // A response may be what is left of a retired node. It is dropped where it was sent.
        if let Some(last) = Arc::into_inner(node)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            Task::spawn(blocking("deinitialize a custom node", move || drop(last))).detach();
        }
    }
}

/// Returns the number of entries of an array; `None` for one that is not believed.
pub(super) fn entries(count: c_int) -> Option<usize> {
    let is_believed = (1..=MAX_ENTRIES).contains(&count);
    usize::try_from(count).ok().filter(|_| is_believed)
}

/// Copies dimensions and gives them back; `None` if they are nonsense.
///
/// # Safety
///
/// `dims` is null, or the library returned it by a call for this node, with `count` dimensions if
/// that is a number of dimensions at all, and nobody else gives it back.
pub(super) unsafe fn take_dims(node: &Node, dims: *mut u64, count: u64) -> Option<Vec<usize>> {
    // SAFETY: as the caller promises.
    let _borrowed = unsafe { Borrowed::new(node, dims) };
    if count > MAX_DIMS || (dims.is_null() && count > 0) {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    (0..count)
        .map(|index| {
            // SAFETY: as the caller promises, there are so many; wherever they are.
            let length = unsafe { dims.add(index).read_unaligned() };
            usize::try_from(length).ok()
        })
        .collect()
}

/// Copies a name; `None` if there is none.
///
/// # Safety
///
/// `name` is null or a text that ends with a zero byte.
pub(super) unsafe fn take_name(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

/// Takes over what `execute` returned.
///
/// # Safety
///
/// `execute` has returned 0 for this node, with this array of so many outputs.
pub(super) unsafe fn take(
    node: &Arc<Node>,
    outputs: *mut RawTensor,
    count: c_int,
) -> Result<TensorMap> {
    let library = node.library.name();
    if outputs.is_null() {
        let status = "Custom node library has returned corrupted outputs handle";
        let what = format!("`execute` of library `{library}` returned no array");
        return Err(failed(status, what));
    }
    // SAFETY: as the caller promises; the array is given back here only.
    let array = unsafe { Borrowed::new(node, outputs) };
    let Some(entries) = entries(count) else {
        let status = "Custom node library has produced corrupted number of outputs";
        let expected = format!("outputs, expected {EXPECTED_ENTRIES}");
        let what = format!("`execute` of library `{library}` returned {count} {expected}");
        return Err(failed(status, what));
    };
    let mut taken = TensorMap::default();
    let mut failure = None;
    for index in 0..entries {
        // SAFETY: as the caller promises, the array has so many entries; wherever it is.
        let raw = unsafe { outputs.add(index).read_unaligned() };
        // SAFETY: the entry is one of the array, and each is taken once.
        match unsafe { take_entry(node, index, &raw) } {
            Ok((name, tensor)) => taken.push((name, tensor)),
            // The loop goes on, so that everything is given back.
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    // After what was in it, and before the tensors that are dropped if there is an error.
    drop(array);
    failure.map_or(Ok(taken), Err)
}

/// Takes over one output.
///
/// # Safety
///
/// `execute` returned this entry for this node, and it has not been taken over.
unsafe fn take_entry(node: &Arc<Node>, index: usize, raw: &RawTensor) -> Result<(String, Tensor)> {
    let library = node.library.name();
    // SAFETY: as the caller promises.
    let dims = unsafe { take_dims(node, raw.dims, raw.dims_count) };
    // From here on the elements are given back, whatever comes.
    let mut data = Data {
        node: Some(Arc::clone(node)),
        start: raw.data,
        length: 0,
    };
    // SAFETY: the interface says that a name is null or such a text.
    let Some(name) = (unsafe { take_name(raw.name) }) else {
        let what = format!("output {index} of library `{library}` has no name");
        return Err(failed("Custom node output is missing name", what));
    };
    let Some(dtype) = dtype(raw.precision) else {
        let status = "Custom node has produced tensor with unspecified precision";
        let found = format!("has precision {}, expected 1 to 9", raw.precision);
        let what = format!("output `{name}` of library `{library}` {found}");
        return Err(failed(status, what));
    };
    let wrong = |reason: String| {
        let status = "Custom node output has invalid content size";
        failed(
            status,
            format!("output `{name}` of library `{library}`: {reason}"),
        )
    };
    let Some(shape) = dims else {
        let count = raw.dims_count;
        return Err(wrong(if raw.dims.is_null() {
            format!("{count} dimensions are at a null pointer")
        } else {
            format!("found {count} dimensions, expected at most {MAX_DIMS}")
        }));
    };
    if raw.data.is_null() {
        return Err(wrong("its elements are at a null pointer".to_owned()));
    }
    let expected = byte_size(dtype, &shape)
        .map_err(|error| wrong(error.to_string()))?
        .unwrap_or_default();
    if raw.data_bytes != expected as u64 {
        return Err(wrong(format!(
            "found {} bytes, expected {expected} for {dtype} of shape {}",
            raw.data_bytes,
            ShapeText(&shape)
        )));
    }
    // No slice may be longer.
    if isize::try_from(expected).is_err() {
        return Err(wrong(format!(
            "{expected} bytes are more than there can be"
        )));
    }
    data.length = expected;
    let tensor = Tensor::new(dtype, shape, Bytes::from_owner(data))
        .map_err(|error| wrong(error.to_string()))?;
    Ok((name, tensor))
}
