//! Tests of the history: bounds, alignment, and figures.

use std::time::Duration;

use super::{Load, MAX_KEPT, Memory, SAMPLES, Samples};
use crate::{
    metrics::{Figures, Metrics, RequestRecord},
    request::{ApiFamily, Interface, RequestOrigin},
};

const SPAN: Duration = Duration::from_secs(5);

/// Load with so many requests and failures since the start.
fn load(requests: u64, failed: u64) -> Load {
    Load {
        figures: Figures {
            requests,
            failed,
            ..Figures::default()
        },
        ..Load::default()
    }
}

/// Adds a sample with the same load for all together as for one servable.
fn add(samples: &mut Samples, one: Load) {
    let total = one.clone();
    samples.add(SPAN, Memory::default(), &total, &[("m".to_owned(), one)]);
}

fn history(samples: Samples) -> super::History {
    super::History(parking_lot::Mutex::new(samples))
}

#[test]
fn samples_are_differences_and_end_at_the_same_moment() {
    let mut samples = Samples::default();
    for requests in [0, 0, 10, 30] {
        add(&mut samples, load(requests, requests / 10));
    }
    let history = history(samples);
    let all = history.since(0, ["m".to_owned(), "unknown".to_owned()].into_iter());
    let json = serde_json::to_value(&all).unwrap();
    assert_eq!(json["tick"], 4);
    assert_eq!(json["span_ms"], serde_json::json!([5000, 5000, 5000, 5000]));
    assert_eq!(json["totals"]["requests"], serde_json::json!([10, 20]));
    let servables = json["servables"].as_array().unwrap();
    assert_eq!(servables.len(), 1, "of an unknown one there is nothing");
    assert_eq!(servables[0]["requests"], serde_json::json!([10, 20]));
    assert_eq!(servables[0]["failed"], serde_json::json!([1, 2]));
    assert_eq!(servables[0]["p50_us"], serde_json::json!([null, null]));
    let recent = history.recent(Some("m"));
    assert_eq!((recent.rate, recent.failure_rate), (Some(3.0), Some(0.3)));
    let newer = serde_json::to_value(history.since(3, ["m".to_owned()].into_iter())).unwrap();
    assert_eq!(newer["totals"]["requests"], serde_json::json!([20]));
    assert_eq!(newer["span_ms"], serde_json::json!([5000]));
    // The number of another server's sample.
    let other = serde_json::to_value(history.since(99, std::iter::empty())).unwrap();
    assert_eq!(other["span_ms"].as_array().unwrap().len(), 4);
}

#[test]
fn before_the_first_sample_nothing_is_known_and_then_nothing_has_happened() {
    let mut samples = Samples::default();
    assert_eq!(super::History::default().recent(None).rate, None);
    add(&mut samples, load(0, 0));
    let history = history(samples);
    let recent = serde_json::to_string(&history.recent(None)).unwrap();
    assert!(recent.starts_with("{\"rate\":0.0,"), "{recent}");
    assert_eq!(history.recent(Some("m")).rate, Some(0.0));
    assert_eq!(history.recent(Some("m")).p99_us, None);
}

#[test]
fn fifteen_minutes_are_kept_and_then_forgotten() {
    let mut samples = Samples::default();
    for requests in 0..SAMPLES as u64 * 2 {
        add(&mut samples, load(requests, 0));
    }
    let ring = &samples.of["m"];
    assert_eq!(ring.series(usize::MAX).requests.len(), SAMPLES);
    assert_eq!(
        (samples.spans.len(), samples.memory.len()),
        (SAMPLES, SAMPLES)
    );
    let last = SAMPLES as u64 * 2 - 1;
    for _ in 0..SAMPLES {
        assert!(samples.of["m"].is_kept());
        add(&mut samples, load(last, 0));
    }
    assert!(
        !samples.of["m"].is_kept(),
        "nothing has happened for so long"
    );
    add(&mut samples, load(last + 1, 0));
    assert!(samples.of["m"].is_kept());
}

#[test]
fn so_many_servables_have_a_series_and_those_that_are_gone_have_none() {
    let mut samples = Samples::default();
    let names = |count: usize| (0..count).map(|number| format!("m{number:04}"));
    let used = |requests| move |name| (name, load(requests, 0));
    let many: Vec<_> = names(MAX_KEPT + 50).map(used(1)).collect();
    samples.add(SPAN, Memory::default(), &load(1, 0), &many);
    let kept = |samples: &Samples| samples.of.values().filter(|ring| ring.is_kept()).count();
    assert_eq!(kept(&samples), MAX_KEPT);
    let few: Vec<_> = names(3).map(used(2)).collect();
    samples.add(SPAN, Memory::default(), &load(2, 0), &few);
    assert_eq!((samples.of.len(), kept(&samples)), (3, 3));
}

#[test]
fn latencies_are_those_of_the_last_minute() {
    let metrics = Metrics::watched(false, None, &super::super::COUNTED).unwrap();
    let reporter = metrics.reporter("m", 1);
    let origin = RequestOrigin {
        api: ApiFamily::KServe,
        interface: Interface::Rest,
    };
    let mut samples = Samples::default();
    let look = |samples: &mut Samples| {
        let figures = reporter.figures();
        add(
            samples,
            Load {
                figures,
                ..Load::default()
            },
        );
    };
    let now = std::time::Instant::now();
    let mut slow = RequestRecord::new(&reporter, origin);
    slow.begun(now.checked_sub(Duration::from_secs(2)).unwrap());
    slow.answered(now);
    look(&mut samples);
    for _ in 0..11 {
        RequestRecord::new(&reporter, origin).answered(now);
        look(&mut samples);
    }
    let history = history(samples);
    let recent = history.recent(Some("m"));
    assert!(recent.p99_us > Some(1_500_000), "{recent:?}");
    assert!(recent.p50_us < Some(1_000_000), "{recent:?}");
    RequestRecord::new(&reporter, origin).answered(now);
    look(&mut history.0.lock());
    let later = history.recent(Some("m"));
    assert!(later.p99_us < Some(1_000_000), "a minute ago: {later:?}");
}

#[test]
fn the_memory_of_this_process_is_known() {
    assert!(super::resident_kib() > Some(1000));
}
