//! A run: connect, probe, measure, show, check.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ovms::client::{
    Client, ModelMetadata,
    load::{Comparison, LevelEnd, LevelReport, Traffic, TrafficKind},
};

use super::{
    args::{BenchArgs, BenchFormat},
    csv,
    differences::{differing, gate, remark},
    html,
    measure::{BUSY, OF_GENERATOR, measure, target_name},
    mix::requests,
    plan::BenchPlan,
    report::{BenchReport, FORM, ReportedModel},
    saved,
    text::{self, level_name, rate},
};
use crate::{
    error::{Failure, unless_unread},
    infer::{self, runtime, unless_interrupted},
    stopped::Stopped,
    ui::{self, Look},
    written_files,
};

/// Share of a processor from which on the client may be what limits the load.
const BUSY_CLIENT: f64 = 0.9;

/// Share of its rate that an open loop has to reach, and how many deviations of a random number of requests may be
/// missing beside that.
const REACHED: f64 = 0.95;
const DEVIATIONS: f64 = 3.0;

/// Note on what the verdicts of a comparison do not cover.
pub(super) const NOT_COVERED: &str = "note: intervals cover variation within a run, not noise between runs or other load on the machine";

/// Runs `ovms bench`.
pub(crate) fn run(args: BenchArgs) -> Result<(), Failure> {
    if let Some(path) = saved::report_of(&args) {
        return saved::run(&path, args);
    }
    // Files and standard input are read here, where Ctrl-C still ends the process by itself.
    let plan = BenchPlan::new(args)?;
    runtime()?.block_on(plan.run())
}

impl BenchPlan {
    async fn run(self) -> Result<(), Failure> {
        let started_at = SystemTime::now();
        let (client, model) = unless_interrupted(self.job.open()).await?;
        let mix = unless_interrupted(requests(&self, &model)).await?;
        let inputs = mix.inputs();
        let traffic = Traffic::new(
            &client,
            mix.requests,
            self.kind,
            self.max_lanes(),
            self.seed,
        );
        let mut traffic = traffic.map_err(infer::client_failure)?;
        if self.is_in_turn {
            traffic = traffic.in_turn();
        }
        let probe = async {
            traffic.probe().await.map_err(|(index, error)| {
                let failure = infer::load_refusal(error);
                match mix.places.get(index) {
                    Some(place) => failure.at(place),
                    None => failure,
                }
            })
        };
        unless_interrupted(probe).await?;
        let asked = async {
            let server = server_of(&client).await;
            let batching = client.model_batching(&self.job.model).await;
            Ok((server, batching))
        };
        let (server, batching) = unless_interrupted(asked).await?;
        let mut report = self.report(&model);
        report.server = server;
        report.served = Some(ReportedModel {
            versions: model.versions.clone(),
            platform: Some(model.platform.clone()).filter(|it| !it.is_empty()),
            batching,
        });
        report.flags = Some(self.flags(&self.job.base(&model)?));
        report.inputs = inputs;
        report.started_at = started_at
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        if let Some(before) = &self.before {
            // Before minutes of a load that says nothing.
            gate(before, &report, &self.verdict)?;
        }
        let (levels, stopped) = measure(&self, &traffic).await?;
        (report.levels, report.interrupted) = (levels, stopped.is_some());
        if let Some(before) = &self.before {
            report.comparison = compared(&before.levels, &report.levels);
            report.differs = differing(before, &report);
        }
        let conditions = self.verdict.fail_if.iter();
        let findings = conditions.flat_map(|it| it.findings(&report.levels, &report.comparison));
        report.findings = findings.collect();
        report.findings.extend(self.unmeasured(&report));
        self.show(&report)?;
        self.outcome(&report, stopped)
    }

