//! Tests of small graphs: calculators combined by the scheduler.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{all, harness::Nothing};
use crate::{
    graph::{
        calculators::{
            calculator::{Calculator, CalculatorContext, Env, Later, StepOutcome},
            error::{CalculatorStep, GraphRunError},
            packet::{Packet, Payload, TensorKind},
            timestamp::Timestamp,
        },
        check::{check, plan::GraphPlan},
        runtime::{run::Run, scheduler::Scheduler},
    },
    tensor::{DataType, Tensor},
};

/// Returns a tensor identified by its size.
fn tensor(size: usize) -> Payload {
    let data = Bytes::from(vec![0; size]);
    let tensor = Tensor::new(DataType::U8, vec![size], data).expect("a tensor");
    Payload::Tensor(TensorKind::OpenVino, tensor)
}

/// Step-by-step run of a graph.
struct Graph {
    plan: Arc<GraphPlan>,
    scheduler: Scheduler,
    nodes: Vec<Box<dyn Calculator>>,
    env: Env,
}

impl Graph {
    fn new(text: &str, sides: &[(&str, i64)]) -> Self {
        let checked = check(text, "graph.pbtxt", all()).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = Arc::new(checked.plan);
        let given = |name: &str| {
            let mut sides = sides.iter().filter(|(known, _)| *known == name);
            sides
                .next()
                .map(|(_, value)| Packet::side(Payload::Int(*value)))
        };
        let side = plan.sides.iter().map(|side| given(&side.name)).collect();
        let nodes = plan.nodes.iter();
        Self {
            nodes: nodes
                .map(|node| (node.factory.make)(&node.spec, &Nothing))
                .collect(),
            scheduler: Scheduler::new(Arc::clone(&plan), side).expect("all side packets"),
            plan,
            env: Env::new(Arc::new(Nothing)),
        }
    }

    /// Pushes tensors by their sizes, and returns the output packets, as `out 3 @0`.
    fn push(&mut self, at: i64, inputs: &[(&str, usize)]) -> Vec<String> {
        for (name, size) in inputs {
            let input = self.plan.input(name).expect("an input");
            let packet = Packet::new(tensor(*size), Timestamp::new(at));
            self.scheduler.push(input, packet).expect("takes it");
        }
        self.run()
    }

    fn bound(&mut self, at: i64, input: &str) -> Vec<String> {
        let input = self.plan.input(input).expect("an input");
        self.scheduler.bound(input, Timestamp::new(at));
        self.run()
    }

    /// Closes the inputs and runs the graph to its end.
    fn end(&mut self) -> Vec<String> {
        self.scheduler.close_inputs();
        let reported = self.run();
        assert!(self.scheduler.is_finished());
        assert_eq!(self.scheduler.error(), None);
        reported
    }

    fn run(&mut self) -> Vec<String> {
        let mut reported = Vec::new();
        loop {
            while let Some((output, packet)) = self.scheduler.take_output() {
                let name = &self.plan.outputs[output].port.name;
                let size = match packet.payload() {
                    Some(Payload::Tensor(_, tensor)) => tensor.shape()[0],
                    other => panic!("expected a tensor, got {other:?}"),
                };
                reported.push(format!("{name} {size} @{}", packet.at()));
            }
            let Some(job) = self.scheduler.next_job() else {
                return reported;
            };
            let node = &self.plan.nodes[job.ticket.node];
            let (inputs, side, bounds) = (&job.inputs, &job.side, &job.bounds);
            let mut context = CalculatorContext {
                node: &node.spec,
                at: job.at,
                inputs,
                side,
                env: &self.env,
                trace: None,
                bounds,
                emits: Vec::new(),
            };
            let calculator = &mut self.nodes[job.ticket.node];
            let flow = match job.ticket.step {
                CalculatorStep::Open => calculator.open(&mut context),
                CalculatorStep::Process => calculator.process(&mut context),
                CalculatorStep::Close => calculator.close(&mut context),
            };
            let emits = context.emits;
            let outcome: Result<Later, GraphRunError> = flow.map(|flow| Later {
                emits,
                stop: matches!(flow, StepOutcome::Stop),
            });
            self.scheduler.done(job.ticket, outcome);
        }
    }
}

