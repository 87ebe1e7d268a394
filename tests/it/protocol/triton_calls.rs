//! Calls by Triton's clients and load generators besides the protocol itself.

use ovms::proto::kserve::{
    InferParameter, ModelConfigRequest, ModelInferRequest, ModelStatisticsRequest,
    ServerLiveRequest, ServerReadyResponse, infer_parameter::ParameterChoice,
};
use tonic::{Request, Status, client, codegen::http::uri::PathAndQuery};

use crate::support::{
    Server, busy,
    grpc::{Grpc, dummy, error},
    http::{JSON_LENGTH, get, post, send},
};

/// Calls a method missing in the descriptors, with an empty message.
fn call(grpc: &Grpc, method: &str) -> Result<ServerReadyResponse, Status> {
    let path = format!("/inference.GRPCInferenceService/{method}");
    let path: PathAndQuery = path.parse().unwrap();
    let mut client = client::Grpc::new(grpc.channel.clone());
    grpc.wait(async move {
        client.ready().await.expect("the server is there");
        let codec = tonic_prost::ProstCodec::<ServerLiveRequest, ServerReadyResponse>::default();
        client
            .unary(Request::new(ServerLiveRequest {}), path, codec)
            .await
    })
}

fn with(
    mut request: ModelInferRequest,
    parameters: &[(&str, ParameterChoice)],
) -> ModelInferRequest {
    for (name, value) in parameters {
        let parameter = InferParameter {
            parameter_choice: Some(value.clone()),
        };
        request.parameters.insert((*name).to_owned(), parameter);
    }
    request
}

