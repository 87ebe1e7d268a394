//! Executors, queue sizes and other numbers.

use std::collections::HashSet;

use super::Found;
use crate::{
    error::nearest,
    graph::file::{GraphSpec, NodeEntry},
};

/// Default maximum number of packets in a queue.
const MAX_QUEUE: usize = 100;

/// Kinds of executors allowed in graph files. Their settings are read and ignored: all nodes share
/// the threads of the server.
const KINDS: [&str; 3] = ["", "ThreadPoolExecutor", "ApplicationThreadExecutor"];

fn is_reserved(name: &str) -> bool {
    name == "default" || name == "gpu" || name.starts_with("__")
}

/// Checks the executors of a graph. Returns their names.
pub(super) fn executors<'a>(spec: &'a GraphSpec, found: &Found<'_>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for executor in &spec.executors {
        let name = executor.name.as_str();
        let add = |message: String, hint: Option<String>| {
            found.wiring(None, executor.at, message, hint);
        };
        if is_reserved(name) {
            let message = format!("\"{name}\" is a reserved executor name");
            add(message, Some("give it another name".to_owned()));
        } else if !names.insert(name) {
            add(format!("two executors have the name \"{name}\""), None);
        }
        let kind = executor.kind.as_str();
        if !KINDS.contains(&kind) {
            let near = nearest(kind, KINDS).unwrap_or(KINDS[1]);
            let message = format!("the executor type \"{kind}\" is not known");
            add(message, Some(format!("did you mean {near}?")));
        }
    }
    names
}

/// Checks the executor named by a node of a graph with these.
pub(super) fn executor(names: &HashSet<&str>, entry: &NodeEntry, found: &Found<'_>) {
    let Some((name, at)) = &entry.executor else {
        return;
    };
    let add = |message: String, hint: String| {
        found.wiring(Some(&entry.spec.name), *at, message, Some(hint));
    };
    if is_reserved(name) {
        let message = format!("\"{name}\" is a reserved executor name");
        add(message, "leave it out for the default executor".to_owned());
    } else if !names.contains(name.as_str()) {
        let near = nearest(name, names.iter().copied());
        let hint = near.map_or_else(
            || format!("add `executor {{ name: \"{name}\" }}` to the graph"),
            |name| format!("did you mean \"{name}\"?"),
        );
        let message = format!("the executor \"{name}\" is not declared in an ExecutorConfig");
        add(message, hint);
    }
}

/// Returns the maximum number of packets in a queue; `None` for no limit.
pub(super) fn max_queue(spec: &GraphSpec, found: &Found<'_>) -> Option<usize> {
    match spec.max_queue_size {
        None | Some((0, _)) => Some(MAX_QUEUE),
        Some((-1, _)) => None,
        Some((size, at)) => {
            if size < 0 {
                let hint = "write a positive number, or -1 for no limit".to_owned();
                let message = format!("max_queue_size is {size}");
                found.wiring(None, at, message, Some(hint));
            }
            Some(usize::try_from(size).unwrap_or(MAX_QUEUE))
        }
    }
}

/// Checks the maximum number of concurrent `process` calls of a node.
pub(super) fn max_in_flight(entry: &NodeEntry, found: &Found<'_>) {
    if let Some((given, at)) = entry.max_in_flight
        && given < 0
    {
        let hint = "write how many times the node may run at once, 1 or more".to_owned();
        let message = format!("max_in_flight is {given}");
        found.wiring(Some(&entry.spec.name), at, message, Some(hint));
    }
}
