//! Names that differ little, and many of them; the rest is in the sheet `names`.

use super::shared::SHARED;
use crate::support::{
    grpc::{Grpc, error},
    pipelines::{Config, dl, infer, status, ten},
    streams::Talk,
};

const X: &str = "b=request.x";

/// Adds pipelines to the shared server.
pub(super) fn add(config: &mut Config) {
    let node = |index: usize| {
        let source = match index {
            0 => X.to_owned(),
            _ => format!("b=n{}.y", index - 1),
        };
        dl(&format!("n{index}"), "dummy", &source, "a=y")
    };
    let nodes: Vec<_> = (0..200).map(node).collect();
    config.pipeline("long", "x", &nodes, "out=n199.y");
    config.pipeline("Long", "x", &nodes[..1], "out=n0.y");
    config.pipeline("long ", "x", &nodes[..2], "out=n1.y");
    // The second of one name is left out.
    config.pipeline("long", "x", &nodes[..3], "out=n2.y");
}

#[test]
fn requests_of_a_stream_may_have_any_version() {
    let client = Grpc::connect(&SHARED.server);
    let mut talk = Talk::open(&client);
    for version in ["abc", "1.5", "7", "99999999999999999999", ""] {
        let mut asked = ten("Long", 0.0);
        asked.model_version = version.to_owned();
        let answer = talk.ask(asked).response();
        assert_eq!(answer.model_version, "1", "{version}");
    }
}

#[test]
fn two_names_that_differ_little_and_two_hundred_nodes() {
    let server = &SHARED.server;
    server.wait_log("Duplicated pipeline names");
    let client = Grpc::connect(server);
    assert_eq!(infer(&client, ten("long", 0.0)), "out [1,10] 200");
    assert_eq!(infer(&client, ten("Long", 0.0)), "out [1,10] 1");
    assert_eq!(infer(&client, ten("long ", 0.0)), "out [1,10] 2");
    assert_eq!(status(server, "Long"), "AVAILABLE OK");
    let unknown = client.infer(ten("LONG", 0.0)).unwrap_err();
    assert_eq!(
        error(&unknown),
        "NotFound: Model with requested name is not found"
    );
}
