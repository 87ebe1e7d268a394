//! Servables that fail to load though the server starts: the messages about them.

use crate::support::{
    Server,
    graphs::{PASS, reload, write},
    http::get,
    pipelines::status,
    repository,
};

#[test]
fn a_graph_of_the_flags_that_is_broken_is_reported_and_can_be_fixed() {
    let root = repository::folder();
    // Features that only the C++ server has are reported as left out.
    let text = PASS.replace("PassThroughCalculator", "HttpLLMCalculator");
    write(root.path(), &text);
    let server = Server::begin("g", root.path(), &[]);
    let reported = server.wait_log("Unable to find Calculator \"HttpLLMCalculator\"; ");
    assert!(reported.contains(" ERROR "), "{reported}");
    let why = "graphs for large language models are absent from this server on purpose";
    assert!(reported.contains(why), "{reported}");
    server.wait_log("the server goes on without its graph");
    server.wait_ready();
    let listed = get(&server, "/v1/config").json();
    let said = &listed["g"]["model_version_status"][0];
    assert_eq!(said["state"], "LOADING");
    write(root.path(), PASS);
    assert_eq!(reload(&server), 201);
    assert_eq!(status(&server, "g"), "AVAILABLE OK");
}
