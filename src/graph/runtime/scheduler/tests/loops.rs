//! Back edges: generators, limiters, loopbacks.

use super::rig::{Made, Rig, full, int, later, node, pass, value};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{CalculatorStep, GraphRunError},
        packet::Packet,
        timestamp::Timestamp,
    },
    check::plan::InputHandler,
};

/// Returns a node like Python generators: for an input `n` it sends 0..n, one at a time, triggered
/// by itself.
fn generator(name: &str, input: &str, output: &str) -> Made {
    let (input, output) = (format!("IN:{input}"), format!("OUT:{output}"));
    let mut state: Option<(i64, i64)> = None;
    full(
        name,
        &[&input, "LOOPBACK:loop"],
        &["LOOPBACK:loop", &output],
        move |job| {
            if job.ticket.step != CalculatorStep::Process {
                return later(Vec::new(), false);
            }
            if !job.inputs[0].is_empty() {
                if state.is_some() {
                    return Err(GraphRunError::internal("busy"));
                }
                state = Some((0, value(&job.inputs[0])));
            }
            let Some((next, end)) = state.filter(|(next, end)| next < end) else {
                state = None;
                return later(Vec::new(), false);
            };
            state = Some((next + 1, end));
            let at = job.at.value();
            later(
                vec![
                    Emit::Packet(1, int(next, at)),
                    Emit::Packet(0, int(0, at + 1)),
                ],
                false,
            )
        },
    )
    .back("loop")
    .handler(InputHandler::SyncSet(vec![vec![1], vec![0]]))
}

#[test]
fn generators_send_one_set_after_the_other() {
    let mut rig = Rig::new(&["in"], &["out"], vec![generator("gen", "in", "out")]);
    rig.push("in", 3, 10).unwrap();
    rig.run();
    assert_eq!(rig.reported("out"), [(0, 10), (1, 11), (2, 12)]);
    assert!(!rig.scheduler.is_finished(), "the input is open");
    rig.push("in", 2, 14).unwrap();
    rig.run();
    assert_eq!(rig.reported("out")[3..], [(0, 14), (1, 15)]);
    rig.end();
    assert_eq!(rig.count("gen", CalculatorStep::Close), 1);
    assert_eq!(rig.scheduler.error(), None);
}

