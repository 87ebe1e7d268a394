//! Lines of the log of a server.

use std::collections::BTreeSet;

use super::is_updated;
use crate::support::{Server, eventually};

/// Waits for lines of a log with a text, and returns them, each once, without their times, and without what follows a
/// text that ends with `…`.
pub(super) fn lines(server: &Server, text: &str, count: usize) -> String {
    let (text, is_cut) = match text.strip_suffix('…') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let shown = |line: &str| {
        let (_, line) = line.split_once(' ')?;
        let end = line.find(text)? + text.len();
        let line = if is_cut { &line[..end] } else { line };
        Some(format!("{line}\n"))
    };
    let least = if is_updated() { 1 } else { count.max(1) };
    eventually(&format!("`{text}` in {least} lines of the log"), || {
        // What loads side by side is logged in any order.
        let lines: BTreeSet<String> = server.log().lines().filter_map(shown).collect();
        (lines.len() >= least).then(|| lines.into_iter().collect())
    })
}

/// Waits for lines of a log with a text, and returns what follows it in each.
pub(super) fn history(server: &Server, text: &str, count: usize) -> String {
    let least = if is_updated() { 1 } else { count.max(1) };
    eventually(&format!("`{text}` in {least} lines of the log"), || {
        let log = server.log();
        let lines = log.lines().filter_map(|line| line.split_once(text));
        let lines: Vec<String> = lines
            .map(|(_, rest)| format!("{}\n", rest.trim()))
            .collect();
        (lines.len() >= least).then(|| lines.concat())
    })
}
