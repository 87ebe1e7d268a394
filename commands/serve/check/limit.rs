//! Time limits for user code in a check, the same as in the server.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use ovms::{config::Defaults, task};

use super::page;
use crate::{
    error::{Failure, FailureKind},
    pipeline::aside::Aside,
};

/// Time limits for custom nodes and graphs.
#[derive(Debug, Default)]
pub(super) struct Limit {
    custom: Duration,
    graph: Duration,
    /// Destination of a JSON document if the time is up.
    stdout: Option<Aside>,
}

/// Guard of a check with a time limit; ends the watch when it is dropped.
pub(super) struct Watched(
    #[expect(dead_code, reason = "its end is what the watch hears")] mpsc::Sender<()>,
);

impl Limit {
    /// Sets the limits of the server.
    pub(super) fn set(&mut self, defaults: &Defaults) {
        let flags = &defaults.flags;
        self.custom = Duration::from_secs(flags.custom_node_load_seconds.into());
        self.graph = Duration::from_secs(flags.graph_load_seconds.into());
    }

    /// Sets the output for a document if the time is up.
    pub(super) fn write_to(&mut self, stdout: Option<Aside>) {
        self.stdout = stdout;
    }

    /// Watches the check of a pipeline.
    pub(super) fn of_pipelines(&self, what: String) -> Watched {
        self.watch(what, self.custom, "--custom_node_load_seconds")
    }

    /// Watches the check of a graph.
    pub(super) fn of_graphs(&self, what: String) -> Watched {
        self.watch(what, self.graph, "--graph_load_seconds")
    }

    /// Ends the process if a check takes too long: code that does not return cannot be stopped
    /// otherwise.
    fn watch(&self, what: String, limit: Duration, flag: &'static str) -> Watched {
        let (sender, ended) = mpsc::channel();
        let stdout = self.stdout.as_ref().and_then(|it| it.try_clone().ok());
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let text = format!("{what} took longer than {limit:?}");
                let failure = Failure::new(FailureKind::Failed, text)
                    .hint(format!("see what they do when they begin, or raise {flag}"));
                if let Some(mut stdout) = stdout {
                    let _ = stdout.print(&page::of_failure(&failure));
                }
                let _ = failure.print();
                std::process::exit(i32::from(failure.kind().code()));
            }
        };
        // Without a thread nothing is watched, and all is looked at all the same.
        let _ = task::thread("check limit", watch);
        Watched(sender)
    }
}