#[test]
fn generators_go_on_after_the_input_is_closed() {
    let nodes = vec![
        generator("gen", "in", "mid"),
        pass("pass", &["mid"], &["out"]),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.push("in", 10_000, 0).unwrap();
    rig.end();
    let expected: Vec<(i64, i64)> = (0..10_000).map(|place| (place, place)).collect();
    assert_eq!(rig.reported("out"), expected);
}

#[test]
fn a_set_leaves_the_graph_before_the_next_is_made() {
    let nodes = vec![
        pass("last", &["b"], &["out"]),
        pass("mid", &["a"], &["b"]),
        generator("gen", "in", "a"),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.run();
    rig.calls.clear();
    rig.push("in", 2, 0).unwrap();
    rig.run();
    let names: Vec<&str> = rig.calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["gen", "mid", "last", "gen", "mid", "last", "gen"]);
}

#[test]
fn an_automatic_time_collides_with_what_a_generator_sent() {
    let mut rig = Rig::new(&["in"], &["out"], vec![generator("gen", "in", "out")]);
    rig.push("in", 3, 0).unwrap();
    rig.run();
    rig.push("in", 3, 1).unwrap();
    rig.run();
    let error = rig.scheduler.error().unwrap().to_string();
    assert!(
        error.starts_with(
            "INVALID_ARGUMENT: CalculatorGraph::Run() failed: \nPacket timestamp mismatch on a calculator \
             receiving from stream \"out\". Current minimum expected timestamp is 3 but received 1"
        ),
        "{error}"
    );
    assert!(rig.scheduler.is_finished());
}

/// A node without sets waits for its own back edge; only the end of the input lets it go on.
#[test]
fn a_generator_without_sets_runs_when_the_input_ends() {
    let made = generator("gen", "in", "out").handler(InputHandler::Default);
    let mut rig = Rig::new(&["in"], &["out"], vec![made]);
    rig.push("in", 3, 5).unwrap();
    rig.run();
    assert_eq!(rig.reported("out"), []);
    rig.end();
    assert_eq!(rig.reported("out"), [(0, 5), (1, 6), (2, 7)]);
    assert_eq!(rig.scheduler.error(), None);
}

/// Returns a limiter that passes one packet at a time, keeps the newest, and drops the others.
fn limiter() -> Made {
    let mut busy = false;
    let mut kept: Option<Packet> = None;
    node(
        "limiter",
        &["in", "FINISHED:done"],
        &["first"],
        move |job| {
            // Sorted by tag: the untagged input is the first.
            if !job.inputs[1].is_empty() {
                busy = false;
            }
            if !job.inputs[0].is_empty() {
                kept = Some(job.inputs[0].clone());
            }
            let mut emits = Vec::new();
            if !busy && let Some(packet) = kept.take() {
                busy = true;
                emits.push(Emit::Packet(0, packet));
            }
            if job.bounds[0] == Timestamp::DONE && kept.is_none() {
                emits.push(Emit::Close(0));
            }
            emits
        },
    )
    .back("done")
    .handler(InputHandler::Immediate)
    .wants_bounds()
}

#[test]
fn a_limiter_drops_what_comes_while_all_are_busy() {
    let mut slow = Vec::new();
    let nodes = vec![limiter(), pass("work", &["first"], &["done"])];
    let mut rig = Rig::new(&["in"], &["done"], nodes);
    rig.run();
    // The work on the first packet goes on while the others come.
    let mut held = None;
    for at in 0..5 {
        rig.push("in", at, at).unwrap();
        while let Some(job) = rig.scheduler.next_job() {
            let is_work = rig.plan.nodes[job.ticket.node].spec.name == "work";
            let (ticket, outcome) = rig.call(job);
            if is_work {
                slow.push(at);
                held = Some((ticket, outcome));
            } else {
                rig.scheduler.done(ticket, outcome);
            }
        }
    }
    assert_eq!(slow, [0], "one at a time");
    let (ticket, outcome) = held.unwrap();
    rig.scheduler.done(ticket, outcome);
    rig.run();
    assert_eq!(rig.reported("done"), [(0, 0), (4, 4)]);
    rig.end();
    assert_eq!(rig.scheduler.error(), None);
    assert_eq!(rig.count("limiter", CalculatorStep::Close), 1);
    assert_eq!(rig.count("work", CalculatorStep::Close), 1);
}

/// Returns a node like `PreviousLoopbackCalculator`: pairs each packet of MAIN with the LOOP packet
/// of the one before.
fn previous() -> Made {
    let mut mains: Vec<Timestamp> = Vec::new();
    let mut loops: Vec<Packet> = vec![Packet::empty(Timestamp::UNSTARTED)];
    let mut known = Timestamp::UNSTARTED;
    node(
        "previous",
        &["LOOP:looped", "MAIN:in"],
        &["before"],
        move |job| {
            if !job.inputs[1].is_empty() {
                mains.push(job.at);
            }
            let settled = job.bounds[0].settled();
            if !job.inputs[0].is_empty() {
                loops.push(job.inputs[0].clone());
                known = known.max(job.at);
            } else if job.bounds[0] < Timestamp::ONE_OVER_POST_STREAM {
                known = known.max(settled);
            }
            let mut emits = Vec::new();
            while let (Some(at), Some(packet)) = (mains.first(), loops.first()) {
                emits.push(if packet.is_empty() {
                    Emit::Bound(0, at.next_allowed())
                } else {
                    Emit::Packet(0, packet.moved(*at))
                });
                mains.remove(0);
                loops.remove(0);
            }
            if job.bounds[1] == Timestamp::DONE && mains.is_empty() {
                emits.push(Emit::Close(0));
            }
            emits
        },
    )
    .back("looped")
    .handler(InputHandler::Immediate)
    .wants_bounds()
}

#[test]
fn a_loopback_gives_what_came_of_the_packet_before() {
    // Running sum: the previous result is added to the input.
    let sum = node("sum", &["in", "before"], &["looped"], |job| {
        let sum: i64 = job.inputs.iter().map(|input| value(input).max(0)).sum();
        vec![Emit::Packet(0, int(sum, job.at.value()))]
    });
    let mut rig = Rig::new(&["in"], &["looped"], vec![previous(), sum]);
    for value in 1..=5 {
        rig.push("in", value, value * 10).unwrap();
    }
    rig.run();
    let expected = [(1, 10), (3, 20), (6, 30), (10, 40), (15, 50)];
    assert_eq!(rig.reported("looped"), expected);
    rig.end();
    assert_eq!(rig.reported("looped"), expected);
    assert_eq!(rig.scheduler.error(), None);
}

/// Checks that unclosed loops end in the order of the graph, and that their last packets arrive.
#[test]
fn loops_end_in_the_order_of_the_graph() {
    let make = |name: &str, input: &str, output: &str| {
        let (back, out) = (format!("BACK:{name}"), format!("OUT:{output}"));
        let (back, out): (&str, &str) = (&back, &out);
        full(name, &[back, &format!("IN:{input}")], &[back, out], |job| {
            later(
                match job.ticket.step {
                    CalculatorStep::Open => Vec::new(),
                    CalculatorStep::Process => vec![Emit::Packet(1, job.inputs[1].clone())],
                    CalculatorStep::Close => vec![Emit::Packet(1, int(99, 1_000))],
                },
                false,
            )
        })
        .back(name)
        .handler(InputHandler::Immediate)
    };
    let nodes = vec![make("second", "mid", "out"), make("first", "in", "mid")];
    let mut rig = Rig::new(&["in"], &["out", "mid"], nodes);
    rig.feed("in", [1, 2]);
    rig.scheduler.close_inputs();
    rig.run();
    let closes = rig
        .calls
        .iter()
        .filter(|(_, step)| *step == CalculatorStep::Close);
    let closes: Vec<&str> = closes.map(|(name, _)| name.as_str()).collect();
    assert_eq!(closes, ["first", "second"]);
    assert_eq!(rig.reported("mid"), [(1, 1), (2, 2), (99, 1_000)]);
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.contains("mismatch"),
        "99 came at 1000 already: {error}"
    );
}
