//! Runs in which a node fails.

use super::rig::{Made, Rig, full, int, later, node, pass, through};
use crate::graph::calculators::{
    calculator::Emit,
    error::{AbseilCode, CalculatorStep, GraphRunError},
};

/// Returns a node that fails in a step.
fn bad(name: &str, input: &str, output: &str, step: CalculatorStep) -> Made {
    let text = name.to_owned();
    full(name, &[input], &[output], move |job| {
        if job.ticket.step == step {
            return Err(GraphRunError::internal(format!("{text} is bad")));
        }
        let emits = if job.ticket.step == CalculatorStep::Process {
            through(job)
        } else {
            Vec::new()
        };
        later(emits, false)
    })
}

#[test]
fn a_error_of_process_closes_all_and_names_the_node() {
    let nodes = vec![
        pass("before", &["in"], &["a"]),
        bad("bad", "a", "b", CalculatorStep::Process),
        pass("after", &["b"], &["c"]),
        pass("beside", &["in"], &["d"]),
    ];
    let mut rig = Rig::new(&["in"], &["a", "c", "d"], nodes);
    rig.push("in", 1, 1).unwrap();
    rig.push("in", 2, 2).unwrap();
    rig.run();
    assert!(rig.scheduler.is_finished());
    let error = rig.scheduler.error().unwrap();
    assert_eq!(
        error.to_string(),
        "INTERNAL: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"bad\" failed: bad is bad"
    );
    for name in ["before", "bad", "after", "beside"] {
        assert_eq!(rig.count(name, CalculatorStep::Close), 1, "{name}");
    }
    assert_eq!(rig.count("after", CalculatorStep::Process), 0);
    assert_eq!(rig.reported("a"), [(1, 1)], "what came before it is sent");
}

#[test]
fn a_error_of_open_closes_who_was_opened() {
    let nodes = vec![
        pass("first", &["in"], &["a"]),
        bad("bad", "a", "b", CalculatorStep::Open),
        pass("last", &["b"], &["out"]),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.push("in", 1, 1).unwrap();
    rig.run();
    assert!(rig.scheduler.is_finished());
    let steps: Vec<(&str, CalculatorStep)> = rig
        .calls
        .iter()
        .map(|(name, step)| (name.as_str(), *step))
        .collect();
    assert_eq!(
        steps,
        [
            ("first", CalculatorStep::Open),
            ("bad", CalculatorStep::Open),
            ("first", CalculatorStep::Close)
        ]
    );
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.ends_with("Calculator::Open() for node \"bad\" failed: bad is bad"),
        "{error}"
    );
}

#[test]
fn a_error_of_close_is_reported_unless_the_run_has_failed_before() {
    let make = || {
        vec![
            bad("bad", "in", "mid", CalculatorStep::Close),
            pass("pass", &["mid"], &["out"]),
        ]
    };
    let mut rig = Rig::new(&["in"], &["out"], make());
    rig.feed("in", [1]);
    rig.end();
    assert_eq!(rig.reported("out"), [(1, 1)]);
    assert_eq!(rig.count("pass", CalculatorStep::Close), 1);
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.ends_with("Calculator::Close() for node \"bad\" failed: bad is bad"),
        "{error}"
    );
    let mut rig = Rig::new(&["in"], &["out"], make());
    rig.feed("in", [1]);
    rig.scheduler.fail(GraphRunError::new(
        AbseilCode::Unavailable,
        "the client has gone",
    ));
    rig.run();
    assert!(rig.scheduler.is_finished());
    assert_eq!(
        rig.scheduler.error().unwrap().to_string(),
        "UNAVAILABLE: CalculatorGraph::Run() failed: \nthe client has gone"
    );
}

