//! `config.pbtxt` of Triton's repositories. Of its settings `sequence_batching`, `default_model_filename`, and
//! `version_policy` are followed, where models are named by their paths; the others have counterparts here, which a
//! warning names. A model that is named by its path and whose file cannot be read is refused, since nobody knows whether
//! it has sequences. Where the file says something else of the tensors than the model, the model counts, and another
//! warning says so.

mod ignored;
mod load;
mod pipeline;
mod policy;
mod tensors;

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

pub use self::{
    ignored::ignored_triton_settings,
    load::{TritonLoad, triton_load},
    pipeline::{TritonPipeline, TritonSource, TritonStep, triton_parameters, triton_pipeline},
};
use crate::{
    config::{ModelConfig, VersionPolicy},
    graph::{OutlineField, outline},
    model::storage,
    servable::ServableInfo,
};

/// Name of the file, which is beside the version folders.
pub(super) const FILE: &str = "config.pbtxt";

/// Maximum size of the file, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The setting that names the model file.
const FILE_NAME: &str = "default_model_filename";

/// The setting of models with sequences.
const SEQUENCES: &str = "sequence_batching";

/// Size and times of a file, by which a change is noticed: of its contents, and of the rights to read it.
pub(super) type FileStamp = (u64, Option<SystemTime>, (i64, i64));

/// Settings of the file of a model that are followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TritonSettings {
    /// The file, if requests to the model belong to sequences.
    pub(super) sequences: Option<PathBuf>,
    /// Name of the model file, if it is given.
    pub(super) model_file: Option<String>,
    /// The versions to serve, if they are given and it is not one of them that lies at the path.
    pub(super) policy: Option<VersionPolicy>,
}

/// Returns the file of a model that lies at a path, which may be that of a version.
fn file_of(base_path: &Path) -> PathBuf {
    let folder = match base_path.is_file() {
        true => base_path.parent().unwrap_or(base_path),
        false => base_path,
    };
    let name = folder.file_name().unwrap_or_default().as_encoded_bytes();
    let is_version = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let of_model = match folder.parent() {
        Some(parent) if is_version => parent,
        _ => folder,
    };
    of_model.join(FILE)
}

/// Returns the stamp of the file of a model, if there is one.
pub(super) fn stamp(base_path: &Path) -> Option<FileStamp> {
    stamp_of(&file_of(base_path))
}

/// Returns the stamp of a file, if there is one.
pub(super) fn stamp_of(file: &Path) -> Option<FileStamp> {
    let found = fs::metadata(file).ok()?;
    let changed = (found.ctime(), found.ctime_nsec());
    let is_file = found.is_file();
    is_file.then(|| (found.len(), found.modified().ok(), changed))
}

/// Error of a file.
enum Unreadable {
    /// File that cannot be read as a whole.
    File(String),
    /// File that is no protobuf text: the position, and the reason.
    Text(String),
}

/// Reads the fields of the file of a model; `None` if there is none.
fn read(file: &Path) -> Option<Result<Vec<OutlineField>, Unreadable>> {
    let mut text = String::new();
    // Opening a pipe would wait for its other end.
    if !file.is_file() {
        return None;
    }
    let read = File::open(file).and_then(|file| file.take(MAX_SIZE + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(Unreadable::File(error.to_string()))),
        Ok(length) if length as u64 > MAX_SIZE => {
            let reason = format!("it has more than {MAX_SIZE} bytes");
            Some(Err(Unreadable::File(reason)))
        }
        Ok(_) => Some(outline(&text).map_err(Unreadable::Text)),
    }
}

/// Reads the settings of a model at a path that are followed. Blocks.
///
/// # Errors
///
/// Fails with the file, and what is wrong with it, if it cannot be read.
pub(super) fn settings(base_path: &Path) -> Result<TritonSettings, String> {
    let file = file_of(base_path);
    let fields = match read(&file) {
        None => return Ok(TritonSettings::default()),
        Some(Ok(fields)) => fields,
        Some(Err(Unreadable::File(reason))) => {
            return Err(format!("cannot read {}: {reason}", file.display()));
        }
        Some(Err(Unreadable::Text(error))) => return Err(format!("{}:{error}", file.display())),
    };
    let policy = match policy::read(&fields) {
        Ok(policy) => policy.filter(|_| has_versions(base_path, &file)),
        Err(error) => return Err(format!("{}:{error}", file.display())),
    };
    let field = |name: &str| fields.iter().find(|field| field.path == name);
    let model_file = field(FILE_NAME).and_then(|field| field.value().map(str::to_owned));
    Ok(TritonSettings {
        model_file: model_file.filter(|name| !name.is_empty()),
        sequences: field(SEQUENCES).map(|_| file),
        policy,
    })
}

/// Returns whether the versions lie at the path of a model, and not one of them alone.
fn has_versions(base_path: &Path, file: &Path) -> bool {
    !base_path.is_file() && file.parent() == Some(base_path)
}

