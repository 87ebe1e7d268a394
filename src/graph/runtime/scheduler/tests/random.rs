//! Random graphs, and their results by direct evaluation.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proptest::prelude::*;

use super::rig::{Made, Rig, full, int, later, value};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{CalculatorStep, GraphRunError},
    },
    check::plan::InputHandler,
    runtime::scheduler::GraphJob,
};

/// Observer of every step of every node, which may fail it.
pub(super) type Spy = Rc<RefCell<dyn FnMut(usize, &GraphJob) -> Result<(), GraphRunError>>>;

/// Kind of a random node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Passes each input to its own output.
    Pass,
    /// Passes each input on, as `Pass` does, with each in a set of its own.
    Apart,
    /// Sums the available inputs.
    Sum,
    /// Sums all sums so far.
    Total,
    /// Takes the first available input.
    Merge,
    /// Sends only the sums divisible by this.
    Drop(i64),
    /// Sends the sum, delayed by this.
    Delay(i64),
    /// Sums one packet of each input.
    Barrier,
    /// Sends the input selected by the last one.
    Mux,
    /// Sends the first input alone, as it arrives.
    Immediate,
    /// Sends this many numbers, at this interval.
    Source(i64, i64),
}

/// Random node: its kind, the sources of its inputs (modulo the available streams), and its
/// settings.
#[derive(Debug, Clone)]
pub(super) struct Random {
    kind: Kind,
    from: Vec<usize>,
    has_offset: bool,
    wants_bounds: bool,
    in_flight: usize,
}

/// All random parameters of a graph and its inputs.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// Gaps and values of the packets of each input.
    pub(super) inputs: Vec<Vec<(i64, i64)>>,
    pub(super) nodes: Vec<Random>,
    /// Reverses the order of the nodes in the file.
    is_reversed: bool,
    max_queue: Option<usize>,
    backlog: usize,
    pub(super) seed: u64,
}

pub(super) fn cases() -> impl Strategy<Value = Case> {
    let kind = prop_oneof![
        2 => Just(Kind::Pass),
        1 => Just(Kind::Apart),
        2 => Just(Kind::Sum),
        1 => Just(Kind::Total),
        1 => Just(Kind::Merge),
        1 => (1_i64..4).prop_map(Kind::Drop),
        1 => (0_i64..6).prop_map(Kind::Delay),
        1 => Just(Kind::Barrier),
        2 => Just(Kind::Mux),
        1 => Just(Kind::Immediate),
        1 => (0_i64..12, 1_i64..4).prop_map(|(count, gap)| Kind::Source(count, gap)),
    ];
    let from = prop::collection::vec(any::<usize>(), 1..4);
    let node = (kind, from, any::<bool>(), any::<bool>(), 1_usize..4);
    let node = node.prop_map(|(kind, from, has_offset, wants_bounds, in_flight)| Random {
        kind,
        from,
        has_offset,
        wants_bounds,
        in_flight,
    });
    let packets = prop::collection::vec((1_i64..5, 0_i64..4), 0..12);
    let inputs = prop::collection::vec(packets, 1..4);
    let max_queue = prop_oneof![Just(None), (1_usize..4).prop_map(Some), Just(Some(100)),];
    (
        inputs,
        prop::collection::vec(node, 1..8),
        any::<bool>(),
        max_queue,
        1_usize..10,
        any::<u64>(),
    )
        .prop_map(
            |(inputs, nodes, is_reversed, max_queue, backlog, seed)| Case {
                inputs,
                nodes,
                is_reversed,
                max_queue,
                backlog,
                seed,
            },
        )
}

/// Evaluates a node of a kind at a timestamp. Returns outputs, values and timestamps.
fn step(kind: Kind, total: &mut i64, at: i64, inputs: &[Option<i64>]) -> Vec<(usize, i64, i64)> {
    let there: Vec<i64> = inputs.iter().flatten().copied().collect();
    let sum: i64 = there.iter().sum();
    if there.is_empty() {
        return Vec::new();
    }
    match kind {
        Kind::Pass | Kind::Apart => {
            let inputs = inputs.iter().enumerate();
            inputs
                .filter_map(|(place, value)| Some((place, (*value)?, at)))
                .collect()
        }
        Kind::Sum | Kind::Barrier | Kind::Immediate => vec![(0, sum, at)],
        Kind::Total => {
            *total += sum;
            vec![(0, *total, at)]
        }
        Kind::Merge => vec![(0, there[0], at)],
        Kind::Drop(by) if sum % by == 0 => vec![(0, sum, at)],
        Kind::Delay(by) => vec![(0, sum, at + by)],
        Kind::Mux if there.len() == 2 => vec![(0, there[0], at)],
        Kind::Drop(_) | Kind::Mux | Kind::Source(..) => Vec::new(),
    }
}

pub(super) type Packets = Vec<(i64, i64)>;

/// Graph with names for its streams.
struct Wired {
    /// Input streams of each node.
    takes: Vec<Vec<usize>>,
    /// Output streams of each node.
    gives: Vec<Vec<usize>>,
    streams: usize,
}

