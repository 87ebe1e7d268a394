//! Output of the start: the progress of the load, and then the summary.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ovms::{
    config::{LogFormat, ServerSettings},
    engine::{Engine, reload::ReloadError},
    openvino::runtime::{self, Device, Opened},
    server::Observer,
    task::{self, Task},
};

use super::{loading, summary::Summary};
use crate::{setup, ui};

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
        *lock(&self.loading) = Some(Task::spawn(loading::watch(Arc::clone(engine))));
        if self.target == Target::Terminal {
            let list = task::blocking("devices", runtime::devices_of_opened);
            *lock(&self.devices) = Some(Task::spawn(list));
        }
    }

    fn ready(&self, engine: &Arc<Engine>, errors: &[ReloadError]) {
        drop(lock(&self.loading).take());
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
        let devices = lock(&self.devices).take();
        Task::spawn(async move {
            let devices = match devices {
                Some(devices) => tokio::time::timeout(DEVICES, devices).await,
                None => Ok(Ok(Vec::new())),
            };
            let devices = devices.ok().and_then(Result::ok).unwrap_or_default();
            summary.devices = setup::named(&devices);
            let block = summary.drawn(ui::columns());
            // If nobody reads stdout, there is nobody to tell.
            let _ = ui::Stdout.write_all(block.as_bytes());
        })
        .detach();
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
