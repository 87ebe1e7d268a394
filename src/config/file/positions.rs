//! Positions of an object and of the values of its keys.

use crate::diagnostic::FilePosition;

/// The place of an object, and of what is below its keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePositions {
    /// The object itself.
    pub own: FilePosition,
    /// The values of the keys that it has.
    pub(in crate::config) keys: Vec<(String, FilePosition)>,
}

impl FilePositions {
    /// Returns the place of the value of a key; that of the object if it does not have the key.
    pub fn of(&self, key: &str) -> &FilePosition {
        let mut keys = self.keys.iter();
        keys.find(|(name, _)| name == key)
            .map_or(&self.own, |(_, place)| place)
    }
}
