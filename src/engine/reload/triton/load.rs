//! Settings of a `config.pbtxt` that a configuration file has as keys of a model, though a server follows them nowhere.

use std::path::Path;

use super::{file_of, read};
use crate::{config::ModelConfig, graph::OutlineField, model::storage, openvino::Batching};

/// Instances of a model.
const INSTANCES: &str = "instance_group";

/// The most rows of a batch, and the range of it.
const ROWS: &str = "max_batch_size";
const ROWS_RANGE: (u64, u64) = (2, 1024);

/// How long a request waits for others there, and the most of it here.
const DELAY: &str = "dynamic_batching.max_queue_delay_microseconds";
const MOST_DELAY: u64 = 1_000_000;

/// The most instances that are taken over.
const MOST_INSTANCES: u32 = 1024;

/// Settings of a `config.pbtxt` in terms of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TritonLoad {
    /// Instances on the CPU, each of which runs a request.
    pub instances: Option<u32>,
    /// Rows of a batch, and how long a request waits for others, in microseconds.
    pub batching: Option<(u64, u64)>,
}

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
    TritonLoad {
        instances: is_free.then(|| instances(&fields)).flatten(),
        batching: can_batch.then(|| batching(&fields)).flatten(),
    }
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
    (1..=MOST_INSTANCES).contains(&sum).then_some(sum)
}

/// Returns rows and delay of batches, where there may be batches.
fn batching(fields: &[OutlineField]) -> Option<(u64, u64)> {
    let field = |name: &str| fields.iter().find(|field| field.path == name);
    let number = |name: &str| field(name).and_then(|field| field.value()?.parse::<u64>().ok());
    field("dynamic_batching")?;
    let rows = number(ROWS).filter(|rows| *rows >= ROWS_RANGE.0)?;
    let delay = number(DELAY).unwrap_or(0).min(MOST_DELAY);
    Some((rows.min(ROWS_RANGE.1), delay))
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
