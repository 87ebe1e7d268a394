//! Share of the machine taken by others: processes outside the bench, and the hypervisor. Linux,
//! proc(5).

use std::collections::HashMap;

/// Maximum share of the machine that others may take during a comparison.
pub(crate) const MAX_SHARE: f64 = 0.1;

/// Time of all processors since the machine started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Ticks of any work, interrupts included.
    pub(crate) busy: u64,
    pub(crate) idle: u64,
    /// Ticks in which the hypervisor ran something else.
    pub(crate) stolen: u64,
}

impl Ticks {
    /// Reads the first line of `/proc/stat`.
    pub(crate) fn read(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        // What guests take, in the fields behind, is in the first two as well.
        let [user, nice, system, idle, wait, irq, softirq, stolen, ..] = fields[..] else {
            return None;
        };
        Some(Self {
            busy: user + nice + system + irq + softirq,
            idle: idle + wait,
            stolen,
        })
    }
}

/// Processes of the system by id: the parent of each, and its time in ticks including that of the
/// children that it has waited for.
#[derive(Debug, Default)]
pub(crate) struct Processes(HashMap<u32, (u32, u64)>);

impl Processes {
    /// Adds a process from the text of its `/proc/<id>/stat`.
    pub(crate) fn add(&mut self, id: u32, stat: &str) -> Option<()> {
        // The name, in brackets, may contain spaces and brackets.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let parent = fields.get(1)?.parse().ok()?;
        let ticks = fields.get(11..15)?.iter();
        let ticks = ticks
            .map(|field| field.parse::<u64>().ok())
            .sum::<Option<u64>>()?;
        self.0.insert(id, (parent, ticks));
        Some(())
    }

    /// Returns the ticks of a process and of its descendants.
    pub(crate) fn below(&self, root: u32) -> u64 {
        let is_below = |mut id: u32| {
            // A parent that ends hands its children on, so that no chain is longer than this.
            for _ in 0..self.0.len() {
                if id == root {
                    return true;
                }
                match self.0.get(&id) {
                    Some((parent, _)) => id = *parent,
                    None => return false,
                }
            }
            false
        };
        let ours = self.0.iter().filter(|(id, _)| is_below(**id));
        ours.map(|(_, (_, ticks))| ticks).sum()
    }
}

/// Other work on the machine, as shares of all processors' time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Others {
    /// Total share.
    pub(crate) share: f64,
    /// Share of the hypervisor.
    pub(crate) stolen: f64,
}

impl Others {
    /// Computes the shares between two looks, `ours` being the ticks of the bench.
    pub(crate) fn between(before: Ticks, after: Ticks, ours: u64) -> Self {
        let since = |after: u64, before: u64| after.saturating_sub(before) as f64;
        let busy = since(after.busy, before.busy);
        let stolen = since(after.stolen, before.stolen);
        let all = busy + stolen + since(after.idle, before.idle);
        if all == 0.0 {
            return Self::default();
        }
        // The kernel counts ticks by sampling, and the time of processes by the clock.
        let theirs = (busy - ours as f64).max(0.0);
        Self {
            share: (theirs + stolen) / all,
            stolen: stolen / all,
        }
    }

    /// Returns whether comparisons are meaningless.
    pub(crate) fn are_busy(self) -> bool {
        self.share > MAX_SHARE
    }
}
