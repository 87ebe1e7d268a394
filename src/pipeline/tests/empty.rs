//! Demultiplexers that have nothing to split, where that is allowed.

use std::sync::Arc;

use super::{numbers, plan, values};
use crate::{
    budget::Budget,
    error::{ErrorKind, Result},
    pipeline::{
        flow::{NodeJob, RequestFlow},
        plan::{Count, PipelinePlan},
        scheduler::Ready,
    },
    tensor::{
        DataType,
        Dim::{Any, Fixed, Range},
        PartialShape, Tensor,
    },
};

/// Makes a plan in which nothing to split is allowed.
fn allowing(split: Option<i32>, nodes: &[&str], outputs: &[&str]) -> PipelinePlan {
    let mut plan = Arc::unwrap_or_clone(plan(split, nodes, outputs));
    plan.allows_empty = true;
    plan
}

/// Starts a request with a tensor of one number.
fn start(plan: PipelinePlan) -> (Arc<PipelinePlan>, RequestFlow, Vec<NodeJob>) {
    let plan = Arc::new(plan);
    let (flow, jobs) = RequestFlow::start(Arc::clone(&plan), vec![numbers(&[1], 0)]).unwrap();
    (plan, flow, jobs)
}

fn only(jobs: Vec<NodeJob>) -> NodeJob {
    let [job] = <[NodeJob; 1]>::try_from(jobs).unwrap();
    job
}

fn name(plan: &PipelinePlan, ready: Ready) -> &str {
    &plan.nodes[ready.node].name
}

const NODES: [&str; 3] = ["d 1>2 request split -1", "x 1>2 d", "g 32>1 x,d gather d"];

#[test]
fn a_node_that_gathers_nothing_runs_with_nothing() {
    let mut checked = allowing(None, &NODES, &["g"]);
    // What comes through `x` is what `x` says, what comes from `d` what it gave.
    let says = checked.nodes[2].outputs[0].tensor.as_mut().unwrap();
    (says.dtype, says.shape) = (Some(DataType::F16), PartialShape(vec![Fixed(4), Any]));
    let takes = checked.nodes[3].inputs[0].tensor.as_mut().unwrap();
    takes.shape = PartialShape(vec![Range(0, 9), Any, Range(2, 5)]);
    let (plan, mut flow, jobs) = start(checked);
    let ready = only(jobs).ready;
    let jobs = flow.finished(ready, vec![numbers(&[0, 7], 0)]).unwrap();
    let g = only(jobs);
    assert_eq!(name(&plan, g.ready), "g", "`x` does not run");
    let ready = g.ready;
    let inputs = g.tensors(&plan, &Budget::default()).unwrap();
    let reported = inputs.iter().map(|input| (input.dtype(), input.shape()));
    assert_eq!(
        reported.collect::<Vec<_>>(),
        [
            (DataType::F16, &[0, 4, 2][..]),
            (DataType::I64, &[0, 7][..])
        ]
    );
    let exit = only(flow.finished(ready, vec![numbers(&[1], 5)]).unwrap());
    let ready = exit.ready;
    assert_eq!(
        values(&exit.tensors(&plan, &Budget::default()).unwrap()[0]),
        [5]
    );
    assert_eq!(flow.finished(ready, Vec::new()).unwrap(), []);
}

#[test]
fn a_response_that_gathers_nothing_has_typed_outputs_of_no_parts() {
    let nodes = ["d 1>2 request split -1", "x 1>1 d", "y 1>2 x"];
    let mut checked = allowing(None, &nodes, &["y", "d"]);
    let says = checked.nodes[3].outputs[0].tensor.as_mut().unwrap();
    (says.dtype, says.shape) = (Some(DataType::U8), PartialShape(vec![Fixed(3), Any]));
    let (plan, mut flow, jobs) = start(checked);
    let ready = only(jobs).ready;
    let exit = only(flow.finished(ready, vec![numbers(&[0, 6], 0)]).unwrap());
    let response = exit.tensors(&plan, &Budget::default()).unwrap();
    let expected = Tensor::new(DataType::U8, vec![0, 3, 0], Vec::new().into()).unwrap();
    assert_eq!(response, [expected, numbers(&[0, 6], 0)]);
}

