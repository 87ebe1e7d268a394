//! Selected graphs: those of a configuration file, that of a folder, or a graph file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry},
    diagnostic::FilePosition,
};

use crate::{
    error::Failure,
    pipeline::{missing, refused},
    serve::files,
};

/// File name of a graph in its folder.
const GRAPH: &str = "graph.pbtxt";

/// File name of the models of a graph.
const SUBCONFIG: &str = "subconfig.json";

/// Result of the search.
pub(super) struct Found {
    /// Selected graphs, in the order of the file.
    pub(super) graphs: Vec<GraphConfig>,
    /// Configuration file, if it was named.
    pub(super) file: Option<FileConfig>,
}

/// Finds the graphs for a path and a name.
pub(super) fn find(path: &Path, name: Option<&str>, defaults: &Defaults) -> Result<Found, Failure> {
    let is_config = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if is_config {
        return of_config(path, name, defaults);
    }
    if let Some(name) = name {
        let text = format!(
            "{} is one graph, but `{name}` is named besides",
            path.display()
        );
        return Err(Failure::usage(text)
            .hint("name a graph of a configuration file, whose name ends in .json"));
    }
    let graph_path = if path.is_dir() {
        let first = path.join("1").join(GRAPH);
        match path.join(GRAPH) {
            own if own.is_file() || !first.is_file() => own,
            _ => first,
        }
    } else {
        path.to_owned()
    };
    if !graph_path.is_file() {
        return Err(
            Failure::failed(format!("there is no graph in {}", path.display())).hint(
                "name a folder with a graph.pbtxt, a graph file, or a configuration file (.json)",
            ),
        );
    }
    let base_path = match graph_path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok(Found {
        graphs: vec![GraphConfig {
            name: named(path, &graph_path),
            subconfig: base_path.join(SUBCONFIG),
            base_path,
            graph_path,
            place: FilePosition::default(),
        }],
        file: None,
    })
}

/// Finds the graphs of a configuration file.
fn of_config(path: &Path, name: Option<&str>, defaults: &Defaults) -> Result<Found, Failure> {
    let file = config::read(path, defaults).map_err(|error| files::explain(&error, "PATH"))?;
    let Some(name) = name else {
        if file.graphs.is_empty() {
            let text = format!("the configuration file {} has no graphs", path.display());
            return Err(refused(&file, Failure::failed(text)).hint(
                "a graph is an entry of model_config_list whose base_path has a graph.pbtxt, or of \
                 mediapipe_config_list",
            ));
        }
        return Ok(Found {
            graphs: file.graphs.clone(),
            file: Some(file),
        });
    };
    if let Some(graph) = file.graphs.iter().find(|graph| graph.name == name) {
        return Ok(Found {
            graphs: vec![graph.clone()],
            file: Some(file),
        });
    }
    let names = file.graphs.iter().map(|graph| graph.name.as_str());
    let names: Vec<&str> = names.collect();
    Err(missing("graph", path, &file, name, &names))
}

/// Names a graph after its folder, or after its file if that has a name of its own.
fn named(path: &Path, graph_path: &Path) -> String {
    let stem = match graph_path.file_name() {
        Some(name) if name != GRAPH => graph_path.file_stem(),
        _ => None,
    };
    let folder = match path.is_dir() {
        true => Some(path),
        false => path.parent(),
    };
    let folder = folder.map(|folder| match folder == Path::new("") {
        true => Path::new("."),
        false => folder,
    });
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    let name = stem.or_else(|| folder.as_ref()?.file_name());
    name.map_or_else(
        || "graph".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Reads the models that graphs define in their `subconfig.json`, except those of one graph: any
/// servable may use them. Files that cannot be read are skipped.
pub(super) fn models_of_graphs(file: &FileConfig, but: Option<&str>) -> Vec<ModelEntry> {
    let graphs = file.graphs.iter();
    let others = graphs.filter(|graph| but.is_none_or(|but| graph.name != but));
    let read = others.filter_map(|graph| {
        let read = config::read_subconfig(&graph.subconfig, &Defaults::default());
        Some(read.ok()??.models)
    });
    read.flatten().collect()
}

/// Reads a graph file, including line ends.
pub(super) fn read(graph: &GraphConfig) -> std::io::Result<String> {
    let content = fs::read(&graph.graph_path)?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}
