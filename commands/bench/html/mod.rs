//! The report as a page with plots, which needs nothing else.

mod chart;

use askama::Template;
use ovms::client::load::{LatencyFigures, LevelReport};

use super::{
    report::BenchReport,
    text::{level_name, milliseconds, rate, stability, verdict},
};
use chart::{Marks, Places, Plot, Series};

/// Page of a report.
#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a BenchReport,
    started: String,
    /// Plots over all levels, if there are several.
    overview: Vec<Figure>,
    levels: Vec<LevelPart<'a>>,
    comparison: Vec<[String; 6]>,
}

/// Plot with its title.
#[derive(Debug)]
struct Figure {
    title: &'static str,
    /// Names of the series, by colour; empty if there is one.
    legend: Vec<&'static str>,
    svg: String,
}

/// Part of a level.
#[derive(Debug)]
struct LevelPart<'a> {
    name: String,
    cells: Vec<String>,
    figures: Vec<Figure>,
    level: &'a LevelReport,
}

/// Writes the page.
pub(super) fn report(report: &BenchReport) -> String {
    let (levels, has_rows) = (report.levels.iter(), report.has_rows());
    let page = Page {
        report,
        started: utc(report.started_at),
        overview: overview(&report.levels),
        levels: levels.map(|level| part(level, has_rows)).collect(),
        comparison: comparison(report),
    };
    page.render().expect("memory takes it")
}

impl Page<'_> {
    /// Returns the titles of the table of levels.
    fn titles(&self) -> Vec<&'static str> {
        let mut titles = vec!["level", "ok/s"];
        if self.report.has_rows() {
            titles.push("rows/s");
        }
        titles.extend([
            "p50 ms",
            "p90 ms",
            "p95 ms",
            "p99 ms",
            "max ms",
            "failed",
            "queue ms",
            "compute ms",
            "client µs/request",
            "stable",
        ]);
        titles
    }
}

fn part(level: &LevelReport, has_rows: bool) -> LevelPart<'_> {
    let name = level_name(level.concurrency, level.target_rate);
    let time = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), milliseconds);
    let latency = level.latency_us;
    let server = level.server;
    let mut cells = vec![name.clone(), rate(level.rate)];
    if has_rows {
        cells.push(rate(level.rows()));
    }
    cells.extend([
        time(latency.map(|it| it.p50)),
        time(latency.map(|it| it.p90)),
        time(latency.map(|it| it.p95)),
        time(latency.map(|it| it.p99)),
        time(latency.map(|it| it.max)),
        level.failed.to_string(),
        time(server.map(|it| it.queue_us)),
        time(server.map(|it| it.input_us + it.infer_us + it.output_us)),
        rate(level.client_cpu_us),
        stability(level).0.to_owned(),
    ]);
    LevelPart {
        name,
        cells,
        figures: vec![histogram(level), windows(level), rates(level)],
        level,
    }
}

/// Percentiles that plots have.
type Percentile = (&'static str, fn(&LatencyFigures) -> f64);
const PERCENTILES: [Percentile; 4] = [
    ("p50", |it| it.p50),
    ("p90", |it| it.p90),
    ("p95", |it| it.p95),
    ("p99", |it| it.p99),
];

fn percentiles<'a>(all: impl Iterator<Item = Option<&'a LatencyFigures>> + Clone) -> Vec<Series> {
    let series = |&(name, value): &Percentile| Series {
        name,
        values: all.clone().map(|it| it.map(|it| value(it) / 1e3)).collect(),
    };
    PERCENTILES.iter().map(series).collect()
}

fn overview(levels: &[LevelReport]) -> Vec<Figure> {
    if levels.len() < 2 {
        return Vec::new();
    }
    let is_open = levels.iter().any(|level| level.target_rate.is_some());
    let below = match is_open {
        true => "requests a second to be sent",
        false => "requests in flight",
    };
    let labels = || {
        let label = |level: &LevelReport| match (level.concurrency, level.target_rate) {
            (Some(lanes), _) => lanes.to_string(),
            (None, target) => target.map(rate).unwrap_or_default(),
        };
        Places::Labels(levels.iter().map(label).collect())
    };
    let latencies = || percentiles(levels.iter().map(|level| level.latency_us.as_ref()));
    let rates = Plot {
        unit: "answers a second",
        below,
        places: labels(),
        marks: Marks::Lines,
        series: vec![Series {
            name: "rate",
            values: levels.iter().map(|level| Some(level.rate)).collect(),
        }],
    };
    let by_level = Plot {
        unit: "ms",
        below,
        places: labels(),
        marks: Marks::Lines,
        series: latencies(),
    };
    let by_rate = Plot {
        unit: "ms",
        below: "answers a second",
        places: Places::Numbers(levels.iter().map(|level| level.rate).collect()),
        marks: Marks::Lines,
        series: latencies(),
    };
    let mut figures = vec![
        figure("Throughput", &rates),
        figure("Latency", &by_level),
        figure("Latency by throughput", &by_rate),
    ];
    figures.extend(split(levels, below, labels()));
    figures
}

