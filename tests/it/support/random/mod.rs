//! Random valid pipelines: their configuration, and the computations of their nodes.
//!
//! All is FP32 and whole numbers. Nodes are those of the fixture models `dummy` and `add` and of the
//! library `arith.c`.

pub(crate) mod edits;
mod reading;

use std::collections::HashSet;

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Map, Value, json};

use super::{model, nodes::compiled};
pub(crate) use reading::{Nothing, Numbers};

/// An output of a node, or an input of the pipeline if the node is [`REQUEST`].
type Port = (usize, usize);

/// Index of the node that represents the request.
const REQUEST: usize = 0;

/// Maximum depth of nested branches.
const MAX_DEPTH: usize = 4;

/// Number of branches above which no node opens more.
const BRANCHES: usize = 16;

/// Number of nodes above which levels are closed and no further ones opened.
const NODES: usize = 24;

/// Number of elements of a tensor above which no node makes it larger.
const LARGE: usize = 300;

/// Lengths of dimensions, as far as they are known without a request; the unknown one is that of the
/// one dynamic demultiplexer.
type Shape = Vec<Option<usize>>;

/// A pipeline.
#[derive(Debug)]
pub(crate) struct Random {
    pub(crate) name: String,
    nodes: Vec<Node>,
    /// Shapes of the pipeline's inputs, without split dimensions.
    inputs: Vec<Shape>,
    outputs: Vec<Port>,
    /// Demultiplexers that the response gathers from, outermost first.
    open: Vec<usize>,
    /// Allows a dynamic demultiplexer to have no parts.
    allows_nothing: bool,
    pub(crate) seed: u64,
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    sources: Vec<(String, Port)>,
    gathers: Option<usize>,
    split: Option<Split>,
    /// Levels of its outputs, outermost first.
    levels: Vec<usize>,
    /// Shape of its outputs, with split dimensions.
    shape: Shape,
    /// Leaves lengths open in the metadata where it may.
    is_vague: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Split {
    Fixed(usize),
    Dynamic,
}

/// Computation of a node.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Request,
    /// The model `dummy`, perhaps with its version.
    Dummy(Option<u8>),
    /// The model `dummy` with a dynamic number of rows.
    Rows,
    /// The model `add`.
    Add,
    /// `arith.c`.
    Arith {
        op: Op,
        add: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Same,
    Plus,
    Minus,
    Times,
    Fold,
    /// 0 for a number derived from the input: the sum of its elements modulo a constant.
    Expand {
        copies: usize,
        modulo: usize,
    },
}

struct Maker {
    rng: StdRng,
    nodes: Vec<Node>,
    inputs: Vec<Shape>,
    /// Outputs of nodes and inputs of the pipeline that are used.
    used: HashSet<Port>,
    open: Vec<usize>,
    /// Maximum number of branches of each level.
    branches: Vec<usize>,
    is_dynamic: bool,
    splits: usize,
    allows_nothing: bool,
}

/// Returns the maximum number of elements of a shape.
fn elements(shape: &[Option<usize>]) -> usize {
    shape.iter().map(|length| length.unwrap_or(5)).product()
}

impl Maker {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())]
    }

    /// Returns the shape in which a node takes a port.
    fn seen(&self, (node, item): Port, gathers: Option<usize>) -> Shape {
        let from = &self.nodes[node];
        let part = match node {
            REQUEST => &self.inputs[item][..],
            _ => &from.shape[usize::from(from.split.is_some())..],
        };
        let count = gathers.map(|level| match self.nodes[level].split {
            Some(Split::Fixed(count)) => Some(count),
            _ => None,
        });
        count.into_iter().chain(part.iter().copied()).collect()
    }

    /// Returns whether a node on these levels may open another with one of these ports.
    fn may_split(&self, levels: &[usize], ports: &[Port]) -> bool {
        // A scalar cannot become what has parts of at least one dimension.
        if ports.iter().all(|port| self.seen(*port, None).is_empty()) {
            return false;
        }
        let counts = levels.iter().map(|level| self.branches[*level]);
        let few = counts.product::<usize>() <= BRANCHES;
        few && levels.len() < MAX_DEPTH && !(self.is_dynamic && self.splits > 0)
    }

    /// Adds a node that takes some of these ports, and all required ones; returns its outputs.
    fn node(
        &mut self,
        ports: &[Port],
        must: &[Port],
        gathers: Option<usize>,
        splits: bool,
    ) -> Vec<Port> {
        let able = |port: &Port| !splits || !self.seen(*port, gathers).is_empty();
        let able_ports: Vec<Port> = ports.iter().copied().filter(able).collect();
        let first = must.iter().copied().find(able);
        let first = first.unwrap_or_else(|| self.one(&able_ports));
        let must: Vec<Port> = must.iter().copied().filter(|port| *port != first).collect();
        let shape = self.seen(first, gathers);
        let alike: Vec<Port> = ports
            .iter()
            .copied()
            .filter(|port| self.seen(*port, gathers) == shape)
            .collect();
        let kind = self.kind(&shape, must.is_empty(), splits);
        let is_known = matches!(kind, Kind::Arith { .. });
        let shape = self.result(&kind, shape);
        let name = |names: &[&str], port: Port| {
            let named = names.iter().map(|name| ((*name).to_owned(), port));
            named.collect::<Vec<_>>()
        };
        let second = match must.first() {
            Some(port) if alike.contains(port) => *port,
            _ => self.one(&alike),
        };
        let mut sources = match &kind {
            Kind::Request => unreachable!("there is one"),
            Kind::Dummy(_) | Kind::Rows => name(&["b"], first),
            Kind::Add => [name(&["input1"], first), name(&["input2"], second)].concat(),
            Kind::Arith { op, .. } => {
                let mut sources = name(&["a"], first);
                if matches!(op, Op::Plus | Op::Minus | Op::Times) {
                    sources.extend(name(&["b"], second));
                }
                sources
            }
        };
        if is_known {
            let taken: Vec<Port> = sources.iter().map(|(_, port)| *port).collect();
            let rest = must.iter().copied().filter(|port| !taken.contains(port));
            let mut rest: Vec<Port> = rest.collect();
            if self.rng.random_bool(0.2) {
                rest.push(self.one(ports));
            }
            let named = rest.iter().zip(0..);
            sources.extend(named.map(|(port, place)| (format!("x{place}"), *port)));
        }
        for (_, (node, item)) in &sources {
            let item = if *node == REQUEST { *item } else { 0 };
            self.used.insert((*node, item));
        }
        let source = &self.nodes[first.0];
        let mut levels = source.levels.clone();
        if gathers.is_some() {
            levels.pop();
        }
        let index = self.nodes.len();
        let split = splits.then(|| match shape[0] {
            Some(count) if !self.is_dynamic => Split::Fixed(count),
            _ => Split::Dynamic,
        });
        if split.is_some() {
            levels.push(index);
            self.splits += 1;
        }
        self.branches
            .push(shape.first().map_or(1, |n| n.unwrap_or(5)));
        let is_vague = self.rng.random_bool(0.4) && !self.allows_nothing;
        self.nodes.push(Node {
            kind,
            sources,
            gathers,
            split,
            levels,
            shape,
            is_vague,
        });
        let items = if is_known { 2 } else { 1 };
        (0..items).map(|item| (index, item)).collect()
    }

    /// Chooses the kind of a node by its first input; a model if that is its only input.
    fn kind(&mut self, shape: &Shape, is_all: bool, splits: bool) -> Kind {
        let is_row = shape[..] == [Some(1), Some(10)];
        let can_split = |shape: &[Option<usize>], dynamic: bool| {
            shape.len() >= 2 && (dynamic || shape[0].is_some_and(|n| (1..=6).contains(&n)))
        };
        let as_it_is = !splits || can_split(shape, self.is_dynamic);
        if as_it_is && self.rng.random_bool(0.6) {
            if is_row && is_all && self.rng.random() {
                return Kind::Dummy(self.rng.random_bool(0.3).then_some(1));
            }
            if is_row && is_all {
                return Kind::Add;
            }
            // A model with any number of rows says nothing of them.
            let rows = shape.len() == 2 && shape[1] == Some(10) && shape[0] != Some(0);
            if rows && is_all && !self.allows_nothing {
                return Kind::Rows;
            }
        }
        let mut ops = Vec::new();
        if as_it_is {
            ops.extend([Op::Same, Op::Plus, Op::Minus, Op::Times]);
        }
        if !shape.is_empty() && (!splits || can_split(&shape[1..], self.is_dynamic)) {
            ops.extend([Op::Fold, Op::Fold]);
        }
        let grows = elements(shape) * 4 <= LARGE;
        if (grows && shape.len() < 4 && (!splits || !shape.is_empty())) || ops.is_empty() {
            let copies = self.rng.random_range(1..=3);
            let modulo = self.rng.random_range(2..=5);
            let copies = if splits && self.is_dynamic { 0 } else { copies };
            ops.push(Op::Expand { copies, modulo });
        }
        let op = self.one(&ops);
        let add = self.rng.random_range(-20..20);
        Kind::Arith { op, add }
    }

    /// Returns the shape of a node's outputs.
    fn result(&self, kind: &Kind, mut shape: Shape) -> Shape {
        match kind {
            Kind::Arith { op: Op::Fold, .. } => {
                shape.remove(0);
            }
            Kind::Arith {
                op: Op::Expand { copies, .. },
                ..
            } => shape.insert(0, Some(*copies).filter(|copies| *copies > 0)),
            _ => {}
        }
        shape
    }

    /// Returns ports of unused nodes, or one of all.
    fn unused(&mut self, ports: &[Port]) -> Vec<Port> {
        let mut seen = HashSet::new();
        let mut unused = Vec::new();
        for (node, item) in ports.iter().copied() {
            let counted = (node, if node == REQUEST { item } else { 0 });
            if !self.used.contains(&counted) && seen.insert(counted) {
                // Either output of a node will do.
                let items: Vec<Port> = ports
                    .iter()
                    .copied()
                    .filter(|port| port.0 == node && (node != REQUEST || port.1 == item))
                    .collect();
                unused.push(self.one(&items));
            }
        }
        if unused.is_empty() {
            unused.push(self.one(ports));
        }
        unused
    }

    /// Adds nodes that gather the rest of a level.
    fn close(&mut self, ports: &[Port], level: usize) -> Vec<Port> {
        let mut left = self.unused(ports);
        left.shuffle(&mut self.rng);
        let mut closed = Vec::new();
        while !left.is_empty() {
            let taken = self.rng.random_range(1..=left.len());
            let must: Vec<Port> = left.drain(..taken).collect();
            closed.extend(self.node(ports, &must, Some(level), false));
        }
        closed
    }

    /// Adds nodes on a level, and levels within it that are closed again.
    fn block(&mut self, ports: &mut Vec<Port>, size: usize) {
        for _ in 0..self.rng.random_range(0..=size) {
            if self.nodes.len() > NODES {
                break;
            }
            let levels = self.nodes[ports[0].0].levels.clone();
            if self.may_split(&levels, ports) && self.rng.random_bool(0.65) {
                let mut inner = self.node(ports, &[], None, true);
                let level = inner[0].0;
                self.block(&mut inner, size.saturating_sub(1).max(1));
                let closed = self.close(&inner, level);
                ports.extend(closed);
            } else {
                let made = self.node(ports, &[], None, false);
                ports.extend(made);
            }
        }
    }
}

