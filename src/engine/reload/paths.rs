//! Models and graphs that are named by their paths: which of them are models, and which are folders of
//! models, whose contents are followed.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
};

use super::{
    nested::{KnownFiles, NestedGraph, Origins, add_listed},
    per_model::PerModel,
    triton::{self, FileStamp},
};
use crate::{
    config::{FileConfig, ModelEntry, PathSource, config_of_folder},
    diagnostic::{Diagnostic, Severity},
    error::nearest,
    model::repository::{self, RepositoryError},
};

/// Names of files that say nothing of the model in them; the name of their folder does.
const COMMON_NAMES: [&str; 4] = ["model", "openvino_model", "saved_model", "inference"];

/// Name of the configuration file in the folder of a graph.
const CONFIG: &str = "config.json";

/// Path that names nothing to serve.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum PathError {
    #[error("cannot serve {}: there is no such file or folder", path.display())]
    Missing {
        path: PathBuf,
        /// Name beside it that may be meant.
        nearest: Option<String>,
    },
    #[error("cannot serve {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot serve {}: it is not a model; expected {}, or a folder", .0.display(), repository::expected())]
    NoModel(PathBuf),
    #[error("cannot serve {}: {} is missing beside it", path.display(), missing.display())]
    Half { path: PathBuf, missing: PathBuf },
    #[error("cannot serve {}: there is no model in it", .0.display())]
    Empty(PathBuf),
    #[error("cannot serve {}: it holds several models: {}", path.display(), files.join(", "))]
    Several { path: PathBuf, files: Vec<String> },
    #[error("cannot serve the models below {}: it is a model itself", .0.display())]
    Model(PathBuf),
    #[error("both {} and {} would be served as `{name}`", one.display(), other.display())]
    Clash {
        name: String,
        one: PathBuf,
        other: PathBuf,
    },
    #[error("{} is named twice", .0.display())]
    Twice(PathBuf),
    #[error("model_name is the name of one model; found {0}")]
    OneName(usize),
}

impl PathError {
    /// Returns whether the command line is wrong, as opposed to the files.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Clash { .. } | Self::Twice(_) | Self::OneName(_))
    }
}

/// Reads what is at the paths. Blocks.
///
/// # Errors
///
/// Fails if a path names nothing to serve, or two of them are of one name.
pub fn read_paths(source: &PathSource) -> Result<FileConfig, PathError> {
    let paths = Paths::open(source)?;
    let found = paths.found()?;
    Ok(configured(source, &paths, found, &mut KnownFiles::new()))
}

/// The paths, and what each of them was when the server started.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    roots: Vec<Root>,
    /// Name of the one model, if it is given.
    name: Option<String>,
}

#[derive(Debug, Clone)]
enum Root {
    /// Model or graph.
    Servable(Found),
    /// Folder of models and graphs.
    Repository(PathBuf),
}

/// Model or graph that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    name: String,
    path: PathBuf,
    /// Name of the file with its settings: of a graph `config.json`, of a model `config.pbtxt`.
    file: &'static str,
    /// Stamp of that file, if it is there.
    settings: Option<FileStamp>,
}

impl Found {
    fn new(name: String, path: PathBuf) -> Self {
        let is_graph = PathSource::graph_of("", &path).is_some();
        let (file, settings) = match is_graph {
            true => (CONFIG, triton::stamp_of(&path.join(CONFIG))),
            false => (triton::FILE, triton::stamp(&path)),
        };
        Self {
            name,
            path,
            file,
            settings,
        }
    }
}

