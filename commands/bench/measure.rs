//! Levels one after the other, with a bar, until Ctrl-C or SIGTERM.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use ovms::client::load::{LevelReport, LoadProgress, LoadRun, LoadTarget, Traffic, TrafficKind};
use tokio::sync::oneshot;

use super::{
    plan::BenchPlan,
    text::{level_name, milliseconds, rate},
};
use crate::{
    error::Failure,
    infer,
    stopped::{Signals, Stopped},
    ui::{self, counted},
};

/// Interval between two progress lines if no bar is drawn.
const PAUSE: Duration = Duration::from_secs(10);

/// Measures all levels; also returns the signal that ended that before its time.
pub(super) async fn measure(
    plan: &BenchPlan,
    traffic: &Traffic<'_>,
) -> Result<(Vec<LevelReport>, Option<Stopped>), Failure> {
    let mut signals = Signals::listen()?;
    let started = Instant::now();
    let mut levels = Vec::new();
    let count = plan.targets.len();
    for (index, target) in plan.targets.iter().enumerate() {
        let left = plan.rule.max_time.saturating_sub(started.elapsed());
        if left.is_zero() {
            warn_of_unmeasured(plan, count - index);
            break;
        }
        let run = LoadRun::new(plan.level(*target, left));
        let head = match count {
            1 => String::new(),
            _ => format!("{} of {count}: ", index + 1),
        };
        let longest = longest(plan.rule.longest(left));
        let name = format!("{head}{}, {longest}", target_name(*target));
        let stopped = one(&run, traffic, &mut signals, &name).await;
        let stopped = stopped.map_err(|failure| of_generator(plan, failure))?;
        let report = run.report();
        let is_measured = report.is_some();
        levels.extend(report);
        if stopped.is_some() {
            return Ok((levels, stopped));
        }
        if !is_measured {
            warn_of_unmeasured(plan, count - index);
            break;
        }
    }
    Ok((levels, None))
}

/// Warns of the levels for which there was no time.
fn warn_of_unmeasured(plan: &BenchPlan, missing: usize) {
    let (limit, missing) = (plan.rule.max_time, counted(missing, "level"));
    ui::warn(&format!(
        "warning: {missing} not measured: `--max-time` of {limit:?} has passed"
    ));
}

/// Text of the server for a request on the stream of a generator that has not ended.
pub(super) const BUSY: &str = "Node is already processing data";

/// Hint for that.
pub(super) const OF_GENERATOR: &str =
    "a generator sends several responses per request: use `--responses end`";

/// Adds what to do about a generator whose answers are not waited for.
fn of_generator(plan: &BenchPlan, failure: Failure) -> Failure {
    let is_part = matches!(plan.kind, TrafficKind::Streams { responses: Some(_) });
    let is_busy = failure.message().contains(BUSY);
    failure.may_hint((is_part && is_busy).then(|| OF_GENERATOR.to_owned()))
}

/// Writes the longest time of a level.
fn longest(time: Duration) -> String {
    // What is left of the time for all levels has many digits.
    let seconds = (time.as_secs_f64() * 10.0).ceil() / 10.0;
    format!("up to {seconds} s")
}

/// Returns the name of a level that is to be measured.
pub(super) fn target_name(target: LoadTarget) -> String {
    match target {
        LoadTarget::Concurrency(lanes) => level_name(Some(lanes), None),
        LoadTarget::Rate { per_second, .. } => level_name(None, Some(per_second)),
    }
}

/// Measures a level. A signal stops it, and is returned; a second one does not wait for what is in flight.
async fn one(
    run: &LoadRun,
    traffic: &Traffic<'_>,
    signals: &mut Signals,
    name: &str,
) -> Result<Option<Stopped>, Failure> {
    let (stop, stopped) = oneshot::channel();
    let running = run.run(traffic, async {
        let _ = stopped.await;
    });
    let line = || format!("{name}: {}", message(run.progress()));
    let (ended, by) = until_signal(running, stop, async || signals.next().await, line).await;
    ended.transpose().map_err(infer::load_failure)?;
    Ok(by)
}

