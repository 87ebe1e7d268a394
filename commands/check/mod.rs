//! Results of the `check` commands: one text and one JSON document of findings about pipelines, graphs and
//! whole configurations.

pub(crate) mod interrupt;
pub(crate) mod report;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use ovms::diagnostic::{Diagnostic, FilePosition, FindingText, Severity};

use super::ui::{visible, visible_lines};

/// Writes a finding about a file with this text: what is wrong, its line with the place underlined, and
/// the fix.
pub(crate) fn show(found: &Diagnostic, source: &str) -> String {
    let level = match (found.severity, found.rule) {
        (Severity::Error, Some(_)) => Level::ERROR,
        // Those of the file itself stand below an error that says so.
        (Severity::Error, None) => Level::ERROR.no_name(),
        (Severity::Warning, _) => Level::WARNING,
        (Severity::Unchecked, _) => Level::NOTE,
    };
    let title = level.primary_title(visible_lines(&title(found)).into_owned());
    let mut group = match &found.place {
        Some(place) => {
            let file = found.file.as_deref().unwrap_or_default();
            let line = source.lines().nth(place.line.saturating_sub(1));
            let line = line.unwrap_or_default();
            let bytes = |count: usize| line.char_indices().nth(count).map_or(line.len(), |it| it.0);
            let start = place.column.saturating_sub(1);
            let meant = bytes(start)..bytes(start + place.width);
            let snippet = Snippet::source(line)
                .line_start(place.line)
                .path(visible(file))
                .annotation(AnnotationKind::Primary.span(meant));
            title.element(snippet)
        }
        None => Group::with_title(title),
    };
    for note in notes(found) {
        group = group.element(Level::NOTE.no_name().message(note));
    }
    if let Some(hint) = &found.hint {
        group = group.element(Level::HELP.message(&**hint));
    }
    visible_lines(&Renderer::plain().render(&[group])).into_owned() + "\n"
}

/// Returns the rule, or else what was found.
fn title(found: &Diagnostic) -> String {
    match (found.rule, &found.place) {
        (Some(rule), _) => format!("{} [rule {}]", rule.status, rule.number),
        (None, Some(FilePosition { path, .. }))
            if found.severity == Severity::Error && !path.is_empty() =>
        {
            format!("{path}: {}", found.message)
        }
        (None, _) => found.message.to_string(),
    }
}

/// Returns what it is about, and what was found against the rule.
fn notes(found: &Diagnostic) -> impl Iterator<Item = String> {
    let about = match (&found.connection, &found.node) {
        (Some(ends), _) => {
            let (from, item) = (visible(&ends.from), visible(&ends.data_item));
            let (to, input) = (visible(&ends.to), visible(&ends.input));
            Some(format!("{from} ──{item}──▶ {to}.{input}"))
        }
        // A name stays on its line.
        (None, Some(node)) => Some(format!("node `{}`", visible(node))),
        (None, None) => None,
    };
    let message = found.rule.map(|_| match &found.message {
        FindingText::Text(text) => text.clone(),
        FindingText::Mismatch { found, expected } => {
            format!("found     {found}\nexpected  {expected}")
        }
    });
    about.into_iter().chain(message)
}
