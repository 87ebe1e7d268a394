//! Metadata of servers, and states of their models.

use std::collections::BTreeMap;

use serde::Serialize;

/// States in which a version takes requests, in the words of the protocols.
const READY: [&str; 2] = ["READY", "AVAILABLE"];

/// Metadata of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerMetadata {
    /// The name of the product.
    pub name: String,
    /// The version of the product.
    pub version: String,
    /// Whether it can take requests.
    #[serde(rename = "ready")]
    pub is_ready: bool,
}

/// A model with the versions that the server tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStatus {
    /// The name.
    pub name: String,
    /// The versions, in the server's order; none if the model has none.
    pub versions: Vec<VersionStatus>,
}

/// A version and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionStatus {
    /// The number; empty if the server lists the model without one.
    pub version: String,
    /// The state in the server's word, such as `READY` or `LOADING`; empty if it does not tell.
    pub state: String,
    /// How the last step went, such as `OK`; `None` where the protocol has no code for it.
    pub code: Option<String>,
    /// Message with the state; may be empty.
    pub message: String,
}

impl VersionStatus {
    /// Returns whether the version takes requests.
    pub fn is_ready(&self) -> bool {
        READY.contains(&self.state.as_str())
    }
}

/// Puts the versions of a list together by model, in the order of the names.
pub(super) fn by_model(
    entries: impl IntoIterator<Item = (String, VersionStatus)>,
) -> Vec<ModelStatus> {
    let mut models: BTreeMap<String, Vec<VersionStatus>> = BTreeMap::new();
    for (name, version) in entries {
        models.entry(name).or_default().push(version);
    }
    models
        .into_iter()
        .map(|(name, versions)| ModelStatus { name, versions })
        .collect()
}
