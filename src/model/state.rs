//! The states that a model version goes through, as status calls report them.

/// Where a version stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Known, nothing done yet.
    Start,
    /// Being loaded, or failed to load.
    Loading,
    /// Serving.
    Available,
    /// Waiting for the requests under way.
    Unloading,
    /// Unloaded.
    End,
}

/// How the last step of a version went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Well.
    Ok,
    /// Not well; the log and the message say why.
    Unknown,
}

/// State and outcome of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// How the last step went.
    pub code: Code,
}

impl Status {
    /// A state with nothing wrong.
    #[must_use]
    pub const fn ok(state: State) -> Self {
        Self {
            state,
            code: Code::Ok,
        }
    }

    /// A load that failed.
    #[must_use]
    pub const fn failed() -> Self {
        Self {
            state: State::Loading,
            code: Code::Unknown,
        }
    }
}