impl Paths {
    /// Looks at the paths for the first time. Blocks.
    pub(super) fn open(source: &PathSource) -> Result<Self, PathError> {
        let paths = source.paths.iter().map(|path| root(path));
        let mut roots = paths.collect::<Result<Vec<_>, _>>()?;
        if let Some(path) = &source.repository {
            roots.push(Root::Repository(resolved(path)?));
        }
        let paths = Self {
            roots,
            name: source.name.clone(),
        };
        for root in &paths.roots {
            if let Root::Repository(path) = root {
                check_text(path)?;
                of_repository(path).and_then(|found| is_no_model(path, &found))?;
            }
        }
        let found = paths.found()?;
        let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
        for Found { name, path, .. } in &found {
            if let Some(one) = seen.insert(name, path) {
                if one == path {
                    return Err(PathError::Twice(path.clone()));
                }
                return Err(PathError::Clash {
                    name: name.clone(),
                    one: one.to_owned(),
                    other: path.clone(),
                });
            }
        }
        match (&source.name, found.len()) {
            (None, _) | (Some(_), 1) => Ok(paths),
            (Some(_), several) => Err(PathError::OneName(several)),
        }
    }

    /// Returns whether there is no folder in which models come and go.
    pub(super) fn are_fixed(&self) -> bool {
        let mut roots = self.roots.iter();
        roots.all(|root| matches!(root, Root::Servable(_)))
    }

    /// Returns whether what is found may be several models, now or later.
    fn may_be_several(&self, found: &[Found]) -> bool {
        found.len() > 1 || !self.are_fixed()
    }

    /// Describes what lies in the repositories and is not served, one item a repository. Blocks.
    fn passed_over(&self) -> Vec<String> {
        let repositories = self.roots.iter().filter_map(|root| match root {
            Root::Repository(path) => Some((path, passed_over(path))),
            Root::Servable(_) => None,
        });
        let passed = repositories.filter(|(_, names)| !names.is_empty());
        let lines = passed.map(|(path, names)| {
            format!(
                "ignoring {} in {}: expected a folder for each model, with its files ({}) in it or in a version folder \
                 such as {}/1",
                names.join(", "),
                path.display(),
                repository::expected(),
                Path::new(&names[0]).with_extension("").display()
            )
        });
        lines.collect()
    }

    /// Finds what is there now. Blocks.
    pub(super) fn found(&self) -> Result<Vec<Found>, PathError> {
        let mut all = Vec::new();
        for root in &self.roots {
            match root {
                Root::Servable(Found { name, path, .. }) => {
                    all.push(Found::new(name.clone(), path.clone()));
                }
                Root::Repository(path) => all.extend(of_repository(path)?),
            }
        }
        if let (Some(name), [only]) = (&self.name, all.as_mut_slice()) {
            only.name.clone_from(name);
        }
        Ok(all)
    }
}

/// Returns the names in a repository that are no model, though they look as if one was meant: folders with something
/// in them, and model files. What cannot be read is left to who serves it.
fn passed_over(repository: &Path) -> Vec<String> {
    let entries = fs::read_dir(repository).into_iter().flatten().flatten();
    let meant = entries.filter_map(|entry| {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy().into_owned();
        if name.starts_with('.') || name == "lost+found" {
            return None;
        }
        if path.is_file() {
            return repository::files(&path).is_ok().then_some(name);
        }
        let has_entries = fs::read_dir(&path).is_ok_and(|mut within| within.next().is_some());
        (has_entries && !is_servable(&path)).then(|| format!("{name}/"))
    });
    let mut meant: Vec<String> = meant.collect();
    meant.sort();
    meant
}

/// Describes what has come and gone.
pub(super) fn changes(before: &[Found], now: &[Found]) -> String {
    let is_there = |it: &Found, among: &[Found]| {
        let mut among = among.iter();
        among.any(|other| (&other.name, &other.path) == (&it.name, &it.path))
    };
    let names = |of: &[Found], is_one: &dyn Fn(&Found) -> bool| {
        let names = of.iter().filter(|it| is_one(it));
        let names: Vec<&str> = names.map(|it| it.name.as_str()).collect();
        names.join(", ")
    };
    let is_changed = |it: &Found| is_there(it, before) && !before.contains(it);
    let with_another = |file| names(now, &|it| it.file == file && is_changed(it));
    let parts = [
        ("new", names(now, &|it| !is_there(it, before))),
        ("gone", names(before, &|it| !is_there(it, now))),
        ("with another config.pbtxt", with_another(triton::FILE)),
        ("with another config.json", with_another(CONFIG)),
    ]
    .into_iter();
    let parts = parts.filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts
        .map(|(what, names)| format!("{what}: {names}"))
        .collect();
    format!("the model folders have changed; {}", parts.join("; "))
}

