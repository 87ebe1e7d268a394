//! Plots as SVG.

use std::borrow::Borrow;

use askama::Template;

use crate::bench::text::rate;

/// Size of a plot, and the margins around what is drawn, in pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;

/// Width between the margins.
const ROOM: f64 = WIDTH - LEFT - RIGHT;

/// Maximum number of labels below a plot.
const MAX_LABELS: usize = 12;

/// Plot with one axis of values.
#[derive(Debug)]
pub(super) struct Plot {
    /// Title of the axis of values.
    pub(super) unit: &'static str,
    /// Title of the other axis.
    pub(super) below: &'static str,
    pub(super) places: Places,
    pub(super) marks: Marks,
    pub(super) series: Vec<Series>,
}

/// Places on the axis below.
#[derive(Debug)]
pub(super) enum Places {
    /// Side by side, each with its label.
    Labels(Vec<String>),
    /// Numbers.
    Numbers(Vec<f64>),
}

/// Shape of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// Points with lines between them.
    Lines,
    /// Bars; several series are on top of each other.
    Bars,
}

/// Values by place; without one there is a gap.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) values: Vec<Option<f64>>,
}

/// The template of a plot, with the places of everything on it, in pixels.
#[derive(Template)]
#[template(path = "plot.svg")]
struct Drawing<'a> {
    plot: &'a Plot,
    /// Places and texts of the ticks of both axes.
    ticks: Vec<(f64, String)>,
    labels: Vec<(f64, String)>,
    series: Vec<DrawnSeries>,
    /// Width of a bar.
    width: f64,
}

/// Marks of a series.
struct DrawnSeries {
    name: &'static str,
    marks: Vec<Mark>,
}

/// Point, or bar around a middle.
struct Mark {
    x: f64,
    top: f64,
    /// Lower end, for bars.
    bottom: f64,
    place: String,
    value: String,
}

impl Plot {
    /// Draws the plot.
    pub(super) fn draw(&self) -> String {
        let count = index(self.places.count().max(1));
        let share = if count > 12.0 { 0.92 } else { 0.6 };
        let (top, step) = scale(self.largest());
        let drawing = Drawing {
            plot: self,
            ticks: ticks(top, step, |value| y(value, top)),
            labels: self.labels(),
            series: self.drawn(top),
            width: ROOM / count * share,
        };
        drawing.to_string()
    }

    /// Returns the largest value, that of whole bars.
    fn largest(&self) -> f64 {
        let value = |series: &Series, place: usize| series.values.get(place).copied().flatten();
        let places = 0..self.places.count();
        let heights = places.map(|place| {
            let values = self.series.iter().filter_map(|it| value(it, place));
            match self.marks {
                Marks::Lines => values.fold(0.0, f64::max),
                Marks::Bars => values.sum(),
            }
        });
        heights.fold(0.0, f64::max)
    }

    /// Places the values of all series; those of bars are on top of each other.
    fn drawn(&self, top: f64) -> Vec<DrawnSeries> {
        let mut below = vec![0.0; self.places.count()];
        let series = self.series.iter().map(|series| {
            let values = series.values.iter().zip(&mut below).enumerate();
            let marks = values.filter_map(|(place, (value, below))| {
                let value = (*value)?;
                let from = *below;
                if self.marks == Marks::Bars {
                    *below += value;
                }
                Some(Mark {
                    x: self.places.x(place),
                    top: y(from + value, top),
                    bottom: y(from, top),
                    place: self.places.name(place),
                    value: number(value),
                })
            });
            DrawnSeries {
                name: series.name,
                marks: marks.collect(),
            }
        });
        series.collect()
    }

    /// Places the labels below, of which not all have room.
    fn labels(&self) -> Vec<(f64, String)> {
        match &self.places {
            Places::Labels(labels) => {
                let every = labels.len().div_ceil(MAX_LABELS).max(1);
                let labels = labels.iter().enumerate().step_by(every);
                let label =
                    |(place, label): (usize, &String)| (self.places.x(place), label.clone());
                labels.map(label).collect()
            }
            Places::Numbers(numbers) => {
                let (top, step) = scale(numbers.iter().copied().fold(0.0, f64::max));
                ticks(top, step, |value| LEFT + ROOM * value / top)
            }
        }
    }
}

