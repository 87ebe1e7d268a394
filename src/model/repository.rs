//! The model repository on disk: `<base path>/<version>/<files>`.
//!
//! Version folders are positive whole numbers; [`FolderSurvey`] has the rules. In a version folder the
//! first of [`FORMATS`] that is complete wins, and without any a folder `model.savedmodel`. A base path that holds a model and no version
//! folder, or is a model file, is version 1.

use std::path::{Component, Path, PathBuf};

use super::{
    folders::{FolderSurvey, Ignored, Reason},
    others::of_others,
};

/// Version number of a base path without version folders.
const ONLY: i64 = 1;

/// Formats: the ending of the model file's name, and that of the second file. In a version folder the
/// first one that is complete wins.
const FORMATS: &[(&str, Option<&str>)] = &[
    (IR, Some("bin")),
    (ONNX, None),
    ("pdmodel", Some("pdiparams")),
    (TENSORFLOW, None),
    ("tflite", None),
];

/// Returns the file names of models, for texts.
pub fn expected() -> String {
    let names = FORMATS.iter().map(|(ending, second)| match second {
        Some(second) => format!("*.{ending} with *.{second}"),
        None => format!("*.{ending}"),
    });
    let mut names: Vec<_> = names.collect();
    if let Some(last) = names.last_mut() {
        last.insert_str(0, "or ");
    }
    names.join(", ")
}

/// Returns whether a path ends as a file of a model does, with letters of either case.
pub fn names_a_model_file(path: &Path) -> bool {
    let Some(ending) = path.extension().and_then(|it| it.to_str()) else {
        return false;
    };
    FORMATS.iter().any(|(first, second)| {
        let mut endings = std::iter::once(*first).chain(*second);
        endings.any(|known| known.eq_ignore_ascii_case(ending))
    })
}

/// Returns the files of a model that is given as one of them, whether they are there or not.
pub(super) fn parts(file: &Path) -> Vec<PathBuf> {
    let endings = format_of(file).map_or([None, None], |(first, second)| [Some(first), second]);
    let endings = endings.into_iter().flatten();
    endings.map(|ending| file.with_extension(ending)).collect()
}

/// Returns whether the weights of a model file may be in others beside it, which only the model names.
pub(super) fn may_have_external_data(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == ONNX)
}

/// Endings of files in a version folder that no model is read from.
const TEXTS: [&str; 10] = [
    "csv", "html", "json", "log", "md", "pbtxt", "py", "txt", "yaml", "yml",
];

/// Returns whether a file in a version folder may be of the model there, by its name: notes and logs are not, but all
/// assets of a `SavedModel` are.
pub(super) fn may_be_of_model(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let ending = path.extension().unwrap_or_default();
    let is_other =
        name.starts_with(b".") || TEXTS.iter().any(|text| ending.eq_ignore_ascii_case(text));
    !is_other
        || path
            .parent()
            .is_some_and(|folder| folder.ends_with("assets"))
}

/// Finds the file that a model file lacks beside it, if its format has two.
pub fn missing_part(file: &Path) -> Option<PathBuf> {
    parts(file).into_iter().find(|part| !part.is_file())
}

/// Ending of the graph of an OpenVINO IR.
const IR: &str = "xml";

/// Ending of an ONNX file.
const ONNX: &str = "onnx";

/// Ending of a TensorFlow frozen graph, or of the file that makes its folder a `SavedModel`.
const TENSORFLOW: &str = "pb";

/// Name that Triton gives the folder of a TensorFlow model within a version.
pub const SAVED_MODEL: &str = "model.savedmodel";

/// The files of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// The model file, or the folder of a `saved_model.pb`.
    model: PathBuf,
    /// The weights of an OpenVINO IR. Paddle's parameters are found beside the program by the runtime
    /// itself.
    weights: Option<PathBuf>,
}

impl ModelFiles {
    /// Returns the paths for the runtime: the model, and the second file of formats with two.
    pub fn paths(&self) -> (&Path, Option<&Path>) {
        (&self.model, self.weights.as_deref())
    }

    /// Returns the graph of an OpenVINO IR.
    pub(super) fn ir(&self) -> Option<&Path> {
        self.weights.is_some().then_some(&*self.model)
    }

