//! Results of a check as text: each with its line of the file.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use super::{
    diagnostic::{Diagnostic, FindingText, Severity},
    report::{CheckReport, CheckVerdict, CheckedServable},
};
use crate::{
    serve::files,
    ui::{visible, visible_below},
};

/// Indent of the labels below an error.
const INDENT: usize = 4;

/// Writes the report.
pub(super) fn write(report: &CheckReport) -> String {
    let mut text = String::new();
    all(&mut text, report).expect("a text takes every text");
    text
}

fn all(text: &mut String, report: &CheckReport) -> fmt::Result {
    for servable in &report.servables {
        one(text, servable)?;
    }
    if !report.warnings.is_empty() {
        writeln!(text, "the file:")?;
        for warning in &report.warnings {
            finding(text, warning, &report.source)?;
        }
        writeln!(text)?;
    }
    let servables = report.kind().plural();
    match report.servables.len() {
        0 => writeln!(text, "no {servables} in the file"),
        several @ 2.. if report.verdict() == CheckVerdict::Ok => {
            writeln!(text, "{several} {servables}: no errors")
        }
        _ => Ok(()),
    }
}

fn one(text: &mut String, servable: &CheckedServable) -> fmt::Result {
    let (kind, counts) = (servable.kind.name(), servable.counts());
    writeln!(text, "{kind} `{}`: {counts}", visible(&servable.name))?;
    for found in servable.errors.iter().chain(&servable.warnings) {
        finding(text, found, &servable.source)?;
    }
    if !servable.unchecked.is_empty() {
        writeln!(text)?;
    }
    for found in &servable.unchecked {
        match &found.place {
            Some(_) => write!(text, "  {}: not checked: ", position(found))?,
            None => write!(text, "  not checked: ")?,
        }
        if let Some(node) = &found.node {
            write!(text, "node `{}`: ", visible(node))?;
        }
        writeln!(
            text,
            "{}",
            visible_below(&found.message.to_string(), INDENT)
        )?;
    }
    if servable.verdict != CheckVerdict::Ok {
        writeln!(text)?;
    }
    Ok(())
}

/// Writes an error or warning: its position and rule, the line, and its labels. A warning stands beside its
/// position.
fn finding(text: &mut String, found: &Diagnostic, source: &str) -> fmt::Result {
    let position = match position(found) {
        none if none.is_empty() => none,
        position => position + ": ",
    };
    let is_error = found.severity == Severity::Error;
    match found.rule {
        Some(rule) => writeln!(text, "\n  {position}{} [rule {}]", rule.status, rule.number)?,
        None if is_error => writeln!(text, "\n  {position}error")?,
        None => {
            let message = visible_below(&found.message.to_string(), INDENT);
            writeln!(text, "\n  {position}warning: {message}")?;
        }
    }
    if let Some(place) = &found.place
        && let Some(line) = source.lines().nth(place.line.saturating_sub(1))
    {
        let width = width(line, place.column);
        for line in files::quote(place.line, line, place.column, width) {
            writeln!(text, "      {}", line.trim_end())?;
        }
    }
    let mut labels: Vec<(&str, Cow<'_, str>)> = Vec::new();
    match (&found.connection, &found.node) {
        (Some(drawn), _) => writeln!(
            text,
            "    {} ──{}──▶ {}.{}",
            visible(&drawn.from),
            visible(&drawn.data_item),
            visible(&drawn.to),
            visible(&drawn.input)
        )?,
        // A name stays on its line.
        (None, Some(node)) => labels.push(("node", visible(node))),
        (None, None) => {}
    }
    match &found.message {
        FindingText::Mismatch { found, expected } => {
            labels.extend([("found", found.into()), ("expected", expected.into())]);
        }
        // Errors of the text itself begin with the word.
        FindingText::Text(message) if is_error => {
            let found = message.strip_prefix("found ").unwrap_or(message);
            labels.push(("found", found.into()));
        }
        FindingText::Text(_) => {}
    }
    labels.extend(found.traceback.iter().map(|it| ("", it.into())));
    labels.extend(found.hint.iter().map(|it| ("next", it.into())));
    let longest = labels.iter().map(|(label, _)| label.len()).max();
    let longest = longest.unwrap_or_default();
    for (label, value) in labels {
        let value = visible_below(&value, INDENT + longest + 2);
        writeln!(text, "{:INDENT$}{label:longest$}  {value}", "")?;
    }
    Ok(())
}

fn position(found: &Diagnostic) -> String {
    let position = found.position().unwrap_or_default();
    visible(&position).into_owned()
}

/// Returns the width in characters of the value at a column, from 1: a text, a number or a word,
/// an object or a list that ends in this line, else the rest of the line.
fn width(line: &str, column: usize) -> usize {
    let rest = line.chars().skip(column.saturating_sub(1));
    let (mut depth, mut text, mut escaped) = (0_usize, false, false);
    let mut width = 0;
    for character in rest {
        let is_end = match character {
            _ if escaped => {
                escaped = false;
                false
            }
            '\\' if text => {
                escaped = true;
                false
            }
            '"' => {
                text = !text;
                !text && depth == 0
            }
            _ if text => false,
            '{' | '[' => {
                depth += 1;
                false
            }
            '}' | ']' if depth > 0 => {
                depth -= 1;
                depth == 0
            }
            ',' | ':' | '}' | ']' | ' ' if depth == 0 => return width.max(1),
            _ => false,
        };
        width += 1;
        if is_end {
            break;
        }
    }
    // Where the value goes on in the next line, its beginning is enough.
    if depth > 0 { 1 } else { width.max(1) }
}

#[cfg(test)]
mod tests {
    use super::width;

    #[test]
    fn values_are_marked_to_their_end() {
        for (line, expected) in [
            ("\"a\\\"}b\", 1", 7),
            ("12, 13", 2),
            ("12}", 2),
            ("{\"a\": {\"b\": [1, 2]}}, {", 20),
            ("[1, \"]\"] ]", 8),
            ("{\"a\": {", 1),
            ("node {", 4),
            ("calculator: \"A\"", 10),
            (r#""IN:in" "#, 7),
            ("", 1),
        ] {
            assert_eq!(width(line, 1), expected, "{line}");
            assert_eq!(width(&format!("  {line}"), 3), expected, "{line}");
        }
    }
}
