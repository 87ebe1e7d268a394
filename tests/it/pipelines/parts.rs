//! Demultiplexing and gathering on the server.

use serde_json::{Value, json};

use super::shared::SHARED;
use crate::support::{
    grpc::{Grpc, to_floats},
    pipelines::{Config, custom, dl, infer, request, ten, with},
};

const X: &str = "in=request.x";

/// Returns a node that splits: `[1,10]` into `count` parts, each plus its number.
fn splits(name: &str, count: i64, input: &str, params: &Value) -> Value {
    let node = custom(name, "shaped", params, input, "out=y");
    with(node, "demultiply_count", count)
}

/// Adds pipelines to the shared server.
pub(super) fn add(config: &mut Config) {
    let mut nodes: Vec<Value> = (0..12)
        .map(|level| {
            let input = match level {
                0 => X.to_owned(),
                _ => format!("in=d{}.y", level - 1),
            };
            splits(&format!("d{level}"), 2, &input, &json!({"out": "2,1,10"}))
        })
        .collect();
    nodes.push(dl("a", "dummy", "b=d11.y", "a=y"));
    config.pipeline("open", "x", &nodes, "out=a.y");
    // And closed again one by one: each takes the pair of its level and gives the first of it.
    let mut source = "a".to_owned();
    for level in (0..12).rev() {
        let name = format!("g{level}");
        let gather = custom(
            &name,
            "shaped",
            &json!({"in": "2,1,10"}),
            &format!("in={source}.y"),
            "out=y",
        );
        nodes.push(with(gather, "gather_from_node", format!("d{level}")));
        source = name;
    }
    config.pipeline("closed", "x", &nodes, "out=g0.y");
    // Three parts, of as many as there are.
    let takes = |source: &str| {
        let (params, input) = (json!({"in": "3,1,10"}), format!("in={source}"));
        let node = custom("g", "shaped", &params, &input, "out=y");
        with(node, "gather_from_node", "request")
    };
    let each = dl("a", "dummy", "b=request.x", "a=y");
    for (name, nodes) in [
        ("three", vec![takes("request.x")]),
        ("three_of_a_model", vec![each, takes("a.y")]),
    ] {
        config.pipeline(name, "x", &nodes, "out=g.y")["demultiply_count"] = json!(-1);
    }
}

#[test]
fn a_custom_node_gathers_as_many_parts_as_it_declares() {
    let client = Grpc::connect(&SHARED.server);
    for (name, first) in [("three", 0), ("three_of_a_model", 1)] {
        let parts = |count: usize| {
            let shape = [i64::try_from(count).unwrap(), 1, 10];
            infer(
                &client,
                request(name, &[("x", &shape, &vec![0.0; 10 * count])]),
            )
        };
        assert_eq!(parts(3), format!("out [1,10] {first}"));
        assert_eq!(
            parts(2),
            "InvalidArgument: Invalid input batch size - Node: g input: in Invalid batch size - \
             Expected: 3; Actual: 2"
        );
    }
}

#[test]
fn twelve_levels_within_each_other() {
    let client = Grpc::connect(&SHARED.server);
    let answer = client.answered(ten("open", 0.0));
    assert_eq!(answer.outputs[0].shape, [&[2; 12][..], &[1, 10]].concat());
    let rows = to_floats(&answer.raw_output_contents[0]);
    for (index, row) in rows.chunks(10).enumerate() {
        let ones: u8 = u8::try_from(index.count_ones()).unwrap();
        assert_eq!(row, [f32::from(ones) + 1.0; 10], "{index}");
    }
    assert_eq!(infer(&client, ten("closed", 0.0)), "out [1,10] 1");
}
