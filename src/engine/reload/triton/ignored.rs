//! Settings of a `config.pbtxt` that have no effect here, with their counterparts, and what Triton does not have either.

use std::path::Path;

use super::{
    FILE_NAME, SEQUENCES, Unreadable, file_of, has_versions,
    policy::{self, POLICY},
    read,
};
use crate::{
    config::{ModelConfig, VersionPolicy},
    error::nearest,
    graph::OutlineField,
    model::{
        others::{TO_GRAPH, TO_PIPELINE},
        storage,
    },
    openvino::Batching,
};

/// Time after which sequences end without a request there.
const IDLE: &str = "sequence_batching.max_sequence_idle_microseconds";

/// Steps of several sequences that run together there.
const OLDEST: &str = "sequence_batching.oldest";

/// Setting of models that give any number of answers to a request.
const DECOUPLED: &str = "model_transaction_policy.decoupled";

/// Inputs of a model that Triton fills as sequences begin and end.
pub(super) const CONTROLS: &str = "sequence_batching.control_input";

/// Counterpart of the policies of queues.
const QUEUE: &str = "set max_queued_requests of the server; clients send a timeout with a request";

/// Settings that are not read, with what is set here instead.
const COUNTERPARTS: [(&str, &str); 29] = [
    ("backend", TO_PIPELINE),
    (
        POLICY,
        "set model_version_policy; the latest version alone is served",
    ),
    (
        "instance_group",
        "set nireq, NUM_STREAMS in plugin_config, and target_device",
    ),
    (
        "instance_group.rate_limiter",
        "models are not scheduled by resources",
    ),
    ("dynamic_batching", "set dynamic_batching"),
    ("dynamic_batching.default_queue_policy", QUEUE),
    ("dynamic_batching.priority_queue_policy", QUEUE),
    (
        "dynamic_batching.priority_levels",
        "every model has ten, of which 5 is usual",
    ),
    (SEQUENCES, "set stateful"),
    (
        CONTROLS,
        "no input is filled here; clients send sequence_id, sequence_start, and sequence_end as parameters, or the \
         inputs sequence_id and sequence_control_input",
    ),
    (IDLE, "set sequence_cleaner_poll_wait_minutes of the server"),
    (OLDEST, "set sequence_batch, and max_sequence_number"),
    (
        "sequence_batching.state",
        "the variables of the model are its state",
    ),
    (
        "ensemble_scheduling",
        "define a pipeline in a configuration file",
    ),
    ("optimization", "set plugin_config"),
    ("parameters", "set plugin_config"),
    ("model_warmup", "set warmup"),
    (FILE_NAME, "the model file is found by its ending"),
    ("response_cache", "there is no such cache"),
    (DECOUPLED, TO_GRAPH),
    ("input.reshape", "clients send the shape that the model has"),
    ("output.reshape", "clients get the shape that the model has"),
    ("input.optional", "a request has every input"),
    ("input.allow_ragged_batch", "rows have one shape"),
    ("batch_input", "no input is filled here"),
    ("batch_output", "no output is split here"),
    ("model_operations", "set cpu_extension of the server"),
    ("model_repository_agents", "there are none"),
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
    let asks_for_latest = matches!(
        policy::read(&fields),
        Ok(None | Some(VersionPolicy::Latest(1)))
    );
    let is_decoupled = fields
        .iter()
        .any(|field| field.path == DECOUPLED && field.value() == Some("true"));
    let is_meant = |name: &str, value: Option<&str>| match name {
        SEQUENCES => model.stateful.is_none(),
        IDLE => model.stateful.is_some(),
        OLDEST => model.stateful.is_some() && load.batching == Batching::Off,
        DECOUPLED | "input.optional" | "input.allow_ragged_batch" => value == Some("true"),
        // What is set here counts, and one version alone is what was asked for.
        POLICY => {
            let is_usual = model.policy == VersionPolicy::default();
            is_usual && has_versions(Path::new(&model.base_path), &file) && !asks_for_latest
        }
        "instance_group" => load.nireq == 0 && load.device == "CPU",
        "dynamic_batching" => load.batching == Batching::Off,
        "optimization" | "parameters" => !model.has_plugin_config(),
        "model_warmup" => model.warmup.is_empty(),
        // It is followed where the model lies in a folder of its own.
        FILE_NAME => load.model_file.is_none() && !Path::new(&model.base_path).is_file(),
        // What it becomes is reported with that.
        "backend" => value == Some("python") && !is_decoupled,
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
    let parts: Vec<String> = [ignored, unknown, types].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns whether a value is one of `data_type`; a number stands for one, too.
pub(super) fn is_type(value: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{KNOWN, TYPES, ignored_triton_settings};
    use crate::{
        config::VersionPolicy,
        engine::reload::triton::{settings, tests::model},
        openvino::{BatchOption, Batching},
    };

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
        let expected = "ignored settings of FILE: instance_group (set nireq, \
                        NUM_STREAMS in plugin_config, and target_device), dynamic_batching (set dynamic_batching), parameters (set plugin_config)";
        let expected = Some(expected.to_owned());
        assert_eq!(read(text), (expected.clone(), expected, false));
        let python = read("backend: \"python\"").0;
        let expected = "ignored settings of FILE: backend (make it a pipeline with `ovms pipeline new --python-node`, which keeps its names)";
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
    fn types_that_triton_does_not_have_are_reported_with_their_places() {
        let note = |text| read(text).0.unwrap_or_default();
        insta::assert_snapshot!(
            note("input [\n  { name: \"x\" data_type: FP32 },\n  { name: \"y\" data_type: TYPE_BYTES } ]\noutput { name: \"z\" data_type: TYPE_INT_8 }\noutput { data_type: 'odd' }"),
            @"unknown types of FILE: 2:15 `input.data_type`: found FP32, expected TYPE_FP32, 3:15 `input.data_type`: found TYPE_BYTES, expected TYPE_STRING, 4:20 `output.data_type`: found TYPE_INT_8, expected TYPE_INT8, 5:10 `output.data_type`: found odd, expected a name such as TYPE_FP32"
        );
        for name in TYPES {
            assert_eq!(
                read(&format!("input {{ data_type: TYPE_{name} }}")).0,
                None,
                "{name}"
            );
        }
        assert_eq!(read("input { data_type: 11 }").0, None);
    }

    #[test]
    fn versions_that_are_served_in_place_of_those_of_the_file_are_reported() {
        let said = read("version_policy { specific { versions: [ 1, 2 ] } }").0;
        let expected = "ignored settings of FILE: version_policy (set model_version_policy; the latest version alone is served)";
        assert_eq!(said.as_deref(), Some(expected));
        // That is what is served.
        for text in ["latest { }", "latest { num_versions: 1 }", ""] {
            assert_eq!(read(&format!("version_policy {{ {text} }}")).0, None);
        }
    }

    #[test]
    fn fields_that_triton_does_not_have_are_reported_with_their_places() {
        let note = |text| read(text).0.unwrap_or_default();
        insta::assert_snapshot!(
            note("name: \"m\"\ndynamic_batchin { }\n  frobnicate: 1\ninput [ { name: \"x\" dim: [ 1 ] reshape { shape: [ 1 ] } } ]\nmax_batch_size: 4"),
            @"ignored settings of FILE: input.reshape (clients send the shape that the model has); unknown fields of FILE: 2:1 `dynamic_batchin` (did you mean dynamic_batching?), 3:3 `frobnicate`, 4:21 `input.dim` (did you mean dims?)"
        );
        let every = KNOWN.map(|name| format!("{name} {{ }}")).join("\n");
        assert!(!note(&every).contains("unknown"), "{}", note(&every));
        assert_eq!(
            note("input { name: 'x' format: FORMAT_NONE optional: false }"),
            ""
        );
    }

    #[test]
    fn policies_of_queues_are_reported_beside_batches_that_are_set_here() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.pbtxt");
        let text = "instance_group { count: 2 rate_limiter { priority: 1 } } max_batch_size: 8 dynamic_batching { \
                    preferred_batch_size: 4 priority_levels: 3 \
                    default_queue_policy { default_timeout_microseconds: 1000 max_queue_size: 3 } }";
        fs::write(&file, text).unwrap();
        let mut model = model(folder.path(), false);
        model.load.batching = Batching::Auto;
        model.load.nireq = 2;
        let warning = ignored_triton_settings(&model).unwrap();
        insta::assert_snapshot!(
            warning.replace(&file.display().to_string(), "FILE"),
            @"ignored settings of FILE: instance_group.rate_limiter (models are not scheduled by resources), dynamic_batching.default_queue_policy (set max_queued_requests of the server; clients send a timeout with a request), dynamic_batching.priority_levels (every model has ten, of which 5 is usual)"
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
    fn what_has_no_counterpart_is_reported_if_it_is_on() {
        let text = "sequence_batching { oldest { max_candidate_sequences: 4 } state [ { input_name: 'i' } ] }\n\
                    model_transaction_policy { decoupled: true } output { reshape { } }\n\
                    input { optional: true allow_ragged_batch: true } batch_input { } model_operations { }";
        let with = read(text).1.unwrap();
        let expected = "ignored settings of FILE: sequence_batching.oldest (set sequence_batch, and max_sequence_number), \
                        sequence_batching.state (the variables of the model are its state), \
                        model_transaction_policy.decoupled (make it a graph with `ovms graph new --generative`, whose \
                        inputs and outputs have lower-case names), \
                        output.reshape (clients get the shape that the model has), input.optional (a request has every \
                        input), input.allow_ragged_batch (rows have one shape), batch_input (no input is filled here), \
                        model_operations (set cpu_extension of the server)";
        assert_eq!(with, expected);
        let text = "model_transaction_policy { decoupled: false } input { optional: false }";
        assert_eq!(read(text).0, None);
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
    fn a_file_that_is_no_text_is_ignored_with_its_error() {
        let (warning, _, asks) = read("sequence_batching {");
        let expected = "FILE is ignored, since it cannot be read: 1:20: found the end of the text, expected the name \
                        of a field or `}`";
        assert_eq!((warning.as_deref(), asks), (Some(expected), false));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ignored_triton_settings(&model(folder.path(), false)), None);
    }
}
