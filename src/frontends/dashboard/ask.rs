//! Query strings.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::view::Condition;
use crate::engine::Servable;

/// Default number of servables in a response.
pub(super) const USUAL: usize = 50;

/// Maximum number of servables in a response.
pub(super) const MAX: usize = 100;

/// The longest text that names are searched for, in bytes.
const LONGEST: usize = 200;

/// Characters that are not percent-encoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Which servables are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// A part of their names, in small letters; all if it is empty.
    pub(super) part: String,
    /// Where they stand; wherever if `None`.
    pub(super) condition: Option<Condition>,
    /// How many of those found are passed over.
    pub(super) offset: usize,
    /// How many of the rest are included.
    pub(super) limit: usize,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            part: String::new(),
            condition: None,
            offset: 0,
            limit: USUAL,
        }
    }
}

/// Some of the servables, and how many there are.
pub(super) struct Found {
    pub(super) count: usize,
    pub(super) shown: Vec<Servable>,
}

impl Ask {
    /// Reads what stands behind the `?`. What makes no sense is as if it were not there.
    pub(super) fn read(query: Option<&str>) -> Self {
        let mut ask = Self::default();
        for (key, value) in pairs(query) {
            match &*key {
                "q" => {
                    let part = value.trim().to_lowercase();
                    if part.len() <= LONGEST {
                        ask.part = part;
                    }
                }
                "state" => {
                    let mut all = Condition::ALL.into_iter();
                    ask.condition = all.find(|it| it.text() == value);
                }
                "offset" => ask.offset = value.parse().unwrap_or(0),
                "limit" => ask.limit = value.parse().unwrap_or(USUAL).clamp(1, MAX),
                _ => {}
            }
        }
        ask
    }

    /// Writes it as it is read, from another place on.
    pub(super) fn from(&self, offset: usize) -> String {
        let mut query = String::new();
        let mut add = |key: &str, value: &str| {
            let before = if query.is_empty() { "?" } else { "&" };
            query.extend([before, key, "=", &encoded(value)]);
        };
        if !self.part.is_empty() {
            add("q", &self.part);
        }
        if let Some(condition) = self.condition {
            add("state", condition.text());
        }
        if offset > 0 {
            add("offset", &offset.to_string());
        }
        if self.limit != USUAL {
            add("limit", &self.limit.to_string());
        }
        query
    }

    /// Finds what is asked for among all servables, which are sorted by name.
    pub(super) fn find(&self, servables: &[Servable]) -> Found {
        let fits = |servable: &&Servable| {
            let named = self.part.is_empty() || {
                let name = servable.name().to_lowercase();
                name.contains(&self.part)
            };
            named
                && self
                    .condition
                    .is_none_or(|condition| Condition::of(servable) == condition)
        };
        let found: Vec<&Servable> = servables.iter().filter(fits).collect();
        let shown = found.iter().skip(self.offset).take(self.limit);
        Found {
            shown: shown.map(|servable| Servable::clone(servable)).collect(),
            count: found.len(),
        }
    }
}

/// Reads the name of a servable.
pub(super) fn name(query: Option<&str>) -> Option<String> {
    let mut pairs = pairs(query);
    let name = pairs.find(|(key, _)| key == "name");
    name.map(|(_, name)| name.into_owned())
}

/// Writes a text so that it can stand in an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Takes pairs apart as browsers write them.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    })
}

fn decoded(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let text = text.replace('+', " ");
        return Cow::Owned(percent_decode_str(&text).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::{Ask, MAX, USUAL, encoded, name};
    use crate::frontends::dashboard::view::Condition;

    #[test]
    fn what_makes_no_sense_is_as_if_it_were_not_there() {
        assert_eq!(Ask::read(None), Ask::default());
        assert_eq!(
            Ask::read(Some("state=x&offset=-1&limit=x&&=&a")),
            Ask::default()
        );
        let long = format!("q={}", "x".repeat(1000));
        assert_eq!(Ask::read(Some(&long)), Ask::default());
        assert_eq!(Ask::read(Some("limit=0")).limit, 1);
        assert_eq!(Ask::read(Some("limit=100000")).limit, MAX);
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let ask = Ask {
            part: "ü &=?#+<b>".to_owned(),
            condition: Some(Condition::Failed),
            offset: 0,
            limit: 7,
        };
        let query = ask.from(14);
        assert_eq!(
            query,
            "?q=%C3%BC%20%26%3D%3F%23%2B%3Cb%3E&state=failed&offset=14&limit=7"
        );
        let read = Ask::read(query.strip_prefix('?'));
        assert_eq!(read, Ask { offset: 14, ..ask });
        assert_eq!(Ask::default().from(0), "");
        assert_eq!(Ask::read(Some("q=A+b")).part, "a b");
        assert_eq!(Ask::read(Some("q=a")).limit, USUAL);
    }

    #[test]
    fn names_come_through_whole() {
        let odd = "a/b c+d%<&ü>";
        let query = format!("x=y&name={}", encoded(odd));
        assert_eq!(name(Some(&query)).as_deref(), Some(odd));
        assert_eq!(name(Some("names=a")), None);
        assert_eq!(name(None), None);
    }
}
