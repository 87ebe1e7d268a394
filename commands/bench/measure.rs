//! Levels one after the other, with a bar, until Ctrl-C.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use ovms::client::load::{LevelReport, LoadEnd, LoadProgress, LoadRun, LoadTarget, Traffic};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use super::{
    plan::BenchPlan,
    text::{level_name, milliseconds, rate},
};
use crate::{
    error::Failure,
    infer,
    ui::{self, counted},
};

/// Interval between two progress lines if no bar is drawn.
const PAUSE: Duration = Duration::from_secs(10);

/// Measures all levels; also returns whether Ctrl-C ended that before its time.
pub(super) async fn measure(
    plan: &BenchPlan,
    traffic: &Traffic<'_>,
) -> Result<(Vec<LevelReport>, bool), Failure> {
    let mut keys = signal(SignalKind::interrupt())?;
    let started = Instant::now();
    let mut levels = Vec::new();
    let count = plan.targets.len();
    for (index, target) in plan.targets.iter().enumerate() {
        let left = plan.rule.max_time.saturating_sub(started.elapsed());
        if left.is_zero() {
            let (limit, missing) = (plan.rule.max_time, counted(count - index, "level"));
            ui::warn(&format!(
                "warning: {missing} not measured: `--max-time` of {limit:?} has passed"
            ));
            break;
        }
        let run = LoadRun::new(plan.level(*target, left));
        let head = match count {
            1 => String::new(),
            _ => format!("{} of {count}: ", index + 1),
        };
        let end = one(&run, traffic, &mut keys, &(head + &name(*target))).await?;
        levels.extend(run.report());
        if end == LoadEnd::Stopped {
            return Ok((levels, true));
        }
    }
    Ok((levels, false))
}

fn name(target: LoadTarget) -> String {
    match target {
        LoadTarget::Concurrency(lanes) => level_name(Some(lanes), None),
        LoadTarget::Rate { per_second, .. } => level_name(None, Some(per_second)),
    }
}

/// Measures a level. Ctrl-C stops it, a second one does not wait for what is in flight.
async fn one(
    run: &LoadRun,
    traffic: &Traffic<'_>,
    keys: &mut Signal,
    name: &str,
) -> Result<LoadEnd, Failure> {
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some(stop);
    let mut running = pin!(run.run(traffic, async {
        let _ = stopped.await;
    }));
    let bar = ui::waiting();
    let mut step = tokio::time::interval(ui::BAR_STEP);
    let mut reported = Instant::now();
    loop {
        tokio::select! {
            biased;
            ended = &mut running => return ended.map_err(infer::load_failure),
            _ = keys.recv() => match stop.take() {
                // Only gone if the run has ended.
                Some(stop) => drop(stop.send(())),
                None => return Ok(LoadEnd::Stopped),
            },
            _ = step.tick() => {
                let line = || format!("{name}: {}", message(run.progress()));
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
    use std::time::Duration;

    use super::{LoadProgress, message};

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
