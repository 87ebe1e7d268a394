//! Options of the workers of a graph or a pipeline, each of which may be given in several places.

use std::{path::PathBuf, time::Duration};

use crate::{
    diagnostic::FilePosition,
    python::{
        environment::environment_error,
        error::{HandlerLoadError, Raised},
    },
};

/// Names of the options, in configuration files and in graphs.
pub const WORKER_OPTIONS: [&str; 4] = [
    "python_workers",
    "python_environment",
    "python_timeout_ms",
    "python_memory_limit",
];

/// Options of the workers of a graph or a pipeline, as far as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Number of workers; 1 if not given.
    pub workers: Option<u64>,
    /// Python environment of the workers; that of the server if not given.
    pub environment: Option<PythonEnvironment>,
    /// Longest time of a call in milliseconds, after which its worker is killed; 0 is no limit.
    pub timeout_ms: Option<u64>,
    /// Maximum size of the address space of a worker in bytes; 0 is no limit.
    pub memory_limit: Option<u64>,
}

/// A Python environment, and where it is named. Two are equal wherever they are named.
#[derive(Clone, Debug, Eq)]
pub struct PythonEnvironment {
    /// Its folder.
    pub folder: PathBuf,
    /// The file that names it.
    pub file: String,
    /// Position in that file.
    pub place: FilePosition,
}

impl PartialEq for PythonEnvironment {
    fn eq(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl WorkerOptions {
    /// Takes what is not given here from others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            workers: self.workers.or(others.workers),
            environment: self.environment.or(others.environment),
            timeout_ms: self.timeout_ms.or(others.timeout_ms),
            memory_limit: self.memory_limit.or(others.memory_limit),
        }
    }

    /// Returns the least and the greatest value of an option that is a number.
    pub fn bounds(option: &str) -> (i64, i64) {
        match option {
            // Each is a process.
            "python_workers" => (1, 256),
            _ => (0, i64::from(u32::MAX) << 20),
        }
    }

    /// Returns the longest time of a call, if there is one.
    pub(super) fn limit_of_calls(&self) -> Option<Duration> {
        let timeout = self.timeout_ms.filter(|timeout| *timeout > 0);
        timeout.map(Duration::from_millis)
    }

    /// Checks that the environment has an interpreter.
    ///
    /// # Errors
    ///
    /// Fails with the place that names it.
    pub(in crate::python) fn validate(&self) -> Result<(), HandlerLoadError> {
        let Some(environment) = &self.environment else {
            return Ok(());
        };
        match environment_error(&environment.folder) {
            Some(reason) => Err(environment.error(reason)),
            None => Ok(()),
        }
    }

    /// Adds the limit of memory, if there is one, to how a worker has ended that was not ready yet: below what an
    /// interpreter and its packages need, there is no exception that would say so.
    pub(super) fn within_limit(&self, reason: String) -> String {
        match self.memory_limit.filter(|limit| *limit > 0) {
            Some(limit) => format!(
                "{reason}; its python_memory_limit of {} may be too small",
                with_unit(limit)
            ),
            None => reason,
        }
    }

    /// Names the place of the environment in an error that comes of its lack of NumPy, and the limit of memory in one of
    /// a worker that has ended.
    pub(in crate::python) fn explained(&self, error: HandlerLoadError) -> HandlerLoadError {
        match (&self.environment, &error) {
            (Some(environment), HandlerLoadError::Raised { path, raised })
                if lacks_numpy(raised) =>
            {
                let (folder, path) = (environment.folder.display(), path.display());
                environment.error(format!(
                    "{folder} has no NumPy, which the handler {path} imports; install it with \
                     `{folder}/bin/python3 -m pip install numpy`"
                ))
            }
            _ => match error {
                HandlerLoadError::Worker {
                    path,
                    reason,
                    line,
                    is_import,
                } => HandlerLoadError::Worker {
                    path,
                    reason: self.within_limit(reason),
                    line,
                    is_import,
                },
                error => error,
            },
        }
    }
}

impl PythonEnvironment {
    fn error(&self, reason: String) -> HandlerLoadError {
        HandlerLoadError::Environment {
            environment: Box::new(self.clone()),
            reason,
        }
    }
}

fn lacks_numpy(raised: &Raised) -> bool {
    raised.kind == "ModuleNotFoundError" && raised.message.starts_with("No module named 'numpy")
}

/// Writes bytes as configuration files may: in the largest unit of which they are a multiple.
fn with_unit(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::{WorkerOptions, with_unit};

    #[test]
    fn a_limit_is_written_as_in_the_file() {
        let written = [50 << 20, 3 << 30, 1025 << 10, 1025].map(with_unit);
        assert_eq!(written, ["50M", "3G", "1025K", "1025 bytes"]);
    }

    #[test]
    fn what_is_given_counts_before_what_is_given_elsewhere() {
        let own = WorkerOptions {
            timeout_ms: Some(0),
            workers: Some(2),
            ..WorkerOptions::default()
        };
        let others = WorkerOptions {
            timeout_ms: Some(300),
            memory_limit: Some(5),
            ..WorkerOptions::default()
        };
        let all = own.or(others);
        let numbers = (all.workers, all.timeout_ms, all.memory_limit);
        assert_eq!(numbers, (Some(2), Some(0), Some(5)));
    }
}
