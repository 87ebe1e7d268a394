//! The engine of the server, in this process, without its frontends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ovms::{
    config::{ConfigSource, Defaults, Flags},
    engine::{Engine, reload::Reloader},
    metrics::Metrics,
    request::{ApiFamily, InferRequest, Interface, RequestOrigin},
    task::Task,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{Model, PROPERTIES, report::stats::median};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

/// Servables of a configuration file.
pub(super) struct Served {
    runtime: Runtime,
    engine: Arc<Engine>,
    /// Keeps the servables alive.
    _reloader: Reloader,
    _folder: TempDir,
}

impl Served {
    /// Loads everything.
    pub(super) fn new(config: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file");
        let path = folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).expect("the folder is ours");
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        // As the program makes it.
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores.max(2))
            .enable_all()
            .build()
            .expect("a runtime");
        let engine = Engine::new(Duration::ZERO, 16);
        let reloader = runtime.block_on(async {
            let flags = Flags {
                max_queued_requests: 1000,
                max_custom_node_runs: cores,
                ..Flags::default()
            };
            let defaults = Defaults {
                flags: Arc::new(flags),
                ..Defaults::default()
            };
            let source = ConfigSource::File { path, defaults };
            let mut reloader = Reloader::new(Arc::clone(&engine), source, Metrics::off());
            reloader.read().await.expect("the file is right");
            let errors = reloader.start().await.expect("the models load");
            assert!(errors.is_empty(), "everything loads: {errors:?}");
            reloader
        });
        Self {
            runtime,
            engine,
            _reloader: reloader,
            _folder: folder,
        }
    }

    /// Sends a request repeatedly, each after the response to the one before, and returns the median
    /// time of one, in microseconds.
    pub(super) fn median_us(
        &self,
        name: &'static str,
        request: &InferRequest,
        count: usize,
    ) -> f64 {
        let engine = Arc::clone(&self.engine);
        let request = request.clone();
        // On a worker, as the server has it.
        let work = async move {
            let mut took = Vec::with_capacity(count);
            for _ in 0..count {
                let request = request.clone();
                let begun = Instant::now();
                let target = engine.find(name, None, ORIGIN).await.expect("it serves");
                let answer = target.infer(request).await.expect("it answers");
                drop(answer);
                took.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            median(&took)
        };
        let done = self.runtime.block_on(async { Task::spawn(work).await });
        done.expect("nothing fails")
    }
}

/// Returns the configuration of a model, compiled as on every side.
pub(crate) fn model(
    name: &str,
    model: &Model,
    properties: &[(&str, &str)],
    nireq: Option<usize>,
) -> Value {
    let properties: serde_json::Map<String, Value> = PROPERTIES
        .iter()
        .chain(properties)
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    let mut config = json!({
        "name": name,
        "base_path": model.path(),
        "plugin_config": properties,
    });
    if let Some(nireq) = nireq {
        config["nireq"] = nireq.into();
    }
    json!({ "config": config })
}

/// Returns the configuration of a node that runs a model.
pub(super) fn node(name: &str, model: &str, inputs: &Value, output: &str) -> Value {
    json!({
        "name": name,
        "type": "DL model",
        "model_name": model,
        "inputs": inputs,
        "outputs": [{"data_item": output, "alias": output}],
    })
}

/// Returns the configuration of a pipeline with one output.
pub(super) fn pipeline(
    name: &str,
    inputs: &[&str],
    nodes: &[Value],
    (node, output): (&str, &str),
    split: Option<usize>,
) -> Value {
    let mut pipeline = json!({
        "name": name,
        "inputs": inputs,
        "nodes": nodes,
        "outputs": [{output: {"node_name": node, "data_item": output}}],
    });
    if let Some(split) = split {
        pipeline["demultiply_count"] = split.into();
    }
    pipeline
}
