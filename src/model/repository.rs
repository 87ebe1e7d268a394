//! The model repository on disk: `<base path>/<version>/<files>`.
//!
//! Version folders are positive whole numbers; [`FolderSurvey`] has the rules. In a version folder the
//! first format of [`ModelFiles`] that is complete wins. A base path that holds a model and no version
//! folder, or is a model file, is version 1.

use std::path::{Component, Path, PathBuf};

use super::folders::{FolderSurvey, Ignored, Reason};

/// Version number of a base path without version folders.
const ONLY: i64 = 1;

/// File names of models, for texts.
const MODELS: &str = "*.xml with *.bin, *.onnx, *.pdmodel with *.pdiparams, *.pb, or *.tflite";

/// The files of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFiles {
    /// OpenVINO IR: graph and weights.
    Ir {
        /// `*.xml`.
        graph: PathBuf,
        /// `*.bin`.
        weights: PathBuf,
    },
    /// ONNX: `*.onnx`.
    Onnx(PathBuf),
    /// Paddle: program and parameters.
    Paddle {
        /// `*.pdmodel`.
        program: PathBuf,
        /// `*.pdiparams`.
        parameters: PathBuf,
    },
    /// A TensorFlow frozen graph, `*.pb`, or the folder of a `saved_model.pb`.
    TensorFlow(PathBuf),
    /// TensorFlow Lite: `*.tflite`.
    TfLite(PathBuf),
}

impl ModelFiles {
    /// Returns the paths for the runtime: the model, and the second file of formats with two.
    #[must_use]
    pub fn paths(&self) -> (&Path, Option<&Path>) {
        match self {
            Self::Ir { graph, weights } => (graph, Some(weights)),
            // Paddle's parameters are found beside the program by the runtime itself.
            Self::Onnx(path)
            | Self::Paddle { program: path, .. }
            | Self::TensorFlow(path)
            | Self::TfLite(path) => (path, None),
        }
    }

    /// Returns the folder that the model is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            // A SavedModel is its folder.
            Self::TensorFlow(path) if path.is_dir() => path,
            _ => {
                let (model, _) = self.paths();
                model.parent().unwrap_or(model)
            }
        }
    }
}

/// Error of a repository that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The base path is not a folder, or goes through `..`.
    #[error("The provided base path is invalid or doesn't exists - {}: {reason}", path.display())]
    BasePath {
        /// The base path.
        path: PathBuf,
        /// Reason it is invalid.
        reason: String,
    },
    /// A version folder has no complete set of files of any format.
    #[error(
        "File not found or cannot open - no model in {}; expected {MODELS}",
        .0.display()
    )]
    NoModel(PathBuf),
    /// A version folder cannot be read.
    #[error("File not found or cannot open - {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// Finds the version folders of a base path, the lowest version first.
///
/// # Errors
///
/// Fails if the base path is not a folder that can be read.
pub fn versions(base_path: &Path) -> Result<Vec<(i64, PathBuf)>, RepositoryError> {
    Ok(survey(base_path)?.versions)
}

/// Finds the version folders of a base path, and the folders there that are none.
///
/// # Errors
///
/// Fails if the base path is not a folder that can be read.
pub fn survey(base_path: &Path) -> Result<FolderSurvey<(i64, PathBuf)>, RepositoryError> {
    let refuse = |reason: String| RepositoryError::BasePath {
        path: base_path.to_owned(),
        reason,
    };
    if base_path
        .components()
        .any(|part| part == Component::ParentDir)
    {
        return Err(refuse("a path with `..` is not accepted".to_owned()));
    }
    if base_path.is_file() {
        if !is_named_as_model(base_path) {
            let reason = format!("it is a file; expected a folder, or {MODELS}");
            return Err(refuse(reason));
        }
        return Ok(only(base_path));
    }
    let entries = std::fs::read_dir(base_path).map_err(|error| refuse(error.to_string()))?;
    let folders = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        path.is_dir().then_some((name, path))
    });
    let mut survey = FolderSurvey::of(folders, |number, _, path| (number, path));
    if let Ok(found) = files(base_path) {
        if survey.versions.is_empty() {
            // Its other folders are its own, but for those that were to be versions.
            survey.ignored.retain(|folder| folder.number().is_some());
            survey.versions = only(base_path).versions;
        } else {
            let (model, _) = found.paths();
            let name = model.strip_prefix(base_path).unwrap_or(model);
            survey.ignored.push(Ignored {
                name: name.to_string_lossy().into_owned(),
                reason: Reason::Beside,
            });
        }
    }
    Ok(survey)
}

