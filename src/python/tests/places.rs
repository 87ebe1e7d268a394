//! Tests of the threads that calls run on, and of their independence.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::support::{Folder, Made, executes, floats, outputs};
use crate::python::{HandlerInstance, PythonHandler};

fn worker(made: &Made) -> (Arc<PythonHandler>, Arc<HandlerInstance>) {
    (Arc::clone(&made.handler), Arc::new(made.instance()))
}

/// Runs a call on the thread selected for it; returns whether that was this one.
async fn call(handler: &Arc<PythonHandler>, instance: &Arc<HandlerInstance>) -> bool {
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
        // Long calls of other tests keep it off this thread for a while.
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
    let folder = Folder::new();
    let flag = folder.file("flag");
    let sleeper = executes(&format!(
        "import os, time\nend = time.monotonic() + 60\nwhile not os.path.exists({flag:?}):\n    assert time.monotonic() < end, 'nobody else ran'\n    time.sleep(0.01)\nreturn []"
    ));
    let quick = executes("return [Tensor('out', b'')]");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| outputs(sleeper.run(&[])));
        }
        for _ in 0..50 {
            outputs(quick.run(&[]));
        }
        folder.write("flag", "");
    });
}

#[test]
fn async_workers_are_free_while_a_handler_computes() {
    let made = executes(
        "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\nreturn []",
    );
    let (handler, instance) = worker(&made);
    // One worker for the calls and for the ticks.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let calls = futures::future::join_all((0..4).map(|_| call(&handler, &instance)));
        let mut calls = std::pin::pin!(calls);
        let mut clock = tokio::time::interval(Duration::from_millis(5));
        let mut ticks = 0;
        loop {
            tokio::select! {
                here = &mut calls => {
                    assert_eq!(here, [false; 4]);
                    break;
                }
                _ = clock.tick() => ticks += 1,
            }
        }
        assert!(ticks >= 5, "{ticks}");
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
        // It waits for the calls in flight.
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
fn the_end_does_not_wait_for_a_handler() {
    let made = executes("import sys\nprint('half a line', end='')\nreturn []");
    outputs(made.run(&[]));
    let began = Instant::now();
    crate::python::stop(Duration::from_secs(5));
    assert!(began.elapsed() < Duration::from_secs(20));
    // The calls in flight go on.
    outputs(made.run(&[]));
}
