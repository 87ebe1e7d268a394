//! Reference model of a random pipeline: computes the response to a request with the
//! branches of a node as the branches of a tree, independent of any schedule.

use std::collections::HashMap;

use super::{Kind, Node, Op, Port, REQUEST, Random, Shape};

/// A tensor of FP32.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f32>,
}

/// Error of a demultiplexer with nothing to split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nothing;

/// Value of a port: a tensor outside all levels, and a tree within.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(Numbers),
    Branches(Vec<Self>),
}

impl Tree {
    /// Cuts each tensor along its first axis.
    fn split(self) -> Self {
        match self {
            Self::Branches(parts) => Self::Branches(parts.into_iter().map(Self::split).collect()),
            Self::Leaf(mut whole) => {
                let count = whole.shape.remove(0);
                let size = whole.shape.iter().product::<usize>();
                let part = |place: usize| Numbers {
                    shape: whole.shape.clone(),
                    data: whole.data[place * size..][..size].to_vec(),
                };
                Self::Branches((0..count).map(|place| Self::Leaf(part(place))).collect())
            }
        }
    }

    /// Joins the branches furthest from the root; `part` is the shape of one.
    fn gather(self, part: &Shape) -> Self {
        let Self::Branches(parts) = self else {
            unreachable!("only what is in a level is gathered");
        };
        if parts.iter().any(|part| matches!(part, Self::Branches(_))) {
            let parts = parts.into_iter().map(|inner| inner.gather(part));
            return Self::Branches(parts.collect());
        }
        // Where there is nothing, no length is left to a request.
        let mut lengths: Vec<usize> = part.iter().map(|length| length.unwrap_or(0)).collect();
        let mut data = Vec::new();
        let count = parts.len();
        for part in parts {
            let Self::Leaf(part) = part else {
                unreachable!("all branches are as deep");
            };
            lengths = part.shape;
            data.extend(part.data);
        }
        lengths.insert(0, count);
        Self::Leaf(Numbers {
            shape: lengths,
            data,
        })
    }
}

/// Runs a node on each set of leaves; returns the trees of its outputs.
fn each(inputs: &[Tree], run: &impl Fn(&[&Numbers]) -> Vec<Numbers>) -> Vec<Tree> {
    let leaves: Option<Vec<&Numbers>> = inputs
        .iter()
        .map(|tree| match tree {
            Tree::Leaf(numbers) => Some(numbers),
            Tree::Branches(_) => None,
        })
        .collect();
    if let Some(leaves) = leaves {
        return run(&leaves).into_iter().map(Tree::Leaf).collect();
    }
    let branches: Vec<&Vec<Tree>> = inputs
        .iter()
        .map(|tree| match tree {
            Tree::Branches(parts) => parts,
            Tree::Leaf(_) => unreachable!("all inputs are on one level"),
        })
        .collect();
    let mut outputs = vec![Vec::new(); 2];
    for place in 0..branches[0].len() {
        let inputs: Vec<Tree> = branches.iter().map(|parts| parts[place].clone()).collect();
        for (output, tree) in outputs.iter_mut().zip(each(&inputs, run)) {
            output.push(tree);
        }
    }
    outputs.into_iter().map(Tree::Branches).collect()
}

impl Random {
    /// Computes the response to a request: the outputs in order.
    pub(crate) fn response(&self, request: &[Numbers]) -> Result<Vec<Numbers>, Nothing> {
        let request = request.iter().cloned().map(Tree::Leaf);
        let mut reader = Reader {
            random: self,
            known: HashMap::from([(REQUEST, request.collect())]),
        };
        // What nobody asks for runs all the same.
        for node in 1..self.nodes.len() {
            let is_empty = |tree: &Tree| matches!(tree, Tree::Branches(parts) if parts.is_empty());
            let opens = self.nodes[node].split.is_some();
            if opens && !self.allows_nothing && is_empty(&reader.tree((node, 0))) {
                return Err(Nothing);
            }
        }
        let outputs = self.outputs.iter().map(|port| {
            let mut tree = reader.tree(*port);
            let mut part = self.part(*port);
            for level in self.open.iter().rev() {
                tree = tree.gather(&part);
                part.insert(0, self.count(*level));
            }
            match tree {
                Tree::Leaf(numbers) => numbers,
                Tree::Branches(_) => unreachable!("the response gathers all that is open"),
            }
        });
        Ok(outputs.collect())
    }
}

