//! Waits of runs for models and custom nodes, and what helps.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ovms::{
    config::NodeKind,
    model::Loaded,
    pipeline::{NodeTrace, PipelinePlan},
};

use super::LocalPipeline;
use crate::{
    local::time,
    pipeline::run::{Last, usage::CoreUsage},
    ui::{counted, visible},
};

/// Minimum share of a request for a wait to be reported.
const WORTH_SHOWING: f64 = 0.02;

/// Less is what it takes to hand a run over.
const HANDED_OVER: Duration = Duration::from_micros(100);

/// Cores that may stand idle on a busy machine: the threads of an inference do not end together.
const IDLE: f64 = 0.3;

/// Writes the waits of a request, a line for each node that had any worth showing.
pub(super) fn text(loaded: &LocalPipeline, last: &Last) -> String {
    let plan = loaded.plan();
    let mut by_node: BTreeMap<usize, Vec<&NodeTrace>> = BTreeMap::new();
    for run in &last.runs {
        by_node.entry(run.node).or_default().push(run);
    }
    let mut lines = String::new();
    for (id, runs) in by_node {
        let late = runs.iter().filter(|run| run.waited() > HANDED_OVER);
        let late: Vec<&NodeTrace> = late.copied().collect();
        let longest = late.iter().map(|run| run.waited()).max();
        let longest = longest.unwrap_or_default();
        if longest.is_zero() || longest.as_secs_f64() < WORTH_SHOWING * last.took.as_secs_f64() {
            continue;
        }
        let (what, advice) = match &plan.nodes[id].kind {
            Some(NodeKind::Model {
                model_name: name,
                version,
            }) => {
                let model = loaded.model(name, *version);
                let requests = counted(model.as_ref().map_or(1, |it| it.slots()), "infer request");
                let bottleneck = model.zip(last.usage.as_ref()).map(|(model, usage)| {
                    let same = last
                        .runs
                        .iter()
                        .filter(|run| is_of(plan, run, name, *version));
                    Bottleneck::of(&model, usage, &late, &same.collect::<Vec<_>>())
                });
                (
                    format!("for the {requests} of model `{}`", visible(name)),
                    bottleneck.map_or_else(String::new, |it| it.advice()),
                )
            }
            _ => ("for its turn".to_owned(), String::new()),
        };
        let waited: Duration = runs.iter().map(|run| run.waited()).sum();
        // A String takes all text.
        let _ = writeln!(
            lines,
            "Waiting: {} of {} runs of `{}` waited {what}, {} in all, the longest {}{advice}",
            late.len(),
            runs.len(),
            visible(&plan.nodes[id].name),
            time(waited),
            time(longest)
        );
    }
    lines
}

/// Returns whether a run was one of a model.
fn is_of(plan: &PipelinePlan, run: &NodeTrace, name: &str, version: Option<i64>) -> bool {
    matches!(
        &plan.nodes[run.node].kind,
        Some(NodeKind::Model { model_name, version: it }) if model_name == name && *it == version
    )
}

/// Facts that show why runs of a model waited.
#[derive(Debug, Clone, Copy)]
struct Bottleneck {
    slots: usize,
    /// Execution streams of the device.
    streams: usize,
    /// Runs of the model that were in flight during the waits, on average.
    in_flight: f64,
    /// Cores that this process may use.
    cores: usize,
    /// Cores that it kept busy during the waits, on average; `None` on other devices than the processor.
    busy: Option<f64>,
    /// Threads of this process that were ready to run and had no core, since others had it.
    queued: f64,
}

