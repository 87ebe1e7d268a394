//! Order of the nodes of a graph.

use crate::graph::plan::GraphPlan;

/// Orders the nodes so that producers of streams and side packets come before their consumers,
/// except for back edges; in the order of the plan otherwise.
pub(super) fn ordered(plan: &GraphPlan) -> Vec<usize> {
    let count = plan.nodes.len();
    let mut waits = vec![0_usize; count];
    for node in 0..count {
        takers(plan, node, |to| waits[to] += 1);
    }
    let mut order: Vec<usize> = (0..count).filter(|node| waits[*node] == 0).collect();
    let mut next = 0;
    loop {
        while let Some(&node) = order.get(next) {
            next += 1;
            takers(plan, node, |to| {
                if waits[to] == 1 {
                    order.push(to);
                }
                waits[to] = waits[to].saturating_sub(1);
            });
        }
        // A checked graph has cycles through back edges only; with others, nothing would break.
        let Some(node) = waits.iter().position(|waits| *waits > 0) else {
            return order;
        };
        waits[node] = 0;
        order.push(node);
    }
}

/// Visits the consumers of this node, once for each stream.
fn takers(plan: &GraphPlan, node: usize, mut each: impl FnMut(usize)) {
    let planned = &plan.nodes[node];
    for stream in &planned.outputs {
        for &(to, place) in &plan.streams[*stream].to {
            if plan.nodes[to].back_edges.get(place) != Some(&true) {
                each(to);
            }
        }
    }
    for side in &planned.side_outputs {
        plan.sides[*side].to.iter().for_each(|(to, _)| each(*to));
    }
}
