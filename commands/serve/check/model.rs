//! Checks of a model: its folders, and its files with the runtime.

use std::path::Path;

use ovms::{
    config::{ModelConfig, VersionPolicy},
    model::{Ignored, Reason, repository, storage, wanted},
    openvino::check_cache,
};

use super::{ERROR, GOOD, Kind, NOT_CHECKED, Report};
use crate::pipeline::facts::{ConfigurationFacts, VersionLookup};

/// State in the table of a model that was left to the server.
const NOT_LOOKED_AT: &str = "not looked at";

impl Report {
    /// Checks the folders of a model. Results begin with `origin`.
    pub(super) fn model(
        &mut self,
        model: &ModelConfig,
        origin: &str,
        facts: &ConfigurationFacts<'_>,
    ) {
        let name = &model.name;
        if self.is_syntax {
            self.row(Kind::Model, name, Vec::new(), NOT_LOOKED_AT);
            return;
        }
        if storage::is_remote(&model.base_path) {
            // It is for the server to fetch.
            self.row(Kind::Model, name, Vec::new(), NOT_LOOKED_AT);
            let place = &model.base_path;
            self.findings.unchecked.push(format!(
                "{origin}model `{name}`: {place} is looked at by the server alone"
            ));
            return;
        }
        let survey = match repository::survey(Path::new(&model.base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.row(Kind::Model, name, Vec::new(), ERROR);
                self.findings
                    .errors
                    .push(format!("{origin}model `{name}`: {error}"));
                return;
            }
        };
        // Other names say nothing of versions, such as that of `lost+found`.
        let numbered =
            |folder: &&Ignored| folder.number().is_some() || folder.reason == Reason::Beside;
        for folder in survey.ignored.iter().filter(numbered) {
            let place = Path::new(&model.base_path).join(&folder.name);
            self.findings.warnings.push(format!(
                "{origin}model `{name}`: {}: {folder}",
                place.display()
            ));
        }
        let existing = survey.versions;
        let numbers: Vec<i64> = existing.iter().map(|(number, _)| *number).collect();
        if let VersionPolicy::Specific(named) = &model.policy {
            for version in named.iter().filter(|number| !numbers.contains(number)) {
                self.findings.warnings.push(format!(
                    "{origin}model `{name}`: there is no version {version}, which \
                     model_version_policy names"
                ));
            }
        }
        let chosen = wanted::choose(&model.policy, &numbers);
        if chosen.is_empty() {
            self.row(Kind::Model, name, Vec::new(), "empty");
            self.findings.warnings.push(format!(
                "{origin}model `{name}`: there is no version to serve in {}",
                model.base_path
            ));
            return;
        }
        if let Some(cache) = &model.load.cache_dir
            && let Err(error) = check_cache(cache)
        {
            let cache = cache.display();
            self.warn(format!(
                "cannot use the cache folder {cache}: {error}; models are compiled at each start"
            ));
        }
        let mut state: &'static str = GOOD;
        // What all versions have in common, such as a device that is not there, is one error.
        let mut errors: Vec<(String, Vec<String>)> = Vec::new();
        let chosen = |(number, _): &&(i64, _)| chosen.contains(number);
        for (number, folder) in existing.iter().filter(chosen) {
            match facts.looked(model, *number, folder) {
                VersionLookup::Info(inspected) => {
                    for warning in inspected.warnings {
                        self.warn(format!(
                            "{origin}model `{name}`, version {number}: {warning}"
                        ));
                    }
                }
                VersionLookup::Error(reason, hint) => {
                    state = ERROR;
                    match errors.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, numbers)) => numbers.push(number.to_string()),
                        None => errors.push((reason, vec![number.to_string()])),
                    }
                    if let Some(hint) = hint
                        && !self.hints.contains(&hint)
                    {
                        self.hints.push(hint);
                    }
                }
                VersionLookup::Unknown(reason) => {
                    if state == GOOD {
                        state = NOT_CHECKED;
                    }
                    let names = self.unread.entry(reason).or_default();
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
            }
        }
        for (reason, numbers) in errors {
            let word = if numbers.len() == 1 {
                "version"
            } else {
                "versions"
            };
            self.findings.errors.push(format!(
                "{origin}model `{name}`, {word} {}: {reason}",
                numbers.join(", ")
            ));
        }
        let numbers = existing.iter().filter(chosen).map(|(number, _)| *number);
        let numbers = numbers.collect();
        self.row(Kind::Model, name, numbers, state);
    }

    /// Adds a warning, once.
    fn warn(&mut self, warning: String) {
        if !self.findings.warnings.contains(&warning) {
            self.findings.warnings.push(warning);
        }
    }
}
