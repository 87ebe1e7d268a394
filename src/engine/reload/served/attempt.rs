//! The loads of a version: when one is due, and when it is tried again.

use std::time::Duration;

use super::Trigger;
use crate::{
    config::{ModelConfig, StatefulConfig},
    model::{
        Version,
        storage::{FileIdentity, FoundVersion, Locator},
    },
    openvino::LoadOptions,
};

/// Maximum number of passes of the watcher between two tries of a load that fails and of which nothing
/// has changed.
const MAX_PAUSE: u32 = 32;

/// The loads of a version.
#[derive(Default)]
pub(super) struct Attempt {
    /// Facts of the loaded version.
    loaded: Option<Facts>,
    /// Location of its files.
    pub(super) from: Option<Locator>,
    /// Facts of the last load that failed.
    failed: Option<(Facts, Failure)>,
    /// Files with another identity, seen at the last pass.
    seen: Option<FileIdentity>,
}

/// Facts that decide whether a load would have another result.
#[derive(Clone)]
pub(super) struct Facts {
    /// Base path, options, and settings of sequences, see [`kept`].
    settings: (String, LoadOptions, Option<StatefulConfig>),
    identity: FileIdentity,
    /// Identity of the files themselves.
    files: FileIdentity,
}

impl Facts {
    pub(super) fn new(config: &ModelConfig, found: &FoundVersion) -> Self {
        Self {
            settings: (config.base_path.clone(), config.load.clone(), kept(config)),
            identity: found.identity,
            files: found.files,
        }
    }

    /// Returns whether nothing has changed that the watcher loads for.
    fn is_as(&self, other: &Self) -> bool {
        self.settings == other.settings && self.identity == other.identity
    }
}

/// A load that failed, and how many passes of the watcher to let go by before the next.
#[derive(Clone, Copy)]
struct Failure {
    left: u32,
    pause: u32,
}

impl Attempt {
    /// Returns whether a version is to be loaded.
    pub(super) fn due(&mut self, version: &Version, facts: &Facts, trigger: Trigger) -> bool {
        let loaded = self.loaded.as_ref().filter(|_| version.is_loaded());
        let loaded = loaded.filter(|loaded| loaded.is_as(facts));
        let is_replaced = loaded.map(|loaded| loaded.files != facts.files);
        if is_replaced == Some(false) {
            // If something else failed meanwhile, it is wanted no longer.
            self.failed = None;
            self.seen = None;
            version.forget_failure();
            return false;
        }
        if let Some((failed, failure)) = &mut self.failed
            && failed.is_as(facts)
        {
            if trigger == Trigger::Watch && failure.left > 0 {
                failure.left -= 1;
                return false;
            }
            return true;
        }
        if is_replaced == Some(true) {
            // By others of the same sizes and times, which are for those who ask. The watcher does not load them, since
            // the numbers of files may change by themselves, and a load ends sequences.
            self.failed = None;
            self.seen = Some(facts.identity);
            version.forget_failure();
            return trigger == Trigger::Asked;
        }
        let known = self.failed.as_ref().map(|(facts, _)| facts);
        let known = known.or(self.loaded.as_ref());
        if trigger == Trigger::Watch && known.is_some_and(|known| known.settings == facts.settings)
        {
            // Files that are just being copied look different at each pass.
            let stable = self.seen.as_ref() == Some(&facts.identity);
            self.seen = Some(facts.identity);
            return stable;
        }
        true
    }

    /// Returns the base path that the loaded version is of.
    pub(super) fn base_path(&self) -> Option<&String> {
        self.loaded.as_ref().map(|facts| &facts.settings.0)
    }

    /// Returns whether the last load was of the same, and failed.
    pub(super) fn has_failed(&self, facts: &Facts) -> bool {
        self.failed
            .as_ref()
            .is_some_and(|(failed, _)| failed.is_as(facts))
    }

    /// Returns whether no load is due later.
    pub(super) fn is_at_rest(&self) -> bool {
        self.failed.is_none() && self.seen.is_none()
    }

    /// Forgets what only counts up to the next load.
    pub(super) fn begin(&mut self) {
        self.seen = None;
    }

    /// Remembers what is loaded from now on, and where its files are.
    pub(super) fn succeed(&mut self, facts: Facts, from: Locator) {
        self.loaded = Some(facts);
        self.from = Some(from);
        self.failed = None;
    }

    /// Remembers a load that failed; each one more of the same makes the pause longer.
    pub(super) fn fail(&mut self, facts: Facts) {
        let before = self
            .failed
            .take()
            .filter(|(before, _)| before.is_as(&facts));
        let pause = before.map_or(1, |(_, failure)| (failure.pause * 2).min(MAX_PAUSE));
        let failure = Failure {
            left: pause - 1,
            pause,
        };
        self.failed = Some((facts, failure));
    }
}

/// Returns what a load depends on of the settings of sequences: not the time to drain.
pub(super) fn kept(config: &ModelConfig) -> Option<StatefulConfig> {
    config.stateful.as_ref().map(|stateful| StatefulConfig {
        drain: Duration::ZERO,
        ..stateful.clone()
    })
}
