//! Where calls run, and that they do not hold up each other.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::support::{Made, executes, floats, outputs};
use crate::python::{Handler, Instance};

fn worker(made: &Made) -> (Arc<Handler>, Arc<Instance>) {
    (Arc::clone(&made.handler), Arc::new(made.instance()))
}

/// Runs a call where it belongs; tells whether that was here.
async fn call(handler: &Arc<Handler>, instance: &Arc<Instance>) -> bool {
    let here = thread::current().id();
    let instance = Arc::clone(instance);
    let work = move || {
        outputs(instance.execute(&[], true));
        thread::current().id()
    };
    let there = match handler.try_here(work) {
        Ok(there) => there,
        Err(work) => handler.elsewhere(work).await,
    };
    here == there
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn first_calls_are_never_in_place() {
    let made = executes("return []");
    let (handler, instance) = worker(&made);
    runtime().block_on(async {
        for _ in 0..5 {
            assert!(!call(&handler, &instance).await);
        }
    });
}

#[test]
fn short_calls_come_in_place() {
    let made = executes("return []");
    let (handler, instance) = worker(&made);
    let began = Instant::now();
    runtime().block_on(async {
        // Those of other tests that take long keep it from its place for a while.
        while !call(&handler, &instance).await {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
    });
}

#[test]
fn slow_handlers_are_never_in_place() {
    let made = executes("import time\ntime.sleep(0.003)\nreturn []");
    let (handler, instance) = worker(&made);
    runtime().block_on(async {
        for _ in 0..40 {
            assert!(!call(&handler, &instance).await);
        }
    });
}

#[test]
fn a_sleeping_handler_holds_up_nobody() {
    let sleeper = executes("import time\ntime.sleep(1.5)\nreturn []");
    let quick = executes("return [Tensor('out', b'')]");
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| outputs(sleeper.run(&[])));
        }
        for _ in 0..50 {
            outputs(quick.run(&[]));
        }
        assert!(
            began.elapsed() < Duration::from_millis(1400),
            "{:?}",
            began.elapsed()
        );
    });
    let all = began.elapsed();
    assert!(
        all < Duration::from_millis(4 * 1500),
        "they slept one after the other: {all:?}"
    );
}

#[test]
fn async_workers_are_free_while_a_handler_computes() {
    let made = executes(
        "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\nreturn []",
    );
    let (handler, instance) = worker(&made);
    runtime().block_on(async {
        let calls = futures::future::join_all((0..4).map(|_| call(&handler, &instance)));
        let mut calls = std::pin::pin!(calls);
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let mut longest = Duration::ZERO;
        loop {
            let before = Instant::now();
            tokio::select! {
                here = &mut calls => {
                    assert_eq!(here, [false; 4]);
                    break;
                }
                _ = ticks.tick() => longest = longest.max(before.elapsed()),
            }
        }
        assert!(longest < Duration::from_millis(300), "{longest:?}");
    });
}

#[test]
fn a_call_goes_on_without_its_caller() {
    let made = executes("import time\ntime.sleep(0.2)\nself.ran = True\nreturn []");
    let (handler, instance) = worker(&made);
    let runtime = runtime();
    runtime.block_on(async {
        let work = move || drop(instance.execute(&[], true));
        let left = tokio::time::timeout(Duration::from_millis(50), handler.elsewhere(work)).await;
        assert!(left.is_err());
        // It waits for what still runs.
        let ending = Arc::clone(&handler);
        crate::task::blocking("test", move || ending.finalize()).await;
    });
}

#[test]
fn calls_from_many_threads_get_along() {
    let made = executes(
        "import numpy as np\narray = np.array(inputs[0]) * 2\nreturn [Tensor('out', array)]",
    );
    thread::scope(|scope| {
        for index in 0..8_u8 {
            let made = &made;
            scope.spawn(move || {
                let value = f32::from(index);
                for _ in 0..100 {
                    let out = made.outputs(&[floats("a", &[1], &[value])]);
                    assert_eq!(out[0].bytes()[..], (value * 2.0).to_le_bytes());
                }
            });
        }
    });
}

#[test]
fn thread_locals_of_a_handler_stay_between_calls() {
    let made = super::support::handler(
        "import threading\nlocal = threading.local()\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        local.count = getattr(local, 'count', 0) + 1\n        self.count = local.count\n        assert not inputs or self.count > 1\n        return []\n",
    );
    made.outputs(&[]);
    made.outputs(&[floats("a", &[1], &[0.0])]);
}

#[test]
fn work_that_panics_leaves_no_trace() {
    let made = executes("return []");
    let (handler, instance) = worker(&made);
    runtime().block_on(async {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let panicking = Arc::clone(&handler);
        let ended = tokio::task::unconstrained(async move {
            futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(
                panicking.elsewhere(|| panic!("on purpose")),
            ))
            .await
        })
        .await;
        std::panic::set_hook(before);
        assert!(ended.is_err());
        call(&handler, &instance).await;
    });
}

#[test]
fn measure() {
    let made = executes("return [Tensor('out', inputs[0])]");
    let values: Vec<f32> = vec![1.0; 10];
    let instance = made.instance();
    let input = [floats("a", &[1, 10], &values)];
    for _ in 0..3 {
        let began = Instant::now();
        for _ in 0..20_000 {
            drop(outputs(instance.execute(&input, true)));
        }
        eprintln!("execute {:?}", began.elapsed() / 20_000);
    }
    let made = executes("import numpy as np\nreturn [Tensor('out', np.array(inputs[0]) + 1)]");
    let instance = made.instance();
    for _ in 0..3 {
        let began = Instant::now();
        for _ in 0..20_000 {
            drop(outputs(instance.execute(&input, true)));
        }
        eprintln!("numpy {:?}", began.elapsed() / 20_000);
    }
    let made = executes("for n in range(60001): yield [Tensor('out', b'token')]");
    let instance = made.instance();
    let crate::python::Produced::Generator(mut generator) = instance.execute(&input, true).unwrap()
    else {
        panic!()
    };
    for _ in 0..3 {
        let began = Instant::now();
        for _ in 0..20_000 {
            drop(instance.next(&mut generator));
        }
        eprintln!("next {:?}", began.elapsed() / 20_000);
    }
}
