//! Findings where not everything can be examined.

use super::{Known, pipeline};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, Rule},
    pipeline::{check, rules},
};

fn found(text: &str) -> Diagnostics {
    check(&pipeline(text), &Known).unwrap_err()
}

fn broken(found: &Diagnostics) -> Vec<Rule> {
    let errors = found.errors.iter();
    errors.map(|error| error.rule.unwrap()).collect()
}

/// Writes a node that was not examined: its place, name, and the reason.
fn reported(unchecked: &Diagnostic) -> String {
    let Diagnostic {
        place,
        node,
        message,
        ..
    } = unchecked;
    let (place, node) = (place.as_ref().unwrap(), node.as_deref().unwrap());
    format!("{place} {node}: {message}")
}

#[test]
fn what_is_not_looked_at_is_no_error() {
    let found = found(
        "in i\na = far(q < request.i) -> z; split 4\nb = @far(r < a.z) -> y\n\
         c = gather4(b < b.y) -> a; gather a\nout o < c.a",
    );
    assert_eq!(found.errors, []);
    let unchecked: Vec<String> = found.unchecked.iter().map(reported).collect();
    insta::assert_snapshot!(unchecked.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].model_name a: it is far away
    7:49 pipeline_config_list[0].nodes[1].library_name b: nobody may run it
    ");
    let rules = found.unchecked.iter().map(|found| found.rule);
    let expected = [rules::MISSING_MODEL, rules::MISSING_LIBRARY].map(Some);
    assert_eq!(rules.collect::<Vec<_>>(), expected);
}

#[test]
fn what_can_be_validated_without_it_is_validated() {
    let found = found(
        "in i\na = far_auto(q < request.j, q < d.a) -> z; gather x\n\
         b = far_stateful(r < a.zz) -> z\nc = dummy(b < b.z) -> q\nd = dummy(b < c.q) -> a\n\
         out o < a.z",
    );
    assert_eq!(
        broken(&found),
        [
            rules::AUTO_MODEL,
            rules::MISSING_GATHER,
            rules::MISSING_SOURCE,
            rules::DUPLICATE_INPUT,
            rules::STATEFUL_MODEL,
            rules::MISSING_SOURCE,
            rules::MISSING_OUTPUT,
            rules::CYCLE,
        ]
    );
    assert_eq!(found.unchecked.len(), 2);
}

#[test]
fn libraries_that_do_not_open_are_errors() {
    let found =
        found("in i\na = @bad_open(b < request.i) -> a\nb = @bad_param(b < a.a) -> a\nout o < b.a");
    let reported: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].library_name: Pipeline refers to incorrect library - node `a`: found the library `bad_open`, which does not open: no such file; expected a library that opens and has all six functions; build it, or correct its base_path
    7:49 pipeline_config_list[0].nodes[1].library_name: Failure during custom node library initialization - node `b`: found a zero byte in the parameter `key`; expected texts that C can have; take the zero byte away
    ");
}

#[test]
fn what_hides_behind_a_error_is_reported() {
    let text = "in i\na = dumy(q < request.i) -> z; split 4\nb = dummy/7(b < a.z) -> a\n\
                c = loading(b < b.a) -> a\nd = @gone(b < c.a) -> a\n\
                e = @bad_open(b < d.a) -> a\nf = @bad_init(b < e.a) -> a\n\
                g = @bad_call(b < f.a) -> a\nh = wide(b < g.a) -> a; gather a\nout o < h.a";
    let found = found(text);
    let unchecked: Vec<String> = found.unchecked.iter().map(reported).collect();
    insta::assert_snapshot!(unchecked.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].model_name a: its inputs and outputs, and what depends on them, since the model cannot be asked
    7:69 pipeline_config_list[0].nodes[1].version b: its inputs and outputs, and what depends on them, since the model cannot be asked
    10:49 pipeline_config_list[0].nodes[2].model_name c: its inputs and outputs, and what depends on them, since the model cannot be asked
    13:49 pipeline_config_list[0].nodes[3].library_name d: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    16:49 pipeline_config_list[0].nodes[4].library_name e: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    19:49 pipeline_config_list[0].nodes[5].library_name f: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    22:49 pipeline_config_list[0].nodes[6].library_name g: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    ");
    // Each of them has its error.
    let nodes = |found: &[Diagnostic]| -> Vec<Option<String>> {
        found.iter().map(|found| found.node.clone()).collect()
    };
    let mut faulty = nodes(&found.errors);
    faulty.sort_unstable();
    assert_eq!(faulty, nodes(&found.unchecked));
    assert!(found.unchecked.iter().all(|found| found.rule.is_none()));
}
