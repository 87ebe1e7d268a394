//! Settings of a `config.pbtxt` that a configuration file has as keys of a model, though a server follows them nowhere.

use std::{collections::BTreeMap, path::Path};

use super::{file_of, read};
use crate::{config::ModelConfig, graph::OutlineField, model::storage, openvino::Batching};

/// Instances of a model.
const INSTANCES: &str = "instance_group";

/// Key of the maximum number of rows of a batch, and the range of it.
const ROWS: &str = "max_batch_size";
const ROWS_RANGE: (u64, u64) = (2, 1024);

/// Setting of the time that a request waits for others there, and the maximum here.
const DELAY: &str = "dynamic_batching.max_queue_delay_microseconds";
const MAX_DELAY: u64 = 1_000_000;

/// Maximum number of instances that are taken over.
const MAX_INSTANCES: u32 = 1024;

/// Settings of a `config.pbtxt` in terms of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TritonLoad {
    /// Instances on the CPU, each of which runs a request.
    pub instances: Option<u32>,
    /// Rows of a batch, and how long a request waits for others, in microseconds.
    pub batching: Option<(u64, u64)>,
    /// Properties of the device, if it takes all that are given.
    pub properties: Vec<(String, u32)>,
    /// Warm-up requests: how often each is run, and what its inputs hold.
    pub warmup: Vec<(u32, &'static str)>,
    /// Values that are less here than the file asks for, in words.
    pub cut: Vec<String>,
}

/// Properties of the device.
const PROPERTIES: &str = "parameters";
const KNOWN_PROPERTIES: [&str; 2] = ["INFERENCE_NUM_THREADS", "NUM_STREAMS"];

/// Warm-up requests.
const WARMUP: &str = "model_warmup";

/// Reads what of the `config.pbtxt` of a model is not set here, and can be. Blocks.
pub fn triton_load(model: &ModelConfig) -> TritonLoad {
    if storage::is_remote(&model.base_path) {
        return TritonLoad::default();
    }
    let Some(Ok(fields)) = read(&file_of(Path::new(&model.base_path))) else {
        return TritonLoad::default();
    };
    let load = &model.load;
    let is_free = load.nireq == 0 && load.device == "CPU" && !model.has_plugin_config();
    let can_batch = model.stateful.is_none() && load.batching == Batching::Off;
    let mut found = TritonLoad {
        instances: is_free.then(|| instances(&fields)).flatten(),
        ..TritonLoad::default()
    };
    if is_free {
        found.properties = properties(&fields).unwrap_or_default();
    }
    if model.warmup.is_empty() {
        found.warmup = warmup(&fields).unwrap_or_default();
    }
    if can_batch {
        found.batching = batching(&fields, &mut found.cut);
    }
    found
}

/// Returns the parameters, if all of them are properties of the device; `None` if they are not.
fn properties(fields: &[OutlineField]) -> Option<Vec<(String, u32)>> {
    let mut found = Vec::new();
    let mut key = None;
    for field in fields {
        match field.path.strip_prefix(PROPERTIES) {
            Some(".key") => key = Some(field.value()?),
            Some(".value.string_value") => {
                let key = key.take().filter(|key| KNOWN_PROPERTIES.contains(key))?;
                let value = field.value()?.parse().ok().filter(|value| *value > 0)?;
                found.push((key.to_owned(), value));
            }
            _ => {}
        }
    }
    key.is_none().then_some(found)
}

