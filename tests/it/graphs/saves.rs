//! Time until a saved handler answers: in a server that watches its files, and in `ovms graph run --watch`.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use super::run::{ended, until, watched, write};
use crate::support::{
    eventually,
    graphs::{PYTHON, add_python},
    grpc::{Grpc, raw},
    infer::interrupt,
    pipelines::Config,
    repository,
};

/// Time from a save to the first answer of what was saved.
const LIMIT: Duration = Duration::from_millis(1500);

/// Number of times that a handler is saved.
const SAVES: u32 = 8;

/// Time by which each save is later after the answer before: one of a second and a bit, in which files are looked at.
const LATER: Duration = Duration::from_millis(130);

/// A handler that imports NumPy, and answers with a number.
fn handler(number: u32) -> String {
    format!(
        "import numpy\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        \
         return [Tensor('out', numpy.array([{number}], numpy.int32))]\n"
    )
}

/// Prints the times as docs/performance.md has them, and checks the median: one of them may be that of other tests.
fn check(whose: &str, mut times: Vec<Duration>) {
    times.sort();
    let [median, longest] = [times.len() / 2, times.len() - 1].map(|place| times[place]);
    println!(
        "save to answer, {whose}: median {:.2} s, longest {:.2} s of {SAVES}",
        median.as_secs_f64(),
        longest.as_secs_f64()
    );
    assert!(median <= LIMIT, "{whose}: {times:?}");
}

#[test]
fn the_watcher_of_a_server_has_a_saved_handler_answer_soon() {
    let mut config = Config::of(&[]);
    let path = add_python(&mut config, "g", &handler(0));
    // As without the flag.
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let client = Grpc::connect(&server);
    let is = |number: u32| {
        let response = client.infer(raw("g", "in", "INT32", &[1], &[0; 4])).ok()?;
        (response.raw_output_contents[0][..] == number.to_le_bytes()).then_some(())
    };
    is(0).expect("it is loaded");
    let times = (1..=SAVES).map(|number| {
        sleep(LATER * number);
        let saved = Instant::now();
        fs::write(&path, handler(number)).unwrap();
        eventually("the saved handler answers", || is(number));
        saved.elapsed()
    });
    check("a server", times.collect());
}

#[test]
fn a_watched_run_has_a_saved_handler_answer_soon() {
    let folder = repository::folder();
    let graph = folder.path().join("g");
    write(&graph, PYTHON, &handler(0));
    let (mut run, mut stdout, mut stderr) = watched(folder.path());
    let mut answers = |number: u32| until(&mut stdout, &format!("out: INT32 (1) {number}"));
    answers(0);
    let times = (1..=SAVES).map(|number| {
        until(&mut stderr, "waiting for the next save");
        sleep(LATER * number);
        let saved = Instant::now();
        fs::write(graph.join("handler.py"), handler(number)).unwrap();
        answers(number);
        saved.elapsed()
    });
    check("graph run --watch", times.collect());
    interrupt(&run);
    assert_eq!(ended(&mut run), Some(130));
}
