//! Contracts of calculators with a graph, and their builder: ports, their number, and their packet types.

use std::borrow::Cow;

use super::{
    node::{NodeSpec, Port, Ports},
    packet::PacketType,
};

/// Types of the inputs, outputs and side packets of a node.
#[derive(Debug, Clone, Default)]
pub struct Contract {
    /// Packet type of each input, by index.
    pub inputs: Vec<PacketType>,
    /// Packet type of each output.
    pub outputs: Vec<PacketType>,
    /// Type of each input side packet, and whether it is optional.
    pub side_inputs: Vec<(PacketType, bool)>,
    /// Type of each output side packet.
    pub side_outputs: Vec<PacketType>,
    /// Offset of the bound: with `Some(n)`, outputs are settled up to the timestamp of the inputs plus n
    /// after each `process`.
    pub offset: Option<i64>,
    /// Input stream handler, if the calculator has its own and the node names none.
    pub handler: Option<&'static str>,
    /// Requests `process` also when only bounds have risen (with all inputs empty).
    pub wants_bounds: bool,
    /// Steps in flight at once where the node names no number, if the calculator runs them one after the other by
    /// itself: they are pipelined, and count as one at a time.
    pub pipelined: Option<usize>,
}

impl Contract {
    /// Creates a contract with one type for all ports, which calculators then narrow.
    pub fn any(node: &NodeSpec) -> Self {
        Self {
            inputs: vec![PacketType::Any; node.inputs.len()],
            outputs: vec![PacketType::Any; node.outputs.len()],
            side_inputs: vec![(PacketType::Any, false); node.side_inputs.len()],
            side_outputs: vec![PacketType::Any; node.side_outputs.len()],
            ..Self::default()
        }
    }
}

/// Placeholder for all tags, if ports are identified by their order only.
pub(in crate::graph) const EVERY: &str = "*";

/// Number of ports allowed for a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::graph) enum Count {
    /// One.
    One,
    /// None or one.
    Optional,
    /// None or more.
    Any,
    /// One or more.
    Some,
    /// Exactly this number.
    Exactly(usize),
}

impl Count {
    /// Returns the lowest and highest number, and both in words.
    fn bounds(self) -> (usize, usize, Cow<'static, str>) {
        match self {
            Self::One => (1, 1, "exactly one".into()),
            Self::Optional => (0, 1, "at most one".into()),
            Self::Any => (0, usize::MAX, "any number of".into()),
            Self::Some => (1, usize::MAX, "at least one".into()),
            Self::Exactly(wanted) => (wanted, wanted, format!("exactly {wanted}").into()),
        }
    }
}

/// Kind of a port, as an index of [`KINDS`].
#[derive(Debug, Clone, Copy)]
enum Kind {
    Input,
    Output,
    SideInput,
    SideOutput,
}

type PortsOf = fn(&NodeSpec) -> &Ports;

/// Kinds of ports in words, and the ports of a node.
const KINDS: [(&str, PortsOf); 4] = [
    ("input stream", |node| &node.inputs),
    ("output stream", |node| &node.outputs),
    ("input side packet", |node| &node.side_inputs),
    ("output side packet", |node| &node.side_outputs),
];

/// Builder of a contract that validates a node. The first error is kept; a port not covered by the
/// contract is an error as well.
pub struct Ask<'a> {
    pub(in crate::graph) node: &'a NodeSpec,
    pub(in crate::graph) contract: Contract,
    known: [Vec<&'static str>; 4],
    error: Option<String>,
}

impl<'a> Ask<'a> {
    /// Starts a contract.
    pub(in crate::graph) fn new(node: &'a NodeSpec) -> Self {
        Self {
            node,
            contract: Contract::any(node),
            known: Default::default(),
            error: None,
        }
    }

    /// Declares input streams with a tag.
    pub(in crate::graph) fn takes(
        self,
        tag: &'static str,
        count: Count,
        kind: &PacketType,
    ) -> Self {
        self.ports(Kind::Input, tag, count, |contract, place| {
            contract.inputs[place] = kind.clone();
        })
    }

