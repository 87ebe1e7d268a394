//! Diagram in columns and lines, for whatever draws it.

use super::{
    drawing::{Drawing, Link, Look, Span, Tone},
    escape::width,
    layers::{Layers, What, common},
    order::order,
    place::{Columns, place},
    route::{Channel, channel},
};

/// Diagram.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Its boxes and links as they were laid out.
    pub(super) drawing: Drawing,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) boxes: Vec<SceneBox>,
    pub(super) texts: Vec<SceneText>,
    pub(super) frames: Vec<SceneFrame>,
    /// Lines that go down: column, first and last line.
    pub(super) downs: Vec<(usize, usize, usize)>,
    pub(super) acrosses: Vec<Across>,
    /// The heads of arrows: column and line.
    pub(super) heads: Vec<(usize, usize)>,
    /// The way of each link.
    pub(super) routes: Vec<Route>,
}

/// A box: the column and line of its corner, and its size with the border.
#[derive(Debug)]
pub(super) struct SceneBox {
    pub(super) node: usize,
    pub(super) look: Look,
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) lines: Vec<Span>,
}

/// A text beside an arrow.
#[derive(Debug)]
pub(super) struct SceneText {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// The frame of a level.
#[derive(Debug)]
pub(super) struct SceneFrame {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) top: usize,
    pub(super) bottom: usize,
    /// Column of its title in the upper side.
    pub(super) title_x: usize,
    pub(super) title: String,
}

/// A line from left to right.
#[derive(Debug)]
pub(super) struct Across {
    pub(super) y: usize,
    pub(super) left: usize,
    pub(super) right: usize,
    /// The columns in which it meets lines that go down; it crosses all others.
    pub(super) joints: Vec<usize>,
}

/// The way of a link, from corner to corner.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) points: Vec<(usize, usize)>,
}

/// Vertical positions of a row.
#[derive(Debug, Clone, Copy)]
struct Heights {
    /// The first line of the channel above it.
    channel: usize,
    /// The first line of its labels.
    labels: usize,
    boxes: usize,
    /// Its last line.
    end: usize,
}

impl Scene {
    /// Lays out what is drawn in at most so many columns.
    pub(super) fn new(mut drawing: Drawing, most: usize) -> Self {
        let mut layers = Layers::new(&mut drawing, most);
        order(&mut layers);
        let titles = drawing.levels.iter().map(|level| {
            let [long, short] = level.titles.each_ref().map(|title| width(title) + 4);
            if long + 8 <= most { long } else { short }
        });
        let titles: Vec<usize> = titles.collect();
        let columns = place(&layers, &titles, most);
        let above = 0..layers.rows.len().saturating_sub(1);
        let channels = above.map(|row| channel(&layers, &columns, row));
        let channels: Vec<Channel> = channels.collect();
        let mut frames = vec![(usize::MAX, 0); drawing.levels.len()];
        let mut scene = Self {
            drawing,
            width: columns.width,
            ..Self::default()
        };
        let heights = scene.heights(&layers, &channels, &mut frames);
        for (row, heights) in heights.iter().enumerate() {
            for &item in &layers.rows[row].items {
                scene.item(&layers, &columns, item, *heights);
            }
        }
        for (row, channel) in channels.iter().enumerate() {
            scene.channel(&layers, channel, [heights[row], heights[row + 1]]);
        }
        for (level, (top, bottom)) in frames.into_iter().enumerate() {
            if let Some((left, right)) = columns.frames[level] {
                scene.frame(level, (left, right), (top, bottom));
            }
        }
        scene.routes(&layers, &columns, &channels, &heights);
        scene
    }

