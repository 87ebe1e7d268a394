//! One pipeline for each rule, and what is no error.

use super::{sound, validate, warnings};

/// Pipelines and the errors that they have: number and status text, in order.
const BROKEN: &[(&str, &[(u8, &str)])] = &[
    (
        "name dummy\nin i\na = dummy(b < request.i) -> a\nout o < a.a",
        &[(1, "Pipeline has the same name as model")],
    ),
    (
        "in i\na = @none(b < request.i) -> a\nout o < a.a",
        &[(2, "Pipeline refers to incorrect library")],
    ),
    (
        "in i\na = @bad_init(b < request.i) -> a\nout o < a.a",
        &[(3, "Failure during custom node library initialization")],
    ),
    (
        "in i\nd = @any(b < request.i) -> a; split -1\n\
         e = @any(b < d.a) -> a; split 2\nout o < e.a",
        &[(4, "Functionality not implemented")],
    ),
    (
        "in i\nsplit -1\nd = @any(b < request.i) -> a; split 2\nout o < d.a",
        &[(4, "Functionality not implemented")],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\na = dummy(b < request.i) -> a\nout o < a.a",
        &[(
            5,
            "Pipeline definition has multiple nodes with the same name",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nresponse = dummy(b < request.i) -> a\nout o < a.a",
        &[(
            5,
            "Pipeline definition has multiple nodes with the same name",
        )],
    ),
    (
        "in i\na = dumy(b < request.i) -> a\nout o < a.a",
        &[(6, "Pipeline definition has reference to missing model")],
    ),
    (
        "in i\na = dummy/3(b < request.i) -> a\nout o < a.a",
        &[(6, "Pipeline definition has reference to missing model")],
    ),
    (
        "in i\na = loading(b < request.i) -> a\nout o < a.a",
        &[(6, "Pipeline definition has reference to missing model")],
    ),
    (
        "in i\na = auto(b < request.i) -> a\nout o < a.a",
        &[(7, "Value of provided parameter is forbidden")],
    ),
    (
        "in i\na = stateful(b < request.i) -> a\nout o < a.a",
        &[(7, "Stateful model cannot be subscribed to pipeline")],
    ),
    (
        "in i\na = text2(b < request.i) -> a; split -1\nout o < a.a",
        &[(8, "Demultiplication is not supported for string precision")],
    ),
    (
        "in i\nsplit -1\na = text(b < request.i) -> a\nout o < a.a",
        &[(8, "Demultiplication is not supported for string precision")],
    ),
    (
        "in i\na = @bad_call(b < request.i) -> a\nout o < a.a",
        &[(9, "Custom node failed on metadata call")],
    ),
    (
        "in i\na = @bad_handle(b < request.i) -> a\nout o < a.a",
        &[(
            10,
            "Custom node library has returned corrupted outputs handle",
        )],
    ),
    (
        "in i\na = @bad_count(b < request.i) -> a\nout o < a.a",
        &[(
            10,
            "Custom node library has produced corrupted number of outputs",
        )],
    ),
    (
        "in i\na = flat(b < request.i) -> a; split 10\nout o < a.a",
        &[(11, "Pipeline has not enough shape dimensions to demultiply")],
    ),
    (
        "in i\na = four(b < request.i) -> a; split 3\nout o < a.a",
        &[(
            12,
            "Demultiplication count does not match tensor first dimension",
        )],
    ),
    (
        "in i\na = upto(b < request.i) -> a; split 4\nout o < a.a",
        &[(
            12,
            "Demultiplication count does not match tensor first dimension",
        )],
    ),
    (
        "in i\nd = four(b < request.i) -> a; split 4\n\
         g = gather3(b < d.a) -> a; gather d\nout o < g.a",
        &[(
            12,
            "Demultiplication count does not match tensor first dimension",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> a; gather x\nout o < a.a",
        &[(13, "Gather node refers to not existing node")],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nb = dummy(b < a.a) -> a; gather a\nout o < b.a",
        &[(14, "Gather node refers to node that isn't demultiplexer")],
    ),
    (
        "in i\na = dummy(b < request.i) -> a; gather request\nout o < a.a",
        &[(14, "Gather node refers to node that isn't demultiplexer")],
    ),
    (
        "in i\na = two(x < request.i, y < c.a) -> z\nout o < a.z",
        &[(15, "Pipeline definition has reference to missing node")],
    ),
    (
        "in i\na = two(x < request.i, y < response.o) -> z\nout o < a.z",
        &[(
            16,
            "Pipeline definition has response node used as dependency node",
        )],
    ),
    (
        "in i\na = dummy(b < request.i, c < request.i) -> a\nout o < a.a",
        &[(
            17,
            "Pipeline definition has connection to non existing model input",
        )],
    ),
    (
        "in i, j\na = dummy(b < request.i, b < request.j) -> a\nout o < a.a",
        &[(
            18,
            "Pipeline definition has multiple connections to the same input of underlying model",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nout o < a.a\nout o < a.a",
        &[(
            18,
            "Pipeline definition has multiple connections to the same input of underlying model",
        )],
    ),
    (
        "in i\na = dummy(b < request.j) -> a\nout o < a.a",
        &[(
            19,
            "Pipeline definition has reference to missing data source",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> alias:a\nout o < a.a",
        &[(
            19,
            "Pipeline definition has reference to missing data source",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> alias:x\nout o < a.alias",
        &[(
            20,
            "Pipeline definition has reference to missing model output",
        )],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nb = wide(b < a.a) -> a\nout o < b.a",
        &[(21, "Invalid input shape")],
    ),
    (
        "in i\na = four(b < request.i) -> a\nb = dummy(b < a.a) -> a\nout o < b.a",
        &[(21, "Invalid input shape")],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nb = ints(b < a.a) -> a\nout o < b.a",
        &[(22, "Invalid input precision")],
    ),
    (
        "in i\na = text(b < request.i) -> a\nb = text(b < a.a) -> a\nout o < b.a",
        &[(23, "Functionality not implemented")],
    ),
    (
        "in i\na = two(x < request.i) -> z\nout o < a.z",
        &[(
            24,
            "Pipeline definition does not have connections for all inputs of underlying models",
        )],
    ),
    (
        "in i\na = two(x < request.i, y < b.a) -> z\nb = dummy(b < a.z) -> a\nout o < a.z",
        &[(25, "Pipeline definition contains a cycle")],
    ),
    (
        "in i\na = two(x < request.i, y < a.z) -> z\nout o < a.z",
        &[(25, "Pipeline definition contains a cycle")],
    ),
    (
        "in i\na = dummy(b < request.i) -> a\nb = dummy(b < a.a) -> a\nout o < a.a",
        &[(26, "Pipeline definition has unconnected nodes")],
    ),
    (
        "in i, j\na = dummy(b < request.i) -> a\nb = wide(b < request.i) -> a\n\
         out o < a.a\nout r < b.a",
        &[(
            28,
            "Multiple nodes connected to the same pipeline input require different tensor metadata",
        )],
    ),
    // All of them, in the order of the rules and the nodes.
    (
        "name dummy\nin i\na = dumy(b < request.i) -> a\nb = @none(b < request.x) -> a\n\
         c = wide(b < d.a, e < c.a) -> a\nd = dummy(b < request.i) -> a; gather c\n\
         out o < c.a\nout o < e.a",
        &[
            (1, "Pipeline has the same name as model"),
            (2, "Pipeline refers to incorrect library"),
            (6, "Pipeline definition has reference to missing model"),
            (
                19,
                "Pipeline definition has reference to missing data source",
            ),
            (21, "Invalid input shape"),
            (
                17,
                "Pipeline definition has connection to non existing model input",
            ),
            (14, "Gather node refers to node that isn't demultiplexer"),
            (15, "Pipeline definition has reference to missing node"),
            (
                18,
                "Pipeline definition has multiple connections to the same input of underlying model",
            ),
            (25, "Pipeline definition contains a cycle"),
        ],
    ),
];

#[test]
fn every_rule_is_reported_by_its_text() {
    for (text, expected) in BROKEN {
        let errors = validate(text).map(|_| ()).expect_err(text);
        let found: Vec<(u8, &str)> = errors
            .errors
            .iter()
            .map(|error| error.rule.unwrap())
            .map(|rule| (rule.number, rule.status))
            .collect();
        assert_eq!(found, *expected, "{errors}\n{text}");
        assert_eq!(errors.status(), expected[0].1);
    }
}

#[test]
fn every_rule_but_that_of_order_is_broken_by_one_of_them() {
    let broken = |number| {
        let mut first = BROKEN.iter().map(|(_, expected)| expected[0].0);
        first.any(|first| first == number)
    };
    let missing: Vec<u8> = (1..=28).filter(|number| !broken(*number)).collect();
    assert_eq!(missing, [27], "see `order`");
}

#[test]
fn what_overlaps_is_no_error() {
    for text in [
        // Ranges, and -1 anywhere.
        "in i\na = dummy(b < request.i) -> a\nb = range(b < a.a) -> a\nout o < b.a",
        "in i\nd = @any(b < request.i) -> a; split -1\na = dummy(b < d.a) -> a\nout o < a.a",
        // Several nodes of one source, and one node under several names.
        "in i\na = dummy(b < request.i) -> one:a, two:a\n\
         b = two(x < a.one, y < a.two) -> z\nout o < b.z\nout p < a.one",
        // Straight through.
        "in i\nout o < request.i",
        // Strings from the request and to the response.
        "in i\na = text(b < request.i) -> a\nout o < a.a",
        // A version that is there.
        "in i\na = dummy/2(b < request.i) -> a\nout o < a.a",
    ] {
        assert_eq!(warnings(text), [""; 0], "{text}");
    }
}

#[test]
fn the_last_of_two_equal_aliases_counts() {
    let text = "in i\na = @open(b < request.i) -> x:a, x:zz\nout o < a.x";
    let checked = sound(text);
    assert_eq!(checked.plan.nodes[1].outputs[0].name, "zz");
    assert_eq!(
        checked.warnings[0].message.to_string(),
        "the alias `x` comes again further down; that one counts"
    );
}

#[test]
fn what_may_not_be_meant_is_reported() {
    for (text, expected) in [
        (
            "in i\na = any(b < request.i) -> a; split 4\nout o < a.a",
            "requests fail where the first dimension of the output `a`, which is -1, is not 4",
        ),
        (
            "in i\nsplit 2\na = batch2(b < request.i) -> a\nout o < a.a",
            "the input `b` takes a batch of 2 behind a demultiplexer; only nodes that gather \
             should take more than 1",
        ),
        (
            "in i\na = nchw(b < request.i) -> a\nb = nhwc(b < a.a) -> a\nout o < b.a",
            "the input has the layout NHWC, what comes from `a` has NCHW; axes are not transposed",
        ),
        (
            "in i, j\na = dummy(b < request.i) -> a\nout o < a.a",
            "the input `j` is left out, since no node uses it",
        ),
        (
            "in i\na = dummy(b < request.i) -> a, idle:x\nout o < a.a",
            "what the node `a` runs has no output `x`, which nothing uses",
        ),
        (
            "in i\na = @text2(b < request.i) -> a; split -1\nout o < a.a",
            "the output `a` has strings, which cannot be split",
        ),
        (
            "in i, i\na = dummy(b < request.i) -> a\nout o < a.a",
            "the input `i` is listed twice",
        ),
        (
            "in i\nd = four(b < request.i) -> a; split 4\n\
             g = gather(b < d.a) -> a; gather d\nout o < g.a",
            "the input `b` takes -1 parts, and is always given 4",
        ),
        (
            "in i\nd = any(b < request.i) -> a; split -1\n\
             g = gather4(b < d.a) -> a; gather d\nout o < g.a",
            "requests fail where `d` gives another number of parts than 4, which the input `b` \
             takes",
        ),
    ] {
        assert_eq!(warnings(text), [expected], "{text}");
    }
}

#[test]
fn batches_of_any_size_before_a_fixed_one_are_reported() {
    let note = |text: &str| warnings(text).join("\n");
    insta::assert_snapshot!(
        note("in i\na = rows(b < request.i) -> a\nb = dummy(b < a.a) -> a\nout o < b.a"),
        @"requests fail unless `a` gives 1 in front, which the input `b` takes: its output `a` is (-1,10); give both models the same batch_size, or split with demultiply_count"
    );
    // The last of several on the way is meant, and a range that is wider than another.
    insta::assert_snapshot!(
        note(
            "in i\na = rows(b < request.i) -> a\nb = rows(b < a.a) -> a\nc = rows8(b < b.a) -> a\n\
             d = dummy(b < c.a) -> a\nout o < d.a"
        ),
        @"
        requests fail unless `b` gives [1~8] in front, which the input `b` takes: its output `a` is (-1,10); give both models the same batch_size, or split with demultiply_count
        requests fail unless `c` gives 1 in front, which the input `b` takes: its output `a` is ([1~8],10); give both models the same batch_size, or split with demultiply_count
        "
    );
    for text in [
        // All of them are open.
        "in i\na = rows(b < request.i) -> a\nb = rows(b < a.a) -> a\nout o < b.a",
        "in i\na = rows8(b < request.i) -> a\nb = rows(b < a.a) -> a\nout o < b.a",
        // Who reads the request beside it says how many rows there are.
        "in i\na = rows(b < request.i) -> a\nb = dummy(b < a.a) -> a\nc = dummy(b < request.i) -> a\n\
         out o < b.a\nout p < c.a",
        "in i\na = dummy(b < request.i) -> a\nb = rows(b < a.a) -> a\nc = dummy(b < b.a) -> a\nout o < c.a",
        "in i, j\na = dummy(b < request.i) -> a\nb = sum(x < a.a, y < request.j) -> z\n\
         c = dummy(b < b.z) -> a\nout o < c.a",
    ] {
        assert_eq!(note(text), "", "{text}");
    }
}
