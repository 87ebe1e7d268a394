//! The server that tests of this folder share if they need more than one fixture model. Those that wait for their own
//! load, or list their own sequences, have a model of their own there.

use std::{
    process::{Child, Command, Stdio},
    sync::LazyLock,
};

use serde_json::json;

use crate::support::{
    Server, dtypes, eventually,
    http::get,
    ir, model,
    pipelines::{Config, dl},
};

static SERVED: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "passthrough_string"]);
    for row in dtypes::rows() {
        config.model(row.model, &model(row.model));
    }
    for name in ["under_load", "interrupted", "terminated", "baseline"] {
        config.model(name, &model("dummy"));
    }
    config.model("batches", &model("dummy"))["batch_size"] = json!("-1");
    for (name, fixture) in [
        ("running_total", "running_total"),
        ("listed_total", "running_total"),
        ("measured_total", "running_total"),
        ("printed_total", "running_total"),
        ("vad_stateful", "vad_stateful"),
    ] {
        config.model(name, &model(fixture))["stateful"] = true.into();
    }
    let finder = config.beside("finder");
    ir::relu(&finder, "in", "out", &[1, 1, 2, 7]);
    config.model("finder", &finder);
    let node = dl("only", "dummy", "b=request.x", "a=y");
    config.pipeline("chain", "x", &[node], "y=only.y");
    config.serve_kept(&["--metrics_enable"])
});

/// Returns the server.
pub(super) fn served() -> &'static Server {
    &SERVED
}

/// Returns the sum of the samples of a metric that have these labels.
pub(super) fn counted(server: &Server, metric: &str, labels: &str) -> u64 {
    let page = get(server, "/metrics").text();
    let samples = page.lines().filter_map(|line| line.strip_prefix(metric));
    let samples = samples.filter(|sample| sample.starts_with('{') && sample.contains(labels));
    let counts = samples.map(|sample| sample.rsplit(' ').next().unwrap().parse::<u64>());
    counts.map(Result::unwrap).sum()
}

/// Starts a load, and waits until a model has answered more than a warm-up for it; needs metrics.
pub(super) fn loading(server: &Server, name: &str, command: &mut Command) -> Child {
    const WARM_UP: u64 = 300;
    let labels = format!(r#"name="{name}",version="1"}}"#);
    let answered = || counted(server, "ovms_requests_success", &labels);
    let before = answered();
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually("a load", || (answered() > before + WARM_UP).then_some(()));
    child
}
