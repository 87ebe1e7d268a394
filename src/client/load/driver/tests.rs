use std::{
    cell::Cell,
    future::pending,
    time::{Duration, Instant},
};

use super::{Exchange, LoadRun};
use crate::client::{
    error::{ClientError, ServerError, ServerErrorCode},
    load::{ArrivalProcess, LevelEnd, LoadEnd, LoadPlan, LoadRunError, LoadTarget, Until},
    server_counters::ServerCounters,
    wire::Answered,
};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Server of a test: counts, and fails each tenth request if it is to.
#[derive(Default)]
struct Fake {
    takes: Duration,
    fails: bool,
    dies: bool,
    /// Code of the error of all requests, or of all but each third one.
    limits: Option<tonic::Code>,
    relents: bool,
    sent: Cell<u64>,
    in_flight: Cell<usize>,
    most: Cell<usize>,
    lanes: Cell<usize>,
    closed: Cell<usize>,
    /// Number of questions for counters that are answered; later ones are not, if there is one.
    counters: Option<u32>,
    asked: Cell<u32>,
}

impl Exchange for Fake {
    type Lane = usize;

    fn lane(&self, index: usize) -> usize {
        assert_eq!(index, self.lanes.get());
        self.lanes.set(index + 1);
        index
    }

    async fn exchange(&self, _: &mut usize) -> Result<Answered, ClientError> {
        self.sent.set(self.sent.get() + 1);
        let sent = self.sent.get();
        self.in_flight.set(self.in_flight.get() + 1);
        self.most.set(self.most.get().max(self.in_flight.get()));
        match self.takes.is_zero() {
            true => tokio::task::yield_now().await,
            false => tokio::time::sleep(self.takes).await,
        }
        self.in_flight.set(self.in_flight.get() - 1);
        if let Some(code) = self.limits
            && !(self.relents && sent.is_multiple_of(3))
        {
            return Err(refused(code));
        }
        match self.dies || self.fails && sent.is_multiple_of(10) {
            true => Err(refused(tonic::Code::NotFound)),
            false => Ok(Answered::ONCE),
        }
    }

    async fn close(&self, _: usize) {
        self.closed.set(self.closed.get() + 1);
    }

    async fn counters(&self) -> Option<ServerCounters> {
        let answered = self.counters?;
        self.asked.set(self.asked.get() + 1);
        match self.asked.get() <= answered {
            true => Some(ServerCounters::default()),
            false => pending().await,
        }
    }
}

fn refused(code: tonic::Code) -> ClientError {
    ClientError::Refused(ServerError {
        code: ServerErrorCode::Grpc(code),
        message: "no".to_owned(),
        is_foreign: false,
    })
}

fn limited(target: LoadTarget, requests: Option<u64>, duration: Option<Duration>) -> LoadPlan {
    LoadPlan {
        target,
        warmup: 0,
        until: Until::Limits { requests, duration },
    }
}

fn stable(tolerance: f64, max_windows: usize) -> LoadPlan {
    LoadPlan {
        target: LoadTarget::Concurrency(2),
        warmup: 0,
        until: Until::Stable {
            window: 50 * MILLISECOND,
            windows: 3,
            tolerance,
            max_windows,
            max_time: Duration::from_secs(60),
        },
    }
}

#[tokio::test]
async fn as_many_are_sent_as_planned_and_no_more_at_once() {
    let fake = Fake {
        fails: true,
        ..Fake::default()
    };
    let plan = LoadPlan {
        warmup: 3,
        ..limited(LoadTarget::Concurrency(7), Some(100), None)
    };
    let run = LoadRun::new(plan);
    assert_eq!(run.drive(&fake, pending()).await.unwrap(), LoadEnd::Done);
    assert_eq!((fake.sent.get(), fake.most.get()), (103, 7));
    assert_eq!((fake.lanes.get(), fake.closed.get()), (7, 7));
    let report = run.report().unwrap();
    assert_eq!((report.ok + report.failed, report.total), (100, 100));
    assert!(report.failed > 0);
    let [error] = &report.errors[..] else {
        panic!("{:?}", report.errors);
    };
    let text = "the server refused the request: NOT_FOUND: no";
    assert_eq!((&*error.error, error.times), (text, report.failed));
    let latency = report.latency_us.unwrap();
    assert!(latency.p50 <= latency.p90 && latency.p99 <= latency.max);
    assert!(report.rate > 0.0);
    assert_eq!(report.end, LevelEnd::Limit);
}

#[tokio::test]
async fn a_failure_while_warming_up_ends_the_run() {
    let fake = Fake {
        dies: true,
        ..Fake::default()
    };
    let plan = LoadPlan {
        warmup: 1,
        ..limited(LoadTarget::Concurrency(3), Some(5), None)
    };
    let run = LoadRun::new(plan);
    let error = run.drive(&fake, pending()).await.unwrap_err();
    assert!(matches!(
        error,
        LoadRunError::Client(ClientError::Refused(_))
    ));
    assert_eq!(run.progress().done, 0);
    assert_eq!(run.report(), None);
}