impl Random {
    /// Creates a pipeline from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let is_dynamic = rng.random_bool(0.4);
        let allows_nothing = is_dynamic && rng.random_bool(0.4);
        let sizes: [&[usize]; 5] = [&[1, 10], &[1, 10], &[10], &[2, 10], &[3, 1, 10]];
        let count = rng.random_range(1..=3);
        let inputs = (0..count).map(|_| {
            let lengths = sizes[rng.random_range(0..sizes.len())].iter();
            lengths.copied().map(Some).collect()
        });
        let inputs = inputs.collect();
        let mut maker = Maker {
            rng,
            nodes: Vec::new(),
            inputs,
            used: HashSet::new(),
            open: Vec::new(),
            branches: Vec::new(),
            is_dynamic,
            splits: 0,
            allows_nothing,
        };
        let is_split = maker.rng.random_bool(0.35);
        let fixed = maker.rng.random_range(1..=4);
        let split = is_split.then_some(match is_dynamic {
            true => Split::Dynamic,
            false => Split::Fixed(fixed),
        });
        maker.nodes.push(Node {
            kind: Kind::Request,
            sources: Vec::new(),
            gathers: None,
            split,
            levels: split.map(|_| REQUEST).into_iter().collect(),
            shape: Vec::new(),
            is_vague: false,
        });
        maker
            .branches
            .push(fixed.max(if is_dynamic { 5 } else { 1 }));
        let mut ports: Vec<Port> = (0..count).map(|item| (REQUEST, item)).collect();
        if is_split {
            maker.open.push(REQUEST);
            maker.splits += 1;
        }
        let size = maker.rng.random_range(1..=6);
        maker.block(&mut ports, size);
        if is_split && maker.rng.random_bool(0.4) {
            maker.open.clear();
            ports = maker.close(&ports, REQUEST);
            maker.block(&mut ports, size);
        }
        // Levels that the response closes.
        for _ in 0..maker.rng.random_range(0..=2) {
            let levels = maker.nodes[ports[0].0].levels.clone();
            if !maker.may_split(&levels, &ports) {
                break;
            }
            // One that closes a level may open another.
            let closes = maker.open.last().copied();
            let closes = closes.filter(|_| maker.rng.random_bool(0.3));
            if closes.is_some() {
                maker.open.pop();
            }
            let must = maker.unused(&ports);
            ports = maker.node(&ports, &must, closes, true);
            maker.open.push(ports[0].0);
            maker.block(&mut ports, size / 2);
        }
        let mut outputs = maker.unused(&ports);
        for _ in 0..maker.rng.random_range(0..=2) {
            outputs.push(maker.one(&ports));
        }
        let Maker {
            nodes,
            inputs,
            open,
            ..
        } = maker;
        Self {
            name: format!("seed{seed}"),
            nodes,
            inputs,
            outputs,
            open,
            allows_nothing,
            seed,
        }
    }

    /// Returns the name of a node; names in the file are in another order than indexes.
    fn node_name(&self, node: usize) -> String {
        match node {
            REQUEST => "request".to_owned(),
            _ => format!("n{}", (node * 7 + self.nodes.len()) % 97),
        }
    }

    fn source(&self, (node, item): Port) -> Value {
        let alias = match node {
            REQUEST => format!("in{item}"),
            _ => format!("o{item}"),
        };
        json!({"node_name": self.node_name(node), "data_item": alias})
    }

    /// Returns the shape of one part of a port.
    fn part(&self, (node, item): Port) -> Shape {
        match &self.nodes[node] {
            _ if node == REQUEST => self.inputs[item].clone(),
            from => from.shape[usize::from(from.split.is_some())..].to_vec(),
        }
    }

    /// Returns the number of parts of a demultiplexer, if it is known.
    fn count(&self, level: usize) -> Option<usize> {
        match self.nodes[level].split {
            Some(Split::Fixed(count)) => Some(count),
            _ => None,
        }
    }

    /// Returns the shape in which a node takes a port, for the metadata.
    fn reported(&self, node: &Node, port: Port) -> String {
        let count = node.gathers.map(|level| self.count(level));
        let shape: Shape = count.into_iter().chain(self.part(port)).collect();
        reported(&shape, node.is_vague)
    }

    fn node_config(&self, index: usize) -> Value {
        let node = &self.nodes[index];
        let mut config = Map::new();
        config.insert("name".to_owned(), self.node_name(index).into());
        let dl = |name: &str, output: &str| {
            let outputs = json!([{"data_item": output, "alias": "o0"}]);
            vec![
                ("type", json!("DL model")),
                ("model_name", json!(name)),
                ("outputs", outputs),
            ]
        };
        let fields = match &node.kind {
            Kind::Request => unreachable!("it is not in the file"),
            Kind::Dummy(version) => {
                let mut fields = dl("dummy", "a");
                fields.extend(version.map(|version| ("version", json!(version))));
                fields
            }
            Kind::Rows => dl("rows", "a"),
            Kind::Add => dl("add", "sum"),
            Kind::Arith { op, add } => {
                let mut params = Map::new();
                let mut param = |key: &str, value: String| {
                    params.insert(key.to_owned(), value.into());
                };
                param("op", op.name().to_owned());
                param("add", add.to_string());
                if let Op::Expand { copies, modulo } = op {
                    param("copies", copies.to_string());
                    param("modulo", modulo.to_string());
                }
                for (name, port) in &node.sources {
                    param(name, self.reported(node, *port));
                }
                param("out", reported(&node.shape, node.is_vague));
                let outputs = json!([
                    {"data_item": "out", "alias": "o0"},
                    {"data_item": "also", "alias": "o1"},
                ]);
                vec![
                    ("type", json!("custom")),
                    ("library_name", json!("arith")),
                    ("params", params.into()),
                    ("outputs", outputs),
                ]
            }
        };
        config.extend(
            fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value)),
        );
        let sources = node.sources.iter();
        let sources = sources.map(|(name, port)| json!({name: self.source(*port)}));
        config.insert("inputs".to_owned(), sources.collect());
        if let Some(split) = node.split {
            config.insert("demultiply_count".to_owned(), split.count().into());
        }
        if let Some(level) = node.gathers {
            config.insert("gather_from_node".to_owned(), self.node_name(level).into());
        }
        config.into()
    }

    /// Returns its entry in the configuration file.
    pub(crate) fn config(&self) -> Value {
        let mut nodes: Vec<Value> = (1..self.nodes.len())
            .map(|node| self.node_config(node))
            .collect();
        nodes.shuffle(&mut StdRng::seed_from_u64(self.seed));
        let outputs = self.outputs.iter().zip(0..);
        let outputs = outputs.map(|(port, place)| json!({format!("y{place}"): self.source(*port)}));
        let inputs = (0..self.inputs.len()).map(|item| Value::from(format!("in{item}")));
        let mut config = json!({
            "name": self.name,
            "inputs": inputs.collect::<Value>(),
            "outputs": outputs.collect::<Value>(),
            "nodes": nodes,
        });
        if let Some(split) = self.nodes[REQUEST].split {
            config["demultiply_count"] = split.count().into();
        }
        if self.allows_nothing {
            config["empty_results"] = "allow".into();
        }
        config
    }

    /// Creates a request: the tensors of the inputs in order.
    pub(crate) fn request(&self, seed: u64) -> Vec<Numbers> {
        let mut rng = StdRng::seed_from_u64(self.seed ^ seed.rotate_left(32));
        let any = rng.random_range(1..=5);
        let count = self.nodes[REQUEST].split.map(|split| match split {
            Split::Fixed(count) => count,
            Split::Dynamic => any,
        });
        let inputs = self.inputs.iter().map(|shape| {
            let shape = shape.iter().map(|length| length.expect("it is fixed"));
            let shape: Vec<usize> = count.into_iter().chain(shape).collect();
            let size = shape.iter().product();
            let number = |_| f32::from(rng.random_range(-100_i8..100));
            let data = (0..size).map(number).collect();
            Numbers { shape, data }
        });
        inputs.collect()
    }

    /// Returns the notable features of this pipeline.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut note = |what, is_there: bool| found.extend(is_there.then_some(what));
        for node in &self.nodes[1..] {
            let open = usize::from(node.split.is_some());
            note("two levels", node.levels.len() == 2);
            note("four levels", node.levels.len() == 4);
            note(
                "gathers in a level",
                node.gathers.is_some() && node.levels.len() > open,
            );
            note("closes and opens", node.gathers.is_some() && open == 1);
            let is_model = !matches!(node.kind, Kind::Arith { .. });
            note("a model splits", is_model && open == 1);
            note("a model gathers", is_model && node.gathers.is_some());
            note("closes the request", node.gathers == Some(REQUEST));
            note("three sources", node.sources.len() > 2);
            note("a scalar", node.shape.is_empty());
        }
        let split = self.nodes[REQUEST].split;
        note("a dynamic batch", split == Some(Split::Dynamic));
        note("a fixed batch", matches!(split, Some(Split::Fixed(_))));
        let inner = self.nodes[1..].iter();
        let mut inner = inner.filter(|node| node.split == Some(Split::Dynamic));
        note("a dynamic count", inner.next().is_some());
        note("the response gathers twice", self.open.len() > 1);
        note("several outputs", self.outputs.len() > 1);
        let mut outputs = self.outputs.iter();
        note(
            "straight to the response",
            outputs.any(|(node, _)| *node == REQUEST),
        );
        note("may have nothing", self.allows_nothing);
        found
    }
}

