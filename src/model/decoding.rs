//! Encoded images of requests: how large they may be, and how many are decoded at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::{Error, ErrorKind, Result},
    openvino::LoadOptions,
    tensor::images::PixelLimit,
};

/// The bounds of one model version. A decoded image takes much more memory than its file, so that
/// no more requests are decoded at once than there are cores, and the others wait in turn.
pub(super) struct Decoding {
    pub(super) limit: PixelLimit,
    turns: Arc<Semaphore>,
    /// How many may wait.
    places: Semaphore,
    most_waiting: usize,
}

impl Decoding {
    pub(super) fn new(options: &LoadOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            limit: options.most_image_pixels,
            turns: Arc::new(Semaphore::new(cores)),
            places: Semaphore::new(options.most_waiting.min(Semaphore::MAX_PERMITS)),
            most_waiting: options.most_waiting,
        }
    }

    /// Waits in turn until another request may be decoded; the permit goes with the work.
    ///
    /// # Errors
    ///
    /// Fails if too many wait already.
    pub(super) async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        let overloaded = || {
            Error::new(
                ErrorKind::Overloaded,
                format!(
                    "Server is overloaded - requests waiting for their images to be decoded: {}, \
                     the most allowed; try again later",
                    self.most_waiting
                ),
            )
        };
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(turn);
        }
        let _place = self.places.try_acquire().map_err(|_| overloaded())?;
        Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|_| overloaded())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::Decoding;
    use crate::{error::ErrorKind, openvino::LoadOptions};

    #[tokio::test]
    async fn those_beyond_the_cores_wait_and_those_beyond_the_queue_are_refused() {
        let decoding = Decoding::new(&LoadOptions {
            most_waiting: 1,
            ..LoadOptions::default()
        });
        let mut turns = Vec::new();
        while decoding.turns.available_permits() > 0 {
            turns.push(decoding.turn().await.unwrap());
        }
        let mut waiting = pin!(decoding.turn());
        assert!(poll!(waiting.as_mut()).is_pending());
        let refused = decoding.turn().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Overloaded);
        turns.pop();
        drop(waiting.await.unwrap());
    }
}
