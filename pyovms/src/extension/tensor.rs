//! Class `Tensor`.

use std::{ffi::c_int, sync::Arc};

use bytes::Bytes;
use pyo3::{
    exceptions::{PyMemoryError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyAny, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple},
};

use super::{
    contents, format, kind,
    view::{Memory, View},
};
use crate::memory::Shared;

/// Named data with a shape and a datatype, for nodes, requests and responses.
///
/// Tensor(name, data, shape=None, datatype=None)
#[pyclass(name = "Tensor", module = "pyovms", frozen, subclass, dict, weakref)]
pub(super) struct PyTensor {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    view: View,
}

/// The datatype of strings.
const BYTES: &str = "BYTES";

impl PyTensor {
    /// Creates the object of a tensor of the server.
    pub(super) fn received(
        py: Python<'_>,
        name: String,
        datatype: String,
        shape: Vec<i64>,
        memory: Memory,
        is_typed: bool,
    ) -> PyResult<Bound<'_, Self>> {
        let elements = is_typed.then_some(datatype.as_str());
        let view = View::of_memory(memory, elements, &shape, false);
        let tensor = Self {
            name,
            datatype,
            shape,
            view,
        };
        Bound::new(py, tensor)
    }

    /// Creates a tensor in shared memory, to be written to.
    pub(super) fn empty(
        shared: &Arc<Shared>,
        name: &str,
        shape: Vec<i64>,
        datatype: &str,
    ) -> PyResult<Self> {
        let Some((_, size)) = format::of_datatype(datatype) else {
            return Err(PyValueError::new_err(format!(
                "empty() datatype must be one of {}, not {datatype:?}",
                format::NAMES.join(", ")
            )));
        };
        let bytes = shape.iter().try_fold(size, |bytes, &length| {
            bytes.checked_mul(usize::try_from(length).ok()?)
        });
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| {
            PyValueError::new_err("empty() shape must have lengths of 0 or more that fit in memory")
        })?;
        let span = shared.take(bytes).map_err(|error| {
            PyMemoryError::new_err(format!("empty(): no memory for {bytes} bytes: {error}"))
        })?;
        let view = View::of_memory(Memory::Shared(span), Some(datatype), &shape, true);
        Ok(Self {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape,
            view,
        })
    }

    /// Creates a tensor with a copy of this one's contents.
    pub(super) fn copy_in(&self, memory: Memory) -> Self {
        Self {
            name: self.name.clone(),
            datatype: self.datatype.clone(),
            shape: self.shape.clone(),
            view: self.view.of_copy(memory),
        }
    }

    /// Returns the name.
    pub(super) fn title(&self) -> &str {
        &self.name
    }

    /// Returns datatype and shape.
    pub(super) fn declared(&self) -> (&str, &[i64]) {
        (&self.datatype, &self.shape)
    }

    /// Returns the memory.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the contents for a method that reads strings, unless the datatype has none.
    fn strings(&self, py: Python<'_>, method: &str) -> PyResult<Bytes> {
        // Bytes without a datatype are UINT8.
        if self.datatype != "UINT8" && format::of_datatype(&self.datatype).is_some() {
            return Err(PyValueError::new_err(format!(
                "{method}(): tensor {:?} has datatype {}, whose elements are not strings; expected BYTES",
                self.name, self.datatype
            )));
        }
        contents::inline(py, &self.view)
    }

    /// Makes a list of what each of the strings is made to for a method. There may be no room for that, below a limit.
    fn list<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        made: impl Fn(&[u8]) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let bytes = self.strings(py, method)?;
        let not_strings = || {
            PyValueError::new_err(format!(
                "{method}(): the {} bytes of tensor {:?} are not strings, each behind its length in 4 bytes",
                bytes.len(),
                self.name
            ))
        };
        // What they are comes before what is in them.
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            (_, rest) = first(rest).ok_or_else(not_strings)?;
        }
        let list = PyList::empty(py);
        let mut rest = &bytes[..];
        while let Some((text, behind)) = first(rest) {
            list.append(made(text)?)?;
            rest = behind;
        }
        Ok(list)
    }

    /// Creates a tensor of strings.
    fn of_texts(
        name: String,
        texts: &Bound<'_, PyList>,
        shape: Option<Vec<i64>>,
        datatype: Option<String>,
    ) -> PyResult<Self> {
        let mut length = 0;
        for text in texts.iter() {
            length += 4 + contents_of(&text)?.len();
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(length);
        room.map_err(|error| contents::no_memory(length, &error))?;
        for text in texts.iter() {
            let contents = contents_of(&text)?;
            let length = u32::try_from(contents.len())
                .map_err(|_| PyValueError::new_err("Tensor() a text is longer than 4 GiB"))?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(contents);
        }
        let count = i64::try_from(texts.len()).unwrap_or(i64::MAX);
        let shape = shape.unwrap_or_else(|| vec![count]);
        Ok(Self {
            name,
            datatype: datatype.unwrap_or_else(|| BYTES.to_owned()),
            view: View::of_memory(Memory::Inline(bytes.into()), None, &shape, false),
            shape,
        })
    }
}