    /// Returns the folder that the model is in.
    pub fn folder(&self) -> &Path {
        match self.model.is_dir() {
            // A SavedModel is its folder.
            true => &self.model,
            false => self.model.parent().unwrap_or(&self.model),
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
        "File not found or cannot open - no model in {}; expected {}{}",
        .0.display(),
        expected(),
        of_others(.0)
    )]
    NoModel(PathBuf),
    /// A version folder has no model of the name that a `config.pbtxt` gives.
    #[error(
        "File not found or cannot open - default_model_filename of config.pbtxt is {name}, which cannot be served of \
         {}: {reason}; add that file, or remove the setting",
        folder.display()
    )]
    Named {
        /// The name.
        name: String,
        /// The version folder.
        folder: PathBuf,
        /// Reason why there is no such model.
        reason: String,
    },
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
    survey_noting(base_path, &mut || {})
}

/// Surveys a folder, and calls `link` for each link there: what it leads to may change elsewhere.
pub(super) fn survey_noting(
    base_path: &Path,
    link: &mut dyn FnMut(),
) -> Result<FolderSurvey<(i64, PathBuf)>, RepositoryError> {
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
    let entries = match std::fs::read_dir(base_path) {
        Ok(entries) => entries,
        Err(_) if base_path.is_file() => {
            if format_of(base_path).is_none() {
                let reason = format!("it is a file; expected a folder, or {}", expected());
                return Err(refuse(reason));
            }
            return Ok(only(base_path));
        }
        Err(error) => return Err(refuse(error.to_string())),
    };
    let (mut folders, mut names) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let path = entry.path();
        // A link is what it leads to; the kind of all else came with the name.
        let is_folder = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => {
                link();
                path.is_dir()
            }
        };
        if is_folder {
            let name = entry.file_name().to_string_lossy().into_owned();
            folders.push((name, path.clone()));
        }
        names.push(path);
    }
    let mut survey = FolderSurvey::of(folders, |number, _, path| (number, path));
    if let Ok(found) = files_among(base_path, names) {
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

/// Returns the format of a file by its name, also of the second file of Paddle.
fn format_of(path: &Path) -> Option<(&'static str, Option<&'static str>)> {
    let ending = path.extension()?.to_str()?;
    let mut formats = FORMATS.iter().copied();
    formats.find(|(first, second)| ending == *first || (*first != IR && *second == Some(ending)))
}

/// Finds the files of the model that a file is, or is half of.
fn of_file(path: &Path) -> Option<ModelFiles> {
    let (first, second) = format_of(path)?;
    let beside = |ending| Some(path.with_extension(ending)).filter(|path| path.is_file());
    if path.ends_with("saved_model.pb") {
        let model = path.parent()?.to_owned();
        return Some(ModelFiles {
            model,
            weights: None,
        });
    }
    let second = second.map(|ending| beside(ending).ok_or(()));
    let second = second.transpose().ok()?;
    Some(ModelFiles {
        model: beside(first)?,
        weights: second.filter(|_| first == IR),
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
    let names = std::fs::read_dir(version)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .map_err(|source| RepositoryError::Read {
            path: version.to_owned(),
            source,
        })?;
    let saved = version.join(SAVED_MODEL);
    match files_among(version, names) {
        Err(RepositoryError::NoModel(_)) if saved.join("saved_model.pb").is_file() => files(&saved),
        found => found,
    }
}

/// Finds the model in a version folder by the name of its file, if that is given; otherwise as [`files`], as also the
/// one that a file is.
///
/// # Errors
///
/// Fails as that, and if there is no model of that name.
pub fn files_as(version: &Path, name: Option<&str>) -> Result<ModelFiles, RepositoryError> {
    let Some(name) = name.filter(|_| !version.is_file()) else {
        return files(version);
    };
    let fail = |reason| RepositoryError::Named {
        name: name.to_owned(),
        folder: version.to_owned(),
        reason,
    };
    let is_plain = matches!(
        Path::new(name).components().collect::<Vec<_>>()[..],
        [Component::Normal(_)]
    );
    if !is_plain {
        return Err(fail("expected a name without a path".to_owned()));
    }
    let path = version.join(name);
    match path.metadata() {
        Err(error) => Err(fail(error.to_string())),
        Ok(found) if found.is_dir() => files(&path),
        Ok(_) => of_file(&path).ok_or_else(|| match missing_part(&path) {
            Some(part) => fail(format!("there is no {} beside it", part.display())),
            None => fail(format!("expected {}", expected())),
        }),
    }
}

/// Returns what to say of a version folder in which there are other models than the one that is served, by names that
/// nothing chooses between; `None` if there are none. Blocks.
pub(super) fn rivals(version: &Path, served: &ModelFiles) -> Option<String> {
    let entries = std::fs::read_dir(version).ok()?.flatten();
    let models = entries.filter_map(|entry| of_file(&entry.path()));
    let others = models.filter(|other| other.model != served.model && other.model != version);
    let names =
        others.filter_map(|other| Some(other.model.file_name()?.to_string_lossy().into_owned()));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    let served = served.model.file_name()?.to_string_lossy();
    (!names.is_empty()).then(|| {
        format!(
            "{served} is served of {}, and not {}: a version has one model",
            version.display(),
            names.join(", ")
        )
    })
}

/// Finds the model among all that a folder has.
fn files_among(folder: &Path, mut names: Vec<PathBuf>) -> Result<ModelFiles, RepositoryError> {
    // The order in a folder is the file system's; the first by name is the same everywhere.
    names.sort();
    let first = |extension: &str| {
        names
            .iter()
            .find(|path| path.extension().is_some_and(|found| found == extension))
            .cloned()
    };
    for &(ending, second) in FORMATS {
        let Some(model) = first(ending) else {
            continue;
        };
        // The one of the model's own name; with another one, it would compute other numbers.
        let own = |ending| Some(model.with_extension(ending)).filter(|path| names.contains(path));
        let second = second.map(|ending| own(ending).or_else(|| first(ending)).ok_or(()));
        let Ok(second) = second.transpose() else {
            continue;
        };
        let is_saved = |path: &PathBuf| path.ends_with("saved_model.pb");
        let is_folder = ending == TENSORFLOW && names.iter().any(is_saved);
        return Ok(ModelFiles {
            model: if is_folder { folder.to_owned() } else { model },
            weights: second.filter(|_| ending == IR),
        });
    }
    Err(RepositoryError::NoModel(folder.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, path::Path};

    use super::{RepositoryError, files, files_as, names_a_model_file, survey, versions};

    /// Makes a folder with empty files of these names.
    pub(in crate::model) fn touch(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
    }

    #[test]
    fn files_of_every_format_are_known_by_their_endings() {
        for name in [
            "m.xml",
            "m.bin",
            "m.onnx",
            "m.pdmodel",
            "m.pdiparams",
            "m.pb",
            "m.tflite",
            "folder/M.ONNX",
        ] {
            assert!(names_a_model_file(Path::new(name)), "{name}");
        }
        for name in ["m", "onnx", ".onnx", "m.onnx.txt", "m.pt", "m.onnx/1"] {
            assert!(!names_a_model_file(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn other_models_of_a_version_are_named() {
        let root = tempfile::tempdir().unwrap();
        let said = |folder: &str, names: &[&str]| {
            let folder = root.path().join(folder);
            touch(&folder, names);
            let said = super::rivals(&folder, &files(&folder).unwrap());
            said.map(|text| text.replace(root.path().to_str().unwrap(), "/m"))
        };
        assert_eq!(said("1", &["m.xml", "m.bin", "notes.txt"]), None);
        assert_eq!(said("2", &["m.pdmodel", "m.pdiparams"]), None);
        assert_eq!(said("3", &["saved_model.pb"]), None);
        assert_eq!(
            said("4", &["b.onnx", "a.onnx", "c.tflite", "d.xml"]).as_deref(),
            Some("a.onnx is served of /m/4, and not b.onnx, c.tflite: a version has one model")
        );
        assert_eq!(
            said("5", &["m.xml", "m.bin", "m.onnx"]).as_deref(),
            Some("m.xml is served of /m/5, and not m.onnx: a version has one model")
        );
    }

    #[test]
    fn weights_of_the_name_of_the_model_come_first() {
        let root = tempfile::tempdir().unwrap();
        let weights = |names: &[&str]| {
            touch(root.path(), names);
            let files = files(root.path()).unwrap();
            assert_eq!(files.paths().0, root.path().join("model.xml"));
            let weights = files.paths().1.and_then(Path::file_name);
            weights.map(|name| name.to_string_lossy().into_owned())
        };
        let of_others = weights(&["model.xml", "weights.bin", "backup.bin"]);
        assert_eq!(of_others.as_deref(), Some("backup.bin"));
        assert_eq!(weights(&["model.bin"]).as_deref(), Some("model.bin"));
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
    fn a_name_chooses_among_the_models_of_a_folder() {
        let root = tempfile::tempdir().unwrap();
        touch(root.path(), &["a.onnx", "b.onnx", "c.xml", "notes.txt"]);
        let found = |name| files_as(root.path(), name).map(|files| files.model);
        assert_eq!(found(None).unwrap(), root.path().join("a.onnx"));
        assert_eq!(found(Some("b.onnx")).unwrap(), root.path().join("b.onnx"));
        let shown = root.path().display().to_string();
        let error = |name| {
            found(Some(name))
                .unwrap_err()
                .to_string()
                .replace(&shown, "FOLDER")
        };
        let errors = ["d.onnx", "c.xml", "../b.onnx"].map(error).join("\n");
        insta::assert_snapshot!(errors, @"
        File not found or cannot open - default_model_filename of config.pbtxt is d.onnx, which cannot be served of FOLDER: No such file or directory (os error 2); add that file, or remove the setting
        File not found or cannot open - default_model_filename of config.pbtxt is c.xml, which cannot be served of FOLDER: there is no FOLDER/c.bin beside it; add that file, or remove the setting
        File not found or cannot open - default_model_filename of config.pbtxt is ../b.onnx, which cannot be served of FOLDER: expected a name without a path; add that file, or remove the setting
        ");
        // One that is a file itself is that file.
        let file = root.path().join("a.onnx");
        assert_eq!(files_as(&file, Some("b.onnx")).unwrap().model, file);
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
        let ir = (&*base.join("a.xml"), Some(&*base.join("a.bin")));
        assert_eq!(found("a.xml").unwrap().paths(), ir);
        assert!(matches!(found("b.xml"), Err(RepositoryError::NoModel(_))));
        let paddle = base.join("c.pdmodel");
        assert_eq!(found("c.pdmodel").unwrap().paths(), (&*paddle, None));
        assert_eq!(found("c.pdiparams").unwrap().paths(), (&*paddle, None));
        let onnx = base.join("d.onnx");
        assert_eq!(found("d.onnx").unwrap().paths(), (&*onnx, None));
        let saved = found("saved/saved_model.pb").unwrap();
        assert_eq!(saved.paths(), (&*base.join("saved"), None));
        assert_eq!(saved.folder(), base.join("saved"));
        let other = versions(&base.join("f.txt"));
        assert!(matches!(other, Err(RepositoryError::BasePath { .. })));
    }

    #[test]
    fn a_version_may_have_the_folder_of_tensorflow_that_triton_has() {
        let root = tempfile::tempdir().unwrap();
        let version = root.path().join("m/1");
        touch(&version.join("model.savedmodel"), &["saved_model.pb"]);
        let found = files(&version).unwrap();
        let folder = version.join("model.savedmodel");
        assert_eq!(
            (found.paths(), found.folder()),
            ((&*folder, None), &*folder)
        );
        // A repository may have a model of that name.
        let survey = survey(&version).unwrap();
        assert!(survey.versions.is_empty(), "{:?}", survey.versions);
        touch(&version, &["model.onnx"]);
        assert_eq!(
            files(&version).unwrap().paths().0,
            version.join("model.onnx")
        );
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
        for (names, model) in [
            (&["m.tflite"][..], "m.tflite"),
            (&["m.pb"], "m.pb"),
            (&["saved_model.pb"], ""),
            (&["m.pdmodel", "m.pdiparams"], "m.pdmodel"),
            (&["m.onnx"], "m.onnx"),
            (&["m.xml"], "m.onnx"),
            (&["m.bin"], "m.xml"),
        ] {
            touch(&folder, names);
            let found = files(&folder).unwrap();
            assert_eq!(found.paths().0, folder.join(model), "{names:?}");
            assert_eq!(found.ir().is_some(), model == "m.xml");
        }
    }
}
