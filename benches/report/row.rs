//! A figure: its specification, and its measured values.

use serde::{Deserialize, Serialize};

use super::{busy::MAX_SHARE, stats::Summary};

/// Unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Ratio of two figures.
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
    /// Multiples of one copy of the same data, in bytes or in time.
    #[serde(rename = "copies")]
    Copies,
    #[serde(rename = "requests")]
    Requests,
    /// Boolean: 1 for yes.
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
            Self::PerSecond | Self::MegabytesPerSecond | Self::Requests => format!("{value:.0}"),
            Self::Yes if value == 1.0 => "yes".to_owned(),
            Self::Yes => "no".to_owned(),
        }
    }

    /// Returns the suffix of a value.
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
            Self::Requests => " requests",
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
}

impl Bound {
    pub(crate) const fn sign(self) -> (&'static str, f64) {
        match self {
            Self::Least(value) => ("≥", value),
            Self::Most(value) => ("≤", value),
            Self::Above(value) => (">", value),
        }
    }

    pub(crate) fn is_met(self, by: f64) -> bool {
        match self {
            Self::Least(value) => by >= value,
            Self::Most(value) => by <= value,
            Self::Above(value) => by > value,
        }
    }
}

/// Specification of a figure.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// Name of the row.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) unit: Unit,
    pub(crate) wanted: Option<Bound>,
    /// Indicates that other work on the machine has no effect on it, as with memory.
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

    /// Marks it as unaffected by other work on the machine.
    pub(crate) fn steady(self) -> Self {
        Self {
            is_steady: true,
            ..self
        }
    }
}

/// Values of one side of a comparison.
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

/// A measured figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Id of its [`Spec`].
    pub(crate) id: String,
    /// Value of each pair.
    pub(crate) values: Vec<f64>,
    /// Underlying figures of values that are comparisons.
    pub(crate) sides: Vec<Side>,
    /// Remark beside the figure.
    pub(crate) note: String,
    /// Share of the machine that others took meanwhile.
    pub(crate) others: f64,
}

/// Result of a row against its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// Row without a bound.
    Open,
    /// The machine was busy with something else.
    Busy,
}

impl Row {
    /// Creates a row of a single figure.
    pub(crate) fn new(id: &str, values: Vec<f64>) -> Self {
        Self {
            id: id.to_owned(),
            values,
            sides: Vec::new(),
            note: String::new(),
            others: 0.0,
        }
    }

    /// Creates a row of the ratio of the first side to the second, per pair.
    pub(crate) fn ratio(id: &str, sides: [Side; 2]) -> Self {
        Self::compared(id, sides, |one, other| one / other)
    }

    /// Creates a row of the difference of the first side and the second, per pair.
    pub(crate) fn difference(id: &str, sides: [Side; 2]) -> Self {
        Self::compared(id, sides, |one, other| one - other)
    }

    /// Creates a row of a comparison, per pair.
    pub(crate) fn compared(id: &str, sides: [Side; 2], how: impl Fn(f64, f64) -> f64) -> Self {
        let [one, other] = &sides;
        let pairs = one.values.iter().zip(&other.values);
        let values = pairs.map(|(&one, &other)| how(one, other)).collect();
        Self {
            sides: sides.into(),
            ..Self::new(id, values)
        }
    }

    /// Adds a remark.
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

    /// Returns whether others took so much of the machine that the row is meaningless.
    pub(crate) fn is_busy(&self, spec: &Spec) -> bool {
        self.others > MAX_SHARE && !spec.is_steady
    }

    /// Creates a row that could not be measured, for this reason.
    pub(crate) fn missing(id: &str, reason: &str) -> Self {
        Self::new(id, Vec::new()).noted(reason.to_owned())
    }

    /// Returns whether there is a value to show; a comparison on a busy machine has none.
    pub(crate) fn has_value(&self, spec: &Spec) -> bool {
        !self.values.is_empty() && (self.sides.is_empty() || !self.is_busy(spec))
    }

    pub(crate) fn verdict(&self, spec: &Spec) -> Verdict {
        match spec.wanted {
            _ if self.is_busy(spec) => Verdict::Busy,
            None => Verdict::Open,
            Some(_) if self.values.is_empty() => Verdict::Open,
            Some(bound) if bound.is_met(self.summary().median) => Verdict::Met,
            Some(_) => Verdict::Missed,
        }
    }
}
