//! Time limits for user code in a check, the same as in the server.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use ovms::{config::Flags, task};

use super::page;
use crate::{error::Failure, pipeline::aside::Aside};

/// Time limits for custom nodes and graphs.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// Flags of the server, which have the limits.
    pub(super) flags: Arc<Flags>,
    /// Destination of a JSON document if the time is up.
    pub(super) stdout: Option<Aside>,
}

/// Guard of a check with a time limit; ends the watch when it is dropped.
pub(super) struct Watched(
    #[expect(dead_code, reason = "its end is what the watch hears")] mpsc::Sender<()>,
);

impl Limit {
    /// Watches the check of a pipeline.
    pub(super) fn of_pipelines(&self, what: String) -> Watched {
        let seconds = self.flags.custom_node_load_seconds;
        self.watch(what, seconds, "--custom_node_load_seconds")
    }

    /// Watches the check of a graph.
    pub(super) fn of_graphs(&self, what: String) -> Watched {
        self.watch(what, self.flags.graph_load_seconds, "--graph_load_seconds")
    }

    /// Ends the process if a check takes too long: code that does not return cannot be stopped
    /// otherwise.
    fn watch(&self, what: String, seconds: u32, flag: &'static str) -> Watched {
        let limit = Duration::from_secs(seconds.into());
        let (sender, ended) = mpsc::channel();
        let stdout = self.stdout.as_ref().and_then(|it| it.try_clone().ok());
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let text = format!("{what} took longer than {limit:?}");
                let failure = Failure::failed(text)
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