/// Returns a warning of what the `config.pbtxt` of a model says of its tensors that the model, as it is loaded, has
/// otherwise; `None` if there is nothing. What is set here for the model is not compared. Blocks.
pub fn contradicted_triton_settings(model: &ModelConfig, info: &ServableInfo) -> Option<String> {
    if storage::is_remote(&model.base_path) || model.load.settings_error.is_some() {
        return None;
    }
    let file = file_of(Path::new(&model.base_path));
    // One that cannot be read has a warning, or an error, of its own.
    let fields = read(&file)?.ok()?;
    let name = fields.iter().find(|field| field.path == "name");
    let name = name.and_then(|field| field.value()).unwrap_or_default();
    let mut found = tensors::contradictions(&fields, &model.load, info);
    // Whoever names the model otherwise than its folder means it.
    let folder = file.parent().and_then(Path::file_name);
    let is_of_folder = folder.is_some_and(|folder| folder == &*model.name);
    if is_of_folder && !name.is_empty() && name != model.name {
        found.push(format!("name: found {name}, served as {}", model.name));
    }
    let found = (!found.is_empty()).then(|| found.join("; "))?;
    Some(format!(
        "{} contradicts the model, which counts: {found}",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{MAX_SIZE, contradicted_triton_settings, ignored_triton_settings, settings};
    use crate::{
        config::{Config, ConfigSource, FlagEnvironment, Flags, ModelConfig, VersionPolicy},
        servable::ServableInfo,
    };

    pub(super) fn model(base_path: &Path, stateful: bool) -> ModelConfig {
        let flags = Flags {
            model_name: Some("m".to_owned()),
            model_path: Some(base_path.to_owned()),
            port: 1,
            stateful,
            ..Flags::default()
        };
        match Config::from_flags(flags, &FlagEnvironment::default())
            .unwrap()
            .source
        {
            ConfigSource::Model { model, .. } => *model,
            _ => panic!("no model"),
        }
    }

    #[test]
    fn the_versions_of_a_file_are_followed_where_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("m");
        fs::create_dir_all(folder.join("2")).unwrap();
        let write = |text: &str| fs::write(folder.join("config.pbtxt"), text).unwrap();
        write("version_policy { all { } }");
        let policy = |path: &Path| settings(path).unwrap().policy;
        assert_eq!(policy(&folder), Some(VersionPolicy::All));
        let version = folder.join("2");
        assert_eq!(policy(&version), None);
        // What was asked for is no warning.
        assert_eq!(ignored_triton_settings(&model(&version, false)), None);
        write("version_policy { newest { } }");
        let error = settings(&folder).unwrap_err();
        let expected = "config.pbtxt:1:18: version_policy: found newest, expected one of latest, all, specific";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn what_the_model_has_otherwise_is_reported_with_the_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("m");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("config.pbtxt");
        let mut model = model(&folder, false);
        let info = ServableInfo::default();
        let note = |model: &ModelConfig| contradicted_triton_settings(model, &info);
        assert_eq!(note(&model), None);
        fs::write(&file, "output { name: \"y\" }").unwrap();
        let warning = note(&model).unwrap();
        assert_eq!(
            warning.replace(&file.display().to_string(), "FILE"),
            "FILE contradicts the model, which counts: output `y`: the model has no output"
        );
        fs::write(&file, "name: 'other'").unwrap();
        assert!(
            note(&model)
                .unwrap()
                .ends_with("which counts: name: found other, served as m")
        );
        fs::write(&file, "name: 'm'").unwrap();
        assert_eq!(note(&model), None);
        fs::write(&file, "name: 'other'").unwrap();
        let by_flag = ModelConfig {
            name: "another".into(),
            ..model.clone()
        };
        assert_eq!(note(&by_flag), None);
        fs::write(&file, "output {").unwrap();
        assert_eq!(note(&model), None);
        model.load.settings_error = Some("cannot read".into());
        fs::write(&file, "output { name: \"y\" }").unwrap();
        assert_eq!(note(&model), None);
    }

    #[test]
    fn the_file_is_beside_the_versions() {
        let folder = tempfile::tempdir().unwrap();
        let (model, version) = (folder.path().join("m"), folder.path().join("m/1"));
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("model.onnx"), "").unwrap();
        for path in [&model, &version, &version.join("model.onnx")] {
            assert_eq!(settings(path).unwrap().sequences, None);
        }
        fs::write(model.join("config.pbtxt"), "sequence_batching { }").unwrap();
        for path in [&model, &version, &version.join("model.onnx")] {
            let expected = Some(model.join("config.pbtxt"));
            assert_eq!(settings(path).unwrap().sequences, expected, "{path:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.pbtxt");
        let error = |content: &[u8]| {
            fs::write(&file, content).unwrap();
            let error = settings(folder.path()).unwrap_err();
            error.replace(&file.display().to_string(), "FILE")
        };
        insta::assert_snapshot!(
            error(b"name: \"m\"\nsequence_batching {\n"),
            @"FILE:3:1: found the end of the text, expected the name of a field or `}`"
        );
        insta::assert_snapshot!(
            error(b"sequence_batching { } \xFF"),
            @"cannot read FILE: stream did not contain valid UTF-8"
        );
        insta::assert_snapshot!(
            error(&vec![b' '; MAX_SIZE as usize + 1]),
            @"cannot read FILE: it has more than 1048576 bytes"
        );
        // A model that is refused for it has no warning beside.
        let mut refused = model(folder.path(), false);
        refused.load.settings_error = Some("cannot read".into());
        assert_eq!(ignored_triton_settings(&refused), None);
    }
}
