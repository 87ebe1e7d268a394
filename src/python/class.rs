//! Module `pyovms` and its class `Tensor`.

use std::{ffi::c_int, sync::Arc};

use bytes::Bytes;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyAny, PyList, PyMemoryView, PyString, PyTuple},
};

use super::{format, interpreter, tensor::HandlerTensor, view::View};

/// Object returned by a handler; clones and drops need no lock.
pub(super) type Returned = Arc<Kept>;

/// Python object of a tensor, for later use.
pub(super) struct Kept {
    object: Option<Py<PyTensor>>,
    /// Whether it has much memory, which is freed soon, not only at the next use of the lock.
    large: bool,
}

impl Kept {
    pub(super) fn new(object: Py<PyTensor>, large: bool) -> Self {
        Self {
            object: Some(object),
            large,
        }
    }

    fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTensor>> {
        self.object.as_ref().map(|object| object.bind(py).clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.large
            && let Some(object) = self.object.take()
        {
            interpreter::later(move |_| drop(object));
        }
    }
}

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

/// Built-in module.
#[pymodule]
pub(super) mod pyovms {
    #[pymodule_export]
    use super::PyTensor;
}

impl PyTensor {
    /// Creates the object passed to a handler for a tensor.
    pub(super) fn of<'py>(py: Python<'py>, tensor: &HandlerTensor) -> PyResult<Bound<'py, Self>> {
        if let Some(object) = tensor.object().and_then(|kept| kept.object(py)) {
            return Ok(object);
        }
        Bound::new(
            py,
            Self {
                name: tensor.name().to_owned(),
                datatype: tensor.datatype().to_owned(),
                shape: tensor.shape().to_vec(),
                view: View::of_bytes(tensor.bytes().clone(), tensor.format(), tensor.shape()),
            },
        )
    }

    /// Returns the memory.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Creates the tensor for the rest of the server.
    pub(super) fn tensor(&self, bytes: Bytes, object: Returned) -> HandlerTensor {
        HandlerTensor::returned(&self.name, &self.datatype, &self.shape, bytes, object)
    }
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
                    "Tensor() needs data: an object with the buffer protocol, such as bytes or numpy.ndarray",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err(
                    "Tensor() got both data and buffer, which are two names of one argument",
                ));
            }
        };
        // SAFETY: any object may be checked.
        if unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) } == 0 {
            return Err(PyTypeError::new_err(format!(
                "Tensor() data must be an object with the buffer protocol, such as bytes or numpy.ndarray, not {}",
                kind(data)
            )));
        }
        let shape = shape.map(dimensions).transpose()?;
        let datatype = datatype
            .map(|datatype| text("datatype", datatype))
            .transpose()?;
        let view = View::of_object(data)?;
        if format::has_objects(&view.format()) {
            return Err(PyTypeError::new_err(
                "Tensor() data must hold values; an array of Python objects has none to send",
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
fn text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(value) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "Tensor() {argument} must be str, not {}",
            kind(value)
        )));
    };
    match value.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(PyValueError::new_err(format!(
            "Tensor() {argument} must be text that UTF-8 can tell; it has surrogates"
        ))),
    }
}

/// Reads a shape.
fn dimensions(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
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

/// Returns the name of an object's type.
pub(super) fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(
        |_| "?".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}