/// Returns the warm-up requests, if all of them are of one row of zeros, or of random elements.
fn warmup(fields: &[OutlineField]) -> Option<Vec<(u32, &'static str)>> {
    let mut found: BTreeMap<usize, (u32, Option<&'static str>)> = BTreeMap::new();
    for field in fields.iter().filter(|field| field.within > 0) {
        let Some(name) = field.path.strip_prefix(WARMUP) else {
            continue;
        };
        let it = found.entry(field.within).or_insert((1, None));
        let data = match name {
            ".count" => {
                it.0 = field.value()?.parse::<u32>().ok()?.max(1);
                continue;
            }
            ".batch_size" if !matches!(field.value()?, "0" | "1") => return None,
            ".inputs.value.zero_data" => "zeros",
            ".inputs.value.random_data" => "random",
            ".inputs.value.input_data_file" => return None,
            _ => continue,
        };
        match it.1 {
            Some(other) if other != data => return None,
            _ => it.1 = Some(data),
        }
    }
    let found = found.into_values();
    found.map(|(count, data)| Some((count, data?))).collect()
}

/// Returns the number of instances, if there is one for each that runs on the CPU, and none elsewhere.
fn instances(fields: &[OutlineField]) -> Option<u32> {
    let of = |name: &str| format!("{INSTANCES}.{name}");
    let (count, kind) = (of("count"), of("kind"));
    let is_elsewhere = |field: &OutlineField| {
        field.path == kind && !matches!(field.value(), Some("KIND_CPU" | "KIND_AUTO"))
    };
    let is_of_group = |field: &&OutlineField| field.path.starts_with(&of(""));
    let mut groups: Vec<usize> = fields
        .iter()
        .filter(is_of_group)
        .map(|it| it.within)
        .collect();
    groups.dedup();
    if groups.is_empty() || fields.iter().any(is_elsewhere) {
        return None;
    }
    let counts = groups.iter().map(|group| {
        let mut fields = fields.iter();
        let given = fields.find(|field| field.within == *group && field.path == count);
        given.map_or(Some(1), |field| field.value()?.parse::<u32>().ok())
    });
    let counts: Vec<u32> = counts.collect::<Option<_>>()?;
    let sum = counts
        .iter()
        .try_fold(0, |sum: u32, count| sum.checked_add(*count))?;
    (1..=MAX_INSTANCES).contains(&sum).then_some(sum)
}

/// Returns rows and delay of batches, where there may be batches; says what they are less than.
fn batching(fields: &[OutlineField], cut: &mut Vec<String>) -> Option<(u64, u64)> {
    let field = |name: &str| fields.iter().find(|field| field.path == name);
    let number = |name: &str| field(name).and_then(|field| field.value()?.parse::<u64>().ok());
    field("dynamic_batching")?;
    let rows = number(ROWS).filter(|rows| *rows >= ROWS_RANGE.0)?;
    let mut at_most = |value: u64, most: u64, name: &str, key: &str| {
        if value > most {
            cut.push(format!("{name} is {value}, and {key} at most {most}"));
        }
        value.min(most)
    };
    let rows = at_most(rows, ROWS_RANGE.1, ROWS, "max_batch");
    let delay = number(DELAY).unwrap_or(0);
    Some((rows, at_most(delay, MAX_DELAY, DELAY, "max_delay_us")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{TritonLoad, triton_load};
    use crate::{engine::reload::triton::tests::model, openvino::Batching};

    fn read(text: &str) -> TritonLoad {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.pbtxt"), text).unwrap();
        triton_load(&model(folder.path(), false))
    }

    #[test]
    fn batches_have_rows_where_there_is_a_batch_axis() {
        let batching = |text| read(text).batching;
        let all = "max_batch_size: 16 dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }";
        assert_eq!(batching(all), Some((16, 100)));
        assert_eq!(
            batching("max_batch_size: 4096 dynamic_batching { }"),
            Some((1024, 0))
        );
        let long =
            "max_batch_size: 4096 dynamic_batching { max_queue_delay_microseconds: 2000000 }";
        assert_eq!(
            read(long).cut,
            [
                "max_batch_size is 4096, and max_batch at most 1024",
                "dynamic_batching.max_queue_delay_microseconds is 2000000, and max_delay_us at most 1000000",
            ]
        );
        assert_eq!(batching("dynamic_batching { }"), None);
        assert_eq!(batching("max_batch_size: 1 dynamic_batching { }"), None);
        assert_eq!(batching("max_batch_size: 8"), None);
    }

    #[test]
    fn instances_on_the_cpu_are_counted() {
        let instances = |text| read(text).instances;
        for (text, expected) in [
            ("instance_group [ { count: 2 kind: KIND_CPU } ]", Some(2)),
            (
                "instance_group { count: 2 } instance_group { name: \"a\" }",
                Some(3),
            ),
            ("instance_group [ { count: 1 kind: KIND_GPU } ]", None),
            ("instance_group [ { count: 1 kind: KIND_MODEL } ]", None),
            ("instance_group [ { count: many } ]", None),
            ("instance_group [ { count: 5000 } ]", None),
            ("max_batch_size: 8", None),
        ] {
            assert_eq!(instances(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_that_the_device_has_are_properties() {
        let parameter = |key: &str, value: &str| {
            format!("parameters {{ key: '{key}' value: {{ string_value: '{value}' }} }}\n")
        };
        let threads = parameter("INFERENCE_NUM_THREADS", "4");
        let expected = vec![("INFERENCE_NUM_THREADS".to_owned(), 4)];
        assert_eq!(read(&threads).properties, expected);
        for other in [parameter("factor", "2"), parameter("NUM_STREAMS", "AUTO")] {
            assert_eq!(read(&format!("{threads}{other}")).properties, []);
        }
    }

    #[test]
    fn warm_up_requests_of_zeros_or_random_elements_are_taken_over() {
        let warmup = |text: &str| read(text).warmup;
        let of = |rest: &str, data: &str| {
            format!(
                "model_warmup [ {{ name: 'a' {rest} inputs {{ key: 'x' value: {{ dims: [ 4 ] {data} }} }} }} ]"
            )
        };
        let zeros = of("batch_size: 1", "zero_data: true");
        assert_eq!(warmup(&zeros), [(1, "zeros")]);
        let random = of("count: 3", "random_data: true");
        assert_eq!(
            warmup(&format!("{zeros} {random}")),
            [(1, "zeros"), (3, "random")]
        );
        for other in [
            of("batch_size: 8", "zero_data: true"),
            of("", "input_data_file: 'x'"),
            of("", ""),
        ] {
            assert_eq!(warmup(&other), []);
        }
    }

    #[test]
    fn what_is_set_here_counts() {
        let folder = tempfile::tempdir().unwrap();
        let text = "max_batch_size: 8 dynamic_batching { } instance_group { count: 2 }";
        fs::write(folder.path().join("config.pbtxt"), text).unwrap();
        let mut model = model(folder.path(), false);
        model.load.nireq = 3;
        assert_eq!(triton_load(&model).instances, None);
        model.load.batching = Batching::Auto;
        assert_eq!(triton_load(&model), TritonLoad::default());
    }
}
