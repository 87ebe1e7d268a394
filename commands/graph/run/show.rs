//! Output packets as they arrive, and times of each node.

use std::time::{Duration, Instant};

use ovms::{
    client::{
        ClientResponse,
        output::{self, Summary},
    },
    graph::{CalculatorStep, GraphObserver, GraphPlan, TIMESTAMP, Timestamp},
    request::{InferResponse, LooseTensor, Parameter},
    tensor::{DataType, ShapeText, Tensor, TensorMap, strings::Strings},
    text::first_chars,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    local::microseconds,
    ui::{Look, OutputFormat, Table, visible},
};

/// Width of timestamps at the start of lines.
const PLACES: usize = 4;

/// Maximum number of characters shown of an output that is not a tensor.
const MAX_SHOWN: usize = 32;

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

impl Times {
    pub(super) fn new(plan: &GraphPlan) -> Self {
        Self(Mutex::new(vec![Took::default(); plan.nodes.len()]))
    }

    /// Writes the times of all nodes, and how the run ended, as one JSON object.
    pub(super) fn json(&self, plan: &GraphPlan, took: Duration, error: Option<&str>) -> String {
        let all = self.0.lock();
        let nodes = plan.nodes.iter().zip(&*all).map(|(node, took)| {
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
        let end = json!({"nodes": nodes, "total_us": microseconds(took), "error": error});
        format!("{end}\n")
    }

    /// Writes the times of all nodes as a table.
    pub(super) fn table(&self, plan: &GraphPlan, took: Duration) -> String {
        let times = ["runs", "mean µs", "longest µs", "all µs", "open, close µs"];
        let mut table = Table::new().left(["node", "calculator"]).right(times);
        for (node, took) in plan.nodes.iter().zip(&*self.0.lock()) {
            let runs = u32::try_from(took.runs).unwrap_or(u32::MAX);
            let mean = took.ran.checked_div(runs).unwrap_or_default();
            let times = [mean, took.longest, took.ran, took.around];
            let times = times.map(|time| format!("{:.0}", microseconds(time)));
            let names = [&node.spec.name, &node.spec.calculator].map(String::clone);
            table.row(
                names
                    .into_iter()
                    .chain([took.runs.to_string()])
                    .chain(times),
            );
        }
        let took = microseconds(took);
        format!("\n{}in all {took:.0} µs\n", table.draw(Look::of_stdout()))
    }
}

impl GraphObserver for Times {
    fn ran(&self, node: usize, step: CalculatorStep, _: Timestamp, _: Instant, took: Duration) {
        let mut nodes = self.0.lock();
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
    let mut parameters = response.parameters.iter();
    let at = parameters.find_map(|(key, value)| match value {
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
        let (name, dtype) = (it.name, it.dtype);
        line.extend([format!("  {name}: {dtype} {} {}", it.shape, it.preview)]);
    }
    for loose in opaque {
        let (name, datatype) = (&loose.name, &loose.datatype);
        let (shape, data) = (ShapeText(&loose.shape), shown(&loose.data));
        line.extend([format!("  {name}: {datatype} {shape} {data}")]);
    }
    format!("{}\n", visible(&line))
}

/// Splits the outputs into tensors and others.
fn taken_apart(response: &InferResponse) -> (TensorMap, Vec<&LooseTensor>) {
    let (mut tensors, mut opaque) = (response.outputs.clone(), Vec::new());
    for loose in &response.loose {
        let lengths = loose
            .shape
            .iter()
            .map(|length| usize::try_from(*length).ok());
        let shape: Option<Vec<usize>> = lengths.collect();
        let tensor = DataType::from_kserve(&loose.datatype).zip(shape);
        let tensor =
            tensor.filter(|(dtype, shape)| *dtype != DataType::String || are_strings(loose, shape));
        let tensor =
            tensor.and_then(|(dtype, shape)| Tensor::new(dtype, shape, loose.data.clone()).ok());
        match tensor {
            Some(tensor) => tensors.push((loose.name.clone(), tensor)),
            None => opaque.push(loose),
        }
    }
    (tensors, opaque)
}

/// Returns whether an output is several strings. Handlers may call anything BYTES, and one string is a text.
fn are_strings(output: &LooseTensor, shape: &[usize]) -> bool {
    // Whatever a handler calls its shape need not fit into a number.
    let mut lengths = shape.iter();
    let count = lengths.try_fold(1, |count: usize, length| count.checked_mul(*length));
    let strings = Strings::new(output.data.clone());
    strings.is_ok_and(|it| it.count() > 1 && Some(it.count()) == count)
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
        &[],
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
        Some(text) => {
            let start = first_chars(text, MAX_SHOWN);
            let more = if start.len() < text.len() { " …" } else { "" };
            format!("{start:?}{more}")
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
