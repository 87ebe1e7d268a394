//! Calls by Triton's clients and load generators besides the protocol itself.

use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelStatisticsRequest, infer_parameter::ParameterChoice,
};

use crate::support::{
    Server, busy,
    grpc::{Grpc, dummy, error},
    http::{JSON_LENGTH, get, send},
};

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
    // One of a microsecond ends what waits for a busy model.
    let runs = busy::running(&server, &grpc, busy::ENDLESS);
    let limit = ParameterChoice::Int64Param(1);
    assert_eq!(
        grpc.refused(with(busy::request(3), &[("timeout", limit)])),
        "DeadlineExceeded: the client's deadline of 1µs passed"
    );
    assert!(!runs.is_answered(), "there was no slot to run it");
}