/// Draws where the mean latency goes, if the server says so.
fn split(levels: &[LevelReport], below: &'static str, places: Places) -> Option<Figure> {
    if levels.iter().all(|level| level.server.is_none()) {
        return None;
    }
    let values = |value: fn(&LevelReport) -> Option<f64>| {
        let values = levels.iter().map(value);
        values.map(|it| it.map(|it| it / 1e3)).collect()
    };
    let plot = Plot {
        unit: "ms",
        below,
        places,
        marks: Marks::Bars,
        series: vec![
            Series {
                name: "queue",
                values: values(|it| Some(it.server?.queue_us)),
            },
            Series {
                name: "compute",
                values: values(|it| {
                    let server = it.server?;
                    Some(server.input_us + server.infer_us + server.output_us)
                }),
            },
            Series {
                name: "rest: network, server, client",
                values: values(|it| {
                    let server = it.server?;
                    let inside =
                        server.queue_us + server.input_us + server.infer_us + server.output_us;
                    Some((it.latency_us?.mean - inside).max(0.0))
                }),
            },
        ],
    };
    Some(figure("Parts of the mean latency", &plot))
}

fn histogram(level: &LevelReport) -> Figure {
    let bins = &level.histogram;
    let labels = bins.iter().map(|bin| milliseconds(bin.below_us));
    let plot = Plot {
        unit: "requests",
        below: "latency below, ms (logarithmic)",
        places: Places::Labels(labels.collect()),
        marks: Marks::Bars,
        series: vec![Series {
            name: "requests",
            values: bins.iter().map(|bin| Some(count(bin.count))).collect(),
        }],
    };
    figure("Distribution of the latencies", &plot)
}

#[expect(clippy::cast_precision_loss, reason = "a count to be drawn")]
fn count(requests: u64) -> f64 {
    requests as f64
}

fn window_labels(level: &LevelReport) -> Places {
    let numbers = 1..=level.windows.len();
    Places::Labels(numbers.map(|number| number.to_string()).collect())
}

fn windows(level: &LevelReport) -> Figure {
    let latencies = level.windows.iter().map(|it| it.latency_us.as_ref());
    let plot = Plot {
        unit: "ms",
        below: "window",
        places: window_labels(level),
        marks: Marks::Lines,
        series: percentiles(latencies),
    };
    figure("Latency of each window", &plot)
}

fn rates(level: &LevelReport) -> Figure {
    let plot = Plot {
        unit: "answers a second",
        below: "window",
        places: window_labels(level),
        marks: Marks::Lines,
        series: vec![Series {
            name: "rate",
            values: level.windows.iter().map(|it| Some(it.rate)).collect(),
        }],
    };
    figure("Rate of each window", &plot)
}

fn figure(title: &'static str, plot: &Plot) -> Figure {
    let names: Vec<_> = plot.series.iter().map(|series| series.name).collect();
    Figure {
        title,
        legend: if names.len() > 1 { names } else { Vec::new() },
        svg: plot.draw(),
    }
}

fn comparison(report: &BenchReport) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    for of_level in &report.comparison {
        for it in &of_level.metrics {
            let value = |value: f64| match it.metric {
                ovms::client::load::Metric::Rate => format!("{}/s", rate(value)),
                _ => format!("{} ms", milliseconds(value)),
            };
            let percent = |share: f64| format!("{:+.1} %", share * 100.0);
            let interval = it.interval.map_or_else(
                || "–".to_owned(),
                |(low, high)| format!("{} to {}", percent(low), percent(high)),
            );
            rows.push([
                level_name(of_level.concurrency, of_level.target_rate),
                it.metric.to_string(),
                format!("{} → {}", value(it.before), value(it.after)),
                percent(it.change),
                interval,
                verdict(it).0.to_owned(),
            ]);
        }
    }
    rows
}

/// Writes a moment in UTC.
fn utc(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that some have more is their last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3600, of_day / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::{report, utc};
    use crate::bench::report::{example, example_of_one_window};

    #[test]
    fn the_page_stands_alone_and_texts_of_servers_are_no_markup() {
        let mut example = example();
        example.model = "<script>x</script>".to_owned();
        example.findings = vec!["p99 is 9 ms".to_owned()];
        let page = report(&example);
        assert!(page.starts_with("<!DOCTYPE html>"));
        for outside in [
            "http://", "https://", "src=", "<link", "@import", "url(", "<script",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("UNAVAILABLE: busy &#60;b&#62;"), "{page}");
        assert_eq!(page.matches("<svg").count(), 4 + 2 * 3);
        assert!(page.contains("p99 is 9 ms"));
        assert!(!page.contains("one window"), "{page}");
        assert!(!page.contains("rows/s"), "{page}");
        let head = |page: &str| page.matches("<th>").count();
        let columns = head(&page);
        example.levels[0].rows_per_second = Some(4321.0);
        let page = report(&example);
        assert!(page.contains("<th>rows/s</th>") && page.contains("<td>4321</td>"));
        assert_eq!(head(&page), columns + 1);
        assert!(report(&example_of_one_window()).contains("one window"));
    }

    #[test]
    fn moments_are_written_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_790_000_000), "2026-09-21 14:13 UTC");
    }
}
