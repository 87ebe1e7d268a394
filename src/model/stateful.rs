//! Sequences of a model version: their states, the outputs that steps ask for, and refusals.

use std::sync::Arc;

use super::{keeper::Ownership, loaded::Loaded, overloaded};
use crate::{
    error::{Error, ErrorKind, Result},
    openvino::{LoadOptions, SequenceState, StateMode},
    quota::ClientPlace,
    request::InferRequest,
    sequence::{SEQUENCE_ID, SequenceRefusal, Sequences},
    tensor::{DataType, Tensor, TensorMap},
};

/// The sequences of a model version.
pub type OfVersion = Sequences<Arc<Loaded>, LiveState>;

/// State of a sequence on this server.
#[derive(Default)]
pub struct LiveState {
    /// The state.
    pub(crate) state: SequenceState,
    /// Its record in a store, if there is one.
    pub(crate) stored: Option<Box<Ownership>>,
    /// Its place among the sequences of the client that has begun it.
    pub(crate) place: Option<ClientPlace>,
}

impl From<SequenceState> for LiveState {
    fn from(state: SequenceState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }
}

/// Returns what becomes of the sequences of a model whose states are no tensors, beside a store, and what to do.
pub fn not_stored(options: &LoadOptions) -> &'static str {
    match options.state_mode {
        StateMode::Requests => {
            "--sequence-store has none of its sequences, since its state_mode is requests: they end with the server; \
             leave state_mode out, or set it to tensors"
        }
        StateMode::Tensors => {
            "--sequence-store has none of its sequences, since its states cannot be tensors: they end with the server"
        }
    }
}

/// Outputs that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    /// The place of the id, if it is listed.
    id: Option<usize>,
    /// Indicates that the id alone is listed.
    pub(crate) alone: bool,
}

impl Selection {
    /// Takes the id out of the outputs that a request lists.
    ///
    /// # Errors
    ///
    /// Fails if it is there twice.
    pub(crate) fn take(request: &mut InferRequest) -> Result<Self> {
        let outputs = &mut request.outputs;
        let id = outputs.iter().position(|name| name == SEQUENCE_ID);
        if id.is_some() {
            let before = outputs.len();
            outputs.retain(|name| name != SEQUENCE_ID);
            if before - outputs.len() > 1 {
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {SEQUENCE_ID} is listed twice"
                )));
            }
        }
        Ok(Self {
            id,
            alone: id.is_some() && outputs.is_empty(),
        })
    }
}

/// Puts the id of the sequence among the outputs.
pub(super) fn with_id(mut outputs: TensorMap, id: u64, selection: Selection) -> Result<TensorMap> {
    let value = Tensor::new(DataType::U64, vec![1], id.to_le_bytes().to_vec().into());
    let value = value.map_err(|error| Error::internal("Internal error").with_source(error))?;
    let place = selection.id.unwrap_or(outputs.len()).min(outputs.len());
    outputs.insert(place, (SEQUENCE_ID.into(), value));
    Ok(outputs)
}

/// Returns the error of a request that gets no turn.
pub(crate) fn explain(refusal: SequenceRefusal) -> Error {
    let (kind, text) = match refusal {
        SequenceRefusal::Full => (
            ErrorKind::Overloaded,
            "Max sequence number has been reached. Could not create new sequence.",
        ),
        SequenceRefusal::Exists => (
            ErrorKind::AlreadyExists,
            "Sequence with provided ID already exists",
        ),
        SequenceRefusal::Ending => (
            ErrorKind::FailedPrecondition,
            "Sequence last request is being processed and it's not available anymore",
        ),
        SequenceRefusal::Unknown => (
            ErrorKind::NotFound,
            "Sequence with provided ID does not exist",
        ),
        SequenceRefusal::Replaced => (
            ErrorKind::Overloaded,
            "Model is being reloaded - no sequence can start at this moment; try again",
        ),
        SequenceRefusal::Crowded(waiting) => {
            return overloaded(format_args!(
                "requests that wait for others of their sequences: {waiting}, the most allowed"
            ));
        }
    };
    Error::new(kind, text)
}
