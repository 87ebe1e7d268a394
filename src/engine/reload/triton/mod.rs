//! `config.pbtxt` of Triton's repositories. Of its settings `sequence_batching` is followed, where models are named
//! by their paths; the others have counterparts here, which a warning names. A model that is named by its path and whose
//! file cannot be read is refused, since nobody knows whether it has sequences. Where the file says something else of the
//! tensors than the model, the model counts, and another warning tells of it.

mod tensors;

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    config::{ModelConfig, VersionPolicy},
    error::nearest,
    graph::{OutlineField, outline},
    model::storage,
    openvino::Batching,
    servable::ServableInfo,
};

/// Name of the file, which is beside the version folders.
pub(super) const FILE: &str = "config.pbtxt";

/// Maximum size of the file, in bytes.
const LONGEST: u64 = 1 << 20;

/// The setting that names the model file.
const FILE_NAME: &str = "default_model_filename";

/// The setting of models with sequences.
const SEQUENCES: &str = "sequence_batching";

/// Time after which sequences end without a request there.
const IDLE: &str = "sequence_batching.max_sequence_idle_microseconds";

/// Inputs of a model that Triton fills as sequences begin and end.
const CONTROLS: &str = "sequence_batching.control_input";

/// Settings that are not read, with what is set here instead.
const COUNTERPARTS: [(&str, &str); 15] = [
    ("backend", "write a graph with a Python node"),
    ("max_batch_size", "set batch_size"),
    (
        "version_policy",
        "set model_version_policy; the latest version alone is served",
    ),
    (
        "instance_group",
        "set nireq, NUM_STREAMS in plugin_config, and target_device",
    ),
    ("dynamic_batching", "set dynamic_batching"),
    (SEQUENCES, "set stateful"),
    (
        CONTROLS,
        "no input is filled here; clients send sequence_id, sequence_start, and sequence_end as parameters, or the \
         inputs sequence_id and sequence_control_input",
    ),
    (IDLE, "set sequence_cleaner_poll_wait_minutes of the server"),
    (
        "ensemble_scheduling",
        "define a pipeline in a configuration file",
    ),
    ("optimization", "set plugin_config"),
    ("parameters", "set plugin_config"),
    ("model_warmup", "set warmup"),
    (FILE_NAME, "the model file is found by its ending"),
    ("response_cache", "there is no such cache"),
    (LABELS, "name that file labels.txt"),
];

/// The setting that names the file of an output's labels.
const LABELS: &str = "output.label_filename";

/// Fields of Triton's `ModelConfig` (`model_config.proto`).
const KNOWN: [&str; 25] = [
    "backend",
    "batch_input",
    "batch_output",
    "cc_model_filenames",
    "default_model_filename",
    "dynamic_batching",
    "ensemble_scheduling",
    "input",
    "instance_group",
    "max_batch_size",
    "metric_tags",
    "model_metrics",
    "model_operations",
    "model_repository_agents",
    "model_transaction_policy",
    "model_warmup",
    "name",
    "optimization",
    "output",
    "parameters",
    "platform",
    "response_cache",
    "runtime",
    "sequence_batching",
    "version_policy",
];

/// Fields of `ModelInput` and `ModelOutput` there.
const KNOWN_OF_TENSORS: [&str; 9] = [
    "allow_ragged_batch",
    "data_type",
    "dims",
    "format",
    "is_non_linear_format_io",
    "is_shape_tensor",
    "label_filename",
    "name",
    "optional",
];

/// Values of `data_type` there, without what they begin with.
const TYPES: [&str; 15] = [
    "INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "STRING", "BF16",
];

/// Beginning of each of them.
const TYPE: &str = "TYPE_";

/// Size and times of a file, by which a change is noticed: of its contents, and of the rights to read it.
pub(super) type FileStamp = (u64, Option<SystemTime>, (i64, i64));

/// Settings of the file of a model that are followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TritonSettings {
    /// The file, if requests to the model belong to sequences.
    pub(super) sequences: Option<PathBuf>,
    /// Name of the model file, if it is given.
    pub(super) model_file: Option<String>,
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
    /// It cannot be read as a whole.
    File(String),
    /// It is no protobuf text: the position, and the reason.
    Text(String),
}

/// Reads the fields of the file of a model; `None` if there is none.
fn read(file: &Path) -> Option<Result<Vec<OutlineField>, Unreadable>> {
    let mut text = String::new();
    // Opening a pipe would wait for its other end.
    if !file.is_file() {
        return None;
    }
    let read = File::open(file).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(Unreadable::File(error.to_string()))),
        Ok(length) if length as u64 > LONGEST => {
            let reason = format!("it has more than {LONGEST} bytes");
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
    let field = |name: &str| fields.iter().find(|field| field.path == name);
    let model_file = field(FILE_NAME).and_then(|field| field.value().map(str::to_owned));
    Ok(TritonSettings {
        model_file: model_file.filter(|name| !name.is_empty()),
        sequences: field(SEQUENCES).map(|_| file),
    })
}

