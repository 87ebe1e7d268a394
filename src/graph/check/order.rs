//! Cycles of nodes.

use super::{Draft, rules};
use crate::graph::plan::StreamSource;

impl Draft<'_> {
    /// Finds cycles through streams that are no back edges, and through side packets; each is one error.
    pub(super) fn cycles(&self) {
        for cycle in components(&self.followers()) {
            if self.found.is_full(rules::WIRING) {
                return;
            }
            self.tell(&cycle);
        }
    }

    /// Returns the consumers of each node.
    fn followers(&self) -> Vec<Vec<usize>> {
        let mut followers = vec![Vec::new(); self.nodes.len()];
        for stream in &self.streams {
            let StreamSource::Node(from, _) = stream.from else {
                continue;
            };
            for (to, place) in &stream.to {
                let node = &self.nodes[*to];
                // An invalid loopback is already reported.
                let is_reported = *to == from && node.is_loopback_wrong;
                if !node.back_edges[*place] && !is_reported {
                    followers[from].push(*to);
                }
            }
        }
        for side in &self.sides {
            if let Some((from, _)) = side.from {
                followers[from].extend(side.to.iter().map(|(to, _)| *to));
            }
        }
        followers
    }

    fn tell(&self, cycle: &[usize]) {
        let Some(&first) = cycle.first() else { return };
        // Invalid input details are already reported: they were to break the cycle.
        if cycle.iter().any(|node| self.nodes[*node].are_infos_wrong) {
            return;
        }
        let entry = &self.spec.nodes[first];
        const MAX: usize = 8;
        let names = cycle.iter().take(MAX);
        let mut names: Vec<String> = names
            .map(|node| format!("`{}`", self.spec.nodes[*node].spec.name))
            .collect();
        if cycle.len() > MAX {
            names.push(format!("{} more", cycle.len() - MAX));
        }
        let message = format!(
            "Generator side packet cycle or calculator stream cycle detected: {}",
            names.join(", ")
        );
        let within = |place: &usize| {
            let stream = self.nodes[first].inputs[*place]?;
            match self.streams[stream].from {
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
/// cycle), each in the order of the nodes. Tarjan's algorithm, with an explicit stack: graphs may
/// be long.
fn components(followers: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let count = followers.len();
    let mut index = vec![NEW; count];
    let mut low = vec![0; count];
    let mut is_open = vec![false; count];
    let mut open = Vec::new();
    let mut next = 0;
    let mut found = Vec::new();
    for root in 0..count {
        if index[root] != NEW {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, step)) = path.last_mut() {
            let node = *node;
            if *step == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                is_open[node] = true;
                open.push(node);
            }
            if let Some(&to) = followers[node].get(*step) {
                *step += 1;
                if index[to] == NEW {
                    path.push((to, 0));
                } else if is_open[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                low[*above] = low[*above].min(low[node]);
            }
            if low[node] == index[node] {
                let start = open.iter().rposition(|known| *known == node);
                let mut component = open.split_off(start.unwrap_or_default());
                for member in &component {
                    is_open[*member] = false;
                }
                if component.len() > 1 || followers[node].contains(&node) {
                    component.sort_unstable();
                    found.push(component);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn nodes_that_wait_for_each_other_are_found() {
        // 0 → 1 → 2 → 0, 2 → 3, 3 → 3, 4 → 3
        let followers = [vec![1], vec![2], vec![0, 3], vec![3], vec![3]];
        assert_eq!(components(&followers), [vec![3], vec![0, 1, 2]]);
        assert_eq!(components(&[vec![1], vec![2], vec![]]), [[0_usize; 0]; 0]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let count = 300_000;
        let mut followers: Vec<Vec<usize>> = (1..count).map(|to| vec![to]).collect();
        followers.push(vec![0]);
        assert_eq!(components(&followers).len(), 1);
    }
}
