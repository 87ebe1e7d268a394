//! Encoded images of requests: limits on their size, and on the number decoded at once.

use std::sync::Arc;

use futures::future::{BoxFuture, Either, Ready, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    check::{check, is_slow},
    overloaded,
};
use crate::{
    budget::Budget, error::Result, metrics::RequestRecord, openvino::Work, request::InferRequest,
    servable::ServableInfo, task, tensor::images::PixelLimit,
};

/// The bounds of one model version or pipeline. A decoded image takes much more memory than its file, so that
/// no more requests are decoded at once than there are cores, and the others wait in turn.
#[derive(Debug)]
pub(crate) struct Decoding {
    limit: PixelLimit,
    budget: Budget,
    turns: Arc<Semaphore>,
    /// Permits to wait.
    places: Semaphore,
    max_waiting: usize,
}

impl Decoding {
    /// Bounds the pixels of an image, and the requests that wait for their turn.
    pub(crate) fn new(limit: PixelLimit, max_waiting: usize, budget: Budget) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            limit,
            budget,
            turns: Arc::new(Semaphore::new(cores)),
            places: Semaphore::new(max_waiting.min(Semaphore::MAX_PERMITS)),
            max_waiting,
        }
    }

    /// Validates a request, away from the async workers if that takes time.
    pub(crate) fn validate<'a>(
        &'a self,
        info: &'a ServableInfo,
        request: InferRequest,
        call: &'a RequestRecord,
    ) -> Either<Ready<Result<Work>>, BoxFuture<'a, Result<Work>>> {
        if is_slow(info, &request) {
            Either::Right(Box::pin(self.decode(info, request, call)))
        } else {
            let budget = call.budget(&self.budget);
            Either::Left(ready(check(info, request, self.limit, budget)))
        }
    }

    /// Returns the budget that expanded requests and responses are charged to.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    async fn decode(
        &self,
        info: &ServableInfo,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<Work> {
        let limit = self.limit;
        let turn = self.turn().await?;
        let info = info.clone();
        let budget = call.budget(&self.budget).clone();
        task::blocking("decode images", move || {
            let validated = check(&info, request, limit, &budget);
            drop(turn);
            validated
        })
        .await
    }

    /// Waits in turn until another request may be decoded; the permit goes with the work.
    ///
    /// # Errors
    ///
    /// Fails if too many wait already.
    async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        let overloaded = || {
            overloaded(format_args!(
                "requests waiting for their images to be decoded: {}, the most allowed",
                self.max_waiting
            ))
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
    use crate::{budget::Budget, error::ErrorKind, tensor::images::PixelLimit};

    #[tokio::test]
    async fn those_beyond_the_cores_wait_and_those_beyond_the_queue_are_refused() {
        let decoding = Decoding::new(PixelLimit::default(), 1, Budget::default());
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
