//! Selected graphs: those of a configuration file, that of a folder, or a graph file.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry, PathSource},
    diagnostic::FilePosition,
    python::WorkerOptions,
};

use crate::{
    error::Failure,
    pipeline::{missing, refused},
    places::folder_of,
    serve::hints,
};

/// File name of a graph in its folder.
const GRAPH: &str = "graph.pbtxt";

/// Folder of the version that a graph may be in.
const FIRST: &str = "1";

/// File name of the models of a graph.
const SUBCONFIG: &str = "subconfig.json";

/// File name of the configuration file beside a graph.
const CONFIG: &str = "config.json";

/// Result of the search.
pub(super) struct Found {
    /// Selected graphs, in the order of the file.
    pub(super) graphs: Vec<GraphConfig>,
    /// Configuration file, if it was named.
    pub(super) file: Option<FileConfig>,
}

/// Configuration file beside a graph that was named by its folder or file.
pub(super) enum AdjacentConfig {
    /// No file.
    Absent,
    /// Path of a file that lists the graph.
    Used(PathBuf),
    /// Reason why a file is not used, with its path.
    Unused(String),
}

impl Found {
    /// Takes the configuration file in the folder of the graph, or else beside that folder, if none was named and
    /// the file lists the graph. The paths of the graph stay as they were named.
    ///
    /// Fails for one in the folder of the graph that is broken: the server refuses it as well.
    pub(super) fn take_adjacent_config(
        &mut self,
        defaults: &Defaults,
    ) -> Result<AdjacentConfig, Failure> {
        let (None, [graph]) = (&self.file, &mut self.graphs[..]) else {
            return Ok(AdjacentConfig::Absent);
        };
        let mut unused = None;
        for path in candidates(&graph.graph_path) {
            // In the folder of a version it may be the file with the models of the graph.
            if path == graph.subconfig {
                continue;
            }
            let shown = path.display();
            let file = match config::read(&path, defaults) {
                Ok(file) => file,
                Err(error) if is_own(&path, graph) && lists_something(&path) => {
                    return Err(hints::explain(&error, "PATH"));
                }
                Err(_) => {
                    unused.get_or_insert(format!("{shown} is not a valid configuration file"));
                    continue;
                }
            };
            let mut entries = file.graphs.iter();
            let Some(entry) = entries.find(|it| is_same(&it.graph_path, &graph.graph_path)) else {
                unused.get_or_insert(format!("{shown} does not list this graph"));
                continue;
            };
            let base_path = match is_same(&entry.base_path, &graph.base_path) {
                true => graph.base_path.clone(),
                false => entry.base_path.clone(),
            };
            *graph = GraphConfig {
                base_path,
                graph_path: graph.graph_path.clone(),
                ..entry.clone()
            };
            self.file = Some(file);
            return Ok(AdjacentConfig::Used(path));
        }
        Ok(unused.map_or(AdjacentConfig::Absent, AdjacentConfig::Unused))
    }
}

/// Returns whether a file is in the folder of a graph.
fn is_own(path: &Path, graph: &GraphConfig) -> bool {
    is_same(folder_of(path), folder_of(&graph.graph_path))
}

/// Returns whether a file is meant to be a configuration file, and not one of another program with that name.
fn lists_something(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    [
        "model_config_list",
        "mediapipe_config_list",
        "pipeline_config_list",
    ]
    .iter()
    .any(|key| text.contains(key))
}

/// Lists the configuration files in the folder of a graph and in the one above it, or in both above the folder of a
/// version.
fn candidates(graph: &Path) -> Vec<PathBuf> {
    let folder = folder_of(graph);
    let up = |path: &Path| match path.file_name() {
        Some(_) => folder_of(path).to_owned(),
        None if path == Path::new(".") => PathBuf::from(".."),
        None => path.join(".."),
    };
    let above = up(folder);
    let is_version = folder.file_name().is_some_and(|name| name == FIRST);
    let mut folders = vec![folder.to_owned(), above.clone()];
    folders.extend(is_version.then(|| up(&above)));
    let files = folders
        .into_iter()
        .map(|folder| match folder == Path::new(".") {
            true => PathBuf::from(CONFIG),
            false => folder.join(CONFIG),
        });
    files.filter(|path| path.is_file()).collect()
}