#[tokio::test]
async fn refusals_for_want_of_room_are_measured_from_the_warm_up_on() {
    for (code, relents, ok) in [
        (tonic::Code::ResourceExhausted, false, 0),
        (tonic::Code::Unavailable, false, 0),
        // Requests 6 and 9 are answered, of which the third one is a warm-up.
        (tonic::Code::Unavailable, true, 2),
    ] {
        let fake = Fake {
            limits: Some(code),
            relents,
            ..Fake::default()
        };
        let plan = LoadPlan {
            warmup: 3,
            ..limited(LoadTarget::Concurrency(2), Some(6), None)
        };
        let run = LoadRun::new(plan);
        assert_eq!(run.drive(&fake, pending()).await.unwrap(), LoadEnd::Done);
        let report = run.report().unwrap();
        assert_eq!(
            (fake.sent.get(), report.ok, report.failed),
            (9, ok, 6 - ok),
            "{code:?}"
        );
    }
}

#[tokio::test]
async fn the_time_limit_ends_a_run_without_a_number() {
    let fake = Fake {
        takes: MILLISECOND,
        ..Fake::default()
    };
    let limit = 30 * MILLISECOND;
    let run = LoadRun::new(limited(LoadTarget::Concurrency(2), None, Some(limit)));
    run.drive(&fake, pending()).await.unwrap();
    let report = run.report().unwrap();
    assert!(report.seconds >= 0.03 && report.ok > 0, "{report:?}");
    // Those in flight at the limit are waited for, and count.
    assert_eq!(report.ok, fake.sent.get());
}

#[tokio::test]
async fn a_run_that_is_dropped_still_reports() {
    let fake = Fake::default();
    let run = LoadRun::new(limited(LoadTarget::Concurrency(2), None, None));
    let some = async {
        while fake.sent.get() < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = run.drive(&fake, pending()) => unreachable!("there is no limit"),
        () = some => {}
    }
    let report = run.report().unwrap();
    assert!(report.ok >= 18 && report.rate > 0.0, "{report:?}");
    assert_eq!(report.end, LevelEnd::Interrupted);
}

#[tokio::test]
async fn a_run_that_is_stopped_closes_its_lanes() {
    let fake = Fake {
        takes: MILLISECOND,
        ..Fake::default()
    };
    let run = LoadRun::new(stable(0.0, 1000));
    let stop = tokio::time::sleep(20 * MILLISECOND);
    assert_eq!(run.drive(&fake, stop).await.unwrap(), LoadEnd::Stopped);
    assert_eq!((fake.in_flight.get(), fake.closed.get()), (0, 2));
    let report = run.report().unwrap();
    assert_eq!((report.end, report.reported), (LevelEnd::Interrupted, 1));
    assert!(report.ok > 0, "{report:?}");
}

/// The server takes 20 ms and one request at a time, while each 10 ms one is due: the requests wait, though
/// nothing is sent meanwhile, and that is their latency.
#[tokio::test]
async fn latencies_of_an_open_loop_count_from_the_due_moment() {
    let fake = Fake {
        takes: 20 * MILLISECOND,
        ..Fake::default()
    };
    let target = LoadTarget::Rate {
        per_second: 100.0,
        arrivals: ArrivalProcess::Constant,
        max_in_flight: 1,
    };
    let run = LoadRun::new(limited(target, Some(12), None));
    run.drive(&fake, pending()).await.unwrap();
    assert_eq!(fake.most.get(), 1);
    let report = run.report().unwrap();
    let latency = report.latency_us.unwrap();
    // The last is due at 110 ms, and answered after 240 ms at the earliest.
    assert!(latency.max >= 129_000.0, "{latency:?}");
    assert!(latency.p50 >= 69_000.0, "{latency:?}");
    let delay = report.send_delay_us.unwrap();
    assert!(delay.max >= 109_000.0, "{delay:?}");
}

#[tokio::test]
async fn an_open_loop_sends_at_its_rate_whatever_is_in_flight() {
    let fake = Fake {
        takes: 50 * MILLISECOND,
        ..Fake::default()
    };
    let target = LoadTarget::Rate {
        per_second: 200.0,
        arrivals: ArrivalProcess::Constant,
        max_in_flight: 100,
    };
    let run = LoadRun::new(limited(target, Some(40), None));
    let start = Instant::now();
    run.drive(&fake, pending()).await.unwrap();
    // The last is due at 195 ms.
    assert!(start.elapsed() >= 244 * MILLISECOND);
    assert!(fake.most.get() >= 5, "{}", fake.most.get());
    assert_eq!((fake.sent.get(), run.report().unwrap().ok), (40, 40));
}

