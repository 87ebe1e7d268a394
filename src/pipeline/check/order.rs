//! Order of the nodes: rules 25 to 27, and batches behind demultiplexers.

use super::draft::{Draft, Gathers, Link};
use crate::{diagnostic::Diagnostic, order::topological, pipeline::rules, tensor::Dim};

/// Ways in which levels of demultiplexing are out of order.
pub(super) const NOT_GATHERED: &str =
    "there is a path that does not gather from all demultiplexers";
pub(super) const DIFFERENT_NODES: &str =
    "a node gathers from another than the nearest demultiplexer";
pub(super) const NOT_IN_PATH: &str = "a node gathers from a demultiplexer that is not in its path";
pub(super) const DIFFERENT_LEVELS: &str = "a node has inputs of different demultiplexing levels";

/// The demultiplexers that a node runs within, outermost first; `None` if that is not known.
pub(super) type Stack = Option<Vec<usize>>;

impl Draft<'_> {
    /// Rule 25. Returns the nodes that wait for no cycle, sources before consumers.
    pub(super) fn cycles(&mut self) -> Vec<usize> {
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for link in &node.links {
                consumers[link.source].push(index);
            }
        }
        let mut broken = Vec::new();
        let mut order = topological(&consumers, |waiting| {
            // As if it were gone, so that other cycles are found.
            let cycle = self.cycle(waiting).unwrap_or_default();
            self.report_cycle(&cycle);
            broken.extend_from_slice(&cycle);
            cycle
        });
        order.retain(|node| !broken.contains(node));
        order
    }

    /// Finds a cycle among the nodes that still wait, each before the one that it waits for.
    fn cycle(&self, waiting: &[usize]) -> Option<Vec<usize>> {
        let mut at = waiting.iter().position(|waiting| *waiting > 0)?;
        let mut path: Vec<usize> = Vec::new();
        loop {
            if let Some(start) = path.iter().position(|node| *node == at) {
                return Some(path.split_off(start));
            }
            path.push(at);
            let mut sources = self.nodes[at].links.iter().map(|link| link.source);
            at = sources.find(|source| waiting[*source] > 0)?;
        }
    }

    fn report_cycle(&mut self, cycle: &[usize]) {
        let mut names: Vec<&str> = cycle
            .iter()
            .rev()
            .map(|node| self.nodes[*node].name)
            .collect();
        let (Some(first), Some(&node)) = (names.first().copied(), cycle.last()) else {
            return;
        };
        names.push(first);
        let found = names.join(" -> ");
        let message = (found, "no way from a node back to itself");
        let next = "take one of these connections away";
        self.error(node, rules::CYCLE, "inputs", message, next);
    }

    /// Rule 26. Returns for each node whether the response needs it.
    pub(super) fn unconnected(&mut self) -> Vec<bool> {
        let last = self.nodes.len() - 1;
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![last];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(self.nodes[node].links.iter().map(|link| link.source));
            }
        }
        for (index, reached) in reached.iter().enumerate().take(last) {
            // Of two nodes with one name only the first can be connected.
            let duplicate = self.names[self.nodes[index].name] != index;
            let idle = index == 0 && self.config.inputs.is_empty();
            if *reached || duplicate || idle {
                continue;
            }
            let key = if index == 0 { "inputs" } else { "name" };
            let found = "no way from it to the response";
            let expected = "a connection to the response, or to a node that has one";
            let next = "use an output of it, or take it away";
            self.error(index, rules::UNCONNECTED, key, (found, expected), next);
        }
        reached
    }

    /// Rule 27. Returns for each node the levels that it runs in.
    pub(super) fn levels(&mut self, order: &[usize], reached: &[bool]) -> Vec<Stack> {
        let last = self.nodes.len() - 1;
        let mut stacks: Vec<Stack> = vec![None; self.nodes.len()];
        let before = self.found.errors.len();
        for &node in order {
            let given: Option<Vec<(Link, Vec<usize>)>> = self.nodes[node]
                .links
                .iter()
                .map(|link| Some((*link, self.given(link.source, &stacks)?)))
                .collect();
            let Some(given) = given.filter(|_| reached[node]) else {
                continue;
            };
            if node == last {
                self.closed_by_response(&given, reached);
            }
            stacks[node] = self.levels_of(node, given);
        }
        // In the order of the file, as other errors are.
        self.found.errors[before..].sort_by_key(Diagnostic::order);
        stacks
    }

    /// Returns the levels that the outputs of a node are in.
    fn given(&self, source: usize, stacks: &[Stack]) -> Stack {
        let mut stack = stacks[source].clone()?;
        if self.nodes[source].count.is_some() {
            stack.push(source);
        }
        Some(stack)
    }

    fn levels_of(&mut self, node: usize, given: Vec<(Link, Vec<usize>)>) -> Stack {
        let last = self.nodes.len() - 1;
        let mut given = given.into_iter();
        let Some((first_link, mut stack)) = given.next() else {
            self.without_inputs(node);
            return Some(Vec::new());
        };
        // The response is validated for each of its inputs.
        if node != last
            && let Some((link, other)) = given.find(|(_, other)| *other != stack)
        {
            let (a, b) = (
                self.connection(node, first_link),
                self.connection(node, link),
            );
            let found = format!(
                "`{}` from {}, and `{}` from {}",
                a.name,
                self.reported(&stack),
                b.name,
                self.reported(&other)
            );
            let next = self.leveled([(&*a.name, &stack[..]), (&*b.name, &other[..])]);
            self.misplaced(node, link, DIFFERENT_LEVELS, &found, next);
            return None;
        }
        match self.nodes[node].gathers {
            Gathers::Error => return None,
            Gathers::Nothing => {}
            Gathers::From(from) if stack.last() == Some(&from) => {
                stack.pop();
            }
            Gathers::From(from) => {
                let name = self.nodes[from].name;
                let (kind, next) = if stack.contains(&from) {
                    let nearest = stack.last().map_or("", |nearest| self.nodes[*nearest].name);
                    let next = format!(
                        "gather from `{nearest}` in a node before this one; or here, and from `{name}` in \
                         a node behind it"
                    );
                    (DIFFERENT_NODES, next)
                } else {
                    let next = format!(
                        "take all inputs from within `{name}`, or take gather_from_node away"
                    );
                    (NOT_IN_PATH, next)
                };
                let found = format!(
                    "inputs from {}, gathered from `{name}`",
                    self.reported(&stack)
                );
                self.misplaced(node, first_link, kind, &found, next);
                return None;
            }
        }
        if node == last {
            stack.clear();
        }
        Some(stack)
    }

    /// Describes how two inputs of a node come to be of one level. The node cannot gather one of them alone.
    fn leveled(&self, inputs: [(&str, &[usize]); 2]) -> String {
        let [(_, one), (_, other)] = inputs;
        let pairs = one.iter().zip(other);
        let shared = pairs.take_while(|(one, other)| one == other).count();
        let deeper = inputs.iter().filter(|(_, stack)| stack.len() > shared);
        let ways = deeper.map(|(name, stack)| {
            let inner = stack[shared..].iter().rev();
            let inner: Vec<String> = inner
                .map(|level| format!("`{}`", self.nodes[*level].name))
                .collect();
            match &inner[..] {
                [level] => format!("`{name}` through a node that gathers from {level}"),
                levels => format!(
                    "`{name}` through nodes that gather from {}",
                    levels.join(", then ")
                ),
            }
        });
        let ways: Vec<String> = ways.collect();
        let ways = ways.join(", and ");
        format!("take {ways}: gather_from_node here would gather all inputs alike")
    }

    /// A node that takes nothing has no level to gather.
    fn without_inputs(&mut self, node: usize) {
        let Gathers::From(from) = self.nodes[node].gathers else {
            return;
        };
        let name = self.nodes[from].name;
        let found = format!("no inputs, gathered from `{name}`");
        let message = (found, "inputs from within the demultiplexer");
        let next = "take gather_from_node away";
        self.error(node, rules::ORDER, "gather_from_node", message, next);
    }

    /// Validates whether every way to the response leaves those levels open that it is to close.
    fn closed_by_response(&mut self, given: &[(Link, Vec<usize>)], reached: &[bool]) {
        let last = self.nodes.len() - 1;
        let gathering = |from: usize| {
            let mut nodes = self.nodes.iter().zip(reached);
            let found =
                nodes.find(|(node, reached)| **reached && node.gathers == Gathers::From(from));
            found.map(|(node, _)| node.name)
        };
        let (elsewhere, here): (Vec<usize>, Vec<usize>) = (0..last)
            .filter(|node| reached[*node] && self.nodes[*node].count.is_some())
            .partition(|node| gathering(*node).is_some());
        let mut found = Vec::new();
        for (link, stack) in given {
            let output = &self.connection(last, *link).name;
            let text = format!("`{output}` from {}", self.reported(stack));
            if let Some(open) = elsewhere.iter().find(|open| stack.contains(open)) {
                let name = self.nodes[*open].name;
                let text = format!("{text}, though `{name}` is gathered on another way");
                let gathering = gathering(*open).unwrap_or_default();
                let next = format!(
                    "take `{output}` from `{gathering}`, which gathers from `{name}`, or from a node behind it"
                );
                found.push((*link, NOT_GATHERED, text, next));
            } else if let Some(missing) = here.iter().find(|level| !stack.contains(level)) {
                let name = self.nodes[*missing].name;
                let text = format!("{text}, and other outputs from within `{name}`");
                let next = format!(
                    "take the other outputs through a node that gathers from `{name}`, or `{output}` from \
                     within `{name}`, too"
                );
                found.push((*link, DIFFERENT_LEVELS, text, next));
            }
        }
        for (link, kind, text, next) in found {
            self.misplaced(last, link, kind, &text, next);
        }
    }

    fn misplaced(&mut self, node: usize, link: Link, kind: &str, found: &str, next: String) {
        let expected = "each level closed before the one around it, on every way alike";
        let message = (format!("{found} ({kind})"), expected);
        match self.nodes[node].gathers {
            Gathers::From(_) if kind != DIFFERENT_LEVELS => {
                self.error(node, rules::ORDER, "gather_from_node", message, next);
            }
            _ => {
                let connection = self.connection(node, link);
                self.error_at(node, rules::ORDER, connection, message, next);
            }
        }
    }

    /// Writes a stack of levels.
    fn reported(&self, stack: &[usize]) -> String {
        if stack.is_empty() {
            return "outside all demultiplexers".to_owned();
        }
        let names: Vec<String> = stack
            .iter()
            .map(|node| format!("`{}`", self.nodes[*node].name))
            .collect();
        format!("within {}", names.join(", "))
    }

    /// Warns of models behind a demultiplexer that take more than one at a time.
    pub(super) fn batches(&mut self, stacks: &[Stack]) {
        for (index, stack) in stacks.iter().enumerate() {
            let node = &self.nodes[index];
            let behind = stack.as_ref().is_some_and(|stack| !stack.is_empty());
            if !behind || !node.is_model() || node.gathers != Gathers::Nothing {
                continue;
            }
            let mut inputs = node.facts.iter().flat_map(|facts| &facts.inputs);
            let large = inputs.find_map(|input| {
                let rank = input.shape.0.len();
                let batch = input.shape.0[input.layout.axis('N', rank)?];
                match batch {
                    Dim::Fixed(2..) | Dim::Range(2.., _) => Some((input.name.clone(), batch)),
                    _ => None,
                }
            });
            if let Some((input, batch)) = large {
                let text = format!(
                    "the input `{input}` takes a batch of {batch} behind a demultiplexer; only \
                     nodes that gather should take more than 1"
                );
                let place = self.nodes[index].place("model_name").clone();
                self.warn(&place, text);
            }
        }
    }
}
