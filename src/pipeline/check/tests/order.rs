//! Levels: what is opened last is closed first.

use super::{
    super::order::{DIFFERENT_LEVELS, DIFFERENT_NODES, NOT_GATHERED, NOT_IN_PATH},
    sound, validate,
};

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
