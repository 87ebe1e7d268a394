//! The stateless path: check, run on a slot, shape the answer.

use super::{Loaded, check::check};
use crate::{
    error::{Error, ErrorKind, Result},
    openvino::{RunError, SlotError},
    request::InferRequest,
    tensor::TensorMap,
};

impl Loaded {
    /// Runs one inference.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit the model, no slot comes free, or the runtime fails.
    pub async fn infer(&self, request: InferRequest) -> Result<TensorMap> {
        let (inputs, wanted) = check(&self.info, request)?;
        let outputs = self
            .runner
            .infer(inputs, wanted.clone())
            .await
            .map_err(explain)?;
        Ok(wanted
            .into_iter()
            .map(|port| self.output_name(port).to_owned())
            .zip(outputs)
            .collect())
    }

    fn output_name(&self, port: usize) -> &str {
        self.info
            .outputs
            .iter()
            .find(|output| output.port == port)
            .map_or("", |output| output.name.as_str())
    }
}

/// Says to the client what it may know; the cause stays for the log.
fn explain(error: RunError) -> Error {
    match error {
        RunError::Pool(error) => Error::new(
            ErrorKind::Overloaded,
            format!("Server is overloaded - {error}; try again later"),
        ),
        RunError::Slot(SlotError::Type(dtype)) => Error::new(
            ErrorKind::Unimplemented,
            format!("Functionality not implemented - tensors of {dtype}"),
        ),
        error => Error::internal("Internal inference error").with_source(error),
    }
}