    /// Returns a report without figures, and without what the server reports.
    fn report(&self, model: &ModelMetadata) -> BenchReport {
        BenchReport {
            ovms_bench: FORM,
            model: model.name.clone(),
            model_version: self.job.model.version.clone(),
            api: self.job.server.api.to_string(),
            url: self.job.server.address.to_string(),
            server: None,
            served: None,
            flags: None,
            started_at: 0,
            requests: match self.kind {
                TrafficKind::Unary => "unary".to_owned(),
                TrafficKind::Sequences { length } => format!("sequences of {length}"),
                TrafficKind::Streams { .. } => "streams".to_owned(),
            },
            inputs: Vec::new(),
            seed: self.seed,
            interrupted: false,
            levels: Vec::new(),
            comparison: Vec::new(),
            differs: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns findings of the levels that were asked for and not reached, of which every condition is unknown.
    fn unmeasured(&self, report: &BenchReport) -> Vec<String> {
        if report.interrupted || self.verdict.fail_if.is_empty() {
            return Vec::new();
        }
        let missing = self.targets.iter().skip(report.levels.len());
        let finding = |target| {
            let level = target_name(target);
            format!("{level} was not measured, so its conditions are unknown")
        };
        missing.copied().map(finding).collect()
    }

    /// Returns why a report does not take the place of the one that it is compared with: a run that has not passed would
    /// pass the next time, and a part of a run has not all levels.
    fn why_no_base(&self, report: &BenchReport) -> Option<&'static str> {
        if report.interrupted {
            Some("was interrupted")
        } else if !report.findings.is_empty() {
            Some("did not pass")
        } else if report.levels.len() < self.targets.len() {
            Some("has not measured all levels")
        } else if !report.has_figures() {
            Some("has measured nothing")
        } else {
            None
        }
    }

    fn show(&self, report: &BenchReport) -> Result<(), Failure> {
        let json = || serde_json::to_string(report).expect("numbers and texts have a JSON form");
        unless_unread(ui::print(match self.output.output {
            BenchFormat::Table => text::report(report, self.output.histogram),
            BenchFormat::Json => json() + "\n",
            BenchFormat::Csv => csv::report(report),
        }))?;
        // The lines of CSV are of levels.
        if self.output.output == BenchFormat::Csv
            && let Some(table) = text::compared_with(report, Look::of_stderr())
        {
            ui::print_aside(&table);
        }
        let place = self.output.save.as_ref();
        let against = place.filter(|path| self.verdict.is_against(path));
        let kept = against.zip(self.why_no_base(report));
        let saved = place.filter(|_| kept.is_none());
        if let Some(path) = saved {
            write(path, json() + "\n")?;
        }
        if let Some((path, reason)) = kept {
            let path = path.display();
            ui::warn(&format!(
                "warning: {path} is kept as it was, since this run {reason}"
            ));
        }
        if let Some(path) = &self.output.html {
            write(path, html::report(report))?;
        }
        for note in notes(report) {
            ui::note(&note);
        }
        if self.before.as_ref().is_some_and(|it| it.interrupted) {
            let path = self.verdict.against.iter().map(|it| it.display());
            let path: String = path.map(|it| it.to_string()).collect();
            ui::warn(&format!(
                "warning: {path} (`--against`) is from an interrupted run and may have few windows; `--save {path}` \
                 without `--against` replaces it"
            ));
        }
        remark(&report.differs);
        for warning in uncertain(report, self.verdict.is_by_comparison()) {
            ui::warn(&warning);
        }
        if self.before.is_some() && report.comparison.is_empty() {
            ui::warn("warning: the report of `--against` has none of these levels");
        }
        if self.is_table() {
            let written = saved.into_iter().chain(&self.output.html);
            for path in written {
                ui::note(&format!("Wrote {}", path.display()));
            }
        }
        Ok(())
    }

    /// Returns the result of the run as an exit code.
    fn outcome(&self, report: &BenchReport, stopped: Option<Stopped>) -> Result<(), Failure> {
        let (failed, total) = report.failures();
        let findings = &report.findings;
        let failure = if let Some(stopped) = stopped {
            stopped.failure(total)
        } else if !findings.is_empty() {
            found(findings)
        } else if failed > 0 && !self.verdict.allow_errors {
            Failure::failed(format!("{failed} of {total} requests failed"))
                .may_hint(is_generator(report).then(|| OF_GENERATOR.to_owned()))
                .hint("`--allow-errors` accepts that")
        } else if report.levels.is_empty() {
            Failure::failed("nothing was measured: `--max-time` passed within the warm-up").hint(
                "`--max-time` gives a run more time, and `--warmup` has the number of requests before it",
            )
        } else if failed == 0 && !report.has_figures() {
            Failure::failed(
                "nothing was measured: no request was answered within the windows that count",
            )
            .hint("a longer `--interval`, or `--duration`, gives the windows more time")
        } else {
            return Ok(());
        };
        let findings = findings.iter();
        Err(findings.fold(failure, Failure::detail))
    }
}

/// Returns whether requests failed since those before them on their streams were still answered.
fn is_generator(report: &BenchReport) -> bool {
    let mut errors = report.levels.iter().flat_map(|level| &level.errors);
    errors.any(|it| it.error.contains(BUSY))
}

/// Compares the levels that two reports have.
pub(super) fn compared(before: &[LevelReport], levels: &[LevelReport]) -> Vec<Comparison> {
    let comparison = levels.iter().filter_map(|level| {
        let mut before = before.iter();
        let before = before.find(|before| before.is_same_level(level))?;
        Some(Comparison::of(before, level))
    });
    comparison.collect()
}

/// Returns the failure of findings, which are its details.
pub(super) fn found(findings: &[String]) -> Failure {
    let conditions = ui::counted(findings.len(), "finding");
    Failure::failed(format!("{conditions} of `--fail-if`"))
}

/// Writes a file, or replaces it, and makes the folders that are missing.
pub(super) fn write(path: &Path, contents: String) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .map_err(|error| Failure::cannot("create the folder", folder, &error))?;
    written_files::write(path, contents, true)
}

