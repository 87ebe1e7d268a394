//! The model repository on disk: `<base path>/<version>/<files>`.
//!
//! Version folders are positive whole numbers; [`Survey`] has the rules. In a version folder the
//! first format of [`ModelFiles`] that is complete wins.

use std::path::{Component, Path, PathBuf};

use super::Survey;

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
    /// Returns what the runtime is given: the model, and the second file of formats with two.
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

    /// Returns the version folder.
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

/// Why a repository cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The base path is not a folder, or goes through `..`.
    #[error("The provided base path is invalid or doesn't exists - {}: {reason}", path.display())]
    BasePath {
        /// The base path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A version folder has no complete set of files of any format.
    #[error(
        "File not found or cannot open - no model in {}; expected *.xml with *.bin, *.onnx, \
         *.pdmodel with *.pdiparams, *.pb, or *.tflite",
        .0.display()
    )]
    NoModel(PathBuf),
    /// A version folder cannot be read.
    #[error("File not found or cannot open - {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// What the system said.
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
pub fn survey(base_path: &Path) -> Result<Survey<(i64, PathBuf)>, RepositoryError> {
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
    let entries = std::fs::read_dir(base_path).map_err(|error| refuse(error.to_string()))?;
    let folders = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        path.is_dir().then_some((name, path))
    });
    Ok(Survey::of(folders, |number, _, path| (number, path)))
}

/// Finds the model in a version folder.
///
/// # Errors
///
/// Fails if the folder cannot be read or has no model.
pub fn files(version: &Path) -> Result<ModelFiles, RepositoryError> {
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