/// Returns a warning of the settings in the `config.pbtxt` of a model that have no effect, with their counterparts
/// here; `None` if there are none. Blocks.
pub fn ignored_triton_settings(model: &ModelConfig) -> Option<String> {
    // One that is refused for its file has an error in place of a warning.
    if storage::is_remote(&model.base_path) || model.load.settings_error.is_some() {
        return None;
    }
    let file = file_of(Path::new(&model.base_path));
    let shown = file.display();
    let fields = match read(&file)? {
        Ok(fields) => fields,
        Err(Unreadable::File(error) | Unreadable::Text(error)) => {
            return Some(format!(
                "{shown} is ignored, since it cannot be read: {error}"
            ));
        }
    };
    let load = &model.load;
    let is_meant = |name: &str, value: Option<&str>| match name {
        SEQUENCES => model.stateful.is_none(),
        IDLE => model.stateful.is_some(),
        // Requests have no batch axis then, as it is without a batch size here.
        "max_batch_size" => value != Some("0") && load.batch.is_none(),
        // What is set here counts.
        "version_policy" => model.policy == VersionPolicy::default(),
        "instance_group" => load.nireq == 0 && load.device == "CPU",
        "dynamic_batching" => load.batching == Batching::Off,
        "optimization" | "parameters" => !model.has_plugin_config(),
        "model_warmup" => model.warmup.is_empty(),
        // It is followed where the model lies in a folder of its own.
        FILE_NAME => load.model_file.is_none() && !Path::new(&model.base_path).is_file(),
        "backend" => value == Some("python"),
        LABELS => value != Some("labels.txt"),
        _ => true,
    };
    let is_ignored = |name: &str| {
        let mut fields = fields.iter().filter(|field| field.path == name);
        fields.any(|field| is_meant(name, field.value()))
    };
    let ignored = COUNTERPARTS.iter().filter(|(name, _)| is_ignored(name));
    let ignored = ignored.map(|(name, instead)| format!("{name} ({instead})"));
    let ignored: Vec<String> = ignored.collect();
    let ignored = (!ignored.is_empty())
        .then(|| format!("ignored settings of {shown}: {}", ignored.join(", ")));
    let unknown: Vec<String> = fields.iter().filter_map(unknown_field).collect();
    let unknown =
        (!unknown.is_empty()).then(|| format!("unknown fields of {shown}: {}", unknown.join(", ")));
    let types: Vec<String> = fields.iter().filter_map(unknown_type).collect();
    let types =
        (!types.is_empty()).then(|| format!("unknown types of {shown}: {}", types.join(", ")));
    let told: Vec<String> = [ignored, unknown, types].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Returns whether a value is one of `data_type`; a number stands for one, too.
fn is_type(value: &str) -> bool {
    let name = value.strip_prefix(TYPE);
    name.is_some_and(|name| TYPES.contains(&name)) || value.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the place of a type of a tensor that Triton does not have, and the one that may be meant.
fn unknown_type(field: &OutlineField) -> Option<String> {
    if !matches!(&*field.path, "input.data_type" | "output.data_type") {
        return None;
    }
    let value = field.value().filter(|value| !is_type(value))?;
    let (line, column) = field.place;
    let plain = value
        .strip_prefix(TYPE)
        .unwrap_or(value)
        .to_ascii_uppercase();
    let meant = match &*plain {
        "BYTES" => Some("STRING"),
        "FLOAT" => Some("FP32"),
        "DOUBLE" => Some("FP64"),
        "HALF" => Some("FP16"),
        plain => TYPES
            .into_iter()
            .find(|it| *it == plain)
            .or_else(|| nearest(plain, TYPES)),
    };
    let meant = meant.map_or_else(
        || format!("expected a name such as {TYPE}FP32"),
        |meant| format!("expected {TYPE}{meant}"),
    );
    Some(format!(
        "{line}:{column} `{}`: found {value}, {meant}",
        field.path
    ))
}

/// Returns the place and the name of a field that Triton does not have, and the one that may be meant.
fn unknown_field(field: &OutlineField) -> Option<String> {
    let (name, known) = match field.path.split_once('.') {
        None => (&*field.path, &KNOWN[..]),
        Some(("input" | "output", name)) if !name.starts_with("reshape") => {
            (name, &KNOWN_OF_TENSORS[..])
        }
        Some(_) => return None,
    };
    if known.contains(&name) {
        return None;
    }
    let (line, column) = field.place;
    let meant = nearest(name, known.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"));
    Some(format!("{line}:{column} `{}`{meant}", field.path))
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

    use super::{LONGEST, contradicted_triton_settings, ignored_triton_settings, settings};
    use crate::{
        config::{Config, ConfigSource, FlagEnvironment, Flags, ModelConfig, VersionPolicy},
        openvino::{BatchOption, Batching},
        servable::ServableInfo,
    };

    fn model(base_path: &Path, stateful: bool) -> ModelConfig {
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
            ConfigSource::Model(model) => *model,
            _ => panic!("no model"),
        }
    }

    /// Returns the warnings of a file, for a model without state and one with it, and whether it asks for sequences.
    fn read(text: &str) -> (Option<String>, Option<String>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.pbtxt");
        fs::write(&file, text).unwrap();
        let warning = |stateful| {
            let warning = ignored_triton_settings(&model(folder.path(), stateful))?;
            Some(warning.replace(&file.display().to_string(), "FILE"))
        };
        let settings = settings(folder.path());
        let asks = settings.is_ok_and(|it| it.sequences.as_ref() == Some(&file));
        (warning(false), warning(true), asks)
    }

    #[test]
    fn ignored_settings_have_their_counterparts() {
        let text = "name: \"m\" platform: \"onnxruntime_onnx\" max_batch_size: 8\n\
                    input [ { name: \"x\" dims: [ 1 ] } ] dynamic_batching { }\n\
                    instance_group [ { count: 2 } ] parameters { key: \"a\" }";
        let expected = "ignored settings of FILE: max_batch_size (set batch_size), instance_group (set nireq, \
                        NUM_STREAMS in plugin_config, and target_device), dynamic_batching (set dynamic_batching), parameters (set plugin_config)";
        let expected = Some(expected.to_owned());
        assert_eq!(read(text), (expected.clone(), expected, false));
        let python = read("backend: \"python\"").0;
        let expected = "ignored settings of FILE: backend (write a graph with a Python node)";
        assert_eq!(python.as_deref(), Some(expected));
        for text in [
            "",
            "max_batch_size: 0",
            "backend: 'onnxruntime'",
            "# dynamic_batching { }",
        ] {
            assert_eq!(read(text), (None, None, false), "{text}");
        }
    }

    #[test]
    fn types_that_triton_does_not_have_are_told_with_their_places() {
        let told = |text| read(text).0.unwrap_or_default();
        insta::assert_snapshot!(
            told("input [\n  { name: \"x\" data_type: FP32 },\n  { name: \"y\" data_type: TYPE_BYTES } ]\noutput { name: \"z\" data_type: TYPE_INT_8 }\noutput { data_type: 'odd' }"),
            @"unknown types of FILE: 2:15 `input.data_type`: found FP32, expected TYPE_FP32, 3:15 `input.data_type`: found TYPE_BYTES, expected TYPE_STRING, 4:20 `output.data_type`: found TYPE_INT_8, expected TYPE_INT8, 5:10 `output.data_type`: found odd, expected a name such as TYPE_FP32"
        );
        for name in super::TYPES {
            assert_eq!(
                read(&format!("input {{ data_type: TYPE_{name} }}")).0,
                None,
                "{name}"
            );
        }
        assert_eq!(read("input { data_type: 11 }").0, None);
    }

    #[test]
    fn versions_that_are_served_in_place_of_those_of_the_file_are_told() {
        let said = read("version_policy { specific { versions: [ 1, 2 ] } }").0;
        let expected = "ignored settings of FILE: version_policy (set model_version_policy; the latest version alone is served)";
        assert_eq!(said.as_deref(), Some(expected));
    }

    #[test]
    fn fields_that_triton_does_not_have_are_told_with_their_places() {
        let told = |text| read(text).0.unwrap_or_default();
        insta::assert_snapshot!(
            told("name: \"m\"\ndynamic_batchin { }\n  frobnicate: 1\ninput [ { name: \"x\" dim: [ 1 ] reshape { shape: [ 1 ] } } ]\nmax_batch_size: 4"),
            @"ignored settings of FILE: max_batch_size (set batch_size); unknown fields of FILE: 2:1 `dynamic_batchin` (did you mean dynamic_batching?), 3:3 `frobnicate`, 4:21 `input.dim` (did you mean dims?)"
        );
        let every = super::KNOWN.map(|name| format!("{name} {{ }}")).join("\n");
        assert!(!told(&every).contains("unknown"), "{}", told(&every));
        assert_eq!(
            told("input { name: 'x' format: FORMAT_NONE optional: true }"),
            ""
        );
    }

    #[test]
    fn labels_have_a_name_of_their_own() {
        let text = "output { name: 'a' label_filename: 'labels.txt' } output { label_filename: 'dogs.txt' }";
        let expected =
            "ignored settings of FILE: output.label_filename (name that file labels.txt)";
        assert_eq!(read(text).0.as_deref(), Some(expected));
        assert_eq!(read("output { label_filename: 'labels.txt' }").0, None);
    }

    #[test]
    fn settings_that_are_set_here_are_not_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.pbtxt");
        let text = "max_batch_size: 8 dynamic_batching { } instance_group [ { count: 2 } ] parameters { key: \"a\" }\n\
                    default_model_filename: \"b.onnx\" version_policy { all { } } model_warmup [ { name: \"w\" } ]";
        fs::write(&file, text).unwrap();
        let mut model = model(folder.path(), false);
        assert!(ignored_triton_settings(&model).is_some());
        let found = settings(folder.path()).unwrap();
        assert_eq!(found.model_file.as_deref(), Some("b.onnx"));
        model.load.batch = Some(BatchOption::Auto);
        model.load.batching = Batching::Auto;
        model.load.nireq = 2;
        model.load.properties = vec![("NUM_STREAMS".to_owned(), "1".to_owned())];
        model.load.model_file = Some("b.onnx".into());
        model.policy = VersionPolicy::All;
        let warning = ignored_triton_settings(&model).unwrap();
        let warning = warning.replace(&file.display().to_string(), "FILE");
        assert_eq!(
            warning,
            "ignored settings of FILE: model_warmup (set warmup)"
        );
    }

    #[test]
    fn sequences_are_followed_where_the_model_is_stateful() {
        let text = "sequence_batching { max_sequence_idle_microseconds: 5000000 }";
        let (without, with, asks) = read(text);
        let expected = "ignored settings of FILE: sequence_batching (set stateful)";
        assert_eq!(without.as_deref(), Some(expected));
        let expected = "ignored settings of FILE: sequence_batching.max_sequence_idle_microseconds (set \
                        sequence_cleaner_poll_wait_minutes of the server)";
        assert_eq!(with.as_deref(), Some(expected));
        assert!(asks);
        assert_eq!(read("sequence_batching { }").1, None);
    }

    #[test]
    fn control_inputs_have_no_counterpart() {
        let text = "sequence_batching { control_input [ { name: \"START\" control [ { kind: CONTROL_SEQUENCE_START \
                    fp32_false_true: [ 0, 1 ] } ] } ] }";
        let (without, with, asks) = read(text);
        assert!(asks);
        let ignored = "sequence_batching.control_input (no input is filled here; clients send sequence_id, \
                       sequence_start, and sequence_end as parameters, or the inputs sequence_id and \
                       sequence_control_input)";
        let expected = format!("ignored settings of FILE: {ignored}");
        assert_eq!(with, Some(expected));
        let expected =
            format!("ignored settings of FILE: sequence_batching (set stateful), {ignored}");
        assert_eq!(without, Some(expected));
    }

    #[test]
    fn what_the_model_has_otherwise_is_told_with_the_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("m");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("config.pbtxt");
        let mut model = model(&folder, false);
        let info = ServableInfo::default();
        let told = |model: &ModelConfig| contradicted_triton_settings(model, &info);
        assert_eq!(told(&model), None);
        fs::write(&file, "output { name: \"y\" }").unwrap();
        let warning = told(&model).unwrap();
        assert_eq!(
            warning.replace(&file.display().to_string(), "FILE"),
            "FILE contradicts the model, which counts: output `y`: the model has no output"
        );
        fs::write(&file, "name: 'other'").unwrap();
        assert!(
            told(&model)
                .unwrap()
                .ends_with("which counts: name: found other, served as m")
        );
        fs::write(&file, "name: 'm'").unwrap();
        assert_eq!(told(&model), None);
        fs::write(&file, "name: 'other'").unwrap();
        let by_flag = ModelConfig {
            name: "another".into(),
            ..model.clone()
        };
        assert_eq!(told(&by_flag), None);
        fs::write(&file, "output {").unwrap();
        assert_eq!(told(&model), None);
        model.load.settings_error = Some("cannot read".into());
        fs::write(&file, "output { name: \"y\" }").unwrap();
        assert_eq!(told(&model), None);
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
    fn a_file_that_is_no_text_is_ignored_with_its_error() {
        let (warning, _, asks) = read("sequence_batching {");
        let expected = "FILE is ignored, since it cannot be read: 1:20: found the end of the text, expected the name \
                        of a field or `}`";
        assert_eq!((warning.as_deref(), asks), (Some(expected), false));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ignored_triton_settings(&model(folder.path(), false)), None);
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
            error(&vec![b' '; LONGEST as usize + 1]),
            @"cannot read FILE: it has more than 1048576 bytes"
        );
        // A model that is refused for it has no warning beside.
        let mut refused = model(folder.path(), false);
        refused.load.settings_error = Some("cannot read".into());
        assert_eq!(ignored_triton_settings(&refused), None);
    }
}
