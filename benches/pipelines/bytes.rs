//! Splitting and gathering alone: a flow that passes every part on unchanged, without running nodes.

use std::{path::Path, sync::Arc};

use ovms::{
    budget::Budget,
    config::{Defaults, NodeConfig, parse},
    pipeline::{
        CustomError, CustomFacts, MissingModel, ModelFacts, PipelinePlan, RequestFlow, Sources,
        check,
    },
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, Tensor},
};

use super::{
    PARTS, copy, in_ms, in_turn, median_us,
    served::{node, pipeline},
};
use crate::report::row::Row;
use serde_json::json;

/// Shape of a part: 600 KB.
const SHAPE: [usize; 4] = [1, 3, 224, 224];

/// Rounds of one turn.
const ROUNDS: usize = 5;

/// A model that returns its input.
struct Known;

impl Sources for Known {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, _name: &str, _version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let tensor = |name: &str| TensorInfo {
            name: name.to_owned(),
            dtype: DataType::F32,
            shape: PartialShape(SHAPE.map(Dim::Fixed).to_vec()),
            layout: Layout::unspecified(SHAPE.len()),
            is_open: false,
            port: 0,
        };
        Ok(ModelFacts {
            info: ServableInfo::new(vec![tensor("x")], vec![tensor("y")]),
            stateful: false,
            auto: false,
        })
    }

    fn custom(&self, _node: &NodeConfig, _library: &str) -> Result<CustomFacts, CustomError> {
        Err(CustomError::Library(Vec::new()))
    }
}

/// Measures splitting and gathering.
pub(super) fn run(pairs: usize) -> Vec<Row> {
    let plan = plan();
    let elements = PARTS * SHAPE.iter().product::<usize>();
    let bytes: Vec<u8> = (0..elements)
        .flat_map(|index| (index as f32).to_le_bytes())
        .collect();
    let shape = [&[PARTS], &SHAPE[..]].concat();
    let whole = Tensor::new(DataType::F32, shape, bytes.into()).expect("as many bytes");
    let (result, copied) = round(&plan, &whole);
    assert!(result == whole, "every part is in its place");
    let copies = copied as f64 / whole.data().len() as f64;
    let [ours, one] = in_turn(
        pairs,
        || {
            median_us(ROUNDS, || {
                std::hint::black_box(round(&plan, &whole));
            })
        },
        || {
            median_us(ROUNDS, || {
                std::hint::black_box(copy(whole.data()));
            })
        },
    );
    let sides = [in_ms("both", &ours), in_ms("one copy", &one)];
    let [parts, whole] = in_turn(
        pairs,
        || {
            median_us(ROUNDS, || {
                std::hint::black_box(copy_parts(whole.data()));
            })
        },
        || {
            median_us(ROUNDS, || {
                std::hint::black_box(copy(whole.data()));
            })
        },
    );
    let raw = [in_ms("64 copies", &parts), in_ms("one copy", &whole)];
    vec![
        Row::new("split-bytes", vec![copies]),
        Row::ratio("split-time", sides),
        Row::ratio("split-parts", raw),
    ]
}

/// Copies bytes into new memory by as many calls as they are parts.
fn copy_parts(bytes: &[u8]) -> Vec<u8> {
    let mut copied = Vec::with_capacity(bytes.len());
    for part in bytes.chunks_exact(bytes.len() / PARTS) {
        copied.extend_from_slice(std::hint::black_box(part));
    }
    copied
}

/// Splits a tensor and gathers the parts. Returns the result and the number of bytes copied: those
/// whose address has changed.
fn round(plan: &Arc<PipelinePlan>, whole: &Tensor) -> (Tensor, usize) {
    let inside = whole.data().as_ptr_range();
    let mut copied = 0;
    let mut count = |tensors: &[Tensor]| {
        for tensor in tensors {
            if !inside.contains(&tensor.data().as_ptr()) {
                copied += tensor.data().len();
            }
        }
    };
    let (mut flow, mut jobs) =
        RequestFlow::start(Arc::clone(plan), vec![whole.clone()]).expect("it can be split");
    let mut given = Vec::new();
    while let Some(job) = jobs.pop() {
        let ready = job.ready;
        let tensors = job
            .tensors(plan, &Budget::default())
            .expect("parts are alike");
        count(&tensors);
        if ready.node == plan.exit() {
            given = tensors;
            break;
        }
        jobs.extend(flow.finished(ready, tensors).expect("it goes on"));
    }
    (given.pop().expect("there is one output"), copied)
}

fn plan() -> Arc<PipelinePlan> {
    let inputs = json!([{"x": {"node_name": "request", "data_item": "x"}}]);
    let nodes = [node("part", "m", &inputs, "y")];
    let config = json!({
        "model_config_list": [],
        "pipeline_config_list": [pipeline("split", &["x"], &nodes, ("part", "y"), Some(PARTS))],
    });
    let parsed = parse(
        config.to_string().as_bytes(),
        Path::new("/config.json"),
        &Defaults::default(),
    );
    let config = parsed.expect("the file is right").pipelines.remove(0);
    Arc::new(check(&config, &Known).expect("the pipeline is right").plan)
}