/// Waits for a level with a bar. Returns its end, unless a second signal left it, and the first signal, which may also have
/// come when the level was over and only what was in flight was waited for.
async fn until_signal<E>(
    running: impl Future<Output = E>,
    stop: oneshot::Sender<()>,
    mut next: impl AsyncFnMut() -> Stopped,
    line: impl Fn() -> String,
) -> (Option<E>, Option<Stopped>) {
    let (mut stop, mut by) = (Some(stop), None);
    let mut running = pin!(running);
    let bar = ui::waiting();
    let mut step = tokio::time::interval(ui::BAR_STEP);
    let mut reported = Instant::now();
    loop {
        tokio::select! {
            biased;
            ended = &mut running => return (Some(ended), by),
            signal = next() => match stop.take() {
                Some(stop) => {
                    by = Some(signal);
                    // Only gone if the run has ended.
                    let _ = stop.send(());
                }
                None => return (None, by),
            },
            _ = step.tick() => {
                if !bar.is_hidden() {
                    bar.set_message(ui::clipped(&line()));
                    bar.tick();
                } else if reported.elapsed() >= PAUSE {
                    reported = Instant::now();
                    ui::note(&line());
                }
            }
        }
    }
}

fn message(progress: LoadProgress) -> String {
    let LoadProgress {
        done,
        failed,
        windows,
        rate: last,
        p99_us,
        ..
    } = progress;
    let failed = match failed {
        0 => String::new(),
        _ => format!(", {failed} failed"),
    };
    let window = match (last, p99_us) {
        (Some(last), Some(p99)) => {
            let (last, p99) = (rate(last), milliseconds(p99));
            format!("; window {windows}: {last}/s, p99 {p99} ms")
        }
        _ => String::new(),
    };
    format!("{done} answers{failed}{window}")
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use ovms::client::load::LoadEnd;
    use tokio::sync::oneshot;

    use super::{LoadProgress, Stopped, longest, message, until_signal};

    #[test]
    fn a_level_has_its_longest_time() {
        for (milliseconds, expected) in [
            (500_000, "up to 500 s"),
            (20, "up to 0.1 s"),
            (598_613, "up to 598.7 s"),
        ] {
            assert_eq!(longest(Duration::from_millis(milliseconds)), expected);
        }
    }

    #[tokio::test]
    async fn a_signal_counts_also_when_the_level_was_over() {
        // The level has ended by itself when it hears of the signal, as one does that waits for what is in flight.
        let (stop, stopped) = oneshot::channel();
        let drained = async {
            stopped.await.unwrap();
            LoadEnd::Done
        };
        let mut signals = vec![Stopped::Terminated];
        let next = async || match signals.pop() {
            Some(signal) => signal,
            None => pending().await,
        };
        let (ended, by) = until_signal(drained, stop, next, String::new).await;
        assert_eq!(
            (ended, by),
            (Some(LoadEnd::Done), Some(Stopped::Terminated))
        );
        // The second one does not wait.
        let (stop, _stopped) = oneshot::channel();
        let mut signals = vec![Stopped::Terminated, Stopped::Interrupted];
        let next = async || signals.pop().unwrap();
        let (ended, by) = until_signal(pending::<LoadEnd>(), stop, next, String::new).await;
        assert_eq!((ended, by), (None, Some(Stopped::Interrupted)));
    }

    #[test]
    fn progress_has_the_last_window() {
        let mut progress = LoadProgress {
            done: 1200,
            failed: 0,
            elapsed: Duration::from_secs(1),
            windows: 0,
            rate: None,
            p99_us: None,
        };
        assert_eq!(message(progress), "1200 answers");
        progress.failed = 2;
        progress.windows = 3;
        progress.rate = Some(512.345);
        progress.p99_us = Some(12_345.6);
        assert_eq!(
            message(progress),
            "1200 answers, 2 failed; window 3: 512/s, p99 12.346 ms"
        );
    }
}
