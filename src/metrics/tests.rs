//! Pages as they are written, from counts that a test makes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Metrics, ServerLevels,
    cells::ALL_ORIGINS,
    graphs::{GraphCall, Method},
    health::ServableHealth,
    reporter::{Query, Reporter, RequestRecord, Times},
    statistics::Statistics,
};
use crate::{
    error::{Error, ErrorKind},
    request::{ApiFamily, Interface, RequestOrigin},
    stamps::FileReloads,
};

const GRPC: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

const TFS_REST: RequestOrigin = RequestOrigin {
    api: ApiFamily::TensorFlowServing,
    interface: Interface::Rest,
};

fn metrics(families: &[&str]) -> Arc<Metrics> {
    let families: Vec<String> = families.iter().map(|&name| name.to_owned()).collect();
    Metrics::new(true, Some(&families)).unwrap()
}

/// Counts a request with a wait and a run of so many microseconds.
fn answer(reporter: &Arc<Reporter>, origin: RequestOrigin, waited: u64, took: u64) {
    let call = RequestRecord::new(reporter, origin);
    let started = Instant::now();
    let ended = started + Duration::from_micros(took);
    reporter.ran(&Times {
        prepared: Duration::ZERO,
        waited: Duration::from_micros(waited),
        started,
        ended,
        rows: 1,
        batch: 0,
    });
    call.answered(ended);
}

#[test]
fn a_request_of_a_batch_is_at_no_time_one_alone() {
    let metrics = metrics(&["ovms_batch_size"]);
    let reporter = metrics.reporter("m", 1);
    let now = Instant::now();
    let run = |rows, batch| {
        reporter.ran(&Times {
            prepared: Duration::ZERO,
            waited: Duration::ZERO,
            started: now,
            ended: now,
            rows,
            batch,
        });
        let executions = reporter.executions();
        executions
            .iter()
            .map(|it| (it.rows, it.run.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1, 0), [(1, 1)]);
    // Its batch is counted with the last of them.
    assert_eq!(run(1, 3), [(1, 1)]);
    assert_eq!(run(2, 3), [(1, 1)]);
    assert_eq!(run(2, 0), [(1, 1), (2, 1)], "of two rows alone");
    assert_eq!(reporter.statistics().run.count, 4);
}

/// Returns the lines of a page that begin with a text.
fn lines(metrics: &Metrics, start: &str) -> String {
    let page = metrics.page(ServerLevels::default()).unwrap();
    let lines: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with(start))
        .collect();
    lines.join("\n")
}

#[test]
fn a_loaded_version_has_every_combination_at_zero() {
    let metrics = metrics(&["ovms_requests_success", "ovms_requests_fail"]);
    assert_eq!(metrics.page(ServerLevels::default()).unwrap(), "");
    let reporter = metrics.reporter("dummy", 1);
    assert_eq!(
        metrics.page(ServerLevels::default()).unwrap(),
        "",
        "not loaded yet"
    );
    reporter.loaded(1, 2);
    insta::assert_snapshot!(metrics.page(ServerLevels::default()).unwrap(), @r#"
    # HELP ovms_requests_success Number of successful requests to a model or a DAG.
    # TYPE ovms_requests_success counter
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="dummy"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="dummy"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 0
    ovms_requests_success{api="KServe",interface="REST",method="ModelReady",name="dummy"} 0
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="REST",method="ModelMetadata",name="dummy",version="1"} 0
    # HELP ovms_requests_fail Number of failed requests to a model or a DAG.
    # TYPE ovms_requests_fail counter
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="dummy"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="dummy"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelReady",name="dummy"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelMetadata",name="dummy",version="1"} 0
    "#);
}

