//! Graphs to draw: boxes and links, including missing ones.

use std::collections::HashMap;

use super::{
    escape::visible,
    labels::{Label, kind, tensor},
};
use crate::pipeline::{Count, PipelineNodeKind, PipelineOutline};

/// Graph to draw.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    /// Those of the nodes, in their order, and then those that stand for something else.
    pub(super) boxes: Vec<Node>,
    /// Which box is above which, each pair once.
    pub(super) links: Vec<Link>,
    pub(super) levels: Vec<Frame>,
    /// The box that stands below all others.
    pub(super) exit: usize,
}

/// A box.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) look: Look,
    pub(super) lines: Vec<Line>,
    /// The levels that it stands in, outermost first.
    pub(super) levels: Vec<usize>,
    /// Incoming labels, in the order of the inputs.
    pub(super) labels: Vec<Label>,
}

/// Kind of box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Entry and exit.
    End,
    Model,
    Custom,
    /// Any other node.
    Other,
    /// A node that is not there or cannot run, or that is further down.
    Ghost,
}

/// Drawing with its surroundings.
#[derive(Debug, Clone)]
pub(super) struct Drawing {
    /// Kind of diagram: `Pipeline`, `Graph`.
    pub(super) what: &'static str,
    /// Its name.
    pub(super) name: String,
    pub(super) graph: Graph,
    /// Texts of links: from, to, text.
    pub(super) reported: Vec<(usize, usize, String)>,
    /// Links that carry nothing while requests run.
    pub(super) dashed: Vec<Link>,
    /// Links that go back, which the graph has not: from, to, text.
    pub(super) backs: Vec<(usize, usize, String)>,
}

impl Drawing {
    /// Makes the drawing of a pipeline.
    pub(super) fn new(outline: &PipelineOutline) -> Self {
        let reported = outline.edges.iter().map(|edge| {
            let names = [&outline.nodes[edge.from].name, &edge.item];
            let target = [&outline.nodes[edge.to].name, &edge.input];
            let text = format!("{}.{} → {}.{}", names[0], names[1], target[0], target[1]);
            (edge.from, edge.to, text)
        });
        Self {
            what: "Pipeline",
            name: outline.name.clone(),
            graph: Graph::new(outline),
            reported: reported.collect(),
            dashed: Vec::new(),
            backs: Vec::new(),
        }
    }
}

/// A line of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// Meaning of a text, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Name,
    Detail,
    Level,
    Error,
}

/// A connection of two boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A frame around the boxes of a level.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) parent: Option<usize>,
    /// Titles, the longest first.
    pub(super) titles: [String; 2],
}

impl Graph {
    /// Makes boxes and links of an outline.
    pub(super) fn new(outline: &PipelineOutline) -> Self {
        let boxes = (0..outline.nodes.len()).map(|node| Node {
            look: match outline.nodes[node].kind {
                _ if outline.nodes[node].missing.is_some() => Look::Ghost,
                PipelineNodeKind::Entry | PipelineNodeKind::Exit => Look::End,
                PipelineNodeKind::Model { .. } => Look::Model,
                PipelineNodeKind::Custom { .. } => Look::Custom,
            },
            lines: lines(outline, node),
            levels: outline.nodes[node].levels.clone(),
            labels: Vec::new(),
        });
        let levels = outline.levels.iter().map(|level| Frame {
            parent: level.parent,
            titles: titles(level.count, &outline.nodes[level.node].name),
        });
        let mut graph = Self {
            boxes: boxes.collect(),
            links: Vec::new(),
            levels: levels.collect(),
            exit: outline.exit(),
        };
        graph.edges(outline);
        graph.dangling(outline);
        graph.straighten();
        graph
    }

    /// Returns the same with frames for so many levels within each other, the outermost; boxes tell
    /// how many more they are within.
    pub(super) fn with_frames(&self, most: usize) -> Self {
        let mut flat = self.clone();
        for node in &mut flat.boxes {
            let more = node.levels.len().saturating_sub(most);
            if more > 0 {
                let plural = if more == 1 { "" } else { "s" };
                node.levels.truncate(most);
                node.lines.push(Line {
                    text: format!("within {more} level{plural} more"),
                    tone: Tone::Level,
                });
            }
        }
        flat
    }

    fn edges(&mut self, outline: &PipelineOutline) {
        for edge in &outline.edges {
            let (from, to) = (edge.from, edge.to);
            let is_open = outline.is_open(from) || outline.is_open(to);
            let link = Link { from, to };
            if !self.links.contains(&link) {
                self.links.push(link);
            }
            self.boxes[to].labels.push(Label {
                from,
                source: visible(&outline.nodes[from].name),
                item: visible(&edge.item),
                input: visible(&edge.input),
                tensor: match &edge.tensor {
                    Some(known) => tensor(known),
                    None if is_open && edge.is_there => "any type".to_owned(),
                    None => String::new(),
                },
                error: (!edge.is_there).then_some("(no such output)"),
                is_named: false,
                is_skipped: false,
            });
        }
    }