    /// Declares output streams with a tag.
    pub(in crate::graph) fn gives(
        self,
        tag: &'static str,
        count: Count,
        kind: &PacketType,
    ) -> Self {
        self.ports(Kind::Output, tag, count, |contract, place| {
            contract.outputs[place] = kind.clone();
        })
    }

    /// Declares output streams with a tag, of the same types as the inputs of another tag, one by
    /// one.
    pub(in crate::graph) fn gives_same(self, tag: &'static str, inputs: &str) -> Self {
        let same = places(&self.node.inputs, inputs);
        self.gives_each(tag, same)
    }

    /// Declares output streams with a tag, of the same types as these inputs, one by one.
    pub(in crate::graph) fn gives_each(self, tag: &'static str, inputs: Vec<usize>) -> Self {
        let count = Count::Exactly(inputs.len());
        let mut inputs = inputs.into_iter();
        self.ports(Kind::Output, tag, count, |contract, place| {
            if let Some(input) = inputs.next() {
                contract.outputs[place] = PacketType::SameAsInput(input);
            }
        })
    }

    /// Declares required input side packets with a tag; those that are named must be given.
    pub(in crate::graph) fn needs(
        self,
        tag: &'static str,
        count: Count,
        kind: &PacketType,
    ) -> Self {
        self.ports(Kind::SideInput, tag, count, |contract, place| {
            contract.side_inputs[place] = (kind.clone(), false);
        })
    }

    /// Declares an optional input side packet.
    pub(in crate::graph) fn uses(self, tag: &'static str, kind: &PacketType) -> Self {
        self.ports(Kind::SideInput, tag, Count::Optional, |contract, place| {
            contract.side_inputs[place] = (kind.clone(), true);
        })
    }

    /// Declares output side packets with a tag.
    pub(in crate::graph) fn makes(
        self,
        tag: &'static str,
        count: Count,
        kind: &PacketType,
    ) -> Self {
        self.ports(Kind::SideOutput, tag, count, |contract, place| {
            contract.side_outputs[place] = kind.clone();
        })
    }

    /// Settles outputs up to the timestamp of the inputs.
    pub(in crate::graph) fn settles(self) -> Self {
        self.settles_if(true)
    }

    /// Settles outputs up to the timestamp of the inputs, on a condition.
    pub(in crate::graph) fn settles_if(mut self, so: bool) -> Self {
        self.contract.offset = so.then_some(0);
        self
    }

    /// Requests calls of `process` also when only bounds have risen.
    pub(in crate::graph) fn wants_bounds(mut self) -> Self {
        self.contract.wants_bounds = true;
        self
    }

    /// Sets the calculator's own input stream handler.
    pub(in crate::graph) fn handler(mut self, name: &'static str) -> Self {
        self.contract.handler = Some(name);
        self
    }

    /// Takes a contract that was made by hand, with whatever ports the node has.
    pub(in crate::graph) fn by_hand(
        mut self,
        make: fn(&NodeSpec) -> Result<Contract, String>,
    ) -> Self {
        match make(self.node) {
            Ok(contract) => self.contract = contract,
            Err(error) => self.error = Some(error),
        }
        self.known.fill(vec![EVERY]);
        self
    }

    /// Adds another requirement.
    pub(in crate::graph) fn demand(mut self, kept: bool, text: impl FnOnce() -> String) -> Self {
        if !kept && self.error.is_none() {
            self.error = Some(text());
        }
        self
    }

