//! Writer to stdout on a thread of its own: a full pipe blocks the thread, but neither Ctrl-C
//! nor the end of the sequence.

use std::io;

use tokio::sync::{mpsc, oneshot};

use crate::{error::Failure, ui};

type Job = (Vec<u8>, oneshot::Sender<Result<(), Failure>>);

/// Sending end to the thread.
#[derive(Debug)]
pub(in crate::infer) struct Writer(mpsc::Sender<Job>);

impl Writer {
    pub(in crate::infer) fn start() -> io::Result<Self> {
        let (sender, mut jobs) = mpsc::channel::<Job>(1);
        // It ends with the writer, or with the process.
        ovms::task::thread("stdout", move || {
            while let Some((bytes, done)) = jobs.blocking_recv() {
                // Nobody may be waiting any more.
                let _ = done.send(ui::print(bytes));
            }
        })?;
        Ok(Self(sender))
    }

    /// Writes bytes and waits until they are out.
    pub(in crate::infer) async fn write(&self, bytes: Vec<u8>) -> Result<(), Failure> {
        let (done, written) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send((bytes, done)).await.map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}
