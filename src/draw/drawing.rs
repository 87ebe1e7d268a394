//! Boxes and links of a diagram with their texts, also for what is missing.

use super::{
    diagram::{Diagram, DiagramEdge, DiagramNode, DiagramNodeKind, EdgeSource, StreamKind},
    labels::Label,
};

/// Escaping of names for an output.
pub(super) type Escape = fn(&str) -> String;

/// Diagram as boxes and links with texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawing {
    /// Kind and name of the diagram.
    pub(super) title: String,
    /// Boxes: those of the nodes, in their order, and then those that stand for something else.
    pub(super) boxes: Vec<DrawnBox>,
    /// Pairs of boxes of which one is above the other, each once.
    pub(super) links: Vec<Link>,
    pub(super) levels: Vec<Frame>,
    /// Box below all others.
    pub(super) exit: usize,
}

/// Box.
#[derive(Debug, Clone)]
pub(super) struct DrawnBox {
    pub(super) look: Look,
    pub(super) lines: Vec<Span>,
    /// Levels that it stands in, outermost first.
    pub(super) levels: Vec<usize>,
    /// Incoming labels, in the order of the inputs.
    pub(super) labels: Vec<Label>,
}

/// Kind of box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Request and response.
    End,
    Model,
    Custom,
    /// Any other node.
    Other,
    /// A node that does not exist or cannot run, or that is further down.
    Ghost,
}

/// Text with its meaning.
pub(super) type Span = (Tone, String);

/// Meaning of a text, for its colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Name,
    Detail,
    Level,
    Error,
    /// Room for the time of a node, which a page fills in.
    Time,
}

/// Connection of two boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Frame around the boxes of a level.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) parent: Option<usize>,
    /// Titles, the longest first.
    pub(super) titles: [String; 2],
}

/// Part of a chart.
pub(super) enum ChartPart<'a> {
    /// A box, with its index.
    Box(usize, &'a DrawnBox),
    /// The begin of the group of a level, with its index and title.
    Open(usize, &'a str),
    /// The end of a group.
    Close,
}

/// Drawing of back edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackEdges {
    /// Arrows, for formats with a layout of their own.
    Arrows,
    /// Texts, and boxes that stand for the source.
    Boxes,
}

impl DrawnBox {
    /// Returns its lines as one text.
    pub(super) fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|(_, text)| text.as_str()).collect();
        lines.join("\n")
    }
}

impl Drawing {
    /// Draws a diagram.
    pub(super) fn new(diagram: &Diagram, escape: Escape, backs: BackEdges) -> Self {
        let boxes = diagram.nodes.iter().map(|node| DrawnBox {
            look: look(node),
            lines: lines(node, escape),
            levels: node.levels.clone(),
            labels: Vec::new(),
        });
        let levels = diagram.levels.iter().map(|level| {
            let (count, node) = (times(level.count), escape(&diagram.nodes[level.node].name));
            let titles = [
                format!(" × {count} parts of {node} "),
                format!(" × {count} "),
            ];
            let parent = level.parent;
            Frame { parent, titles }
        });
        let mut drawing = Self {
            // A kind is written as its variant.
            title: format!("{:?} {}", diagram.kind, escape(&diagram.name)),
            boxes: boxes.collect(),
            links: Vec::new(),
            levels: levels.collect(),
            exit: diagram.response(),
        };
        for edge in &diagram.edges {
            drawing.connect(diagram, edge, escape, backs);
        }
        drawing.straighten();
        drawing
    }

    /// Gives each node that runs a line of its own for its time.
    pub(super) fn with_times(mut self, diagram: &Diagram) -> Self {
        // As wide as `≈ 12.3 ms` and a little more.
        const ROOM: usize = 10;
        for (node, drawn) in diagram.nodes.iter().zip(&mut self.boxes) {
            let is_end = matches!(
                node.kind,
                DiagramNodeKind::Request | DiagramNodeKind::Response
            );
            if !is_end {
                drawn.lines.push((Tone::Time, " ".repeat(ROOM)));
            }
        }
        self
    }

