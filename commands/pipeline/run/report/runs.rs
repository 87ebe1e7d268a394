//! Runs of a request with their input and output tensors: a table, or a list if the terminal is too
//! narrow.

use std::fmt::Write;

use ovms::{client::output::Summary, pipeline::NodeTrace};
use unicode_width::UnicodeWidthStr;

use super::{inner, session};
use crate::{
    infer::described,
    local::{share, time},
    pipeline::run::{LocalPipeline, Measured},
    ui::{self, Look, NOTHING, Table, visible},
};

/// Maximum number of shown runs of one node unless all are requested.
const MAX_SHOWN: usize = 4;

/// Run as shown.
struct Row {
    node: String,
    session: String,
    waited: String,
    ran: String,
    share: String,
    tensors: Vec<Line>,
}

/// Tensor of a run.
struct Line {
    /// Arrow, in or out, and name.
    name: String,
    /// Datatype, shape, minimum, mean, and maximum.
    described: [String; 5],
}

/// Writes the runs of the last request.
pub(super) fn text(loaded: &LocalPipeline, measured: &Measured, all: bool, look: Look) -> String {
    let plan = loaded.plan();
    let last = &measured.last;
    let (mut rows, mut hidden) = (Vec::new(), Vec::new());
    for id in inner(plan) {
        let node = &plan.nodes[id];
        let mut own: Vec<&NodeTrace> = last.runs.iter().filter(|run| run.node == id).collect();
        own.sort_by_key(|run| natural(&run.session));
        let shown = if all { own.len() } else { MAX_SHOWN };
        if own.len() > shown {
            let name = visible(&node.name);
            hidden.push(format!("{} of `{name}`", own.len() - shown));
        }
        rows.extend(own.into_iter().take(shown).map(|run| {
            let inputs = node.inputs.iter().map(|it| ("→", &it.name));
            let outputs = node.outputs.iter().map(|it| ("←", &it.name));
            let tensors = inputs.zip(&run.inputs).chain(outputs.zip(&run.outputs));
            let line = |((side, name), tensor): ((&str, &String), _)| Line {
                name: format!("{side} {name}"),
                described: described(&Summary::new(name, tensor)),
            };
            Row {
                node: node.name.clone(),
                session: run.session.clone(),
                waited: time(run.waited()),
                ran: time(run.took()),
                share: share(run.took(), last.took),
                tensors: tensors.map(line).collect(),
            }
        }));
    }
    let table = table(&rows);
    let mut text = match table.fits(look) {
        true => table.draw(look),
        false => ui::filled(&list(&rows), look),
    };
    if !hidden.is_empty() {
        let hidden = hidden.join(", ");
        text.extend(["not shown: ", &hidden, "; `--all` shows every run\n"]);
    }
    text
}

/// Returns a table with a row for each tensor; the text about the run is in the first.
fn table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .left(["node", "session", "tensor", "datatype", "shape"])
        .right(["min", "mean", "max", "waited", "ran", "share"]);
    for row in rows {
        let session = match row.session.as_str() {
            "" => NOTHING,
            session => session,
        };
        let mut first = Some([&row.node, session, &row.waited, &row.ran, &row.share]);
        let nothing = Line {
            name: NOTHING.to_owned(),
            described: [NOTHING; 5].map(str::to_owned),
        };
        let tensors = match &row.tensors[..] {
            [] => std::slice::from_ref(&nothing),
            tensors => tensors,
        };
        for Line { name, described } in tensors {
            let [node, session, waited, ran, share] = first.take().unwrap_or_default();
            let tensor = described.iter().map(String::as_str);
            let cells = [node, session, name].into_iter().chain(tensor);
            table.row(cells.chain([waited, ran, share]).map(str::to_owned));
        }
    }
    table
}

/// Writes a line for each run, followed by one for each tensor.
fn list(rows: &[Row]) -> String {
    let kind = |line: &Line| format!("{} {}", line.described[0], line.described[1]);
    let widest = |text: &dyn Fn(&Line) -> String| {
        let lines = rows.iter().flat_map(|row| &row.tensors);
        let widths = lines.map(|line| visible(&text(line)).width());
        widths.max().unwrap_or_default()
    };
    let (names, kinds) = (widest(&|line| line.name.clone()), widest(&kind));
    let mut text = String::new();
    for row in rows {
        // A String takes all text.
        let _ = writeln!(
            text,
            "{}{}: waited {}, ran {}, {}",
            visible(&row.node),
            session(&row.session),
            row.waited,
            row.ran,
            row.share
        );
        for line in &row.tensors {
            let padded = |text: &str, width: usize| {
                let text = visible(text);
                format!("{text}{}", " ".repeat(width - text.width()))
            };
            let [_, _, min, mean, max] = &line.described;
            let _ = writeln!(
                text,
                "  {}  {}  {min} to {max}, mean {mean}",
                padded(&line.name, names),
                padded(&kind(line), kinds)
            );
        }
    }
    text
}

/// Splits a session into texts and numbers, so that 10 sorts after 9.
fn natural(session: &str) -> Vec<(String, u64)> {
    let parts = session.split('_').map(|part| match part.parse() {
        Ok(number) => (String::new(), number),
        Err(_) => (part.to_owned(), 0),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::{Line, Row, list, natural};

    #[test]
    fn sessions_count_up() {
        let mut sessions = ["a_10", "a_9", "a_9_b_1", "a_9_b_0"];
        sessions.sort_by_key(|session| natural(session));
        assert_eq!(sessions, ["a_9", "a_9_b_0", "a_9_b_1", "a_10"]);
    }

    #[test]
    fn a_narrow_terminal_has_a_list() {
        let line = |name: &str, shape: &str| Line {
            name: name.to_owned(),
            described: ["FP32", shape, "0", "0.5", "12"].map(str::to_owned),
        };
        let row = |node: &str, session: &str, tensors| Row {
            node: node.to_owned(),
            session: session.to_owned(),
            waited: "99.4 µs".to_owned(),
            ran: "152 ms".to_owned(),
            share: "85 %".to_owned(),
            tensors,
        };
        let rows = [
            row(
                "one",
                "",
                vec![line("→ x", "(1,3)"), line("← longer", "(1)")],
            ),
            row("two\n", "one_0", vec![]),
        ];
        insta::assert_snapshot!(list(&rows), @r"
        one: waited 99.4 µs, ran 152 ms, 85 %
          → x       FP32 (1,3)  0 to 12, mean 0.5
          ← longer  FP32 (1)    0 to 12, mean 0.5
        two\u{a} [one_0]: waited 99.4 µs, ran 152 ms, 85 %
        ");
    }
}
