//! Connections from outputs to inputs: from models to the nodes of a pipeline.

use std::{
    collections::HashSet,
    fmt::{self, Display},
};

use askama::Template;
use ovms::{
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim},
};

use crate::{error::Failure, ui};

/// Name of the request's node.
const REQUEST: &str = "request";

/// Model of one or more nodes.
#[derive(Debug, Clone)]
pub(crate) struct WiredModel {
    /// Name.
    pub(crate) name: String,
    /// Path in the configuration file.
    pub(crate) base_path: String,
    /// Inputs and outputs.
    pub(crate) info: ServableInfo,
}

/// Pipeline to be written.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    pub(super) inputs: Vec<String>,
    /// Number of parts that the request is split into.
    pub(super) splits: Option<i32>,
    pub(super) nodes: Vec<Node>,
    pub(super) outputs: Vec<Wire>,
}

/// Node of a pipeline.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) inputs: Vec<Wire>,
    /// Used outputs of the model.
    pub(super) outputs: Vec<String>,
    /// Number of parts that the outputs are split into.
    pub(super) splits: Option<i32>,
    /// Demultiplexer whose parts are gathered before it runs.
    pub(super) gathers: Option<String>,
}

/// Connection to an input.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) to: String,
    pub(super) from: String,
    pub(super) item: String,
    /// Name of the tensor.
    pub(super) tensor: String,
}

/// Writes datatype and shape: `FP32 (1,10)`.
pub(super) fn described(tensor: &TensorInfo) -> String {
    format!("{} {}", tensor.dtype.precision(), tensor.shape)
}

fn line(tensor: &TensorInfo) -> String {
    format!("{}: {}", tensor.name, described(tensor))
}

fn fits(output: &TensorInfo, input: &TensorInfo) -> bool {
    let (given, taken) = (&output.shape.0, &input.shape.0);
    output.dtype == input.dtype
        && output.dtype != DataType::String
        && given.len() == taken.len()
        && given.iter().zip(taken).all(|(a, b)| meet(*a, *b))
}

/// Returns whether an input has the shape of an image with 3 channels.
fn takes_image(input: &TensorInfo) -> bool {
    let channels = Dim::Fixed(3);
    matches!(input.shape.0[..], [_, a, _, b] if a == channels || b == channels)
}

/// Returns whether there is a length that both allow.
fn meet(a: Dim, b: Dim) -> bool {
    let bounds = |dim| match dim {
        Dim::Fixed(length) => (length, length),
        Dim::Range(low, high) => (low, high),
        Dim::Any => (0, usize::MAX),
    };
    let (a, b) = (bounds(a), bounds(b));
    a.0.max(b.0) <= a.1.min(b.1)
}

/// Chooses an output for each input: one with its name if that fits, else the first free one that
/// fits.
fn choose(inputs: &[TensorInfo], outputs: &[TensorInfo]) -> Vec<Option<usize>> {
    let mut used = HashSet::new();
    let mut chosen = vec![None; inputs.len()];
    for by_name in [true, false] {
        for (input, chosen) in inputs.iter().zip(&mut chosen) {
            if chosen.is_none() {
                *chosen = outputs.iter().enumerate().position(|(index, output)| {
                    let named = !by_name || output.name == input.name;
                    named && fits(output, input) && !used.contains(&index)
                });
                used.extend(*chosen);
            }
        }
    }
    chosen
}

/// Connects models in a row; inputs that the previous model does not feed come from the request.
pub(super) fn chain(steps: &[&WiredModel]) -> Result<Wiring, Failure> {
    let mut weaver = Weaver::new();
    for step in steps {
        weaver.step(step)?;
    }
    Ok(weaver.end())
}

/// Splits the outputs of the first model and runs the others for each part; a model that takes
/// all parts gathers them, else the response does. A single model runs for each part of the
/// request.
pub(super) fn demultiplexer(steps: &[&WiredModel]) -> Result<Wiring, Failure> {
    let [first, others @ ..] = steps else {
        return chain(steps);
    };
    let mut inputs = first.info.inputs.iter();
    // They can be neither split nor gathered.
    if let Some(input) = inputs.find(|input| input.dtype == DataType::String) {
        let (model, input) = (&first.name, &input.name);
        return Err(Failure::failed(format!(
            "the model `{model}` cannot be at a demultiplexer: its input `{input}` has strings"
        )));
    }
    let mut weaver = Weaver::new();
    weaver.step(first)?;
    match others {
        [] => weaver.wiring.splits = Some(-1),
        _ => weaver.split(parts(first)?),
    }
    for step in others {
        weaver.step(step)?;
    }
    Ok(weaver.end())
}