    fn connect(&mut self, diagram: &Diagram, edge: &DiagramEdge, escape: Escape, backs: BackEdges) {
        let to = edge.to;
        let kind = edge.stream.as_ref().map(|stream| stream.kind);
        let item = escape(edge.item());
        let source = match &edge.from {
            EdgeSource::Node(from) => escape(&diagram.nodes[*from].name),
            EdgeSource::Missing(name) => escape(name),
            EdgeSource::Nobody => item.clone(),
        };
        let input = match edge.input.as_str() {
            "" => item.clone(),
            input => escape(input),
        };
        let mut is_back = kind == Some(StreamKind::BackEdge);
        let from = match edge.from {
            EdgeSource::Node(from) if is_back && backs == BackEdges::Boxes => {
                // One that feeds itself says so, which is clearer than a box beside it.
                if from == to {
                    let text = format!("back edge {item} → {input}");
                    self.boxes[to].lines.push((Tone::Level, text));
                    return;
                }
                is_back = false;
                self.stand_in(&source, "see below: a back edge", Look::Other, to)
            }
            EdgeSource::Node(from) => from,
            EdgeSource::Missing(_) => self.stand_in(&source, "missing", Look::Ghost, to),
            EdgeSource::Nobody => self.stand_in(&source, "nobody sends it", Look::Ghost, to),
        };
        if !is_back {
            self.link(from, to);
        }
        let mut content = diagram.content(edge);
        if kind == Some(StreamKind::SidePacket) {
            let comma = if content.is_empty() { "" } else { ", " };
            content = format!("side packet{comma}{content}");
        }
        self.boxes[to].labels.push(Label {
            from,
            source,
            item,
            input,
            content,
            error: edge.lacks_output().then_some("(no such output)"),
            is_side: kind == Some(StreamKind::SidePacket),
            is_back,
            is_named: false,
            is_skipped: false,
        });
    }

    fn link(&mut self, from: usize, to: usize) {
        let link = Link { from, to };
        if !self.links.contains(&link) {
            self.links.push(link);
        }
    }

    /// Returns a box beside another one that stands for its source.
    fn stand_in(&mut self, name: &str, why: &str, look: Look, to: usize) -> usize {
        let tone = match look {
            Look::Ghost => Tone::Error,
            _ => Tone::Level,
        };
        let lines = vec![(tone, name.to_owned()), (tone, why.to_owned())];
        let mut sources = self.boxes[to].labels.iter().map(|label| label.from);
        let known = sources.find(|from| self.boxes[*from].lines == lines);
        known.unwrap_or_else(|| {
            self.boxes.push(DrawnBox {
                look,
                lines,
                levels: self.boxes[to].levels.clone(),
                labels: Vec::new(),
            });
            self.boxes.len() - 1
        })
    }

    /// Returns whether nothing but side packets goes over a link.
    pub(super) fn is_dashed(&self, from: usize, to: usize) -> bool {
        let mut labels = self.labels(from, to).peekable();
        labels.peek().is_some() && labels.all(|label| label.is_side)
    }

