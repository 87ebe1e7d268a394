//! Load measurement: a bar during the run, then the results.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use ovms::client::{
    Client, Request,
    load::{
        ErrorCount, LevelReport, LoadPlan, LoadProgress, LoadRun, LoadRunError, Traffic,
        TrafficKind, Until, WeightedRequest,
    },
    output::number,
};
use serde::Serialize;

use super::call_failure;
use crate::{
    error::{Failure, FailureKind, unless_unread},
    error_format,
    stopped::{Signals, Stopped},
    ui::{self, Look, Table},
};

/// Interval between two progress lines if no bar is drawn.
const PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of error texts shown.
const MAX_ERRORS: usize = 5;

/// Sends the request as planned, and prints the measurement.
pub(super) async fn run(
    client: &Client,
    request: &Request,
    plan: LoadPlan,
    is_json: bool,
) -> Result<(), Failure> {
    let requests = vec![WeightedRequest {
        request: request.clone(),
        weight: 1.0,
    }];
    let lanes = plan.target.max_in_flight();
    let traffic = Traffic::new(client, requests, TrafficKind::Unary, lanes, 0);
    let traffic = traffic.map_err(call_failure::client)?;
    let load = LoadRun::new(plan);
    let mut signals = Signals::listen()?;
    let stopped = tokio::select! {
        result = load.run(&traffic, pending()) => {
            result.map_err(failed)?;
            None
        }
        () = draw(&load, plan) => None,
        signal = signals.next() => Some(signal),
    };
    let report = LoadFigures::of(load.report());
    unless_unread(print(&report, is_json))?;
    outcome(&report, stopped)
}

/// Returns the failure of a run.
pub(crate) fn failed(error: LoadRunError) -> Failure {
    match error {
        LoadRunError::Client(error) => call_failure::of_load(error),
        LoadRunError::Timer(_) => Failure::of(FailureKind::SystemPart, &error),
    }
}

/// Results as one JSON object.
#[derive(Debug, Default, Serialize)]
struct LoadFigures {
    ok: u64,
    failed: u64,
    seconds: f64,
    ok_per_second: f64,
    latency_ms: Option<Latencies>,
    errors: Vec<ErrorCount>,
}

/// Latencies in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
struct Latencies {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl LoadFigures {
    /// Takes the figures of a report; there is none before the first request that counts.
    fn of(report: Option<LevelReport>) -> Self {
        let Some(mut report) = report else {
            return Self::default();
        };
        report.errors.truncate(MAX_ERRORS);
        Self {
            ok: report.ok,
            failed: report.failed,
            seconds: report.seconds,
            ok_per_second: report.rate,
            latency_ms: report.latency_us.map(|it| Latencies {
                mean: milliseconds(it.mean),
                p50: milliseconds(it.p50),
                p90: milliseconds(it.p90),
                p99: milliseconds(it.p99),
                max: milliseconds(it.max),
            }),
            errors: report.errors,
        }
    }
}

/// Converts microseconds, in whole nanoseconds: their quotient alone has digits that were not measured, as in
/// 0.36300699999999997.
fn milliseconds(microseconds: f64) -> f64 {
    (microseconds * 1e3).round() / 1e6
}

/// Draws the bar until it is dropped; if none can be drawn, prints a line at intervals.
async fn draw(load: &LoadRun, plan: LoadPlan) {
    let bar = ui::bar(1000);
    let mut step = tokio::time::interval(ui::BAR_STEP);
    let mut reported = Instant::now();
    loop {
        step.tick().await;
        let progress = load.progress();
        let done = thousandths(progress, plan);
        if !bar.is_hidden() {
            bar.set_position(done);
            bar.set_message(message(progress));
        } else if reported.elapsed() >= PAUSE {
            reported = Instant::now();
            ui::note(&format!("{} %, {}", done / 10, message(progress)));
        }
    }
}

/// Returns the progress in thousandths: by number or by time, whichever is further.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a thousand"
)]
fn thousandths(progress: LoadProgress, plan: LoadPlan) -> u64 {
    let Until::Limits { requests, duration } = plan.until else {
        return 0;
    };
    let by_number = requests.map_or(0.0, |requests| progress.done as f64 / requests as f64);
    let by_time = duration.map_or(0.0, |limit| {
        progress.elapsed.as_secs_f64() / limit.as_secs_f64()
    });
    (by_number.max(by_time).min(1.0) * 1000.0) as u64
}

fn message(progress: LoadProgress) -> String {
    let LoadProgress { done, failed, .. } = progress;
    match failed {
        0 => format!("{done} answers"),
        _ => format!("{done} answers, {failed} failed"),
    }
}

fn print(report: &LoadFigures, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return ui::print(measurement_json(report) + "\n");
    }
    let look = Look::of_stdout();
    ui::print(measurement_table(report).draw(look))?;
    if report.errors.is_empty() {
        return Ok(());
    }
    let mut table = Table::new().right(["times"]).left(["error"]);
    for ErrorCount { times, error } in &report.errors {
        table.row([times.to_string(), error.clone()]);
    }
    ui::print(format!("\n{}", table.draw(look)))
}

/// Returns the result of the measurement: signals and failures show in the exit code.
fn outcome(report: &LoadFigures, stopped: Option<Stopped>) -> Result<(), Failure> {
    let (done, failed) = (report.ok + report.failed, report.failed);
    if let Some(stopped) = stopped {
        return Err(stopped.failure(done));
    }
    if failed > 0 {
        let failure = Failure::failed(format!("{failed} of {done} requests failed"));
        // The measurement on stdout has them, too, but not where this object is read.
        return Err(match error_format::is_json() {
            true => with_reasons(failure, &report.errors),
            false => failure,
        });
    }
    Ok(())
}

