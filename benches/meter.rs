//! Looks at how much of the machine others take, before a part and during each of its rows.

use std::{fs, thread, time::Duration};

use crate::report::{
    busy::{Others, Processes, Ticks},
    row::Row,
};

/// How long a look takes while nothing of ours runs.
const LOOK: Duration = Duration::from_secs(1);

/// Looks until one finds the machine quiet: what has just ended may still be there at the first.
const LOOKS: usize = 5;

/// A look that is under way.
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

    /// Returns what others took since.
    pub(crate) fn others(&self) -> Others {
        Others::between(self.ticks, ticks(), ours().saturating_sub(self.ours))
    }
}

/// Measures rows that are measured together, and notes in each what others took meanwhile.
pub(crate) fn watched(measure: impl FnOnce() -> Vec<Row>) -> Vec<Row> {
    let meter = Meter::start();
    let mut rows = measure();
    let others = meter.others().share;
    for row in &mut rows {
        row.others = row.others.max(others);
    }
    rows
}

/// Looks at the machine while nothing of ours runs, for a few seconds at most if others do.
pub(crate) fn before() -> Others {
    let mut found = Others::default();
    for _ in 0..LOOKS {
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

/// Returns the ticks of this process and of all below it.
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