#[test]
fn what_runs_at_a_error_ends_and_is_closed_then() {
    let nodes = vec![
        pass("slow", &["in"], &["a"]),
        bad("bad", "in", "b", CalculatorStep::Process),
    ];
    let mut rig = Rig::new(&["in"], &["a"], nodes);
    rig.run();
    rig.push("in", 1, 1).unwrap();
    let (bad, slow) = (
        rig.scheduler.next_job().unwrap(),
        rig.scheduler.next_job().unwrap(),
    );
    assert_eq!((bad.ticket.node, slow.ticket.node), (1, 0));
    let (ticket, outcome) = rig.call(bad);
    rig.scheduler.done(ticket, outcome);
    let job = rig.scheduler.next_job().unwrap();
    assert_eq!(
        (job.ticket.node, job.ticket.step),
        (1, CalculatorStep::Close)
    );
    let (ticket, outcome) = rig.call(job);
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.next_job().is_none() && !rig.scheduler.is_finished());
    assert_eq!(rig.scheduler.running, 1);
    let (ticket, _) = rig.call(slow);
    rig.scheduler
        .done(ticket, Err(GraphRunError::invalid("as well")));
    rig.run();
    assert!(rig.scheduler.is_finished());
    assert_eq!(rig.count("slow", CalculatorStep::Close), 1);
    let error = rig.scheduler.error().unwrap();
    assert_eq!(error.code, AbseilCode::Internal, "that of the first");
    assert_eq!(error.message.lines().count(), 3);
    assert!(
        error
            .message
            .ends_with("Calculator::Process() for node \"slow\" failed: as well")
    );
}

#[test]
fn a_reader_that_stalls_does_not_keep_a_failed_run() {
    let endless = node("endless", &[], &["out"], |job| {
        let at = job.at.value().wrapping_sub(i64::MIN);
        vec![Emit::Packet(0, int(at, at))]
    });
    let mut rig = Rig::new(&[], &["out"], vec![endless]);
    rig.scheduler.backlog = 8;
    while let Some(job) = rig.scheduler.next_job() {
        let (ticket, outcome) = rig.call(job);
        rig.scheduler.done(ticket, outcome);
    }
    assert_eq!(rig.count("endless", CalculatorStep::Process), 8);
    assert!(!rig.scheduler.is_finished() && !rig.scheduler.is_idle());
    rig.scheduler
        .fail(GraphRunError::new(AbseilCode::Unavailable, "gone"));
    let job = rig.scheduler.next_job().unwrap();
    assert_eq!(job.ticket.step, CalculatorStep::Close);
    let (ticket, outcome) = rig.call(job);
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.is_finished());
    rig.take();
    assert_eq!(rig.reported("out").len(), 8);
}

#[test]
fn errors_are_reported_up_to_a_number() {
    let mut rig = Rig::new(&["in"], &["out"], vec![pass("pass", &["in"], &["out"])]);
    for number in 0..1_000 {
        rig.scheduler
            .fail(GraphRunError::internal(format!("error {number}")));
    }
    let error = rig.scheduler.error().unwrap().message;
    assert_eq!(error.lines().count(), 17);
    assert!(rig.scheduler.is_finished(), "nothing was opened");
    assert!(rig.scheduler.next_job().is_none());
}

#[test]
fn errors_behind_that_of_a_pipelined_node_are_not_reported() {
    let seen = |nodes| {
        let mut rig = Rig::new(&["in"], &["out"], nodes);
        rig.run();
        for at in 1..=3 {
            rig.push("in", at, at).unwrap();
        }
        let jobs: Vec<_> = std::iter::from_fn(|| rig.scheduler.next_job()).collect();
        assert_eq!(jobs.len(), 3, "all are in flight");
        for job in jobs {
            let error = GraphRunError::internal(format!("at {}", job.at));
            rig.scheduler.done(job.ticket, Err(error));
        }
        rig.run();
        rig.scheduler
            .error()
            .unwrap()
            .message
            .matches("at ")
            .count()
    };
    assert_eq!(seen(vec![pass("n", &["in"], &["out"]).pipelined(3)]), 1);
    assert_eq!(seen(vec![pass("n", &["in"], &["out"]).in_flight(3)]), 3);
}