#[test]
fn a_loopback_gives_what_came_of_the_packet_before() {
    let mut graph = Graph::new(
        r#"input_stream: "in"
        output_stream: "out"
        node {
          calculator: "PreviousLoopbackCalculator"
          input_stream: "MAIN:in"
          input_stream: "LOOP:out"
          input_stream_info { tag_index: "LOOP" back_edge: true }
          output_stream: "PREV_LOOP:before"
        }
        node {
          calculator: "MergeCalculator"
          input_stream: "before"
          input_stream: "in"
          output_stream: "out"
        }"#,
        &[],
    );
    assert_eq!(graph.push(0, &[("in", 3)]), ["out 3 @0"]);
    assert_eq!(graph.push(5, &[("in", 4)]), ["out 3 @5"]);
    assert_eq!(graph.push(6, &[("in", 5)]), ["out 3 @6"]);
    assert!(graph.end().is_empty(), "it ends though it waits for itself");
}

#[test]
fn a_limiter_waits_for_what_it_let_through() {
    let limiter = |finished: &str, more: &str| {
        format!(
            r#"input_stream: "in"
            {more}
            output_stream: "out"
            node {{
              calculator: "FlowLimiterCalculator"
              input_stream: "in"
              input_stream: "FINISHED:{finished}"
              input_stream_info {{ tag_index: "FINISHED" back_edge: true }}
              output_stream: "let"
            }}
            node {{
              calculator: "PassThroughCalculator"
              input_stream: "let"
              output_stream: "out"
            }}"#
        )
    };
    let mut graph = Graph::new(&limiter("out", ""), &[]);
    assert_eq!(graph.push(0, &[("in", 3)]), ["out 3 @0"]);
    assert_eq!(graph.push(1, &[("in", 4)]), ["out 4 @1"]);
    assert!(graph.end().is_empty());

    let by_hand = limiter("done", "input_stream: \"done\"").replace(
        r#"input_stream_info { tag_index: "FINISHED" back_edge: true }"#,
        "",
    );
    let mut graph = Graph::new(&by_hand, &[]);
    assert_eq!(graph.push(0, &[("in", 3)]), ["out 3 @0"]);
    assert!(graph.push(1, &[("in", 4)]).is_empty());
    assert!(graph.push(0, &[("done", 1)]).is_empty());
    assert_eq!(graph.push(2, &[("in", 5)]), ["out 5 @2"]);
    assert!(graph.end().is_empty());
}

/// Loop over a list of both inputs, with a copy of `with` per element, twice.
const LOOP: &str = r#"input_stream: "a"
    input_stream: "b"
    input_stream: "with"
    output_stream: "first"
    output_stream: "last"
    node {
      calculator: "ConcatenateOVTensorVectorCalculator"
      input_stream: "a"
      input_stream: "b"
      output_stream: "list"
      options {
        [mediapipe.ConcatenateVectorCalculatorOptions.ext] { only_emit_if_all_present: true }
      }
    }
    node {
      calculator: "BeginLoopOVTensorCalculator"
      input_stream: "ITERABLE:list"
      input_stream: "CLONE:with"
      output_stream: "ITEM:item"
      output_stream: "CLONE:copy"
      output_stream: "BATCH_END:end"
    }
    node {
      calculator: "PacketInnerJoinCalculator"
      input_stream: "item"
      input_stream: "copy"
      output_stream: "joined"
      output_stream: "copied"
    }
    node {
      calculator: "EndLoopOVTensorCalculator"
      input_stream: "ITEM:joined"
      input_stream: "BATCH_END:end"
      output_stream: "ITERABLE:items"
    }
    node {
      calculator: "EndLoopOVTensorCalculator"
      input_stream: "ITEM:copied"
      input_stream: "BATCH_END:end"
      output_stream: "ITERABLE:copies"
    }
    node {
      calculator: "SplitOVTensorVectorCalculator"
      input_stream: "items"
      output_stream: "first"
      options {
        [mediapipe.SplitVectorCalculatorOptions.ext] {
          ranges { begin: 0 end: 1 }
          element_only: true
        }
      }
    }
    node {
      calculator: "GetOVTensorVectorItemCalculator"
      input_stream: "VECTOR:copies"
      output_stream: "ITEM:last"
      options { [mediapipe.GetVectorItemCalculatorOptions.ext] { item_index: 1 } }
    }"#;

