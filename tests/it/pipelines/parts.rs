//! Demultiplexing and gathering on the server.

use ovms::proto::kserve::ModelMetadataRequest;
use serde_json::{Value, json};

use crate::support::{
    Server,
    grpc::{self, Grpc, to_floats},
    http::post,
    pipelines::{Config, custom, dl, infer, request, ten, with},
};

const X: &str = "in=request.x";

/// Returns a node that splits: `[1,10]` into `count` parts, each plus its number.
fn splits(name: &str, count: i64, input: &str, params: &Value) -> Value {
    let node = custom(name, "shaped", params, input, "out=y");
    with(node, "demultiply_count", count)
}

fn config(models: &[&str]) -> Config {
    let mut config = Config::of(models);
    config.library("shaped", "shaped.c");
    config
}

/// Returns the shapes of the metadata: `x [1, 10] -> out [4, 1, 10]`.
fn shapes(client: &Grpc, name: &str) -> String {
    let request = ModelMetadataRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let mut kserve = client.client.clone();
    let metadata = client.wait(async move { kserve.model_metadata(request).await });
    let metadata = metadata.unwrap();
    let write = |tensors: &[ovms::proto::kserve::model_metadata_response::TensorMetadata]| {
        let tensors = tensors
            .iter()
            .map(|tensor| format!("{} {:?}", tensor.name, tensor.shape));
        tensors.collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} -> {}",
        write(&metadata.inputs),
        write(&metadata.outputs)
    )
}

/// Returns the pipelines of the metadata table, and more.
fn table() -> Config {
    let mut config = config(&["dummy", "add"]);
    let a = |input: &str| dl("a", "dummy", input, "a=y");
    let entry = [a("b=request.x")];
    config.pipeline("plain", "x", &entry, "out=a.y");
    config.pipeline("any", "x", &entry, "out=a.y")["demultiply_count"] = json!(-1);
    config.pipeline("old_any", "x", &entry, "out=a.y")["demultiply_count"] = json!(0);
    config.pipeline("four", "x", &entry, "out=a.y")["demultiply_count"] = json!(4);
    let outer = splits("outer", 4, X, &json!({"out": "4,1,10"}));
    let inner = splits("inner", 3, "in=outer.y", &json!({"out": "3,1,10"}));
    let one_level = [outer.clone(), a("b=outer.y")];
    config.pipeline("split", "x", &one_level, "out=a.y");
    let two = [outer.clone(), inner.clone(), a("b=inner.y")];
    config.pipeline("nested", "x", &two, "out=a.y inner=inner.y");
    let gather = custom(
        "gather",
        "shaped",
        &json!({"in": "3,1,10", "out": "1,10"}),
        "in=a.y",
        "out=y",
    );
    let gather = with(gather, "gather_from_node", "inner");
    let three = [outer, inner, a("b=inner.y"), gather];
    config.pipeline("gathered", "x", &three, "out=gather.y");
    let dynamic = [
        splits("d", -1, X, &json!({"out": "0,1,10", "give": "n,1,10"})),
        a("b=d.y"),
    ];
    config.pipeline("dynamic", "x", &dynamic, "out=a.y itself=d.y");
    let hinted = [
        splits("d", -1, X, &json!({"out": "7,1,10", "give": "n,1,10"})),
        a("b=d.y"),
    ];
    config.pipeline("hinted", "x", &hinted, "out=a.y");
    // Two branches of one level get the same part.
    let branches = [
        splits("d", 3, X, &json!({"out": "3,1,10"})),
        a("b=d.y"),
        dl("sum", "add", "input1=a.y input2=d.y", "sum=y"),
    ];
    config.pipeline("branches", "x", &branches, "out=sum.y");
    config
}