/// Returns the configuration of what was found; of two with one name the first counts. A graph whose folder has a
/// configuration file is served as that says, with what else it lists. Blocks.
pub(super) fn configured(
    source: &PathSource,
    paths: &Paths,
    found: Vec<Found>,
    known: &mut KnownFiles,
) -> FileConfig {
    let mut config = FileConfig::default();
    let mut models = PerModel::new(source, paths.may_be_several(&found));
    let mut seen = Origins::new();
    let mut nested = Vec::new();
    for Found { name, path, .. } in found {
        if let Some(first) = seen.get(&name) {
            let (path, first) = (path.display(), first.display());
            tracing::warn!("ignoring {path}: its name is taken by {first}");
            continue;
        }
        match PathSource::graph_of(&name, &path) {
            Some(graph) => {
                if !source.unfit.is_empty() {
                    let flags = source.unfit.join(", ");
                    tracing::warn!("{flags} ignored for `{name}`: it is a graph");
                }
                // What its file lists has names of its own. One that did list something may be just being written.
                let file = path.join(CONFIG);
                let is_unfinished = known.contains_key(&file) && is_no_json(&file);
                if is_unfinished || config_of_folder(&path).is_some() {
                    nested.push(NestedGraph { graph, file });
                    continue;
                }
                config.graphs.push(graph);
            }
            None => {
                let model = models.settings(&name, &path);
                config.models.push(ModelEntry::Model(Box::new(model)));
            }
        }
        seen.insert(name, path);
    }
    let warnings = paths.passed_over().into_iter().chain(models.end());
    let warnings = warnings.map(|text| Diagnostic::new(Severity::Warning, text));
    config.warnings.extend(warnings);
    add_listed(&mut config, source, nested, &mut seen, known);
    config
}

/// Returns whether a file is there that is no JSON, as one that is just being written.
fn is_no_json(file: &Path) -> bool {
    let read = fs::read(file);
    read.is_ok_and(|bytes| serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err())
}

/// Returns what a path is.
fn root(given: &Path) -> Result<Root, PathError> {
    let text = given.to_string_lossy();
    if text.contains("://") {
        let name = text.trim_end_matches('/').rsplit('/').next();
        return Ok(Root::Servable(Found {
            name: name.unwrap_or_default().to_owned(),
            path: given.to_owned(),
            file: triton::FILE,
            settings: None,
        }));
    }
    let path = resolved(given)?;
    let servable = |path: PathBuf| {
        let name = name_of(&path);
        Ok(Root::Servable(Found::new(name, path)))
    };
    if PathSource::graph_of("", &path).is_some() {
        return servable(path);
    }
    check_text(&path)?;
    if path.is_file() {
        return match (repository::files(&path), repository::missing_part(&path)) {
            (Ok(_), _) => servable(path),
            (Err(_), Some(missing)) => Err(PathError::Half { path, missing }),
            (Err(_), None) => Err(PathError::NoModel(path)),
        };
    }
    match survey(&path)? {
        Contents::Versions => servable(path),
        Contents::Model => {
            let mut files = several(&path)?;
            let folders = of_repository(&path)?;
            let is_one = files.len() <= 1 && folders.is_empty();
            files.extend(folders.into_iter().map(|found| format!("{}/", found.name)));
            match is_one {
                true => servable(path),
                false => Err(PathError::Several { path, files }),
            }
        }
        Contents::Other if of_repository(&path)?.is_empty() => Err(PathError::Empty(path)),
        Contents::Other => Ok(Root::Repository(path)),
    }
}

/// Makes a path absolute and free of `..`, which is not accepted further down.
fn resolved(path: &Path) -> Result<PathBuf, PathError> {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    let absolute = fs::metadata(path).and_then(|_| match goes_up {
        true => path.canonicalize(),
        false => std::path::absolute(path),
    });
    absolute.map_err(|source| match source.kind() {
        ErrorKind::NotFound => PathError::Missing {
            path: path.to_owned(),
            nearest: nearest_of(path),
        },
        _ => unreadable(path, source),
    })
}

