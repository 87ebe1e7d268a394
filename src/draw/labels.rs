//! Labels of connections and boxes, and their line breaks.

use super::{
    drawing::{Span, Tone},
    escape::width,
};

/// Label of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    /// The box that it comes from.
    pub(super) from: usize,
    /// The name of that box.
    pub(super) source: String,
    pub(super) item: String,
    pub(super) input: String,
    /// Description of what goes over it; empty if that is unknown.
    pub(super) content: String,
    /// Problem of it.
    pub(super) error: Option<&'static str>,
    /// Marks a connection that carries nothing while requests run.
    pub(super) is_side: bool,
    /// Marks a back edge, for which the layout has no link.
    pub(super) is_back: bool,
    /// Shows the name of the box that it comes from.
    pub(super) is_named: bool,
    /// Marks a connection drawn without a line, since there are too many beside each other.
    pub(super) is_skipped: bool,
}

impl Label {
    /// Returns its text, with what goes over the connection on a line of its own.
    pub(super) fn text(&self) -> String {
        let more = match self.is_back {
            true => ["back edge", ""],
            false => [self.error.unwrap_or_default(), &self.content],
        };
        let mut text = format!("{} → {}", self.item, self.input);
        for more in more.into_iter().filter(|more| !more.is_empty()) {
            text.extend(["\n", more]);
        }
        text
    }
}

/// Room that labels take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    /// A line for each.
    Wide,
    /// The content on a line of its own.
    Narrow,
}

/// Writes the labels of a box, each line at most so wide.
pub(super) fn lines(labels: &[Label], room: Room, most: usize) -> Vec<Vec<Span>> {
    let lines = |label| label_lines(label, room, most);
    labels.iter().flat_map(lines).collect()
}

fn label_lines(label: &Label, room: Room, most: usize) -> Vec<Vec<Span>> {
    let plain = |text: String| (Tone::Plain, text);
    let blank = || plain("  ".to_owned());
    let named = label.is_named || label.is_skipped;
    let up = if label.is_skipped { "↑ " } else { "" };
    let item = match named {
        true => format!("{up}{}.{}", label.source, label.item),
        false => label.item.clone(),
    };
    let error = label.error.map(|error| format!(" {error}"));
    let names = format!("{item} → {}{}", label.input, error.unwrap_or_default());
    let all = width(&names) + 2 + width(&label.content);
    if label.content.is_empty() && width(&names) <= most {
        return vec![vec![plain(names)]];
    }
    if room == Room::Wide && all <= most {
        let content = (Tone::Detail, label.content.clone());
        return vec![vec![plain(names), blank(), content]];
    }
    let mut lines: Vec<Vec<Span>> = if width(&names) <= most {
        vec![vec![plain(names)]]
    } else {
        let mut parts = if named && width(&item) > most {
            vec![format!("{up}{}", label.source), format!(".{}", label.item)]
        } else {
            vec![item]
        };
        parts.push(format!("→ {}", label.input));
        parts.extend(label.error.map(str::to_owned));
        let parts = parts.iter().flat_map(|part| broken(part, most));
        parts.map(|part| vec![plain(part)]).collect()
    };
    if !label.content.is_empty() {
        let rest = broken(&label.content, most.saturating_sub(2).max(1));
        lines.extend(rest.map(|part| vec![blank(), (Tone::Detail, part)]));
    }
    lines
}

/// Breaks a text into lines of at most so many columns, and loses nothing of it.
pub(super) fn broken(text: &str, most: usize) -> impl Iterator<Item = String> + use<> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for character in text.chars() {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        if used + wide > most && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push(character);
        }
        used += wide;
    }
    lines.into_iter()
}
