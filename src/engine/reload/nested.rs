//! Configuration files in the folders of graphs that are served beside others, as `ovms graph new` writes them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    config::{self, EntryError, FileConfig, GraphConfig, ModelEntry, PathSource, RefusedEntry},
    diagnostic::{Diagnostic, FilePosition, Severity},
    error::chain,
};

/// Contents of the files as they were last read without an error.
pub(super) type KnownFiles = BTreeMap<PathBuf, FileConfig>;

/// Graph of a folder with a configuration file of its own.
pub(super) struct NestedGraph {
    /// The graph by the names of its folder.
    pub(super) graph: GraphConfig,
    /// The configuration file.
    pub(super) file: PathBuf,
}

/// Servables by their names: the folder or the file that each is from.
pub(super) type Origins = BTreeMap<String, PathBuf>;

/// Adds what the files of graphs list to the servables that are named by their folders, which have their names first.
/// A file that cannot be read leaves what it listed before. Blocks.
pub(super) fn add_listed(
    config: &mut FileConfig,
    source: &PathSource,
    nested: Vec<NestedGraph>,
    origins: &mut Origins,
    known: &mut KnownFiles,
) {
    known.retain(|file, _| nested.iter().any(|it| it.file == *file));
    for NestedGraph { graph, file } in nested {
        let listed = match config::read(&file, &source.defaults) {
            Ok(listed) => {
                known.insert(file.clone(), listed.clone());
                listed
            }
            Err(error) => {
                let text = format!(
                    "cannot serve what {} lists: {}",
                    file.display(),
                    chain(&error)
                );
                config.refused.push(refused(&graph.name, text));
                match known.get(&file) {
                    Some(listed) => listed.clone(),
                    None => continue,
                }
            }
        };
        let shown = file.display();
        tracing::info!(
            "graph `{}`: its folder is served as {shown} says",
            graph.name
        );
        let mut adding = Adding {
            config: &mut *config,
            origins: &mut *origins,
            file: &file,
        };
        adding.add(graph, listed);
    }
}

/// Addition of what one file lists.
struct Adding<'a> {
    config: &'a mut FileConfig,
    origins: &'a mut Origins,
    file: &'a Path,
}

impl Adding<'_> {
    fn add(&mut self, graph: GraphConfig, listed: FileConfig) {
        let file = self.file.display().to_string();
        let warnings = listed.warnings.into_iter();
        let warnings = warnings.map(|warning| warning.file(&file));
        self.config.warnings.extend(warnings);
        self.left_out(&[
            ("pipeline_config_list", listed.pipelines.is_empty()),
            ("monitoring", listed.monitoring.is_none()),
            (
                "custom_node_library_config_list",
                listed.custom_node_libraries.is_empty(),
            ),
        ]);
        let is_listed = |other: &GraphConfig| other.graph_path == graph.graph_path;
        let own = (!listed.graphs.iter().any(is_listed)).then_some(graph);
        for mut graph in listed.graphs {
            graph.place.path = self.place(&graph.place.path);
            self.add_graph(graph);
        }
        if let Some(own) = own {
            self.add_graph(own);
        }
        for mut entry in listed.models {
            if self.is_served(&entry) {
                continue;
            }
            if self.takes(entry.name(), "model") {
                if let ModelEntry::Refused(refused) = &mut entry {
                    refused.place.path = self.place(&refused.place.path);
                }
                self.config.models.push(entry);
            }
        }
        for mut base_path in listed.base_paths {
            base_path.place.path = self.place(&base_path.place.path);
            self.config.base_paths.push(base_path);
        }
        for mut entry in listed.refused {
            entry.place.path = self.place(&entry.place.path);
            self.config.refused.push(entry);
        }
    }

    fn add_graph(&mut self, graph: GraphConfig) {
        if self.takes(&graph.name, "graph") {
            self.config.graphs.push(graph);
        }
    }

    /// Warns of sections that count in the configuration file of a server alone.
    fn left_out(&mut self, sections: &[(&str, bool)]) {
        let there = sections.iter().filter(|(_, is_absent)| !is_absent);
        let there: Vec<&str> = there.map(|(name, _)| *name).collect();
        if !there.is_empty() {
            let text = format!(
                "{}: {} is left out, since the graph is served beside others; serve its folder by itself, or name \
                 a file with everything in it with --config-path",
                self.file.display(),
                there.join(", ")
            );
            let warning = Diagnostic::new(Severity::Warning, text);
            self.config.warnings.push(warning);
        }
    }

    /// Returns whether a model is served under its name already; with other settings, which is warned of.
    fn is_served(&mut self, entry: &ModelEntry) -> bool {
        let ModelEntry::Model(model) = entry else {
            return false;
        };
        let mut models = self.config.models.iter();
        let same = models.find_map(|other| match other {
            ModelEntry::Model(other) if other.name == model.name => Some(other),
            _ => None,
        });
        let Some(other) = same else { return false };
        if Path::new(&other.base_path) != Path::new(&model.base_path) {
            return false;
        }
        if other != model
            && let Some(origin) = self.origins.get(&model.name)
        {
            let text = format!(
                "{}: the model `{}` is that of {}, with whose settings it is served",
                self.file.display(),
                model.name,
                origin.display()
            );
            let warning = Diagnostic::new(Severity::Warning, text);
            self.config.warnings.push(warning);
        }
        true
    }

    /// Takes a name, unless something else has it, which is an error.
    fn takes(&mut self, name: &str, kind: &str) -> bool {
        let Some(origin) = self.origins.get(name) else {
            self.origins.insert(name.to_owned(), self.file.to_owned());
            return true;
        };
        let text = format!(
            "the {kind} `{name}` of {} is not served, since its name is taken by {}; give it another one",
            self.file.display(),
            origin.display()
        );
        self.config.refused.push(refused(name, text));
        false
    }

    /// Names the file behind a place in it.
    fn place(&self, path: &str) -> String {
        format!("{path} in {}", self.file.display())
    }
}

