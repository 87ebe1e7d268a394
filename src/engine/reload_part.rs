//! Parts of a reload beside the configuration, which their owners bring along.

use std::{fmt::Debug, sync::Arc};

use futures::future::BoxFuture;

use crate::error::{Error, Result};

/// Part of each reload that a client asks for.
pub trait ReloadPart: Debug + Send + Sync {
    /// Performs this part of a reload.
    ///
    /// # Errors
    ///
    /// Fails if something stays as it was that should be another one.
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<()>>;
}

/// Joins the results of two parts: a single error has the texts of both.
pub(super) fn joined(first: Result<()>, second: Result<()>) -> Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => {
            let text = format!("{}; {}", first.message(), second.message());
            Err(Error::new(first.kind(), text))
        }
        (first, second) => first.and(second),
    }
}
