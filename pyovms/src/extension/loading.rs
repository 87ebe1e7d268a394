//! The part of the package that is written in Python, as the calls use it.

use pyo3::{prelude::*, types::PyAny};

use crate::message::{Misfit, Raised};

/// Maximum number of characters of a message to clients.
const MAX_MESSAGE: usize = 4096;

/// Maximum number of characters of a traceback in the log.
const MAX_TRACEBACK: usize = 32_768;

/// Objects of `pyovms.loading`.
pub(super) struct Tools {
    /// Class of the modules of a handler.
    space: Py<PyAny>,
    /// Function that describes an exception.
    describe: Py<PyAny>,
    /// Function that shows a traceback, where there is a terminal.
    show: Py<PyAny>,
    /// Function that looks at the methods of a class.
    misfits: Py<PyAny>,
    /// Function that looks for methods with other names than those that the server calls.
    strays: Py<PyAny>,
    /// Function that writes what this thread has printed without a line end.
    flush_rests: Py<PyAny>,
    /// Function that ends a process as Python ends a program.
    leave: Py<PyAny>,
}

impl Tools {
    /// Takes them from the module.
    pub(super) fn of(module: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            space: module.getattr("Space")?.unbind(),
            describe: module.getattr("describe")?.unbind(),
            show: module.getattr("show")?.unbind(),
            misfits: module.getattr("misfits")?.unbind(),
            strays: module.getattr("strays")?.unbind(),
            flush_rests: module.getattr("flush_rests")?.unbind(),
            leave: module.getattr("leave")?.unbind(),
        })
    }

    /// Creates the namespace for the modules of a handler.
    pub(super) fn space<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let path = std::path::Path::new(
            <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path),
        );
        self.space.bind(py).call1((path.as_os_str(),))
    }

    /// Writes what this thread has printed without a line end.
    pub(super) fn end_lines(&self, py: Python<'_>) {
        // Where it cannot be written, it cannot be reported either.
        let _ = self.flush_rests.bind(py).call0();
    }

    /// Ends this process as Python ends a program, by an exception or without.
    pub(super) fn leave(&self, py: Python<'_>, error: Option<&PyErr>) -> ! {
        let _ = self.leave.bind(py).call1((error.map(|it| it.value(py)),));
        // It cannot come back.
        std::process::abort()
    }

    /// Returns the methods of a handler's class that cannot be called as they are. Nothing is known of a class that
    /// cannot be looked at.
    pub(super) fn misfits(
        &self,
        class: &Bound<'_, PyAny>,
        space: &Bound<'_, PyAny>,
    ) -> Vec<Misfit> {
        listed(&self.misfits, class, space)
    }

    /// Returns the methods of a handler's class that have nearly the name of one that the server calls, and which the
    /// class does not have.
    pub(super) fn strays(&self, class: &Bound<'_, PyAny>, space: &Bound<'_, PyAny>) -> Vec<Misfit> {
        listed(&self.strays, class, space)
    }

    /// Describes an exception for which no call fails, and shows its traceback behind a text where there is a terminal.
    pub(super) fn warned(
        &self,
        py: Python<'_>,
        error: &PyErr,
        space: &Py<PyAny>,
        text: &str,
    ) -> Raised {
        let raised = self.raised(py, error, Some(space));
        let shown = format!("warning: {text}:\n{}", raised.traceback);
        // As below.
        let _ = self.show.bind(py).call1((shown,));
        raised
    }

    /// Describes an exception of a call or a load, and shows its traceback where there is a terminal.
    pub(super) fn raised_in_call(
        &self,
        py: Python<'_>,
        error: &PyErr,
        space: &Py<PyAny>,
    ) -> Raised {
        let raised = self.raised(py, error, Some(space));
        // Where it cannot be written, it cannot be reported either.
        let _ = self.show.bind(py).call1((&raised.traceback,));
        raised
    }

    /// Describes an exception of a handler with such a namespace. Never fails: unreadable parts are named.
    pub(super) fn raised(
        &self,
        py: Python<'_>,
        error: &PyErr,
        space: Option<&Py<PyAny>>,
    ) -> Raised {
        let (value, trace) = (error.value(py), error.traceback(py));
        let described = self
            .describe
            .bind(py)
            .call1((value, trace, space, MAX_MESSAGE, MAX_TRACEBACK))
            .and_then(|described| described.extract::<(String, String, String, u32)>());
        match described {
            Ok((kind, message, traceback, line)) => Raised {
                kind,
                message,
                traceback,
                line,
            },
            Err(_) => Raised {
                kind: error.get_type(py).name().map_or_else(
                    |_| "Exception".to_owned(),
                    |name| name.to_string_lossy().into_owned(),
                ),
                message: "the exception cannot be described".to_owned(),
                ..Raised::default()
            },
        }
    }
}

/// Takes what a function says of a class; nothing, if it cannot.
fn listed(function: &Py<PyAny>, class: &Bound<'_, PyAny>, space: &Bound<'_, PyAny>) -> Vec<Misfit> {
    let found = function.bind(class.py()).call1((class, space));
    let found = found.and_then(|it| it.extract::<Vec<(String, String, String, String, u32)>>());
    let found = found.unwrap_or_default().into_iter();
    found
        .map(|(method, found, expected, file, line)| Misfit {
            method,
            found,
            expected,
            file,
            line,
        })
        .collect()
}
