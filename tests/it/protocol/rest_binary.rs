//! KServe v2 over REST with binary data: requests and responses of JSON followed by bytes.

use serde_json::{Value, json};

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    grpc::{floats, to_floats},
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

/// Returns a request with two inputs of the model `add`, either of which may be binary.
fn add(first: Value, second: Value) -> Value {
    let input = |name: &str, rest: Value| {
        let mut input = json!({"name": name, "shape": [1, 10], "datatype": "FP32"});
        input
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        input
    };
    json!({"inputs": [input("input1", first), input("input2", second)]})
}

#[test]
fn binary_data_of_every_datatype_comes_back() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let request = json!({
            "inputs": [{
                "name": "in",
                "shape": [1, ELEMENTS],
                "datatype": row.datatype,
                "parameters": {"binary_data_size": row.raw.len()},
            }],
            "outputs": [{"name": "out", "parameters": {"binary_data": true}}],
        });
        let answer = infer(&server, row.model, &request, &row.raw);
        let (json, binary) = answer.parts();
        let expected = json!({
            "name": "out",
            "shape": [1, ELEMENTS],
            "datatype": row.datatype,
            "parameters": {"binary_data_size": row.raw.len()},
        });
        assert_eq!(json["outputs"], json!([expected]));
        assert_eq!(binary, row.raw, "{}", row.datatype);
    }
}

#[test]
fn half_floats_are_sent_as_binary_data_and_may_be_answered_in_json() {
    for row in dtypes::rows().into_iter().filter(|row| row.typed.is_none()) {
        let server = Server::start(row.model);
        let input = json!({"name": "in", "shape": [1, ELEMENTS], "datatype": row.datatype});
        let answer = infer(&server, row.model, &json!({"inputs": [input]}), &row.raw);
        assert!(
            answer.text().contains(&format!(r#""data":{}"#, row.json)),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn each_input_takes_its_bytes_in_turn() {
    let server = Server::shared("add");
    let mut binary = floats(&[1.0; 10]);
    binary.extend(floats(&[0.5; 10]));
    let sized = json!({"parameters": {"binary_data_size": 40}});
    for (first, second) in [
        (json!({}), json!({})),
        (sized.clone(), json!({})),
        (sized.clone(), sized),
    ] {
        let answer = infer(server, "add", &add(first, second), &binary);
        assert_eq!(
            answer.json()["outputs"][0]["data"],
            Value::from(vec![1.5; 10])
        );
    }
}

#[test]
fn json_and_binary_inputs_are_not_mixed() {
    let server = Server::shared("add");
    let request = add(json!({"data": vec![0.5; 10]}), json!({}));
    let answer = infer(server, "add", &request, &floats(&[1.0; 10]));
    insta::assert_snapshot!(answer.error(), @"400: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in ModelInferRequest::raw_input_contents is not allowed - Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. Detected buffer in InferInputTensor contents for input: input1");
}

#[test]
fn bytes_behind_the_last_input_are_not_looked_at() {
    let server = Server::shared("add");
    let request = add(json!({}), json!({}));
    let answer = infer(server, "add", &request, &floats(&[1.0; 21]));
    assert_eq!(
        answer.json()["outputs"][0]["data"],
        Value::from(vec![2.0; 10])
    );
}

#[test]
fn only_outputs_that_are_asked_for_so_are_binary() {
    let server = Server::shared("two_outputs");
    let forms = |wishes: Value| {
        let mut request = json!({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]});
        request
            .as_object_mut()
            .unwrap()
            .extend(wishes.as_object().unwrap().clone());
        let answer = infer(server, "two_outputs", &request, b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        if answer.header(JSON_LENGTH).is_none() {
            return format!("{wishes}: all JSON\n");
        }
        let (json, binary) = answer.parts();
        let binary = to_floats(binary);
        let outputs = json["outputs"].as_array().unwrap().iter().map(|output| {
            let form = if output.get("data").is_some() {
                "JSON"
            } else {
                "binary"
            };
            format!("{}: {form}", output["name"])
        });
        format!(
            "{wishes}: {}; bytes of {binary:?}\n",
            outputs.collect::<Vec<_>>().join(", ")
        )
    };
    let twice = json!({"name": "twice"});
    let binary = |wish: Value| json!({"name": "total", "parameters": {"binary_data": wish}});
    let by_default = json!({"binary_data_output": true});
    let answers = [
        json!({}),
        json!({"outputs": [twice, binary(json!(true))]}),
        json!({"outputs": [binary(json!(false))]}),
        json!({"outputs": [binary(json!("true"))]}),
        json!({"outputs": [twice, binary(json!(false))], "parameters": by_default}),
        json!({"parameters": by_default}),
        json!({"outputs": [twice], "parameters": {"binary_data_output": 1}}),
    ]
    .map(forms)
    .concat();
    insta::assert_snapshot!(answers, @r#"
    {}: all JSON
    {"outputs":[{"name":"twice"},{"name":"total","parameters":{"binary_data":true}}]}: "twice": JSON, "total": binary; bytes of [10.0]
    {"outputs":[{"name":"total","parameters":{"binary_data":false}}]}: all JSON
    {"outputs":[{"name":"total","parameters":{"binary_data":"true"}}]}: all JSON
    {"outputs":[{"name":"twice"},{"name":"total","parameters":{"binary_data":false}}],"parameters":{"binary_data_output":true}}: "twice": binary, "total": JSON; bytes of [2.0, 4.0, 6.0, 8.0]
    {"parameters":{"binary_data_output":true}}: "total": binary, "twice": binary; bytes of [10.0, 2.0, 4.0, 6.0, 8.0]
    {"outputs":[{"name":"twice"}],"parameters":{"binary_data_output":1}}: all JSON
    "#);
}

#[test]
fn half_floats_are_binary_for_a_client_that_reads_binary_data() {
    let server = Server::shared("passthrough_f16");
    let request = json!({
        "inputs": [{"name": "in", "shape": [1, 1], "datatype": "FP16"}],
        "parameters": {"binary_data_output": true},
    });
    let answer = infer(server, "passthrough_f16", &request, &[0x00, 0x3c]);
    assert_eq!(answer.parts().1, [0x00, 0x3c]);
}

#[test]
fn large_tensors_come_back_in_json_and_in_binary() {
    const COUNT: u16 = 60_000;
    let server = Server::start("passthrough_f32");
    let numbers: Vec<f32> = (0..COUNT).map(|number| f32::from(number) / 4.0).collect();
    let input = json!({"name": "in", "shape": [COUNT, 4], "datatype": "FP32"});
    let four = numbers.repeat(4);
    let mut in_json = input.clone();
    in_json["data"] = json!(four);
    for (input, binary) in [(in_json, Vec::new()), (input, floats(&four))] {
        let mut request = json!({"inputs": [input]});
        let answer = infer(&server, "passthrough_f32", &request, &binary);
        assert_eq!(answer.json()["outputs"][0]["data"], json!(four));
        request["outputs"] = json!([{"name": "out", "parameters": {"binary_data": true}}]);
        let answer = infer(&server, "passthrough_f32", &request, &binary);
        assert!(answer.parts().1 == floats(&four));
    }
}
