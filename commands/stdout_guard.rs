//! Stdout reserved for this program's own output, while foreign libraries run in this process.

use std::{fs::File, io::Write, os::fd::AsFd};

use crate::error::Failure;

/// Exclusive handle of stdout. All other output of the process to stdout goes to stderr from then
/// on, including text that a library buffers until the process ends.
#[derive(Debug)]
pub(crate) struct StdoutGuard(File);

impl StdoutGuard {
    /// Takes over stdout.
    pub(crate) fn take() -> Result<Self, Failure> {
        let ours = std::io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(std::io::stderr()).map_err(std::io::Error::from)?;
        Ok(Self(ours.into()))
    }

    /// Returns another handle of the same stdout.
    pub(crate) fn try_clone(&self) -> std::io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Writes to stdout.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.0.write_all(text.as_bytes());
        written.map_err(|error| Failure::of_output(&error))
    }
}
