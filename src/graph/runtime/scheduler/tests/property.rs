//! Random graphs: the same packets as by direct evaluation, whatever the interleaving; errors that
//! close all nodes; limits at which nothing hangs.

use std::{cell::RefCell, rc::Rc};

use proptest::prelude::*;

use super::{
    random::{Case, Spy, cases},
    rig::Rig,
};
use crate::graph::{
    calculators::{
        error::{CalculatorStep, GraphRunError},
        timestamp::Timestamp,
    },
    runtime::scheduler::GraphJob,
};

/// Random numbers for the interleaving.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// Drives a run to its end in a random order; up to a number of steps.
fn drive(case: &Case, rig: &mut Rig, cancel_at: Option<usize>) {
    let mut dice = Dice(case.seed | 1);
    let mut waiting: Vec<std::vec::IntoIter<(i64, i64)>> = (0..case.inputs.len())
        .map(|input| case.packets(input).into_iter())
        .collect();
    let mut is_open = vec![true; waiting.len()];
    let mut held = Vec::new();
    for turn in 0..200_000 {
        let is_over = rig.scheduler.error().is_some() || !is_open.contains(&true);
        if rig.scheduler.is_finished() && is_over {
            rig.take();
            return;
        }
        if cancel_at == Some(turn) {
            rig.scheduler.fail(GraphRunError::internal("from outside"));
        }
        match dice.roll(5) {
            0 => {
                let input = dice.roll(waiting.len());
                if !is_open[input]
                    || !rig.scheduler.accepts(input)
                    || rig.scheduler.error().is_some()
                {
                    continue;
                }
                match waiting[input].next() {
                    Some((value, at)) => {
                        if dice.roll(3) == 0 {
                            rig.scheduler.bound(input, Timestamp::new(at));
                        }
                        rig.push(&format!("s{input}"), value, at).unwrap();
                    }
                    None => {
                        is_open[input] = false;
                        rig.scheduler.close_input(input);
                    }
                }
            }
            1 => rig.take(),
            2 if !held.is_empty() => {
                let (ticket, outcome) = held.swap_remove(dice.roll(held.len()));
                rig.scheduler.done(ticket, outcome);
            }
            _ => {
                if held.len() < 4
                    && let Some(job) = rig.scheduler.next_job()
                {
                    held.push(rig.call(job));
                }
            }
        }
    }
    panic!("it hangs");
}

/// Returns a spy that lets every step pass.
fn calm() -> Spy {
    Rc::new(RefCell::new(|_: usize, _: &GraphJob| Ok(())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_those_of_a_plain_evaluation(case in cases()) {
        let mut rig = case.rig(&calm());
        drive(&case, &mut rig, None);
        prop_assert_eq!(rig.scheduler.error(), None);
        for (stream, expected) in case.evaluate().into_iter().enumerate() {
            prop_assert_eq!(rig.reported(&format!("s{stream}")), expected, "stream s{}", stream);
        }
        for place in 0..case.nodes.len() {
            prop_assert_eq!(rig.count(&format!("n{place}"), CalculatorStep::Open), 1);
            prop_assert_eq!(rig.count(&format!("n{place}"), CalculatorStep::Close), 1);
        }
    }

    #[test]
    fn errors_close_all_that_was_opened_once(
        case in cases(),
        bad in any::<usize>(),
        fatal in 0_usize..30,
        cancel_at in prop::option::of(0_usize..400),
    ) {
        // A node fails at its n-th call, whichever step that is.
        let bad = bad % case.nodes.len();
        let mut calls = 0;
        let opened = Rc::new(RefCell::new(Vec::new()));
        let known = Rc::clone(&opened);
        let spy = move |node: usize, job: &GraphJob| {
            if node == bad {
                calls += 1;
                if calls == fatal + 1 {
                    return Err(GraphRunError::internal("as planned"));
                }
            }
            if job.ticket.step == CalculatorStep::Open {
                known.borrow_mut().push(node);
            }
            Ok(())
        };
        let spy: Spy = Rc::new(RefCell::new(spy));
        let mut rig = case.rig(&spy);
        drive(&case, &mut rig, cancel_at);
        prop_assert!(rig.scheduler.is_finished() && rig.scheduler.is_idle());
        prop_assert!(rig.scheduler.next_job().is_none());
        for node in 0..case.nodes.len() {
            let name = format!("n{node}");
            let expected = usize::from(opened.borrow().contains(&node));
            prop_assert_eq!(rig.count(&name, CalculatorStep::Close), expected, "{}", &name);
            let last = rig.calls.iter().rfind(|(called, _)| *called == name);
            prop_assert!(expected == 0 || last.is_some_and(|(_, step)| *step == CalculatorStep::Close));
        }
        let truth = case.evaluate();
        for (stream, expected) in truth.iter().enumerate() {
            let reported = rig.reported(&format!("s{stream}"));
            prop_assert!(expected.starts_with(&reported), "what was sent is right");
        }
    }
}
