//! Queries of the page: which servables are asked for, and which of them are shown.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::view::Condition;
use crate::engine::Servable;

/// Default number of servables in a response.
pub(super) const USUAL: usize = 50;

/// Maximum number of servables in a response.
pub(super) const MAX_SERVABLES: usize = 100;

/// The longest text that names are searched for, in bytes.
const MAX_SEARCH_LEN: usize = 200;

/// Characters that are not percent-encoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Selection of servables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// The only one, by its whole name.
    pub(super) name: Option<String>,
    /// A part of their names, in small letters; all if it is empty.
    pub(super) part: String,
    /// Condition of the servables; any if `None`.
    pub(super) condition: Option<Condition>,
    /// Number of matches to skip.
    pub(super) offset: usize,
    /// Maximum number of matches to include after those.
    pub(super) limit: usize,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            name: None,
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
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "q" => {
                    let part = value.trim().to_lowercase();
                    if part.len() <= MAX_SEARCH_LEN {
                        ask.part = part;
                    }
                }
                "name" => ask.name = Some(value.into_owned()),
                "state" => ask.condition = value.parse().ok(),
                "offset" => ask.offset = value.parse().unwrap_or(0),
                "limit" => ask.limit = value.parse().unwrap_or(USUAL).clamp(1, MAX_SERVABLES),
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
        if let Some(name) = &self.name {
            add("name", name);
        }
        if !self.part.is_empty() {
            add("q", &self.part);
        }
        if let Some(condition) = self.condition {
            add("state", &condition.to_string());
        }
        if offset > 0 {
            add("offset", &offset.to_string());
        }
        if self.limit != USUAL {
            add("limit", &self.limit.to_string());
        }
        query
    }

    /// Finds what is asked for among all servables, in their order.
    pub(super) fn find(&self, servables: &[(Condition, Servable)]) -> Found {
        let fits = |(condition, servable): &&(Condition, Servable)| {
            let name = servable.name();
            self.name.as_ref().is_none_or(|only| only == name)
                && (self.part.is_empty() || name.to_lowercase().contains(&self.part))
                && self.condition.is_none_or(|wanted| *condition == wanted)
        };
        let found: Vec<_> = servables.iter().filter(fits).collect();
        let shown = found.iter().skip(self.offset).take(self.limit);
        Found {
            shown: shown.map(|(_, servable)| servable.clone()).collect(),
            count: found.len(),
        }
    }
}

/// Reads the number of the last sample that a reader of the history has.
pub(super) fn since(query: Option<&str>) -> u64 {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let tick = pairs.find(|(key, _)| key == "since");
    tick.and_then(|(_, tick)| tick.parse().ok()).unwrap_or(0)
}

/// Reads the name of a servable.
pub(super) fn name(query: Option<&str>) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let name = pairs.find(|(key, _)| key == "name");
    name.map(|(_, name)| name.into_owned())
}

/// Writes a text so that it can stand in an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Ask, MAX_SERVABLES, USUAL, encoded, name, since};
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
        assert_eq!(Ask::read(Some("limit=100000")).limit, MAX_SERVABLES);
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let ask = Ask {
            name: None,
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
        let only = Ask::read(Some("name=a%2Fb"));
        assert_eq!(only.name.as_deref(), Some("a/b"));
        assert_eq!(only.from(0), "?name=a%2Fb");
        assert_eq!(since(Some("since=7")), 7);
        assert_eq!(since(Some("since=x")), 0);
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
