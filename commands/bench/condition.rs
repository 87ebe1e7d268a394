//! Conditions of `--fail-if`: `p99>20ms`.

use std::{fmt, str::FromStr};

use ovms::client::load::{Comparison, LevelEnd, LevelReport};

use super::text::{level_name, milliseconds, rate};

/// Condition under which a run fails.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FailCondition {
    /// A figure on one side of a limit.
    Limit {
        figure: Figure,
        relation: Relation,
        limit: f64,
    },
    /// A metric that is worse than in the report of `--against`, by more than so many percent of its value there.
    Worse { percent: f64 },
    /// Windows that do not agree.
    Unstable,
}

/// Figure of a level. Latencies are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Figure {
    P50,
    P90,
    P95,
    P99,
    Max,
    Rate,
    Errors,
    /// Share of the requests, in percent.
    #[strum(to_string = "errors")]
    ErrorShare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Relations; those of two characters are tried first.
const RELATIONS: [(&str, Relation); 4] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

/// Units of time, and their microseconds; `s` is tried last.
const UNITS: [(&str, f64); 4] = [("µs", 1.0), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

impl FromStr for FailCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "unstable" {
            return Ok(Self::Unstable);
        }
        if let Some(rest) = text.strip_prefix("worse") {
            return margin(rest.trim()).ok_or_else(|| {
                format!(
                    "found `{text}`, expected `worse`, or `worse` by more than a percentage, such \
                     as worse>5%"
                )
            });
        }
        let form = || {
            format!(
                "found `{text}`, expected a metric, a relation, and a number, such as p99>20ms, \
                 rate<100, or errors>1%; or `worse`, worse>5%, or `unstable`"
            )
        };
        let (at, sign, relation) = RELATIONS
            .iter()
            .filter_map(|(sign, relation)| Some((text.find(sign)?, sign, *relation)))
            .next()
            .ok_or_else(form)?;
        let (name, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (figure, value, factor) = match name.to_ascii_lowercase().as_str() {
            "rate" => (Figure::Rate, value.strip_suffix("/s").unwrap_or(value), 1.0),
            "errors" => match value.strip_suffix('%') {
                Some(share) => (Figure::ErrorShare, share, 1.0),
                None => (Figure::Errors, value, 1.0),
            },
            name => {
                let latencies = [
                    Figure::P50,
                    Figure::P90,
                    Figure::P95,
                    Figure::P99,
                    Figure::Max,
                ];
                let figure = latencies.into_iter().find(|it| it.to_string() == name);
                let figure = figure.ok_or_else(|| {
                    format!(
                        "found the metric `{name}`, expected p50, p90, p95, p99, max, rate or errors"
                    )
                })?;
                let mut units = UNITS.iter();
                let unit =
                    units.find_map(|(unit, factor)| Some((value.strip_suffix(unit)?, factor)));
                let (value, factor) = unit.ok_or_else(|| {
                    format!(
                        "found `{value}` for a latency, expected a unit: us, ms or s, as in 20ms"
                    )
                })?;
                (figure, value, *factor)
            }
        };
        let limit = plain(value).ok_or_else(form)?;
        Ok(Self::Limit {
            figure,
            relation,
            limit: limit * factor,
        })
    }
}

/// Reads a number that has neither a sign nor an exponent.
fn plain(text: &str) -> Option<f64> {
    let number = text.trim();
    let is_plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    number.parse().ok().filter(|_| is_plain)
}

/// Reads what follows `worse`: nothing, or `>` with a percentage.
fn margin(text: &str) -> Option<FailCondition> {
    let percent = match text {
        "" => 0.0,
        text => plain(text.strip_prefix('>')?.strip_suffix('%')?)?,
    };
    Some(FailCondition::Worse { percent })
}

