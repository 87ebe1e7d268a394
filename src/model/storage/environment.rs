//! The environment variables that storage looks at, as one value.

use std::{collections::BTreeMap, path::PathBuf};

/// Environment variables; those that are empty or no UTF-8 count as absent.
///
/// A value of its own, so that what is read is seen in one place and a test can give its own.
#[derive(Clone, Default)]
pub struct StorageEnvironment(BTreeMap<String, String>);

impl StorageEnvironment {
    /// Copies the variables of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the value of the first of these variables that is there.
    pub(super) fn first<'a>(&'a self, names: &[&'static str]) -> Option<&'a str> {
        self.first_named(names).map(|(_, value)| value)
    }

    /// Returns the first of these variables that is there, with its value.
    pub(super) fn first_named<'a>(
        &'a self,
        names: &[&'static str],
    ) -> Option<(&'static str, &'a str)> {
        names
            .iter()
            .find_map(|name| Some((*name, self.0.get(*name)?.as_str())))
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of a variable as an absolute path.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for StorageEnvironment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .filter(|(_, value)| !value.is_empty())
                .collect(),
        )
    }
}

impl std::fmt::Debug for StorageEnvironment {
    /// Shows no values: some are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::StorageEnvironment;

    #[test]
    fn empty_variables_are_absent_and_values_are_not_shown() {
        let environment: StorageEnvironment = [("A", ""), ("B", "secret")].into_iter().collect();
        assert_eq!(environment.first(&["A", "B"]), Some("secret"));
        assert_eq!(format!("{environment:?}"), r#"{"B"}"#);
    }
}
