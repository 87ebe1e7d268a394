//! Memory of a tensor as Python sees it: bytes of the server, or the buffer of another object.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char, c_int},
    ptr,
};

use bytes::Bytes;
use pyo3::{exceptions::PyBufferError, ffi, prelude::*, types::PyAny};

use super::format;
use crate::memory::Span;

/// Bytes that are not those of another object.
pub(super) enum Memory {
    /// Bytes of a message.
    Inline(Bytes),
    /// Shared with the server.
    Shared(Span),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Shared(span) => span.as_ref(),
        }
    }
}

/// Buffer that is filled and stays unchanged until it is dropped.
pub(super) struct View {
    /// Buffer on the heap, because it may point into itself.
    buffer: Box<ffi::Py_buffer>,
    /// Underlying bytes, if they are ours; else the buffer is released to its exporter.
    memory: Option<Memory>,
    /// Shape and strides of our bytes, one after the other.
    #[expect(dead_code, reason = "the buffer points at it")]
    dimensions: Box<[ffi::Py_ssize_t]>,
    /// Format of an element of our bytes.
    #[expect(dead_code, reason = "the buffer points at it")]
    format: Cow<'static, CStr>,
    /// Allows others to write to it. What is made of an object is read-only, whatever that is.
    is_writable: bool,
}

