//! Plots as SVG. Their texts are numbers and words of ours, never what a server says.

use std::fmt::Write as _;

use crate::bench::text::rate;

/// Size of a plot, and the margins around what is drawn, in pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;

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

impl Plot {
    /// Draws the plot.
    pub(super) fn draw(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\">",
            self.unit, self.below
        );
        let (top, step) = scale(self.largest());
        let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
        let mut tick = 0.0;
        while tick <= top * (1.0 + 1e-9) {
            let at = y(tick);
            put(
                &mut svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                     <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    WIDTH - RIGHT,
                    LEFT - 6.0,
                    at + 4.0,
                    number(tick)
                ),
            );
            tick += step;
        }
        self.label(&mut svg);
        match self.marks {
            Marks::Lines => self.lines(&mut svg, y),
            Marks::Bars => self.bars(&mut svg, y),
        }
        let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
        put(
            &mut svg,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
                 <text class=\"axis\" transform=\"translate(14 {middle:.1}) rotate(-90)\" \
                 text-anchor=\"middle\">{}</text></svg>",
                f64::midpoint(LEFT, WIDTH - RIGHT),
                HEIGHT - 6.0,
                self.below,
                self.unit
            ),
        );
        svg
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

    /// Returns the middle of a place.
    fn x(&self, place: usize) -> f64 {
        let room = WIDTH - LEFT - RIGHT;
        match &self.places {
            Places::Labels(labels) => LEFT + room * (index(place) + 0.5) / index(labels.len()),
            Places::Numbers(numbers) => {
                let (top, _) = scale(numbers.iter().copied().fold(0.0, f64::max));
                LEFT + room * numbers[place] / top
            }
        }
    }

    fn label(&self, svg: &mut String) {
        let mut text = |x: f64, text: &str| {
            put(
                svg,
                format_args!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                    HEIGHT - BOTTOM + 16.0
                ),
            );
        };
        match &self.places {
            Places::Labels(labels) => {
                let every = labels.len().div_ceil(MAX_LABELS).max(1);
                for (place, label) in labels.iter().enumerate().step_by(every) {
                    text(self.x(place), label);
                }
            }
            Places::Numbers(numbers) => {
                let (top, step) = scale(numbers.iter().copied().fold(0.0, f64::max));
                let mut tick = 0.0;
                while tick <= top * (1.0 + 1e-9) {
                    text(LEFT + (WIDTH - LEFT - RIGHT) * tick / top, &number(tick));
                    tick += step;
                }
            }
        }
    }

    fn lines(&self, svg: &mut String, y: impl Fn(f64) -> f64) {
        for (colour, series) in self.series.iter().enumerate() {
            let values = series.values.iter().enumerate();
            let points: Vec<_> = values
                .filter_map(|(place, value)| Some((place, (*value)?)))
                .collect();
            let path = points
                .iter()
                .map(|(place, value)| format!("{:.1},{:.1}", self.x(*place), y(*value)));
            let path: Vec<String> = path.collect();
            put(
                svg,
                format_args!(
                    "<polyline class=\"c{colour}\" points=\"{}\"/>",
                    path.join(" ")
                ),
            );
            for (place, value) in points {
                put(
                    svg,
                    format_args!(
                        "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{} at {}: {} \
                         {}</title></circle>",
                        self.x(place),
                        y(value),
                        series.name,
                        self.places.name(place),
                        number(value),
                        self.unit
                    ),
                );
            }
        }
    }

    fn bars(&self, svg: &mut String, y: impl Fn(f64) -> f64) {
        let count = self.places.count();
        let width = (WIDTH - LEFT - RIGHT) / index(count.max(1));
        let width = if count > 12 {
            width * 0.92
        } else {
            width * 0.6
        };
        for place in 0..count {
            let mut below = 0.0;
            for (colour, series) in self.series.iter().enumerate() {
                let Some(value) = series.values.get(place).copied().flatten() else {
                    continue;
                };
                let (low, high) = (y(below), y(below + value));
                below += value;
                put(
                    svg,
                    format_args!(
                        "<rect class=\"c{colour}\" x=\"{:.1}\" y=\"{high:.1}\" width=\"{width:.1}\" \
                         height=\"{:.1}\"><title>{} at {}: {}</title></rect>",
                        self.x(place) - width / 2.0,
                        low - high,
                        series.name,
                        self.places.name(place),
                        number(value)
                    ),
                );
            }
        }
    }
}

impl Places {
    fn count(&self) -> usize {
        match self {
            Self::Labels(labels) => labels.len(),
            Self::Numbers(numbers) => numbers.len(),
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

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("memory takes it");
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
