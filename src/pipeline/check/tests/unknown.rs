//! What is told where not everything can be looked at.

use super::{Known, pipeline};
use crate::pipeline::{Rule, Survey, check, survey};

fn surveyed(text: &str) -> Survey {
    survey(&pipeline(text), &Known)
}

fn rules(survey: &Survey) -> Vec<Rule> {
    survey.faults.iter().map(|fault| fault.rule).collect()
}

#[test]
fn what_is_not_looked_at_is_no_fault() {
    let found = surveyed(
        "in i\na = far(q < request.i) -> z; split 4\nb = @far(r < a.z) -> y\n\
         c = gather4(b < b.y) -> a; gather a\nout o < c.a",
    );
    assert_eq!(rules(&found), []);
    assert_eq!(found.plan, None);
    let told: Vec<String> = found
        .unchecked
        .iter()
        .map(|not| format!("{} {} {:?}: {}", not.place, not.node, not.rule, not.reason))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].model_name a MissingModel: it is far away
    7:49 pipeline_config_list[0].nodes[1].library_name b MissingLibrary: nobody may run it
    ");
    // A server has looked at everything; if it has not, it serves no such thing.
    let faults = check(
        &pipeline("in i\na = far(q < request.i) -> z\nout o < a.z"),
        &Known,
    );
    insta::assert_snapshot!(faults.unwrap_err().to_string(), @"
    4:49 pipeline_config_list[0].nodes[0].model_name: Pipeline definition has reference to missing model - node `a`: found what was not looked at: it is far away; expected what can be looked at; put that right first
    ");
}

#[test]
fn what_can_be_judged_without_it_is_judged() {
    let found = surveyed(
        "in i\na = far_auto(q < request.j, q < d.a) -> z; gather x\n\
         b = far_stateful(r < a.zz) -> z\nc = dummy(b < b.z) -> q\nd = dummy(b < c.q) -> a\n\
         out o < a.z",
    );
    assert_eq!(
        rules(&found),
        [
            Rule::AutoModel,
            Rule::MissingGather,
            Rule::MissingSource,
            Rule::DuplicateInput,
            Rule::StatefulModel,
            Rule::MissingSource,
            Rule::MissingOutput,
            Rule::Cycle,
        ]
    );
    assert_eq!(found.unchecked.len(), 2);
}

#[test]
fn everything_looked_at_gives_what_the_check_gives() {
    let sound = "in i\na = dummy(b < request.i) -> a\nout o < a.a";
    let found = surveyed(sound);
    let checked = check(&pipeline(sound), &Known).unwrap();
    assert_eq!(found.plan, Some(checked.plan));
    assert_eq!((found.faults, found.unchecked), (Vec::new(), Vec::new()));
    let faulty = "in i\na = wide(b < request.i) -> a\nb = dummy(b < a.a) -> a\nout o < b.a";
    let found = surveyed(faulty);
    let faults = check(&pipeline(faulty), &Known).unwrap_err();
    assert_eq!((found.plan, found.faults), (None, faults.faults));
}

#[test]
fn libraries_that_do_not_open_are_faults() {
    let found = surveyed(
        "in i\na = @bad_open(b < request.i) -> a\nb = @bad_param(b < a.a) -> a\nout o < b.a",
    );
    let told: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].library_name: Pipeline refers to incorrect library - node `a`: found the library `bad_open`, which does not open: no such file; expected a library that opens and has all six functions; build it, or correct its base_path
    7:49 pipeline_config_list[0].nodes[1].library_name: Failure during custom node library initialization - node `b`: found a zero byte in the parameter `key`; expected texts that C can have; take the zero byte away
    ");
}
