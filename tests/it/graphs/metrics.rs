//! Metrics of graphs.

use super::{
    shared::{self, add_code},
    worker_ends::a_request_beyond_the_limit_of_memory_fails_alone,
    workers::{add_ends, config_with, the_log_says_where_a_handler_was_that_ended_its_worker},
};
use crate::support::{
    eventually,
    graphs::{PASS, add, code},
    grpc::Grpc,
    http::{get, post},
    pipelines::{Config, request},
    streams::Talk,
};

/// Returns the lines of a metric family for the graph `g`.
fn of<'a>(page: &'a str, family: &str) -> Vec<&'a str> {
    let lines = page.lines().filter(|line| line.starts_with(family));
    lines.filter(|line| line.contains("name=\"g\"")).collect()
}

#[test]
fn graphs_count_what_goes_in_and_what_comes_out() {
    let mut config = Config::of(&[]);
    add(&mut config, "g", PASS);
    let server = config.serve_with(&["--metrics_enable"]);
    let page = get(&server, "/metrics").text();
    insta::assert_snapshot!(of(&page, "ovms_requests_fail").join("\n"), @r#"
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="g"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="g"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelReady",name="g"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelReady",name="g"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelMetadata",name="g"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInfer",name="g"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelMetadata",name="g"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInferStream",name="g"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInferStream",name="g"} 0
    "#);
    insta::assert_snapshot!(of(&page, "ovms_responses").join("\n"), @r#"
    ovms_responses{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 0
    ovms_responses{api="KServe",interface="gRPC",method="ModelInferStream",name="g"} 0
    ovms_responses{api="KServe",interface="REST",method="ModelInfer",name="g"} 0
    ovms_responses{api="KServe",interface="REST",method="ModelInferStream",name="g"} 0
    "#);
    assert_eq!(
        of(&page, "ovms_current_graphs"),
        [r#"ovms_current_graphs{name="g"} 0"#]
    );
    assert_eq!(of(&page, "ovms_graph_error").len(), 4);
    assert_eq!(of(&page, "ovms_graph_processing_time_us_count").len(), 2);
    for foreign in [
        "ovms_streams",
        "ovms_request_time_us",
        "ovms_infer",
        "ovms_current_requests",
    ] {
        assert_eq!(of(&page, foreign), [""; 0], "{foreign}");
    }
    let client = Grpc::connect(&server);
    for _ in 0..2 {
        client.answered(request("g", &[("in", &[1], &[1.0])]));
    }
    client.refused(request("g", &[("other", &[1], &[1.0])]));
    let body = br#"{"inputs":[{"name":"in","shape":[1],"datatype":"INT32","data":[5]}]}"#;
    assert_eq!(post(&server, "/v2/models/g/infer", body).status, 200);
    assert_eq!(get(&server, "/v2/models/g").status, 200);
    assert_eq!(get(&server, "/v2/models/g/ready").status, 200);
    let page = get(&server, "/metrics").text();
    let counted = |line: &&str| {
        let is_time = line.contains("_bucket") || line.contains("_sum");
        !line.starts_with('#') && !is_time && !line.ends_with(" 0")
    };
    let lines: Vec<&str> = page.lines().filter(counted).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ovms_requests_success{api="KServe",interface="REST",method="ModelReady",name="g"} 1
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 2
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="g"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelMetadata",name="g"} 1
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 1
    ovms_requests_accepted{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 2
    ovms_requests_accepted{api="KServe",interface="REST",method="ModelInfer",name="g"} 1
    ovms_requests_rejected{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 1
    ovms_responses{api="KServe",interface="gRPC",method="ModelInfer",name="g"} 2
    ovms_responses{api="KServe",interface="REST",method="ModelInfer",name="g"} 1
    ovms_graph_processing_time_us_count{method="ModelInfer",name="g"} 3
    ovms_loads{name="g",result="success"} 1
    "#);
}

#[test]
fn only_runs_that_succeed_are_timed() {
    let (server, client) = shared::connect();
    let (good, bad) = ("return [Tensor('out', b'a')]", "raise ValueError");
    client.answered(code("g", good));
    client.refused(code("g", bad));
    // Nothing comes out.
    client.refused(code("g", "return []"));
    for body in [good, bad] {
        let talk = Talk::open(&client);
        talk.send(code("g", body));
        talk.rest();
    }
    let page = get(server, "/metrics").text();
    let lines = |family| of(&page, family).join("\n");
    insta::assert_snapshot!(lines("ovms_graph_processing_time_us_count"), @r#"
    ovms_graph_processing_time_us_count{method="ModelInfer",name="g"} 1
    ovms_graph_processing_time_us_count{method="ModelInferStream",name="g"} 1
    "#);
    assert_eq!(
        lines("ovms_current_graphs"),
        r#"ovms_current_graphs{name="g"} 0"#
    );
}

#[test]
fn deaths_and_memory_of_workers_are_counted_and_logged() {
    let mut config = config_with(&[("python_memory_limit", (1_u64 << 30).into())]);
    add_code(
        &mut config,
        "beyond",
        &[("python_memory_limit", "400M".into())],
    );
    add_ends(&mut config);
    let server = config.serve_with(&["--metrics_enable"]);
    let client = Grpc::connect(&server);
    let workers = || {
        let page = get(&server, "/metrics").text();
        let is_one = |line: &&str| {
            let is_meant = line.contains("\"py\"") || line.contains("\"other\"");
            line.starts_with("ovms_python_worker") && is_meant
        };
        let lines = page.lines().filter(is_one);
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(workers(), @r#"
    ovms_python_worker_deaths{name="other"} 0
    ovms_python_worker_deaths{name="py"} 0
    ovms_python_worker_restarts{name="other"} 0
    ovms_python_worker_restarts{name="py"} 0
    "#);
    // What a limit of memory refuses is a failure of the request alone.
    client.refused(code("py", "bytearray(2 << 30)"));
    for ends in ["os._exit(3)", "os.abort()"] {
        client.refused(code("py", ends));
        let fine = code("py", "return [Tensor('out', b'fine')]");
        client.answered(fine);
    }
    eventually("the restarts are counted", || {
        workers().contains(r#"restarts{name="py"} 2"#).then_some(())
    });
    insta::assert_snapshot!(workers(), @r#"
    ovms_python_worker_deaths{name="other"} 0
    ovms_python_worker_deaths{name="py"} 2
    ovms_python_worker_restarts{name="other"} 0
    ovms_python_worker_restarts{name="py"} 2
    "#);
    a_request_beyond_the_limit_of_memory_fails_alone(&server, &client);
    the_log_says_where_a_handler_was_that_ended_its_worker(&config, &server, &client);
}
