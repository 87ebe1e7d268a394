//! A figure: what is known of it before it is measured, and its values.

use serde::{Deserialize, Serialize};

use super::{busy::MAX, stats::Summary};

/// Unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// One figure over another.
    #[serde(rename = "ratio")]
    Ratio,
    #[serde(rename = "µs")]
    Micros,
    #[serde(rename = "ms")]
    Millis,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "MB")]
    Megabytes,
    #[serde(rename = "KB")]
    Kilobytes,
    #[serde(rename = "/s")]
    PerSecond,
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Copies of as many bytes.
    #[serde(rename = "copies")]
    Copies,
    /// 1 for yes.
    #[serde(rename = "yes")]
    Yes,
}

impl Unit {
    /// Returns a value without its unit.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Self::Ratio | Self::Copies => format!("{value:.3}"),
            Self::Micros | Self::Kilobytes | Self::Megabytes => format!("{value:.1}"),
            Self::Millis | Self::Seconds => format!("{value:.2}"),
            Self::PerSecond | Self::MegabytesPerSecond => format!("{value:.0}"),
            Self::Yes if value == 1.0 => "yes".to_owned(),
            Self::Yes => "no".to_owned(),
        }
    }

    /// Returns what stands behind a value.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Ratio | Self::Yes => "",
            Self::Micros => " µs",
            Self::Millis => " ms",
            Self::Seconds => " s",
            Self::Megabytes => " MB",
            Self::Kilobytes => " KB",
            Self::PerSecond => "/s",
            Self::MegabytesPerSecond => " MB/s",
            Self::Copies => " copies",
        }
    }

    /// Returns a value with its unit.
    pub(crate) fn text(self, value: f64) -> String {
        format!("{}{}", self.number(value), self.suffix())
    }
}

/// Bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    Least(f64),
    Most(f64),
    Above(f64),
    Below(f64),
}

impl Bound {
    pub(crate) const fn sign(self) -> (&'static str, f64) {
        match self {
            Self::Least(value) => ("≥", value),
            Self::Most(value) => ("≤", value),
            Self::Above(value) => (">", value),
            Self::Below(value) => ("<", value),
        }
    }

    pub(crate) fn is_met(self, by: f64) -> bool {
        match self {
            Self::Least(value) => by >= value,
            Self::Most(value) => by <= value,
            Self::Above(value) => by > value,
            Self::Below(value) => by < value,
        }
    }
}

/// A figure before it is measured.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// The name of the row.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) unit: Unit,
    pub(crate) wanted: Option<Bound>,
    /// Whether other work on the machine changes nothing of it, as with memory.
    pub(crate) is_steady: bool,
}

impl Spec {
    pub(crate) fn new(id: &str, unit: Unit, wanted: Option<Bound>, text: &str) -> Self {
        Self {
            id: id.to_owned(),
            text: text.to_owned(),
            unit,
            wanted,
            is_steady: false,
        }
    }

    /// Says that other work on the machine changes nothing of it.
    pub(crate) fn steady(self) -> Self {
        Self {
            is_steady: true,
            ..self
        }
    }
}

/// The values of one side of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) values: Vec<f64>,
}

impl Side {
    pub(crate) fn new(name: &str, unit: Unit, values: Vec<f64>) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            values,
        }
    }
}

/// A figure that is measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// That of its [`Spec`].
    pub(crate) id: String,
    /// The value of each pair.
    pub(crate) values: Vec<f64>,
    /// Where the values are comparisons: the figures that they are made of.
    pub(crate) sides: Vec<Side>,
    /// A remark beside the figure.
    pub(crate) note: String,
    /// The share of the machine that others took meanwhile.
    pub(crate) others: f64,
}

/// How a row turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// Nothing is wanted.
    Open,
    /// The machine was busy with something else.
    Busy,
}

impl Row {
    /// A figure of its own.
    pub(crate) fn new(id: &str, values: Vec<f64>) -> Self {
        Self {
            id: id.to_owned(),
            values,
            sides: Vec::new(),
            note: String::new(),
            others: 0.0,
        }
    }

    /// The first side over the second, of each pair.
    pub(crate) fn ratio(id: &str, sides: [Side; 2]) -> Self {
        Self::compared(id, sides, |one, other| one / other)
    }

    /// The first side less the second, of each pair.
    pub(crate) fn difference(id: &str, sides: [Side; 2]) -> Self {
        Self::compared(id, sides, |one, other| one - other)
    }

    /// A comparison of each pair.
    pub(crate) fn compared(id: &str, sides: [Side; 2], how: impl Fn(f64, f64) -> f64) -> Self {
        let [one, other] = &sides;
        let pairs = one.values.iter().zip(&other.values);
        let values = pairs.map(|(&one, &other)| how(one, other)).collect();
        Self {
            sides: sides.into(),
            ..Self::new(id, values)
        }
    }

    /// Adds what there is to say beside.
    pub(crate) fn noted(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// Returns the statistics of the values.
    pub(crate) fn summary(&self) -> Summary {
        Summary::of(&self.values).unwrap_or(Summary {
            median: f64::NAN,
            quartiles: [f64::NAN; 2],
            count: 0,
        })
    }

    /// Returns whether others took so much of the machine that the row tells nothing.
    pub(crate) fn is_busy(&self, spec: &Spec) -> bool {
        self.others > MAX && !spec.is_steady
    }

    /// Returns whether there is a value to show: no comparison of a busy machine.
    pub(crate) fn has_value(&self, spec: &Spec) -> bool {
        self.sides.is_empty() || !self.is_busy(spec)
    }

    pub(crate) fn verdict(&self, spec: &Spec) -> Verdict {
        match spec.wanted {
            _ if self.is_busy(spec) => Verdict::Busy,
            None => Verdict::Open,
            Some(bound) if bound.is_met(self.summary().median) => Verdict::Met,
            Some(_) => Verdict::Missed,
        }
    }
}