impl FailCondition {
    /// Returns what is to be said of the levels at which it holds.
    pub(super) fn findings(
        &self,
        levels: &[LevelReport],
        comparisons: &[Comparison],
    ) -> Vec<String> {
        match self {
            Self::Limit {
                figure,
                relation,
                limit,
            } => {
                let levels = levels.iter();
                levels
                    .filter_map(|level| finding(*figure, *relation, *limit, level))
                    .collect()
            }
            Self::Worse { percent } => levels
                .iter()
                .filter(|it| it.end != LevelEnd::Interrupted)
                .filter_map(|it| {
                    let level = level_name(it.concurrency, it.target_rate);
                    let mut compared = comparisons.iter();
                    let compared = compared
                        .find(|at| (at.concurrency, at.target_rate) == (it.concurrency, it.target_rate));
                    let worse = compared.into_iter().flat_map(|it| it.worse_by(*percent / 100.0));
                    let worse: Vec<String> = worse
                        .map(|it| format!("{} {:+.1} %", it.metric, it.change * 100.0))
                        .collect();
                    match compared {
                        Some(_) if !worse.is_empty() => {
                            let by = match *percent > 0.0 {
                                true => format!(" by more than {} %", rate(*percent)),
                                false => String::new(),
                            };
                            let worse = worse.join(", ");
                            Some(format!("worse than before{by} at {level}: {worse}"))
                        }
                        Some(compared) if compared.is_known() => None,
                        Some(_) => Some(format!(
                            "whether {level} is worse is unknown: there are too few windows"
                        )),
                        None => Some(format!(
                            "whether {level} is worse is unknown: the report of `--against` does not have it"
                        )),
                    }
                })
                .collect(),
            Self::Unstable => levels
                .iter()
                .filter(|it| it.end != LevelEnd::Interrupted)
                .filter_map(|it| {
                    let level = level_name(it.concurrency, it.target_rate);
                    match it.stable {
                        Some(true) => None,
                        Some(false) => Some(format!("not stable at {level}")),
                        None => Some(format!(
                            "whether {level} is stable is unknown: it has one window"
                        )),
                    }
                })
                .collect(),
        }
    }
}

/// Returns the text for a level at which a figure is on the wrong side of a limit. A level without an answer is on
/// the wrong side of every limit of its latencies.
fn finding(figure: Figure, relation: Relation, limit: f64, level: &LevelReport) -> Option<String> {
    let at = level_name(level.concurrency, level.target_rate);
    let Some(value) = figure.of(level) else {
        return Some(format!("{figure} has no value at {at}: no responses"));
    };
    let holds = match relation {
        Relation::Less => value < limit,
        Relation::LessOrEqual => value <= limit,
        Relation::Greater => value > limit,
        Relation::GreaterOrEqual => value >= limit,
    };
    let (value, limit) = (figure.written(value), figure.written(limit));
    holds.then(|| format!("{figure} is {value} at {at}, which is {relation} {limit}"))
}

impl Figure {
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    fn of(self, level: &LevelReport) -> Option<f64> {
        let latency = level.latency_us;
        match self {
            Self::P50 => latency.map(|it| it.p50),
            Self::P90 => latency.map(|it| it.p90),
            Self::P95 => latency.map(|it| it.p95),
            Self::P99 => latency.map(|it| it.p99),
            Self::Max => latency.map(|it| it.max),
            Self::Rate => Some(level.rate),
            Self::Errors => Some(level.failed as f64),
            Self::ErrorShare => Some(level.failed_share() * 100.0),
        }
    }

    fn written(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{}/s", rate(value)),
            Self::Errors => format!("{value:.0}"),
            Self::ErrorShare => format!("{} %", rate(value)),
            Self::P50 | Self::P90 | Self::P95 | Self::P99 | Self::Max => {
                format!("{} ms", milliseconds(value))
            }
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "below",
            Self::LessOrEqual => "at most",
            Self::Greater => "above",
            Self::GreaterOrEqual => "at least",
        })
    }
}

#[cfg(test)]
mod tests {
    use ovms::client::load::{Comparison, Difference};

    use super::{FailCondition, Figure, Relation};
    use crate::bench::report::{example, example_of_one_window};

    fn limit(figure: Figure, relation: Relation, limit: f64) -> FailCondition {
        FailCondition::Limit {
            figure,
            relation,
            limit,
        }
    }

