//! `/dashboard/state`: where everything stands, for the page and for scripts.
//!
//! All counts only rise, so that whoever asks twice knows what has happened between. The form is
//! described in docs/dashboard.md.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{
    Dashboard,
    ask::{Ask, Found},
    view::{Condition, View, last_error},
};
use crate::{
    engine::{Engine, Servable},
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
    servables: Vec<Entry>,
    /// Views that the entries were made of.
    #[serde(skip)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
pub(super) struct Conditions([usize; Condition::ALL.len()]);

/// A servable.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    kind: &'static str,
    condition: &'static str,
    revision: String,
    failure: Option<String>,
    #[serde(flatten)]
    counts: Figures,
    sequences: Option<usize>,
    versions: Vec<EntryVersion>,
}

/// A version of a servable.
#[derive(Debug, Serialize)]
struct EntryVersion {
    version: i64,
    state: &'static str,
    failure: Option<String>,
    last_error: Option<String>,
    requests: u64,
    failed: u64,
    runs: u64,
    sequences: Option<usize>,
}

impl State {
    /// Looks at everything.
    pub(super) fn of(dashboard: &Dashboard, engine: &Engine, ask: &Ask) -> Self {
        let servables = engine.servables();
        let Found { count, shown } = ask.find(&servables);
        let views: Vec<View> = shown.iter().map(View::of).collect();
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
            servables: views.iter().map(Entry::of).collect(),
            views,
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
    fn of(dashboard: &Dashboard, engine: &Engine) -> Self {
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
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Failing => "failing",
            Self::Stopping => "stopping",
        }
    }

    /// Returns the condition of servables that it is like.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Stopping => Condition::Warning.text(),
            _ => self.text(),
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
        let all = Condition::ALL.into_iter();
        serializer.collect_map(all.map(|it| (it.text(), self.count(it))))
    }
}

impl Entry {
    fn of(view: &View) -> Self {
        let versions = view.versions.iter().map(|version| EntryVersion {
            version: version.number,
            state: version.state,
            failure: version.failure.clone(),
            last_error: version.broken.as_ref().map(|(text, _)| text.clone()),
            requests: version.figures.requests + version.figures.streamed,
            failed: version.figures.failed,
            runs: version.figures.runs,
            sequences: version.sequences,
        });
        Self {
            name: view.name.clone(),
            kind: view.kind.text(),
            condition: view.condition.text(),
            revision: view.revision(),
            failure: view.failure.clone(),
            counts: view.figures(),
            sequences: view.sequences(),
            versions: versions.collect(),
        }
    }
}

/// Any uptime fits.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