/// Returns the way to a tensor of numbers, for a list that has some, or lists of them.
fn of_numbers(element: &Bound<'_, PyAny>) -> &'static str {
    let is_number = element.is_instance_of::<PyInt>() || element.is_instance_of::<PyFloat>();
    match is_number || element.is_instance_of::<PyList>() {
        true => "; of numbers, pass numpy.array(..., dtype=numpy.float32), or of another dtype",
        false => "",
    }
}

/// Returns the bytes of an element of a list of strings.
fn contents_of<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes());
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    Err(PyTypeError::new_err(format!(
        "Tensor() data must be an object with the buffer protocol, such as bytes or numpy.ndarray, or a list of str, not list with {}{}",
        kind(text),
        of_numbers(text)
    )))
}

/// Cuts the first string, behind its length, off the others.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (name, data=None, shape=None, datatype=None, *, buffer=None))]
    fn new(
        name: &Bound<'_, PyAny>,
        data: Option<&Bound<'_, PyAny>>,
        shape: Option<&Bound<'_, PyAny>>,
        datatype: Option<&Bound<'_, PyAny>>,
        buffer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let name = text("name", name)?;
        let data = match (data, buffer) {
            (Some(data), None) | (None, Some(data)) => data,
            (None, None) => {
                return Err(PyTypeError::new_err(
                    "Tensor() needs data: an object with the buffer protocol, such as bytes or numpy.ndarray, or a list of str",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err(
                    "Tensor() got both data and buffer, which are two names of one argument",
                ));
            }
        };
        let shape = shape.map(dimensions).transpose()?;
        let datatype = datatype
            .map(|datatype| text("datatype", datatype))
            .transpose()?;
        if let Ok(texts) = data.cast::<PyList>() {
            return Self::of_texts(name, texts, shape, datatype);
        }
        // SAFETY: any object may be checked.
        if unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) } == 0 {
            return Err(PyTypeError::new_err(format!(
                "Tensor() data must be an object with the buffer protocol, such as bytes or numpy.ndarray, or a list of str, not {}",
                kind(data)
            )));
        }
        let view = View::of_object(data)?;
        if format::has_objects(&view.format()) {
            return Err(PyTypeError::new_err(
                "Tensor() data must hold values; an array of Python objects has none to send (of strings, \
                 pass its tolist())",
            ));
        }
        Ok(Self {
            name,
            datatype: datatype.unwrap_or_else(|| {
                let format = view.format();
                format::datatype(&format, view.item()).map_or(format, str::to_owned)
            }),
            shape: shape.unwrap_or_else(|| view.shape()),
            view,
        })
    }

    /// The name, which says to which output stream the tensor goes.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The datatype: a name of KServe such as FP32, or the format of the buffer, or what was given.
    #[getter]
    fn datatype(&self) -> &str {
        &self.datatype
    }

    /// The shape that was given, or that of the buffer.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// A read-only memoryview of the buffer.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// The bytes of the buffer.
    #[getter]
    fn size(&self) -> usize {
        self.view.len()
    }

    /// The strings of a tensor of BYTES.
    fn texts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, "texts", |text| match std::str::from_utf8(text) {
            Ok(_) => PyString::from_bytes(py, text).map(Bound::into_any),
            Err(error) => Err(PyValueError::new_err(format!(
                "texts(): a string of tensor {:?} is not UTF-8: {error}; elements() has the bytes of each",
                self.name
            ))),
        })
    }

    /// The bytes of each element of a tensor of BYTES, such as an encoded image.
    fn elements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, "elements", |element| {
            // No slice is longer than the range of this type.
            let length = ffi::Py_ssize_t::try_from(element.len()).unwrap_or_default();
            // SAFETY: so many bytes are there to be copied, and the object is ours.
            unsafe {
                let copy = ffi::PyBytes_FromStringAndSize(element.as_ptr().cast(), length);
                Bound::from_owned_ptr_or_err(py, copy)
            }
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "Tensor(name={}, shape={}, datatype={}, size={})",
            PyString::new(py, &self.name).repr()?,
            PyTuple::new(py, &self.shape)?.repr()?,
            PyString::new(py, &self.datatype).repr()?,
            self.view.len()
        ))
    }

    // SAFETY: Python calls it with a structure to be filled.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        asked: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the view is this object's.
        unsafe { slf.get().view.show(slf.as_any().clone(), asked, flags) }
    }

    // SAFETY: nothing is done; the view lives as long as the object, and that as what it has shown.
    unsafe fn __releasebuffer__(&self, _shown: *mut ffi::Py_buffer) {}
}

/// Reads a string argument.
pub(super) fn text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(value) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "Tensor() {argument} must be str, not {}",
            kind(value)
        )));
    };
    match value.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(PyValueError::new_err(format!(
            "Tensor() {argument} must be text that UTF-8 can encode; it has surrogates"
        ))),
    }
}

/// Reads a shape.
pub(super) fn dimensions(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if !value.is_instance_of::<PyTuple>() && !value.is_instance_of::<PyList>() {
        return Err(PyTypeError::new_err(format!(
            "Tensor() shape must be a tuple or a list of int, not {}",
            kind(value)
        )));
    }
    value
        .try_iter()?
        .map(|length| {
            let length = length?;
            length.extract::<i64>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "Tensor() shape must have int of 64 bit, not {}",
                    kind(&length)
                ))
            })
        })
        .collect()
}