/// Makes the survey of a base path that is its only version.
fn only(base_path: &Path) -> FolderSurvey<(i64, PathBuf)> {
    FolderSurvey {
        versions: vec![(ONLY, base_path.to_owned())],
        ignored: Vec::new(),
    }
}

/// Returns whether a path has the name of a model file, or of half of one.
fn is_named_as_model(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let known = ["xml", "onnx", "pdmodel", "pdiparams", "pb", "tflite"];
    extension.is_some_and(|extension| known.contains(&extension))
}

/// Finds the files of the model that a file is, or is half of.
fn of_file(path: &Path) -> Option<ModelFiles> {
    let whole = || path.to_owned();
    let beside = |extension| {
        let path = path.with_extension(extension);
        path.is_file().then_some(path)
    };
    Some(match path.extension()?.to_str()? {
        "xml" => ModelFiles::Ir {
            graph: whole(),
            weights: beside("bin")?,
        },
        "onnx" => ModelFiles::Onnx(whole()),
        "pdmodel" => ModelFiles::Paddle {
            program: whole(),
            parameters: beside("pdiparams")?,
        },
        "pdiparams" => ModelFiles::Paddle {
            program: beside("pdmodel")?,
            parameters: whole(),
        },
        "pb" if path.ends_with("saved_model.pb") => {
            ModelFiles::TensorFlow(path.parent()?.to_owned())
        }
        "pb" => ModelFiles::TensorFlow(whole()),
        "tflite" => ModelFiles::TfLite(whole()),
        _ => return None,
    })
}

