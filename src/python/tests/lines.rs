//! Tests of calls that run one after the other and are sent without a wait for each other.

use std::fs;

use bytes::Bytes;
use futures::{FutureExt as _, future::join_all};

use super::support::{Folder, Made, awaited, executes, executes_in, group_of, text};
use crate::python::{HandlerError, HandlerInstance, HandlerTensor, Produced, WorkerOptions};

/// Input with a number, and with this many more bytes.
fn numbered(number: u8, bytes: usize) -> HandlerTensor {
    let data = [vec![number], vec![0; bytes]].concat();
    let shape = vec![i64::try_from(data.len()).unwrap()];
    HandlerTensor::new("a", "UINT8", shape, Bytes::from(data), true)
}

fn in_line(made: &Made) -> HandlerInstance {
    let handler = &made.handler;
    handler.instance_at(&handler.group().seat(false)).in_line()
}

/// Makes calls in one go, with so many bytes each.
fn call(
    made: &Made,
    instance: &HandlerInstance,
    sizes: &[usize],
) -> Vec<Result<Produced, HandlerError>> {
    let inputs = (0..).zip(sizes);
    let inputs: Vec<_> = inputs
        .map(|(number, size)| [numbered(number, *size)])
        .collect();
    let calls = inputs
        .iter()
        .map(|input| instance.execute(input, true, false, None));
    made.handler.group().runtime().block_on(join_all(calls))
}

fn given(produced: &Result<Produced, HandlerError>) -> &str {
    match produced {
        Ok(Produced::Outputs(outputs)) => text(&outputs[0]),
        Ok(Produced::Nothing) => "nothing",
        Err(HandlerError::Raised(raised)) => &raised.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_run_one_after_the_other_in_the_order_in_which_they_begin() {
    // Some take long enough for another thread to go on, and some inputs are copied in turns.
    let made = executes(
        "import time\nstate = self.__dict__.setdefault('state', {'order': [], 'running': 0})\n\
         state['running'] += 1\nnumber = bytes(inputs[0])[0]\nif number % 3 == 0: time.sleep(0.01)\n\
         state['order'].append(number)\nrunning = state['running']\nstate['running'] -= 1\n\
         return [Tensor('out', f\"{running} {state['order'][-1]} {len(state['order'])}\".encode())]",
    );
    let sizes: Vec<usize> = (0..16)
        .map(|number| [0, 1_500_000, 40_000, 2][number % 4])
        .collect();
    let came = call(&made, &in_line(&made), &sizes);
    for (number, came) in came.iter().enumerate() {
        assert_eq!(given(came), format!("1 {number} {}", number + 1));
    }
}

/// Handler that notes its calls in a file of the folder, and fails at the third.
fn noting(folder: &Folder) -> Made {
    let log = folder.file("log");
    let body = format!(
        "import time\nnumber = bytes(inputs[0])[0]\nopen({log:?}, 'a').write(f'{{number}} ')\n\
         if number == 2: raise ValueError('the third')\nif number == 9: time.sleep(0.2)\n\
         time.sleep(0.05)\nreturn [Tensor('out', str(number).encode())]"
    );
    executes(&body)
}

fn noted(folder: &Folder) -> String {
    fs::read_to_string(folder.file("log")).unwrap()
}

#[test]
fn what_is_behind_a_call_that_raises_is_skipped() {
    let folder = Folder::new();
    let made = noting(&folder);
    let instance = in_line(&made);
    let came = call(&made, &instance, &[0, 0, 0, 0, 100_000, 0]);
    let came: Vec<&str> = came.iter().map(given).collect();
    assert_eq!(
        came,
        ["0", "1", "the third", "nothing", "nothing", "nothing"]
    );
    assert_eq!(noted(&folder), "0 1 2 ");
    instance.abandon();
    let after = call(&made, &instance, &[0]);
    assert_eq!(given(&after[0]), "nothing", "the run has failed");
    drop(instance);
    // Another run has a line of its own.
    let came = call(&made, &in_line(&made), &[0, 0]);
    assert_eq!(came.iter().map(given).collect::<Vec<_>>(), ["0", "1"]);
}

#[test]
fn what_is_behind_a_result_that_is_refused_is_skipped() {
    for refused in [
        "[Tensor('bad', b'')]",
        "[Tensor('out', b'1'), Tensor('out', b'2')]",
        "iter([])",
    ] {
        let folder = Folder::new();
        let log = folder.file("log");
        let made = executes(&format!(
            "number = bytes(inputs[0])[0]\nopen({log:?}, 'a').write(f'{{number}} ')\n\
             if number == 1: return {refused}\nreturn [Tensor('out', b'fine')]"
        ));
        let came = call(&made, &in_line(&made), &[0; 4]);
        assert_eq!(given(&came[0]), "fine");
        assert!(matches!(&came[3], Ok(Produced::Nothing)), "{came:?}");
        assert_eq!(noted(&folder), "0 1 ", "{refused}");
    }
}

#[test]
fn what_has_not_begun_when_the_run_is_dropped_is_skipped() {
    let folder = Folder::new();
    let made = noting(&folder);
    let instance = in_line(&made);
    made.handler.group().runtime().block_on(async {
        let inputs = [[numbered(9, 0)], [numbered(0, 0)], [numbered(1, 0)]];
        let calls = inputs
            .iter()
            .map(|input| instance.execute(input, true, false, None));
        let mut calls = Box::pin(join_all(calls));
        assert!(calls.as_mut().now_or_never().is_none());
        awaited(&folder.file("log"));
    });
    drop(instance);
    // Behind them in the worker.
    let came = call(&made, &in_line(&made), &[0]);
    assert_eq!(given(&came[0]), "0");
    assert_eq!(
        noted(&folder),
        "9 0 ",
        "the first, and that of the other run"
    );
}

#[test]
fn a_limit_counts_for_each_call_alone() {
    let workers = group_of(WorkerOptions {
        timeout_ms: Some(400),
        ..WorkerOptions::default()
    });
    let body = "import time\ntime.sleep(0.1)\nreturn [Tensor('out', b'done')]";
    let made = executes_in(&workers, body);
    let came = call(&made, &in_line(&made), &[0; 8]);
    assert!(came.iter().all(|came| given(came) == "done"), "{came:?}");
}
