//! Index of the repository: names, versions and states (the repository extension, read only).

use serde::Serialize;

use crate::{
    engine::Engine,
    model::{VersionErrorCode, VersionState},
};

/// One version of a model, or a pipeline.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) state: &'static str,
    pub(super) reason: String,
}

/// Lists every version, or only those that are ready, by name and number. A model without any
/// version is listed without a number.
pub(super) fn entries(engine: &Engine, ready: bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    for servable in engine.servables() {
        let before = entries.len();
        for part in servable.parts() {
            let status = part.status();
            let (state, reason) = match (status.state, status.code) {
                (VersionState::Available, _) => ("READY", status.failure.as_deref().unwrap_or("")),
                (_, VersionErrorCode::Unknown) => {
                    let reason = status.failure.as_deref();
                    ("UNAVAILABLE", reason.unwrap_or("the load failed"))
                }
                (_, VersionErrorCode::FailedPrecondition) => {
                    let reason = status.failure.as_deref();
                    ("UNAVAILABLE", reason.unwrap_or("the check refuses it"))
                }
                (VersionState::Start | VersionState::Loading, VersionErrorCode::Ok) => {
                    ("LOADING", "")
                }
                (VersionState::Unloading | VersionState::End, VersionErrorCode::Ok) => {
                    ("UNAVAILABLE", "unloaded")
                }
            };
            entries.push(Entry {
                name: servable.name().to_owned(),
                version: part.number().to_string(),
                state,
                reason: reason.to_owned(),
            });
        }
        if entries.len() == before {
            entries.push(Entry {
                name: servable.name().to_owned(),
                version: String::new(),
                state: "UNAVAILABLE",
                reason: "there is no version".to_owned(),
            });
        }
    }
    entries.retain(|entry| !ready || entry.state == "READY");
    entries
}
