//! Flags of a model as each of several models has them.

use std::path::Path;

use serde_json::json;

use super::triton::{self, TritonSettings};
use crate::{
    config::{ModelConfig, PathSource},
    model::{has_state, storage},
    openvino::Batching,
};

/// Models that are given the flags one by one.
pub(super) struct PerModel<'a> {
    source: &'a PathSource,
    /// Marks flags for several models, now or later.
    is_shared: bool,
    /// Models with sequences, as `--stateful` asks for.
    stateful: Vec<String>,
    /// Models that have no state for sequences.
    stateless: Vec<String>,
}

impl<'a> PerModel<'a> {
    pub(super) fn new(source: &'a PathSource, is_shared: bool) -> Self {
        Self {
            source,
            is_shared,
            stateful: Vec::new(),
            stateless: Vec::new(),
        }
    }

    /// Returns the settings of a model that is found at a path. Blocks.
    pub(super) fn settings(&mut self, name: &str, path: &Path) -> ModelConfig {
        let mut model = self.source.model_of(name, path);
        if self.is_shared {
            model.load.advice = self.advice(&model).map(Into::into);
        }
        let is_remote = storage::is_remote(&model.base_path);
        let found = match is_remote {
            true => Ok(TritonSettings::default()),
            false => triton::settings(path),
        };
        let TritonSettings {
            sequences,
            model_file,
            policy,
        } = match found {
            Ok(found) => found,
            // Served without the sequences that it may ask for, all clients would share one state.
            Err(error) => {
                model.load.settings_error = Some(error.into());
                return model;
            }
        };
        model.load.model_file = model_file.map(Into::into);
        // The flag is for all models, and counts.
        if let Some(policy) = policy
            && !self.source.unfit.contains(&"model_version_policy")
        {
            model.policy = policy;
        }
        if let Some(file) = sequences {
            let is_new = model.stateful.is_none();
            let off = match model.load.batching {
                Batching::Off => "",
                _ => "; dynamic_batching is off for it",
            };
            if is_new {
                let file = file.display();
                tracing::info!(
                    model = name,
                    "stateful, as sequence_batching of {file} asks for{off}"
                );
            }
            model.add_sequences(file);
            self.stateful.push(name.to_owned());
        } else if self.is_shared && model.stateful.is_some() {
            if !is_remote && has_state(path, &model.load) == Some(false) {
                model.remove_sequences();
                self.stateless.push(name.to_owned());
            } else {
                self.stateful.push(name.to_owned());
            }
        }
        model
    }

    /// Logs which models `--stateful` is for; returns a warning if it is for none of them.
    pub(super) fn end(self) -> Option<String> {
        if self.source.model.stateful.is_none() || self.stateless.is_empty() {
            return None;
        }
        let stateless = self.stateless.join(", ");
        if self.stateful.is_empty() {
            return Some(format!(
                "stateful is ignored: no model has variables to keep a state in: {stateless}"
            ));
        }
        let stateful = self.stateful.join(", ");
        tracing::info!(
            "stateful is for {stateful}; without variables, and so without sequences: {stateless}"
        );
        None
    }

    /// Returns the next step for a model that the flags of its tensors do not fit.
    fn advice(&self, model: &ModelConfig) -> Option<String> {
        let flags = &self.source.of_tensors;
        if flags.is_empty() {
            return None;
        }
        let verb = if flags.len() == 1 { "is" } else { "are" };
        let given = flags
            .iter()
            .map(|flag| format!("--{}", flag.replace('_', "-")));
        let given: Vec<String> = given.collect();
        let keys: String = flags
            .iter()
            .map(|flag| format!(r#", "{flag}": "…""#))
            .collect();
        let (name, base_path) = (json!(model.name), json!(model.base_path));
        Some(format!(
            "{} {verb} for all models here; to give each its own, serve a file with --config-path: \
             {{\"model_config_list\": [{{\"config\": {{\"name\": {name}, \"base_path\": {base_path}{keys}}}}}]}}",
            given.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::PerModel;
    use crate::config::{Config, ConfigSource, FlagEnvironment, Flags, VersionPolicy};

    #[test]
    fn the_flag_goes_before_the_policy_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("m");
        fs::create_dir_all(folder.join("1")).unwrap();
        fs::write(folder.join("1/model.onnx"), "").unwrap();
        let text = "version_policy { specific { versions: [ 1, 3 ] } }";
        fs::write(folder.join("config.pbtxt"), text).unwrap();
        let policy = |flag: Option<&str>, below: &str| {
            let flags = Flags {
                model_version_policy: flag.map(str::to_owned),
                ..Flags::default()
            };
            let paths = vec![root.path().to_owned()];
            let config = Config::from_paths(flags, paths, &FlagEnvironment::default()).unwrap();
            let ConfigSource::Paths(source) = config.source else {
                panic!("no paths");
            };
            let mut models = PerModel::new(&source, true);
            models.settings("m", &folder.join(below)).policy
        };
        assert_eq!(policy(None, ""), VersionPolicy::Specific(vec![1, 3]));
        for (flag, expected) in [
            (r#"{"all": {}}"#, VersionPolicy::All),
            (r#"{"latest": {}}"#, VersionPolicy::Latest(1)),
        ] {
            assert_eq!(policy(Some(flag), ""), expected);
        }
        // A version that is named is the one.
        for below in ["1", "1/model.onnx"] {
            assert_eq!(policy(None, below), VersionPolicy::default(), "{below}");
        }
    }
}