#[test]
fn a_histogram_has_its_buckets_its_sum_and_its_count() {
    let metrics = metrics(&["ovms_inference_time_us", "ovms_wait_for_infer_req_time_us"]);
    let reporter = metrics.reporter("dummy", 7);
    reporter.loaded(1, 1);
    answer(&reporter, GRPC, 5, 10);
    answer(&reporter, GRPC, 100, 11);
    answer(&reporter, TFS_REST, 0, 2_000_000_000);
    insta::assert_snapshot!(lines(&metrics, "ovms_inference_time_us"), @r#"
    ovms_inference_time_us_bucket{name="dummy",version="7",le="10"} 1
    ovms_inference_time_us_bucket{name="dummy",version="7",le="18"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="32"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="58"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="104"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="188"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="340"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="612"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="1101"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="1983"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="3570"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="6426"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="11568"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="20822"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="37481"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="67466"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="121439"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="218591"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="393464"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="708235"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="1274823"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="2294682"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="4130428"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="7434771"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="13382588"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="24088659"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="43359586"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="78047255"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="140485060"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="252873108"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="455171596"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="819308872"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="1474755971"} 2
    ovms_inference_time_us_bucket{name="dummy",version="7",le="+Inf"} 3
    ovms_inference_time_us_sum{name="dummy",version="7"} 2000000021
    ovms_inference_time_us_count{name="dummy",version="7"} 3
    "#);
    insta::assert_snapshot!(lines(&metrics, "ovms_wait_for_infer_req_time_us_sum"), @r#"ovms_wait_for_infer_req_time_us_sum{name="dummy",version="7"} 105"#);
    insta::assert_snapshot!(lines(&metrics, "ovms_wait_for_infer_req_time_us_count"), @r#"ovms_wait_for_infer_req_time_us_count{name="dummy",version="7"} 3"#);
}

#[test]
fn request_times_are_by_interface_over_all_protocols() {
    let metrics = metrics(&["ovms_request_time_us"]);
    let reporter = metrics.reporter("dummy", 1);
    reporter.loaded(1, 1);
    for origin in ALL_ORIGINS {
        answer(&reporter, origin, 0, 1);
    }
    drop(RequestRecord::new(&reporter, GRPC));
    insta::assert_snapshot!(lines(&metrics, "ovms_request_time_us_count"), @r#"
    ovms_request_time_us_count{interface="gRPC",name="dummy",version="1"} 2
    ovms_request_time_us_count{interface="REST",name="dummy",version="1"} 2
    "#);
}

#[test]
fn a_request_is_current_until_it_ends_and_failed_unless_answered() {
    let metrics = metrics(&["ovms_requests_fail", "ovms_current_requests"]);
    let reporter = metrics.reporter("dummy", 1);
    reporter.loaded(1, 1);
    let call = RequestRecord::new(&reporter, TFS_REST);
    assert_eq!(
        lines(&metrics, "ovms_current"),
        r#"ovms_current_requests{name="dummy",version="1"} 1"#
    );
    // Ends on another thread than it began on.
    std::thread::scope(|scope| scope.spawn(move || drop(call)).join().unwrap());
    assert_eq!(
        lines(&metrics, "ovms_current"),
        r#"ovms_current_requests{name="dummy",version="1"} 0"#
    );
    let failed = lines(&metrics, "ovms_requests_fail");
    let failed: Vec<_> = failed
        .lines()
        .filter(|line| !line.ends_with(" 0"))
        .collect();
    assert_eq!(
        failed,
        [
            r#"ovms_requests_fail{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 1"#
        ]
    );
}

#[test]
fn an_answer_counts_behind_the_last_of_its_steps() {
    let metrics = metrics(&["ovms_requests_success", "ovms_requests_fail"]);
    let reporter = metrics.reporter("dummy", 1);
    let counts = || {
        let statistics = reporter.statistics();
        (statistics.success.count, statistics.fail.count)
    };
    for (written, expected) in [(0, (0, 1)), (1, (0, 2)), (2, (1, 2))] {
        let call = RequestRecord::new(&reporter, TFS_REST);
        call.writes_answer();
        call.writes_answer();
        call.answered(Instant::now());
        for _ in 0..written {
            call.written();
        }
        drop(call);
        assert_eq!(counts(), expected, "{written} of 2");
    }
}

#[test]
fn levels_are_those_of_the_server() {
    let metrics = metrics(&["ovms_pending_requests", "ovms_bytes_in_flight"]);
    let levels = ServerLevels {
        pending: 3,
        bytes: 700,
    };
    insta::assert_snapshot!(metrics.page(levels).unwrap(), @"
    # HELP ovms_pending_requests Number of requests to all models, DAGs and graphs that wait or run.
    # TYPE ovms_pending_requests gauge
    ovms_pending_requests 3
    # HELP ovms_bytes_in_flight Number of bytes of requests and answers that the server holds, and of compiled models of batches.
    # TYPE ovms_bytes_in_flight gauge
    ovms_bytes_in_flight 700
    ");
}

#[test]
fn loads_and_reloads_count_by_how_they_went() {
    let metrics = metrics(&["ovms_loads", "ovms_reloads"]);
    // Nothing has been loaded yet.
    metrics.reporter("other", 1);
    let all = || lines(&metrics, "ovms_");
    insta::assert_snapshot!(all(), @r#"
    ovms_reloads{result="success"} 0
    ovms_reloads{result="fail"} 0
    "#);
    for (version, well) in [(1, true), (2, true), (2, false)] {
        metrics.reporter("dummy", version).count_load(well);
    }
    // Of one that has no version, too.
    metrics.count_load("bro\"ken", false);
    metrics.count_reload(false);
    insta::assert_snapshot!(all(), @r#"
    ovms_loads{name="bro\"ken",result="success"} 0
    ovms_loads{name="bro\"ken",result="fail"} 1
    ovms_loads{name="dummy",result="success"} 2
    ovms_loads{name="dummy",result="fail"} 1
    ovms_reloads{result="success"} 0
    ovms_reloads{result="fail"} 1
    "#);
}

#[test]
fn files_that_are_followed_count_by_whether_they_could_be_used() {
    let metrics = metrics(&["ovms_file_reloads"]);
    let all = || lines(&metrics, "ovms_");
    assert_eq!(all(), "");
    let counts = Arc::new(FileReloads::default());
    metrics.show_file_reloads("tls", Arc::clone(&counts));
    counts.count(false);
    insta::assert_snapshot!(all(), @r#"
    ovms_file_reloads{file="tls",result="success"} 0
    ovms_file_reloads{file="tls",result="fail"} 1
    "#);
}

#[test]
fn state_calls_count_for_all_versions_together() {
    let metrics = metrics(&["ovms_requests_success", "ovms_requests_fail"]);
    for version in [2, 1] {
        metrics.reporter("dummy", version).loaded(1, 1);
    }
    let good: Result<(), ()> = Ok(());
    metrics
        .reporter("dummy", 1)
        .queried(GRPC, Query::State, &good);
    metrics
        .reporter("dummy", 2)
        .queried(GRPC, Query::State, &good);
    metrics
        .reporter("dummy", 2)
        .queried(TFS_REST, Query::Metadata, &good);
    let bad: Result<(), ()> = Err(());
    metrics
        .reporter("dummy", 1)
        .queried(TFS_REST, Query::Metadata, &bad);
    let page = metrics.page(ServerLevels::default()).unwrap();
    let counted: Vec<_> = page
        .lines()
        .filter(|line| !line.ends_with(" 0") && !line.starts_with('#'))
        .collect();
    insta::assert_snapshot!(counted.join("\n"), @r#"
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 2
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="2"} 1
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 1
    "#);
    let successes = page
        .lines()
        .filter(|line| line.starts_with("ovms_requests_success"));
    assert_eq!(successes.count(), 4 + 2 * 8);
}

#[test]
fn counts_stay_after_an_unload_and_gauges_fall() {
    let metrics = metrics(&[
        "ovms_requests_success",
        "ovms_streams",
        "ovms_infer_req_queue_size",
        "ovms_infer_req_active",
    ]);
    let reporter = metrics.reporter("dummy", 1);
    reporter.loaded(2, 4);
    answer(&reporter, GRPC, 0, 1);
    let active = reporter.active();
    let gauges = || {
        let page = metrics.page(ServerLevels::default()).unwrap();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<_> = lines
            .filter(|line| !line.starts_with("ovms_requests"))
            .collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(gauges(), @r#"
    ovms_streams{name="dummy",version="1"} 2
    ovms_infer_req_queue_size{name="dummy",version="1"} 4
    ovms_infer_req_active{name="dummy",version="1"} 1
    "#);
    drop(active);
    reporter.unloaded();
    insta::assert_snapshot!(gauges(), @r#"
    ovms_streams{name="dummy",version="1"} 0
    ovms_infer_req_queue_size{name="dummy",version="1"} 0
    ovms_infer_req_active{name="dummy",version="1"} 0
    "#);
    let again = metrics.reporter("dummy", 1);
    let good = r#"ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 1"#;
    assert_eq!(lines(&metrics, &good[..good.len() - 1]), good);
    answer(&again, GRPC, 0, 1);
    assert!(lines(&metrics, &good[..good.len() - 1]).ends_with(" 2"));
}

#[test]
fn statistics_count_without_a_page() {
    let metrics = Metrics::off();
    assert_eq!(metrics.page(ServerLevels::default()), None);
    let reporter = metrics.reporter("dummy", 1);
    answer(&reporter, GRPC, 3, 20);
    answer(&reporter, TFS_REST, 4, 30);
    drop(RequestRecord::new(&reporter, GRPC));
    let figures = reporter.statistics();
    assert_eq!((figures.success.count, figures.fail.count), (2, 1));
    assert_eq!((figures.wait.count, figures.wait.ns), (2, 7000));
    assert_eq!((figures.run.count, figures.run.ns), (2, 50_000));
    assert!(figures.success.ns > 0 && figures.last_ms > 1_600_000_000_000);
}

#[test]
fn requests_of_our_own_show_nowhere() {
    let metrics = Metrics::new(true, None).unwrap();
    metrics.reporter("dummy", 1).loaded(1, 1);
    drop(RequestRecord::uncounted());
    assert!(
        !metrics
            .page(ServerLevels::default())
            .unwrap()
            .lines()
            .any(|line| line.ends_with("\"} 1") && !line.starts_with("ovms_streams"))
    );
}

#[test]
fn a_servable_is_failing_until_enough_requests_are_answered_again() {
    let reporter: Arc<Reporter> = Arc::default();
    let request = |fails: Option<ErrorKind>| {
        let call = RequestRecord::new(&reporter, GRPC);
        match fails {
            Some(kind) => call.failed(&Error::new(kind, "Internal inference error - why")),
            None => call.answered(Instant::now()),
        }
    };
    request(None);
    request(Some(ErrorKind::InvalidArgument));
    assert_eq!(
        reporter.health(),
        ServableHealth::Good,
        "a client is to blame"
    );
    let unsteady = ServableHealth::Unsteady("Internal inference error - why".into());
    let failing = ServableHealth::Failing("Internal inference error - why".into());
    request(Some(ErrorKind::Internal));
    assert_eq!(reporter.health(), unsteady);
    request(Some(ErrorKind::Internal));
    request(Some(ErrorKind::Internal));
    assert_eq!(reporter.health(), failing);
    for _ in 0..21 {
        request(None);
        assert_eq!(reporter.health(), failing);
    }
    request(None);
    assert_eq!(reporter.health(), unsteady);
    for _ in 0..3 {
        request(Some(ErrorKind::Internal));
    }
    reporter.loaded(1, 1);
    assert_eq!(reporter.health(), failing, "it is compiled again");
    reporter.renewed();
    assert_eq!(reporter.health(), ServableHealth::Good);
    // Deadlines of clients and overload have these codes as well.
    for kind in [ErrorKind::DeadlineExceeded, ErrorKind::Overloaded] {
        request(Some(kind));
        assert_eq!(reporter.health(), ServableHealth::Good, "{kind:?}");
        let call = RequestRecord::new(&reporter, GRPC);
        call.failed(&Error::new(kind, "Internal inference error - why").within());
        assert_eq!(reporter.health(), unsteady, "{kind:?}");
        reporter.renewed();
    }
}

#[test]
fn a_stream_is_a_request_in_the_statistics_of_its_graph() {
    let reporter: Arc<Reporter> = Arc::default();
    reporter.serves_graph();
    for well in [true, true, false] {
        GraphCall::new(&reporter, GRPC, Method::Stream).ended(well);
    }
    let Statistics {
        success,
        fail,
        run,
        rows,
        last_ms,
        ..
    } = reporter.statistics();
    assert_eq!([success.count, fail.count, run.count, rows], [2, 1, 2, 2]);
    assert!(success.ns > 0 && fail.ns > 0 && last_ms > 0);
    assert_eq!(
        reporter.figures().requests,
        0,
        "they have times of their own"
    );
}

#[test]
fn figures_of_versions_that_nobody_uses_go_for_those_of_others() {
    let metrics = Metrics::off();
    let used = metrics.reporter("m", 1);
    let most = i64::try_from(super::MAX_VERSIONS).unwrap();
    for version in 2..=2 * most {
        metrics.reporter("m", version);
    }
    let models = metrics.models.lock();
    let versions = &models["m"].versions;
    assert_eq!(versions.len(), super::MAX_VERSIONS);
    assert!(Arc::ptr_eq(&versions[&1], &used));
    assert!(versions.contains_key(&(2 * most)));
    assert!(!versions.contains_key(&2));
}