    /// Describes what goes over a link, in a line for each label.
    pub(super) fn connections(&self, from: usize, to: usize) -> String {
        let target = &self.boxes[to].lines[0].1;
        let lines = self.labels(from, to).map(|label| {
            let (from, item, input) = (&label.source, &label.item, &label.input);
            format!("{from}.{item} → {target}.{input}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn labels(&self, from: usize, to: usize) -> impl Iterator<Item = &Label> {
        let labels = self.boxes[to].labels.iter();
        labels.filter(move |label| label.from == from)
    }

    /// Writes the boxes of a level and, as a group each, the levels within it.
    pub(super) fn groups(
        &self,
        level: Option<usize>,
        depth: usize,
        write: &mut dyn FnMut(usize, ChartPart<'_>),
    ) {
        for (index, node) in self.boxes.iter().enumerate() {
            if node.levels.last().copied() == level {
                write(depth, ChartPart::Box(index, node));
            }
        }
        for (index, frame) in self.levels.iter().enumerate() {
            let has_boxes = || self.boxes.iter().any(|it| it.levels.contains(&index));
            if frame.parent == level && has_boxes() {
                write(depth, ChartPart::Open(index, frame.titles[0].trim()));
                self.groups(Some(index), depth + 1, write);
                write(depth, ChartPart::Close);
            }
        }
    }

    /// Returns the labels with the boxes that they lead to; back edges come last.
    pub(super) fn arrows(&self) -> Vec<(usize, &Label)> {
        let boxes = self.boxes.iter().enumerate();
        let arrows = boxes.flat_map(|(to, node)| node.labels.iter().map(move |it| (to, it)));
        let mut arrows: Vec<(usize, &Label)> = arrows.collect();
        arrows.sort_by_key(|(_, label)| label.is_back);
        arrows
    }

    /// Returns the same with frames for so many levels within each other, the outermost; boxes show
    /// how many more they are within.
    pub(super) fn with_frames(&self, most: usize) -> Self {
        let mut flat = self.clone();
        for node in &mut flat.boxes {
            let more = node.levels.len().saturating_sub(most);
            node.levels.truncate(most);
            if more > 0 {
                let plural = if more == 1 { "" } else { "s" };
                let text = format!("within {more} level{plural} more");
                node.lines.push((Tone::Level, text));
            }
        }
        flat
    }

    /// Replaces each link that closes a cycle by one from a box that stands for its source.
    fn straighten(&mut self) {
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
        let name = self.boxes[link.from].lines[0].1.clone();
        let why = match link.from == link.to {
            true => "itself: a cycle",
            false => "see below: a cycle",
        };
        let from = self.stand_in(&name, why, Look::Ghost, link.to);
        self.link(from, link.to);
        for label in &mut self.boxes[link.to].labels {
            if label.from == link.from && !label.is_back {
                label.from = from;
            }
        }
    }
}

fn look(node: &DiagramNode) -> Look {
    match &node.kind {
        _ if node.missing.is_some() => Look::Ghost,
        DiagramNodeKind::Request | DiagramNodeKind::Response => Look::End,
        DiagramNodeKind::Model { .. } => Look::Model,
        DiagramNodeKind::Custom { .. } | DiagramNodeKind::Python { .. } => Look::Custom,
        DiagramNodeKind::Calculator { calculator, .. } => match calculator.as_str() {
            "PythonExecutorCalculator" => Look::Custom,
            name if name.starts_with("OpenVINO") => Look::Model,
            _ => Look::Other,
        },
    }
}

fn lines(node: &DiagramNode, escape: Escape) -> Vec<Span> {
    let missing: Vec<String> = node.missing.iter().map(|it| it.short.to_owned()).collect();
    let texts = [
        (Tone::Name, vec![escape(&node.name)]),
        (Tone::Detail, runs(node, escape)),
        (Tone::Error, missing),
        (Tone::Level, parts(node, escape)),
    ];
    let lines = texts.into_iter();
    let lines = lines.flat_map(|(tone, texts)| texts.into_iter().map(move |text| (tone, text)));
    let mut lines: Vec<Span> = lines.collect();
    // What the edges show is not said twice.
    let ports = match node.kind {
        DiagramNodeKind::Request if node.splits.is_some() => &node.outputs,
        DiagramNodeKind::Response if !node.gathers.is_empty() => &node.inputs,
        _ => return lines,
    };
    for port in ports {
        if let Some(tensor) = port.tensor.as_ref().filter(|it| it.shape.is_some()) {
            let text = format!("{}  {tensor}", escape(&port.name));
            lines.push((Tone::Detail, text));
        }
    }
    lines
}

/// Describes what a node runs.
pub(super) fn runs(node: &DiagramNode, escape: Escape) -> Vec<String> {
    match &node.kind {
        DiagramNodeKind::Request | DiagramNodeKind::Response => Vec::new(),
        DiagramNodeKind::Model { model, version } => {
            let version = version.map(|version| format!(", version {version}"));
            vec![format!("model {}", escape(model)) + &version.unwrap_or_default()]
        }
        DiagramNodeKind::Custom { library } => vec![format!("custom node {}", escape(library))],
        DiagramNodeKind::Python { library } => vec![format!("Python node {}", escape(library))],
        DiagramNodeKind::Calculator {
            calculator,
            handler_path,
            servable,
            ..
        } => {
            // A node without a name has that of its calculator, numbered if there are several.
            let is_digit = |digit: char| digit.is_ascii_digit();
            let number = node.name.strip_prefix(calculator.as_str());
            let is_its = number.is_some_and(|it| it.trim_start_matches('_').chars().all(is_digit));
            let calculator = (!is_its).then(|| escape(calculator));
            let handler = handler_path.as_deref().map(escape);
            let servable = servable.as_ref().map(|name| format!("of {}", escape(name)));
            [calculator, handler, servable]
                .into_iter()
                .flatten()
                .collect()
        }
    }
}

/// Describes how a node splits, gathers, and synchronizes what it takes and gives.
pub(super) fn parts(node: &DiagramNode, escape: Escape) -> Vec<String> {
    let handler = match &node.kind {
        DiagramNodeKind::Calculator {
            input_stream_handler,
            ..
        } => input_stream_handler.as_deref(),
        _ => None,
    };
    let gathers = node
        .gathers
        .iter()
        .map(|name| format!("gathers {}", escape(name)));
    let splits = node
        .splits
        .map(|count| format!("splits × {}", times(count)));
    let inputs = handler.map(|name| {
        let short = name.strip_suffix("InputStreamHandler").unwrap_or(name);
        format!("inputs: {}", escape(short))
    });
    gathers.chain(splits).chain(inputs).collect()
}

/// Formats a number of parts: `N` if it depends on the request.
pub(super) fn times(count: i32) -> String {
    match count {
        -1 => "N".to_owned(),
        count => count.to_string(),
    }
}
