//! Queue of the nodes that may be able to run.

/// Set of nodes, served in rounds: within a round, nodes later in the graph come first, and each at
/// most once, so that packets leave the graph before new ones enter, and no node starves another.
#[derive(Debug)]
pub(super) struct Ready {
    /// Bit sets of ranks: this round, the next one, and those already served.
    now: Vec<u64>,
    next: Vec<u64>,
    served: Vec<u64>,
    len: usize,
}

const BITS: usize = u64::BITS as usize;

impl Ready {
    /// Creates an empty set for ranks below this.
    pub(super) fn new(ranks: usize) -> Self {
        let words = ranks.div_ceil(BITS);
        Self {
            now: vec![0; words],
            next: vec![0; words],
            served: vec![0; words],
            len: 0,
        }
    }

    /// Adds a rank, if absent.
    pub(super) fn insert(&mut self, rank: usize) {
        let (word, bit) = (rank / BITS, 1 << (rank % BITS));
        if (self.now[word] | self.next[word]) & bit != 0 {
            return;
        }
        self.len += 1;
        if self.served[word] & bit == 0 {
            self.now[word] |= bit;
        } else {
            self.next[word] |= bit;
        }
    }

    /// Removes the rank whose turn it is.
    pub(super) fn pop(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        loop {
            for (word, bits) in self.now.iter_mut().enumerate().rev() {
                if *bits != 0 {
                    let bit = BITS - 1 - bits.leading_zeros() as usize;
                    *bits &= !(1 << bit);
                    self.len -= 1;
                    return Some(word * BITS + bit);
                }
            }
            std::mem::swap(&mut self.now, &mut self.next);
            self.served.fill(0);
        }
    }

    /// Marks a rank as served in this round.
    pub(super) fn serve(&mut self, rank: usize) {
        self.served[rank / BITS] |= 1 << (rank % BITS);
    }

    /// Returns whether the set is empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all ranks.
    pub(super) fn clear(&mut self) {
        self.now.fill(0);
        self.next.fill(0);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;

    #[test]
    fn later_ranks_come_first_and_each_once_a_round() {
        let mut ready = Ready::new(130);
        for rank in [3, 129, 70] {
            ready.insert(rank);
            ready.insert(rank);
        }
        assert_eq!(ready.pop(), Some(129));
        ready.serve(129);
        ready.insert(129);
        assert_eq!(ready.pop(), Some(70), "129 had its turn");
        assert_eq!(ready.pop(), Some(3));
        assert_eq!(ready.pop(), Some(129), "a new round");
        assert_eq!(ready.pop(), None);
        assert!(ready.is_empty());
    }
}