#[test]
fn levels_are_the_first_dimensions_of_the_response() {
    let server = table().serve();
    let client = Grpc::connect(&server);
    let names = [
        "plain", "any", "old_any", "four", "split", "nested", "gathered", "dynamic", "hinted",
        "branches",
    ];
    insta::assert_snapshot!(names.map(|name| format!("{name}: {}", shapes(&client, name))).join("\n"), @"
        plain: x [1, 10] -> out [1, 10]
        any: x [-1, 1, 10] -> out [-1, 1, 10]
        old_any: x [-1, 1, 10] -> out [-1, 1, 10]
        four: x [4, 1, 10] -> out [4, 1, 10]
        split: x [1, 10] -> out [4, 1, 10]
        nested: x [1, 10] -> inner [4, 3, 1, 10], out [4, 3, 1, 10]
        gathered: x [1, 10] -> out [4, 1, 10]
        dynamic: x [1, 10] -> itself [-1, 1, 10], out [-1, 1, 10]
        hinted: x [1, 10] -> out [7, 1, 10]
        branches: x [1, 10] -> out [3, 1, 10]
        ");

    let rows = |name: &str, count: u8| {
        let values: Vec<f32> = (0..count).flat_map(|row| [f32::from(row); 10]).collect();
        request(name, &[("x", &[count.into(), 1, 10], &values)])
    };
    for (name, answer) in [
        ("split", "out [4,1,10] 1 2 3 4"),
        (
            "nested",
            "inner [4,3,1,10] 0 1 2 1 2 3 2 3 4 3 4 5; out [4,3,1,10] 1 2 3 2 3 4 3 4 5 4 5 6",
        ),
        ("gathered", "out [4,1,10] 1 2 3 4"),
        ("branches", "out [3,1,10] 1 3 5"),
    ] {
        assert_eq!(infer(&client, ten(name, 0.0)), answer, "{name}");
    }
    assert_eq!(infer(&client, rows("four", 4)), "out [4,1,10] 1 2 3 4");
    for (name, count) in [("any", 1), ("any", 3), ("old_any", 2)] {
        let answer = client.answered(rows(name, count));
        assert_eq!(answer.outputs[0].shape, [i64::from(count), 1, 10]);
    }
    assert_eq!(
        infer(&client, ten("dynamic", 2.0)),
        "itself [2,1,10] 2 3; out [2,1,10] 3 4"
    );
    assert_eq!(
        infer(&client, ten("hinted", 7.0)).split(' ').nth(1),
        Some("[7,1,10]")
    );
}

#[test]
fn what_cannot_be_split_is_reported() {
    let mut config = table();
    let given = |name: &str, out: &str, give: &str, count: i64| {
        splits(name, count, X, &json!({"out": out, "give": give}))
    };
    let a = dl("a", "dummy", "b=d.y", "a=y");
    for (name, out, give, count) in [
        ("other_count", "0,1,10", "n,1,10", 3),
        ("flat", "0,1,10", "n", -1),
        ("other_shape", "0,1,10", "2,1,9", -1),
    ] {
        let nodes = [given("d", out, give, count), a.clone()];
        config.pipeline(name, "x", &nodes, "out=a.y");
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    let zeros = |name: &str, shape: &[i64]| {
        let count: i64 = shape.iter().product();
        let values = vec![0.0; usize::try_from(count).unwrap()];
        request(name, &[("x", shape, &values)])
    };
    let mut reported = Vec::new();
    for (name, shape) in [
        ("any", &[0, 1, 10][..]),
        ("any", &[10_001, 1, 10]),
        ("any", &[1, 10]),
        ("four", &[3, 1, 10]),
        ("four", &[1, 10]),
    ] {
        reported.push(client.refused(zeros(name, shape)));
    }
    for (name, number) in [
        ("dynamic", 0.0),
        ("dynamic", 10_001.0),
        ("other_count", 2.0),
        ("flat", 5.0),
        ("other_shape", 0.0),
    ] {
        for error in [
            client.refused(ten(name, number)),
            rest(&server, name, number),
        ] {
            // Both parts are wrong, and any of them may be the first.
            reported.push(error.replace("shard: d_1", "shard: d_0"));
        }
    }
    insta::assert_snapshot!(reported.join("\n"), @"
    Aborted: Pipeline execution aborted due to no content from custom node
    InvalidArgument: Too large dynamic demultiplication requested. - Node: request; Expected: at most 10000; Actual: 10001
    InvalidArgument: Invalid number of shape dimensions - Expected: (-1,1,10); Actual: (1,10); input name: x
    InvalidArgument: Invalid input batch size - Expected: 4; Actual: 3; input name: x
    InvalidArgument: Invalid number of shape dimensions - Expected: (4,1,10); Actual: (1,10); input name: x
    Aborted: Pipeline execution aborted due to no content from custom node
    409: Pipeline execution aborted due to no content from custom node
    Internal: Too large dynamic demultiplication requested. - Node: d; Expected: at most 10000; Actual: 10001
    500: Too large dynamic demultiplication requested. - Node: d; Expected: at most 10000; Actual: 10001
    Internal: Wrong dimension size. Should match demultiply count - Node: d output: out; Expected: 3; Actual: 2
    500: Wrong dimension size. Should match demultiply count - Node: d output: out; Expected: 3; Actual: 2
    Internal: Wrong number of dimensions in a tensor to be sharded - Node: d output: out; Expected: at least 2; Actual: (5)
    500: Wrong number of dimensions in a tensor to be sharded - Node: d output: out; Expected: at least 2; Actual: (5)
    InvalidArgument: Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9); shard: d_0
    400: Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9); shard: d_0
    ");
    assert_eq!(infer(&client, ten("split", 0.0)), "out [4,1,10] 1 2 3 4");
    // The most that there may be.
    let most = client.answered(zeros("any", &[10_000, 1, 10]));
    assert_eq!(to_floats(&most.raw_output_contents[0]), vec![1.0; 100_000]);
}

/// Sends ten equal numbers over REST; returns status and text of the error.
fn rest(server: &Server, name: &str, number: f32) -> String {
    let data = [number; 10];
    let body = json!({"inputs": [
        {"name": "x", "shape": [1, 10], "datatype": "FP32", "data": data}
    ]});
    let path = format!("/v2/models/{name}/infer");
    post(server, &path, body.to_string().as_bytes()).error()
}

#[test]
fn parts_of_different_shapes_are_not_gathered() {
    let mut config = config(&[]);
    let nodes = [
        splits("d", 2, X, &json!({"out": "2,1,10"})),
        custom(
            "n",
            "shaped",
            &json!({"out": "1,0", "give": "1,n"}),
            "in=d.y",
            "out=y",
        ),
    ];
    config.pipeline("p", "x", &nodes, "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    insta::assert_snapshot!(client.refused(ten("p", 3.0)), @"Internal: Gathered tensor shards dimensions are different - Node: response input: out part: 1; Expected: FP32 (1,3); Actual: FP32 (1,4)");
    insta::assert_snapshot!(rest(&server, "p", 3.0), @"500: Gathered tensor shards dimensions are different - Node: response input: out part: 1; Expected: FP32 (1,3); Actual: FP32 (1,4)");
}

#[test]
fn empty_parts_are_gathered() {
    let mut config = config(&["passthrough_f32"]);
    let nodes = [
        splits("d", 2, X, &json!({"out": "2,1,0", "give": "2,1,0"})),
        dl("n", "passthrough_f32", "in=d.y", "out=y"),
    ];
    config.pipeline("p", "x", &nodes, "out=n.y itself=d.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let answer = client.answered(ten("p", 0.0));
    for output in &answer.outputs {
        assert_eq!(output.shape, [2, 1, 0]);
    }
    assert!(
        answer
            .raw_output_contents
            .iter()
            .all(|data| data.is_empty())
    );
}

#[test]
fn twelve_levels_within_each_other() {
    let mut config = config(&["dummy"]);
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
    let server = config.serve();
    let client = Grpc::connect(&server);
    let answer = client.answered(ten("open", 0.0));
    assert_eq!(answer.outputs[0].shape, [&[2; 12][..], &[1, 10]].concat());
    let rows = to_floats(&answer.raw_output_contents[0]);
    for (index, row) in rows.chunks(10).enumerate() {
        let ones: u8 = u8::try_from(index.count_ones()).unwrap();
        assert_eq!(row, [f32::from(ones) + 1.0; 10], "{index}");
    }
    assert_eq!(infer(&client, ten("closed", 0.0)), "out [1,10] 1");
}

#[test]
fn custom_nodes_read_and_write_strings() {
    let mut config = config(&[]);
    let rows = custom(
        "n",
        "shaped",
        &json!({
            "in": "0,0", "in_type": "3", "out": "0,0", "out_type": "3", "give": "2,5",
            "name": "y_string",
        }),
        X,
        "y_string=y",
    );
    config.pipeline("p", "x", &[rows], "out_string=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let mut bytes = Vec::new();
    for text in ["four", "no"] {
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let answer = client.answered(grpc::raw("p", "x", "BYTES", &[2], &bytes));
    assert_eq!(answer.outputs[0].datatype, "BYTES");
    assert_eq!(answer.outputs[0].shape, [2]);
    assert_eq!(answer.raw_output_contents[0], bytes);
    assert_eq!(answer.outputs[0].name, "out_string");
}