/// Returns the height of a value on an axis with an end.
fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
}

/// Places the ticks of an axis.
fn ticks(top: f64, step: f64, place: impl Fn(f64) -> f64) -> Vec<(f64, String)> {
    let values = std::iter::successors(Some(0.0), |tick| Some(tick + step));
    let values = values.take_while(|tick| *tick <= top * (1.0 + 1e-9));
    values.map(|tick| (place(tick), number(tick))).collect()
}

/// Writes a length to a tenth of a pixel. Templates pass fields by reference.
fn px(length: impl Borrow<f64>) -> String {
    format!("{:.1}", length.borrow())
}

impl Places {
    fn count(&self) -> usize {
        match self {
            Self::Labels(labels) => labels.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// Returns the middle of a place.
    fn x(&self, place: usize) -> f64 {
        match self {
            Self::Labels(labels) => LEFT + ROOM * (index(place) + 0.5) / index(labels.len()),
            Self::Numbers(numbers) => {
                let (top, _) = scale(numbers.iter().copied().fold(0.0, f64::max));
                LEFT + ROOM * numbers[place] / top
            }
        }
    }

    fn name(&self, place: usize) -> String {
        match self {
            Self::Labels(labels) => labels[place].clone(),
            Self::Numbers(numbers) => number(numbers[place]),
        }
    }
}

/// Returns the end of an axis from zero that has a value, and the distance of its ticks: 1, 2, or 5 of a power of ten.
fn scale(largest: f64) -> (f64, f64) {
    if largest <= 0.0 || !largest.is_finite() {
        return (1.0, 1.0);
    }
    let rough = largest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    ((largest / step).ceil() * step, step)
}

fn number(value: f64) -> String {
    match value.abs() {
        it if it > 0.0 && it < 10.0 && it.fract() != 0.0 => {
            let text = format!("{value:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => rate(value),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few places")]
fn index(place: usize) -> f64 {
    place as f64
}

#[cfg(test)]
mod tests {
    use super::{Marks, Places, Plot, Series, number, scale};

    #[test]
    fn axes_end_at_round_numbers() {
        for (largest, expected) in [
            (1.0, (1.0, 0.2)),
            (4.3, (5.0, 1.0)),
            (99.0, (100.0, 20.0)),
            (1234.0, (1500.0, 500.0)),
            (0.0, (1.0, 1.0)),
        ] {
            let (top, step) = scale(largest);
            let (expected_top, expected_step) = expected;
            assert!((top - expected_top).abs() < 1e-9, "{largest}: {top}");
            assert!((step - expected_step).abs() < 1e-9, "{largest}: {step}");
        }
        assert_eq!(
            [0.2, 5.0, 1.25, 1500.0].map(number),
            ["0.2", "5", "1.25", "1500"]
        );
    }

    #[test]
    fn a_plot_has_a_mark_for_each_value() {
        let plot = |marks, places| Plot {
            unit: "ms",
            below: "concurrency",
            places,
            marks,
            series: vec![
                Series {
                    name: "p50",
                    values: vec![Some(1.0), None, Some(3.0)],
                },
                Series {
                    name: "p99",
                    values: vec![Some(2.0), Some(4.0), Some(6.0)],
                },
            ],
        };
        let labels = || Places::Labels(["1", "2", "4"].map(str::to_owned).to_vec());
        let lines = plot(Marks::Lines, labels()).draw();
        assert_eq!(lines.matches("<circle").count(), 5);
        assert_eq!(lines.matches("<polyline").count(), 2);
        assert!(lines.contains("<title>p99 at 4: 6 ms</title>"), "{lines}");
        let bars = plot(Marks::Bars, labels()).draw();
        assert_eq!(bars.matches("<rect").count(), 5);
        let numbers = plot(Marks::Lines, Places::Numbers(vec![10.0, 20.0, 25.0])).draw();
        assert!(numbers.contains(">25</text>"), "{numbers}");
        assert!(!lines.contains("NaN") && !bars.contains("NaN"));
    }
}
