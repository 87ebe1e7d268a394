//! Output of the start: the progress of the load, and then the summary.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use indicatif::DecimalBytes;
use ovms::{
    config::{LogFormat, ServerSettings},
    engine::{Engine, Servable, reload::ReloadError},
    model::{Status, VersionErrorCode, VersionState, storage},
    openvino::runtime::{self, Device, Opened},
    server::Observer,
    task::{self, Task},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::summary::Summary;
use crate::{
    setup,
    ui::{self, Foot, clipped},
};

/// Time limit of the summary for the list of devices.
const DEVICES: Duration = Duration::from_secs(2);

/// Destination of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Nowhere,
    /// Log, in its format.
    Log,
    /// Terminal, as a block.
    Terminal,
}

/// Observer that shows the start on terminal and log.
#[derive(Debug)]
pub(super) struct Start {
    settings: ServerSettings,
    opened: Opened,
    /// Folder of the example, if it is served.
    demo: Option<String>,
    target: Target,
    loading: Mutex<Option<Task<()>>>,
    devices: Mutex<Option<Task<Vec<Device>>>>,
}

impl Start {
    /// Creates the observer, which shows nothing yet; the log has started.
    pub(super) fn new(settings: &ServerSettings, opened: Opened, demo: Option<String>) -> Self {
        let target = if ui::quiet() || !tracing::enabled!(tracing::Level::INFO) {
            Target::Nowhere
        } else if settings.flags.log_format == LogFormat::Text && io::stdout().is_terminal() {
            Target::Terminal
        } else {
            Target::Log
        };
        let found = opened.found.clone();
        runtime::list_devices_with(move || setup::devices(&found).unwrap_or_default());
        Self {
            settings: settings.clone(),
            opened,
            demo,
            target,
            loading: Mutex::default(),
            devices: Mutex::default(),
        }
    }

    /// Returns whether the terminal shows a block.
    pub(super) fn is_seen(&self) -> bool {
        self.target == Target::Terminal
    }
}

impl Observer for Start {
    fn loading(&self, engine: &Arc<Engine>) {
        *self.loading.lock() = Some(Task::spawn(watch(Arc::clone(engine))));
        if self.target == Target::Terminal {
            let list = task::blocking("devices", runtime::devices_of_opened);
            *self.devices.lock() = Some(Task::spawn(list));
        }
    }

    fn ready(&self, engine: &Arc<Engine>, errors: &[ReloadError]) {
        drop(self.loading.lock().take());
        ui::clear_foot();
        if self.target == Target::Nowhere {
            return;
        }
        let mut summary = Summary::new(&self.settings, &self.opened.version, engine, errors);
        summary.demo.clone_from(&self.demo);
        if self.target == Target::Log {
            summary.log(self.settings.flags.log_format);
            return;
        }
        let devices = self.devices.lock().take();
        Task::spawn(async move {
            let devices = match devices {
                Some(devices) => tokio::time::timeout(DEVICES, devices).await,
                None => Ok(Ok(Vec::new())),
            };
            let devices = devices.ok().and_then(Result::ok).unwrap_or_default();
            summary.devices = setup::named(&devices);
            let block = summary.drawn(ui::columns());
            // If nobody reads stdout, there is nobody to report to.
            let _ = ui::Stdout.write_all(block.as_bytes());
        })
        .detach();
    }
}

/// Interval for drawing the foot.
const DRAW: Duration = ui::BAR_STEP;

/// Interval for checking the progress if nothing is drawn.
const LOOK: Duration = Duration::from_secs(1);

/// Interval before the first line of the log; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(10);

/// Maximum interval between two lines of the log.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of loads reported one by one.
const MAX_LOADS: usize = 5;

/// Load in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InFlight {
    name: String,
    version: Option<i64>,
    seconds: u64,
    download: Option<storage::DownloadProgress>,
}

/// Time at which each load was first seen.
type Since = HashMap<(String, Option<i64>), Instant>;

/// Progress of all loads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stage {
    done: usize,
    all: usize,
    in_flight: Vec<InFlight>,
}

/// Shows the progress until the future is dropped.
pub(super) async fn watch(engine: Arc<Engine>) {
    let foot = Foot::new();
    let logs = foot.is_none() || !io::stdout().is_terminal();
    let begun = Instant::now();
    let mut since = Since::new();
    let (mut pause, mut next) = (FIRST, begun + FIRST);
    loop {
        let stage = Stage::of(&engine, &mut since);
        if let Some(foot) = &foot {
            foot.show(stage.drawn());
        }
        if logs && Instant::now() >= next {
            tracing::info!("{}", stage.line());
            pause = (pause * 2).min(MAX_INTERVAL);
            next = Instant::now() + pause;
        }
        tokio::time::sleep(if foot.is_some() { DRAW } else { LOOK }).await;
    }
}

