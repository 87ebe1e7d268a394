//! Trace of a request through a pipeline, as JSON.

use std::time::Duration;

use ovms::{client::output::Summary, config::NodeKind, pipeline::NodeTrace, tensor::Tensor};
use serde_json::{Value, json};

use super::{
    load::LocalPipeline,
    measure::{Measured, median},
    report::inner,
};
use crate::local::microseconds;

/// Describes everything as one object. Times are in microseconds; `null` stands for what is not a
/// finite number.
pub(super) fn text(loaded: &LocalPipeline, measured: &Measured) -> Value {
    let plan = loaded.plan();
    let last = &measured.last;
    let nodes = inner(plan).map(|id| {
        let node = &plan.nodes[id];
        let times = &measured.nodes[id];
        let runs = last.runs.iter().filter(|run| run.node == id);
        let runs = runs.map(|run| {
            let inputs = node.inputs.iter().map(|it| it.name.as_str());
            let outputs = node.outputs.iter().map(|it| it.name.as_str());
            json!({
                "session": run.session,
                "waited_us": microseconds(run.waited()),
                "ran_us": microseconds(run.took()),
                "share": ratio(run.took(), last.took),
                "inputs": tensors(inputs.zip(&run.inputs)),
                "outputs": tensors(outputs.zip(&run.outputs)),
            })
        });
        let levels = node.levels.iter().map(|level| {
            let level = &plan.levels[*level];
            plan.nodes[level.node].name.clone()
        });
        let (kind, runs_on, version) = match &node.kind {
            Some(NodeKind::Model {
                model_name,
                version,
            }) => ("model", model_name.as_str(), *version),
            Some(NodeKind::Custom { library_name, .. }) => ("custom", library_name.as_str(), None),
            None => ("", "", None),
        };
        json!({
            "name": node.name,
            "kind": kind,
            "runs_on": runs_on,
            "version": version,
            "levels": levels.collect::<Vec<_>>(),
            "waited_us": microseconds(median(&times.waited)),
            "ran_us": microseconds(median(&times.ran)),
            "share": ratio(median(&times.ran), median(&measured.totals)),
            "runs": runs.collect::<Vec<_>>(),
        })
    });
    let path = last.path.iter().map(|place| {
        let run: &NodeTrace = &last.runs[*place];
        json!({
            "node": plan.nodes[run.node].name,
            "session": run.session,
            "waited_us": microseconds(run.waited()),
            "ran_us": microseconds(run.took()),
        })
    });
    let at = |share: usize| microseconds(measured.percentile(share));
    let outputs = last.outputs.iter().map(|(name, it)| (name.as_str(), it));
    json!({
        "pipeline": loaded.name,
        "error": measured.error,
        "requests": measured.totals.len(),
        "total_us": {
            "min": at(0),
            "median": microseconds(median(&measured.totals)),
            "p90": at(90),
            "max": at(100),
            "last": microseconds(last.took),
        },
        "nodes": nodes.collect::<Vec<_>>(),
        "critical_path": path.collect::<Vec<_>>(),
        "outputs": tensors(outputs),
    })
}

fn tensors<'a>(all: impl Iterator<Item = (&'a str, &'a Tensor)>) -> Vec<Value> {
    let tensor = |(name, tensor): (&str, &Tensor)| {
        let spread = Summary::new(name, tensor).spread;
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        json!({
            "name": name,
            "datatype": tensor.dtype().kserve(),
            "shape": tensor.shape(),
            "min": finite(spread.map(|it| it.min)),
            "mean": finite(spread.map(|it| it.mean)),
            "max": finite(spread.map(|it| it.max)),
        })
    };
    all.map(tensor).collect()
}

fn ratio(part: Duration, whole: Duration) -> Option<f64> {
    let ratio = part.as_secs_f64() / whole.as_secs_f64();
    ratio.is_finite().then_some((ratio * 1e4).round() / 1e4)
}
