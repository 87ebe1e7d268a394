//! Priorities of requests.

/// Priority of a request among those that wait for an infer request: 1 is the first, 10 the last. The numbers and the
/// parameter are those of Triton, where a lower number is the higher priority, and 0 stands for the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// The highest one.
    pub const FIRST: Self = Self(1);
    /// Priority of requests that do not specify one.
    pub const USUAL: Self = Self(5);
    /// The lowest one.
    pub const LAST: Self = Self(10);

    /// Makes that of a number from 1 on; all above the lowest priority stand for that.
    pub fn new(number: u64) -> Self {
        match u8::try_from(number) {
            Ok(0) => Self::FIRST,
            Ok(number) => Self(number).min(Self::LAST),
            Err(_) => Self::LAST,
        }
    }

    /// Returns what a number of a client asks for: nothing, if it is 0.
    pub fn asked(number: u64) -> Option<Self> {
        (number > 0).then(|| Self::new(number))
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::USUAL
    }
}

/// Bounds of the priorities that a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityBounds {
    /// The highest one; what is asked for beyond it counts as this.
    pub best: Priority,
    /// Priority of requests that do not specify one.
    pub usual: Priority,
}

impl PriorityBounds {
    /// Returns the priority of a request that asks for one.
    pub fn of(self, asked: Option<Priority>) -> Priority {
        asked.unwrap_or(self.usual).max(self.best)
    }
}

impl Default for PriorityBounds {
    /// Returns the bounds of a server without identities.
    fn default() -> Self {
        Self {
            best: Priority::FIRST,
            usual: Priority::USUAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Priority, PriorityBounds};

    #[test]
    fn a_client_does_not_get_ahead_of_its_bound() {
        let [best, usual] = [3, 6].map(Priority::new);
        let bounds = PriorityBounds { best, usual };
        assert_eq!(bounds.of(None), usual);
        assert_eq!(bounds.of(Some(Priority::FIRST)), best);
        assert_eq!(bounds.of(Some(Priority::new(4))).number(), 4);
        assert_eq!(bounds.of(Some(Priority::LAST)), Priority::LAST);
    }
}