#[test]
fn the_configuration_of_a_model_fits_its_metadata() {
    let server = Server::start("two_outputs");
    let grpc = Grpc::connect(&server);
    let ask = |name: &str, version: &str| {
        let request = ModelConfigRequest {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        grpc.wait(async { grpc.client.clone().model_config(request).await })
    };
    let config = ask("two_outputs", "").unwrap().config.unwrap();
    assert_eq!(config, ask("two_outputs", "1").unwrap().config.unwrap());
    insta::assert_debug_snapshot!(config, @r#"
    ModelConfig {
        name: "two_outputs",
        platform: "OpenVINO",
        max_batch_size: 0,
        input: [
            ModelInput {
                name: "x",
                data_type: TypeFp32,
                dims: [
                    -1,
                    4,
                ],
            },
        ],
        output: [
            ModelOutput {
                name: "total",
                data_type: TypeFp32,
                dims: [
                    -1,
                ],
            },
            ModelOutput {
                name: "twice",
                data_type: TypeFp32,
                dims: [
                    -1,
                    4,
                ],
            },
        ],
        sequence_batching: None,
        backend: "openvino",
        model_transaction_policy: Some(
            ModelTransactionPolicy {
                decoupled: false,
            },
        ),
    }
    "#);
    insta::assert_snapshot!(error(&ask("stranger", "").unwrap_err()), @"NotFound: Model with requested name is not found");
    insta::assert_snapshot!(error(&ask("two_outputs", "2").unwrap_err()), @"NotFound: Model with requested version is not found");
    insta::assert_snapshot!(error(&ask("two_outputs", "x").unwrap_err()), @"InvalidArgument: invalid model version format in request");

    let path = "/v2/models/two_outputs";
    let json = get(&server, &format!("{path}/config"));
    assert_eq!(
        json.text(),
        get(&server, &format!("{path}/versions/1/config")).text()
    );
    insta::assert_snapshot!(json.text(), @r#"{"name":"two_outputs","platform":"OpenVINO","backend":"openvino","max_batch_size":0,"input":[{"name":"x","data_type":"TYPE_FP32","dims":[-1,4]}],"output":[{"name":"total","data_type":"TYPE_FP32","dims":[-1]},{"name":"twice","data_type":"TYPE_FP32","dims":[-1,4]}],"model_transaction_policy":{"decoupled":false}}"#);
    insta::assert_snapshot!(get(&server, "/v2/models/stranger/config").error(), @"404: Model with requested name is not found");
    insta::assert_snapshot!(get(&server, &format!("{path}/versions/2/config")).error(), @"404: Model with requested version is not found");
}

#[test]
fn statistics_count_requests_and_add_up_their_times() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    let ask = |name: &str, version: &str| {
        let request = ModelStatisticsRequest {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let answer = grpc.wait(async { grpc.client.clone().model_statistics(request).await });
        answer.map(|answer| answer.model_stats)
    };
    let fresh = ask("dummy", "").unwrap().remove(0);
    assert_eq!((fresh.inference_count, fresh.last_inference), (0, 0));
    assert!(fresh.batch_stats.is_empty());
    for _ in 0..3 {
        grpc.answered(dummy());
    }
    let mut bad = dummy();
    bad.raw_input_contents.clear();
    grpc.refused(bad);
    let found = ask("", "").unwrap().remove(0);
    assert_eq!(found, ask("dummy", "1").unwrap().remove(0));
    assert_eq!(
        (found.name.as_str(), found.version.as_str()),
        ("dummy", "1")
    );
    assert_eq!((found.inference_count, found.execution_count), (3, 3));
    let stages = found.inference_stats.unwrap();
    let success = stages.success.unwrap();
    assert_eq!((success.count, stages.fail.unwrap().count), (3, 1));
    let parts = [
        stages.queue,
        stages.compute_input,
        stages.compute_infer,
        stages.compute_output,
    ];
    for part in parts {
        assert_eq!(part.unwrap().count, 3);
    }
    let sum: u64 = parts.into_iter().map(|part| part.unwrap().ns).sum();
    assert!(sum <= success.ns && stages.compute_infer.unwrap().ns > 0);
    assert_eq!(found.batch_stats[0].compute_infer, stages.compute_infer);
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = u64::try_from(since_1970.unwrap().as_millis()).unwrap();
    assert!(now.abs_diff(found.last_inference) < 60_000);
    insta::assert_snapshot!(error(&ask("stranger", "").unwrap_err()), @"NotFound: Model with requested name is not found");
    insta::assert_snapshot!(error(&ask("dummy", "2").unwrap_err()), @"NotFound: Model with requested version is not found");

    let all = get(&server, "/v2/models/stats").json();
    assert_eq!(
        all["model_stats"][0]["inference_stats"]["success"]["ns"],
        success.ns
    );
    for path in [
        "/v2/models/dummy/stats",
        "/v2/models/dummy/versions/1/stats",
    ] {
        assert_eq!(get(&server, path).json(), all);
    }
    insta::with_settings!({filters => vec![
        (r#""ns":\d+"#, r#""ns":0"#),
        (r#""last_inference":\d+"#, r#""last_inference":0"#),
    ]}, {
        insta::assert_snapshot!(get(&server, "/v2/models/stats").text(), @r#"{"model_stats":[{"name":"dummy","version":"1","last_inference":0,"inference_count":3,"execution_count":3,"inference_stats":{"success":{"count":3,"ns":0},"fail":{"count":1,"ns":0},"queue":{"count":3,"ns":0},"compute_input":{"count":3,"ns":0},"compute_infer":{"count":3,"ns":0},"compute_output":{"count":3,"ns":0},"cache_hit":{"count":0,"ns":0},"cache_miss":{"count":0,"ns":0}},"batch_stats":[{"batch_size":1,"compute_input":{"count":3,"ns":0},"compute_infer":{"count":3,"ns":0},"compute_output":{"count":3,"ns":0}}],"response_stats":{},"memory_usage":[]}]}"#);
    });
    insta::assert_snapshot!(get(&server, "/v2/models/stranger/stats").error(), @"404: Model with requested name is not found");
}

#[test]
fn a_model_may_be_called_stats() {
    let server = Server::begin("stats", &crate::support::model("dummy"), &[]);
    server.wait_ready();
    assert_eq!(
        get(&server, "/v2/models/stats").json()["inputs"][0]["name"],
        "b"
    );
    let own = get(&server, "/v2/models/stats/stats").json();
    assert_eq!(own["model_stats"][0]["name"], "stats");
}

#[test]
fn shared_memory_is_forgotten_and_never_registered() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    for kind in ["System", "Cuda"] {
        for verb in ["Status", "Unregister"] {
            let answer = call(&grpc, &format!("{kind}SharedMemory{verb}"));
            assert_eq!(answer.unwrap(), ServerReadyResponse::default());
        }
        let refused = call(&grpc, &format!("{kind}SharedMemoryRegister")).unwrap_err();
        assert_eq!(
            error(&refused),
            "Unimplemented: Functionality not implemented - shared memory; send tensors with the request"
        );
    }
    for kind in ["system", "cuda"] {
        let path = format!("/v2/{kind}sharedmemory");
        for place in [path.clone(), format!("{path}/region/x")] {
            assert_eq!(get(server, &format!("{place}/status")).text(), "[]");
            let forgotten = post(server, &format!("{place}/unregister"), b"");
            assert_eq!((forgotten.status, forgotten.text().as_str()), (200, ""));
        }
        let refused = post(server, &format!("{path}/region/x/register"), b"{}");
        assert_eq!(
            refused.error(),
            "501: Functionality not implemented - shared memory; send tensors with the request"
        );
    }
    grpc.check_serves();
}

#[test]
fn what_would_change_the_server_is_not_served_and_says_so() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let calls = [
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "TraceSetting",
        "LogSettings",
    ];
    let errors = calls.map(|method| error(&call(&grpc, method).unwrap_err()));
    insta::assert_snapshot!(errors.join("\n"), @"
    Unimplemented: Functionality not implemented - models are loaded and unloaded by the server's configuration
    Unimplemented: Functionality not implemented - models are loaded and unloaded by the server's configuration
    Unimplemented: Functionality not implemented - settings are those of the server's command line
    Unimplemented: Functionality not implemented - settings are those of the server's command line
    ");
    let paths = [
        ("POST", "/v2/repository/models/dummy/load"),
        ("POST", "/v2/repository/models/dummy/unload"),
        ("GET", "/v2/trace/setting"),
        ("POST", "/v2/models/dummy/trace/setting"),
        ("POST", "/v2/logging"),
    ];
    let errors = paths.map(|(method, path)| send(server, method, path, &[], b"{}").error());
    insta::assert_snapshot!(errors.join("\n"), @"
    501: Functionality not implemented - models are loaded and unloaded by the server's configuration
    501: Functionality not implemented - models are loaded and unloaded by the server's configuration
    501: Functionality not implemented - settings are those of the server's command line
    501: Functionality not implemented - settings are those of the server's command line
    501: Functionality not implemented - settings are those of the server's command line
    ");
}

#[test]
fn parameters_that_clients_always_send_change_nothing() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let expected = grpc.answered(dummy());
    let request = with(
        dummy(),
        &[
            (
                "triton_enable_empty_final_response",
                ParameterChoice::BoolParam(true),
            ),
            ("priority", ParameterChoice::Uint64Param(u64::MAX)),
            ("timeout", ParameterChoice::Int64Param(60_000_000)),
            ("sequence_id", ParameterChoice::Int64Param(7)),
            ("sequence_start", ParameterChoice::BoolParam(true)),
            ("sequence_end", ParameterChoice::BoolParam(false)),
            ("temperature", ParameterChoice::DoubleParam(0.5)),
        ],
    );
    assert_eq!(grpc.answered(request), expected);
    for none in [0, -1] {
        let request = with(dummy(), &[("timeout", ParameterChoice::Int64Param(none))]);
        assert_eq!(grpc.answered(request), expected);
    }
    let body = br#"{"parameters":{"priority":1,"timeout":60000000,"sequence_id":7,
        "sequence_start":true,"sequence_end":false,"triton_enable_empty_final_response":true},
        "inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,0,0,0,0,0,0,0,0,0]}]}"#;
    assert_eq!(post(server, "/v2/models/dummy/infer", body).status, 200);
}

#[test]
fn the_time_limit_among_the_parameters_is_kept() {
    let server = busy::serve(&["--metrics_enable"]);
    let grpc = Grpc::connect(&server);
    for limit in [
        ParameterChoice::Int64Param(150_000),
        ParameterChoice::Uint64Param(150_000),
    ] {
        let request = with(busy::request(busy::SECONDS), &[("timeout", limit)]);
        assert_eq!(
            grpc.refused(request),
            "DeadlineExceeded: the client's deadline of 150ms passed"
        );
    }
    let (length, body) = busy::body(busy::SECONDS);
    let text = String::from_utf8_lossy(&body[..length.parse().unwrap()]).into_owned();
    let json = text.replacen('{', r#"{"parameters":{"timeout":150000},"#, 1);
    let body = [json.as_bytes(), &body[text.len()..]].concat();
    let length = json.len().to_string();
    let answer = send(
        &server,
        "POST",
        "/v2/models/busy/infer",
        &[(JSON_LENGTH, &length)],
        &body,
    );
    assert_eq!(answer.error(), "504: the client's deadline of 150ms passed");
    busy::check(3, &grpc.infer(busy::request(3)));
    let failed = get(&server, "/metrics").text();
    let failed: Vec<_> = failed
        .lines()
        .filter(|line| line.starts_with("ovms_requests_fail") && !line.ends_with(" 0"))
        .collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(
        failed[0].ends_with(" 2") && failed[1].ends_with(" 1"),
        "{failed:?}"
    );
}

#[test]
fn the_server_names_the_extensions_that_it_has() {
    let server = Server::shared("dummy");
    insta::assert_snapshot!(get(server, "/v2").json()["extensions"], @r#"["binary_tensor_data","model_configuration","parameters","statistics"]"#);
}
