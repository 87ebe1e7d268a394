//! Results of a check as text.

use std::fmt::{self, Write};

use super::report::{At, ErrorReport, Note, PipelineReport, Report, Verdict};
use crate::{
    serve::files,
    ui::{visible, visible_below},
};

/// Indent of found, expected and next, and of their further lines.
const INDENT: usize = 14;

/// Writes the report; `source` is the text of the file.
pub(super) fn write(report: &Report, source: &str) -> String {
    let mut page = Page {
        text: String::new(),
        lines: source.lines().collect(),
    };
    page.report(report).expect("a text takes every text");
    page.text
}

struct Page<'a> {
    text: String,
    /// Lines of the file.
    lines: Vec<&'a str>,
}

impl Page<'_> {
    fn report(&mut self, report: &Report) -> fmt::Result {
        for pipeline in &report.pipelines {
            self.pipeline(pipeline)?;
        }
        if !report.warnings.is_empty() {
            writeln!(self.text, "the file:")?;
            for warning in &report.warnings {
                self.warning(warning)?;
            }
            writeln!(self.text)?;
        }
        match report.pipelines.len() {
            0 => writeln!(self.text, "no pipelines in the file")?,
            several @ 2.. if report.verdict() == Verdict::Ok => {
                writeln!(self.text, "{several} pipelines: no errors")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &PipelineReport) -> fmt::Result {
        let PipelineReport {
            name,
            verdict,
            errors,
            warnings,
            unchecked,
            ..
        } = pipeline;
        let (name, counts) = (visible(name), pipeline.counts());
        writeln!(self.text, "pipeline `{name}`: {counts}")?;
        for error in errors {
            self.error(error)?;
        }
        for warning in warnings {
            self.warning(warning)?;
        }
        if !unchecked.is_empty() {
            writeln!(self.text)?;
        }
        for not in unchecked {
            let node = visible(&not.node);
            write!(
                self.text,
                "  {}: not checked: node `{node}`: ",
                place(&not.at)
            )?;
            writeln!(self.text, "{}", visible_below(&not.reason, 4))?;
        }
        if *verdict != Verdict::Ok {
            writeln!(self.text)?;
        }
        Ok(())
    }

    fn error(&mut self, error: &ErrorReport) -> fmt::Result {
        let ErrorReport {
            at,
            rule,
            status,
            node,
            connection,
            found,
            expected,
            next,
        } = error;
        writeln!(self.text)?;
        writeln!(self.text, "  {}: {status} [rule {rule}]", place(at))?;
        self.quote(at)?;
        match (connection, node) {
            (Some(drawn), _) => writeln!(
                self.text,
                "    {} ──{}──▶ {}.{}",
                visible(&drawn.from),
                visible(&drawn.data_item),
                visible(&drawn.to),
                visible(&drawn.input)
            )?,
            (None, Some(node)) => writeln!(self.text, "    node      {}", visible(node))?,
            (None, None) => {}
        }
        let [found, expected, next] =
            [found, expected, next].map(|text| visible_below(text, INDENT));
        writeln!(self.text, "    found     {found}")?;
        writeln!(self.text, "    expected  {expected}")?;
        writeln!(self.text, "    next      {next}")
    }

    fn warning(&mut self, warning: &Note) -> fmt::Result {
        writeln!(self.text)?;
        let text = visible_below(&warning.text, 4);
        match &warning.at {
            Some(at) => {
                writeln!(self.text, "  {}: warning: {text}", place(at))?;
                self.quote(at)
            }
            None => writeln!(self.text, "  warning: {text}"),
        }
    }

    /// Quotes the line of a position.
    fn quote(&mut self, at: &At) -> fmt::Result {
        let Some(line) = self.lines.get(at.line.saturating_sub(1)) else {
            return Ok(());
        };
        let width = width(line, at.column);
        for line in files::quote(at.line, line, at.column, width) {
            writeln!(self.text, "      {}", line.trim_end())?;
        }
        Ok(())
    }
}

fn place(at: &At) -> String {
    visible(&at.to_string()).into_owned()
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
            ',' | '}' | ']' | ' ' if depth == 0 => return width.max(1),
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
            ("", 1),
        ] {
            assert_eq!(width(line, 1), expected, "{line}");
            assert_eq!(width(&format!("  {line}"), 3), expected, "{line}");
        }
    }
}
