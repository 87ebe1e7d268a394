//! Results of a check as text.

use std::fmt::{self, Write};

use super::report::{Entry, GraphReport, Report, Verdict};
use crate::{
    serve::files,
    ui::{visible, visible_below},
};

/// Indent of found and next, and of their further lines.
const INDENT: usize = 11;

/// Writes the report.
pub(super) fn write(report: &Report) -> String {
    let mut text = String::new();
    all(&mut text, report).expect("a text takes every text");
    text
}

fn all(text: &mut String, report: &Report) -> fmt::Result {
    for graph in &report.graphs {
        one(text, graph)?;
    }
    if report.graphs.len() > 1 && report.verdict() == Verdict::Ok {
        writeln!(text, "{} graphs: no errors", report.graphs.len())?;
    }
    Ok(())
}

fn one(text: &mut String, graph: &GraphReport) -> fmt::Result {
    writeln!(text, "graph `{}`: {}", visible(&graph.name), graph.counts())?;
    for error in &graph.errors {
        entry(text, graph, error)?;
    }
    for warning in &graph.warnings {
        entry(text, graph, warning)?;
    }
    if !graph.unchecked.is_empty() {
        writeln!(text)?;
    }
    for unchecked in &graph.unchecked {
        writeln!(text, "  not checked: {}", visible_below(unchecked, 4))?;
    }
    if graph.verdict != Verdict::Ok {
        writeln!(text)?;
    }
    Ok(())
}

fn entry(text: &mut String, graph: &GraphReport, entry: &Entry) -> fmt::Result {
    let place = match (entry.line, entry.column) {
        (Some(line), Some(column)) => format!(":{line}:{column}"),
        _ => String::new(),
    };
    let what = match (entry.status, entry.rule) {
        (Some(status), Some(rule)) => format!("{status} [rule {rule}]"),
        _ => "warning".to_owned(),
    };
    writeln!(text, "\n  {}{place}: {what}", visible(&graph.file))?;
    if let (Some(number), Some(column)) = (entry.line, entry.column)
        && let Some(line) = graph.lines.get(number.saturating_sub(1))
    {
        for line in files::quote(number, line, column, width(line, column)) {
            writeln!(text, "      {}", line.trim_end())?;
        }
    }
    if let Some(node) = &entry.node {
        writeln!(text, "    node   {}", visible(node))?;
    }
    // Errors of the text itself begin with the word.
    let found = entry.message.strip_prefix("found ");
    let found = found.unwrap_or(&entry.message);
    writeln!(text, "    found  {}", visible_below(found, INDENT))?;
    if let Some(traceback) = &entry.traceback {
        let traceback = visible_below(traceback, INDENT);
        writeln!(text, "{:INDENT$}{traceback}", "")?;
    }
    match &entry.hint {
        Some(hint) => writeln!(text, "    next   {}", visible_below(hint, INDENT)),
        None => Ok(()),
    }
}

/// Returns the width in characters of the word or text at a column, from 1.
fn width(line: &str, column: usize) -> usize {
    let mut rest = line.chars().skip(column.saturating_sub(1));
    let width = match rest.next() {
        Some(quote @ ('"' | '\'')) => {
            let mut is_escaped = false;
            let within = rest.position(|c| {
                let ends = c == quote && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            within.map_or(1, |at| at + 2)
        }
        Some(first) if first.is_alphanumeric() || first == '_' => {
            1 + rest
                .take_while(|c| c.is_alphanumeric() || "_.".contains(*c))
                .count()
        }
        _ => 1,
    };
    width.max(1)
}

#[cfg(test)]
mod tests {
    use super::width;

    #[test]
    fn words_and_texts_are_marked_to_their_end() {
        for (line, expected) in [
            ("node {", 4),
            (r#""IN:in" "#, 7),
            (r#""a\"b" c"#, 6),
            ("'a", 1),
            ("{ x }", 1),
            ("", 1),
        ] {
            assert_eq!(width(line, 1), expected, "{line}");
        }
    }
}
