//! The servers of all pipelines whose tests leave them as they were.

use std::{
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, MutexGuard},
};

use super::{config, errors, labels, limits, metrics, names, parallel, parts};
use crate::support::{Server, pipelines::Config};

/// A server that is kept, and the folder of its configuration file.
pub(super) struct Shared {
    pub(super) server: Server,
    folder: PathBuf,
}

impl Shared {
    fn start(models: &[&str], add: &[fn(&mut Config)], flags: &[&str]) -> Self {
        let mut config = Config::of(models);
        config.library("shaped", "shaped.c");
        for add in add {
            add(&mut config);
        }
        Self {
            folder: config.beside(""),
            server: config.serve_kept(flags),
        }
    }

    /// Returns a path beside the configuration file.
    pub(super) fn beside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }
}

/// The server with metrics.
pub(super) static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let add = [
        config::add,
        errors::add,
        labels::add,
        limits::add,
        metrics::add,
        names::add,
        parallel::add,
        parts::add,
    ];
    Shared::start(&["add", "dummy"], &add, &["--metrics_enable"])
});

/// Returns the server with metrics that runs two custom nodes at once, for a test that takes both places.
pub(super) fn two_places() -> MutexGuard<'static, Shared> {
    static TWO: LazyLock<Mutex<Shared>> = LazyLock::new(|| {
        let add = [errors::add_many_parts, parallel::add_many_parts];
        let flags = ["--max_custom_node_runs", "2", "--metrics_enable"];
        Mutex::new(Shared::start(&[], &add, &flags))
    });
    TWO.lock().unwrap()
}
