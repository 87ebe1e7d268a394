//! Routes of lines between two rows: each net, which is sources that have the same targets, has one
//! horizontal line at most.

use super::{
    layers::{Layers, What},
    place::Columns,
};

/// The lines between two rows.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) nets: Vec<Net>,
    /// Height in lines.
    pub(super) tracks: usize,
}

/// Sources that have the same targets.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) sources: Vec<usize>,
    pub(super) targets: Vec<usize>,
    /// The columns in which lines leave the sources.
    pub(super) from: Vec<usize>,
    /// The columns in which lines reach the targets.
    pub(super) to: Vec<usize>,
    /// Line of the channel that it has; `None` if it goes straight down.
    pub(super) track: Option<usize>,
}

impl Net {
    fn span(&self) -> (usize, usize) {
        let columns = || self.from.iter().chain(&self.to).copied();
        (columns().min().unwrap_or(0), columns().max().unwrap_or(0))
    }

    fn has(&self, column: usize) -> bool {
        let (low, high) = self.span();
        low <= column && column <= high
    }

    /// Counts the crossings of two nets if this one is above the other.
    fn crossings(&self, below: &Self) -> usize {
        let from = below.from.iter().filter(|column| self.has(**column));
        let to = self.to.iter().filter(|column| below.has(**column));
        from.count() + to.count()
    }
}

/// Finds the lines below a row.
pub(super) fn channel(layers: &Layers, columns: &Columns, row: usize) -> Channel {
    let mut nets: Vec<Net> = Vec::new();
    for &item in &layers.rows[row].items {
        let mut targets = layers.items[item].below.clone();
        targets.sort_unstable();
        if targets.is_empty() {
            continue;
        }
        match nets.iter_mut().find(|net| net.targets == targets) {
            Some(net) => net.sources.push(item),
            None => nets.push(Net {
                sources: vec![item],
                to: targets.iter().map(|to| columns.line[*to]).collect(),
                targets,
                from: Vec::new(),
                track: None,
            }),
        }
    }
    for net in &mut nets {
        let port = |item: &usize| port(layers, columns, row, *item, net);
        net.from = net.sources.iter().map(port).collect();
    }
    let tracks = tracks(columns, &mut nets);
    Channel { nets, tracks }
}

/// Returns the column in which the line of a source leaves it: straight above the target if that
/// is possible, and never above a target of others, which it would seem to lead to.
fn port(layers: &Layers, columns: &Columns, row: usize, item: usize, net: &Net) -> usize {
    let line = columns.line[item];
    let it = &layers.items[item];
    if let What::Pass(_) = it.what {
        return line;
    }
    let first = (line + 1).saturating_sub(it.cell.left);
    let last = (line + it.cell.width).saturating_sub(it.cell.left + 2);
    let alone = net.to.len() == 1 && net.sources.len() == 1;
    let straight = alone.then(|| net.to[0]);
    let near = (0..it.cell.width).flat_map(|by| [line.checked_sub(by), Some(line + by)]);
    let fits = |column: &usize| {
        let below = layers.rows[row + 1].items.iter();
        let mut below = below.filter(|target| columns.line[**target] == *column);
        (first..=last).contains(column)
            && below.all(|target| {
                let sources = &layers.items[*target].above;
                let mut others = sources.iter().filter(|item| !net.sources.contains(item));
                // Others that also lead elsewhere would seem to take this line with them.
                others
                    .all(|other| net.targets == [*target] && layers.items[*other].below.len() == 1)
            })
    };
    let mut ports = straight.into_iter().chain(near.flatten());
    ports.find(fits).unwrap_or(line)
}

/// Gives each net that does not go straight down a line of the channel, so that few cross.
fn tracks(columns: &Columns, nets: &mut [Net]) -> usize {
    let bent = |net: &Net| net.span().0 != net.span().1;
    let mut order: Vec<usize> = (0..nets.len()).filter(|net| bent(&nets[*net])).collect();
    // The line of a source ends above that of a target in the same column that is not its own.
    let above = |a: &Net, b: &Net| {
        a.from.iter().any(|column| {
            let own = a.to.contains(column);
            let mut others = b.targets.iter();
            !own && others.any(|target| columns.line[*target] == *column)
        })
    };
    for _ in 0..order.len() {
        for at in 1..order.len() {
            let (a, b) = (order[at - 1], order[at]);
            let (a, b) = (&nets[a], &nets[b]);
            let shared = a.targets.iter().any(|target| b.targets.contains(target));
            let single = |net: &Net| net.targets.len() == 1;
            let wrong = match (above(a, b), above(b, a)) {
                (a, b) if a != b => b,
                // A line that comes in from below leads nowhere else.
                _ if shared && single(a) != single(b) => single(a),
                _ => a.crossings(b) > b.crossings(a),
            };
            if wrong {
                order.swap(at - 1, at);
            }
        }
    }
    let mut count = 0;
    for at in 0..order.len() {
        let net = order[at];
        let (low, high) = nets[net].span();
        let mut track = 0;
        for &before in &order[..at] {
            let (other_low, other_high) = nets[before].span();
            let apart = other_high + 1 < low || high + 1 < other_low;
            if let Some(taken) = nets[before].track
                && (!apart || above(&nets[before], &nets[net]))
            {
                track = track.max(taken + 1);
            }
        }
        nets[net].track = Some(track);
        count = count.max(track + 1);
    }
    count
}
