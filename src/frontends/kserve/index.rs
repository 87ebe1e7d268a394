//! Index of the repository: names, versions and states (the repository extension, read only).

use crate::{
    engine::Engine,
    model::{VersionErrorCode, VersionState},
    proto::kserve::repository_index_response::ModelIndex,
};

/// Lists every version, or only those that are ready, by name and number. A model without any
/// version is listed without a number.
pub(super) fn entries(engine: &Engine, ready: bool) -> Vec<ModelIndex> {
    let mut entries = Vec::new();
    for servable in engine.servables() {
        let mut add = |version: String, state: &str, reason: &str| {
            if !ready || state == "READY" {
                entries.push(ModelIndex {
                    name: servable.name().to_owned(),
                    version,
                    state: state.to_owned(),
                    reason: reason.to_owned(),
                });
            }
        };
        let parts = servable.parts();
        for part in &parts {
            let status = part.status();
            let reason = |usual| status.failure.as_deref().unwrap_or(usual);
            let (state, reason) = match (status.state, status.code) {
                (VersionState::Available, _) => ("READY", reason("")),
                (_, VersionErrorCode::Unknown) => ("UNAVAILABLE", reason("the load failed")),
                (_, VersionErrorCode::FailedPrecondition) => {
                    ("UNAVAILABLE", reason("the check refuses it"))
                }
                (VersionState::Start | VersionState::Loading, _) => ("LOADING", ""),
                (VersionState::Unloading | VersionState::End, _) => ("UNAVAILABLE", "unloaded"),
            };
            add(part.number().to_string(), state, reason);
        }
        if parts.is_empty() {
            add(String::new(), "UNAVAILABLE", "there is no version");
        }
    }
    entries
}
