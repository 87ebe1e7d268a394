//! Findings where not everything can be examined.

use super::{Known, pipeline};
use crate::pipeline::{PipelineError, PipelineRule, PipelineSurvey, check, survey};

fn surveyed(text: &str) -> PipelineSurvey {
    survey(&pipeline(text), &Known)
}

fn rules(survey: &PipelineSurvey) -> Vec<PipelineRule> {
    survey.errors.iter().map(|error| error.rule).collect()
}

#[test]
fn what_is_not_looked_at_is_no_error() {
    let found = surveyed(
        "in i\na = far(q < request.i) -> z; split 4\nb = @far(r < a.z) -> y\n\
         c = gather4(b < b.y) -> a; gather a\nout o < c.a",
    );
    assert_eq!(rules(&found), []);
    assert_eq!(found.plan, None);
    let reported: Vec<String> = found
        .unchecked
        .iter()
        .map(|not| {
            format!(
                "{} {} {:?}: {}",
                not.place,
                not.node,
                not.rule.unwrap(),
                not.reason
            )
        })
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].model_name a MissingModel: it is far away
    7:49 pipeline_config_list[0].nodes[1].library_name b MissingLibrary: nobody may run it
    ");
    // A server has looked at everything; if it has not, it serves no such thing.
    let errors = check(
        &pipeline("in i\na = far(q < request.i) -> z\nout o < a.z"),
        &Known,
    );
    insta::assert_snapshot!(errors.unwrap_err().to_string(), @"
    4:49 pipeline_config_list[0].nodes[0].model_name: Pipeline definition has reference to missing model - node `a`: found what was not looked at: it is far away; expected what can be looked at; fix that first
    ");
}

#[test]
fn what_can_be_validated_without_it_is_validated() {
    let found = surveyed(
        "in i\na = far_auto(q < request.j, q < d.a) -> z; gather x\n\
         b = far_stateful(r < a.zz) -> z\nc = dummy(b < b.z) -> q\nd = dummy(b < c.q) -> a\n\
         out o < a.z",
    );
    assert_eq!(
        rules(&found),
        [
            PipelineRule::AutoModel,
            PipelineRule::MissingGather,
            PipelineRule::MissingSource,
            PipelineRule::DuplicateInput,
            PipelineRule::StatefulModel,
            PipelineRule::MissingSource,
            PipelineRule::MissingOutput,
            PipelineRule::Cycle,
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
    assert_eq!((found.errors, found.unchecked), (Vec::new(), Vec::new()));
    let faulty = "in i\na = wide(b < request.i) -> a\nb = dummy(b < a.a) -> a\nout o < b.a";
    let found = surveyed(faulty);
    let errors = check(&pipeline(faulty), &Known).unwrap_err();
    assert_eq!((found.plan, found.errors), (None, errors.errors));
}

#[test]
fn libraries_that_do_not_open_are_errors() {
    let found = surveyed(
        "in i\na = @bad_open(b < request.i) -> a\nb = @bad_param(b < a.a) -> a\nout o < b.a",
    );
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
    let found = surveyed(text);
    let reported: Vec<String> = found
        .unchecked
        .iter()
        .map(|not| format!("{} {}: {}", not.place, not.node, not.reason))
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    4:49 pipeline_config_list[0].nodes[0].model_name a: its inputs and outputs, and what depends on them, since the model cannot be asked
    7:69 pipeline_config_list[0].nodes[1].version b: its inputs and outputs, and what depends on them, since the model cannot be asked
    10:49 pipeline_config_list[0].nodes[2].model_name c: its inputs and outputs, and what depends on them, since the model cannot be asked
    13:49 pipeline_config_list[0].nodes[3].library_name d: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    16:49 pipeline_config_list[0].nodes[4].library_name e: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    19:49 pipeline_config_list[0].nodes[5].library_name f: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    22:49 pipeline_config_list[0].nodes[6].library_name g: its inputs and outputs, and what depends on them, since the custom node cannot be asked
    ");
    // Each of them has its error, and a server tells no more.
    let nodes = |errors: &[PipelineError]| -> Vec<Option<String>> {
        errors.iter().map(|error| error.node.clone()).collect()
    };
    let mut faulty = nodes(&found.errors);
    faulty.sort_unstable();
    let unchecked = found.unchecked.iter().map(|not| Some(not.node.clone()));
    assert_eq!(faulty, unchecked.collect::<Vec<_>>());
    let errors = check(&pipeline(text), &Known).unwrap_err();
    assert_eq!(errors.errors, found.errors);
}