#[tokio::test]
async fn windows_that_agree_end_a_run_and_others_go_on_to_the_limit() {
    let fake = || Fake {
        takes: 2 * MILLISECOND,
        ..Fake::default()
    };
    let run = LoadRun::new(stable(10.0, 20));
    run.drive(&fake(), pending()).await.unwrap();
    let report = run.report().unwrap();
    assert_eq!((report.end, report.reported), (LevelEnd::Stable, 3));
    assert_eq!(report.stable, Some(true));
    assert!((report.seconds - 0.15).abs() < 1e-9, "{report:?}");

    let run = LoadRun::new(stable(0.0, 5));
    run.drive(&fake(), pending()).await.unwrap();
    let report = run.report().unwrap();
    assert_eq!((report.end, report.reported), (LevelEnd::MaxTrials, 3));
    assert_eq!(report.stable, Some(false));
    assert!(report.windows.len() >= 5);

    let plan = LoadPlan {
        until: Until::Stable {
            window: 50 * MILLISECOND,
            windows: 3,
            tolerance: 0.0,
            max_windows: 1000,
            max_time: 80 * MILLISECOND,
        },
        ..stable(0.0, 0)
    };
    let run = LoadRun::new(plan);
    run.drive(&fake(), pending()).await.unwrap();
    let report = run.report().unwrap();
    assert_eq!(report.end, LevelEnd::MaxTime);
    assert!(report.reported > 0 && report.windows.len() < 1000);
}

#[tokio::test]
async fn of_one_window_nobody_knows_whether_it_is_stable() {
    let fake = Fake {
        takes: 2 * MILLISECOND,
        ..Fake::default()
    };
    let plan = LoadPlan {
        until: Until::Stable {
            window: 500 * MILLISECOND,
            windows: 1,
            tolerance: 0.1,
            max_windows: 1,
            max_time: Duration::from_secs(60),
        },
        ..stable(0.1, 0)
    };
    let run = LoadRun::new(plan);
    run.drive(&fake, pending()).await.unwrap();
    let report = run.report().unwrap();
    assert_eq!((report.end, report.stable), (LevelEnd::Limit, None));
    assert_eq!((report.reported, report.windows.len()), (1, 1));
    // The time may be over before there are two.
    assert_eq!(LevelEnd::MaxTime.is_stable(1), None);
    assert_eq!(LevelEnd::MaxTime.is_stable(2), Some(false));
    assert_eq!(LevelEnd::Interrupted.is_stable(2), None);
}

#[tokio::test]
async fn nothing_but_errors_ends_a_run_after_three_windows() {
    let fake = Fake {
        takes: MILLISECOND,
        dies: true,
        ..Fake::default()
    };
    let run = LoadRun::new(stable(0.1, 20));
    run.drive(&fake, pending()).await.unwrap();
    let report = run.report().unwrap();
    assert_eq!((report.end, report.ok), (LevelEnd::MaxTrials, 0));
    assert!((3..10).contains(&report.windows.len()), "{report:?}");
    assert!(report.failed > 0 && report.latency_us.is_none());
}

#[tokio::test]
async fn the_maximum_time_ends_a_warm_up() {
    let fake = Fake {
        takes: 10 * MILLISECOND,
        ..Fake::default()
    };
    let plan = LoadPlan {
        warmup: 1000,
        until: Until::Stable {
            window: 50 * MILLISECOND,
            windows: 3,
            tolerance: 10.0,
            max_windows: 20,
            max_time: 60 * MILLISECOND,
        },
        ..stable(10.0, 20)
    };
    let run = LoadRun::new(plan);
    assert_eq!(run.drive(&fake, pending()).await.unwrap(), LoadEnd::Done);
    assert!((1..1000).contains(&fake.sent.get()), "{}", fake.sent.get());
    assert_eq!(run.report(), None);
}

/// The clock of the limits goes on as soon as nothing else does.
#[tokio::test(start_paused = true)]
async fn counters_that_do_not_come_are_not_waited_for() {
    let fake = |answered| Fake {
        counters: Some(answered),
        ..Fake::default()
    };
    let minute = Duration::from_secs(60);
    for answered in [0, 1] {
        let fake = fake(answered);
        let run = LoadRun::new(limited(LoadTarget::Concurrency(2), Some(5), None));
        let ended = tokio::time::timeout(minute, run.drive(&fake, pending())).await;
        assert_eq!(ended.unwrap().unwrap(), LoadEnd::Done);
        let report = run.report().unwrap();
        assert_eq!((report.ok, report.server), (5, None));
        assert_eq!((fake.asked.get(), fake.closed.get()), (answered + 1, 2));
    }
    // A stop does not wait either.
    let fake = fake(0);
    let run = LoadRun::new(limited(LoadTarget::Concurrency(2), Some(5), None));
    let start = tokio::time::Instant::now();
    let stop = tokio::time::sleep(MILLISECOND);
    let ended = tokio::time::timeout(minute, run.drive(&fake, stop)).await;
    assert_eq!(ended.unwrap().unwrap(), LoadEnd::Stopped);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!((fake.sent.get(), run.report()), (0, None));
}