    #[test]
    fn conditions_are_a_metric_a_relation_and_a_limit() {
        for (text, expected) in [
            ("p99>20ms", limit(Figure::P99, Relation::Greater, 20e3)),
            (
                " P50 >= 1.5s ",
                limit(Figure::P50, Relation::GreaterOrEqual, 1.5e6),
            ),
            ("p90>300us", limit(Figure::P90, Relation::Greater, 300.0)),
            ("p95>300µs", limit(Figure::P95, Relation::Greater, 300.0)),
            ("max<=2ms", limit(Figure::Max, Relation::LessOrEqual, 2e3)),
            ("rate<100", limit(Figure::Rate, Relation::Less, 100.0)),
            ("rate<0.5/s", limit(Figure::Rate, Relation::Less, 0.5)),
            ("errors>0", limit(Figure::Errors, Relation::Greater, 0.0)),
            (
                "errors>1%",
                limit(Figure::ErrorShare, Relation::Greater, 1.0),
            ),
            ("worse", FailCondition::Worse { percent: 0.0 }),
            ("worse>5%", FailCondition::Worse { percent: 5.0 }),
            (" worse > 2.5 % ", FailCondition::Worse { percent: 2.5 }),
            ("unstable", FailCondition::Unstable),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", "found ``, expected a metric"),
            ("p99", "found `p99`, expected a metric"),
            ("p99>", "found `` for a latency, expected a unit"),
            ("p99>20", "found `20` for a latency, expected a unit"),
            ("p99>xms", "found `p99>xms`, expected a metric"),
            ("p99>-1ms", "found `p99>-1ms`, expected a metric"),
            ("p98>1ms", "found the metric `p98`, expected p50"),
            (
                "worse>5",
                "found `worse>5`, expected `worse`, or `worse` by",
            ),
            (
                "worse<5%",
                "found `worse<5%`, expected `worse`, or `worse` by",
            ),
            ("worse>=5%", "found `worse>=5%`, expected `worse`, or"),
            ("worse>-5%", "found `worse>-5%`, expected `worse`, or"),
            ("worse>%", "found `worse>%`, expected `worse`, or"),
            ("worse5%", "found `worse5%`, expected `worse`, or"),
            ("worst", "found `worst`, expected a metric"),
            ("rate<1ms", "found `rate<1ms`, expected a metric"),
            ("errors>x%", "found `errors>x%`, expected a metric"),
        ] {
            let error = text.parse::<FailCondition>().unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn findings_name_the_figure_the_level_and_the_limit() {
        let report = example();
        let findings = |text: &str| {
            let condition: FailCondition = text.parse().unwrap();
            condition.findings(&report.levels, &[])
        };
        assert_eq!(
            findings("p99>4ms"),
            ["p99 is 9.000 ms at concurrency 4, which is above 4.000 ms"]
        );
        assert_eq!(
            findings("rate<1000/s"),
            ["rate is 500/s at concurrency 1, which is below 1000/s"]
        );
        assert_eq!(
            findings("errors>1%"),
            ["errors is 2.5 % at concurrency 4, which is above 1 %"]
        );
        assert_eq!(findings("unstable"), ["not stable at concurrency 4"]);
        let one = example_of_one_window().levels;
        assert_eq!(
            FailCondition::Unstable.findings(&one, &[]),
            ["whether concurrency 1 is stable is unknown: it has one window"]
        );
        assert_eq!(findings("p99>1s"), [""; 0]);
        let compare = |text: &str, difference, change| {
            let mut compared = Comparison::of(&report.levels[0], &report.levels[0]);
            for metric in &mut compared.metrics {
                (metric.difference, metric.change) = (difference, change);
            }
            let condition: FailCondition = text.parse().unwrap();
            condition.findings(&report.levels[..1], &[compared])
        };
        assert_eq!(compare("worse", Difference::None, 0.2), [""; 0]);
        assert_eq!(
            compare("worse", Difference::Worse, 0.001),
            [
                "worse than before at concurrency 1: rate +0.1 %, p50 +0.1 %, p90 +0.1 %, p95 +0.1 %, p99 +0.1 %"
            ]
        );
        // With a margin it has to be more than chance, and beyond the margin.
        assert_eq!(compare("worse>5%", Difference::Worse, 0.04), [""; 0]);
        assert_eq!(compare("worse>5%", Difference::None, 0.2), [""; 0]);
        assert_eq!(compare("worse>5%", Difference::Better, 0.2), [""; 0]);
        for (change, by) in [(0.06, "+6.0"), (-0.06, "-6.0")] {
            let found = compare("worse>5%", Difference::Worse, change);
            let begin = format!(
                "worse than before by more than 5 % at concurrency 1: rate {by} %, p50 {by} %"
            );
            assert!(found[0].starts_with(&begin), "{found:?}");
        }
        for text in ["worse", "worse>5%"] {
            assert_eq!(
                compare(text, Difference::Unknown, 0.2),
                ["whether concurrency 1 is worse is unknown: there are too few windows"]
            );
        }
        assert_eq!(
            findings("worse")[0],
            "whether concurrency 1 is worse is unknown: the report of `--against` does not have it"
        );
        let mut dead = report.levels[0].clone();
        dead.latency_us = None;
        let condition: FailCondition = "p50>1s".parse().unwrap();
        assert_eq!(
            condition.findings(&[dead], &[]),
            ["p50 has no value at concurrency 1: no responses"]
        );
    }
}