impl Split {
    fn count(self) -> i64 {
        match self {
            Self::Fixed(count) => i64::try_from(count).expect("they are few"),
            Self::Dynamic => -1,
        }
    }
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Plus => "plus",
            Self::Minus => "minus",
            Self::Times => "times",
            Self::Fold => "fold",
            Self::Expand { .. } => "expand",
        }
    }
}

/// Writes a shape for the metadata of a custom node.
fn reported(shape: &[Option<usize>], is_vague: bool) -> String {
    let lengths = shape.iter().zip(0_usize..).map(|(length, place)| {
        let length = length.filter(|_| !is_vague || place % 2 == 1);
        length.unwrap_or(0).to_string()
    });
    lengths.collect::<Vec<_>>().join(",")
}

/// Returns a configuration file with pipelines and their models and libraries.
pub(crate) fn file(pipelines: &[Value]) -> Value {
    let config = |name: &str, fixture: &str| {
        json!({
            "name": name,
            "base_path": model(fixture),
            "nireq": 1,
            "plugin_config": {"INFERENCE_PRECISION_HINT": "f32"},
        })
    };
    let mut rows = config("rows", "dummy");
    rows["shape"] = "(-1,10)".into();
    let mut auto = config("auto", "dummy");
    auto["batch_size"] = "auto".into();
    let mut stateful = config("stateful", "running_total");
    stateful["stateful"] = true.into();
    let models = [
        config("dummy", "dummy"),
        config("add", "add"),
        rows,
        auto,
        stateful,
    ];
    let models = models.into_iter().map(|config| json!({"config": config}));
    json!({
        "model_config_list": models.collect::<Value>(),
        "custom_node_library_config_list": [
            {"name": "arith", "base_path": compiled("arith.c")},
            {"name": "missing", "base_path": "/nonexistent/libmissing.so"},
        ],
        "pipeline_config_list": pipelines,
    })
}
