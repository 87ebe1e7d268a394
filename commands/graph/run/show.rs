//! Output packets as they arrive, and times of each node.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ovms::{
    client::{
        ClientResponse,
        output::{self, Summary},
    },
    graph::{CalculatorStep, GraphObserver, GraphPlan, Timestamp, convert::TIMESTAMP},
    request::{InferResponse, LooseTensor, Parameter},
    tensor::{DataType, ShapeText, Tensor, TensorMap},
};
use serde_json::{Value, json};

use crate::{
    local::microseconds,
    ui::{Look, OutputFormat, Table, visible},
};

/// Width of timestamps at the start of lines.
const PLACES: usize = 4;

/// Maximum number of characters shown of an output that is not a tensor.
const SHOWN: usize = 32;

/// Times of the nodes of a run.
pub(super) struct Times(Mutex<Vec<Took>>);

/// Time of one node.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    /// Number of calls with packets.
    runs: usize,
    /// Total time of these calls.
    ran: Duration,
    longest: Duration,
    /// Time of open and close.
    around: Duration,
}

/// End of a run.
pub(super) struct Ending<'a> {
    pub(super) took: Duration,
    pub(super) error: Option<&'a str>,
}

impl Times {
    pub(super) fn new(plan: &GraphPlan) -> Self {
        Self(Mutex::new(vec![Took::default(); plan.nodes.len()]))
    }

    fn all(&self) -> Vec<Took> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl GraphObserver for Times {
    fn ran(&self, node: usize, step: CalculatorStep, _: Timestamp, _: Instant, took: Duration) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = nodes.get_mut(node) else {
            return;
        };
        match step {
            CalculatorStep::Process => {
                node.runs += 1;
                node.ran += took;
                node.longest = node.longest.max(took);
            }
            CalculatorStep::Open | CalculatorStep::Close => node.around += took,
        }
    }
}

/// Writes an output packet of the graph as a line.
pub(super) fn packet(format: OutputFormat, response: &InferResponse) -> String {
    let at = response
        .parameters
        .iter()
        .find_map(|(key, value)| match value {
            Parameter::Int(at) if key == TIMESTAMP => Some(*at),
            _ => None,
        });
    let (tensors, opaque) = taken_apart(response);
    if format == OutputFormat::Json {
        return as_json(at, tensors, &opaque);
    }
    let mut line = match at {
        Some(at) => format!("{at:>PLACES$}"),
        None => format!("{:>PLACES$}", "-"),
    };
    for (name, tensor) in tensors.iter() {
        let it = Summary::new(name, tensor);
        line.extend([format!(
            "  {}: {} {} {}",
            it.name, it.dtype, it.shape, it.preview
        )]);
    }
    for loose in opaque {
        let (shape, data) = (ShapeText(&loose.shape), shown(&loose.data));
        line.extend([format!(
            "  {}: {} {shape} {data}",
            loose.name, loose.datatype
        )]);
    }
    format!("{}\n", visible(&line))
}

/// Splits the outputs into tensors and others.
fn taken_apart(response: &InferResponse) -> (TensorMap, Vec<&LooseTensor>) {
    let mut tensors: Vec<(String, Tensor)> = response
        .outputs
        .iter()
        .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
        .collect();
    let mut opaque = Vec::new();
    for loose in &response.loose {
        let lengths = loose
            .shape
            .iter()
            .map(|length| usize::try_from(*length).ok());
        let shape: Option<Vec<usize>> = lengths.collect();
        // Handlers may call anything BYTES.
        let dtype = DataType::from_kserve(&loose.datatype).filter(|it| *it != DataType::String);
        let tensor = dtype.zip(shape);
        let tensor =
            tensor.and_then(|(dtype, shape)| Tensor::new(dtype, shape, loose.data.clone()).ok());
        match tensor {
            Some(tensor) => tensors.push((loose.name.clone(), tensor)),
            None => opaque.push(loose),
        }
    }
    (TensorMap::from_iter(tensors), opaque)
}

fn as_json(at: Option<i64>, tensors: TensorMap, opaque: &[&LooseTensor]) -> String {
    let answer = output::answer_json(
        &ClientResponse {
            model_name: String::new(),
            model_version: String::new(),
            id: String::new(),
            outputs: tensors,
            opaque: Vec::new(),
        },
        None,
    );
    let mut answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let mut outputs = answer["outputs"].take();
    if let Value::Array(outputs) = &mut outputs {
        for loose in opaque {
            outputs.push(json!({
                "name": loose.name,
                "datatype": loose.datatype,
                "shape": loose.shape,
                "bytes": loose.data.len(),
                "text": text(&loose.data),
            }));
        }
    }
    format!("{}\n", json!({"timestamp": at, "outputs": outputs}))
}

/// Shows the first bytes: as text if they are text.
fn shown(data: &[u8]) -> String {
    match text(data) {
        Some(text) if text.chars().count() <= SHOWN => format!("{text:?}"),
        Some(text) => {
            let start: String = text.chars().take(SHOWN).collect();
            format!("{start:?} …")
        }
        None => output::hexadecimal(data),
    }
}

/// Returns bytes as text: those of one element after its length, or all of them.
fn text(data: &[u8]) -> Option<&str> {
    if let Some((length, rest)) = data.split_first_chunk::<4>()
        && u32::from_le_bytes(*length) as usize == rest.len()
    {
        return std::str::from_utf8(rest).ok();
    }
    std::str::from_utf8(data).ok()
}

/// Writes the times of all nodes.
pub(super) fn end(
    format: OutputFormat,
    plan: &GraphPlan,
    times: &Times,
    ending: &Ending<'_>,
    look: Look,
) -> String {
    let all = times.all();
    let nodes = plan.nodes.iter().zip(&all);
    if format == OutputFormat::Json {
        let nodes = nodes.map(|(node, took)| {
            json!({
                "name": node.spec.name,
                "calculator": node.spec.calculator,
                "runs": took.runs,
                "ran_us": microseconds(took.ran),
                "longest_us": microseconds(took.longest),
                "open_and_close_us": microseconds(took.around),
            })
        });
        let nodes: Vec<Value> = nodes.collect();
        let took = microseconds(ending.took);
        return format!(
            "{}\n",
            json!({"nodes": nodes, "total_us": took, "error": ending.error})
        );
    }
    let mut table = Table::new().left(["node", "calculator"]).right([
        "runs",
        "mean µs",
        "longest µs",
        "all µs",
        "open, close µs",
    ]);
    for (node, took) in nodes {
        let runs = u32::try_from(took.runs).unwrap_or(u32::MAX);
        let mean = took.ran.checked_div(runs).unwrap_or_default();
        let whole = |time: Duration| format!("{:.0}", microseconds(time));
        table.row([
            node.spec.name.clone(),
            node.spec.calculator.clone(),
            took.runs.to_string(),
            whole(mean),
            whole(took.longest),
            whole(took.ran),
            whole(took.around),
        ]);
    }
    let took = microseconds(ending.took);
    format!("\n{}in all {took:.0} µs\n", table.draw(look))
}