/// Adds the errors of the requests, with their numbers.
fn with_reasons(failure: Failure, errors: &[ErrorCount]) -> Failure {
    let texts = errors
        .iter()
        .map(|ErrorCount { times, error }| match times {
            1 => format!("once: {error}"),
            times => format!("{times} times: {error}"),
        });
    texts.fold(failure, Failure::detail)
}

fn measurement_table(report: &LoadFigures) -> Table {
    let mut table = Table::new().right([
        "ok", "failed", "seconds", "ok/s", "mean ms", "p50 ms", "p90 ms", "p99 ms", "max ms",
    ]);
    let mut cells = vec![
        report.ok.to_string(),
        report.failed.to_string(),
        format!("{:.2}", report.seconds),
        number(report.ok_per_second),
    ];
    match report.latency_ms {
        Some(it) => {
            let latencies = [it.mean, it.p50, it.p90, it.p99, it.max];
            cells.extend(latencies.map(|latency| format!("{latency:.3}")));
        }
        None => cells.extend([ui::NOTHING; 5].map(str::to_owned)),
    }
    table.row(cells);
    table
}

fn measurement_json(report: &LoadFigures) -> String {
    serde_json::to_string(report).expect("numbers and texts have a JSON form")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::client::load::{ErrorCount, LoadPlan, LoadProgress, LoadTarget, Until};

    use super::{
        Latencies, LoadFigures, measurement_json, measurement_table, milliseconds, outcome,
        thousandths, with_reasons,
    };
    use crate::{error::Failure, stopped::Stopped, ui::Look};

    fn report(failed: u64) -> LoadFigures {
        LoadFigures {
            ok: 1000 - failed,
            failed,
            seconds: 2.5,
            ok_per_second: 400.0,
            latency_ms: (failed < 1000).then_some(Latencies {
                mean: 2.5,
                p50: 2.0,
                p90: 4.0,
                p99: 9.0,
                max: 12.345,
            }),
            errors: (failed > 0)
                .then(|| ErrorCount {
                    times: failed,
                    error: "UNAVAILABLE: busy".to_owned(),
                })
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn a_measurement_is_one_row() {
        insta::assert_snapshot!(measurement_table(&report(0)).draw(Look::Plain), @r"
          ok  failed  seconds  ok/s  mean ms  p50 ms  p90 ms  p99 ms  max ms
        1000       0     2.50   400    2.500   2.000   4.000   9.000  12.345
        ");
        insta::assert_snapshot!(measurement_table(&report(1000)).draw(Look::Plain), @r"
        ok  failed  seconds  ok/s  mean ms  p50 ms  p90 ms  p99 ms  max ms
         0    1000     2.50   400        -       -       -       -       -
        ");
    }

    #[test]
    fn a_measurement_is_one_object() {
        insta::assert_snapshot!(
            measurement_json(&report(3)),
            @r#"{"ok":997,"failed":3,"seconds":2.5,"ok_per_second":400.0,"latency_ms":{"mean":2.5,"p50":2.0,"p90":4.0,"p99":9.0,"max":12.345},"errors":[{"times":3,"error":"UNAVAILABLE: busy"}]}"#
        );
        insta::assert_snapshot!(
            measurement_json(&report(1000)),
            @r#"{"ok":0,"failed":1000,"seconds":2.5,"ok_per_second":400.0,"latency_ms":null,"errors":[{"times":1000,"error":"UNAVAILABLE: busy"}]}"#
        );
    }

    #[test]
    fn latencies_have_the_digits_that_were_measured() {
        assert_eq!((0.000_363_007 * 1e3).to_string(), "0.36300699999999997");
        for (microseconds, written) in [(363.007, "0.363007"), (1.0, "0.001"), (2e6, "2000")] {
            assert_eq!(milliseconds(microseconds).to_string(), written);
        }
    }

    #[test]
    fn failures_and_signals_are_reported() {
        let text = |result: Result<(), Failure>| result.err().map(|failure| failure.text());
        assert_eq!(text(outcome(&report(0), None)), None);
        let failed = text(outcome(&report(2), None)).unwrap();
        assert_eq!(failed, "error: 2 of 1000 requests failed\n");
        let errors = [(2, "UNAVAILABLE: busy"), (1, "no answer")];
        let errors = errors.map(|(times, error)| ErrorCount {
            times,
            error: error.to_owned(),
        });
        let failure = with_reasons(Failure::failed("3 of 9 requests failed"), &errors);
        insta::assert_snapshot!(failure.text(), @r"
        error: 3 of 9 requests failed
          2 times: UNAVAILABLE: busy
          once: no answer
        ");
        for (signal, what) in [
            (Stopped::Interrupted, "interrupted"),
            (Stopped::Terminated, "terminated"),
        ] {
            let stopped = text(outcome(&report(2), Some(signal))).unwrap();
            assert_eq!(stopped, format!("error: {what} after 1000 requests\n"));
        }
    }

    #[test]
    fn the_bar_follows_the_limit_that_is_nearer() {
        let plan = |requests, seconds: Option<u64>| LoadPlan {
            target: LoadTarget::Concurrency(1),
            warmup: 0,
            until: Until::Limits {
                requests,
                duration: seconds.map(Duration::from_secs),
            },
        };
        let progress = LoadProgress {
            done: 1000,
            failed: 0,
            elapsed: Duration::from_millis(2500),
            windows: 0,
            rate: None,
            p99_us: None,
        };
        assert_eq!(thousandths(progress, plan(Some(4000), None)), 250);
        assert_eq!(thousandths(progress, plan(None, Some(5))), 500);
        assert_eq!(thousandths(progress, plan(Some(4000), Some(5))), 500);
        assert_eq!(thousandths(progress, plan(Some(10), None)), 1000);
    }
}
