//! Random pipelines that are valid, what their nodes compute, and what comes of a request to one,
//! worked out by asking each node for its sources.

mod reported;

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{config::EmptyResults, tensor::DataType};

/// An output of a node, or an input of the pipeline if the node is 0.
pub(super) type Port = (usize, usize);

/// A tensor of whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    pub(super) dtype: DataType,
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<i64>,
}

/// Conversion of an input that a node does not take as it comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convert {
    pub(super) dtype: DataType,
    /// Reverses the axes of a part.
    pub(super) reverse: bool,
}

/// The types of outputs, with the least and the greatest number that comes in them.
const TYPES: [(DataType, i64, i64); 4] = [
    (DataType::I64, i64::MIN, i64::MAX),
    (DataType::I16, i16::MIN as i64, i16::MAX as i64),
    (DataType::U8, 0, u8::MAX as i64),
    (DataType::F64, -(1 << 50), 1 << 50),
];

/// Returns a number as the nearest of a type, as far as 64 bits hold it.
fn nearest(number: i64, dtype: DataType) -> i64 {
    if dtype == DataType::F64 {
        return number as f64 as i64;
    }
    let (_, low, high) = TYPES.into_iter().find(|known| known.0 == dtype).unwrap();
    number.clamp(low, high)
}

/// Returns one of the numbers of a type; of the widest, small ones as well.
fn some_number(number: i64, dtype: DataType) -> i64 {
    if dtype == DataType::I64 {
        let is_small = number % 2 == 0;
        return if is_small { number % 300 } else { number };
    }
    let (_, low, high) = TYPES.into_iter().find(|known| known.0 == dtype).unwrap();
    low + number.rem_euclid(high - low + 1)
}

impl Value {
    /// Returns it as a node takes it, with so many levels in front of a part.
    fn converted(&self, convert: Convert, levels: usize) -> Self {
        let rank = self.shape.len();
        let mut axes: Vec<usize> = (0..rank).collect();
        if convert.reverse {
            axes[levels..].reverse();
        }
        let shape: Vec<usize> = axes.iter().map(|axis| self.shape[*axis]).collect();
        let count = shape.iter().product::<usize>();
        let data = (0..count).map(|place| {
            let mut rest = place;
            let mut index = vec![0; rank];
            for axis in (0..rank).rev() {
                index[axes[axis]] = rest % shape[axis];
                rest /= shape[axis];
            }
            let lengths = index.iter().zip(&self.shape);
            let from = lengths.fold(0, |sum, (index, length)| sum * length + index);
            nearest(self.data[from], convert.dtype)
        });
        Self {
            dtype: convert.dtype,
            data: data.collect(),
            shape,
        }
    }
}

/// A pipeline. Node 0 is the request.
#[derive(Debug)]
pub(super) struct Random {
    pub(super) nodes: Vec<Node>,
    pub(super) outputs: Vec<Port>,
    /// The demultiplexers that the response gathers from, outermost first.
    open: Vec<usize>,
    pub(super) request: Vec<Value>,
    pub(super) empty_results: EmptyResults,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) sources: Vec<Port>,
    /// The conversion of each source.
    pub(super) converts: Vec<Option<Convert>>,
    /// The type of its outputs.
    dtype: DataType,
    /// Indicates that the axes of its outputs have letters.
    named: bool,
    /// The shapes of its outputs, without what is split.
    shapes: Vec<Vec<usize>>,
    /// Number of parts; 0 for as many as come of it.
    split: Option<usize>,
    gathers: Option<usize>,
    seed: i64,
    is_model: bool,
    /// Dimensions that are reported as they are.
    fixed: bool,
}

/// Error of a demultiplexer that has nothing to split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nothing;

struct Maker {
    rng: StdRng,
    nodes: Vec<Node>,
    used: HashSet<usize>,
    open: Vec<usize>,
}

impl Maker {
    fn shape(&mut self) -> Vec<usize> {
        let rank = self.rng.random_range(1..=3);
        let length = |rng: &mut StdRng| {
            if rng.random_bool(0.1) {
                0
            } else {
                rng.random_range(1..=3)
            }
        };
        (0..rank).map(|_| length(&mut self.rng)).collect()
    }

    /// Adds a node and returns its outputs.
    fn node(&mut self, sources: Vec<Port>, split: bool, gathers: Option<usize>) -> Vec<Port> {
        self.used.extend(sources.iter().map(|(node, _)| node));
        let outputs = self.rng.random_range(1..=2);
        let converts = sources.iter().map(|(from, _)| {
            let converts = *from != 0 && self.rng.random_bool(0.3);
            converts.then(|| Convert {
                dtype: TYPES[self.rng.random_range(0..TYPES.len())].0,
                reverse: self.nodes[*from].named && self.rng.random(),
            })
        });
        let converts = converts.collect();
        let dtype = match self.nodes.is_empty() {
            true => DataType::I64,
            false => TYPES[self.rng.random_range(0..TYPES.len())].0,
        };
        let node = Node {
            sources,
            converts,
            dtype,
            named: !self.nodes.is_empty() && self.rng.random(),
            shapes: (0..outputs).map(|_| self.shape()).collect(),
            split: split.then(|| self.rng.random_range(1..=4)),
            gathers,
            seed: self.rng.random_range(0..1000),
            is_model: self.rng.random(),
            fixed: self.rng.random(),
        };
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        (0..outputs).map(|output| (index, output)).collect()
    }

