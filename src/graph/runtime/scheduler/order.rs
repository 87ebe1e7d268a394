//! Order of the nodes of a graph.

use crate::{graph::check::plan::GraphPlan, order::topological};

/// Orders the nodes so that producers of streams and side packets come before their consumers,
/// except for back edges; in the order of the plan otherwise.
pub(super) fn ordered(plan: &GraphPlan) -> Vec<usize> {
    let takers: Vec<Vec<usize>> = (0..plan.nodes.len())
        .map(|node| takers(plan, node))
        .collect();
    // A checked graph has cycles through back edges only; with others, nothing would break.
    topological(&takers, |waits| {
        let first = waits.iter().position(|waits| *waits > 0);
        first.into_iter().collect()
    })
}

/// Returns the consumers of this node, once for each stream.
fn takers(plan: &GraphPlan, node: usize) -> Vec<usize> {
    let planned = &plan.nodes[node];
    let streams = planned.outputs.iter().flat_map(|at| &plan.streams[*at].to);
    let forward =
        streams.filter(|(to, place)| plan.nodes[*to].back_edges.get(*place) != Some(&true));
    let sides = planned
        .side_outputs
        .iter()
        .flat_map(|at| &plan.sides[*at].to);
    forward.chain(sides).map(|(to, _)| *to).collect()
}