    /// Finds the lines of every row and of the frames.
    fn heights(
        &mut self,
        layers: &Layers,
        channels: &[Channel],
        frames: &mut [(usize, usize)],
    ) -> Vec<Heights> {
        let mut heights = Vec::with_capacity(layers.rows.len());
        let mut y = 0;
        let mut open: &[usize] = &[];
        for (row, layer) in layers.rows.iter().enumerate() {
            let start = y;
            let common = common(open, &layer.levels);
            for level in open[common..].iter().rev() {
                frames[*level].1 = y;
                y += 1;
            }
            let channel = y;
            y += row.checked_sub(1).map_or(0, |above| channels[above].tracks);
            for level in &layer.levels[common..] {
                frames[*level].0 = y;
                y += 1;
            }
            open = &layer.levels;
            let items = || layer.items.iter().map(|item| &layers.items[*item]);
            let labels = items().map(|item| item.cell.labels.len()).max();
            let reached = items().any(|item| !item.above.is_empty());
            let least = match (reached, start == y) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 2,
            };
            let labels = labels.unwrap_or(0).max(least);
            let boxes = items().map(|item| item.cell.lines.len() + 2).max();
            heights.push(Heights {
                channel,
                labels: y,
                boxes: y + labels,
                end: y + labels + boxes.unwrap_or(2) - 1,
            });
            y += labels + boxes.unwrap_or(2);
        }
        for level in open.iter().rev() {
            frames[*level].1 = y;
            y += 1;
        }
        self.height = y;
        heights
    }

    fn item(&mut self, layers: &Layers, columns: &Columns, item: usize, heights: Heights) {
        let (line, it) = (columns.line[item], &layers.items[item]);
        let What::Box(node) = it.what else {
            self.downs.push((line, heights.labels, heights.end));
            return;
        };
        self.boxes.push(SceneBox {
            node,
            look: self.drawing.boxes[node].look,
            x: line.saturating_sub(it.cell.left),
            y: heights.boxes,
            width: it.cell.width,
            height: it.cell.lines.len() + 2,
            lines: it.cell.lines.clone(),
        });
        if !it.above.is_empty() {
            self.heads.push((line, heights.boxes - 1));
        }
        let first = heights.boxes - it.cell.labels.len();
        for (index, spans) in it.cell.labels.iter().enumerate() {
            let (mut x, y) = (line + 2, first + index);
            for (tone, text) in spans {
                self.texts.push(SceneText {
                    x,
                    y,
                    tone: *tone,
                    text: text.clone(),
                });
                x += width(text);
            }
        }
    }

    fn channel(&mut self, layers: &Layers, channel: &Channel, [above, below]: [Heights; 2]) {
        for net in &channel.nets {
            let y = net.track.map(|track| below.channel + track);
            for (item, column) in net.sources.iter().zip(&net.from) {
                let (start, end) = (bottom(layers, *item, above), y.unwrap_or(below.labels));
                self.downs.push((*column, start, end));
            }
            for (item, column) in net.targets.iter().zip(&net.to) {
                let end = match layers.items[*item].what {
                    What::Box(_) => below.boxes - 1,
                    What::Pass(_) => below.labels,
                };
                self.downs.push((*column, y.unwrap_or(below.labels), end));
            }
            if let Some(y) = y {
                let columns = || net.from.iter().chain(&net.to).copied();
                self.acrosses.push(Across {
                    y,
                    left: columns().min().unwrap_or(0),
                    right: columns().max().unwrap_or(0),
                    joints: columns().collect(),
                });
            }
        }
    }

    /// Adds a frame, with the longest title that fits between the lines that cross its upper side.
    fn frame(
        &mut self,
        level: usize,
        (left, right): (usize, usize),
        (top, bottom): (usize, usize),
    ) {
        let titles = &self.drawing.levels[level].titles;
        let downs = self.downs.iter();
        let crossed = downs.filter(|(_, first, last)| *first <= top && top <= *last);
        let crossed: Vec<usize> = crossed.map(|down| down.0).collect();
        let free = |title: &String| {
            let last = right.checked_sub(width(title) + 1)?;
            let mut places = left + 2..=last;
            places.find(|x| {
                let end = x + width(title);
                !crossed.iter().any(|column| (x - 1..=end).contains(column))
            })
        };
        let fitting = titles.iter().find_map(|title| Some((free(title)?, title)));
        let fallback = || titles.last().map(|title| (left + 1, title));
        if let Some((title_x, title)) = fitting.or_else(fallback) {
            self.frames.push(SceneFrame {
                left,
                right,
                top,
                bottom,
                title_x,
                title: title.clone(),
            });
        }
    }

    fn routes(
        &mut self,
        layers: &Layers,
        columns: &Columns,
        channels: &[Channel],
        heights: &[Heights],
    ) {
        let mut row_of = vec![0; layers.items.len()];
        for (row, layer) in layers.rows.iter().enumerate() {
            for &item in &layer.items {
                row_of[item] = row;
            }
        }
        for (link, chain) in &layers.chains {
            let mut points = Vec::new();
            for pair in chain.windows(2) {
                let row = row_of[pair[0]];
                let mut nets = channels[row].nets.iter();
                let net = nets.find(|net| net.sources.contains(&pair[0]));
                let Some(net) = net else { continue };
                let sources = net.sources.iter().zip(&net.from);
                let port = sources.filter(|source| *source.0 == pair[0]).map(|it| it.1);
                let from = port.copied().next().unwrap_or(columns.line[pair[0]]);
                let to = columns.line[pair[1]];
                points.push((from, bottom(layers, pair[0], heights[row])));
                if let Some(track) = net.track {
                    let y = heights[row + 1].channel + track;
                    points.extend([(from, y), (to, y)]);
                }
                points.push((to, heights[row + 1].boxes - 1));
            }
            points.dedup();
            let Link { from, to } = *link;
            self.routes.push(Route { from, to, points });
        }
    }
}

/// Returns the last line of an item.
fn bottom(layers: &Layers, item: usize, heights: Heights) -> usize {
    let it = &layers.items[item];
    match it.what {
        What::Box(_) => heights.boxes + it.cell.lines.len() + 1,
        What::Pass(_) => heights.end,
    }
}
