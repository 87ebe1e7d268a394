//! Results of handlers.

use std::{collections::HashMap, sync::Mutex};

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyAny, PyList},
};

use super::{calls::Calls, contents, kind, tensor::PyTensor};
use crate::message::{MAX_TENSORS, Output, Outputs, Tensor};

/// Objects that the server refers to.
#[derive(Default)]
pub(super) struct Objects(Mutex<(u64, HashMap<u64, Py<PyTensor>>)>);

impl Objects {
    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, HashMap<u64, Py<PyTensor>>)> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn add(&self, object: Py<PyTensor>) -> u64 {
        let (last, objects) = &mut *self.lock();
        *last += 1;
        objects.insert(*last, object);
        *last
    }

    /// Returns an object.
    pub(super) fn get<'py>(&self, py: Python<'py>, number: u64) -> Option<Bound<'py, PyTensor>> {
        self.lock()
            .1
            .get(&number)
            .map(|object| object.bind(py).clone())
    }

    /// Takes an object out.
    pub(super) fn take(&self, number: u64) -> Option<Py<PyTensor>> {
        self.lock().1.remove(&number)
    }
}

impl Calls {
    /// Takes the tensors of a list, as the server has said what becomes of each output.
    pub(super) fn outputs(
        &self,
        list: &Bound<'_, PyList>,
        known: &[Output],
        rule: &str,
    ) -> PyResult<Outputs> {
        let mut tensors = Vec::with_capacity(list.len().min(known.len() + 1));
        let mut bytes = 0;
        for (index, element) in list.iter().enumerate() {
            let output = match element.cast::<PyTensor>() {
                Ok(object) => self.output(object, known),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "{rule}; element {index} of the list is {}",
                    kind(&element)
                ))),
            };
            let refused = match output {
                Ok(tensor) => {
                    bytes += tensor.most_bytes();
                    tensors.push(tensor);
                    (bytes > MAX_TENSORS).then(|| {
                        PyValueError::new_err(format!(
                            "{rule}; their names, datatypes, and shapes have more than {MAX_TENSORS} bytes"
                        ))
                    })
                }
                Err(error) => Some(error),
            };
            if let Some(error) = refused {
                // Nobody gets those before it.
                self.shared().take_back(&tensors);
                for tensor in &tensors {
                    self.objects.take(tensor.object);
                }
                return Err(error);
            }
            // The server refuses them: one goes to no output, or two go to the same.
            if tensors.len() > known.len() {
                break;
            }
        }
        Ok(Outputs { tensors })
    }

    fn output(&self, object: &Bound<'_, PyTensor>, known: &[Output]) -> PyResult<Tensor> {
        let tensor = object.get();
        let output = known.iter().find(|output| output.name == tensor.title());
        // The server refuses one that it does not know.
        let (contents, is_kept) =
            output.map_or((false, false), |output| (output.contents, output.object));
        let kept = match is_kept {
            true => Some(contents::settled(self.shared(), object, contents)?),
            false => None,
        };
        let tensor = kept.as_ref().map_or(tensor, Bound::get);
        let (datatype, shape) = tensor.declared();
        let contents = match contents {
            true => Some(contents::contents(object.py(), self.shared(), tensor)?),
            false => None,
        };
        Ok(Tensor {
            name: tensor.title().to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
            typed: false,
            object: kept.map_or(0, |kept| self.objects.add(kept.unbind())),
            contents,
        })
    }

    /// Validates an item yielded by a generator.
    pub(super) fn yielded(&self, value: &Bound<'_, PyAny>, known: &[Output]) -> PyResult<Outputs> {
        let rule = "execute must yield lists of pyovms.Tensor";
        match value.cast::<PyList>() {
            Ok(list) => self.outputs(list, known, rule),
            Err(_) => Err(PyTypeError::new_err(format!(
                "{rule}; it yielded {}",
                kind(value)
            ))),
        }
    }
}