/// Returns the number of parts in the outputs of a model, as a setting and as a dimension.
fn parts(model: &WiredModel) -> Result<(i32, Dim), Failure> {
    let refuse = |reason: String| {
        let text = format!(
            "the outputs of the model `{}` cannot be split: {reason}",
            model.name
        );
        Err(Failure::failed(text))
    };
    let mut fixed: Option<(&str, usize)> = None;
    let mut dynamic = false;
    for output in &model.info.outputs {
        let (name, shape) = (&output.name, &output.shape);
        let &[first, _, ..] = &shape.0[..] else {
            let text = format!("`{name}` has the shape {shape}, and needs at least 2 dimensions");
            return refuse(text);
        };
        if output.dtype == DataType::String {
            return refuse(format!("`{name}` has strings"));
        }
        match (fixed, first) {
            (Some((other, count)), Dim::Fixed(length)) if count != length => {
                return refuse(format!(
                    "`{other}` has {count} parts, and `{name}` {length}"
                ));
            }
            (_, Dim::Fixed(length)) => fixed = Some((name, length)),
            _ => dynamic = true,
        }
    }
    match fixed {
        None if !dynamic => refuse("there are none".to_owned()),
        Some((_, length)) if !dynamic => match i32::try_from(length) {
            Ok(count @ 1..=10_000) => Ok((count, Dim::Fixed(length))),
            _ => refuse(format!("{length} parts are not 1 to 10000")),
        },
        _ => Ok((-1, Dim::Any)),
    }
}

/// Builder of a pipeline.
struct Weaver {
    wiring: Wiring,
    /// Names of nodes.
    nodes: HashSet<String>,
    /// Outputs of the last node.
    given: Vec<TensorInfo>,
    /// Current level of demultiplexing: the demultiplexer, and its number of parts.
    level: Option<(String, Dim)>,
}

impl Weaver {
    fn new() -> Self {
        Self {
            wiring: Wiring::default(),
            nodes: [REQUEST, "response"].map(str::to_owned).into(),
            given: Vec::new(),
            level: None,
        }
    }

    /// Adds a node behind the last one.
    fn step(&mut self, model: &WiredModel) -> Result<(), Failure> {
        let inputs = &model.info.inputs;
        let name = unique(&model.name, &self.nodes);
        let chosen = choose(inputs, &self.given);
        let complete = chosen.iter().all(Option::is_some);
        let mut gathers = None;
        let chosen = match (&self.level, self.wiring.nodes.last()) {
            (_, None) => chosen,
            (None, Some(_)) if chosen.iter().any(Option::is_some) => chosen,
            // What comes from the request is no part, and cannot meet one.
            (Some(_), Some(_)) if complete => chosen,
            (Some((from, parts)), Some(last)) if last.splits.is_none() => {
                let mut whole = self.given.clone();
                for given in &mut whole {
                    given.shape.0.insert(0, *parts);
                }
                let chosen = choose(inputs, &whole);
                if !chosen.iter().all(Option::is_some) {
                    return Err(self.misfit(&name, inputs, &chosen));
                }
                gathers = Some(from.clone());
                self.given = whole;
                chosen
            }
            _ => return Err(self.misfit(&name, inputs, &chosen)),
        };
        if gathers.is_some() {
            self.level = None;
        }
        let wires = inputs.iter().zip(chosen);
        let wires = wires.map(|(input, chosen)| self.wire(&name, input, chosen));
        let node = Node {
            inputs: wires.collect(),
            name: name.clone(),
            model: model.name.clone(),
            outputs: Vec::new(),
            splits: None,
            gathers,
        };
        self.nodes.insert(name);
        self.wiring.nodes.push(node);
        self.given.clone_from(&model.info.outputs);
        Ok(())
    }

