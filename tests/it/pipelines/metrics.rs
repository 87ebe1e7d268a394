//! Metrics of pipelines.

use serde_json::json;

use super::shared::SHARED;
use crate::support::{
    graphs::{self, PASS},
    grpc::Grpc,
    http::get,
    pipelines::{Config, custom, dl, infer, request, ten, with},
};

#[test]
fn pipelines_count_requests_and_nodes_and_models_count_runs() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let split = custom(
        "split",
        "shaped",
        &json!({"out": "3,1,10"}),
        "in=request.x",
        "out=y",
    );
    let nodes = [
        with(split, "demultiply_count", 3),
        dl("a", "dummy", "b=split.y", "a=y"),
    ];
    config.pipeline("p", "x", &nodes, "out=a.y");
    graphs::add(&mut config, "g", PASS);
    let list = "ovms_requests_success,ovms_requests_fail,ovms_request_time_us,\
                ovms_current_requests,ovms_streams,ovms_infer_req_queue_size,\
                ovms_infer_req_active,ovms_inference_time_us,ovms_wait_for_infer_req_time_us,\
                ovms_node_time_us";
    let server = config.serve_with(&["--metrics_enable", "--metrics_list", list]);
    let client = Grpc::connect(&server);
    for _ in 0..2 {
        assert_eq!(infer(&client, ten("p", 0.0)), "out [3,1,10] 1 2 3");
    }
    client.refused(request("p", &[("x", &[1, 9], &[0.0; 9])]));
    client.check_serves();
    let page = get(&server, "/metrics").text();
    // Of times only how many there are.
    let counted = |line: &&str| {
        let is_time = line.contains("_bucket") || line.contains("_sum");
        !line.starts_with('#') && !is_time && !line.ends_with(" 0")
    };
    let lines: Vec<&str> = page.lines().filter(counted).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
        ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 7
        ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="p",version="1"} 2
        ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="p",version="1"} 1
        ovms_request_time_us_count{interface="gRPC",name="dummy",version="1"} 1
        ovms_request_time_us_count{interface="gRPC",name="p",version="1"} 2
        ovms_streams{name="dummy",version="1"} 1
        ovms_inference_time_us_count{name="dummy",version="1"} 7
        ovms_wait_for_infer_req_time_us_count{name="dummy",version="1"} 7
        ovms_infer_req_queue_size{name="dummy",version="1"} 2
        ovms_node_time_us_count{name="p",node="a"} 6
        ovms_node_time_us_count{name="p",node="split"} 2
        "#);
    let of_pipeline: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("name=\"p\""))
        .collect();
    for family in ["streams", "infer_req", "inference_time"] {
        let found = of_pipeline.iter().find(|line| line.contains(family));
        assert_eq!(found, None, "{family}");
    }

    // Nodes of graphs count their runs in the same way.
    client.answered(request("g", &[("in", &[1], &[1.0])]));
    let page = get(&server, "/metrics").text();
    let nodes = page
        .lines()
        .filter(|line| line.contains("_count") && line.contains("name=\"g\""));
    assert_eq!(
        nodes.collect::<Vec<_>>(),
        [r#"ovms_node_time_us_count{name="g",node="PassThroughCalculator"} 1"#]
    );
}

/// Adds a pipeline to the shared server.
pub(super) fn add(config: &mut Config) {
    let node = dl("n", "dummy", "b=request.x", "a=y");
    config.pipeline("measured", "x", &[node], "out=n.y");
}

#[test]
fn node_times_are_there_only_if_they_are_listed() {
    let client = Grpc::connect(&SHARED.server);
    client.answered(ten("measured", 0.0));
    let page = get(&SHARED.server, "/metrics").text();
    assert!(page.contains("name=\"measured\",version=\"1\""), "{page}");
    assert!(!page.contains("ovms_node_time_us"), "{page}");
}