struct Reader<'a> {
    random: &'a Random,
    /// Outputs of nodes, before splitting.
    known: HashMap<usize, Vec<Tree>>,
}

impl Reader<'_> {
    /// Computes the value of a port, and for that the values of its node's sources.
    fn tree(&mut self, (index, item): Port) -> Tree {
        let node = &self.random.nodes[index];
        if !self.known.contains_key(&index) {
            let sources = node.sources.iter().map(|(_, source)| {
                let tree = self.tree(*source);
                match node.gathers {
                    Some(_) => tree.gather(&self.random.part(*source)),
                    None => tree,
                }
            });
            let sources: Vec<Tree> = sources.collect();
            let outputs = each(&sources, &|inputs| node.compute(inputs));
            self.known.insert(index, outputs);
        }
        let tree = self.known[&index][item].clone();
        match node.split {
            Some(_) => tree.split(),
            None => tree,
        }
    }
}

/// Reduces a number as `arith.c` does, to a range that FP32 holds exactly.
fn small(number: f32) -> i64 {
    number as i64 % 1009
}

fn sum(numbers: &Numbers) -> i64 {
    numbers.data.iter().map(|number| small(*number)).sum()
}

impl Node {
    fn compute(&self, inputs: &[&Numbers]) -> Vec<Numbers> {
        let first = inputs[0];
        let made = |data: Vec<f32>| {
            let shape = first.shape.clone();
            vec![Numbers { shape, data }]
        };
        match &self.kind {
            Kind::Request => unreachable!("it has no sources"),
            Kind::Dummy(_) | Kind::Rows => made(first.data.iter().map(|x| x + 1.0).collect()),
            Kind::Add => {
                let pairs = first.data.iter().zip(&inputs[1].data);
                made(pairs.map(|(x, y)| x + y).collect())
            }
            Kind::Arith { op, add } => self.arith(*op, *add, inputs),
        }
    }

    fn arith(&self, op: Op, add: i64, inputs: &[&Numbers]) -> Vec<Numbers> {
        let named = self.sources.iter().zip(inputs);
        let extra = named.filter(|((name, _), _)| name.starts_with('x'));
        let add = add + extra.map(|(_, input)| sum(input)).sum::<i64>();
        let mut shape = inputs[0].shape.clone();
        let first: Vec<i64> = inputs[0].data.iter().map(|x| small(*x)).collect();
        let pairs = |combine: fn(i64, i64) -> i64| {
            let second = inputs[1].data.iter().map(|x| small(*x));
            let pairs = first.iter().zip(second);
            pairs.map(|(x, y)| combine(*x, y)).collect()
        };
        let made: Vec<i64> = match op {
            Op::Same => first,
            Op::Plus => pairs(|x, y| x + y),
            Op::Minus => pairs(|x, y| x - y),
            Op::Times => pairs(|x, y| x * y),
            Op::Fold => {
                shape.remove(0);
                let mut all = vec![0; shape.iter().product()];
                for (place, row) in (1..).zip(first.chunks(all.len().max(1))) {
                    for (sum, number) in all.iter_mut().zip(row) {
                        *sum += place * number;
                    }
                }
                all
            }
            Op::Expand { copies, modulo } => {
                let copies = match copies {
                    0 => usize::try_from(sum(inputs[0]).abs()).unwrap() % modulo,
                    copies => copies,
                };
                shape.insert(0, copies);
                let copies = (0..copies as i64).map(|copy| first.iter().map(move |x| x + 7 * copy));
                copies.flatten().collect()
            }
        };
        let out: Vec<f32> = made
            .iter()
            .zip(add..)
            .map(|(number, add)| ((number + add) % 1009) as f32)
            .collect();
        let also = out.iter().map(|x| 2.0 * x + 1.0).collect();
        [out, also]
            .into_iter()
            .map(|data| Numbers {
                shape: shape.clone(),
                data,
            })
            .collect()
    }
}
