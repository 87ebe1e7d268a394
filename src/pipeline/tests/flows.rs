//! Requests with their tensors.

use std::sync::Arc;

use super::{numbers, plan, values};
use crate::{
    budget::{Budget, OVERHEAD},
    error::ErrorKind,
    pipeline::{
        flow::{NodeJob, RequestFlow},
        plan::PipelinePlan,
    },
};

/// Takes the job of a node from those that can run.
fn take(plan: &PipelinePlan, jobs: &mut Vec<NodeJob>, name: &str) -> NodeJob {
    let mut names = jobs
        .iter()
        .map(|job| plan.nodes[job.ready.node].name.as_str());
    let place = names.position(|known| known == name).expect(name);
    jobs.remove(place)
}

#[test]
fn a_request_passes_and_every_tensor_with_it() {
    let nodes = ["d 1>2 request split 2", "x 1>1 d", "g 22>1 x,d gather d"];
    let plan = plan(None, &nodes, &["g", "request"]);
    let input = numbers(&[5], 0);
    let (mut flow, mut jobs) = RequestFlow::start(Arc::clone(&plan), vec![input.clone()]).unwrap();
    let d = take(&plan, &mut jobs, "d");
    let ready = d.ready;
    assert_eq!(
        d.tensors(&plan, &Budget::default()).unwrap(),
        std::slice::from_ref(&input)
    );
    let mut jobs = flow.finished(ready, vec![numbers(&[2, 3], 10)]).unwrap();
    assert_eq!(jobs.len(), 2);
    // The second part first.
    let second = jobs.pop().unwrap();
    let ready = second.ready;
    assert_eq!(
        values(&second.tensors(&plan, &Budget::default()).unwrap()[0]),
        [13, 14, 15]
    );
    assert_eq!(flow.finished(ready, vec![numbers(&[1], 200)]).unwrap(), []);
    let first = jobs.pop().unwrap().ready;
    let mut jobs = flow.finished(first, vec![numbers(&[1], 100)]).unwrap();
    let g = take(&plan, &mut jobs, "g");
    let ready = g.ready;
    let inputs = g.tensors(&plan, &Budget::default()).unwrap();
    assert_eq!(inputs[0].shape(), [2, 1]);
    assert_eq!(values(&inputs[0]), [100, 200]);
    assert_eq!(inputs[1], numbers(&[2, 3], 10));
    let mut jobs = flow.finished(ready, vec![numbers(&[1], 7)]).unwrap();
    let exit = take(&plan, &mut jobs, "response");
    let ready = exit.ready;
    assert_eq!(
        exit.tensors(&plan, &Budget::default()).unwrap(),
        [numbers(&[1], 7), input]
    );
    assert_eq!(flow.finished(ready, Vec::new()).unwrap(), []);
}

#[test]
fn what_is_gathered_is_charged_for_as_long_as_it_is_there() {
    let plan = plan(None, &["d 1>2 request split 2", "x 1>1 d"], &["x"]);
    let (mut flow, jobs) = RequestFlow::start(Arc::clone(&plan), vec![numbers(&[5], 0)]).unwrap();
    let parts = flow.finished(jobs[0].ready, vec![numbers(&[2, 3], 0)]);
    let parts = parts.unwrap();
    let part = || vec![numbers(&[10], 0)];
    assert_eq!(flow.finished(parts[0].ready, part()).unwrap(), []);
    let exit = flow.finished(parts[1].ready, part()).unwrap().remove(0);
    let budget = Budget::new(1000);
    let response = exit.clone().tensors(&plan, &budget).unwrap();
    assert_eq!(budget.charged(), 160 + OVERHEAD);
    drop(response);
    assert_eq!(budget.charged(), 0);
    let refused = exit.tensors(&plan, &Budget::new(160)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}

#[test]
fn a_request_that_is_split_and_nothing_else_is_unchanged() {
    let plan = plan(Some(-1), &[], &["request"]);
    let input = numbers(&[4, 1, 2], 0);
    let (_, mut jobs) = RequestFlow::start(Arc::clone(&plan), vec![input.clone()]).unwrap();
    let exit = take(&plan, &mut jobs, "response");
    assert_eq!(exit.tensors(&plan, &Budget::default()).unwrap(), [input]);
}

#[test]
fn the_first_failure_ends_it_and_frees_what_is_kept() {
    let nodes = [
        "x 1>1 request",
        "y 1>1 request",
        "d 1>2 request split -1",
        "z 11>1 x,y",
    ];
    let plan = plan(
        None,
        &[&nodes[..], &["g 2>1 d gather d"]].concat(),
        &["z", "g"],
    );
    let (mut flow, mut jobs) =
        RequestFlow::start(Arc::clone(&plan), vec![numbers(&[1], 0)]).unwrap();
    let kept = numbers(&[1], 5);
    let watched = kept.data().clone();
    let x = take(&plan, &mut jobs, "x");
    flow.finished(x.ready, vec![kept]).unwrap();
    assert!(!watched.is_unique());
    let d = take(&plan, &mut jobs, "d");
    let abort = flow
        .finished(d.ready, vec![numbers(&[0, 1], 0)])
        .unwrap_err();
    assert!(abort.kind() == crate::error::ErrorKind::Aborted);
    assert!(watched.is_unique(), "dropped with the request");
    let y = take(&plan, &mut jobs, "y");
    assert_eq!(flow.finished(y.ready, vec![numbers(&[1], 0)]).unwrap(), []);
}
