//! The server that most tests of this folder share. Each has graphs of its own there if it ends workers, fills them,
//! or counts what they do.

use std::{path::PathBuf, sync::LazyLock};

use serde_json::Value;

use super::{
    check, generate, handler_output, handler_streams, pool, python, python_errors, remarks, states,
    stream_ends, stream_models, streams, worker_ends, workers,
};
use crate::support::{
    Server,
    graphs::{CODE, LIST, PASS, PYTHON, TWO, add, add_python, file, generative},
    grpc::Grpc,
    pipelines::Config,
};

/// Graphs whose node runs code from requests.
const CODES: &str = "py exits crashes aborts turns again bare endless forks forks_memory g \
                     names named signals works kept empty1 empty2 bytes1 bytes2";

/// The server, and the folder of its configuration file.
static SHARED: LazyLock<(Server, PathBuf)> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy"]);
    // The first of the list, as its test says.
    let none = "none".into();
    add_code(&mut config, "nowhere", &[("python_environment", none)]);
    // `py` and `gen` are for code that leaves the worker and the handler as they are, the others of a test each.
    for name in CODES.split(' ') {
        add_code(&mut config, name, &[]);
    }
    for name in ["gen", "dying_gen", "forks_gen", "sets", "stuck"] {
        add_generator(&mut config, name);
    }
    set_options(&mut config, "stuck", &[("python_timeout_ms", 500.into())]);
    for (name, text) in [("pass", PASS), ("pass2", PASS), ("two", TWO)] {
        add(&mut config, name, text);
    }
    for add_graphs in [
        check::add_graphs,
        generate::add_graphs,
        handler_output::add_graphs,
        handler_streams::add_graphs,
        pool::add_graphs,
        python::add_graphs,
        python_errors::add_graphs,
        remarks::add_graphs,
        states::add_graphs,
        stream_ends::add_graphs,
        stream_models::add_graphs,
        streams::add_graphs,
        worker_ends::add_graphs,
        workers::add_graphs,
    ] {
        add_graphs(&mut config);
    }
    let folder = config.beside("");
    (config.serve_kept(&["--metrics_enable"]), folder)
});

/// Returns the server, and a client of it.
pub(super) fn connect() -> (&'static Server, Grpc) {
    let server = &SHARED.0;
    (server, Grpc::connect(server))
}

/// Returns a path beside the configuration file.
pub(super) fn beside(name: &str) -> PathBuf {
    SHARED.1.join(name)
}

/// Adds a graph whose node runs code from requests, with options of its workers.
pub(super) fn add_code(config: &mut Config, name: &str, options: &[(&str, Value)]) {
    add_python(config, name, CODE);
    set_options(config, name, options);
}

/// Adds a generator that runs code from requests.
pub(super) fn add_generator(config: &mut Config, name: &str) {
    add(config, name, &generative(PYTHON));
    file(config, &format!("{name}/handler.py"), CODE);
}

/// Sets options of the workers of a graph.
pub(super) fn set_options(config: &mut Config, name: &str, options: &[(&str, Value)]) {
    let mut entry = config.remove(LIST, name);
    for (key, value) in options {
        entry[*key] = value.clone();
    }
    config.put(LIST, entry);
}
