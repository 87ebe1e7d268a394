//! Trace of a request through a pipeline, as text.

mod runs;
mod waits;

use std::time::Duration;

use ovms::{config::NodeKind, pipeline::PipelinePlan};

use super::{LocalPipeline, Measured, RankedResponse};
use crate::{
    infer,
    local::{median, share, time},
    ui::{self, Look, NOTHING, Table, counted, visible},
};

/// Decoder of the encoded images of a request, in the place of a model.
const DECODER: &str = "image decoder";

/// Writes the report.
pub(super) fn text(
    loaded: &LocalPipeline,
    measured: &Measured,
    ranked: Option<&RankedResponse<'_>>,
    all: bool,
    look: Look,
) -> String {
    let mut text = ui::filled(&headline(loaded, measured), look);
    if measured.error.is_some() {
        // Sections about the request as a whole cannot be written.
        if !measured.last.runs.is_empty() {
            text.extend(["\n", &runs::text(loaded, measured, all, look)]);
        }
        return text;
    }
    let sections = [
        nodes(loaded, measured).draw(look),
        runs::text(loaded, measured, all, look),
        ui::filled(&path(loaded.plan(), measured), look),
        ui::filled(&waits::text(loaded, &measured.last), look),
        match ranked {
            Some(ranked) => ranked.table().draw(look),
            None => {
                let outputs = measured.last.outputs();
                let rows = infer::rows_of_batch(outputs, &measured.files);
                infer::outputs_table(outputs).draw(look) + &rows
            }
        },
    ];
    for section in sections.iter().filter(|section| !section.is_empty()) {
        text.extend(["\n", section]);
    }
    text
}

fn headline(loaded: &LocalPipeline, measured: &Measured) -> String {
    let nodes = counted(loaded.plan().nodes.len() - 2, "node");
    let runs = counted(measured.last.runs.len(), "run");
    let head = format!("Pipeline `{}`: {nodes}, {runs}, ", visible(&loaded.name));
    let at = |share: usize| time(measured.percentile(share));
    match &measured.totals[..] {
        _ if measured.error.is_some() => {
            format!("{head}failed after {}\n", time(measured.last.took))
        }
        [only] => format!("{head}{}\n", time(*only)),
        totals => format!(
            "{head}median of {} requests {} (fastest {}, 90 % within {}, slowest {})\n",
            totals.len(),
            time(median(totals)),
            at(0),
            at(90),
            at(100)
        ),
    }
}

/// Returns the table of nodes: model or library, levels, number of runs, and times.
fn nodes(loaded: &LocalPipeline, measured: &Measured) -> Table {
    let mut table = Table::new()
        .left(["node", "runs on", "levels"])
        .right(["runs", "waited", "ran", "share"]);
    let plan = loaded.plan();
    let total = median(&measured.totals);
    if !measured.decoded.is_empty() {
        let ran = median(&measured.decoded);
        table.row([
            plan.nodes[PipelinePlan::ENTRY].name.clone(),
            DECODER.to_owned(),
            NOTHING.to_owned(),
            "1".to_owned(),
            NOTHING.to_owned(),
            time(ran),
            share(ran, total),
        ]);
    }
    for id in inner(plan) {
        let times = &measured.nodes[id];
        let ran = median(&times.ran);
        let number = measured.last.runs.iter().filter(|run| run.node == id);
        table.row([
            plan.nodes[id].name.clone(),
            runs_on(plan.nodes[id].kind.as_ref()),
            levels(plan, id),
            number.count().to_string(),
            time(median(&times.waited)),
            time(ran),
            share(ran, total),
        ]);
    }
    table
}

/// Writes the critical path through the pipeline.
fn path(plan: &PipelinePlan, measured: &Measured) -> String {
    let last = &measured.last;
    let (mut ran, mut waited) = (Duration::ZERO, Duration::ZERO);
    let mut steps = vec!["request".to_owned()];
    if let Some(decoding) = &last.decoding {
        ran += decoding.took();
        steps.push(format!("{DECODER} {}", time(decoding.took())));
    }
    for place in &last.path {
        let run = &last.runs[*place];
        ran += run.took();
        waited += run.waited();
        let (name, session) = (visible(&plan.nodes[run.node].name), session(&run.session));
        steps.push(format!("{name}{session} {}", time(run.took())));
    }
    steps.push("response".to_owned());
    let rest = last.took.saturating_sub(ran + waited);
    format!(
        "Critical path: {}\n  running {} ({}), waiting {} ({}), between nodes {} ({})\n",
        steps.join(" → "),
        time(ran),
        share(ran, last.took),
        time(waited),
        share(waited, last.took),
        time(rest),
        share(rest, last.took)
    )
}

/// Returns a session in brackets, if there is one.
fn session(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" [{}]", visible(name)),
    }
}

/// Returns the nodes between entry and exit.
pub(super) fn inner(plan: &PipelinePlan) -> impl Iterator<Item = usize> + use<> {
    PipelinePlan::ENTRY + 1..plan.exit()
}

/// Returns the model or library of a node.
pub(super) fn runs_on(kind: Option<&NodeKind>) -> String {
    match kind {
        Some(NodeKind::Model {
            model_name,
            version,
        }) => {
            let version = version.map(|version| format!(", version {version}"));
            format!("model {model_name}{}", version.unwrap_or_default())
        }
        Some(NodeKind::Custom { library_name, .. }) => format!("library {library_name}"),
        None => NOTHING.to_owned(),
    }
}

/// Returns the demultiplexers above a node, the outermost first.
fn levels(plan: &PipelinePlan, id: usize) -> String {
    let node = &plan.nodes[id];
    let levels = node.levels.iter().map(|level| {
        let level = &plan.levels[*level];
        let count = match level.count {
            ovms::pipeline::Count::Fixed(count) => count.to_string(),
            ovms::pipeline::Count::Dynamic => "N".to_owned(),
        };
        format!("{} × {count}", plan.nodes[level.node].name)
    });
    let levels: Vec<String> = levels.collect();
    match levels.is_empty() {
        true => NOTHING.to_owned(),
        false => levels.join(" › "),
    }
}