/// Refuses a path that is not UTF-8: those of models are texts.
fn check_text(path: &Path) -> Result<(), PathError> {
    let error = || io::Error::other("its path is not UTF-8; rename the file or folder");
    let text = path.to_str().ok_or_else(error);
    text.map(drop).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, source: io::Error) -> PathError {
    PathError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

/// Returns the path beside a missing one that is most like it: of a model file or a folder.
fn nearest_of(path: &Path) -> Option<String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).ok()?.flatten();
    let may_serve = |path: &Path| path.is_dir() || repository::files(path).is_ok();
    let names: Vec<String> = entries
        .filter(|entry| may_serve(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let typed = path.file_name()?.to_string_lossy();
    let name = nearest(&typed, names.iter().map(String::as_str))?;
    Some(path.with_file_name(name).display().to_string())
}

/// Returns the name of a model: that of its file or folder.
pub fn name_of(path: &Path) -> String {
    let text =
        |name: Option<&std::ffi::OsStr>| name.map(|name| name.to_string_lossy().into_owned());
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let folder = |path: &Path| {
        let mut folders = path.ancestors().filter_map(|path| text(path.file_name()));
        folders.find(|name| !is_number(name))
    };
    let own = match path.is_file() {
        true => text(path.file_stem()).filter(|name| !COMMON_NAMES.contains(&name.as_str())),
        false => text(path.file_name()).filter(|name| !is_number(name)),
    };
    own.or_else(|| path.parent().and_then(folder))
        .or_else(|| text(path.file_stem()))
        .unwrap_or_else(|| "model".to_owned())
}

/// Contents of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Folders of versions.
    Versions,
    /// Files of a model.
    Model,
    /// No model.
    Other,
}

fn survey(folder: &Path) -> Result<Contents, PathError> {
    let survey = repository::survey(folder).map_err(|error| match error {
        RepositoryError::Read { path, source } => PathError::Unreadable { path, source },
        error => unreadable(folder, io::Error::other(error)),
    })?;
    Ok(match survey.versions.first() {
        Some((_, path)) if path == folder => Contents::Model,
        Some(_) => Contents::Versions,
        None => Contents::Other,
    })
}

/// Returns the model files of a folder that are a model each.
fn several(folder: &Path) -> Result<Vec<String>, PathError> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut models = BTreeMap::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(files) = repository::files(&path).map_err(drop) else {
            continue;
        };
        if !path.is_file() {
            continue;
        }
        let (model, _) = files.paths();
        // A SavedModel is its folder, whatever else is in it.
        if model == folder {
            return Ok(Vec::new());
        }
        let name = model.file_name().unwrap_or_default();
        let stem = model.file_stem().unwrap_or_default().to_owned();
        models.insert(stem, name.to_string_lossy().into_owned());
    }
    Ok(models.into_values().collect())
}

/// Returns whether a folder of a repository is a model or a graph, or cannot be read.
fn is_servable(path: &Path) -> bool {
    PathSource::graph_of("", path).is_some()
        || !survey(path).is_ok_and(|contents| contents == Contents::Other)
}

