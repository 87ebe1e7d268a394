//! Levels: what is opened last is closed first.

use super::{
    super::order::{DIFFERENT_LEVELS, DIFFERENT_NODES, NOT_GATHERED, NOT_IN_PATH},
    sound, validate,
};
use crate::{diagnostic::Diagnostic, pipeline::rules::ORDER};

fn first(text: &str) -> String {
    let errors = validate(text).map(|_| ()).expect_err(text);
    assert_eq!(
        errors.status(),
        "Demultiplexer and gather nodes are not in LIFO order"
    );
    errors.errors[0].message.to_string()
}

#[test]
fn levels_out_of_order_are_refused_by_kind() {
    for (text, kind) in [
        (
            "in i\nd = @four(b < request.i) -> a; split 4\n\
             g = gather4(b < d.a) -> a; gather d\nout o < g.a\nout p < d.a",
            NOT_GATHERED,
        ),
        (
            "in i\nd = @nested(b < request.i) -> a; split 4\n\
             e = @three(b < x.a) -> a; split 3\nx = dummy(b < f.a) -> a\n\
             f = @four(b < request.i) -> a; split 4\nout o < e.a\nout p < d.a",
            DIFFERENT_LEVELS,
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\n\
             e = @three(b < d.a) -> a; split 3\nx = gather4(b < e.a) -> a; gather d\n\
             out o < x.a",
            DIFFERENT_NODES,
        ),
        (
            "in i, j\nd = @four(b < request.i) -> a; split 4\n\
             x = gather4(b < request.j) -> a; gather d\nout o < x.a\nout p < d.a",
            NOT_IN_PATH,
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\nx = dummy(b < request.i) -> a\n\
             y = two(x < d.a, y < x.a) -> z\nout o < y.z",
            DIFFERENT_LEVELS,
        ),
        (
            "in i\nd = @four(b < request.i) -> a; split 4\nout o < d.a\nout p < request.i",
            DIFFERENT_LEVELS,
        ),
    ] {
        assert!(first(text).contains(kind), "{text}");
    }
}

/// Writes for each node the levels that it opens, gathers and runs in.
fn reported(text: &str) -> String {
    let plan = sound(text).plan;
    let name = |level: usize| &*plan.nodes[plan.levels[level].node].name;
    let mut reported = Vec::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        let levels: Vec<&str> = node.levels.iter().copied().map(name).collect();
        let gathers: Vec<&str> = node.gathers.iter().copied().map(name).collect();
        let runs = plan
            .runs(id)
            .map_or("?".to_owned(), |runs| runs.to_string());
        reported.push(format!(
            "{}: in [{}], gathers [{}], runs {runs}",
            node.name,
            levels.join(", "),
            gathers.join(", ")
        ));
    }
    reported.join("\n")
}

#[test]
fn levels_are_known_before_any_request() {
    insta::assert_snapshot!(reported(
        "in i\nd = @four(b < request.i) -> a; split 4\n\
         e = @three(b < d.a) -> a; split 3\nx = dummy(b < e.a) -> a\n\
         g = gather3(b < x.a) -> a; gather e\nout o < g.a"
    ), @"
    request: in [], gathers [], runs 1
    d: in [], gathers [], runs 1
    e: in [d], gathers [], runs 4
    x: in [d, e], gathers [], runs 12
    g: in [d], gathers [e], runs 4
    response: in [], gathers [d], runs 1
    ");
    insta::assert_snapshot!(reported(
        "in i\nsplit -1\nx = dummy(b < request.i) -> a\n\
         g = gather(b < x.a) -> a; gather request\nout o < g.a\nout p < g.a"
    ), @"
    request: in [], gathers [], runs 1
    x: in [request], gathers [], runs ?
    g: in [], gathers [request], runs 1
    response: in [], gathers [], runs 1
    ");
}

#[test]
fn advice_leads_to_a_sound_pipeline() {
    let split = "in i\nd = @four(b < request.i) -> a; split 4\n";
    for (refused, advice, followed) in [
        (
            "x = dummy(b < request.i) -> a\ny = two(x < d.a, y < x.a) -> z\nout o < y.z",
            "take `x` through a node that gathers from `d`: gather_from_node here would gather all inputs alike",
            "x = dummy(b < request.i) -> a\ng = gather4(b < d.a) -> a; gather d\n\
             y = two(x < g.a, y < x.a) -> z\nout o < y.z",
        ),
        // With gather_from_node at the node itself it is the same.
        (
            "x = dummy(b < request.i) -> a\ny = two(x < d.a, y < x.a) -> z; gather d\nout o < y.z",
            "take `x` through a node that gathers from `d`: gather_from_node here would gather all inputs alike",
            "x = dummy(b < request.i) -> a\ng = gather4(b < d.a) -> a; gather d\n\
             y = two(x < g.a, y < x.a) -> z\nout o < y.z",
        ),
        (
            "e = @three(b < d.a) -> a; split 3\nx = dummy(b < request.i) -> a\n\
             y = two(x < x.a, y < e.a) -> z\nout o < y.z",
            "take `y` through nodes that gather from `e`, then `d`: gather_from_node here would gather all \
             inputs alike",
            "e = @three(b < d.a) -> a; split 3\nx = dummy(b < request.i) -> a\n\
             f = gather3(b < e.a) -> a; gather e\ng = gather4(b < f.a) -> a; gather d\n\
             y = two(x < x.a, y < g.a) -> z\nout o < y.z",
        ),
        (
            "e = @three(b < request.i) -> a; split 3\ny = two(x < d.a, y < e.a) -> z\nout o < y.z",
            "take `x` through a node that gathers from `d`, and `y` through a node that gathers from `e`: \
             gather_from_node here would gather all inputs alike",
            "e = @three(b < request.i) -> a; split 3\nf = gather3(b < e.a) -> a; gather e\n\
             g = gather4(b < d.a) -> a; gather d\ny = two(x < g.a, y < f.a) -> z\nout o < y.z",
        ),
        (
            "out o < d.a\nout p < request.i",
            "take the other outputs through a node that gathers from `d`, or `p` from within `d`, too",
            "g = gather4(b < d.a) -> a; gather d\nout o < g.a\nout p < request.i",
        ),
        (
            "g = gather4(b < d.a) -> a; gather d\nout o < g.a\nout p < d.a",
            "take `p` from `g`, which gathers from `d`, or from a node behind it",
            "g = gather4(b < d.a) -> a; gather d\nout o < g.a\nout p < g.a",
        ),
        (
            "e = @three(b < d.a) -> a; split 3\nx = gather4(b < e.a) -> a; gather d\nout o < x.a",
            "gather from `e` in a node before this one; or here, and from `d` in a node behind it",
            "e = @three(b < d.a) -> a; split 3\nf = gather3(b < e.a) -> a; gather e\n\
             x = gather4(b < f.a) -> a; gather d\nout o < x.a",
        ),
    ] {
        let errors = validate(&format!("{split}{refused}"))
            .map(|_| ())
            .expect_err(refused);
        let of_order = |error: &&Diagnostic| error.rule == Some(ORDER);
        let found = errors.errors.iter().filter(of_order);
        let found: Vec<_> = found.map(|error| error.hint.as_deref()).collect();
        assert_eq!(found, [Some(advice)], "{refused}");
        sound(&format!("{split}{followed}"));
    }
}
