//! A model: its folders and the files in them.

use std::path::Path;

use ovms::{
    config::{ModelConfig, VersionPolicy},
    error::chain,
    model::{Ignored, Reason, mapping, repository, storage, wanted},
};

use super::{FAULT, GOOD, Kind, Report};

impl Report {
    /// Looks at the folders of a model. What is said of it begins with `origin`.
    pub(super) fn model(&mut self, model: &ModelConfig, origin: &str) {
        let name = &model.name;
        if storage::is_remote(&model.base_path) {
            // It is for the server to fetch.
            self.row(Kind::Model, name, Vec::new(), "not looked at");
            let place = &model.base_path;
            self.findings.unchecked.push(format!(
                "{origin}model `{name}`: {place} is looked at by the server alone"
            ));
            return;
        }
        let survey = match repository::survey(Path::new(&model.base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.row(Kind::Model, name, Vec::new(), FAULT);
                self.findings
                    .faults
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
        let mut state: &'static str = GOOD;
        let chosen = |(number, _): &&(i64, _)| chosen.contains(number);
        for (number, folder) in existing.iter().filter(chosen) {
            let mut fault = |fault: String| {
                state = FAULT;
                self.findings
                    .faults
                    .push(format!("{origin}model `{name}`, version {number}: {fault}"));
            };
            match repository::files(folder) {
                Ok(files) => {
                    if let Err(error) = mapping::read(files.folder()) {
                        let path = mapping::path(files.folder());
                        fault(format!("{}: {}", path.display(), chain(&error)));
                    }
                }
                Err(error) => fault(chain(&error)),
            }
        }
        let numbers = existing.iter().filter(chosen).map(|(number, _)| *number);
        let numbers = numbers.collect();
        self.row(Kind::Model, name, numbers, state);
    }
}
