//! Settings in which two reports differ, beside their figures.

use std::time::Duration;

use ovms::{client::ModelBatching, text::cut_chars};
use serde::Serialize;

use super::{
    args::VerdictArgs,
    report::{BenchReport, ReportedFlags},
    text::level_name,
};
use crate::{error::Failure, ui};

/// Maximum number of characters of a value in a line.
const MAX_SHOWN: usize = 120;

/// Setting that two reports do not have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DifferingSetting {
    setting: &'static str,
    before: String,
    after: String,
    /// Indicates that the requests are others, so that figures are of different work.
    #[serde(skip)]
    is_of_work: bool,
}

/// Returns the settings in which two reports differ, as far as both have them.
pub(super) fn differing(before: &BenchReport, report: &BenchReport) -> Vec<DifferingSetting> {
    let of_work = pairs(work(before), work(report)).map(|it| (it, true));
    let others = pairs(settings(before), settings(report)).map(|it| (it, false));
    let both = of_work.chain(others);
    both.map(|((setting, before, after), is_of_work)| DifferingSetting {
        setting,
        before,
        after,
        is_of_work,
    })
    .collect()
}

/// Reports the differences of two reports: a warning for other work, and a note for the rest.
pub(super) fn remark(differing: &[DifferingSetting]) {
    let line = |is_of_work| {
        let of_kind = differing.iter().filter(|it| it.is_of_work == is_of_work);
        let listed = listed(of_kind);
        (!listed.is_empty()).then_some(listed)
    };
    if let Some(listed) = line(true) {
        ui::warn(&format!(
            "warning: the report of `--against` measured a different workload: {listed}"
        ));
    }
    if let Some(listed) = line(false) {
        ui::note(&format!(
            "note: the report of `--against` has other settings: {listed}"
        ));
    }
}

/// Refuses a gate by a report of other work, whatever its figures are.
pub(super) fn gate(
    before: &BenchReport,
    report: &BenchReport,
    verdict: &VerdictArgs,
) -> Result<(), Failure> {
    let differing = differing(before, report);
    let listed = listed(differing.iter().filter(|it| it.is_of_work));
    if !verdict.is_by_comparison() || listed.is_empty() {
        return Ok(());
    }
    let against = verdict.against.iter().map(|it| it.display().to_string());
    let against: String = against.collect();
    let text = format!(
        "`--fail-if worse` cannot compare with {against}, which measured a different workload: {listed}"
    );
    Err(Failure::failed(text).hint(
        "`--against` takes a report of the same requests, which `--save FILE` writes; without `--fail-if worse` they \
         are compared all the same",
    ))
}

/// Lists settings in a line.
fn listed<'a>(differing: impl Iterator<Item = &'a DifferingSetting>) -> String {
    let written = differing.map(|it| {
        let DifferingSetting {
            setting,
            before,
            after,
            ..
        } = it;
        format!(
            "{setting} {} here, {} there",
            cut_chars(after, MAX_SHOWN),
            cut_chars(before, MAX_SHOWN)
        )
    });
    written.collect::<Vec<_>>().join("; ")
}

