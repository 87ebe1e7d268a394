//! What `show` knows of models and custom nodes.

use std::path::Path;

use ovms::{
    config::FileConfig,
    pipeline::{CustomFacts, CustomFault, MissingModel, ModelFacts, Sources},
};

/// Returns what there is to know of the models and libraries of a file.
pub(super) fn sources(_path: &Path, _file: &FileConfig) -> impl Sources {
    Nothing
}

/// Knows nothing.
struct Nothing;

impl Sources for Nothing {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, _name: &str, _version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        Err(MissingModel::Unknown(Vec::new()))
    }

    fn custom(
        &self,
        _node: &str,
        _library: &str,
        _params: &[(String, String)],
    ) -> Result<CustomFacts, CustomFault> {
        Err(CustomFault::Library(Vec::new()))
    }
}
