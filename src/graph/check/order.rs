//! Cycles of nodes.

use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
};

use super::{Draft, plan::StreamSource, rules};

impl Draft<'_> {
    /// Finds cycles through streams that are no back edges, and through side packets; each is one error.
    pub(super) fn cycles(&self) {
        for cycle in components(self.edges()) {
            if self.found.is_full(rules::WIRING) {
                return;
            }
            self.report(&cycle);
        }
    }

    /// Returns the pairs of nodes of which one consumes what the other produces.
    fn edges(&self) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for stream in &self.plan.streams {
            let StreamSource::Node(from, _) = stream.from else {
                continue;
            };
            for &(to, place) in &stream.to {
                let node = &self.nodes[to];
                // An invalid loopback is already reported.
                let is_reported = to == from && node.is_loopback_wrong;
                if !node.back_edges[place] && !is_reported {
                    edges.push((from, to));
                }
            }
        }
        for side in &self.plan.sides {
            if let Some((from, _)) = side.from {
                edges.extend(side.to.iter().map(|&(to, _)| (from, to)));
            }
        }
        edges
    }

    fn report(&self, cycle: &[usize]) {
        let Some(&first) = cycle.first() else { return };
        // Invalid input details are already reported: they were to break the cycle.
        if cycle.iter().any(|node| self.nodes[*node].are_infos_wrong) {
            return;
        }
        let entry = &self.spec.nodes[first];
        const MAX_NAMES: usize = 8;
        let names = cycle.iter().take(MAX_NAMES);
        let mut names: Vec<String> = names
            .map(|node| format!("`{}`", self.spec.nodes[*node].spec.name))
            .collect();
        if cycle.len() > MAX_NAMES {
            names.push(format!("{} more", cycle.len() - MAX_NAMES));
        }
        let message = format!(
            "Generator side packet cycle or calculator stream cycle detected: {}",
            names.join(", ")
        );
        let within = |place: &usize| {
            let stream = self.nodes[first].inputs[*place]?;
            match self.plan.streams[stream].from {
                StreamSource::Node(from, _) if cycle.contains(&from) => Some(*place),
                _ => None,
            }
        };
        let mut inputs = 0..entry.spec.inputs.len();
        let hint = inputs.find_map(|place| within(&place)).map(|place| {
            let at = &entry.spec.inputs[place].at;
            format!(
                "mark the input that closes the circle, such as `input_stream_info: {{ tag_index: \
                 \"{at}\" back_edge: true }}`"
            )
        });
        let name = &entry.spec.name;
        self.found.wiring(Some(name), entry.at, message, hint);
    }
}

/// Returns the sets of nodes that depend on each other (strongly connected components with a
/// cycle), each in the order of the nodes.
fn components(edges: impl IntoIterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let graph = DiGraph::<(), (), usize>::from_edges(edges);
    // The algorithm does not recurse: graphs may be long.
    let mut found = kosaraju_scc(&graph);
    found.retain(|nodes| nodes.len() > 1 || graph.contains_edge(nodes[0], nodes[0]));
    let found = found.into_iter().map(|nodes| {
        let mut nodes: Vec<usize> = nodes.into_iter().map(NodeIndex::index).collect();
        nodes.sort_unstable();
        nodes
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn nodes_that_wait_for_each_other_are_found() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 3), (4, 3)];
        assert_eq!(components(edges), [vec![3], vec![0, 1, 2]]);
        assert_eq!(components([(0, 1), (1, 2)]), [[0_usize; 0]; 0]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let count = 300_000;
        let edges = (0..count).map(|from| (from, (from + 1) % count));
        assert_eq!(components(edges).len(), 1);
    }
}
