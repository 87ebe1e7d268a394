//! Labels of connections and boxes, and their line breaks.

use super::escape::width;
use crate::pipeline::{PipelineNodeKind, TensorSource};

/// Label of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    /// The box that it comes from.
    pub(super) from: usize,
    /// The name of that box.
    pub(super) source: String,
    pub(super) item: String,
    pub(super) input: String,
    /// Type and shape; empty if they are not known.
    pub(super) tensor: String,
    /// Problem of it.
    pub(super) error: Option<&'static str>,
    /// Whether the name of the box that it comes from is shown.
    pub(super) is_named: bool,
    /// Whether no line is drawn for it, since there are too many beside each other.
    pub(super) is_skipped: bool,
}

/// How much room labels take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    /// A line for each.
    Wide,
    /// Type and shape on a line of their own.
    Narrow,
}

/// A part of a line of labels: whether it is type and shape, and the text.
pub(super) type Span = (bool, String);

/// Writes type and shape.
pub(super) fn tensor(tensor: &TensorSource) -> String {
    match tensor.dtype {
        Some(dtype) => format!("{dtype} {}", tensor.shape),
        None => format!("any type {}", tensor.shape),
    }
}

/// Writes what a node runs.
pub(super) fn kind(kind: &PipelineNodeKind) -> Option<String> {
    let visible = super::escape::visible;
    match kind {
        PipelineNodeKind::Entry | PipelineNodeKind::Exit => None,
        PipelineNodeKind::Model {
            name,
            version: None,
        } => Some(format!("model {}", visible(name))),
        PipelineNodeKind::Model {
            name,
            version: Some(version),
        } => Some(format!("model {}, version {version}", visible(name))),
        PipelineNodeKind::Custom { library, is_python } => {
            let what = if *is_python { "Python" } else { "custom" };
            Some(format!("{what} node {}", visible(library)))
        }
    }
}

/// Writes the labels of a box, each line at most so wide.
pub(super) fn lines(labels: &[Label], room: Room, most: usize) -> Vec<Vec<Span>> {
    let mut lines = Vec::new();
    for label in labels {
        lines.extend(label_lines(label, room, most));
    }
    lines
}

fn label_lines(label: &Label, room: Room, most: usize) -> Vec<Vec<Span>> {
    let named = label.is_named || label.is_skipped;
    let up = if label.is_skipped { "↑ " } else { "" };
    let item = if named {
        format!("{up}{}.{}", label.source, label.item)
    } else {
        label.item.clone()
    };
    let mut names = format!("{item} → {}", label.input);
    if let Some(error) = label.error {
        names = format!("{names} {error}");
    }
    let all = width(&names) + 2 + width(&label.tensor);
    if label.tensor.is_empty() && width(&names) <= most {
        return vec![vec![(false, names)]];
    }
    if room == Room::Wide && all <= most {
        return vec![vec![
            (false, names),
            (false, "  ".to_owned()),
            (true, label.tensor.clone()),
        ]];
    }
    let mut lines: Vec<Vec<Span>> = if width(&names) <= most {
        vec![vec![(false, names)]]
    } else {
        let mut parts = if named && width(&item) > most {
            vec![format!("{up}{}", label.source), format!(".{}", label.item)]
        } else {
            vec![item]
        };
        parts.push(format!("→ {}", label.input));
        parts.extend(label.error.map(str::to_owned));
        let parts = parts.iter().flat_map(|part| broken(part, most));
        parts.map(|part| vec![(false, part)]).collect()
    };
    if !label.tensor.is_empty() {
        let rest = broken(&label.tensor, most.saturating_sub(2).max(1));
        lines.extend(rest.map(|part| vec![(false, "  ".to_owned()), (true, part)]));
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
