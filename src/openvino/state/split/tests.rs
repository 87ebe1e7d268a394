//! Graphs taken apart, and those that refuse.

use super::{InitialGraph, SplitError, SplitGraph, ValueType};

/// The variables, the graph of a step, and that of initial values.
type Parts = (Vec<String>, String, Option<InitialGraph>);

fn split(text: &str) -> Result<Parts, SplitError> {
    split_with(text, &[])
}

fn split_with(text: &str, values: &[Option<ValueType>]) -> Result<Parts, SplitError> {
    let split = SplitGraph::of(text)?;
    let step = split.step(values)?;
    Ok((split.variables, step, split.initial))
}

/// Returns the layers and edges of a graph.
fn found(text: &str) -> String {
    let layers = text.split("<layer ").skip(1);
    let layers = layers.map(|layer| layer.split(" version").next().unwrap().replace('"', ""));
    let edges = text.split("from-layer=\"").skip(1);
    let edges = edges.map(|edge| edge.replace("\" from-port=\"1\" to-layer=\"", "->"));
    let edges = edges.map(|edge| edge.split('"').next().unwrap().to_owned());
    layers.chain(edges).collect::<Vec<_>>().join("\n")
}

/// Writes a graph of layers, given as id, type and more attributes, and edges.
fn graph(layers: &[(u8, &str, &str)], edges: &[(u8, u8)]) -> String {
    let layer = |&(id, kind, data): &(u8, &str, &str)| {
        format!(
            r#"<layer id="{id}" name="{kind}&amp;{id}" type="{kind}" version="opset6"><data {data}/><input><port id="0"/></input><output><port id="1" precision="FP32" names="n"/></output></layer>"#
        )
    };
    let edge = |(from, to)| {
        format!(r#"<edge from-layer="{from}" from-port="1" to-layer="{to}" to-port="0"/>"#)
    };
    let layers: String = layers.iter().map(layer).collect();
    let edges: String = edges.iter().copied().map(edge).collect();
    format!(
        r#"<?xml version="1.0"?><net name="m"><layers>{layers}</layers><edges>{edges}</edges><rt_info/></net>"#
    )
}

const A: &str = r#"variable_id="a" variable_type="f32" variable_shape="1,?""#;
const B: &str = r#"variable_id="b" variable_type="i64" variable_shape="""#;

fn refused(layers: &[(u8, &str, &str)], edges: &[(u8, u8)]) -> String {
    split(&graph(layers, edges)).unwrap_err().to_string()
}

#[test]
fn variables_become_the_last_inputs_and_outputs() {
    let layers = [
        (0, "Parameter", ""),
        (1, "ReadValue", B),
        (2, "Const", ""),
        (3, "ReadValue", A),
        (4, "Add", ""),
        (5, "Assign", A),
        (6, "Assign", B),
        (7, "Result", ""),
    ];
    let edges = [(2, 3), (0, 4), (1, 4), (3, 4), (4, 5), (4, 6), (4, 7)];
    let (variables, step, initial) = split(&graph(&layers, &edges)).unwrap();
    assert_eq!(variables, ["a", "b"]);
    insta::assert_snapshot!(found(&step), @"
    id=0 name=Parameter&amp;0 type=Parameter
    id=2 name=Const&amp;2 type=Const
    id=4 name=Add&amp;4 type=Add
    id=7 name=Result&amp;7 type=Result
    id=3 name=ReadValue&amp;3 type=Parameter
    id=1 name=ReadValue&amp;1 type=Parameter
    id=5 name=Assign&amp;5 type=Result
    id=6 name=Assign&amp;6 type=Result
    0->4
    1->4
    3->4
    4->5
    4->6
    4->7
    ");
    let initial = initial.unwrap();
    assert_eq!((initial.variables, initial.of_inputs), (vec![0], false));
    insta::assert_snapshot!(found(&initial.text), @"
    id=2 name=Const&amp;2 type=Const
    id=3 name=ReadValue&amp;3 type=Result
    2->3
    ");
    assert!(step.contains(
        r#"<data shape="1,?" element_type="f32"/><output><port id="1" precision="FP32" names="ovms_state_0"/></output></layer>"#
    ));
    assert!(step.ends_with("</edges><rt_info/></net>"));
}

#[test]
fn what_is_remembered_as_it_is_is_copied() {
    let layers = [
        (0, "Parameter", ""),
        (1, "ReadValue", B),
        (3, "ReadValue", A),
        (5, "Assign", A),
        (6, "Assign", B),
    ];
    let (_, step, _) = split(&graph(&layers, &[(0, 5), (1, 6)])).unwrap();
    insta::assert_snapshot!(found(&step), @"
    id=0 name=Parameter&amp;0 type=Parameter
    id=3 name=ReadValue&amp;3 type=Parameter
    id=1 name=ReadValue&amp;1 type=Parameter
    id=5 name=Assign&amp;5 type=Identity
    id=11 name=ovms_state_11 type=Result
    id=6 name=Assign&amp;6 type=Result
    0->5
    1->6
    5->11
    ");
    let copies = |shape: &str| {
        let shape = B.replace(
            r#"variable_shape="""#,
            &format!(r#"variable_shape="{shape}""#),
        );
        let layers = [
            (0, "Parameter", ""),
            (1, "ReadValue", shape.as_str()),
            (6, "Assign", &shape),
        ];
        split(&graph(&layers, &[(0, 6)]))
            .unwrap()
            .1
            .contains("Identity")
    };
    assert_eq!(
        ["", "4,2048", "4,2049", "1,?", "2..3"].map(copies),
        [false, false, true, true, true]
    );
}

#[test]
fn initial_values_of_inputs_keep_all_inputs_where_they_are() {
    let layers = [
        (0, "Parameter", ""),
        (1, "Parameter", ""),
        (2, "Multiply", ""),
        (3, "ReadValue", A),
        (4, "Assign", A),
    ];
    let edges = [(1, 2), (2, 3), (3, 4), (0, 4)];
    let initial = split(&graph(&layers, &edges)).unwrap().2.unwrap();
    assert!(initial.of_inputs);
    let places = [
        "id=\"0\"",
        "id=\"1\"",
        "id=\"2\"",
        "id=\"3\" name=\"ReadValue&amp;3\" type=\"Result\"",
    ];
    let places = places.map(|place| initial.text.find(&format!("<layer {place}")).unwrap());
    assert!(places.is_sorted(), "{}", initial.text);
    assert!(!initial.text.contains("Assign"));
}

#[test]
fn variables_of_old_operators_are_what_they_begin_with() {
    let [a, b] = [r#"variable_id="a""#, r#"variable_id="b""#];
    let layers = [
        (0, "Const", ""),
        (1, "ReadValue", a),
        (2, "ReadValue", b),
        (3, "Assign", a),
        (4, "Assign", b),
    ];
    let edges = [(0, 1), (0, 2), (1, 3), (2, 4)];
    let text = graph(&layers, &edges);
    // The one of `b`.
    let text = text.replace(
        r#"variable_id="b"/><input><port id="0"/></input><output><port id="1" precision="FP32""#,
        r#"variable_id="b"/><input><port id="0"/></input><output><port id="1" precision="FP16""#,
    );
    let value = || Some(["f32", "1,2.."].map(str::to_owned));
    let (_, step, initial) = split_with(&text, &[value(), value()]).unwrap();
    // The runtime keeps halves as floats.
    insta::assert_snapshot!(found(&step), @"
    id=0 name=Const&amp;0 type=Const
    id=1 name=ReadValue&amp;1 type=Parameter
    id=6 name=ReadValue&amp;2 type=Parameter
    id=2 name=ReadValue&amp;2 type=Convert
    id=3 name=Assign&amp;3 type=Identity
    id=9 name=ovms_state_9 type=Result
    id=4 name=Assign&amp;4 type=Convert
    id=8 name=ovms_state_8 type=Result
    1->3
    2->4
    3->9
    6->2
    4->8
    ");
    let data = r#"<data shape="1,2.." element_type="f32"/><output><port id="1" precision="FP32" names="ovms_state_"#;
    assert_eq!(step.matches(data).count(), 2);
    let half = r#"type="Convert" version="opset1"><data destination_type="f16"/><input>"#;
    assert_eq!(step.matches(half).count(), 1);
    let initial = initial.unwrap().text;
    insta::assert_snapshot!(found(&initial), @"
    id=0 name=Const&amp;0 type=Const
    id=1 name=ReadValue&amp;1 type=Result
    id=2 name=ReadValue&amp;2 type=Convert
    id=6 name=ovms_state_6 type=Result
    0->1
    0->2
    2->6
    ");
    for values in [&[value()][..], &[value(), None]] {
        let refused = split_with(&text, values);
        assert_eq!(refused, Err(SplitError::Old("b".into())));
    }
}

#[test]
fn a_model_without_variables_stays_as_it_is() {
    let text = graph(&[(0, "Parameter", ""), (1, "Result", "")], &[(0, 1)]);
    let (_, step, initial) = split(&text).unwrap();
    assert_eq!((step, initial), (text, None));
}

#[test]
fn each_refusal_has_its_text() {
    let read = (1, "ReadValue", A);
    let write = (2, "Assign", A);
    insta::assert_snapshot!(refused(&[read], &[]), @"variable `a` is read 1 times and written 0 times, not once each");
    insta::assert_snapshot!(refused(&[write], &[]), @"variable `a` is read 0 times and written 1 times, not once each");
    insta::assert_snapshot!(refused(&[read, (3, "ReadValue", A), write], &[]), @"variable `a` is read 2 times and written 1 times, not once each");
    insta::assert_snapshot!(refused(&[read, write, (3, "Result", "")], &[(1, 2), (2, 3)]), @"what is written to variable `a` is used by other operators");
    insta::assert_snapshot!(
        refused(&[read, write, (3, "ReadValue", B), (4, "Assign", B)], &[(1, 3)]),
        @"the initial value of variable `b` depends on another variable"
    );
    insta::assert_snapshot!(
        refused(&[read, write, (3, "ScaledDotProductAttention", "")], &[]),
        @"its attention has a cache, which the runtime keeps in place"
    );
    let old = r#"variable_id="old""#;
    insta::assert_snapshot!(refused(&[(1, "ReadValue", old), (2, "Assign", old)], &[]), @"variable `old` is of an operator set before opset6, and its initial value has no known shape");
    let body = graph(&[read, write], &[]).replace("?>", "?><net><layers><layer><body>");
    insta::assert_snapshot!(split(&body).unwrap_err(), @"variable `a` is used within a loop or a branch");
}

#[test]
fn what_is_no_ir_file_is_refused() {
    let whole = graph(&[(1, "ReadValue", A), (2, "Assign", A)], &[(1, 2)]);
    for end in 0..whole.len() - "<rt_info/></net>".len() {
        assert_eq!(split(&whole[..end]), Err(SplitError::NotWhole), "{end}");
    }
    for text in [
        "",
        "<net/>",
        "<net><edges/><layers><layer/></layers></net>",
        "<other><layers/></other>",
        "{}",
    ] {
        assert_eq!(split(text), Err(SplitError::NotWhole), "{text}");
    }
}