impl Stage {
    /// Returns the progress of the engine; `since` keeps the time each load was first seen.
    fn of(engine: &Engine, since: &mut Since) -> Self {
        let servables = engine.servables();
        let mut stage = Self {
            all: servables.len(),
            ..Self::default()
        };
        let mut rest = Vec::new();
        for servable in &servables {
            let parts = servable.parts();
            if !parts.iter().any(|part| is_pending(&part.status())) {
                // Versions are known once it is their turn.
                stage.done += usize::from(!parts.is_empty());
                continue;
            }
            let Servable::Model(model) = servable else {
                rest.push(servable.name());
                continue;
            };
            let mut parts = parts.iter();
            let Some(part) = parts.find(|part| part.status() == Status::ok(VersionState::Loading))
            else {
                continue;
            };
            let mut load = InFlight::new(part.name(), Some(part.number()), since);
            let download = model.download();
            load.download = download.filter(|download| download.version == part.number());
            stage.in_flight.push(load);
        }
        // Pipelines and graphs have their turn after the models.
        if stage.in_flight.is_empty() && stage.done + rest.len() == stage.all {
            let rest = rest.into_iter();
            stage.in_flight = rest.map(|name| InFlight::new(name, None, since)).collect();
        }
        stage
    }

    /// Returns the lines for a terminal.
    fn drawn(&self) -> String {
        let mut lines = vec![clipped(&format!("loaded {} of {}", self.done, self.all))];
        let reported = self.in_flight.iter().take(MAX_LOADS);
        lines.extend(reported.map(|it| clipped(&ui::visible(&format!("  {}", it.text())))));
        if let Some(more) = self.more() {
            lines.push(format!("  and {more} more"));
        }
        lines.join("\n")
    }

    /// Returns the line for the log.
    fn line(&self) -> String {
        let reported = self.in_flight.iter().take(MAX_LOADS).map(InFlight::text);
        let more = self.more().map(|more| format!("{more} more"));
        let reported: Vec<String> = reported.chain(more).collect();
        let what = match reported.is_empty() {
            true => String::new(),
            false => format!("; in progress: {}", reported.join(", ")),
        };
        format!("still loading, {} of {} done{what}", self.done, self.all)
    }

    fn more(&self) -> Option<usize> {
        let more = self.in_flight.len().saturating_sub(MAX_LOADS);
        (more > 0).then_some(more)
    }
}

impl InFlight {
    fn new(name: &str, version: Option<i64>, since: &mut Since) -> Self {
        let key = (name.to_owned(), version);
        let since = since.entry(key).or_insert_with(Instant::now);
        Self {
            name: name.to_owned(),
            version,
            seconds: since.elapsed().as_secs(),
            download: None,
        }
    }

    fn text(&self) -> String {
        let version = self.version.map(|version| format!(" version {version}"));
        let version = version.unwrap_or_default();
        let (name, seconds) = (&self.name, self.seconds);
        match self.download {
            Some(storage::DownloadProgress {
                received, expected, ..
            }) => format!(
                "{name}{version}: {} of {} ({} %), {seconds} s",
                DecimalBytes(received),
                DecimalBytes(expected),
                received.saturating_mul(100) / expected.max(1),
            ),
            None => format!("{name}{version}: {seconds} s"),
        }
    }
}

/// Returns whether a load is in progress and has not failed.
fn is_pending(status: &Status) -> bool {
    status.state < VersionState::Available && status.code == VersionErrorCode::Ok
}

#[cfg(test)]
mod tests {
    use ovms::model::storage::DownloadProgress;

    use super::{InFlight, Stage};

    fn in_flight(name: &str) -> InFlight {
        InFlight {
            name: name.to_owned(),
            version: Some(1),
            seconds: 12,
            download: None,
        }
    }

    #[test]
    fn loads_are_reported_with_their_times_and_bytes() {
        let mut stage = Stage {
            done: 3,
            all: 40,
            in_flight: vec![
                in_flight("resnet"),
                InFlight {
                    download: Some(DownloadProgress {
                        version: 1,
                        received: 34_200_000,
                        expected: 102_400_000,
                    }),
                    ..in_flight("vad")
                },
            ],
        };
        insta::assert_snapshot!(stage.drawn(), @"
        loaded 3 of 40
          resnet version 1: 12 s
          vad version 1: 34.20 MB of 102.40 MB (33 %), 12 s
        ");
        insta::assert_snapshot!(stage.line(), @"still loading, 3 of 40 done; in progress: resnet version 1: 12 s, vad version 1: 34.20 MB of 102.40 MB (33 %), 12 s");
        stage.in_flight = vec![in_flight("m"); 9];
        insta::assert_snapshot!(stage.drawn(), @"
        loaded 3 of 40
          m version 1: 12 s
          m version 1: 12 s
          m version 1: 12 s
          m version 1: 12 s
          m version 1: 12 s
          and 4 more
        ");
        stage.in_flight.clear();
        assert_eq!(stage.line(), "still loading, 3 of 40 done");
    }
}