    /// Builds the contract.
    pub(in crate::graph) fn contract(self) -> Result<Contract, String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let calculator = &self.node.calculator;
        for ((kind, of), known) in KINDS.iter().zip(&self.known) {
            let is_known =
                |port: &&Port| known.iter().any(|tag| *tag == EVERY || *tag == port.at.tag);
            let Some(port) = of(self.node).iter().find(|port| !is_known(port)) else {
                continue;
            };
            let takes = if known.is_empty() {
                format!("{calculator} has no {kind}s")
            } else {
                let tags: Vec<_> = known.iter().map(|tag| tag_text(tag)).collect();
                format!("{kind}s of {calculator} are those{}", tags.join(","))
            };
            let (at, name) = (&port.at, &port.name);
            return Err(format!("unexpected {kind} \"{at}:{name}\"; {takes}"));
        }
        Ok(self.contract)
    }

    fn ports(
        mut self,
        kind: Kind,
        tag: &'static str,
        count: Count,
        mut set: impl FnMut(&mut Contract, usize),
    ) -> Self {
        self.known[kind as usize].push(tag);
        let (kind, of) = KINDS[kind as usize];
        let places = places(of(self.node), tag);
        let found = places.len();
        for place in places {
            set(&mut self.contract, place);
        }
        let (least, most, words) = count.bounds();
        self.demand((least..=most).contains(&found), || {
            let plural = if least == most && least != 1 { "s" } else { "" };
            let tag = tag_text(tag);
            format!("expected {words} {kind}{plural}{tag}, got {found}")
        })
    }
}

fn places(ports: &Ports, tag: &str) -> Vec<usize> {
    if tag == EVERY {
        (0..ports.len()).collect()
    } else {
        ports.tagged(tag).collect()
    }
}

/// Formats a tag for an error message.
fn tag_text(tag: &str) -> Cow<'_, str> {
    match tag {
        "" => " without tag".into(),
        EVERY => "".into(),
        tag => format!(" {tag}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Count};
    use crate::graph::calculators::{
        node::{NodeSpec, Ports},
        packet::PacketType,
    };

    fn node() -> NodeSpec {
        NodeSpec {
            calculator: "C".to_owned(),
            inputs: Ports::of(&["a", "b", "TICK:t"]),
            outputs: Ports::of(&["c", "d"]),
            ..NodeSpec::default()
        }
    }

    #[test]
    fn counts_are_reported_with_what_was_expected() {
        let node = node();
        let contract = Ask::new(&node).takes("", Count::One, &PacketType::Any);
        assert_eq!(
            contract.contract().unwrap_err(),
            "expected exactly one input stream without tag, got 2"
        );
        let contract = Ask::new(&node).makes("VALUE", Count::Some, &PacketType::Any);
        assert_eq!(
            contract.contract().unwrap_err(),
            "expected at least one output side packet VALUE, got 0"
        );
        let contract = Ask::new(&node).takes("", Count::Exactly(3), &PacketType::Any);
        assert_eq!(
            contract.contract().unwrap_err(),
            "expected exactly 3 input streams without tag, got 2"
        );
    }

    #[test]
    fn ports_that_nobody_spoke_of_are_refused() {
        let node = node();
        let ask = Ask::new(&node).takes("", Count::Any, &PacketType::Any);
        assert_eq!(
            ask.contract().unwrap_err(),
            "unexpected input stream \"TICK:0:t\"; input streams of C are those without tag"
        );
        let ask = Ask::new(&node)
            .takes("", Count::Any, &PacketType::Any)
            .takes("TICK", Count::Optional, &PacketType::Int);
        assert_eq!(
            ask.contract().unwrap_err(),
            "unexpected output stream \":0:c\"; C has no output streams"
        );
    }

    #[test]
    fn types_go_to_their_places() {
        let node = node();
        let contract = Ask::new(&node)
            .takes("", Count::Any, &PacketType::Bool)
            .takes("TICK", Count::Optional, &PacketType::Int)
            .gives_same("", "")
            .settles()
            .contract()
            .unwrap();
        assert_eq!(
            contract.inputs,
            [PacketType::Bool, PacketType::Bool, PacketType::Int]
        );
        assert_eq!(
            contract.outputs,
            [PacketType::SameAsInput(0), PacketType::SameAsInput(1)]
        );
        assert_eq!(contract.offset, Some(0));
    }
}
