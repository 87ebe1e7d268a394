//! `/metrics`: contents of the page, counting, and its absence.

use std::{fs, sync::LazyLock};

use serde_json::{Value, json};

use super::{BODY, INFER};
use crate::support::{
    Server, busy, eventually,
    grpc::{self, Grpc, dummy},
    http::{JSON_LENGTH, get, post, send},
    model,
    pipelines::Config,
    repository,
    streams::Talk,
};

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

/// The server of the tests of the usual families, which has no dashboard.
pub(super) static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let flags = [
        "--metrics_enable",
        "--max_message_size=1000",
        "--no_dashboard",
    ];
    Config::of(&["dummy", "passthrough_string"]).serve_kept(&flags)
});

#[test]
fn without_a_list_the_page_has_the_usual_families_whatever_the_query() {
    let answer = get(&SERVER, "/metrics?name[]=ovms_streams");
    assert_eq!(answer.status, 200);
    let page = answer.text();
    let types = page.lines().filter(|line| line.starts_with("# TYPE"));
    insta::assert_snapshot!(types.collect::<Vec<_>>().join("\n"), @"
    # TYPE ovms_requests_success counter
    # TYPE ovms_requests_fail counter
    # TYPE ovms_request_time_us histogram
    # TYPE ovms_streams gauge
    # TYPE ovms_current_requests gauge
    # TYPE ovms_pending_requests gauge
    # TYPE ovms_bytes_in_flight gauge
    # TYPE ovms_inference_time_us histogram
    # TYPE ovms_wait_for_infer_req_time_us histogram
    # TYPE ovms_inferences_stuck gauge
    # TYPE ovms_loads counter
    # TYPE ovms_reloads counter
    ");
}

#[test]
fn a_body_that_cannot_be_read_counts_as_a_failed_request() {
    let predict = "/v1/models/dummy:predict";
    assert_eq!(post(&SERVER, predict, &[b' '; 1001]).status, 413);
    let gzip = [("Content-Encoding", "gzip")];
    assert_eq!(send(&SERVER, "POST", predict, &gzip, b"x").status, 400);
    // Nothing that is known.
    let stranger = "/v1/models/stranger:predict";
    assert_eq!(post(&SERVER, stranger, &[b' '; 1001]).status, 413);
    let failed = r#"ovms_requests_fail{api="TensorFlowServing",interface="REST",method="Predict",name="dummy",version="1"}"#;
    assert_eq!(value(&SERVER, failed), 2);
}

#[test]
fn an_answer_that_has_no_form_in_json_is_none() {
    let input = r#"{"inputs":[{"name":"in","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}"#;
    let length = input.len().to_string();
    let body = [input.as_bytes(), b"\x01\0\0\0\xff"].concat();
    let headers = [(JSON_LENGTH, &*length)];
    let path = |call: &str| format!("/v2/models/passthrough_string/{call}");
    let refused = send(&SERVER, "POST", &path("infer"), &headers, &body);
    insta::assert_snapshot!(refused.error(), @"400: Response parsing to JSON error - element 0 of output out is not UTF-8, for which JSON has no form; ask for the output with the parameter binary_data");
    for call in ["generate", "generate_stream"] {
        let refused = post(&SERVER, &path(call), br#"{"in":{"b64":"/w=="}}"#);
        assert_ne!(refused.status, 200, "{call}");
    }
    let good = post(&SERVER, &path("generate"), br#"{"in":"a"}"#);
    assert_eq!(good.status, 200);
    let count = |sample: &str, labels: &str| {
        value(
            &SERVER,
            &format!(r#"{sample}{{{labels},name="passthrough_string",version="1"}}"#),
        )
    };
    let call = r#"api="KServe",interface="REST",method="ModelInfer""#;
    assert_eq!(count("ovms_requests_fail", call), 3);
    assert_eq!(count("ovms_requests_success", call), 1);
    assert_eq!(
        count("ovms_request_time_us_count", r#"interface="REST""#),
        1
    );
}

#[test]
fn times_of_requests_that_succeed_count() {
    let grpc = Grpc::connect(&SERVER);
    grpc.answered(dummy());
    grpc.answered(dummy());
    grpc.refused(grpc::raw("dummy", "b", "FP32", &[1, 9], &[0; 36]));
    assert_eq!(post(&SERVER, INFER, BODY).status, 200);
    assert_eq!(post(&SERVER, INFER, b"{}").status, 400);
    let count = |sample: &str| value(&SERVER, sample);
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

fn times_are_those_of_the_requests(server: &Server, grpc: &Grpc) {
    busy::check(3, &grpc.infer(busy::request(3)));
    let first = busy::running(server, grpc, busy::SECONDS);
    // Waits for the one slot meanwhile.
    busy::check(3, &grpc.infer(busy::request(3)));
    first.wait().unwrap();
    let sum = |family: &str, labels: &str| {
        value(
            server,
            &format!("{family}_sum{{{labels}name=\"busy\",version=\"1\"}}"),
        )
    };
    let ran = sum("ovms_inference_time_us", "");
    let waited = sum("ovms_wait_for_infer_req_time_us", "");
    let whole = sum("ovms_request_time_us", "interface=\"gRPC\",");
    let page = page(server);
    assert!(ran > 200_000, "{page}");
    assert!(waited > 100_000 && waited < ran, "{page}");
    assert!(whole >= ran + waited, "{page}");
}

#[test]
fn times_and_gauges_are_those_of_requests_and_one_that_is_left_has_failed() {
    let list = "ovms_pending_requests,ovms_current_requests,ovms_infer_req_active,ovms_requests_fail,ovms_requests_success,ovms_inference_time_us,ovms_request_time_us,ovms_wait_for_infer_req_time_us";
    let server = busy::serve(&["--metrics_enable", "--metrics_list", list]);
    let grpc = Grpc::connect(&server);
    times_are_those_of_the_requests(&server, &grpc);
    let current = r#"ovms_current_requests{name="busy",version="1"}"#;
    let active = r#"ovms_infer_req_active{name="busy",version="1"}"#;
    let failed = r#"ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="busy",version="1"}"#;
    let pending = "ovms_pending_requests";
    assert_eq!((value(&server, current), value(&server, active)), (0, 0));
    assert_eq!(value(&server, pending), 0);
    let running = busy::running(&server, &grpc, busy::SECONDS / 2);
    let waiting = grpc.call(busy::request(3));
    eventually("two requests, one of them at work", || {
        ((value(&server, current), value(&server, active)) == (2, 1)).then_some(())
    });
    assert_eq!((value(&server, pending), value(&server, failed)), (2, 0));
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
    assert_eq!(value(&server, pending), 0);
    let ran = r#"ovms_inference_time_us_count{name="busy",version="1"}"#;
    assert_eq!(value(&server, ran), 4, "it and those before");

    // Of a stream, its requests are pending.
    let wait_pending = |count| {
        eventually("so many are pending", || {
            (value(&server, pending) == count).then_some(())
        });
    };
    let mut talk = Talk::open(&grpc);
    busy::check(1, &Ok(talk.ask(busy::request(1)).response()));
    // It is open, and idle.
    wait_pending(0);
    let ahead: Vec<_> = (0..2).map(|_| busy::request(busy::SECONDS / 2)).collect();
    for request in ahead {
        talk.send(request);
    }
    wait_pending(2);
    drop(talk);
    wait_pending(0);
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
    ovms_loads{name="dummy",result="success"} 2
    ovms_reloads{result="success"} 1
    "#);
}

#[test]
fn loads_and_reloads_that_fail_are_counted() {
    let folder = repository::folder();
    let versions = folder.path().join("dummy");
    repository::copy(&model("dummy").join("1"), &versions.join("1"));
    let config = folder.path().join("config.json");
    let entry =
        |name: &str| json!({"config": {"name": name, "base_path": folder.path().join(name)}});
    let write = |names: &[&str]| {
        let entries: Vec<Value> = names.iter().map(|name| entry(name)).collect();
        fs::write(&config, json!({"model_config_list": entries}).to_string()).unwrap();
    };
    write(&["dummy"]);
    let flags = ["--metrics_enable", "--file_system_poll_wait_seconds", "0"];
    let server = Server::of_file(&config, &flags);
    server.wait_ready();
    let counts = || {
        let counts = counted(&server);
        let lines = counts.lines();
        let lines: Vec<_> = lines.filter(|line| line.contains("loads{")).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(counts(), @r#"ovms_loads{name="dummy",result="success"} 1"#);
    let reload = || post(&server, "/v1/config/reload", b"").status;
    assert_eq!(reload(), 200, "nothing is new");
    // A version that is no model, and a model without a folder.
    fs::create_dir(versions.join("2")).unwrap();
    fs::write(versions.join("2/model.onnx"), "no model").unwrap();
    write(&["dummy", "missing"]);
    assert_ne!(reload(), 200);
    fs::write(&config, "{").unwrap();
    assert_ne!(reload(), 200);
    insta::assert_snapshot!(counts(), @r#"
    ovms_loads{name="dummy",result="success"} 1
    ovms_loads{name="dummy",result="fail"} 1
    ovms_loads{name="missing",result="fail"} 1
    ovms_reloads{result="success"} 1
    ovms_reloads{result="fail"} 2
    "#);
    fs::remove_dir_all(versions.join("2")).unwrap();
    write(&["dummy"]);
    assert_eq!(reload(), 201);
    let value = |sample: &str| value(&server, sample);
    assert_eq!(value(r#"ovms_reloads{result="success"}"#), 2);
    assert_eq!(value(r#"ovms_loads{name="dummy",result="fail"}"#), 1);
}