#[test]
fn a_loop_sees_each_element_and_ends_at_the_time_of_the_list() {
    let mut graph = Graph::new(LOOP, &[]);
    let mut reported = graph.push(50, &[("a", 3), ("b", 4), ("with", 9)]);
    reported.sort();
    assert_eq!(reported, ["first 3 @50", "last 9 @50"]);
    assert!(graph.push(60, &[("a", 3), ("with", 9)]).is_empty());
    assert!(graph.bound(61, "b").is_empty(), "no list");
    let mut reported = graph.push(70, &[("a", 5), ("b", 6), ("with", 8)]);
    reported.sort();
    assert_eq!(reported, ["first 5 @70", "last 8 @70"]);
    assert!(graph.end().is_empty());
}

#[test]
fn a_loop_over_nothing_settles_its_time() {
    // A node joining the result with the input runs although there was no list.
    let text = LOOP.replace("output_stream: \"last\"\n", "output_stream: \"merged\"\n")
        + r#"
        node {
          calculator: "MergeCalculator"
          input_stream: "last"
          input_stream: "with"
          output_stream: "merged"
        }"#;
    let text = text.replacen("output_stream: \"first\"\n", "", 1);
    let text = text.replace(
        "output_stream: \"ITEM:merged\"",
        "output_stream: \"ITEM:last\"",
    );
    let mut graph = Graph::new(&text, &[]);
    assert!(graph.push(60, &[("a", 3), ("with", 9)]).is_empty());
    assert_eq!(graph.bound(61, "b"), ["merged 9 @60"]);
}

#[test]
fn a_gate_asks_for_the_presence_of_another_packet() {
    let mut graph = Graph::new(
        r#"input_stream: "in"
        input_stream: "ticket"
        output_stream: "out"
        node {
          calculator: "PacketPresenceCalculator"
          input_stream: "PACKET:ticket"
          output_stream: "PRESENCE:there"
        }
        node {
          calculator: "GateCalculator"
          input_stream: "in"
          input_stream: "ALLOW:there"
          output_stream: "let"
        }
        node {
          calculator: "PassThroughCalculator"
          input_stream: "let"
          output_stream: "out"
        }"#,
        &[],
    );
    assert!(
        graph.push(0, &[("in", 3)]).is_empty(),
        "nothing is known of 0"
    );
    assert_eq!(graph.push(0, &[("ticket", 1)]), ["out 3 @0"]);
    assert!(graph.push(1, &[("in", 4)]).is_empty());
    assert!(graph.bound(2, "ticket").is_empty());
    assert_eq!(graph.push(2, &[("in", 5), ("ticket", 1)]), ["out 5 @2"]);
    assert!(graph.end().is_empty());
}

#[test]
fn a_demux_and_a_mux_keep_the_order() {
    let mut graph = Graph::new(
        r#"input_stream: "in"
        output_stream: "out"
        node {
          calculator: "RoundRobinDemuxCalculator"
          input_stream: "in"
          output_stream: "OUTPUT:0:a"
          output_stream: "OUTPUT:1:b"
          output_stream: "SELECT:which"
        }
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "c" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "d" }
        node {
          calculator: "MuxCalculator"
          input_stream: "INPUT:0:c"
          input_stream: "INPUT:1:d"
          input_stream: "SELECT:which"
          output_stream: "OUTPUT:out"
        }"#,
        &[],
    );
    for at in 0..5 {
        let size = usize::try_from(at).unwrap() + 1;
        assert_eq!(
            graph.push(at, &[("in", size)]),
            [format!("out {size} @{at}")]
        );
    }
    assert!(graph.end().is_empty());
}