/// Finds the folders of a repository that are models or graphs. One that cannot be read counts, so that it
/// is reported by its load, and what serves is not retired.
fn of_repository(repository: &Path) -> Result<Vec<Found>, PathError> {
    let entries = fs::read_dir(repository).map_err(|error| unreadable(repository, error))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy().into_owned();
        if name.starts_with('.') || !path.is_dir() {
            continue;
        }
        if is_servable(&path) {
            found.push(Found::new(name, path));
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Refuses a repository that is empty, or a model itself.
fn is_no_model(repository: &Path, found: &[Found]) -> Result<(), PathError> {
    let is_version = |it: &Found| it.name.bytes().all(|byte| byte.is_ascii_digit());
    let is_model = || survey(repository).is_ok_and(|contents| contents == Contents::Model);
    match found {
        [] if is_model() => Err(PathError::Model(repository.to_owned())),
        [] => Err(PathError::Empty(repository.to_owned())),
        found if found.iter().all(is_version) => Err(PathError::Model(repository.to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Found, KnownFiles, PathError, Paths};
    use crate::config::{Config, ConfigSource, FlagEnvironment, Flags, PathSource};

    fn touch(folder: &Path, names: &[&str]) {
        for name in names {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    fn source(flags: Flags, root: &Path, paths: &[&str]) -> PathSource {
        let paths = paths.iter().map(|path| root.join(path)).collect();
        let config = Config::from_paths(flags, paths, &FlagEnvironment::default()).unwrap();
        let ConfigSource::Paths(source) = config.source else {
            panic!("no paths");
        };
        *source
    }

    /// Returns the names of what is found, or the error without the folder of the test.
    fn found(flags: Flags, root: &Path, paths: &[&str]) -> Result<Vec<String>, String> {
        let found = Paths::open(&source(flags, root, paths)).and_then(|paths| paths.found());
        let name = |Found { name, path, .. }: &Found| {
            let path = path.strip_prefix(root).unwrap().display();
            format!("{name}: {path}")
        };
        let found = found.map(|found| found.iter().map(name).collect());
        found.map_err(|error: PathError| {
            let root = format!("{}/", root.display());
            error.to_string().replace(&root, "")
        })
    }

    fn plain(root: &Path, paths: &[&str]) -> Result<Vec<String>, String> {
        found(Flags::default(), root, paths)
    }

    #[test]
    fn names_are_those_of_files_and_folders() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let files = [
            "flowers.onnx",
            "yolo.xml",
            "yolo.bin",
            "resnet/1/model.onnx",
            "bert/openvino_model.xml",
            "bert/openvino_model.bin",
            "saved/1/saved_model.pb",
            "saved/1/keras_metadata.pb",
            "graph/graph.pbtxt",
        ];
        touch(root, &files);
        for (path, name) in [
            ("flowers.onnx", "flowers"),
            ("./yolo.xml", "yolo"),
            ("resnet", "resnet"),
            ("resnet/", "resnet"),
            ("resnet/1", "resnet"),
            ("resnet/1/model.onnx", "resnet"),
            ("bert/../bert", "bert"),
            ("bert/openvino_model.xml", "bert"),
            ("saved/1/saved_model.pb", "saved"),
            ("saved/1", "saved"),
            ("graph", "graph"),
        ] {
            let found = plain(root, &[path]).unwrap();
            assert!(
                found[0].starts_with(&format!("{name}: ")),
                "{path}: {found:?}"
            );
        }
        let several = plain(root, &["flowers.onnx", "yolo.xml", "resnet"]).unwrap();
        assert_eq!(
            several,
            ["flowers: flowers.onnx", "yolo: yolo.xml", "resnet: resnet"]
        );
        let named = Flags {
            model_name: Some("best".to_owned()),
            ..Flags::default()
        };
        let one = found(named.clone(), root, &["flowers.onnx"]).unwrap();
        assert_eq!(one, ["best: flowers.onnx"]);
        assert_eq!(
            found(named, root, &["flowers.onnx", "resnet"]).unwrap_err(),
            "model_name is the name of one model; found 2"
        );
    }

    #[test]
    fn each_folder_of_a_repository_is_a_model() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        touch(
            root,
            &[
                "all/b/1/model.onnx",
                "all/b/config.pbtxt",
                "all/a/a.onnx",
                "all/g/1/graph.pbtxt",
                "all/.git/1/model.onnx",
                "all/notes/text.txt",
                "all/README.md",
            ],
        );
        let all = ["a: all/a", "b: all/b", "g: all/g"];
        assert_eq!(plain(root, &["all"]).unwrap(), all);
        let repository = Flags {
            model_repository_path: Some(root.join("all")),
            ..Flags::default()
        };
        assert_eq!(found(repository, root, &[]).unwrap(), all);

        let source = source(Flags::default(), root, &["all"]);
        let paths = Paths::open(&source).unwrap();
        assert!(!paths.are_fixed());
        fs::remove_dir_all(root.join("all/b")).unwrap();
        // A file beside the folders does not make it another thing than it was.
        touch(root, &["all/c/1/model.onnx", "all/d.onnx"]);
        let names: Vec<_> = paths
            .found()
            .unwrap()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(names, ["a", "c", "g"]);
        let found = paths.found().unwrap();
        let config = super::configured(&source, &paths, found, &mut KnownFiles::new());
        assert_eq!((config.models.len(), config.graphs.len()), (2, 1));
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        let warnings = warnings.join("\n");
        insta::assert_snapshot!(
            warnings.replace(&root.display().to_string(), "ROOT"),
            @"ignoring d.onnx, notes/ in ROOT/all: expected a folder for each model, with its files (*.xml with *.bin, *.onnx, *.pdmodel with *.pdiparams, *.pb, or *.tflite) in it or in a version folder such as d/1"
        );
    }

    #[test]
    fn what_is_no_model_says_so() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let files = [
            "flowers.onnx",
            "yolo.xml",
            "notes.txt",
            "empty/notes.txt",
            "two/a.onnx",
            "two/b.onnx",
            "r/1/model.onnx",
            "r/flowers.onnx",
        ];
        touch(root, &files);
        insta::assert_snapshot!(plain(root, &["flowrs.onnx"]).unwrap_err(), @"cannot serve flowrs.onnx: there is no such file or folder");
        insta::assert_snapshot!(plain(root, &["yolo.xml"]).unwrap_err(), @"cannot serve yolo.xml: yolo.bin is missing beside it");
        insta::assert_snapshot!(plain(root, &["notes.txt"]).unwrap_err(), @"cannot serve notes.txt: it is not a model; expected *.xml with *.bin, *.onnx, *.pdmodel with *.pdiparams, *.pb, or *.tflite, or a folder");
        insta::assert_snapshot!(plain(root, &["empty"]).unwrap_err(), @"cannot serve empty: there is no model in it");
        insta::assert_snapshot!(plain(root, &["two"]).unwrap_err(), @"cannot serve two: it holds several models: a.onnx, b.onnx");
        insta::assert_snapshot!(plain(root, &["flowers.onnx", "r/flowers.onnx"]).unwrap_err(), @"both flowers.onnx and r/flowers.onnx would be served as `flowers`");
        insta::assert_snapshot!(plain(root, &["flowers.onnx", "flowers.onnx"]).unwrap_err(), @"flowers.onnx is named twice");
        touch(root, &["mixed/a/1/flowers.onnx", "mixed/b.onnx"]);
        insta::assert_snapshot!(plain(root, &["mixed"]).unwrap_err(), @"cannot serve mixed: it holds several models: b.onnx, a/");
        let repository = |name: &str| Flags {
            model_repository_path: Some(root.join(name)),
            ..Flags::default()
        };
        insta::assert_snapshot!(found(repository("r"), root, &[]).unwrap_err(), @"cannot serve the models below r: it is a model itself");
        insta::assert_snapshot!(found(repository("two"), root, &[]).unwrap_err(), @"cannot serve the models below two: it is a model itself");
        insta::assert_snapshot!(found(repository("empty"), root, &[]).unwrap_err(), @"cannot serve empty: there is no model in it");
        let missing = Paths::open(&source(Flags::default(), root, &["flowrs.onnx"])).unwrap_err();
        let PathError::Missing { nearest, .. } = missing else {
            panic!("found {missing:?}");
        };
        assert!(nearest.unwrap().ends_with("/flowers.onnx"));
        fs::write(root.join("zebra-crossings.md"), "").unwrap();
        let missing = Paths::open(&source(Flags::default(), root, &["zebra-crossing.onnx"]));
        let Err(PathError::Missing { nearest, .. }) = missing else {
            panic!("found {missing:?}");
        };
        assert_eq!(nearest, None);
    }
}
