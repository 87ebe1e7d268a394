//! `/metrics`: contents of the page, counting, and its absence.

use ovms::proto::{
    kserve::{ModelMetadataRequest, ModelReadyRequest},
    tensorflow_serving::{
        GetModelMetadataRequest, GetModelStatusRequest, ModelSpec, PredictRequest,
        model_service_client::ModelServiceClient,
        prediction_service_client::PredictionServiceClient,
    },
};

use crate::support::{
    Server, busy,
    cli::{self, Run},
    eventually,
    grpc::{self, Grpc, dummy},
    http::{get, post, send},
    model, repository,
    server::{free_ports, on},
};

const INFER: &str = "/v2/models/dummy/infer";

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,0,0,0,0,0,0,0,0,0]}]}"#;

/// Returns the page.
fn page(server: &Server) -> String {
    let answer = get(server, "/metrics");
    assert_eq!(answer.status, 200);
    answer.text()
}

/// Returns the samples of the page that are not zero, without those of times.
fn counted(server: &Server) -> String {
    let page = page(server);
    let lines = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.ends_with(" 0") && !line.contains("_us_"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the value of one sample.
fn value(server: &Server, sample: &str) -> u64 {
    let page = page(server);
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    let value = line.unwrap_or_else(|| panic!("no {sample} in\n{page}"));
    value.parse().expect("values are whole numbers")
}

/// Tries to start a server of `dummy` with a list of metrics.
fn start(list: &str) -> Run {
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(on(free_ports()))
        .args(["--metrics_enable", "--metrics_list", list]);
    cli::run(&mut command)
}

#[test]
fn the_page_has_the_families_of_the_list_and_no_others() {
    let list = " ovms_requests_success, ovms_streams ,ovms_infer_req_queue_size,\
                ovms_infer_req_active,ovms_current_requests,ovms_requests_fail,\
                ovms_graph_error,ovms_node_time_us";
    let server = Server::start_with(
        "dummy",
        &["--metrics_enable", "--metrics_list", list, "--nireq", "3"],
    );
    assert_eq!(post(&server, INFER, BODY).status, 200);
    insta::assert_snapshot!(page(&server), @r#"
    # HELP ovms_requests_success Number of successful requests to a model or a DAG.
    # TYPE ovms_requests_success counter
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="dummy"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="dummy"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 0
    ovms_requests_success{api="KServe",interface="REST",method="ModelReady",name="dummy"} 0
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 0
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelMetadata",name="dummy",version="1"} 0
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelMetadata",name="dummy",version="1"} 0
    # HELP ovms_requests_fail Number of failed requests to a model or a DAG.
    # TYPE ovms_requests_fail counter
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="dummy"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="dummy"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelReady",name="dummy"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 0
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelMetadata",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 0
    ovms_requests_fail{api="KServe",interface="REST",method="ModelMetadata",name="dummy",version="1"} 0
    # HELP ovms_streams Number of OpenVINO execution streams.
    # TYPE ovms_streams gauge
    ovms_streams{name="dummy",version="1"} 1
    # HELP ovms_current_requests Number of inference requests currently in process.
    # TYPE ovms_current_requests gauge
    ovms_current_requests{name="dummy",version="1"} 0
    # HELP ovms_infer_req_queue_size Number of infer requests (nireq).
    # TYPE ovms_infer_req_queue_size gauge
    ovms_infer_req_queue_size{name="dummy",version="1"} 3
    # HELP ovms_infer_req_active Number of infer requests currently in use.
    # TYPE ovms_infer_req_active gauge
    ovms_infer_req_active{name="dummy",version="1"} 0
    "#);
}

#[test]
fn without_a_list_the_page_has_the_usual_families() {
    let server = Server::start_with("dummy", &["--metrics_enable"]);
    let page = page(&server);
    let types = page.lines().filter(|line| line.starts_with("# TYPE"));
    insta::assert_snapshot!(types.collect::<Vec<_>>().join("\n"), @"
    # TYPE ovms_requests_success counter
    # TYPE ovms_requests_fail counter
    # TYPE ovms_request_time_us histogram
    # TYPE ovms_streams gauge
    # TYPE ovms_current_requests gauge
    # TYPE ovms_inference_time_us histogram
    # TYPE ovms_wait_for_infer_req_time_us histogram
    # TYPE ovms_inferences_stuck gauge
    ");
}

#[test]
fn calls_count_by_protocol_and_outcome() {
    let server = Server::start_with("dummy", &["--metrics_enable"]);
    let grpc = Grpc::connect(&server);
    grpc.answered(dummy());
    grpc.answered(dummy());
    grpc.refused(grpc::raw("dummy", "b", "FP32", &[1, 9], &[0; 36]));
    // Nothing that is known.
    grpc.refused(grpc::raw("stranger", "b", "FP32", &[1, 9], &[0; 36]));
    let mut unknown = dummy();
    unknown.model_version = "7".to_owned();
    grpc.refused(unknown);
    let ready = |name: &str| ModelReadyRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let mut client = grpc.client.clone();
    grpc.wait(client.model_ready(ready("dummy"))).unwrap();
    grpc.wait(client.model_ready(ready("stranger")))
        .unwrap_err();
    let metadata = ModelMetadataRequest {
        name: "dummy".to_owned(),
        version: "1".to_owned(),
    };
    grpc.wait(client.model_metadata(metadata)).unwrap();

    assert_eq!(post(&server, INFER, BODY).status, 200);
    assert_eq!(post(&server, INFER, b"{").status, 412);
    assert_eq!(post(&server, INFER, b"{}").status, 400);
    let version = "/v2/models/dummy/versions/7/infer";
    assert_eq!(post(&server, version, b"{").status, 412);
    assert_eq!(post(&server, version, BODY).status, 404);
    assert_eq!(post(&server, "/v2/models/stranger/infer", b"{").status, 412);
    for path in [
        "/v2/models/dummy",
        "/v2/models/dummy/versions/1",
        "/v2/models/dummy/ready",
    ] {
        assert_eq!(get(&server, path).status, 200);
    }
    assert_eq!(get(&server, "/v2/models/dummy/versions/7").status, 404);
    insta::assert_snapshot!(counted(&server), @r#"
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelReady",name="dummy"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelReady",name="dummy"} 1
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 2
    ovms_requests_success{api="KServe",interface="gRPC",method="ModelMetadata",name="dummy",version="1"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelMetadata",name="dummy",version="1"} 2
    ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 1
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 2
    ovms_streams{name="dummy",version="1"} 1
    "#);

    let count = |sample: &str| value(&server, sample);
    assert_eq!(
        count(r#"ovms_request_time_us_count{interface="gRPC",name="dummy",version="1"}"#),
        2
    );
    assert_eq!(
        count(r#"ovms_request_time_us_count{interface="REST",name="dummy",version="1"}"#),
        1
    );
    for family in ["ovms_inference_time_us", "ovms_wait_for_infer_req_time_us"] {
        assert_eq!(
            count(&format!(r#"{family}_count{{name="dummy",version="1"}}"#)),
            3
        );
        assert_eq!(
            count(&format!(
                r#"{family}_bucket{{name="dummy",version="1",le="+Inf"}}"#
            )),
            3
        );
    }
}

#[test]
fn tensorflow_serving_calls_count_as_such() {
    let server = Server::start_with("dummy", &["--metrics_enable"]);
    let grpc = Grpc::connect(&server);
    let spec = |name: &str| {
        Some(ModelSpec {
            name: name.to_owned(),
            ..ModelSpec::default()
        })
    };
    let mut models = ModelServiceClient::new(grpc.channel.clone());
    for name in ["dummy", "stranger"] {
        let request = GetModelStatusRequest {
            model_spec: spec(name),
        };
        let known = grpc.wait(models.get_model_status(request)).is_ok();
        assert_eq!(known, name == "dummy");
    }
    let mut predictions = PredictionServiceClient::new(grpc.channel.clone());
    let metadata = GetModelMetadataRequest {
        model_spec: spec("dummy"),
        metadata_field: vec!["signature_def".to_owned()],
    };
    grpc.wait(predictions.get_model_metadata(metadata)).unwrap();
    let empty = PredictRequest {
        model_spec: spec("dummy"),
        ..PredictRequest::default()
    };
    grpc.wait(predictions.predict(empty)).unwrap_err();

    let predict = "/v1/models/dummy:predict";
    let body = br#"{"instances":[[0,0,0,0,0,0,0,0,0,0]]}"#;
    assert_eq!(post(&server, predict, body).status, 200);
    assert_eq!(post(&server, predict, b"{").status, 412);
    assert_eq!(
        post(&server, "/v1/models/stranger:predict", body).status,
        404
    );
    for path in [
        "/v1/models/dummy",
        "/v1/models/dummy/metadata",
        "/v1/config",
    ] {
        assert_eq!(get(&server, path).status, 200);
    }
    assert_eq!(get(&server, "/v1/models/dummy/versions/7").status, 404);
    insta::assert_snapshot!(counted(&server), @r#"
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelStatus",name="dummy"} 1
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelStatus",name="dummy"} 1
    ovms_requests_success{api="TensorFlowServing",interface="gRPC",method="GetModelMetadata",name="dummy",version="1"} 1
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 1
    ovms_requests_success{api="TensorFlowServing",interface="REST",method="GetModelMetadata",name="dummy",version="1"} 1
    ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"} 1
    ovms_requests_fail{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"} 1
    ovms_streams{name="dummy",version="1"} 1
    "#);
}

#[test]
fn times_are_those_of_the_requests() {
    let server = busy::serve(&["--metrics_enable"]);
    let grpc = Grpc::connect(&server);
    busy::check(3, &grpc.infer(busy::request(3)));
    let first = busy::running(&server, &grpc, busy::SECONDS);
    // Waits for the one slot meanwhile.
    busy::check(3, &grpc.infer(busy::request(3)));
    first.wait().unwrap();
    let sum = |family: &str, labels: &str| {
        value(
            &server,
            &format!("{family}_sum{{{labels}name=\"busy\",version=\"1\"}}"),
        )
    };
    let ran = sum("ovms_inference_time_us", "");
    let waited = sum("ovms_wait_for_infer_req_time_us", "");
    let whole = sum("ovms_request_time_us", "interface=\"gRPC\",");
    let page = page(&server);
    assert!(ran > 200_000, "{page}");
    assert!(waited > 100_000 && waited < ran, "{page}");
    assert!(whole >= ran + waited, "{page}");
}

#[test]
fn gauges_follow_requests_and_one_that_is_left_has_failed() {
    let list = "ovms_current_requests,ovms_infer_req_active,ovms_requests_fail,ovms_requests_success,ovms_inference_time_us";
    let server = busy::serve(&["--metrics_enable", "--metrics_list", list]);
    let grpc = Grpc::connect(&server);
    let current = r#"ovms_current_requests{name="busy",version="1"}"#;
    let active = r#"ovms_infer_req_active{name="busy",version="1"}"#;
    let failed = r#"ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="busy",version="1"}"#;
    assert_eq!((value(&server, current), value(&server, active)), (0, 0));
    let running = busy::running(&server, &grpc, busy::SECONDS / 2);
    let waiting = grpc.call(busy::request(3));
    eventually("two requests, one of them at work", || {
        ((value(&server, current), value(&server, active)) == (2, 1)).then_some(())
    });
    assert_eq!(value(&server, failed), 0);
    drop(waiting);
    eventually("the one that waited is gone", || {
        (value(&server, current) == 1).then_some(())
    });
    assert_eq!(value(&server, failed), 1);
    drop(running);
    eventually("its run ends all the same", || {
        (value(&server, active) == 0).then_some(())
    });
    assert_eq!((value(&server, current), value(&server, failed)), (0, 2));
    let ran = r#"ovms_inference_time_us_count{name="busy",version="1"}"#;
    assert_eq!(value(&server, ran), 1);
}

#[test]
fn counts_stay_when_a_version_ends() {
    let root = repository::of(&[("1", "dummy"), ("2", "dummy")]);
    let flags = ["--metrics_enable", "--file_system_poll_wait_seconds", "1"];
    let server = Server::begin("dummy", root.path(), &flags);
    server.wait_ready();
    assert_eq!(post(&server, INFER, BODY).status, 200);
    assert_eq!(
        value(&server, r#"ovms_streams{name="dummy",version="2"}"#),
        1
    );
    std::fs::remove_dir_all(root.path().join("2")).unwrap();
    eventually("version 2 has ended", || {
        (value(&server, r#"ovms_streams{name="dummy",version="2"}"#) == 0).then_some(())
    });
    eventually("version 1 serves", || {
        (post(&server, INFER, BODY).status == 200).then_some(())
    });
    let path = "/v2/models/dummy/versions/2/infer";
    assert_eq!(post(&server, path, BODY).status, 404);
    insta::assert_snapshot!(counted(&server), @r#"
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="1"} 1
    ovms_requests_success{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="2"} 1
    ovms_requests_fail{api="KServe",interface="REST",method="ModelInfer",name="dummy",version="2"} 1
    ovms_streams{name="dummy",version="1"} 1
    "#);
}

#[test]
fn the_page_is_text_whatever_the_query() {
    let server = Server::start_with("dummy", &["--metrics_enable"]);
    let answer = get(&server, "/metrics?name[]=ovms_streams");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(answer.text().contains("ovms_requests_success"));
    let head = send(&server, "HEAD", "/metrics", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let wrong = post(&server, "/metrics", b"");
    assert_eq!(wrong.error(), "405: Unsupported method");
}

#[test]
fn there_is_no_page_unless_it_is_wanted() {
    let server = Server::start("dummy");
    let answer = get(&server, "/metrics");
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (404, "Invalid request URL")
    );
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/plain")
    );
}

#[test]
fn a_list_with_a_error_ends_the_start() {
    insta::assert_snapshot!(start("ovms_streams,ovms_request_success").failure(), @"
    exit 1
    error: Invalid name in metrics_list - there is no family `ovms_request_success`
    hint: did you mean `ovms_requests_success`?
    ");
    insta::assert_snapshot!(start("ovms_streams,ovms_streams").failure(), @"
    exit 1
    error: Invalid name in metrics_list - `ovms_streams` is there twice
    hint: name each family once
    ");
    insta::assert_snapshot!(start("x").failure(), @"
    exit 1
    error: Invalid name in metrics_list - there is no family `x`
    hint: docs/monitoring.md of the server lists the families
    ");
}

/// Writes a configuration file with a metrics section, and tries to serve it.
fn start_file(metrics: &str, flags: &[&str]) -> (tempfile::TempDir, Server) {
    let folder = repository::folder();
    let file = folder.path().join("config.json");
    let path = model("dummy");
    let config = serde_json::json!({
        "model_config_list": [{"config": {"name": "dummy", "base_path": path}}],
        "monitoring": {"metrics": serde_json::from_str::<serde_json::Value>(metrics).unwrap()},
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", "--config_path"]).arg(&file);
    let both = on(ports);
    // A flag may be given only once.
    let given = |flag: &&String| !flags.iter().any(|given| same_flag(given, flag));
    command.args(both.iter().filter(given)).args(flags);
    let server = Server::spawn(&mut command, ports);
    (folder, server)
}

/// Returns whether two arguments are of the same flag.
fn same_flag(one: &str, other: &str) -> bool {
    one.split('=').next() == other.split('=').next()
}

#[test]
fn the_configuration_file_may_ask_for_the_page() {
    let (_folder, server) = start_file(r#"{"enable":true,"metrics_list":["ovms_streams"]}"#, &[]);
    server.wait_ready();
    insta::assert_snapshot!(page(&server), @r#"
    # HELP ovms_streams Number of OpenVINO execution streams.
    # TYPE ovms_streams gauge
    ovms_streams{name="dummy",version="1"} 1
    "#);
    let (_folder, off) = start_file(r#"{"enable":false,"metrics_list":["ovms_streams"]}"#, &[]);
    off.wait_ready();
    assert_eq!(get(&off, "/metrics").status, 404);
}

#[test]
fn a_error_of_the_file_ends_the_start() {
    let failure = |metrics, flags: &[&str]| {
        let (_folder, mut server) = start_file(metrics, flags);
        let status = server.wait();
        let line = server.wait_log("stderr: error: ");
        format!("exit {}, {line}", status.code().unwrap())
    };
    insta::assert_snapshot!(failure(r#"{"enable":true,"metrics_list":["ovms_stream"]}"#, &[]), @"exit 1, stderr: error: Invalid name in metrics_list - there is no family `ovms_stream`");
    insta::assert_snapshot!(failure(r#"{"enable":true}"#, &["--metrics_enable"]), @"exit 1, stderr: error: Configuration file not found or cannot open - metrics are set both by metrics_enable and by monitoring in the file; keep one of them");
    insta::assert_snapshot!(failure(r#"{"enable":true}"#, &["--rest_port=0"]), @"exit 1, stderr: error: Missing rest_port parameter in server CLI - metrics are enabled in the file");
}