// SAFETY: the targets of the pointers are either ours and never written, or belong to Python and
// are only read with the interpreter's lock.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Creates a view of memory: as elements of a datatype in a shape if they fill it exactly, else byte by byte.
    pub(super) fn of_memory(
        memory: Memory,
        datatype: Option<&str>,
        shape: &[i64],
        is_writable: bool,
    ) -> Self {
        let length = memory.bytes().len();
        let typed = datatype.and_then(format::of_datatype).filter(|(_, size)| {
            shape
                .iter()
                .try_fold(*size, |sum, length| {
                    sum.checked_mul(usize::try_from(*length).ok()?)
                })
                .is_some_and(|sum| sum == length)
        });
        // No slice is longer than the range of this type.
        let signed = |length: usize| ffi::Py_ssize_t::try_from(length).unwrap_or_default();
        let (format, size, dimensions) = match typed {
            Some((format, size)) => (
                format,
                signed(size),
                shape
                    .iter()
                    .map(|length| ffi::Py_ssize_t::try_from(*length).unwrap_or_default())
                    .collect(),
            ),
            None => (c"B", 1, vec![signed(length)]),
        };
        Self::in_order(memory, Cow::Borrowed(format), size, dimensions, is_writable)
    }

    /// Creates a view of memory with a copy of this one's contents, whose elements are the same.
    pub(super) fn of_copy(&self, memory: Memory) -> Self {
        let format = match self.buffer.format.is_null() {
            true => Cow::Borrowed(c"B"),
            // SAFETY: the format ends with a zero and lives as long as the buffer.
            false => Cow::Owned(unsafe { CStr::from_ptr(self.buffer.format) }.to_owned()),
        };
        let lengths = self.shape().into_iter();
        let lengths = lengths.map(|length| ffi::Py_ssize_t::try_from(length).unwrap_or_default());
        Self::in_order(
            memory,
            format,
            self.buffer.itemsize,
            lengths.collect(),
            false,
        )
    }

    /// Creates a view of memory with elements in C order, which fill it.
    fn in_order(
        memory: Memory,
        format: Cow<'static, CStr>,
        size: ffi::Py_ssize_t,
        mut dimensions: Vec<ffi::Py_ssize_t>,
        is_writable: bool,
    ) -> Self {
        let rank = dimensions.len();
        let mut stride = size;
        // Without elements nobody takes a step, and the other lengths may be of any size.
        let mut strides = vec![size; rank];
        if !dimensions.contains(&0) {
            for (place, length) in strides.iter_mut().zip(&dimensions).rev() {
                *place = stride;
                stride = stride.saturating_mul(*length);
            }
        }
        dimensions.extend(strides);
        let mut dimensions = dimensions.into_boxed_slice();
        let mut buffer = Box::new(ffi::Py_buffer::new());
        buffer.buf = match &memory {
            Memory::Inline(bytes) => bytes.as_ptr().cast_mut().cast(),
            Memory::Shared(span) => span.start().cast(),
        };
        buffer.len = ffi::Py_ssize_t::try_from(memory.bytes().len()).unwrap_or_default();
        buffer.itemsize = size;
        buffer.readonly = c_int::from(!is_writable);
        // A tensor of the server has few dimensions.
        buffer.ndim = c_int::try_from(rank).unwrap_or_default();
        buffer.format = format.as_ptr().cast_mut();
        if rank > 0 {
            buffer.shape = dimensions.as_mut_ptr();
            // SAFETY: the strides stand behind the shape.
            buffer.strides = unsafe { dimensions.as_mut_ptr().add(rank) };
        }
        Self {
            buffer,
            memory: Some(memory),
            dimensions,
            format,
            is_writable,
        }
    }

    /// Takes the buffer of an object, which it keeps alive.
    pub(super) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut buffer = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object lives, and the structure is ours.
        let taken = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *buffer, ffi::PyBUF_FULL_RO)
        };
        if taken == -1 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self {
            buffer,
            memory: None,
            dimensions: Box::default(),
            format: Cow::Borrowed(c""),
            is_writable: false,
        })
    }

    /// Returns the memory, if it is ours.
    pub(super) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Returns the object whose buffer it is.
    pub(super) fn owner<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if self.memory.is_some() {
            return None;
        }
        // SAFETY: the buffer holds a reference to its exporter.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.buffer.obj) }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.buffer.len).unwrap_or_default()
    }

    /// Returns the format of an element.
    pub(super) fn format(&self) -> String {
        if self.buffer.format.is_null() {
            return "B".to_owned();
        }
        // SAFETY: the format ends with a zero and lives as long as the buffer.
        unsafe { CStr::from_ptr(self.buffer.format) }
            .to_string_lossy()
            .into_owned()
    }

    /// Returns the size of an element, in bytes.
    pub(super) fn item(&self) -> usize {
        usize::try_from(self.buffer.itemsize).unwrap_or_default()
    }

    /// Returns the shape.
    pub(super) fn shape(&self) -> Vec<i64> {
        let rank = usize::try_from(self.buffer.ndim).unwrap_or_default();
        if self.buffer.shape.is_null() {
            // One dimension may go without.
            let items = self.len() / self.item().max(1);
            return if rank == 0 {
                Vec::new()
            } else {
                vec![i64::try_from(items).unwrap_or_default()]
            };
        }
        // SAFETY: the exporter gives as many lengths as there are dimensions.
        let shape = unsafe { std::slice::from_raw_parts(self.buffer.shape, rank) };
        shape.iter().map(|length| *length as i64).collect()
    }

    /// Returns where the elements are, if they are contiguous.
    pub(super) fn place(&self) -> Option<(*const u8, usize)> {
        self.is(b'C').then(|| (self.start(), self.len()))
    }

    fn start(&self) -> *const u8 {
        if self.buffer.buf.is_null() || self.buffer.len == 0 {
            return ptr::NonNull::<u8>::dangling().as_ptr();
        }
        self.buffer.buf.cast_const().cast()
    }

    /// Copies the contents in C order to memory of their length.
    pub(super) fn copy_to(&self, py: Python<'_>, target: *mut u8) -> PyResult<()> {
        if let Some((start, length)) = self.place() {
            // SAFETY: the exporter keeps this memory until the buffer is given back, other code writes to it only with
            // the interpreter's lock, which is held here, and the target is new.
            unsafe { target.copy_from_nonoverlapping(start, length) };
            return Ok(());
        }
        // SAFETY: the target has room for as many bytes as the buffer says.
        let copied = unsafe {
            ffi::PyBuffer_ToContiguous(
                target.cast(),
                &raw const *self.buffer,
                self.buffer.len,
                b'C' as c_char,
            )
        };
        match copied {
            -1 => Err(PyErr::fetch(py)),
            _ => Ok(()),
        }
    }

    /// Returns whether the memory is contiguous in an order: `C`, `F` or `A`, any of the two.
    fn is(&self, order: u8) -> bool {
        // SAFETY: the buffer is filled.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.buffer, order as c_char) == 1 }
    }

    /// Fills a request for the memory with flags of the protocol. The result keeps `owner` alive.
    ///
    /// # Safety
    ///
    /// `asked` is a structure to be filled, and `owner` has this view.
    pub(super) unsafe fn show(
        &self,
        owner: Bound<'_, PyAny>,
        asked: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let wants = |flag: c_int| flags & flag == flag;
        let error = |text| Err(PyBufferError::new_err(text));
        if asked.is_null() {
            return error("no buffer to fill");
        }
        // SAFETY: the caller asks for this structure to be filled.
        let asked = unsafe { &mut *asked };
        asked.obj = ptr::null_mut();
        if wants(ffi::PyBUF_WRITABLE) && !self.is_writable {
            return error(
                "pyovms.Tensor is read-only; copy it, for example with bytearray(tensor)",
            );
        }
        if wants(ffi::PyBUF_C_CONTIGUOUS) && !self.is(b'C') {
            return error("pyovms.Tensor: the buffer is not C-contiguous");
        }
        if wants(ffi::PyBUF_F_CONTIGUOUS) && !self.is(b'F') {
            return error("pyovms.Tensor: the buffer is not Fortran contiguous");
        }
        if wants(ffi::PyBUF_ANY_CONTIGUOUS) && !self.is(b'A') {
            return error("pyovms.Tensor: the buffer is not contiguous");
        }
        if !wants(ffi::PyBUF_INDIRECT) && !self.buffer.suboffsets.is_null() {
            return error("pyovms.Tensor: the buffer requires suboffsets");
        }
        if !wants(ffi::PyBUF_STRIDES) && !self.is(b'C') {
            return error("pyovms.Tensor: the buffer is not C-contiguous");
        }
        if !wants(ffi::PyBUF_ND) && wants(ffi::PyBUF_FORMAT) {
            return error("pyovms.Tensor: a format cannot be asked for without a shape");
        }
        *asked = *self.buffer;
        asked.readonly = c_int::from(!self.is_writable);
        asked.internal = ptr::null_mut();
        if !wants(ffi::PyBUF_FORMAT) {
            asked.format = ptr::null_mut();
        }
        if !wants(ffi::PyBUF_STRIDES) {
            asked.strides = ptr::null_mut();
        }
        if !wants(ffi::PyBUF_ND) {
            asked.ndim = 1;
            asked.shape = ptr::null_mut();
        }
        asked.obj = owner.into_ptr();
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.memory.is_none() {
            // SAFETY: the buffer was taken from its exporter, once. Only the object of a tensor has
            // a view, and Python drops its objects with the lock.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.buffer) };
        }
    }
}
