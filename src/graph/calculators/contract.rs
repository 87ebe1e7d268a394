//! Builder for contracts: the ports of a calculator, their number, and their packet types.

use std::{borrow::Cow, fmt};

use crate::graph::{
    calculator::Contract,
    node::{NodeSpec, Ports},
    packet::PacketType,
};

/// Placeholder for all tags, if ports are identified by their order only.
pub(super) const EVERY: &str = "*";

/// Number of ports allowed for a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
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
    fn is_plural(self) -> bool {
        matches!(self, Self::Any) || matches!(self, Self::Exactly(count) if count != 1)
    }

    fn allows(self, count: usize) -> bool {
        match self {
            Self::One => count == 1,
            Self::Optional => count <= 1,
            Self::Any => true,
            Self::Some => count > 0,
            Self::Exactly(wanted) => count == wanted,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("exactly one"),
            Self::Optional => f.write_str("at most one"),
            Self::Any => f.write_str("any number of"),
            Self::Some => f.write_str("at least one"),
            Self::Exactly(wanted) => write!(f, "exactly {wanted}"),
        }
    }
}

/// Kind of a port.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Input,
    Output,
    SideInput,
    SideOutput,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Input, Self::Output, Self::SideInput, Self::SideOutput];

    fn of(self, node: &NodeSpec) -> &Ports {
        match self {
            Self::Input => &node.inputs,
            Self::Output => &node.outputs,
            Self::SideInput => &node.side_inputs,
            Self::SideOutput => &node.side_outputs,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input stream",
            Self::Output => "output stream",
            Self::SideInput => "input side packet",
            Self::SideOutput => "output side packet",
        })
    }
}

/// Builder of a contract that validates a node. The first error is kept; a port not covered by the
/// contract is an error as well.
pub(super) struct Ask<'a> {
    node: &'a NodeSpec,
    contract: Contract,
    known: [Vec<&'static str>; 4],
    error: Option<String>,
}

impl<'a> Ask<'a> {
    /// Starts a contract.
    pub(super) fn new(node: &'a NodeSpec) -> Self {
        Self {
            node,
            contract: Contract::any(node),
            known: Default::default(),
            error: None,
        }
    }

    /// Declares input streams with a tag.
    pub(super) fn takes(self, tag: &'static str, count: Count, kind: &PacketType) -> Self {
        self.ports(Kind::Input, tag, count, |contract, place| {
            contract.inputs[place] = kind.clone();
        })
    }

    /// Declares output streams with a tag.
    pub(super) fn gives(self, tag: &'static str, count: Count, kind: &PacketType) -> Self {
        self.ports(Kind::Output, tag, count, |contract, place| {
            contract.outputs[place] = kind.clone();
        })
    }

    /// Declares output streams with a tag, of the same types as the inputs of another tag, one by
    /// one.
    pub(super) fn gives_same(self, tag: &'static str, inputs: &str) -> Self {
        let same = places(&self.node.inputs, inputs);
        let mut next = same.iter();
        self.ports(
            Kind::Output,
            tag,
            Count::Exactly(same.len()),
            |contract, place| {
                if let Some(input) = next.next() {
                    contract.outputs[place] = PacketType::SameAsInput(*input);
                }
            },
        )
    }

    /// Declares required input side packets with a tag; those that are named must be given.
    pub(super) fn needs(self, tag: &'static str, count: Count, kind: &PacketType) -> Self {
        self.ports(Kind::SideInput, tag, count, |contract, place| {
            contract.side_inputs[place] = (kind.clone(), false);
        })
    }

    /// Declares an optional input side packet.
    pub(super) fn uses(self, tag: &'static str, kind: &PacketType) -> Self {
        self.ports(Kind::SideInput, tag, Count::Optional, |contract, place| {
            contract.side_inputs[place] = (kind.clone(), true);
        })
    }

    /// Declares output side packets with a tag.
    pub(super) fn makes(self, tag: &'static str, count: Count, kind: &PacketType) -> Self {
        self.ports(Kind::SideOutput, tag, count, |contract, place| {
            contract.side_outputs[place] = kind.clone();
        })
    }

    /// Settles outputs up to the timestamp of the inputs.
    pub(super) fn settles(self) -> Self {
        self.settles_if(true)
    }

    /// Settles outputs up to the timestamp of the inputs, on a condition.
    pub(super) fn settles_if(mut self, so: bool) -> Self {
        self.contract.offset = so.then_some(0);
        self
    }

    /// Requests calls of `process` also when only bounds have risen.
    pub(super) fn wants_bounds(mut self) -> Self {
        self.contract.wants_bounds = true;
        self
    }

    /// Sets the calculator's own input stream handler.
    pub(super) fn handler(mut self, name: &'static str) -> Self {
        self.contract.handler = Some(name);
        self
    }

    /// Adds another requirement.
    pub(super) fn demand(mut self, kept: bool, text: impl FnOnce() -> String) -> Self {
        if !kept && self.error.is_none() {
            self.error = Some(text());
        }
        self
    }

    /// Builds the contract.
    pub(super) fn contract(self) -> Result<Contract, String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for kind in Kind::ALL {
            let known = &self.known[kind as usize];
            let mut ports = kind.of(self.node).iter();
            if known.contains(&EVERY) {
                continue;
            }
            if let Some(port) = ports.find(|port| !known.contains(&port.at.tag.as_str())) {
                let tags: Vec<_> = known.iter().map(|tag| tag_text(tag)).collect();
                let takes = if tags.is_empty() {
                    format!("{} has no {kind}s", self.node.calculator)
                } else {
                    format!(
                        "{kind}s of {} are those{}",
                        self.node.calculator,
                        tags.join(",")
                    )
                };
                return Err(format!(
                    "unexpected {kind} \"{}:{}\"; {takes}",
                    port.at, port.name
                ));
            }
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
        let mut found = 0;
        for place in places(kind.of(self.node), tag) {
            set(&mut self.contract, place);
            found += 1;
        }
        self.demand(count.allows(found), || {
            let plural = if count.is_plural() { "s" } else { "" };
            format!(
                "expected {count} {kind}{plural}{}, got {found}",
                tag_text(tag)
            )
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
    Cow::Borrowed(match tag {
        "" => " without tag",
        EVERY => "",
        tag => return Cow::Owned(format!(" {tag}")),
    })
}

#[cfg(test)]
mod tests {
    use super::{Ask, Count};
    use crate::graph::{
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