/// Returns name and version of the server, if it says so.
async fn server_of(client: &Client) -> Option<String> {
    let metadata = client.server_metadata().await.ok().flatten()?;
    Some(format!("{} {}", metadata.name, metadata.version))
}

/// Returns what could not be compared, because the windows vary too much or do not agree; `is_gated` says whether
/// `--fail-if worse` passes it.
pub(super) fn uncertain(report: &BenchReport, is_gated: bool) -> Vec<String> {
    let passed = match is_gated {
        true => ", and `--fail-if worse` passes it",
        false => "",
    };
    let warning = |it: &Comparison| {
        let metrics: Vec<String> = it.uncertain().map(|it| it.metric.to_string()).collect();
        (!metrics.is_empty()).then(|| {
            let why = match it.unstable {
                true => {
                    ", since the level was not stable in both reports; `--interval` and `--max-trials` give it more room"
                }
                false => "; `--windows 10` in both runs narrows the intervals",
            };
            format!(
                "warning: at {} the comparison of {} is too uncertain for a verdict{passed}{why}",
                level_name(it.concurrency, it.target_rate),
                metrics.join(", ")
            )
        })
    };
    report.comparison.iter().filter_map(warning).collect()
}

/// Returns what is to be known before the figures are believed.
fn notes(report: &BenchReport) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.comparison.is_empty() {
        notes.push(NOT_COVERED.to_owned());
    }
    for level in &report.levels {
        let at = level_name(level.concurrency, level.target_rate);
        match level.end {
            LevelEnd::MaxTrials if level.stable == Some(false) => notes.push(format!(
                "note: {at} is not stable after {}; `--interval`, `--max-trials` and `--stability` \
                 give it more room",
                ui::counted(level.windows.len(), "window")
            )),
            LevelEnd::MaxTime => notes.push(match level.stable {
                Some(_) => format!("note: {at} is not stable at `--max-time`"),
                None => format!(
                    "note: {at} has one window at `--max-time`, so whether it is stable is unknown"
                ),
            }),
            // What was planned as one window is no surprise.
            LevelEnd::Stable | LevelEnd::MaxTrials | LevelEnd::Limit | LevelEnd::Interrupted => {}
        }
        if level.latency_us.is_none() && level.failed == 0 {
            let window = report.flags.as_ref().map(|it| it.window_seconds);
            notes.push(unanswered(level, window, &at));
        }
        if let Some(target) = level.target_rate.filter(|it| is_behind(level, *it)) {
            notes.push(format!(
                "note: the server answered {} of {} requests a second",
                rate(level.rate),
                rate(target)
            ));
        }
        if level.client_load > BUSY_CLIENT {
            notes.push(format!(
                "note: at {at} the client took {:.0} % of a core, and may limit the load",
                level.client_load * 100.0
            ));
        }
    }
    notes
}

/// Returns the note on a level without latencies and errors, whose windows are so long, in seconds.
fn unanswered(level: &LevelReport, window: Option<f64>, at: &str) -> String {
    let is_rare = |target: &f64| window.is_some_and(|window| window * target < 1.0);
    match level.target_rate.filter(is_rare) {
        Some(target) => {
            // In whole milliseconds, as one would write it.
            let pause = Duration::try_from_secs_f64((1e3 / target).ceil() / 1e3);
            let pause = pause.unwrap_or(Duration::MAX);
            format!(
                "note: no request was due in the last windows at {at}: `--interval` must be longer than the {pause:?} \
                 between two requests"
            )
        }
        None => {
            format!("note: no responses at {at}: `--interval` must be longer than a request takes")
        }
    }
}