fn refused(name: &str, text: String) -> RefusedEntry {
    RefusedEntry {
        name: name.to_owned(),
        reason: EntryError::OfFolder(text),
        place: FilePosition::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

    use super::{super::read_paths, KnownFiles};
    use crate::{
        config::{Config, ConfigSource, FileConfig, FlagEnvironment, Flags, PathSource},
        error::chain,
    };

    fn source(root: &Path) -> PathSource {
        let paths = vec![root.to_owned()];
        let config = Config::from_paths(Flags::default(), paths, &FlagEnvironment::default());
        match config.unwrap().source {
            ConfigSource::Paths(source) => *source,
            other => panic!("{other:?}"),
        }
    }

    /// Makes a folder of models with a model `m` and a graph `g`, whose file is given.
    fn folder(file: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["m/1", "g/inner/1"] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("model.onnx"), "").unwrap();
        }
        fs::write(root.path().join("g/graph.pbtxt"), "").unwrap();
        fs::write(root.path().join("g/config.json"), file).unwrap();
        root
    }

    /// Returns the names of graphs and models, and what is wrong, without the folder of the test.
    fn found(root: &Path, config: &FileConfig) -> (Vec<String>, Vec<String>) {
        let graphs = config.graphs.iter().map(|it| it.name.clone());
        let models = config.models.iter().map(|it| it.name().to_owned());
        let wrong = config.refused.iter().map(|it| it.reason.to_string());
        let wrong = wrong.chain(config.warnings.iter().map(ToString::to_string));
        let root = format!("{}/", root.display());
        let wrong = wrong.map(|text| text.replace(&root, ""));
        (graphs.chain(models).collect(), wrong.collect())
    }

    fn read(file: &str) -> (Vec<String>, Vec<String>) {
        let root = folder(file);
        let config = read_paths(&source(root.path())).unwrap();
        found(root.path(), &config)
    }

    #[test]
    fn the_file_of_a_graph_names_it_and_its_models() {
        let (names, wrong) = read(
            r#"{"model_config_list": [{"config": {"name": "inner", "base_path": "inner"}}],
                "mediapipe_config_list": [{"name": "named", "base_path": "."}]}"#,
        );
        assert_eq!(
            (names, wrong),
            (vec!["named".into(), "m".into(), "inner".into()], vec![])
        );
        // One that does not list its graph leaves it its name.
        let (names, _) =
            read(r#"{"model_config_list": [{"config": {"name": "inner", "base_path": "inner"}}]}"#);
        assert_eq!(names, ["g", "m", "inner"]);
        // One that lists nothing is that of something else.
        assert_eq!(read(r#"{"layers": 12}"#).0, ["g", "m"]);
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_refused_for_models() {
        let root = folder("");
        let odd = root.path().join(OsStr::from_bytes(b"\xff"));
        fs::rename(root.path().join("m"), &odd).unwrap();
        let error = |path: &Path| chain(&read_paths(&source(path)).unwrap_err());
        let end = "its path is not UTF-8; rename the file or folder";
        assert!(error(&odd).ends_with(end), "{}", error(&odd));
        let file = odd.join("1/model.onnx");
        assert!(error(&file).ends_with(end), "{}", error(&file));
        // As a folder of models, too.
        let models = root.path().join("models");
        fs::rename(&odd, &models).unwrap();
        fs::create_dir(&odd).unwrap();
        fs::rename(&models, odd.join("m")).unwrap();
        assert!(error(&odd).ends_with(end), "{}", error(&odd));
        // Paths of graphs are taken as they are.
        fs::remove_dir_all(&odd).unwrap();
        fs::rename(root.path().join("g"), &odd).unwrap();
        fs::remove_file(odd.join("config.json")).unwrap();
        let config = read_paths(&source(&odd)).unwrap();
        assert_eq!(config.graphs[0].base_path, odd);
    }

    #[test]
    fn a_name_that_is_taken_is_an_error_unless_it_is_the_same_model() {
        let root = folder("");
        let file = |base_path: &Path, more: &str| {
            let text = format!(
                r#"{{"model_config_list": [{{"config": {{"name": "m", "base_path": {base_path:?}{more}}}}}]}}"#
            );
            fs::write(root.path().join("g/config.json"), text).unwrap();
            let config = read_paths(&source(root.path())).unwrap();
            found(root.path(), &config)
        };
        let same = root.path().join("m");
        let both = vec!["g".to_owned(), "m".to_owned()];
        assert_eq!(file(&same, ""), (both.clone(), vec![]));
        let (names, warnings) = file(&same, r#", "nireq": 7"#);
        assert_eq!(names, both);
        insta::assert_snapshot!(warnings.join("\n"), @"g/config.json: the model `m` is that of m, with whose settings it is served");
        let (names, errors) = file(&root.path().join("g/inner"), "");
        assert_eq!(names, both);
        insta::assert_snapshot!(errors.join("\n"), @"the model `m` of g/config.json is not served, since its name is taken by m; give it another one");
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_what_it_listed() {
        let root = folder("{\"model_config_list\": [");
        let source = source(root.path());
        let mut known = KnownFiles::new();
        let mut look = || {
            let paths = super::super::paths::Paths::open(&source).unwrap();
            let (all, known) = (paths.found().unwrap(), &mut known);
            let config = super::super::paths::configured(&source, &paths, all, known);
            found(root.path(), &config)
        };
        let write = |text: &str| fs::write(root.path().join("g/config.json"), text).unwrap();
        let (names, errors) = look();
        assert_eq!(names, ["m"]);
        let start = "cannot serve what g/config.json lists: The file is not valid json - ";
        assert!(errors[0].starts_with(start), "{errors:?}");
        write(r#"{"model_config_list": [{"config": {"name": "inner", "base_path": "inner"}}]}"#);
        assert_eq!(
            look(),
            (vec!["g".into(), "m".into(), "inner".into()], vec![])
        );
        write(r#"{"model_config_list": [{"config": {"name": 7}}]}"#);
        let (names, errors) = look();
        assert_eq!(names, ["g", "m", "inner"]);
        assert!(
            errors[0].contains("g/config.json has 1 error: 1:44 "),
            "{errors:?}"
        );
        // It is just being written.
        write("");
        let (names, errors) = look();
        assert_eq!(
            (names, errors.len()),
            (vec!["g".into(), "m".into(), "inner".into()], 1)
        );
        write(r#"{"model_config_list": [], "monitoring": {"metrics": {"enable": true}}}"#);
        let (names, warnings) = look();
        assert_eq!(names, ["g", "m"]);
        let start =
            "g/config.json: monitoring is left out, since the graph is served beside others; ";
        assert!(warnings[0].starts_with(start), "{warnings:?}");
    }
}