impl Bottleneck {
    /// Gathers them from the runs that waited and all runs of the model.
    fn of(model: &Loaded, usage: &CoreUsage, late: &[&NodeTrace], all: &[&NodeTrace]) -> Self {
        let mean = |of: &dyn Fn(&NodeTrace) -> f64| {
            let weight: f64 = late.iter().map(|run| run.waited().as_secs_f64()).sum();
            let sum = late.iter().map(|run| of(run) * run.waited().as_secs_f64());
            sum.sum::<f64>() / weight
        };
        let on_cores = model.spec.options.device == "CPU";
        Self {
            slots: model.slots(),
            streams: usize::try_from(model.streams()).unwrap_or(1),
            in_flight: mean(&|run| beside(run, all)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            busy: on_cores.then(|| mean(&|run| usage.busy(run.ready, run.started))),
            queued: usage.queued,
        }
    }

    /// Returns what helps, if anything does.
    fn advice(&self) -> String {
        let Self {
            slots,
            streams,
            cores,
            ..
        } = *self;
        let Some(busy) = self.busy else {
            return "; more `nireq` helps if the device has room for them".to_owned();
        };
        let facts = format!(
            "this process kept {:.1} of {} busy",
            busy.min(cores as f64),
            counted(cores, "core")
        );
        let all = cores as f64 - IDLE;
        if busy + self.queued > all {
            let others = if busy > all {
                ""
            } else {
                ", and others the rest"
            };
            return format!(
                "; they waited for the CPU ({facts}{others}): more `nireq` does not help"
            );
        }
        // Runs in place are no more at once than there are streams; half of one is what comes and goes.
        if self.in_flight < slots.min(streams) as f64 - 0.5 {
            return format!("; not all of them were in use ({facts}): more `nireq` does not help");
        }
        match slots < streams {
            true => format!(
                "; there were free cores ({facts}): `nireq` {streams} gives each of its {streams} streams a run"
            ),
            false if streams < cores => format!(
                "; there were free cores ({facts}): a larger `NUM_STREAMS` than {streams}, with at least as many `nireq`, \
                 may use them"
            ),
            false => format!("; there were free cores ({facts}): more `nireq` may use them"),
        }
    }
}

/// Returns how many runs were in flight during the wait of another one, on average.
fn beside(run: &NodeTrace, all: &[&NodeTrace]) -> f64 {
    let overlap = |other: &&NodeTrace| {
        let from = other.started.max(run.ready);
        let to = other.ended.min(run.started);
        to.saturating_duration_since(from).as_secs_f64()
    };
    all.iter().map(overlap).sum::<f64>() / run.waited().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ovms::pipeline::NodeTrace;

    use super::{Bottleneck, beside};

    const SLOTS: Bottleneck = Bottleneck {
        slots: 2,
        streams: 4,
        in_flight: 2.0,
        cores: 4,
        busy: Some(2.1),
        queued: 0.1,
    };

    #[test]
    fn more_infer_requests_are_advised_only_where_they_help() {
        let advised = |bottleneck: Bottleneck| bottleneck.advice();
        insta::assert_snapshot!(advised(SLOTS), @"; there were free cores (this process kept 2.1 of 4 cores busy): `nireq` 4 gives each of its 4 streams a run");
        let busy = Some(3.9);
        insta::assert_snapshot!(advised(Bottleneck { busy, ..SLOTS }), @"; they waited for the CPU (this process kept 3.9 of 4 cores busy): more `nireq` does not help");
        let queued = 2.4;
        insta::assert_snapshot!(advised(Bottleneck { queued, ..SLOTS }), @"; they waited for the CPU (this process kept 2.1 of 4 cores busy, and others the rest): more `nireq` does not help");
        let in_flight = 1.0;
        insta::assert_snapshot!(advised(Bottleneck { in_flight, ..SLOTS }), @"; not all of them were in use (this process kept 2.1 of 4 cores busy): more `nireq` does not help");
        let streams = 1;
        insta::assert_snapshot!(advised(Bottleneck { in_flight, streams, ..SLOTS }), @"; there were free cores (this process kept 2.1 of 4 cores busy): a larger `NUM_STREAMS` than 1, with at least as many `nireq`, may use them");
        let all_cores = Bottleneck {
            slots: 4,
            in_flight: 4.0,
            ..SLOTS
        };
        insta::assert_snapshot!(advised(all_cores), @"; there were free cores (this process kept 2.1 of 4 cores busy): more `nireq` may use them");
        insta::assert_snapshot!(advised(Bottleneck { busy: None, ..SLOTS }), @"; more `nireq` helps if the device has room for them");
        let one = Bottleneck {
            cores: 1,
            busy: Some(1.2),
            ..SLOTS
        };
        insta::assert_snapshot!(advised(one), @"; they waited for the CPU (this process kept 1.0 of 1 core busy): more `nireq` does not help");
    }

    #[test]
    fn runs_in_flight_are_counted_during_the_wait() {
        let begin = Instant::now();
        let run = |[ready, started, ended]: [u64; 3]| NodeTrace {
            node: 1,
            session: String::new(),
            ready: begin + Duration::from_millis(ready),
            started: begin + Duration::from_millis(started),
            ended: begin + Duration::from_millis(ended),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let runs = [[0, 0, 10], [0, 0, 5], [0, 10, 20]].map(run);
        let all: Vec<&NodeTrace> = runs.iter().collect();
        assert!((beside(&runs[2], &all) - 1.5).abs() < 1e-9);
    }
}
