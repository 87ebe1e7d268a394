//! Topological order of nodes.

/// Orders nodes so that each comes behind all that it waits for: `below` has the nodes that wait for each one,
/// once for each edge. Where only cycles and what waits for them are left, `broken` takes the number of edges
/// that each node still waits for, and returns the nodes that are next all the same; without any, the order ends.
pub(crate) fn topological(
    below: &[Vec<usize>],
    mut broken: impl FnMut(&[usize]) -> Vec<usize>,
) -> Vec<usize> {
    let mut waits = vec![0_usize; below.len()];
    for &to in below.iter().flatten() {
        waits[to] += 1;
    }
    let mut order: Vec<usize> = (0..below.len()).filter(|node| waits[*node] == 0).collect();
    let mut next = 0;
    loop {
        while let Some(&node) = order.get(next) {
            next += 1;
            for &to in &below[node] {
                if waits[to] == 1 {
                    order.push(to);
                }
                waits[to] = waits[to].saturating_sub(1);
            }
        }
        let gone = broken(&waits);
        if gone.is_empty() {
            return order;
        }
        for node in gone {
            waits[node] = 0;
            order.push(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::topological;

    #[test]
    fn nodes_come_behind_those_that_they_wait_for() {
        let below = [vec![3], vec![0, 0, 2], vec![3], vec![]];
        assert_eq!(topological(&below, |_| Vec::new()), [1, 0, 2, 3]);
    }

    #[test]
    fn cycles_end_the_order_or_are_broken() {
        let below = [vec![1], vec![2], vec![1, 3], vec![]];
        assert_eq!(topological(&below, |_| Vec::new()), [0]);
        let first = |waits: &[usize]| waits.iter().position(|waits| *waits > 0);
        let broken = topological(&below, |waits| first(waits).into_iter().collect());
        assert_eq!(broken, [0, 1, 2, 3]);
    }
}
