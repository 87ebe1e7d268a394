//! KServe v2 over REST with binary data: requests and responses of JSON followed by bytes.

use serde_json::{Value, json};

use crate::support::{
    Server,
    grpc::floats,
    http::{Answer, JSON_LENGTH, send},
};

/// Sends JSON followed by bytes.
fn infer(server: &Server, model: &str, json: &Value, binary: &[u8]) -> Answer {
    let mut body = json.to_string().into_bytes();
    let length = body.len().to_string();
    body.extend_from_slice(binary);
    let path = format!("/v2/models/{model}/infer");
    send(server, "POST", &path, &[(JSON_LENGTH, &length)], &body)
}

#[test]
fn large_tensors_come_back_in_json_and_in_binary() {
    const COUNT: u16 = 60_000;
    let server = Server::shared("passthrough_f32");
    let numbers: Vec<f32> = (0..COUNT).map(|number| f32::from(number) / 4.0).collect();
    let input = json!({"name": "in", "shape": [COUNT, 4], "datatype": "FP32"});
    let four = numbers.repeat(4);
    let mut in_json = input.clone();
    in_json["data"] = json!(four);
    for (input, binary) in [(in_json, Vec::new()), (input, floats(&four))] {
        let mut request = json!({"inputs": [input]});
        let answer = infer(server, "passthrough_f32", &request, &binary);
        assert_eq!(answer.json()["outputs"][0]["data"], json!(four));
        request["outputs"] = json!([{"name": "out", "parameters": {"binary_data": true}}]);
        let answer = infer(server, "passthrough_f32", &request, &binary);
        assert!(answer.parts().1 == floats(&four));
    }
}
