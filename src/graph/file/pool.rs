//! Number of graphs that are kept for unary requests.

/// Environment variable that disables all pools if set to `1`.
const NO_POOLS: &str = "OVMS_GRAPH_QUEUE_OFF";

/// Number of pooled instances requested by a graph file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolSize {
    /// No pool: a new graph for each request.
    #[default]
    Off,
    /// Fixed number.
    Fixed(usize),
    /// Number of threads of the machine.
    Auto,
}

impl PoolSize {
    /// Returns whether instances are kept: they are asked for, and the environment does not disable that.
    pub fn is_kept(self) -> bool {
        self != Self::Off && !std::env::var(NO_POOLS).is_ok_and(|off| off == "1")
    }
}
