//! Order in which nodes become ready.

use std::sync::Arc;

use super::plan;
use crate::{
    error::Result,
    pipeline::{
        plan::PipelinePlan,
        scheduler::{Ready, Schedule},
    },
};

/// Writes what is ready: `node` or `node@key`.
fn reported(schedule: &Schedule, ready: &[Ready]) -> Vec<String> {
    let plan = &schedule.plan;
    let one = |ready: &Ready| {
        let name = &plan.nodes[ready.node].name;
        let key = schedule.sessions.key(plan, ready.session);
        if key.is_empty() {
            name.clone()
        } else {
            format!("{name}@{key}")
        }
    };
    ready.iter().map(one).collect()
}

/// A schedule whose runs are named by text.
struct Reported {
    schedule: Schedule,
    ready: Vec<Ready>,
}

impl Reported {
    fn new(plan: &Arc<PipelinePlan>) -> Self {
        let schedule = Schedule::new(Arc::clone(plan));
        let ready = schedule.start();
        Self { schedule, ready }
    }

    /// Ends a run; returns what is ready anew.
    fn end(&mut self, name: &str, shards: Option<usize>) -> Result<Vec<String>> {
        let names = reported(&self.schedule, &self.ready);
        let place = names.iter().position(|known| known == name);
        let ran = self
            .ready
            .remove(place.unwrap_or_else(|| panic!("{name} of {names:?}")));
        let ready = self.schedule.finished(ran, shards)?;
        let names = reported(&self.schedule, &ready);
        self.ready.extend(ready);
        Ok(names)
    }
}

#[test]
fn a_node_waits_for_all_its_sources() {
    let plan = plan(
        None,
        &["x 1>1 request", "y 1>1 request", "z 111>1 x,y,x"],
        &["z", "x"],
    );
    let mut reported = Reported::new(&plan);
    assert_eq!(reported.end("request", None).unwrap(), ["x", "y"]);
    assert_eq!(reported.end("y", None).unwrap(), [""; 0]);
    assert_eq!(reported.end("x", None).unwrap(), ["z"]);
    assert_eq!(reported.end("z", None).unwrap(), ["response"]);
    assert_eq!(reported.end("response", None).unwrap(), [""; 0]);
}

#[test]
fn parts_go_their_own_way_until_they_are_gathered() {
    let nodes = [
        "outer 1>2 request split 2",
        "inner 1>2 outer split 3",
        "x 1>1 inner",
        "g 22>1 x,inner gather inner",
    ];
    let plan = plan(None, &nodes, &["g"]);
    let mut reported = Reported::new(&plan);
    reported.end("request", None).unwrap();
    let inner = reported.end("outer", Some(2)).unwrap();
    assert_eq!(inner, ["inner@outer_0", "inner@outer_1"]);
    let last = reported.end("inner@outer_1", Some(3)).unwrap();
    assert_eq!(
        last[2], "x@inner_2_outer_1",
        "the innermost level is named first"
    );
    let first = reported.end("inner@outer_0", Some(3)).unwrap();
    // Those of the second part overtake those of the first.
    assert_eq!(reported.end(&last[1], None).unwrap(), [""; 0]);
    assert_eq!(reported.end(&first[0], None).unwrap(), [""; 0]);
    assert_eq!(reported.end(&last[2], None).unwrap(), [""; 0]);
    assert_eq!(reported.end(&last[0], None).unwrap(), ["g@outer_1"]);
    assert_eq!(reported.end("g@outer_1", None).unwrap(), [""; 0]);
    assert_eq!(reported.end(&first[1], None).unwrap(), [""; 0]);
    assert_eq!(reported.end(&first[2], None).unwrap(), ["g@outer_0"]);
    assert_eq!(reported.end("g@outer_0", None).unwrap(), ["response"]);
}

#[test]
fn the_response_gathers_every_level_that_is_open() {
    let nodes = ["d 1>2 request split 2", "e 1>2 d split 2"];
    let plan = plan(Some(2), &nodes, &["e"]);
    let mut reported = Reported::new(&plan);
    let outer = reported.end("request", Some(2)).unwrap();
    let mut last = Vec::new();
    for d in outer {
        for e in reported.end(&d, Some(2)).unwrap() {
            assert_eq!(last, [""; 0]);
            last = reported.end(&e, Some(2)).unwrap();
        }
    }
    assert_eq!(last, ["response"]);
}

#[test]
fn nothing_becomes_ready_after_a_failure() {
    let plan = plan(
        None,
        &["x 1>1 request", "y 1>1 request", "z 1>1 x"],
        &["z", "y"],
    );
    let mut reported = Reported::new(&plan);
    reported.end("request", None).unwrap();
    reported.schedule.stop();
    assert_eq!(reported.end("x", None).unwrap(), [""; 0]);
    assert!(reported.schedule.stopped);
}

#[test]
fn parts_of_parts_have_an_end() {
    let nodes = ["d 1>2 request split 10000", "e 1>2 d split 10000"];
    let plan = plan(None, &nodes, &["e"]);
    let mut reported = Reported::new(&plan);
    reported.end("request", None).unwrap();
    let ran = reported.ready.remove(0);
    let mut inner = reported.schedule.finished(ran, Some(10_000)).unwrap();
    assert_eq!(inner.len(), 10_000);
    let refused = loop {
        let ran = inner.pop().unwrap();
        if let Err(abort) = reported.schedule.finished(ran, Some(10_000)) {
            break abort;
        }
    };
    assert!(refused.message().contains("parts within parts"));
    assert!(reported.schedule.sessions.len() <= crate::pipeline::MAX_SESSIONS);
}

/// A pipeline of 5 nodes for each of 10,000 parts: with a look at all that is waiting for each run
/// that ends, this would take minutes.
#[test]
fn the_work_is_in_proportion_to_the_runs() {
    let nodes = [
        "d 1>2 request split -1",
        "a 1>1 d",
        "b 1>1 a",
        "c 11>1 a,b",
        "e 11>1 c,d",
        "f 1>1 e",
        "g 2>1 f gather d",
    ];
    let plan = plan(None, &nodes, &["g"]);
    let mut schedule = Schedule::new(Arc::clone(&plan));
    let mut ready = schedule.start();
    let mut runs = 0;
    while let Some(ran) = ready.pop() {
        let count = plan.nodes[ran.node].opens.map(|_| 10_000);
        ready.extend(schedule.finished(ran, count).unwrap());
        runs += 1;
    }
    assert_eq!(runs, 1 + 1 + 5 * 10_000 + 1 + 1);
}