    fn some(&mut self, ports: &[Port]) -> Vec<Port> {
        let count = self.rng.random_range(1..=3);
        (0..count)
            .map(|_| ports[self.rng.random_range(0..ports.len())])
            .collect()
    }

    /// Returns the ports of nodes of which nothing is used, and perhaps some more.
    fn unused(&mut self, ports: &[Port]) -> Vec<Port> {
        let unused = ports.iter().filter(|(node, _)| !self.used.contains(node));
        let mut all: Vec<Port> = unused.copied().collect();
        if all.is_empty() || self.rng.random_bool(0.3) {
            all.extend(self.some(ports));
        }
        all
    }

    /// Adds nodes on a level, and levels within it that are closed again.
    fn block(&mut self, ports: &mut Vec<Port>, depth: usize, size: usize) {
        for _ in 0..self.rng.random_range(0..=size) {
            let sources = self.some(ports);
            if depth < 3 && self.rng.random_bool(0.35) {
                let mut inner = self.node(sources, true, None);
                let opened = inner[0].0;
                self.block(&mut inner, depth + 1, size / 2);
                let sources = self.unused(&inner);
                ports.extend(self.node(sources, false, Some(opened)));
            } else {
                ports.extend(self.node(sources, false, None));
            }
        }
    }
}

impl Random {
    /// Makes a pipeline of a seed.
    pub(super) fn new(seed: u64, size: usize) -> Self {
        let mut maker = Maker {
            rng: StdRng::seed_from_u64(seed),
            nodes: Vec::new(),
            used: HashSet::new(),
            open: Vec::new(),
        };
        let split = maker.rng.random_bool(0.3);
        let mut ports = maker.node(Vec::new(), split, None);
        if split {
            maker.open.push(0);
        }
        maker.block(&mut ports, 1, size);
        if split && maker.rng.random_bool(0.4) {
            maker.open.clear();
            let sources = maker.unused(&ports);
            ports = maker.node(sources, false, Some(0));
            maker.block(&mut ports, 0, size);
        }
        for _ in 0..maker.rng.random_range(0..=2) {
            // One that closes a level may open another.
            let closes = maker
                .open
                .last()
                .copied()
                .filter(|_| maker.rng.random_bool(0.3));
            if closes.is_some() {
                maker.open.pop();
            }
            let sources = maker.unused(&ports);
            ports = maker.node(sources, true, closes);
            maker.open.push(ports[0].0);
            maker.block(&mut ports, 2, size / 2);
        }
        let outputs = maker.unused(&ports);
        let Maker {
            mut rng,
            mut nodes,
            open,
            ..
        } = maker;
        let mut splitting = nodes.iter_mut().filter(|node| node.split.is_some());
        if let (Some(only), None) = (splitting.next(), splitting.next())
            && rng.random()
        {
            only.split = Some(0);
        }
        let parts = nodes[0].split.map(|count| match count {
            0 if rng.random_bool(0.1) => 0,
            0 => rng.random_range(1..=5),
            count => count,
        });
        let request = nodes[0].shapes.iter().map(|shape| {
            let shape: Vec<usize> = parts.iter().chain(shape).copied().collect();
            let count = shape.iter().product::<usize>();
            let data = (0..count).map(|_| rng.random_range(-100..100)).collect();
            let dtype = DataType::I64;
            Value { dtype, shape, data }
        });
        let request = request.collect();
        let empty_results = if rng.random() {
            EmptyResults::Allow
        } else {
            EmptyResults::Abort
        };
        Self {
            nodes,
            outputs,
            open,
            request,
            empty_results,
        }
    }

    /// Returns what a node computes of its inputs.
    pub(super) fn compute(&self, node: usize, inputs: &[Value]) -> Vec<Value> {
        let node = &self.nodes[node];
        let mix = |all: i64, number: i64| all.wrapping_mul(31).wrapping_add(number);
        let all = inputs.iter().fold(node.seed, |all, input| {
            let shape = input.shape.iter().map(|length| *length as i64);
            shape.chain(input.data.iter().copied()).fold(all, mix)
        });
        let parts = node.split.map(|count| match count {
            // Sometimes there is nothing.
            0 => all.rem_euclid(6) as usize,
            count => count,
        });
        let outputs = node.shapes.iter().enumerate().map(|(index, shape)| {
            let shape: Vec<usize> = parts.iter().chain(shape).copied().collect();
            let count = shape.iter().product::<usize>();
            let data = (0..count).map(|place| mix(mix(all, index as i64), (place * place) as i64));
            Value {
                dtype: node.dtype,
                data: data.map(|number| some_number(number, node.dtype)).collect(),
                shape,
            }
        });
        outputs.collect()
    }

