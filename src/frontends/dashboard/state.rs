//! `/dashboard/state`: where everything stands, for the page and for scripts.
//!
//! All counts only rise, so that whoever asks twice knows what has happened between. The form is
//! described in docs/dashboard.md.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, Serializer};
use strum::VariantArray;

use super::{
    Dashboard,
    view::{Condition, View, last_error},
};
use crate::{
    engine::Servable,
    frontends::guard::Access,
    metrics::{Figures, LatencyHistogram},
};

/// State of the server and of everything it serves.
#[derive(Debug, Serialize)]
pub(super) struct State {
    pub(super) server: Server,
    pub(super) totals: Totals,
    /// The upper bounds of the sizes of latencies.
    bounds_us: &'static [u64],
    /// How many servables are as asked for.
    pub(super) found: usize,
    offset: usize,
    limit: usize,
    #[serde(rename = "servables")]
    pub(super) views: Vec<View>,
}

/// The server as a whole.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    pub(super) version: &'static str,
    pub(super) runtime: Option<String>,
    pub(super) state: Readiness,
    /// Notice for readers, if anything is unusual.
    pub(super) notice: Option<String>,
    /// Another one for another process.
    pub(super) started_ms: u64,
    uptime_ms: u64,
    pub(super) devices: Vec<Device>,
    #[serde(rename = "requests_under_way")]
    pub(super) requests_in_flight: usize,
}

/// A device of the machine.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) full_name: Option<String>,
}

/// Whether the server takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(super) enum Readiness {
    /// The first load is in progress.
    Loading,
    Ready,
    /// It takes requests, and something that it serves fails all of them.
    Failing,
    /// It ends.
    Stopping,
}

/// All servables together.
#[derive(Debug, Serialize)]
pub(super) struct Totals {
    pub(super) servables: usize,
    pub(super) conditions: Conditions,
    #[serde(flatten)]
    pub(super) counts: Figures,
    /// Live ones.
    pub(super) sequences: usize,
}

/// How many servables stand where.
#[derive(Debug, Default)]
pub(super) struct Conditions([usize; Condition::VARIANTS.len()]);

impl State {
    /// Looks at everything.
    pub(super) fn of(dashboard: &Dashboard, engine: &Access, ask: &Ask) -> Self {
        let servables = engine.servables();
        let Found { count, shown } = ask.find(&servables);
        let (mut server, totals) = (Server::of(dashboard, engine), Totals::of(&servables));
        let failing = totals.conditions.count(Condition::Failing);
        if server.state == Readiness::Ready && failing > 0 {
            server.state = Readiness::Failing;
        }
        server.notice = match server.state {
            Readiness::Ready => None,
            Readiness::Failing => Some(notice_of_failing(&servables, failing)),
            Readiness::Loading => Some("The server loads what it is to serve.".to_owned()),
            Readiness::Stopping => Some(
                "The server is stopping: requests in flight go on, new ones are refused."
                    .to_owned(),
            ),
        };
        Self {
            server,
            totals,
            bounds_us: LatencyHistogram::BOUNDS,
            found: count,
            offset: ask.offset,
            limit: ask.limit,
            views: shown.iter().map(View::of).collect(),
        }
    }
}

/// Says how many servables fail, and why the first of them does.
fn notice_of_failing(servables: &[Servable], count: usize) -> String {
    let mut text = match count {
        1 => "1 servable fails requests.".to_owned(),
        _ => format!("{count} servables fail requests."),
    };
    let last = |servable: &Servable| Some((servable.name().to_owned(), last_error(servable)?));
    // It may have been answered again meanwhile.
    if let Some((name, error)) = servables.iter().find_map(last) {
        text.extend([" Last error of `", &name, "`: ", &error]);
    }
    text
}

impl Server {
    fn of(dashboard: &Dashboard, engine: &Access) -> Self {
        Self {
            version: crate::frontends::SERVER_VERSION,
            runtime: dashboard.runtime.clone(),
            state: match (engine.is_stopping(), engine.ready()) {
                (true, _) => Readiness::Stopping,
                (false, true) => Readiness::Ready,
                (false, false) => Readiness::Loading,
            },
            notice: None,
            started_ms: dashboard.started_ms,
            uptime_ms: milliseconds(dashboard.started.elapsed()),
            devices: dashboard.devices.get().cloned().unwrap_or_default(),
            requests_in_flight: engine.requests_in_flight(),
        }
    }

    /// Returns how long it has been there.
    pub(super) fn uptime(&self) -> Duration {
        Duration::from_millis(self.uptime_ms)
    }
}

impl Readiness {
    /// Returns the condition of servables that it is like.
    pub(super) fn class(self) -> String {
        match self {
            Self::Stopping => Condition::Warning.to_string(),
            _ => self.to_string(),
        }
    }
}

impl Totals {
    fn of(servables: &[Servable]) -> Self {
        let (mut figures, mut sequences) = (Figures::default(), 0);
        let mut conditions = Conditions::default();
        for servable in servables {
            conditions.0[Condition::of(servable) as usize] += 1;
            for part in servable.parts() {
                figures.add(&part.reporter().figures());
            }
            for version in servable.model().iter().flat_map(|it| it.versions()) {
                sequences += version.sequences().len();
            }
        }
        Self {
            servables: servables.len(),
            conditions,
            counts: figures,
            sequences,
        }
    }
}

impl Conditions {
    /// Returns how many stand there.
    pub(super) fn count(&self, condition: Condition) -> usize {
        self.0[condition as usize]
    }
}

impl Serialize for Conditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = Condition::VARIANTS.iter();
        serializer.collect_map(all.map(|it| (it, self.count(*it))))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

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
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "q" => {
                    let part = value.trim().to_lowercase();
                    if part.len() <= LONGEST {
                        ask.part = part;
                    }
                }
                "state" => ask.condition = value.parse().ok(),
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
