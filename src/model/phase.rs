//! The states that a pipeline or graph goes through, and the events that change them.

use std::fmt;

use super::state::{Status, VersionErrorCode, VersionState};

/// Phase in the life of a pipeline or graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Known, not checked yet.
    Begin,
    /// Being checked again, since its configuration was read again.
    Reloading,
    /// Serving.
    Available,
    /// Serving, and to be checked again: a model that it uses has changed.
    AvailableRequiredRevalidation,
    /// Refused by the check.
    Failed,
    /// Refused, and to be checked again.
    FailedRequiredRevalidation,
    /// No longer configured.
    Retired,
}

/// Event in the life of a pipeline or graph; logs have it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseEvent {
    /// The check has nothing against it.
    ValidationPassed,
    /// The check refuses it.
    ValidationFailed,
    /// The check refuses a replacement; the present definition keeps serving.
    ReloadFailed,
    /// A model that it uses is another one now, or in another state.
    UsedModelChanged,
    /// Its configuration was read again.
    Reload,
    /// The model is no longer configured.
    Retire,
}

impl Phase {
    /// Returns the phase that an event leads to; `None` for one that does not happen there.
    #[must_use]
    pub const fn after(self, event: PhaseEvent) -> Option<Self> {
        use PhaseEvent as E;
        let is_checked = self.is_passing() || matches!(self, Self::AvailableRequiredRevalidation);
        Some(match (event, self) {
            (E::ValidationPassed, _) if is_checked => Self::Available,
            (E::ValidationFailed, _) if is_checked => Self::Failed,
            (E::ReloadFailed, Self::Reloading | Self::AvailableRequiredRevalidation) => {
                Self::Available
            }
            (E::ValidationPassed | E::ValidationFailed | E::ReloadFailed, _)
            | (_, Self::Begin | Self::Reloading)
            | (E::UsedModelChanged | E::Retire, Self::Retired) => return None,
            (E::UsedModelChanged, Self::Available | Self::AvailableRequiredRevalidation) => {
                Self::AvailableRequiredRevalidation
            }
            (E::UsedModelChanged, _) => Self::FailedRequiredRevalidation,
            (E::Reload, _) => Self::Reloading,
            (E::Retire, _) => Self::Retired,
        })
    }

    /// Returns whether a request may wait for it to become available.
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Begin | Self::Reloading | Self::FailedRequiredRevalidation
        )
    }

    /// Returns the status for status calls.
    pub fn status(self) -> Status {
        let state = match self {
            Self::Available | Self::AvailableRequiredRevalidation => VersionState::Available,
            Self::Retired => VersionState::End,
            _ => VersionState::Loading,
        };
        Status {
            code: match self {
                Self::Failed => VersionErrorCode::FailedPrecondition,
                _ => VersionErrorCode::Ok,
            },
            ..Status::ok(state)
        }
    }
}

impl fmt::Display for Phase {
    /// Writes it as logs have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "BEGIN",
            Self::Reloading => "RELOADING",
            Self::Available => "AVAILABLE",
            Self::AvailableRequiredRevalidation => "AVAILABLE_REQUIRED_REVALIDATION",
            Self::Failed => "LOADING_PRECONDITION_FAILED",
            Self::FailedRequiredRevalidation => "LOADING_PRECONDITION_FAILED_REQUIRED_REVALIDATION",
            Self::Retired => "RETIRED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Phase::{self, Available, Begin, Failed, Reloading, Retired},
        PhaseEvent::{
            self, Reload, ReloadFailed, Retire, UsedModelChanged, ValidationFailed,
            ValidationPassed,
        },
    };

    #[test]
    fn events_lead_where_the_table_says() {
        let (again, failed_again) = (
            Phase::AvailableRequiredRevalidation,
            Phase::FailedRequiredRevalidation,
        );
        let events = [
            ValidationPassed,
            ValidationFailed,
            ReloadFailed,
            UsedModelChanged,
            Reload,
            Retire,
        ];
        #[rustfmt::skip]
        let table: [(Phase, [Option<Phase>; 6]); 7] = [
            (Begin, [Some(Available), Some(Failed), None, None, None, None]),
            (Reloading, [Some(Available), Some(Failed), Some(Available), None, None, None]),
            (Available, [None, None, None, Some(again), Some(Reloading), Some(Retired)]),
            (again, [Some(Available), Some(Failed), Some(Available), Some(again), Some(Reloading), Some(Retired)]),
            (Failed, [None, None, None, Some(failed_again), Some(Reloading), Some(Retired)]),
            (failed_again, [Some(Available), Some(Failed), None, Some(failed_again), Some(Reloading), Some(Retired)]),
            (Retired, [None, None, None, None, Some(Reloading), None]),
        ];
        for (phase, row) in table {
            let reported: Vec<Option<Phase>> = events
                .into_iter()
                .map(|event: PhaseEvent| phase.after(event))
                .collect();
            assert_eq!(reported, row, "{phase}");
        }
    }
}
