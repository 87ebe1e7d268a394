//! Variables of the environment: their values, and warnings of those that are not known.

/// A setting that one variable has, or several of which the first one takes precedence over the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    /// Names of the variables.
    pub(super) names: &'a [&'static str],
    /// Values that are known, as a warning lists them.
    pub(super) expected: &'a str,
    /// Value where no variable has one that is known.
    pub(super) default: &'a str,
}

/// Reader of variables.
pub(super) struct Variables<'a, V> {
    variable: V,
    /// Warnings of values that are not known.
    warnings: &'a mut Vec<String>,
}

impl<'a, V: Fn(&str) -> Option<String>> Variables<'a, V> {
    pub(super) fn new(variable: V, warnings: &'a mut Vec<String>) -> Self {
        Self { variable, warnings }
    }

    /// Returns the value of a variable without spaces around it, unless it is empty, which is as good as not set.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = (self.variable)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Returns the first of several variables that is set, with its name.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names
            .iter()
            .find_map(|name| self.get(name).map(|value| (*name, value)))
    }

    /// Reads a setting. A variable with a value that is not known is passed over with a warning.
    pub(super) fn setting<T>(
        &mut self,
        setting: &Setting<'_>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let mut refused = Vec::new();
        let mut found = None;
        for (name, text) in setting
            .names
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)))
        {
            match parse(&text) {
                Some(value) => {
                    found = Some((value, text));
                    break;
                }
                None => refused.push((name, text)),
            }
        }
        let (value, used) = found.unwrap_or_else(|| {
            let value = parse(setting.default).expect("a default is known");
            (value, setting.default.to_owned())
        });
        let expected = setting.expected;
        for (name, text) in refused {
            self.warn(format!(
                "{name} has `{text}`, expected {expected}; {used} is used"
            ));
        }
        value
    }

    /// Checks the list of the first of several variables that is set. Warnings quote no entries, since some are keys.
    pub(super) fn list(
        &mut self,
        names: &[&'static str],
        what: &str,
        is_known: impl Fn(&str, &str) -> bool,
    ) {
        let Some((name, list)) = self.first(names) else {
            return;
        };
        let entries: Vec<&str> = list.split_terminator(',').map(str::trim).collect();
        for (index, entry) in entries.iter().enumerate() {
            let pair = entry.split_once('=');
            let is_good = pair.is_some_and(|(name, value)| is_known(name.trim(), value.trim()));
            if !entry.is_empty() && !is_good {
                let (number, count) = (index + 1, entries.len());
                self.warn(format!(
                    "{name} has something else as entry {number} of {count}, expected {what} as `name=value`; \
                     the entry is ignored"
                ));
            }
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}
