//! The last fifteen minutes, kept in the server: a sample every five seconds of everything together and of each
//! servable that has been used in that time.
//!
//! One task takes them, as long as there is a dashboard, by reading counters that are there anyway: requests
//! cost nothing more. `series.rs` has the rings; memory is bounded by [`MAX_KEPT`] of them.

mod series;

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval_at};

pub(super) use self::series::RecentFigures;
use self::series::{Load, Ring, Series};
use super::view::{in_flight, live_sequences};
use crate::{budget::Budget, engine::Servable, frontends::guard::Access, task};

/// Time between samples.
const EVERY: Duration = Duration::from_secs(5);

/// Samples of a series: fifteen minutes.
const SAMPLES: usize = 180;

/// Servables with a series at once. One takes 8 KB.
const MAX_KEPT: usize = 256;

/// Estimated bytes of reading a servable's counters, for the decision where to do it. Not measured.
const BYTES_EACH: usize = 256;

/// Samples of the last fifteen minutes.
#[derive(Debug, Default)]
pub struct History(Mutex<Samples>);

/// The samples, and the counts that the next one is taken against.
#[derive(Debug, Default)]
struct Samples {
    /// Number of the last sample.
    tick: u64,
    /// Length of each sample, in milliseconds; the latest is the last, here and in all series.
    spans: VecDeque<u32>,
    memory: VecDeque<Memory>,
    total: Ring,
    of: BTreeMap<String, Ring>,
}

/// Memory of the process at a moment, in KiB.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    resident: u32,
    /// Bytes of requests and answers.
    held: u32,
}

/// Answer to `/dashboard/history`: the series end at the same sample, the last one.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    tick: u64,
    span_ms: Vec<u32>,
    memory_kib: Vec<u32>,
    held_kib: Vec<u32>,
    totals: Series,
    servables: Vec<NamedSeries>,
}

/// Series of a servable. One that has not been used in all that time has none.
#[derive(Debug, Serialize)]
struct NamedSeries {
    name: String,
    #[serde(flatten)]
    series: Series,
}

impl History {
    /// Takes samples for as long as it is polled.
    pub(crate) async fn follow(self: Arc<Self>, engine: Access, budget: Budget) {
        let mut ticks = interval_at(tokio::time::Instant::now() + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last = Instant::now();
        loop {
            ticks.tick().await;
            let (this, engine, budget) = (Arc::clone(&self), engine.clone(), budget.clone());
            let span = last.elapsed();
            last += span;
            let bytes = engine.count() * BYTES_EACH;
            let look = move || this.look(&engine, &budget, span);
            task::sized("history", bytes, look).await;
        }
    }

    /// Takes a sample.
    fn look(&self, engine: &Access, budget: &Budget, span: Duration) {
        let mut total = Load {
            streams: engine.streams_open(),
            ..Load::default()
        };
        let servables = engine.servables().into_iter().map(|servable| {
            let load = Load::of(&servable);
            total.figures.add(&load.figures);
            total.sequences += load.sequences;
            if servable.model().is_some() {
                total.queue += load.queue;
            }
            (servable.name().to_owned(), load)
        });
        let servables: Vec<(String, Load)> = servables.collect();
        let memory = Memory {
            resident: resident_kib().unwrap_or_default(),
            held: u32::try_from(budget.charged() / 1024).unwrap_or(u32::MAX),
        };
        self.0.lock().add(span, memory, &total, &servables);
    }

    /// Returns what is known of the last seconds of a servable, or of all together.
    pub(super) fn recent(&self, name: Option<&str>) -> RecentFigures {
        let samples = self.0.lock();
        let ring = match name {
            None => Some(&samples.total),
            Some(name) => samples.of.get(name),
        };
        match ring {
            Some(ring) => ring.recent(&samples.spans),
            None => RecentFigures::default(),
        }
    }

    /// Returns the number of the last sample.
    pub(super) fn tick(&self) -> u64 {
        self.0.lock().tick
    }

    /// Returns the samples after one, of everything together and of some servables.
    pub(super) fn since(&self, tick: u64, names: impl Iterator<Item = String>) -> Answer {
        let samples = self.0.lock();
        // A number from another server means nothing here.
        let fresh = samples.tick.checked_sub(tick).unwrap_or(samples.tick);
        let count = usize::try_from(fresh).unwrap_or(SAMPLES).min(SAMPLES);
        let memory = |part: fn(&Memory) -> u32| -> Vec<u32> {
            newest(&samples.memory, count).map(part).collect()
        };
        Answer {
            tick: samples.tick,
            span_ms: newest(&samples.spans, count).copied().collect(),
            memory_kib: memory(|memory| memory.resident),
            held_kib: memory(|memory| memory.held),
            totals: samples.total.series(count),
            servables: names
                .filter_map(|name| {
                    let series = samples.of.get(&name)?.series(count);
                    Some(NamedSeries { name, series })
                })
                .collect(),
        }
    }
}

impl Samples {
    fn add(&mut self, span: Duration, memory: Memory, total: &Load, servables: &[(String, Load)]) {
        self.tick += 1;
        push(
            &mut self.spans,
            u32::try_from(span.as_millis()).unwrap_or(u32::MAX),
        );
        push(&mut self.memory, memory);
        self.total.add(total, true);
        if self.of.len() > servables.len() {
            self.of
                .retain(|name, _| servables.binary_search_by(|it| it.0.cmp(name)).is_ok());
        }
        let mut kept = self.of.values().filter(|ring| ring.is_kept()).count();
        for (name, load) in servables {
            let ring = match self.of.get_mut(name) {
                Some(ring) => ring,
                None => self.of.entry(name.clone()).or_default(),
            };
            let was = ring.is_kept();
            ring.add(load, kept < MAX_KEPT);
            match (was, ring.is_kept()) {
                (false, true) => kept += 1,
                (true, false) => kept -= 1,
                _ => {}
            }
        }
    }
}

impl Load {
    /// Reads the counters of a servable.
    fn of(servable: &Servable) -> Self {
        let mut load = Self::default();
        for part in servable.parts() {
            load.figures.add(&part.reporter().figures());
            load.queue += in_flight(&part);
            load.sequences += live_sequences(&part).unwrap_or(0);
            load.streams += part.reporter().graph_runs();
        }
        load
    }
}

/// Adds a sample, and drops the one of fifteen minutes ago.
fn push<T>(ring: &mut VecDeque<T>, sample: T) {
    if ring.len() >= SAMPLES {
        ring.pop_front();
    }
    ring.push_back(sample);
}

/// Returns so many samples, the latest the last.
fn newest<T>(ring: &VecDeque<T>, count: usize) -> impl Iterator<Item = &T> {
    ring.iter().skip(ring.len().saturating_sub(count))
}

/// Returns the memory that the process has of the machine, in KiB.
pub(super) fn resident_kib() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests;
