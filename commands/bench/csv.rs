//! A line for each level, for spreadsheets.

use ovms::client::load::LevelReport;

use super::report::BenchReport;

const TITLES: &str = "concurrency,target_rate,rate,ok,failed,mean_us,p50_us,p90_us,p95_us,p99_us,max_us,\
    first_p50_us,first_p99_us,server_queue_us,server_compute_us,client_cpu_us,stable,\
    rows_per_second";

/// Writes a report; what has no value is empty.
pub(super) fn report(report: &BenchReport) -> String {
    let lines = report.levels.iter().map(line);
    let lines: Vec<String> = std::iter::once(TITLES.to_owned()).chain(lines).collect();
    lines.join("\n") + "\n"
}

fn line(level: &LevelReport) -> String {
    let micros = |value: Option<f64>| value.map(|it| format!("{it:.1}")).unwrap_or_default();
    let latency = level.latency_us;
    let first = level.first_response_us;
    let server = level.server;
    let cells = [
        level
            .concurrency
            .map(|it| it.to_string())
            .unwrap_or_default(),
        level
            .target_rate
            .map(|it| it.to_string())
            .unwrap_or_default(),
        format!("{:.3}", level.rate),
        level.ok.to_string(),
        level.failed.to_string(),
        micros(latency.map(|it| it.mean)),
        micros(latency.map(|it| it.p50)),
        micros(latency.map(|it| it.p90)),
        micros(latency.map(|it| it.p95)),
        micros(latency.map(|it| it.p99)),
        micros(latency.map(|it| it.max)),
        micros(first.map(|it| it.p50)),
        micros(first.map(|it| it.p99)),
        micros(server.map(|it| it.queue_us)),
        micros(server.map(|it| it.input_us + it.infer_us + it.output_us)),
        micros(Some(level.client_cpu_us)),
        level.stable.map(|it| it.to_string()).unwrap_or_default(),
        level
            .rows_per_second
            .map(|it| format!("{it:.3}"))
            .unwrap_or_default(),
    ];
    cells.join(",")
}

#[cfg(test)]
mod tests {
    use super::report;
    use crate::bench::report::{example, example_of_one_window};

    #[test]
    fn a_level_is_a_line() {
        let mut example = example();
        example.levels[1].latency_us = None;
        example.levels[1].server = None;
        example.levels[1].rows_per_second = Some(12_000.0);
        insta::assert_snapshot!(report(&example), @"
        concurrency,target_rate,rate,ok,failed,mean_us,p50_us,p90_us,p95_us,p99_us,max_us,first_p50_us,first_p99_us,server_queue_us,server_compute_us,client_cpu_us,stable,rows_per_second
        1,,500.000,3000,0,2100.0,2000.0,2500.0,2800.0,3000.0,4000.0,,,200.0,1215.0,20.0,true,
        4,,1500.000,3000,100,,,,,,,,,,,20.0,false,12000.000
        ");
        let one = report(&example_of_one_window());
        assert!(one.ends_with(",20.0,,\n"), "{one}");
    }
}
