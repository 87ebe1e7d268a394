//! Servables that fail to load though the server starts: the messages about them.

use crate::support::{
    Server,
    graphs::{PASS, reload, write},
    http::get,
    model,
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

#[test]
fn a_version_that_the_policy_names_and_is_not_there_is_reported() {
    let policy = r#"{"specific": {"versions": [7]}}"#;
    let flags = ["--model_version_policy", policy];
    let server = Server::begin("d", &model("dummy"), &flags);
    let reported = server.wait_log("there is no version 7 in ");
    assert!(reported.contains(" WARN model `d`: "), "{reported}");
    server.wait_ready();
    assert_eq!(
        get(&server, "/v1/config").json()["d"]["model_version_status"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
}