/// Finds the model in a version folder, or the one that a file is.
///
/// # Errors
///
/// Fails if the folder cannot be read or has no model.
pub fn files(version: &Path) -> Result<ModelFiles, RepositoryError> {
    if version.is_file() {
        return of_file(version).ok_or_else(|| RepositoryError::NoModel(version.to_owned()));
    }
    let mut names: Vec<PathBuf> = std::fs::read_dir(version)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .map_err(|source| RepositoryError::Read {
            path: version.to_owned(),
            source,
        })?;
    // The order in a folder is the file system's; the first by name is the same everywhere.
    names.sort();
    let first = |extension: &str| {
        names
            .iter()
            .find(|path| path.extension().is_some_and(|found| found == extension))
            .cloned()
    };
    if let (Some(graph), Some(weights)) = (first("xml"), first("bin")) {
        return Ok(ModelFiles::Ir { graph, weights });
    }
    if let Some(path) = first("onnx") {
        return Ok(ModelFiles::Onnx(path));
    }
    if let (Some(program), Some(parameters)) = (first("pdmodel"), first("pdiparams")) {
        return Ok(ModelFiles::Paddle {
            program,
            parameters,
        });
    }
    if let Some(path) = first("pb") {
        let saved = names.iter().any(|path| path.ends_with("saved_model.pb"));
        return Ok(ModelFiles::TensorFlow(if saved {
            version.to_owned()
        } else {
            path
        }));
    }
    if let Some(path) = first("tflite") {
        return Ok(ModelFiles::TfLite(path));
    }
    Err(RepositoryError::NoModel(version.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{ModelFiles, RepositoryError, files, survey, versions};

    fn touch(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
    }

    #[test]
    fn only_folders_named_by_their_number_alone_are_versions() {
        let root = tempfile::tempdir().unwrap();
        for name in ["10", "9", "007", "3.tmp", "9.bak", "backup", "..data"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        touch(root.path(), &["11"]);
        let survey = survey(root.path()).unwrap();
        let expected = [(7, "007"), (9, "9"), (10, "10")];
        let expected = expected.map(|(number, name)| (number, root.path().join(name)));
        assert_eq!(survey.versions, expected);
        let ignored: Vec<&str> = survey.ignored.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(ignored, ["3.tmp", "9.bak", "backup"]);
    }

    #[test]
    fn a_model_without_version_folders_is_version_1() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().join("model");
        touch(&base, &["m.xml", "m.bin", "notes.txt"]);
        fs::create_dir(base.join("assets")).unwrap();
        let found = survey(&base).unwrap();
        assert_eq!(found.versions, [(1, base.clone())]);
        assert!(found.ignored.is_empty(), "its own folders are no versions");

        fs::create_dir(base.join("4")).unwrap();
        let found = survey(&base).unwrap();
        assert_eq!(found.versions, [(4, base.join("4"))]);
        let reported: Vec<String> = found.ignored.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "ignoring a folder whose name is not a version number",
                "ignoring a model beside version folders; to be served, it must be in one of them"
            ]
        );
    }

    #[test]
    fn a_model_file_is_version_1() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path();
        touch(
            base,
            &[
                "a.xml",
                "a.bin",
                "b.xml",
                "c.pdmodel",
                "c.pdiparams",
                "d.onnx",
                "e.pb",
                "f.txt",
            ],
        );
        touch(&base.join("saved"), &["saved_model.pb"]);
        let found = |name: &str| {
            let path = base.join(name);
            assert_eq!(versions(&path).unwrap(), [(1, path.clone())]);
            files(&path)
        };
        let ir = ModelFiles::Ir {
            graph: base.join("a.xml"),
            weights: base.join("a.bin"),
        };
        assert_eq!(found("a.xml").unwrap(), ir);
        assert!(matches!(found("b.xml"), Err(RepositoryError::NoModel(_))));
        let paddle = ModelFiles::Paddle {
            program: base.join("c.pdmodel"),
            parameters: base.join("c.pdiparams"),
        };
        assert_eq!(found("c.pdmodel").unwrap(), paddle);
        assert_eq!(found("c.pdiparams").unwrap(), paddle);
        let onnx = base.join("d.onnx");
        assert_eq!(found("d.onnx").unwrap(), ModelFiles::Onnx(onnx));
        let saved = ModelFiles::TensorFlow(base.join("saved"));
        assert_eq!(found("saved/saved_model.pb").unwrap(), saved);
        let other = versions(&base.join("f.txt"));
        assert!(matches!(other, Err(RepositoryError::BasePath { .. })));
    }

    #[test]
    fn a_path_through_its_parent_is_refused() {
        let refused = versions(Path::new("/tmp/../tmp"));
        assert!(matches!(refused, Err(RepositoryError::BasePath { .. })));
    }

    #[test]
    fn the_first_complete_format_wins() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("1");
        touch(&folder, &["labels.txt"]);
        assert!(matches!(files(&folder), Err(RepositoryError::NoModel(_))));
        touch(&folder, &["m.tflite"]);
        assert!(matches!(files(&folder), Ok(ModelFiles::TfLite(_))));
        touch(&folder, &["m.pb"]);
        assert_eq!(
            files(&folder).unwrap(),
            ModelFiles::TensorFlow(folder.join("m.pb"))
        );
        touch(&folder, &["saved_model.pb"]);
        assert_eq!(
            files(&folder).unwrap(),
            ModelFiles::TensorFlow(folder.clone())
        );
        touch(&folder, &["m.pdmodel", "m.pdiparams"]);
        assert!(matches!(files(&folder), Ok(ModelFiles::Paddle { .. })));
        touch(&folder, &["m.onnx"]);
        assert!(matches!(files(&folder), Ok(ModelFiles::Onnx(_))));
        touch(&folder, &["m.xml"]);
        assert!(matches!(files(&folder), Ok(ModelFiles::Onnx(_))));
        touch(&folder, &["m.bin"]);
        assert!(matches!(files(&folder), Ok(ModelFiles::Ir { .. })));
    }
}
