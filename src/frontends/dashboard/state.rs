//! `/dashboard/state`: where everything stands, for the page and for scripts.
//!
//! All counts only rise, so that whoever asks twice knows what has happened between. The form is
//! described in docs/dashboard.md.

use std::time::Duration;

use serde::{Serialize, Serializer};
use strum::VariantArray;

use super::{
    Dashboard,
    ask::{Ask, Found},
    history::{RecentFigures, resident_kib},
    view::{Condition, MAX_NOTICE_LEN, View, in_flight, last_error},
};
use crate::{
    engine::{ConfigFailure, Servable, ServableVersion},
    frontends::guard::Access,
    metrics::{Figures, LatencyHistogram},
    text::cut_bytes,
};

/// State of the server and of everything it serves.
#[derive(Debug, Serialize)]
pub(super) struct State {
    pub(super) server: Server,
    pub(super) totals: Totals,
    /// The upper bounds of the sizes of latencies.
    bounds_us: &'static [u64],
    /// Number of the last sample of the history.
    tick: u64,
    /// Number of servables that match the query.
    pub(super) found: usize,
    offset: usize,
    limit: usize,
    #[serde(rename = "servables")]
    pub(super) views: Vec<View>,
}

/// The server as a whole.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    pub(super) host: Option<String>,
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
    /// Requests that wait for an infer request of their model.
    pub(super) requests_waiting: usize,
    pub(super) streams: usize,
    /// Memory that the process has of the machine.
    pub(super) memory_kib: Option<u32>,
}

/// A device of the machine.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) full_name: Option<String>,
}

/// Readiness of the server for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(super) enum Readiness {
    /// The first load is in progress.
    Loading,
    Ready,
    /// The server takes requests, and something that it serves fails all of them.
    Failing,
    /// The server ends.
    Stopping,
}

/// All servables together.
#[derive(Debug, Serialize)]
pub(super) struct Totals {
    pub(super) servables: usize,
    pub(super) conditions: Conditions,
    #[serde(flatten)]
    pub(super) counts: Figures,
    pub(super) recent: RecentFigures,
    /// Live ones.
    pub(super) sequences: usize,
}

/// Number of servables in each condition.
#[derive(Debug, Default)]
pub(super) struct Conditions([usize; Condition::VARIANTS.len()]);

impl State {
    /// Looks at everything.
    pub(super) fn of(dashboard: &Dashboard, engine: &Access, ask: &Ask) -> Self {
        let servables = by_condition(engine);
        let Found { count, shown } = ask.find(&servables);
        let history = &dashboard.history;
        let (mut server, totals) = (
            Server::of(dashboard, engine),
            Totals::of(&servables, history.recent(None)),
        );
        server.requests_waiting = (servables.iter())
            .filter_map(|(_, servable)| servable.model())
            .flat_map(|model| model.versions())
            .map(|version| in_flight(&ServableVersion::Version(version)))
            .sum();
        let failing = totals.conditions.count(Condition::Failing);
        if server.state == Readiness::Ready && failing > 0 {
            server.state = Readiness::Failing;
        }
        let notice = match server.state {
            Readiness::Ready => None,
            Readiness::Failing => Some(notice_of_failing(&servables, failing)),
            Readiness::Loading => Some("The server loads what it is to serve.".to_owned()),
            Readiness::Stopping => Some(
                "The server is stopping: requests in flight go on, new ones are refused."
                    .to_owned(),
            ),
        };
        let of_config = engine.config_failure();
        let of_config = of_config.map(|failure| notice_of_config(&failure));
        let notices: Vec<String> = notice.into_iter().chain(of_config).collect();
        server.notice = (!notices.is_empty()).then(|| notices.join(" "));
        Self {
            server,
            totals,
            bounds_us: LatencyHistogram::BOUNDS,
            tick: history.tick(),
            found: count,
            offset: ask.offset,
            limit: ask.limit,
            views: (shown.iter())
                .map(|servable| View::of(servable, history))
                .collect(),
        }
    }
}

/// Returns everything that is served: what needs somebody first, and then by name.
pub(super) fn by_condition(engine: &Access) -> Vec<(Condition, Servable)> {
    let servables = engine.servables().into_iter();
    // One that was removed and never had a version is only a name.
    let servables =
        servables.filter(|it| engine.is_configured(it.name()) || !it.parts().is_empty());
    let servables = servables.map(|servable| (Condition::of(&servable), servable));
    let mut servables: Vec<_> = servables.collect();
    servables.sort_by_key(|(condition, _)| match condition.needs_somebody() {
        true => *condition as usize,
        false => Condition::VARIANTS.len(),
    });
    servables
}

/// Describes why what is served is not what is configured.
fn notice_of_config(failure: &ConfigFailure) -> String {
    let reason = cut_bytes(&failure.reason, MAX_NOTICE_LEN);
    let since = failure.since();
    format!("What is served is not what the configuration says, since {since}: {reason}")
}

/// Describes how many servables fail, and why the first of them does.
fn notice_of_failing(servables: &[(Condition, Servable)], count: usize) -> String {
    let mut text = match count {
        1 => "1 servable fails requests.".to_owned(),
        _ => format!("{count} servables fail requests."),
    };
    let last = |servable: &Servable| Some((servable.name().to_owned(), last_error(servable)?));
    // It may have been answered again meanwhile.
    if let Some((name, error)) = servables.iter().find_map(|(_, servable)| last(servable)) {
        text.extend([" Last error of `", &name, "`: ", &error]);
    }
    text
}

impl Server {
    fn of(dashboard: &Dashboard, engine: &Access) -> Self {
        Self {
            host: dashboard.host.clone(),
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
            requests_waiting: 0,
            streams: engine.streams_open(),
            memory_kib: resident_kib(),
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
    fn of(servables: &[(Condition, Servable)], recent: RecentFigures) -> Self {
        let (mut figures, mut sequences) = (Figures::default(), 0);
        let mut conditions = Conditions::default();
        for (condition, servable) in servables {
            conditions.0[*condition as usize] += 1;
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
            recent,
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