    /// Adds a box for each source that is not there, beside each node that wants it.
    fn dangling(&mut self, outline: &PipelineOutline) {
        let mut ghosts = HashMap::new();
        for dangling in &outline.dangling {
            let to = dangling.to;
            let source = visible(&dangling.source);
            let known = ghosts.entry((to, &dangling.source));
            let from = *known.or_insert_with(|| {
                self.ghost(&source, "missing", to);
                self.boxes.len() - 1
            });
            self.boxes[to].labels.push(Label {
                from,
                source,
                item: visible(&dangling.item),
                input: visible(&dangling.input),
                tensor: String::new(),
                error: None,
                is_named: false,
                is_skipped: false,
            });
        }
    }

    fn ghost(&mut self, name: &str, why: &str, to: usize) {
        let line = |text: &str, tone| Line {
            text: text.to_owned(),
            tone,
        };
        let from = self.boxes.len();
        self.boxes.push(Node {
            look: Look::Ghost,
            lines: vec![line(name, Tone::Error), line(why, Tone::Error)],
            levels: self.boxes[to].levels.clone(),
            labels: Vec::new(),
        });
        self.links.push(Link { from, to });
    }

    /// Replaces each link that closes a cycle by one from a box that stands for its source.
    pub(super) fn straighten(&mut self) {
        let mut consumers = vec![Vec::new(); self.boxes.len()];
        for link in &self.links {
            consumers[link.from].push(link.to);
        }
        // Depth first; a link to a node that is still open goes back.
        let (mut open, mut done) = (vec![false; consumers.len()], vec![false; consumers.len()]);
        let mut back = Vec::new();
        for start in 0..consumers.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.pop() {
                if done[node] {
                    continue;
                }
                open[node] = true;
                match consumers[node].get(next) {
                    None => (open[node], done[node]) = (false, true),
                    Some(&to) => {
                        path.push((node, next + 1));
                        if open[to] {
                            back.push(Link { from: node, to });
                        } else if !done[to] {
                            path.push((to, 0));
                        }
                    }
                }
            }
        }
        for link in back {
            self.detach(link);
        }
    }

    /// Replaces a link by one from a box that stands for its source.
    pub(super) fn detach(&mut self, link: Link) {
        self.links.retain(|other| *other != link);
        let name = self.boxes[link.from].lines[0].text.clone();
        let from = self.boxes.len();
        let why = if link.from == link.to {
            "itself: a cycle"
        } else {
            "see below: a cycle"
        };
        self.ghost(&name, why, link.to);
        for label in &mut self.boxes[link.to].labels {
            if label.from == link.from {
                label.from = from;
            }
        }
    }
}

fn lines(outline: &PipelineOutline, index: usize) -> Vec<Line> {
    let node = &outline.nodes[index];
    let mut lines = vec![Line {
        text: visible(&node.name),
        tone: Tone::Name,
    }];
    if let Some(text) = kind(&node.kind) {
        lines.push(Line {
            text,
            tone: Tone::Detail,
        });
    }
    if let Some(missing) = &node.missing {
        lines.push(Line {
            text: missing.short.to_owned(),
            tone: Tone::Error,
        });
    }
    for name in &node.gathers {
        lines.push(Line {
            text: format!("gathers {}", visible(name)),
            tone: Tone::Level,
        });
    }
    if let Some(count) = node.opens {
        lines.push(Line {
            text: format!("splits × {}", times(count)),
            tone: Tone::Level,
        });
    }
    // What the connections show is not said twice.
    let ports = match node.kind {
        PipelineNodeKind::Entry if node.opens.is_some() => &node.outputs,
        PipelineNodeKind::Exit if !node.gathers.is_empty() => &node.inputs,
        _ => return lines,
    };
    for port in ports {
        if let Some(known) = &port.tensor {
            lines.push(Line {
                text: format!("{}  {}", visible(&port.name), tensor(known)),
                tone: Tone::Detail,
            });
        }
    }
    lines
}

/// Writes a count for people: `N` if it depends on the request.
pub(super) fn times(count: Count) -> String {
    match count {
        Count::Fixed(count) => count.to_string(),
        Count::Dynamic => "N".to_owned(),
    }
}

fn titles(count: Count, node: &str) -> [String; 2] {
    let count = times(count);
    [
        format!(" × {count} parts of {} ", visible(node)),
        format!(" × {count} "),
    ]
}