/// Returns whether two paths are of one file or folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// Finds the graphs for a path and a name.
pub(super) fn find(path: &Path, name: Option<&str>, defaults: &Defaults) -> Result<Found, Failure> {
    let is_config = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if is_config {
        return of_config(path, name, defaults);
    }
    let graph = match path.is_file() {
        true => Some(of_file(path)),
        false => PathSource::graph_of(&named(path), path),
    };
    if graph.is_none()
        && let Some(config) = config::config_of_folder(path)
    {
        return of_config(&config, name, defaults);
    }
    let shown = path.display();
    let Some(graph) = graph else {
        let failure = Failure::failed(format!("there is no graph in {shown}"));
        return Err(failure.hint(
            "name a folder with a graph.pbtxt or a config.json, a graph file, or a configuration file (.json)",
        ));
    };
    if graph.graph_path.extension().is_some_and(|it| it == "py") {
        return Err(of_handler(path));
    }
    if let Some(name) = name {
        let text = format!("{shown} is a single graph, but the name `{name}` is given as well");
        return Err(Failure::usage(text)
            .hint("name a graph of a configuration file, whose name ends in .json"));
    }
    let (graphs, file) = (vec![graph], None);
    Ok(Found { graphs, file })
}

/// Returns the graph of a file.
fn of_file(path: &Path) -> GraphConfig {
    let base_path = folder_of(path).to_owned();
    GraphConfig {
        name: named(path),
        subconfig: base_path.join(SUBCONFIG),
        base_path,
        graph_path: path.to_owned(),
        workers: WorkerOptions::default(),
        place: FilePosition::default(),
    }
}

/// Returns the failure for a handler in the place of its graph, with the graph beside it.
fn of_handler(path: &Path) -> Failure {
    let failure = Failure::usage(format!("{} is a handler, not a graph", path.display()));
    let folder = folder_of(path);
    failure.hint(match folder.join(GRAPH).is_file() {
        true => format!("name its graph: `{}`", folder.display()),
        false => {
            "a graph file names it as handler_path; `ovms graph new NAME` writes one".to_owned()
        }
    })
}

/// Finds the graphs of a configuration file.
fn of_config(path: &Path, name: Option<&str>, defaults: &Defaults) -> Result<Found, Failure> {
    let file = config::read(path, defaults).map_err(|error| hints::explain(&error, "PATH"))?;
    let wanted = |graph: &&GraphConfig| name.is_none_or(|name| graph.name == name);
    let graphs: Vec<GraphConfig> = file.graphs.iter().filter(wanted).cloned().collect();
    match name {
        _ if !graphs.is_empty() => {
            let file = Some(file);
            Ok(Found { graphs, file })
        }
        Some(name) => {
            let names: Vec<&str> = file.graphs.iter().map(|graph| &*graph.name).collect();
            Err(missing("graph", path, &file, name, &names))
        }
        None => {
            let text = format!("the configuration file {} has no graphs", path.display());
            Err(refused(&file, Failure::failed(text)).hint(
                "a graph is an entry of model_config_list whose base_path has a graph.pbtxt, or of \
                 mediapipe_config_list",
            ))
        }
    }
}

/// Names a graph after its folder, or after its file if that has a name of its own.
fn named(path: &Path) -> String {
    let is_folder = path.is_dir();
    let has_own = path.file_name().is_some_and(|name| name != GRAPH);
    let stem = path.file_stem().filter(|_| has_own && !is_folder);
    let folder = if is_folder { path } else { folder_of(path) };
    let folder = folder.canonicalize().ok();
    let name = stem.or_else(|| folder.as_ref()?.file_name());
    name.unwrap_or(OsStr::new("graph"))
        .to_string_lossy()
        .into_owned()
}

/// Reads the models that graphs define in their `subconfig.json`, except those of one graph: any
/// servable may use them. Files that cannot be read are skipped.
pub(super) fn models_of_graphs(
    file: &FileConfig,
    but: Option<&str>,
    defaults: &Defaults,
) -> Vec<ModelEntry> {
    let graphs = file.graphs.iter();
    let others = graphs.filter(|graph| but.is_none_or(|but| graph.name != but));
    let read = others.filter_map(|graph| {
        let read = config::read_subconfig(&graph.subconfig, defaults);
        Some(read.ok()??.models)
    });
    read.flatten().collect()
}

/// Adds the models that graphs define in their `subconfig.json` to those of the file, as the server does: a
/// name that is taken stays with who has it.
pub(crate) fn add_models_of_graphs(file: &mut FileConfig, defaults: &Defaults) {
    for entry in models_of_graphs(file, None, defaults) {
        if !has(file, entry.name()) {
            file.models.push(entry);
        }
    }
}

/// Returns whether a servable of a file has a name.
pub(crate) fn has(file: &FileConfig, name: &str) -> bool {
    let models = file.models.iter().map(ModelEntry::name);
    let pipelines = file.pipelines.iter().map(|pipeline| &*pipeline.name);
    let graphs = file.graphs.iter().map(|graph| &*graph.name);
    let mut names = models.chain(pipelines).chain(graphs);
    names.any(|other| other == name)
}
