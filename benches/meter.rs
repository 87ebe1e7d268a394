//! Measurement of other load on the machine, before a part and during each of its rows.

use std::{fs, thread, time::Duration};

use crate::report::{
    busy::{Others, Processes, Ticks},
    row::Row,
};

/// Duration of a look while nothing of ours runs.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum number of looks for a quiet machine; processes that have just ended may show in the
/// first.
const MAX_LOOKS: usize = 5;

/// A look in progress.
pub(crate) struct Meter {
    ticks: Ticks,
    ours: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            ours: ours(),
            ticks: ticks(),
        }
    }

    /// Returns the share that other processes took since.
    pub(crate) fn others(&self) -> Others {
        Others::between(self.ticks, ticks(), ours().saturating_sub(self.ours))
    }
}

/// Measures rows together, and notes in each the share that other processes took meanwhile.
pub(crate) fn watched(measure: impl FnOnce() -> Vec<Row>) -> Vec<Row> {
    let meter = Meter::start();
    let mut rows = measure();
    let others = meter.others().share;
    for row in &mut rows {
        row.others = row.others.max(others);
    }
    rows
}

/// Measures other load while nothing of ours runs, for a few seconds at most.
pub(crate) fn before() -> Others {
    let mut found = Others::default();
    for _ in 0..MAX_LOOKS {
        let meter = Meter::start();
        thread::sleep(LOOK);
        found = meter.others();
        if !found.are_busy() {
            break;
        }
    }
    found
}

/// Returns the numbers of `/proc/loadavg`.
pub(crate) fn load_average() -> Vec<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let fields = text.split_whitespace().take(3);
    fields.filter_map(|field| field.parse().ok()).collect()
}

fn ticks() -> Ticks {
    let stat = fs::read_to_string("/proc/stat").expect("Linux has it");
    Ticks::read(&stat).expect("its first line is that of all processors")
}

/// Returns the ticks of this process and of its descendants.
fn ours() -> u64 {
    let mut processes = Processes::default();
    for entry in fs::read_dir("/proc").expect("Linux has it").flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while this looks.
        if let Ok(stat) = fs::read_to_string(entry.path().join("stat")) {
            processes.add(id, &stat);
        }
    }
    processes.below(std::process::id())
}