    /// Connects an input to an output of the last node, or to the request.
    fn wire(&mut self, node: &str, input: &TensorInfo, chosen: Option<usize>) -> Wire {
        let last = self.wiring.nodes.last_mut();
        if let (Some(output), Some(last)) = (chosen, last) {
            let given = &self.given[output];
            last.outputs.push(given.name.clone());
            return Wire {
                to: input.name.clone(),
                from: last.name.clone(),
                item: given.name.clone(),
                tensor: described(given),
            };
        }
        let inputs = &mut self.wiring.inputs;
        let taken: HashSet<String> = inputs.iter().cloned().collect();
        let item = match taken.contains(&input.name) {
            true => unique(&format!("{node}_{}", input.name), &taken),
            false => input.name.clone(),
        };
        inputs.push(item.clone());
        Wire {
            to: input.name.clone(),
            from: REQUEST.to_owned(),
            item,
            tensor: described(input),
        }
    }

    /// Splits the outputs of the last node.
    fn split(&mut self, (count, parts): (i32, Dim)) {
        let Some(last) = self.wiring.nodes.last_mut() else {
            return;
        };
        last.splits = Some(count);
        self.level = Some((last.name.clone(), parts));
        for given in &mut self.given {
            given.shape.0.remove(0);
        }
    }

    /// Returns the failure for a node that the last one does not feed.
    fn misfit(&self, to: &str, inputs: &[TensorInfo], chosen: &[Option<usize>]) -> Failure {
        let last = self.wiring.nodes.last();
        let from = last.map_or(REQUEST, |last| &last.name);
        let parts = match last.and_then(|last| last.splits) {
            Some(_) => " for each part",
            None => "",
        };
        let given = self.given.iter();
        let gives = given.map(|given| format!("{from} gives {}{parts}", line(given)));
        let takes = inputs.iter().zip(chosen).map(|(input, chosen)| {
            let nothing = if chosen.is_some() {
                ""
            } else {
                " - nothing fits"
            };
            format!("{to} takes {}{nothing}", line(input))
        });
        let failure = Failure::failed(format!(
            "the outputs of `{from}` do not fit the inputs of `{to}`"
        ));
        let hint = "connect other models, or put a custom node between: `ovms pipeline new \
                    --custom-node NAME`, or --python-node";
        let crops =
            "; for a detector and a model that takes its crops, use `ovms pipeline new detection`";
        let more = if inputs.iter().any(takes_image) {
            crops
        } else {
            ""
        };
        let hint = format!("{hint}{more}");
        gives.chain(takes).fold(failure, Failure::detail).hint(hint)
    }

    /// Connects all outputs of the last node to the response.
    fn end(mut self) -> Wiring {
        if let Some(last) = self.wiring.nodes.last_mut() {
            for given in &self.given {
                last.outputs.push(given.name.clone());
                self.wiring.outputs.push(Wire {
                    to: given.name.clone(),
                    from: last.name.clone(),
                    item: given.name.clone(),
                    tensor: described(given),
                });
            }
        }
        self.wiring
    }
}

/// Returns the name, with a number appended if it is taken.
pub(super) fn unique(name: &str, taken: &HashSet<String>) -> String {
    let mut numbered = (2..).map(|number| format!("{name}_{number}"));
    match taken.contains(name) {
        true => numbered
            .find(|name| !taken.contains(name))
            .unwrap_or_default(),
        false => name.to_owned(),
    }
}

/// Configuration file of a new pipeline.
#[derive(Template)]
#[template(path = "pipeline.json.jinja")]
pub(super) struct PipelineText<'a> {
    /// Name of the pipeline.
    pub(super) name: &'a str,
    /// Kind, as typed.
    pub(super) kind: &'a str,
    /// Name of the file.
    pub(super) file: &'a str,
    pub(super) models: &'a [WiredModel],
    pub(super) wiring: &'a Wiring,
}

impl PipelineText<'_> {
    /// Returns the demultiplexer that only the response gathers.
    fn gathered(&self) -> Option<&str> {
        let gathers = self.wiring.nodes.iter().any(|node| node.gathers.is_some());
        let mut nodes = self.wiring.nodes.iter();
        let splits = nodes.find(|node| node.splits.is_some())?;
        (!gathers).then_some(&*splits.name)
    }

    /// Returns an output of the model of a node.
    fn output(&self, node: &Node, name: &str) -> Option<&TensorInfo> {
        let model = self.models.iter().find(|model| model.name == node.model)?;
        model.info.outputs.iter().find(|output| output.name == name)
    }
}

/// Writes a text as a JSON string.
pub(super) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Text in a comment, which ends with the line.
pub(super) struct Comment<T>(pub(super) T);

impl<T: AsRef<str>> Display for Comment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.as_ref().replace(ui::steers, " "))
    }
}
