//! Checks of a model: its folders, and its files with the runtime.

use std::path::Path;

use ovms::{
    config::{ModelConfig, VersionPolicy},
    model::{Ignored, Reason, repository, storage, wanted},
    openvino::check_cache,
};

use super::{ERROR, GOOD, NOT_CHECKED, Report};
use crate::{
    check::report::CheckedKind,
    pipeline::facts::{ConfigurationFacts, VersionLookup},
};

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
        let of = format!("{origin}model `{}`", model.name);
        let (versions, state) = self.versions(model, &of, facts);
        self.row(CheckedKind::Model, &model.name, versions, state);
    }

    /// Checks the versions of a model. Returns those to be served, and the state.
    fn versions(
        &mut self,
        model: &ModelConfig,
        of: &str,
        facts: &ConfigurationFacts<'_>,
    ) -> (Vec<i64>, &'static str) {
        let none = Vec::new();
        if self.is_syntax {
            return (none, NOT_LOOKED_AT);
        }
        let base_path = &model.base_path;
        if storage::is_remote(base_path) {
            // It is for the server to fetch.
            let text = format!("{of}: {base_path} is looked at by the server alone");
            self.findings.unchecked.push(text);
            return (none, NOT_LOOKED_AT);
        }
        let survey = match repository::survey(Path::new(base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.findings.errors.push(format!("{of}: {error}"));
                return (none, ERROR);
            }
        };
        let warnings = &mut self.findings.warnings;
        // Other names say nothing of versions, such as that of `lost+found`.
        let numbered =
            |folder: &&Ignored| folder.number().is_some() || folder.reason == Reason::Beside;
        for folder in survey.ignored.iter().filter(numbered) {
            let place = Path::new(base_path).join(&folder.name);
            warnings.push(format!("{of}: {}: {folder}", place.display()));
        }
        let existing = survey.versions;
        let numbers: Vec<i64> = existing.iter().map(|(number, _)| *number).collect();
        if let VersionPolicy::Specific(named) = &model.policy {
            for version in named.iter().filter(|number| !numbers.contains(number)) {
                warnings.push(format!(
                    "{of}: there is no version {version}, which model_version_policy names"
                ));
            }
        }
        let chosen = wanted::choose(&model.policy, &numbers);
        if chosen.is_empty() {
            warnings.push(format!("{of}: there is no version to serve in {base_path}"));
            return (none, "empty");
        }
        if let Some(cache) = &model.load.cache_dir
            && let Err(error) = check_cache(cache)
        {
            let cache = cache.display();
            self.warn(format!(
                "cannot use the cache folder {cache}: {error}; models are compiled at each start"
            ));
        }
        let mut state = GOOD;
        // What all versions have in common, such as a device that is not there, is one error.
        let mut errors: Vec<(String, Vec<String>)> = Vec::new();
        let served = existing
            .iter()
            .filter(|(number, _)| chosen.contains(number));
        let served: Vec<_> = served.collect();
        for (number, folder) in &served {
            match facts.looked(model, *number, folder) {
                VersionLookup::Info(inspected) => {
                    for warning in inspected.warnings {
                        self.warn(format!("{of}, version {number}: {warning}"));
                    }
                }
                VersionLookup::Error(reason, hint) => {
                    state = ERROR;
                    match errors.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, numbers)) => numbers.push(number.to_string()),
                        None => errors.push((reason, vec![number.to_string()])),
                    }
                    let is_new = |hint: &String| !self.hints.contains(hint);
                    self.hints.extend(hint.filter(is_new));
                }
                VersionLookup::Unknown(reason) => {
                    if state == GOOD {
                        state = NOT_CHECKED;
                    }
                    let names = self.unread.entry(reason).or_default();
                    if !names.contains(&model.name) {
                        names.push(model.name.clone());
                    }
                }
            }
        }
        for (reason, numbers) in errors {
            let plural = if numbers.len() == 1 { "" } else { "s" };
            let text = format!("{of}, version{plural} {}: {reason}", numbers.join(", "));
            self.findings.errors.push(text);
        }
        (served.iter().map(|(number, _)| *number).collect(), state)
    }

    /// Adds a warning, once.
    fn warn(&mut self, warning: String) {
        if !self.findings.warnings.contains(&warning) {
            self.findings.warnings.push(warning);
        }
    }
}
