//! Cost curves: figures along one quantity that grows, a line through them, and their table.

use super::row::Unit;

/// Name of the block with date and machine.
pub(crate) const HEAD: &str = "curves";

/// Specification of a curve.
#[derive(Debug)]
pub(crate) struct Curve {
    /// Name of its block.
    pub(crate) name: &'static str,
    /// Title of the quantity that grows.
    pub(crate) title: &'static str,
    /// Values of that quantity.
    pub(crate) points: &'static [u64],
    /// Number of them that a quick run measures.
    pub(crate) quick: usize,
    pub(crate) columns: &'static [Column],
    /// Index of the column that is drawn.
    pub(crate) drawn: usize,
    /// Quantity that slopes are given for, and its name.
    pub(crate) each: (f64, &'static str),
}

/// A figure of each point.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    /// Indicates that a line is fitted.
    pub(crate) is_line: bool,
}

const fn figure(title: &'static str, unit: Unit) -> Column {
    Column {
        title,
        unit,
        is_line: false,
    }
}

const fn line(title: &'static str, unit: Unit) -> Column {
    Column {
        title,
        unit,
        is_line: true,
    }
}

/// Every curve.
pub(crate) static CURVES: [Curve; 5] = [
    Curve {
        name: "curve-connections",
        title: "connections",
        points: &[1, 2, 4, 16, 64, 256, 1000],
        quick: 4,
        columns: &[
            figure("requests/s", Unit::PerSecond),
            line("p50", Unit::Micros),
            figure("p99", Unit::Micros),
            figure("CPU a request", Unit::Micros),
            line("memory", Unit::Megabytes),
        ],
        drawn: 1,
        each: (1.0, "connection"),
    },
    Curve {
        name: "curve-bytes",
        title: "bytes",
        points: &[
            40, 400, 4_000, 40_000, 400_000, 4_000_000, 16_000_000, 64_000_000,
        ],
        quick: 4,
        columns: &[
            line("gRPC p50", Unit::Micros),
            figure("CPU a request", Unit::Micros),
            line("REST binary p50", Unit::Micros),
            line("JSON p50", Unit::Micros),
            line("peak memory", Unit::Megabytes),
        ],
        drawn: 0,
        each: (1e6, "MB"),
    },
    Curve {
        name: "curve-models",
        title: "models",
        points: &[1, 3, 10, 30, 100, 300, 1000],
        quick: 3,
        columns: &[
            line("start", Unit::Seconds),
            line("memory", Unit::Megabytes),
            figure("p50", Unit::Micros),
            figure("CPU a request", Unit::Micros),
        ],
        drawn: 1,
        each: (1.0, "model"),
    },
    Curve {
        name: "curve-sequences",
        title: "sequences",
        points: &[1, 10, 100, 1_000, 10_000, 100_000],
        quick: 4,
        columns: &[
            line("memory", Unit::Megabytes),
            figure("p50 of a step", Unit::Micros),
            figure("CPU a step", Unit::Micros),
            figure("steps/s", Unit::PerSecond),
        ],
        drawn: 0,
        each: (1.0, "sequence"),
    },
    Curve {
        name: "curve-nodes",
        title: "nodes",
        points: &[1, 2, 5, 10, 20, 50, 100, 200],
        quick: 3,
        columns: &[
            line("p50", Unit::Micros),
            line("CPU a request", Unit::Micros),
            figure("requests/s, 16 clients", Unit::PerSecond),
            line("memory", Unit::Megabytes),
        ],
        drawn: 0,
        each: (1.0, "node"),
    },
];

/// A measured point: the quantity, and the figure of each column.
pub(crate) type Point = (u64, Vec<f64>);

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) base: f64,
    pub(crate) slope: f64,
    /// Largest relative distance of a point to it.
    pub(crate) off: f64,
}

impl Line {
    /// Fits a line to points, at least two that differ. Distances are relative to the values, so that
    /// small points count as much as large ones.
    pub(crate) fn fit(points: &[(f64, f64)]) -> Self {
        let [mut w, mut x, mut y, mut xx, mut xy] = [0.0; 5];
        for (at, value) in points {
            let weight = 1.0 / (value * value);
            w += weight;
            x += weight * at;
            y += weight * value;
            xx += weight * at * at;
            xy += weight * at * value;
        }
        let slope = (w * xy - x * y) / (w * xx - x * x);
        let base = (y - slope * x) / w;
        let distance = |(at, value): &(f64, f64)| ((base + slope * at - value) / value).abs();
        Self {
            base,
            slope,
            off: points.iter().map(distance).fold(0.0, f64::max),
        }
    }
}

/// Formats a curve: its table, and the lines through it.
pub(crate) fn markdown(curve: &Curve, points: &[Point]) -> String {
    let titles = curve.columns.iter().map(|column| {
        let unit = match column.unit {
            Unit::PerSecond => "",
            unit => unit.suffix(),
        };
        format!(" {}{unit} |", column.title)
    });
    let drawn = curve.columns[curve.drawn].title;
    let mut lines = vec![
        format!(
            "| {} |{} {drawn}, each ▇ doubles it |",
            curve.title,
            titles.collect::<String>()
        ),
        format!("|--:|{}---|", "--:|".repeat(curve.columns.len())),
    ];
    let least = points.iter().map(|(_, values)| values[curve.drawn]);
    let least = least.fold(f64::INFINITY, f64::min);
    for (at, values) in points {
        let cells = curve.columns.iter().zip(values);
        let cells = cells.map(|(column, value)| format!(" {} |", column.unit.number(*value)));
        let doubled = (values[curve.drawn] / least).log2().round() as usize;
        lines.push(format!(
            "| {} |{} {} |",
            grouped(*at),
            cells.collect::<String>(),
            "▇".repeat(1 + doubled)
        ));
    }
    lines.push(String::new());
    lines.extend(fits(curve, points));
    lines.join("\n")
}

/// Returns a sentence for the line of each column that has one.
fn fits<'a>(curve: &'a Curve, points: &'a [Point]) -> impl Iterator<Item = String> + 'a {
    let lines = curve.columns.iter().enumerate();
    lines
        .filter(|(_, column)| column.is_line)
        .map(move |(index, column)| {
            let (each, name) = curve.each;
            let points: Vec<_> = points
                .iter()
                .map(|(at, values)| (*at as f64 / each, values[index]))
                .collect();
            let line = Line::fit(&points);
            format!(
                "- {}: {} and {} for each {name}; points are up to {:.0} % off.",
                column.title,
                short(column.unit, line.base),
                short(column.unit, line.slope),
                line.off * 100.0
            )
        })
}

/// Formats a value with three digits, in a smaller unit if that reads better.
fn short(unit: Unit, value: f64) -> String {
    let smaller = match unit {
        Unit::Megabytes => Some((1024.0, " KB")),
        Unit::Seconds => Some((1e3, " ms")),
        Unit::Micros => Some((1e3, " ns")),
        _ => None,
    };
    let (value, suffix) = match smaller {
        Some((times, suffix)) if value.abs() < 0.995 => (value * times, suffix),
        _ => (value, unit.suffix()),
    };
    let digits = match value.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{suffix}")
}

/// Formats a count with its thousands apart.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