/// Setting by its name; `None` where a report does not have it.
type KnownSetting = (&'static str, Option<String>);

/// Puts the settings together that differ.
fn pairs(
    before: Vec<KnownSetting>,
    after: Vec<KnownSetting>,
) -> impl Iterator<Item = (&'static str, String, String)> {
    let both = before.into_iter().zip(after);
    both.filter_map(|((setting, before), (_, after))| {
        let (before, after) = (before?, after?);
        (before != after).then_some((setting, before, after))
    })
}

/// Returns what the requests of a report are.
fn work(report: &BenchReport) -> Vec<KnownSetting> {
    // Reports of earlier versions do not have their inputs.
    let inputs = (!report.inputs.is_empty()).then(|| all(report.inputs.iter()));
    vec![
        ("model", Some(report.model.clone())),
        ("api", Some(report.api.clone())),
        ("requests", Some(report.requests.clone())),
        ("inputs", inputs),
    ]
}

/// Returns how a report was measured, and what the server reported of the model.
fn settings(report: &BenchReport) -> Vec<KnownSetting> {
    let levels = report.levels.iter();
    let levels = all(levels.map(|it| level_name(it.concurrency, it.target_rate)));
    let asked = report.model_version.as_deref().unwrap_or("default");
    let served = report.served.as_ref();
    let versions = served.map(|it| all(it.versions.iter()));
    let batching = served.map(|it| it.batching.as_ref().map_or_else(none, batching));
    let mut all = vec![
        ("levels", Some(levels)),
        ("model-version", Some(asked.to_owned())),
        ("server", report.server.clone()),
        ("versions", versions),
        ("platform", served.and_then(|it| it.platform.clone())),
        ("batching", batching),
    ];
    all.extend(flags(report.flags.as_ref()));
    all
}

/// Returns the flags of a report by their names.
fn flags(flags: Option<&ReportedFlags>) -> Vec<KnownSetting> {
    let flag = |name: &'static str, value: fn(&ReportedFlags) -> String| (name, flags.map(value));
    vec![
        flag("interval", |it| {
            let window = Duration::try_from_secs_f64(it.window_seconds);
            format!("{:?}", window.unwrap_or_default())
        }),
        flag("windows", |it| it.windows.to_string()),
        flag("stability", |it| format!("{} %", it.stability)),
        flag("max-trials", |it| it.max_trials.to_string()),
        flag("warmup", |it| it.warmup.to_string()),
        flag("max-in-flight", |it| {
            it.max_in_flight.map_or_else(none, |it| it.to_string())
        }),
        flag("poisson", |it| yes(it.poisson)),
        flag("in-turn", |it| yes(it.in_turn)),
        flag("file of requests", |it| {
            it.requests.clone().unwrap_or_else(none)
        }),
        flag("form", |it| it.form.clone()),
        flag("output-name", |it| match it.output_names.as_slice() {
            [] => "all".to_owned(),
            names => all(names.iter()),
        }),
    ]
}

fn none() -> String {
    "none".to_owned()
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn batching(it: &ModelBatching) -> String {
    let sizes = match it.preferred_batch_size.as_slice() {
        [] => format!("up to {}", it.max_batch_size),
        sizes => all(sizes.iter()),
    };
    match it.max_queue_delay_microseconds {
        0 => format!("{sizes} rows"),
        delay => format!("{sizes} rows with a wait of {delay} µs"),
    }
}

/// Lists items, without the comma that stands between here and there.
fn all<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items = items.map(|it| it.to_string());
    items.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{BenchReport, VerdictArgs, differing, gate, listed};
    use crate::bench::report::{ReportedFlags, ReportedModel, example};

    fn flags() -> ReportedFlags {
        ReportedFlags {
            window_seconds: 2.0,
            windows: 3,
            stability: 10,
            max_trials: 10,
            warmup: 10,
            max_in_flight: None,
            poisson: false,
            in_turn: false,
            requests: None,
            form: "binary".to_owned(),
            output_names: Vec::new(),
        }
    }

    /// Lists what differs: the work, and the settings.
    fn lines(before: &BenchReport, after: &BenchReport) -> String {
        let all = differing(before, after);
        let of = |is_of_work| listed(all.iter().filter(|it| it.is_of_work == is_of_work));
        format!("{}\n{}", of(true), of(false))
    }

    #[test]
    fn settings_are_named_with_both_values() {
        let mut before = example();
        before.flags = Some(flags());
        before.served = Some(ReportedModel {
            versions: vec!["1".to_owned()],
            platform: Some("OpenVINO".to_owned()),
            batching: None,
        });
        let mut after = before.clone();
        assert_eq!(lines(&before, &after), "\n");
        after.flags = Some(ReportedFlags {
            window_seconds: 0.2,
            windows: 10,
            poisson: true,
            max_in_flight: Some(512),
            requests: Some("mix.jsonl".to_owned()),
            output_names: vec!["a".to_owned()],
            ..flags()
        });
        after.levels.truncate(1);
        let served = after.served.as_mut().unwrap();
        served.versions.push("2".to_owned());
        served.batching = Some(ovms::client::ModelBatching {
            max_batch_size: 8,
            preferred_batch_size: vec![2, 8],
            max_queue_delay_microseconds: 250,
        });
        insta::assert_snapshot!(lines(&before, &after), @"levels concurrency 1 here, concurrency 1 and concurrency 4 there; versions 1 and 2 here, 1 there; batching 2 and 8 rows with a wait of 250 µs here, none there; interval 200ms here, 2s there; windows 10 here, 3 there; max-in-flight 512 here, none there; poisson yes here, no there; file of requests mix.jsonl here, none there; output-name a here, all there");
        // What one of them does not have is not compared.
        after.flags = None;
        after.served = None;
        after.server = None;
        after.levels = before.levels.clone();
        assert_eq!(lines(&before, &after), "\n");
        // Nor is the seed, which is another one in each run.
        after.seed += 1;
        assert_eq!(differing(&before, &after), []);
    }

    #[test]
    fn a_gate_needs_a_report_of_the_same_work() {
        let (before, mut after) = (example(), example());
        let verdict = |condition: &str| VerdictArgs {
            against: Some(PathBuf::from("before.json")),
            fail_if: vec![condition.parse().unwrap()],
            allow_errors: false,
        };
        assert!(gate(&before, &after, &verdict("worse>5%")).is_ok());
        after.inputs = vec![after.inputs[0].clone(); 40];
        after.inputs[39].shape[0] = 8;
        after.model = "other".to_owned();
        after.api = "kserve-rest".to_owned();
        after.requests = "streams".to_owned();
        for condition in ["worse", "worse>5%"] {
            let refused = gate(&before, &after, &verdict(condition)).unwrap_err();
            insta::allow_duplicates! {
                insta::assert_snapshot!(refused.text(), @"
                error: `--fail-if worse` cannot compare with before.json, which measured a different workload: model other here, resnet there; api kserve-rest here, kserve-grpc there; requests streams here, unary there; inputs `x` FP32 (1,10) and `x` FP32 (1,10) and `x` FP32 (1,10) and `x` FP32 (1,10) and `x` FP32 (1,10) and `x` FP32 (1,10) and … here, `x` FP32 (1,10) there
                hint: `--against` takes a report of the same requests, which `--save FILE` writes; without `--fail-if worse` they are compared all the same
                ");
            }
        }
        assert!(gate(&before, &after, &verdict("p99>20ms")).is_ok());
        // Reports of earlier versions do not have their inputs.
        let mut old = example();
        old.inputs.clear();
        let mut after = example();
        after.inputs[0].shape[0] = 8;
        assert!(gate(&old, &after, &verdict("worse")).is_ok());
        assert!(gate(&before, &after, &verdict("worse")).is_err());
    }
}
