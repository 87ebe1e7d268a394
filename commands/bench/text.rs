//! A report in a terminal: tables, histograms, and the comparison.

use ovms::client::load::{
    Comparison, Difference, ErrorCount, LevelEnd, LevelReport, Metric, MetricDifference,
};

use super::report::BenchReport;
use crate::ui::{self, Cell, Look, Table, Tone};

/// Maximum number of error texts shown.
const MAX_ERRORS: usize = 10;

/// Maximum number of lines of a histogram.
const MAX_BARS: usize = 24;

/// Width of the longest bar where there is room for it, in columns.
const BAR: usize = 40;

/// Returns the name of a level.
pub(super) fn level_name(concurrency: Option<usize>, target_rate: Option<f64>) -> String {
    match (concurrency, target_rate) {
        (Some(lanes), _) => format!("concurrency {lanes}"),
        (None, Some(target)) => format!("rate {}/s", rate(target)),
        (None, None) => "the level".to_owned(),
    }
}

/// Writes a number of requests a second, or a percentage, with three digits or more.
pub(super) fn rate(value: f64) -> String {
    let decimals = match value.abs() {
        it if it >= 100.0 || it.fract() == 0.0 => 0,
        it if it >= 1.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Writes microseconds as milliseconds.
pub(super) fn milliseconds(micros: f64) -> String {
    format!("{:.3}", micros / 1e3)
}

/// Writes a report, as stdout is looked at.
pub(super) fn report(report: &BenchReport, has_histograms: bool) -> String {
    let look = Look::of_stdout();
    let mut parts = vec![levels(report).draw(look)];
    if let Some(errors) = errors(report) {
        parts.push(errors.draw(look));
    }
    if has_histograms || report.levels.len() == 1 {
        for level in &report.levels {
            parts.extend(histogram(level, ui::columns()));
        }
    }
    parts.extend(compared_with(report, look));
    parts.join("\n")
}

/// Draws the comparison with the report of `--against`; `None` if they have no level in common.
pub(super) fn compared_with(report: &BenchReport, look: Look) -> Option<String> {
    let all = &report.comparison;
    (!all.is_empty()).then(|| comparison(all).draw(look))
}

fn levels(report: &BenchReport) -> Table {
    let is_open = report.levels.iter().any(|it| it.target_rate.is_some());
    let has_firsts = report
        .levels
        .iter()
        .any(|it| it.first_response_us.is_some());
    let has_server = report.levels.iter().any(|it| it.server.is_some());
    let has_rows = report.has_rows();
    let mut table = Table::new().right([match is_open {
        true => "rate/s",
        false => "concurrency",
    }]);
    table = table.right(["ok/s"]);
    if has_rows {
        table = table.right(["rows/s"]);
    }
    table = table.right(["p50 ms", "p90 ms", "p95 ms", "p99 ms", "max ms"]);
    if has_firsts {
        table = table.right(["first p50 ms", "first p99 ms", "responses/s"]);
    }
    table = table.right(["failed"]);
    if has_server {
        table = table.right(["queue ms", "compute ms"]);
    }
    table = table.left(["stable"]);
    for level in &report.levels {
        table.row(row(level, has_rows, has_firsts, has_server));
    }
    table
}

fn row(level: &LevelReport, has_rows: bool, has_firsts: bool, has_server: bool) -> Vec<Cell> {
    let time = |value: Option<f64>| value.map_or_else(|| ui::NOTHING.to_owned(), milliseconds);
    let latency = level.latency_us;
    let mut cells = vec![
        match (level.concurrency, level.target_rate) {
            (Some(lanes), _) => lanes.to_string(),
            (None, target) => target.map(rate).unwrap_or_default(),
        },
        rate(level.rate),
    ];
    if has_rows {
        cells.push(rate(level.rows()));
    }
    cells.extend([
        time(latency.map(|it| it.p50)),
        time(latency.map(|it| it.p90)),
        time(latency.map(|it| it.p95)),
        time(latency.map(|it| it.p99)),
        time(latency.map(|it| it.max)),
    ]);
    if has_firsts {
        let first = level.first_response_us;
        cells.push(time(first.map(|it| it.p50)));
        cells.push(time(first.map(|it| it.p99)));
        let responses = level.responses_per_second.map(rate);
        cells.push(responses.unwrap_or_else(|| ui::NOTHING.to_owned()));
    }
    let mut cells: Vec<Cell> = cells.into_iter().map(Cell::from).collect();
    let failed = (level.failed > 0).then_some(Tone::Bad);
    cells.push(Cell::toned(level.failed.to_string(), failed));
    if has_server {
        let server = level.server;
        cells.push(time(server.map(|it| it.queue_us)).into());
        let compute = server.map(|it| it.input_us + it.infer_us + it.output_us);
        cells.push(time(compute).into());
    }
    let (text, tone) = stability(level);
    cells.push(Cell::toned(text.to_owned(), tone));
    cells
}

/// Returns the words for whether the windows of a level agree.
pub(super) fn stability(level: &LevelReport) -> (&'static str, Option<Tone>) {
    match (level.stable, level.end) {
        (Some(true), _) => ("yes", None),
        (Some(false), _) => ("no", Some(Tone::Warn)),
        (None, LevelEnd::Interrupted) => ("interrupted", Some(Tone::Warn)),
        (None, _) => ("one window", None),
    }
}

fn errors(report: &BenchReport) -> Option<Table> {
    let mut all: Vec<ErrorCount> = Vec::new();
    for error in report.levels.iter().flat_map(|level| &level.errors) {
        match all.iter_mut().find(|known| known.error == error.error) {
            Some(known) => known.times += error.times,
            None => all.push(error.clone()),
        }
    }
    all.sort_by_key(|error| std::cmp::Reverse(error.times));
    let mut table = Table::new().right(["times"]).left(["error"]);
    for ErrorCount { times, error } in all.iter().take(MAX_ERRORS) {
        table.row([times.to_string(), error.clone()]);
    }
    (!all.is_empty()).then_some(table)
}

/// Draws the latencies of a level; bins are put together until they fit, and bars are cut to the width of the terminal.
fn histogram(level: &LevelReport, columns: Option<usize>) -> Option<String> {
    let mut bins = level.histogram.clone();
    while bins.len() > MAX_BARS {
        let pairs = bins.chunks(2).map(|pair| {
            let mut whole = pair[pair.len() - 1];
            whole.count = pair.iter().map(|bin| bin.count).sum();
            whole
        });
        bins = pairs.collect();
    }
    let most = bins
        .iter()
        .map(|bin| bin.count)
        .max()
        .filter(|it| *it > 0)?;
    let level = level_name(level.concurrency, level.target_rate);
    let mut lines = vec![format!("Latencies at {level}:")];
    let width = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let bounds: Vec<String> = bins.iter().map(|bin| milliseconds(bin.below_us)).collect();
    let counts: Vec<String> = bins.iter().map(|bin| bin.count.to_string()).collect();
    let (bound_width, count_width) = (width(&bounds), width(&counts));
    for ((bin, bound), count) in bins.iter().zip(&bounds).zip(&counts) {
        let mut line = format!("  < {bound:>bound_width$} ms  {count:>count_width$}  ");
        let room = columns.map_or(BAR, |columns| columns.saturating_sub(line.len()));
        line += &bar(bin.count, most, room.clamp(1, BAR));
        lines.push(line.trim_end().to_owned());
    }
    Some(lines.join("\n") + "\n")
}

/// Draws a bar with the precision of an eighth of a column; the longest has so many columns.
fn bar(count: u64, most: u64, longest: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(count) * longest as u128 * 8 / u128::from(most);
    let eighths = usize::try_from(eighths).unwrap_or(0);
    // Whatever there is can be seen.
    let eighths = eighths.max(usize::from(count > 0));
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

fn comparison(all: &[Comparison]) -> Table {
    let mut table = Table::new().left(["level", "metric"]);
    table = table.right(["before", "after", "change", "95 % interval"]);
    table = table.left(["verdict"]);
    for of_level in all {
        let level = level_name(of_level.concurrency, of_level.target_rate);
        for difference in &of_level.metrics {
            table.row(compared(&level, difference));
        }
    }
    table
}

fn compared(level: &str, it: &MetricDifference) -> Vec<Cell> {
    let value = |value: f64| match it.metric {
        Metric::Rate => format!("{}/s", rate(value)),
        Metric::P50 | Metric::P90 | Metric::P95 | Metric::P99 => {
            format!("{} ms", milliseconds(value))
        }
    };
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let interval = it.interval.map_or_else(
        || ui::NOTHING.to_owned(),
        |(low, high)| format!("{} to {}", percent(low), percent(high)),
    );
    let (verdict, tone) = verdict(it);
    vec![
        level.to_owned().into(),
        it.metric.to_string().into(),
        value(it.before).into(),
        value(it.after).into(),
        percent(it.change).into(),
        interval.into(),
        Cell::toned(verdict.to_owned(), tone),
    ]
}

/// Returns the words for a verdict.
pub(super) fn verdict(it: &MetricDifference) -> (&'static str, Option<Tone>) {
    match it.difference {
        Difference::Better => ("better", Some(Tone::Good)),
        Difference::Worse => ("worse", Some(Tone::Bad)),
        Difference::None if it.uncertain => ("too uncertain", Some(Tone::Warn)),
        Difference::None => ("no difference", None),
        Difference::Unknown => ("too few windows", Some(Tone::Warn)),
    }
}

#[cfg(test)]
mod tests {
    use ovms::client::load::{Comparison, HistogramBin};

    use super::{comparison, errors, histogram, levels, rate};
    use crate::{
        bench::report::{example, example_of_one_window},
        ui::Look,
    };

    #[test]
    fn a_level_is_a_row() {
        insta::assert_snapshot!(levels(&example()).draw(Look::Plain), @"
        concurrency  ok/s  p50 ms  p90 ms  p95 ms  p99 ms  max ms  failed  queue ms  compute ms  stable
                  1   500   2.000   2.500   2.800   3.000   4.000       0     0.200       1.215  yes
                  4  1500   6.000   7.500   8.400   9.000  12.000     100     0.600       1.215  no
        ");
    }

    #[test]
    fn rows_stand_beside_requests_where_requests_have_several() {
        let mut report = example();
        report.levels[1].rows_per_second = Some(12_000.0);
        insta::assert_snapshot!(levels(&report).draw(Look::Plain), @"
        concurrency  ok/s  rows/s  p50 ms  p90 ms  p95 ms  p99 ms  max ms  failed  queue ms  compute ms  stable
                  1   500     500   2.000   2.500   2.800   3.000   4.000       0     0.200       1.215  yes
                  4  1500   12000   6.000   7.500   8.400   9.000  12.000     100     0.600       1.215  no
        ");
    }

    #[test]
    fn of_one_window_it_is_unknown_whether_it_is_stable() {
        insta::assert_snapshot!(levels(&example_of_one_window()).draw(Look::Plain), @"
        concurrency  ok/s  p50 ms  p90 ms  p95 ms  p99 ms  max ms  failed  queue ms  compute ms  stable
                  1   500   2.000   2.500   2.800   3.000   4.000       0     0.200       1.215  one window
        ");
    }

    #[test]
    fn streams_have_times_to_their_first_response() {
        let mut report = example();
        report.levels.truncate(1);
        let level = &mut report.levels[0];
        (level.concurrency, level.target_rate) = (None, Some(12.5));
        level.first_response_us = level.latency_us;
        level.responses_per_second = Some(5000.0);
        level.latency_us = None;
        level.server = None;
        insta::assert_snapshot!(levels(&report).draw(Look::Plain), @"
        rate/s  ok/s  p50 ms  p90 ms  p95 ms  p99 ms  max ms  first p50 ms  first p99 ms  responses/s  failed  stable
          12.5   500       -       -       -       -       -         2.000         3.000         5000       0  yes
        ");
    }

    #[test]
    fn errors_are_those_of_all_levels() {
        let mut report = example();
        report.levels.push(report.levels[1].clone());
        insta::assert_snapshot!(errors(&report).unwrap().draw(Look::Plain), @"
        times  error
          200  the server refused the request: UNAVAILABLE: busy <b>
        ");
        assert!(errors(&crate::bench::report::example()).is_some());
        report.levels.truncate(1);
        assert!(errors(&report).is_none());
    }

    #[test]
    fn a_histogram_has_a_bar_for_each_bin() {
        insta::assert_snapshot!(histogram(&example().levels[0], None).unwrap(), @"
        Latencies at concurrency 1:
          < 1.800 ms    20  ▍
          < 1.964 ms   880  ██████████████████▌
          < 2.141 ms  1900  ████████████████████████████████████████
          < 2.335 ms     0
          < 2.546 ms   200  ████▏
        ");
        let mut many = example().levels[0].clone();
        let bin = |index: u32| HistogramBin {
            below_us: f64::from(index + 1) * 1e3,
            count: u64::from(index),
        };
        many.histogram = (0..99).map(bin).collect();
        let text = histogram(&many, None).unwrap();
        assert_eq!(text.lines().count(), 1 + 13, "{text}");
        for (columns, longest) in [(40, 40), (60, 60), (130, 60)] {
            let text = histogram(&many, Some(columns)).unwrap();
            let widths = text.lines().map(|line| line.chars().count());
            assert_eq!(widths.max(), Some(longest), "{text}");
        }
        many.histogram.clear();
        assert_eq!(histogram(&many, None), None);
    }

    #[test]
    fn a_comparison_has_a_row_for_each_metric() {
        let before = &example().levels[0];
        let mut after = before.clone();
        for (window, factor) in after.windows.iter_mut().zip([1.19, 1.2, 1.21]) {
            window.rate *= factor;
            if let Some(latency) = &mut window.latency_us {
                latency.p50 *= factor;
            }
        }
        let table = comparison(&[Comparison::of(before, &after)]);
        insta::assert_snapshot!(table.draw(Look::Plain), @"
        level          metric    before     after   change       95 % interval  verdict
        concurrency 1  rate       500/s     600/s  +20.0 %  +17.5 % to +22.5 %  better
        concurrency 1  p50     2.000 ms  2.400 ms  +20.0 %  +17.5 % to +22.5 %  worse
        concurrency 1  p90     2.500 ms  2.500 ms   +0.0 %    +0.0 % to +0.0 %  no difference
        concurrency 1  p95     2.800 ms  2.800 ms   +0.0 %    +0.0 % to +0.0 %  no difference
        concurrency 1  p99     3.000 ms  3.000 ms   +0.0 %    +0.0 % to +0.0 %  no difference
        ");
    }

    #[test]
    fn rates_have_three_digits_or_more() {
        for (value, expected) in [
            (12_345.6, "12346"),
            (123.45, "123"),
            (12.345, "12.3"),
            (1.0, "1"),
            (0.25, "0.250"),
            (0.0, "0"),
        ] {
            assert_eq!(rate(value), expected);
        }
    }
}
