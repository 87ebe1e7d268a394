//! Errors in a configuration file, with their positions.

use std::fmt;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePosition {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The way to it through the JSON, such as `model_config_list[0].config.nireq`; empty for the
    /// file as a whole.
    pub path: String,
}

impl fmt::Display for FilePosition {
    /// Writes `7:15`, and the path if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)?;
        if self.path.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.path)
        }
    }
}

/// The place of an object, and of what is below its keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePositions {
    /// The object itself.
    pub own: FilePosition,
    /// The values of the keys that it has.
    pub(in crate::config) keys: Vec<(&'static str, FilePosition)>,
}

impl FilePositions {
    /// Returns the place of the value of a key; that of the object if it does not have the key.
    #[must_use]
    pub fn of(&self, key: &str) -> &FilePosition {
        let mut keys = self.keys.iter();
        keys.find(|(name, _)| *name == key)
            .map_or(&self.own, |(_, place)| place)
    }
}

/// A single error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationError {
    /// Position in the file.
    pub place: FilePosition,
    /// Value that was found.
    pub found: String,
    /// Value that was expected.
    pub expected: String,
    /// Suggestion of what may have been meant.
    pub hint: Option<String>,
    /// The line of the file.
    pub excerpt: String,
    /// Number of characters concerned, counted from the position on.
    pub width: usize,
    /// Whether the error is about an unknown key, as opposed to a value.
    pub(in crate::config) unknown_key: bool,
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            found,
            expected,
            ..
        } = self;
        write!(f, "{place}: found {found}; expected {expected}")?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Something in a file that is served all the same, though perhaps not as meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Position in the file.
    pub place: FilePosition,
    /// Text of the warning.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}