#[test]
fn side_packets_reach_nodes_from_options_and_requests() {
    let mut graph = Graph::new(
        r#"input_stream: "a"
        input_stream: "b"
        output_stream: "out"
        node {
          calculator: "ConstantSidePacketCalculator"
          output_side_packet: "PACKET:usual"
          options {
            [mediapipe.ConstantSidePacketCalculatorOptions.ext] { packet { int_value: 1 } }
          }
        }
        node {
          calculator: "DefaultSidePacketCalculator"
          input_side_packet: "OPTIONAL_VALUE:which"
          input_side_packet: "DEFAULT_VALUE:usual"
          output_side_packet: "VALUE:select"
        }
        node {
          calculator: "MuxCalculator"
          input_stream: "INPUT:0:a"
          input_stream: "INPUT:1:b"
          input_side_packet: "SELECT:select"
          output_stream: "OUTPUT:out"
        }"#,
        &[],
    );
    assert_eq!(graph.push(0, &[("a", 1), ("b", 2)]), ["out 2 @0"]);
    assert!(graph.end().is_empty());
}

#[test]
fn a_source_clocks_others() {
    let mut graph = Graph::new(
        r#"input_stream: "in"
        output_stream: "out"
        node {
          calculator: "CountingSourceCalculator"
          input_side_packet: "MAX_COUNT:ticks"
          output_stream: "tick"
        }
        node {
          calculator: "PacketClonerCalculator"
          input_stream: "in"
          input_stream: "TICK:tick"
          output_stream: "out"
        }"#,
        &[("ticks", 3)],
    );
    assert!(graph.run().is_empty(), "the input is not settled");
    let mut reported = graph.push(1, &[("in", 7)]);
    reported.extend(graph.end());
    assert_eq!(reported, ["out 7 @1", "out 7 @2"]);
}

#[test]
fn what_joins_outputs_waits_for_no_other_set_of_their_node() {
    let sets = r#"SyncSetInputStreamHandler" options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set { tag_index: ":0" } } }"#;
    for handler in [sets, "ImmediateInputStreamHandler\""] {
        let text = format!(
            r#"input_stream: "a"
            input_stream: "b"
            output_stream: "x"
            output_stream: "y"
            output_stream: "first"
            node {{
              calculator: "PassThroughCalculator"
              input_stream: "a"
              input_stream: "b"
              output_stream: "x"
              output_stream: "y"
              input_stream_handler {{ input_stream_handler: "{handler} }}
            }}
            node {{
              calculator: "MergeCalculator"
              input_stream: "x"
              input_stream: "y"
              output_stream: "first"
            }}"#
        );
        let mut graph = Graph::new(&text, &[]);
        assert_eq!(graph.push(5, &[("a", 3)]), ["x 3 @5", "first 3 @5"]);
        assert_eq!(graph.push(6, &[("b", 4)]), ["y 4 @6", "first 4 @6"]);
        // Of one request both are there.
        assert_eq!(
            graph.push(7, &[("a", 5), ("b", 6)]),
            ["x 5 @7", "y 6 @7", "first 5 @7"]
        );
        assert!(graph.end().is_empty());
    }
}

#[test]
fn a_step_that_was_looked_for_runs_though_no_time_is_left() {
    let text = r#"input_stream: "in" output_stream: "out"
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#;
    let plan = check(text, "graph.pbtxt", all()).expect("it is valid").plan;
    let env = Env::new(Arc::new(Nothing));
    let times = [Arc::default()].into();
    let run = Run::new(&Arc::new(plan), Vec::new(), &Nothing, env, &times, None);
    let mut run = run.expect("all side packets");
    assert!(!run.turn(), "it is opened, and has no packet");
    assert!(!run.has_step());
    let packet = Packet::new(tensor(3), Timestamp::new(0));
    run.scheduler.push(0, packet).expect("takes it");
    assert!(run.has_step() && run.has_step());
    run.turn_for(Duration::ZERO);
    assert!(run.scheduler.has_output());
}
