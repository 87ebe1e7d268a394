//! Output that is kept of a request: its trace as JSON, and files with all its tensors.

use std::{path::Path, time::Duration};

use ovms::{
    client::output::{Summary, save_tensors},
    config::NodeKind,
    pipeline::{NodeTrace, PipelinePlan},
    tensor::{Tensor, TensorMap},
};
use serde_json::{Value, json};

use super::{LocalPipeline, Measured, RankedResponse, report::inner};
use crate::{
    error::Failure,
    infer,
    local::{median, microseconds, ratio},
    ui,
};

/// Refuses a place where nothing can be saved, before anything runs.
pub(super) fn check_place(folder: &Path) -> Result<(), Failure> {
    if folder.exists() && !folder.is_dir() {
        let text = format!("cannot save to {}: it is not a folder", folder.display());
        return Err(Failure::failed(text)
            .hint("`--save-intermediate` takes a folder, which is created if it is missing"));
    }
    infer::check_folder(folder)
}

/// Saves the inputs of the pipeline, the tensors of each run, and the response.
pub(super) fn save_all(
    folder: &Path,
    loaded: &LocalPipeline,
    inputs: &TensorMap,
    measured: &Measured,
) -> Result<(), Failure> {
    let plan = loaded.plan();
    let mut tensors = TensorMap::default();
    for (name, tensor) in inputs {
        tensors.push((format!("request.{name}"), tensor.clone()));
    }
    for run in &measured.last.runs {
        let node = &plan.nodes[run.node];
        let session = match run.session.as_str() {
            "" => String::new(),
            session => format!(".{session}"),
        };
        let inputs = node.inputs.iter().zip(&run.inputs);
        let inputs = inputs.map(|(it, tensor)| ("in", &it.name, tensor));
        let outputs = node.outputs.iter().zip(&run.outputs);
        let outputs = outputs.map(|(it, tensor)| ("out", &it.name, tensor));
        for (side, name, tensor) in inputs.chain(outputs) {
            let name = format!("{}{session}.{side}.{name}", node.name);
            tensors.push((name, tensor.clone()));
        }
    }
    for (name, tensor) in measured.last.outputs() {
        tensors.push((format!("response.{name}"), tensor.clone()));
    }
    let saved = save_tensors(&tensors, folder)
        .map_err(|error| Failure::cannot("save to", folder, &error))?;
    let (number, folder) = (saved.len(), folder.display());
    ui::note(&format!("Saved {number} tensors in {folder}."));
    Ok(())
}

/// Describes everything as one object. Times are in microseconds; `null` stands for what is not a
/// finite number.
pub(super) fn as_json(
    loaded: &LocalPipeline,
    measured: &Measured,
    ranked: Option<&RankedResponse<'_>>,
) -> Value {
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
    let step = |node: usize, session: &str, waited, ran| {
        json!({
            "node": plan.nodes[node].name,
            "session": session,
            "waited_us": microseconds(waited),
            "ran_us": microseconds(ran),
        })
    };
    let decoding = last.decoding.iter().map(|decoding| {
        let ran = decoding.took();
        step(PipelinePlan::ENTRY, "", Duration::ZERO, ran)
    });
    let path = last.path.iter().map(|place| {
        let run: &NodeTrace = &last.runs[*place];
        step(run.node, &run.session, run.waited(), run.took())
    });
    let at = |share: usize| microseconds(measured.percentile(share));
    let outputs = last.outputs().iter().map(|(name, it)| (name.as_str(), it));
    let mut report = json!({
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
        "critical_path": decoding.chain(path).collect::<Vec<_>>(),
        "outputs": tensors(outputs),
    });
    if let Some(decoding) = &last.decoding {
        let ran = median(&measured.decoded);
        report["decoding"] = json!({
            "inputs": decoding.inputs,
            "ran_us": microseconds(ran),
            "share": ratio(ran, median(&measured.totals)),
        });
    }
    if !measured.files.is_empty() {
        report["files"] = json!(measured.files);
    }
    if let Some(ranked) = ranked {
        report["ranking"] = ranked.as_json();
    }
    report
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

#[cfg(test)]
mod tests {
    use super::check_place;

    #[test]
    fn a_place_that_is_no_folder_is_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.npy");
        std::fs::write(&file, "").unwrap();
        for place in [folder.path(), &folder.path().join("new/steps")] {
            assert!(check_place(place).is_ok(), "{}", place.display());
        }
        let text = check_place(&file).unwrap_err().text();
        assert!(text.contains("a.npy: it is not a folder\nhint: "), "{text}");
        assert!(check_place(&file.join("steps")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
