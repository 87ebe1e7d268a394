//! Lengths, counts, and shapes that a request claims, and nothing of it has come.

use super::memory::{Growth, WITH_BUDGET};
use crate::support::{
    Server,
    grpc::{Grpc, raw, typed},
    http::{JSON_LENGTH, send},
    pipelines::Config,
    tfs::{Tfs, content, request},
};
use ovms::proto::{kserve::InferTensorContents, tensorflow::DataType};
use serde_json::json;

/// Bytes beyond those of all requests of a test, with what the allocator keeps of them.
const MAX_GROWTH: usize = 48 << 20;

#[test]
fn shapes_of_any_size_reserve_nothing() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    let (grpc, tfs) = (Grpc::connect(&server), Tfs::connect(&server));
    tfs.check_serves();
    let growth = Growth::of(&server);
    let long = vec![1; 100_000];
    let shapes: [&[i64]; 7] = [
        &[i64::MAX],
        &[1, i64::MAX],
        &[1 << 40, 1 << 40],
        &[1 << 40, 0],
        &[-1, 10],
        &[i64::MIN, 10],
        &long,
    ];
    for shape in shapes {
        for datatype in ["FP32", "BYTES", "BOOL", "FP16", "nothing"] {
            let contents = InferTensorContents {
                fp32_contents: vec![1.0],
                ..InferTensorContents::default()
            };
            grpc.refused(raw("dummy", "b", datatype, shape, &[0; 40]));
            grpc.refused(typed("dummy", "b", datatype, shape, contents));
        }
        for dtype in [DataType::DtFloat, DataType::DtString, DataType::DtInvalid] {
            let tensor = content(dtype, shape, &[0; 40]);
            tfs.refused(request("dummy", [("b", tensor)]));
        }
        let lengths: Vec<String> = shape.iter().map(i64::to_string).collect();
        let input = |rest: &str| {
            let shape = lengths.join(",");
            format!(r#"{{"inputs":[{{"name":"b","shape":[{shape}],"datatype":"FP32"{rest}}}]}}"#)
        };
        for rest in [
            "",
            r#","data":[1]"#,
            r#","parameters":{"binary_data_size":9223372036854775807}"#,
            r#","parameters":{"binary_data_size":18446744073709551615}"#,
        ] {
            let body = input(rest);
            let length = body.len().to_string();
            for length in [
                &*length,
                "9223372036854775807",
                "18446744073709551616",
                "-1",
            ] {
                let headers = [(JSON_LENGTH, length)];
                let path = "/v2/models/dummy/infer";
                let answer = send(&server, "POST", path, &headers, body.as_bytes());
                assert!([400, 412].contains(&answer.status), "{}", answer.text());
            }
        }
    }
    assert!(growth.bytes() < MAX_GROWTH, "{}", growth.bytes());
    tfs.check_serves();
}

#[test]
fn strings_and_saved_states_that_claim_more_than_there_is_reserve_nothing() {
    let mut config = Config::of(&["passthrough_string", "running_total"]);
    config.json["model_config_list"][1]["config"]["stateful"] = json!(true);
    let server = config.serve_with(&[WITH_BUDGET]);
    let grpc = Grpc::connect(&server);
    let growth = Growth::of(&server);
    // Four bytes of length each, of a string that is not there.
    for length in [u32::MAX, 1 << 31, 5] {
        let framed = [&length.to_le_bytes()[..], b"ab"].concat();
        for count in [1, 1 << 30] {
            grpc.refused(raw("passthrough_string", "in", "BYTES", &[count], &framed));
        }
    }
    for length in [u64::MAX, 1 << 62, 1 << 40, (1 << 20) + 1, 100] {
        let file = [&length.to_le_bytes()[..], b"{\"__metadata__\":{}}"].concat();
        let path = "/v1/models/running_total/sequences/1";
        let answer = send(&server, "PUT", path, &[], &file);
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    assert!(growth.bytes() < MAX_GROWTH, "{}", growth.bytes());
}