#[test]
fn a_request_without_parts_is_answered_without_any() {
    let checked = allowing(Some(-1), &["x 1>1 request"], &["x", "request"]);
    let plan = Arc::new(checked);
    let empty = numbers(&[0, 8], 0);
    let (_, jobs) = RequestFlow::start(Arc::clone(&plan), vec![empty.clone()]).unwrap();
    let exit = only(jobs);
    assert_eq!(exit.ready.node, plan.exit());
    let response = exit.tensors(&plan, &Budget::default()).unwrap();
    assert_eq!(response[0].shape(), [0, 0]);
    assert_eq!(response[1], empty);
}

#[test]
fn what_cannot_be_empty_is_reported_to_the_client() {
    let run = |checked: PipelinePlan| {
        let (plan, mut flow, jobs) = start(checked);
        let ready = only(jobs).ready;
        let jobs = flow.finished(ready, vec![numbers(&[0, 7], 0)]).unwrap();
        only(jobs).tensors(&plan, &Budget::default()).unwrap_err()
    };
    let mut refused = allowing(None, &NODES, &["g"]);
    let takes = refused.nodes[3].inputs[1].tensor.as_mut().unwrap();
    takes.shape = PartialShape(vec![Range(1, 9), Any, Fixed(7)]);
    let error = run(refused);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(error.message(), @"Invalid input shape - Node: g input: b; Expected: ([1~9],-1,7); Actual: (0,7), since `d` gave no parts, which empty_results allows; let the input take a first dimension of 0, such as -1");

    let mut open = allowing(None, &NODES, &["g"]);
    open.nodes[2].outputs[0].tensor.as_mut().unwrap().dtype = None;
    open.nodes[3].inputs[0].tensor.as_mut().unwrap().dtype = None;
    let error = run(open);
    assert_eq!(error.kind(), ErrorKind::Internal);
    insta::assert_snapshot!(error.message(), @"Empty results are of an unknown type - Node: g input: a; `d` gave no parts, and the node `x` leaves the type of `z` open; let it name the type, or take empty_results away");
}

/// Dynamic demultiplexers within others are refused by the check; the order of work does not rely
/// on it.
#[test]
fn within_parts_either_all_have_nothing_or_it_is_an_error() {
    let nodes = ["d 1>3 request split 2", "e 2>2 d split 2", "x 1>1 e"];
    let run = |inner: &[&str], outputs: &[&str], parts: [usize; 2]| -> Result<_> {
        let mut checked = allowing(None, &[&nodes[..], inner].concat(), outputs);
        checked.levels[1].count = Count::Dynamic;
        let (plan, mut flow, mut jobs) = start(checked);
        let mut ran = Vec::new();
        loop {
            let job = jobs.pop().unwrap();
            let ready = job.ready;
            let inputs = job.tensors(&plan, &Budget::default())?;
            let name = name(&plan, ready).to_owned();
            let output = match name.as_str() {
                "d" => numbers(&[2, 1, 1], 0),
                "e" => numbers(&[parts[values(&inputs[0])[0] as usize], 3], 0),
                "response" => {
                    assert!(jobs.is_empty());
                    let shapes = inputs.iter().map(|input| input.shape().to_vec());
                    return Ok((shapes.collect::<Vec<_>>(), ran));
                }
                _ => numbers(&[1], 0),
            };
            ran.push(name);
            jobs.extend(flow.finished(ready, vec![output])?);
        }
    };
    // A node that gathers runs for each outer part, whatever the other has.
    let (shapes, ran) = run(&["g 2>1 x gather e"], &["g"], [0, 2]).unwrap();
    assert_eq!(shapes, [[2, 1]]);
    for node in ["g", "x"] {
        assert_eq!(ran.iter().filter(|name| *name == node).count(), 2, "{node}");
    }
    // The response gathers both levels at once.
    let (shapes, _) = run(&[], &["x", "e"], [3, 3]).unwrap();
    assert_eq!(shapes, [[2, 3, 1], [2, 3, 3]]);
    let (shapes, _) = run(&[], &["x", "e"], [0, 0]).unwrap();
    assert_eq!(shapes, [[2, 0, 0], [2, 0, 3]]);
    for parts in [[0, 2], [2, 0], [2, 1]] {
        let abort = run(&[], &["x", "e"], parts).unwrap_err();
        let text = "Gathered tensor shards dimensions are different";
        assert!(abort.message().starts_with(text), "{abort}");
        assert!(abort.message().contains("as many within each"), "{abort}");
        assert_eq!(abort.kind(), ErrorKind::Internal);
    }
}