/// Returns whether fewer requests were answered than were due, by more than chance.
#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn is_behind(level: &LevelReport, target: f64) -> bool {
    let due = target * level.seconds;
    (level.ok as f64) < due * REACHED - DEVIATIONS * due.sqrt()
}

#[cfg(test)]
mod tests {
    use ovms::client::load::{Difference, MetricDifference};

    use super::{Comparison, LevelEnd, notes, unanswered, uncertain};
    use crate::bench::report::{example, example_of_one_window};

    #[test]
    fn a_comparison_that_is_too_uncertain_is_warned_of() {
        let before = example();
        let mut after = example();
        assert_eq!(uncertain(&after, false), [""; 0]);
        for (window, p99) in after.levels[0].windows.iter_mut().zip([2e3, 20e3, 2.2e3]) {
            window.latency_us.as_mut().unwrap().p99 = p99;
        }
        let compared = Comparison::of(&before.levels[0], &after.levels[0]);
        after.comparison = vec![compared];
        insta::assert_snapshot!(uncertain(&after, false).join("\n"), @"warning: at concurrency 1 the comparison of p99 is too uncertain for a verdict; `--windows 10` in both runs narrows the intervals");
        insta::assert_snapshot!(uncertain(&after, true).join("\n"), @"warning: at concurrency 1 the comparison of p99 is too uncertain for a verdict, and `--fail-if worse` passes it; `--windows 10` in both runs narrows the intervals");
        insta::assert_snapshot!(notes(&after)[0], @"note: intervals cover variation within a run, not noise between runs or other load on the machine");
    }

    #[test]
    fn a_level_that_was_not_stable_has_no_verdict() {
        let (mut before, mut after) = (example(), example());
        let slow = &mut after.levels[0];
        for window in &mut slow.windows {
            window.rate *= 0.5;
        }
        let compared = Comparison::of(&before.levels[0], slow);
        assert_eq!(compared.metrics[0].difference, Difference::Worse);
        for is_stable in [false, true] {
            before.levels[0].stable = Some(is_stable);
            after.levels[0].stable = Some(!is_stable);
            let compared = Comparison::of(&before.levels[0], &after.levels[0]);
            assert!(compared.unstable);
            let is_known =
                |it: &&MetricDifference| it.difference != Difference::None || !it.uncertain;
            assert_eq!(compared.metrics.iter().find(is_known), None);
            after.comparison = vec![compared];
            insta::allow_duplicates! {
                insta::assert_snapshot!(uncertain(&after, false).join("\n"), @"warning: at concurrency 1 the comparison of rate, p50, p90, p95, p99 is too uncertain for a verdict, since the level was not stable in both reports; `--interval` and `--max-trials` give it more room");
            }
        }
    }

    #[test]
    fn notes_say_what_figures_are_not() {
        let mut report = example();
        report.levels[0].client_load = 0.97;
        let mut open = report.levels[0].clone();
        open.concurrency = None;
        open.target_rate = Some(1000.0);
        open.client_load = 0.1;
        report.levels.push(open);
        insta::assert_snapshot!(notes(&report).join("\n"), @"
        note: at concurrency 1 the client took 97 % of a core, and may limit the load
        note: concurrency 4 is not stable after 3 windows; `--interval`, `--max-trials` and `--stability` give it more room
        note: the server answered 500 of 1000 requests a second
        ");
        let mut one = example_of_one_window();
        assert_eq!(notes(&one), [""; 0]);
        let mut rare = one.levels[0].clone();
        (rare.concurrency, rare.target_rate) = (None, Some(0.3));
        let note = |window| unanswered(&rare, window, "rate 0.300/s");
        insta::assert_snapshot!(note(Some(0.2)), @"note: no request was due in the last windows at rate 0.300/s: `--interval` must be longer than the 3.334s between two requests");
        for window in [Some(4.0), None] {
            assert_eq!(
                note(window),
                "note: no responses at rate 0.300/s: `--interval` must be longer than a request takes"
            );
        }
        one.levels[0].end = LevelEnd::MaxTime;
        insta::assert_snapshot!(notes(&one).join("\n"), @"note: concurrency 1 has one window at `--max-time`, so whether it is stable is unknown");
    }
}
