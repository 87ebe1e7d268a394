//! What the log says of folders that are no versions: once, for as long as they stay.

use std::collections::BTreeSet;

use crate::model::Ignored;

/// The folders that have been told of.
#[derive(Default)]
pub(super) struct Reported(BTreeSet<Ignored>);

impl Reported {
    /// Tells of the folders that have not been told of; those that are gone are forgotten.
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