impl Case {
    fn wire(&self) -> Wired {
        let mut streams = self.inputs.len();
        let (mut takes, mut gives) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let mut taken: Vec<usize> = node.from.iter().map(|from| from % streams).collect();
            match node.kind {
                Kind::Source(..) => taken.clear(),
                Kind::Immediate => taken.truncate(1),
                _ => {}
            }
            let given = match node.kind {
                Kind::Pass | Kind::Apart => taken.len(),
                _ => 1,
            };
            gives.push((streams..streams + given).collect());
            takes.push(taken);
            streams += given;
        }
        Wired {
            takes,
            gives,
            streams,
        }
    }

    /// Returns the packets of an input of the graph: values and timestamps.
    pub(super) fn packets(&self, input: usize) -> Packets {
        let mut at = -7;
        let packets = self.inputs[input].iter().map(|(gap, value)| {
            at += gap;
            (*value, at)
        });
        packets.collect()
    }

    /// Evaluates the graph stream by stream, all of one before the next.
    pub(super) fn evaluate(&self) -> Vec<Packets> {
        let wired = self.wire();
        let mut streams: Vec<Packets> = vec![Vec::new(); wired.streams];
        for (input, stream) in streams.iter_mut().enumerate().take(self.inputs.len()) {
            *stream = self.packets(input);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            let taken: Vec<Packets> = wired.takes[place]
                .iter()
                .map(|from| streams[*from].clone())
                .collect();
            let mut given = vec![Vec::new(); wired.gives[place].len()];
            let mut total = 0;
            let mut run = |at: i64, inputs: &[Option<i64>]| {
                for (output, value, at) in step(node.kind, &mut total, at, inputs) {
                    given[output].push((value, at));
                }
            };
            match node.kind {
                Kind::Source(count, gap) => {
                    given[0] = (0..count).map(|number| (number, number * gap)).collect();
                }
                Kind::Barrier => {
                    let rounds = taken.iter().map(Vec::len).min().unwrap();
                    for round in 0..rounds {
                        let heads: Vec<(i64, i64)> =
                            taken.iter().map(|packets| packets[round]).collect();
                        let at = heads.iter().map(|(_, at)| *at).min().unwrap();
                        let values: Vec<Option<i64>> =
                            heads.iter().map(|(value, _)| Some(*value)).collect();
                        run(at, &values);
                    }
                }
                _ => {
                    let mut times: BTreeMap<i64, Vec<Option<i64>>> = BTreeMap::new();
                    for (input, packets) in taken.iter().enumerate() {
                        for (value, at) in packets {
                            times.entry(*at).or_insert_with(|| vec![None; taken.len()])[input] =
                                Some(*value);
                        }
                    }
                    for (at, mut values) in times {
                        if matches!(node.kind, Kind::Mux) {
                            let last = values.len() - 1;
                            let Some(chosen) = values[last] else {
                                continue;
                            };
                            for (input, value) in values[..last].iter_mut().enumerate() {
                                if i64::try_from(input) != Ok(chosen) {
                                    *value = None;
                                }
                            }
                        }
                        run(at, &values);
                    }
                }
            }
            for (stream, packets) in wired.gives[place].iter().zip(given) {
                streams[*stream] = packets;
            }
        }
        streams
    }

    /// Builds the graph; every step of every node goes through `spy` first, which may fail it.
    pub(super) fn rig(&self, spy: &Spy) -> Rig {
        let wired = self.wire();
        let name = |stream: &usize| format!("s{stream}");
        let mut nodes: Vec<Made> = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let takes: Vec<String> = wired.takes[place].iter().map(name).collect();
            let gives: Vec<String> = wired.gives[place].iter().map(name).collect();
            let takes: Vec<&str> = takes.iter().map(String::as_str).collect();
            let gives: Vec<&str> = gives.iter().map(String::as_str).collect();
            let (kind, spy) = (node.kind, Rc::clone(spy));
            let (mut total, mut sent) = (0, 0);
            let mut made = full(&format!("n{place}"), &takes, &gives, move |job| {
                (spy.borrow_mut())(place, job)?;
                if job.ticket.step != CalculatorStep::Process {
                    return later(Vec::new(), false);
                }
                if let Kind::Source(count, gap) = kind {
                    let packet = Emit::Packet(0, int(sent, sent * gap));
                    sent += 1;
                    let has = sent <= count;
                    return later(if has { vec![packet] } else { Vec::new() }, sent >= count);
                }
                let inputs = job
                    .inputs
                    .iter()
                    .map(|packet| (!packet.is_empty()).then(|| value(packet)));
                let inputs: Vec<Option<i64>> = inputs.collect();
                let reported = step(kind, &mut total, job.at.value(), &inputs);
                let reported = reported
                    .into_iter()
                    .map(|(output, value, at)| Emit::Packet(output, int(value, at)));
                later(reported.collect(), false)
            });
            made.planned.handler = match kind {
                Kind::Barrier => InputHandler::Barrier,
                Kind::Mux => InputHandler::Mux,
                Kind::Immediate => InputHandler::Immediate,
                Kind::Apart => {
                    InputHandler::SyncSet((0..takes.len()).map(|place| vec![place]).collect())
                }
                _ => InputHandler::Default,
            };
            made.planned.contract.offset = match kind {
                // Its bounds come from its packets.
                Kind::Barrier | Kind::Source(..) => None,
                // One of its sets may be ahead of the others.
                Kind::Apart => None,
                Kind::Delay(by) => node.has_offset.then_some(by),
                _ => node.has_offset.then_some(0),
            };
            made.planned.contract.wants_bounds = node.wants_bounds;
            if !matches!(kind, Kind::Total | Kind::Source(..)) {
                made = made.in_flight(node.in_flight);
            }
            nodes.push(made);
        }
        if self.is_reversed {
            nodes.reverse();
        }
        let names: Vec<String> = (0..wired.streams).map(|stream| name(&stream)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut rig = Rig::tuned(&names[..self.inputs.len()], &names, nodes, |plan| {
            plan.max_queue = self.max_queue;
        });
        rig.scheduler.backlog = self.backlog;
        rig
    }
}
