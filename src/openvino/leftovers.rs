//! Strings of the last run that an infer request may still have.
//!
//! Some operators of the CPU plugin, such as Identity, Slice, and Split, copy strings with their addresses. Two strings have
//! the same memory then, and the plugin frees it a second time when it makes its own tensors anew or ends them, which
//! ends the process. What a run on strings without memory copies can be freed: so there is such a run before tensors
//! change their shapes, and at the end of the infer request.

use std::time::Duration;

use super::{
    describe::Described,
    ffi::InferRequest,
    limit::{Limit, infer_for, infer_within},
    slot_error::{INFER, SlotError, runtime},
};
use crate::tensor::DataType;

/// Time limit of the run at the end of an infer request.
const AT_END: Duration = Duration::from_secs(5);

/// State of the strings of an infer request.
#[derive(Debug)]
pub(super) struct Leftovers {
    state: StringState,
    /// Indicates that the shape of an output may depend on the contents of an input.
    by_contents: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringState {
    /// No strings at any time: the model does not have them as inputs and as outputs.
    Never,
    /// No strings at the moment.
    Gone,
    /// Strings of a run that failed.
    OfFailure,
    /// Strings of a run.
    OfRun,
}

impl Leftovers {
    /// Begins without any; there never are some if strings cannot get from inputs to outputs.
    pub(super) fn of_model(inputs: &[Described], outputs: &[Described]) -> Self {
        let is_string = |described: &Described| described.info.dtype == DataType::String;
        let varies = |output: &Described| output.info.shape.fixed().is_none();
        let mut of_strings = outputs.iter().filter(|output| is_string(output));
        Self {
            state: match are_possible(inputs, outputs) {
                true => StringState::Gone,
                false => StringState::Never,
            },
            by_contents: inputs.iter().any(|input| !is_string(input)) && of_strings.any(varies),
        }
    }

    /// Returns the state of a model that never has such strings.
    pub(super) const fn never() -> Self {
        Self {
            state: StringState::Never,
            by_contents: false,
        }
    }

    /// Returns whether there are some now.
    pub(super) const fn is_any(&self) -> bool {
        matches!(self.state, StringState::OfFailure | StringState::OfRun)
    }

    /// Returns whether they are to be forgotten before the next run, which may give tensors other shapes.
    pub(super) fn are_due(&self, is_reshaped: impl FnOnce() -> bool) -> bool {
        self.is_any() && (self.by_contents || is_reshaped())
    }

    /// Notes the begin of a run.
    pub(super) fn begin(&mut self) {
        if self.state != StringState::Never {
            self.state = StringState::OfFailure;
        }
    }

    /// Notes the end of a run.
    pub(super) fn end(&mut self) {
        if self.state != StringState::Never {
            self.state = StringState::OfRun;
        }
    }

    /// Notes how the run on strings without memory has ended.
    pub(super) fn forgotten(&mut self, ended: Result<(), SlotError>) -> Result<(), SlotError> {
        // One that failed before gets as far as it did then.
        let is_same =
            self.state == StringState::OfFailure && !matches!(ended, Err(SlotError::Timeout(_)));
        if ended.is_ok() || is_same {
            self.state = StringState::Gone;
            return Ok(());
        }
        ended
    }
}

/// Returns whether strings can get from inputs to outputs.
pub(super) fn are_possible(inputs: &[Described], outputs: &[Described]) -> bool {
    let has_strings = |all: &[Described]| {
        let mut dtypes = all.iter().map(|described| described.info.dtype);
        dtypes.any(|dtype| dtype == DataType::String)
    };
    has_strings(inputs) && has_strings(outputs)
}

/// Occasion of a run on strings without memory.
pub(super) enum Forgetting<'a, 'b> {
    /// The beginning of the next run, with its limit.
    Between(Option<&'a mut Limit<'b>>),
    /// The end of the infer request.
    AtEnd,
}

impl Forgetting<'_, '_> {
    /// Makes the run.
    pub(super) fn infer(self, request: &mut InferRequest) -> Result<(), SlotError> {
        match self {
            Self::Between(None) => request.infer().map_err(runtime(INFER)),
            Self::Between(Some(limit)) => infer_within(request, limit.again()),
            Self::AtEnd => infer_for(request, AT_END),
        }
    }
}
