//! Log lines for folders that are not versions: once, for as long as they exist.

use std::collections::BTreeSet;

use crate::model::Ignored;

/// Folders that were reported before.
#[derive(Default)]
pub(super) struct Reported(BTreeSet<Ignored>);

impl Reported {
    /// Logs the folders that were not logged before, and forgets those that are gone.
    pub(super) fn tell(&mut self, base_path: &str, ignored: Vec<Ignored>) {
        let ignored = BTreeSet::from_iter(ignored);
        let base_path = base_path.trim_end_matches('/');
        for folder in ignored.difference(&self.0) {
            tracing::warn!(folder = %format_args!("{base_path}/{}", folder.name), "{folder}");
        }
        self.0 = ignored;
    }

    /// Forgets everything, since the base path is another one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