    /// Works out the response.
    pub(super) fn response(&self) -> Result<Vec<Value>, Nothing> {
        let mut reader = Reader {
            random: self,
            known: HashMap::new(),
        };
        // What nobody asks for runs all the same.
        for node in 0..self.nodes.len() {
            reader.everywhere(node)?;
        }
        let outputs = self.outputs.iter();
        outputs
            .map(|port| reader.gather(*port, None, &[], &self.open))
            .collect()
    }

    /// Returns the levels around a node, outermost first.
    fn levels(&self, node: usize) -> Vec<usize> {
        let Some(&(source, _)) = self.nodes[node].sources.first() else {
            return Vec::new();
        };
        let mut levels = self.levels(source);
        if self.nodes[source].split.is_some() {
            levels.push(source);
        }
        if self.nodes[node].gathers.is_some() {
            levels.pop();
        }
        levels
    }
}

/// Outputs of a node for some parts: the outer part first.
type Known = HashMap<(usize, Vec<usize>), Rc<Vec<Value>>>;

struct Reader<'a> {
    random: &'a Random,
    known: Known,
}

impl Reader<'_> {
    fn outputs(&mut self, node: usize, path: &[usize]) -> Result<Rc<Vec<Value>>, Nothing> {
        let key = (node, path.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        let outputs = if node == 0 {
            self.random.request.clone()
        } else {
            let described = &self.random.nodes[node];
            let gathers: Vec<usize> = described.gathers.into_iter().collect();
            let inputs = described.sources.iter().zip(&described.converts);
            let inputs = inputs.map(|(port, convert)| {
                let value = self.gather(*port, Some(described), path, &gathers)?;
                Ok(match convert {
                    Some(convert) => value.converted(*convert, gathers.len()),
                    None => value,
                })
            });
            let inputs: Vec<Value> = inputs.collect::<Result<_, _>>()?;
            self.random.compute(node, &inputs)
        };
        let split = self.random.nodes[node].split.is_some();
        let aborts = self.random.empty_results == EmptyResults::Abort;
        if split && outputs[0].shape[0] == 0 && aborts {
            return Err(Nothing);
        }
        let outputs = Rc::new(outputs);
        self.known.insert(key, Rc::clone(&outputs));
        Ok(outputs)
    }

    /// Returns what comes out of a port for a path, with further levels put together.
    /// `by` is who takes it, none for the response.
    fn gather(
        &mut self,
        port: Port,
        by: Option<&Node>,
        path: &[usize],
        levels: &[usize],
    ) -> Result<Value, Nothing> {
        let Some((level, inner)) = levels.split_first() else {
            let (node, output) = port;
            let Some((part, outer)) = path
                .split_last()
                .filter(|_| self.random.nodes[node].split.is_some())
            else {
                return Ok(self.outputs(node, path)?[output].clone());
            };
            let whole = self.outputs(node, outer)?;
            let whole = &whole[output];
            let shape = whole.shape[1..].to_vec();
            let size: usize = shape.iter().product();
            let data = whole.data[part * size..][..size].to_vec();
            let dtype = whole.dtype;
            return Ok(Value { dtype, shape, data });
        };
        let count = self.outputs(*level, path)?[0].shape[0];
        let mut gathered = Value {
            dtype: self.random.nodes[port.0].dtype,
            shape: Vec::new(),
            data: Vec::new(),
        };
        if count == 0 {
            gathered.shape = self.empty(port, by, path, levels)?;
        }
        for part in 0..count {
            let mut path = path.to_vec();
            path.push(part);
            let value = self.gather(port, by, &path, inner)?;
            gathered.shape = [&[count], &value.shape[..]].concat();
            gathered.data.extend(value.data);
        }
        Ok(gathered)
    }

    /// Returns the shape of what has no parts. There is one level then, since it is dynamic.
    fn empty(
        &mut self,
        (node, output): Port,
        by: Option<&Node>,
        path: &[usize],
        levels: &[usize],
    ) -> Result<Vec<usize>, Nothing> {
        if node == levels[0] {
            return Ok(self.outputs(node, path)?[output].shape.clone());
        }
        let source = &self.random.nodes[node];
        let is_reported = source.fixed || by.is_some_and(|by| by.fixed);
        let part = &source.shapes[output];
        let part = part
            .iter()
            .map(|length| if is_reported { *length } else { 0 });
        Ok(std::iter::once(0).chain(part).collect())
    }

    /// Runs a node for all parts of the levels around it.
    fn everywhere(&mut self, node: usize) -> Result<(), Nothing> {
        let mut paths: Vec<Vec<usize>> = vec![Vec::new()];
        for level in self.random.levels(node) {
            let mut below = Vec::new();
            for path in paths {
                let count = self.outputs(level, &path)?[0].shape[0];
                below.extend((0..count).map(|part| [&path[..], &[part]].concat()));
            }
            paths = below;
        }
        paths
            .iter()
            .try_for_each(|path| self.outputs(node, path).map(drop))
    }
}
