//! Strings and encoded images over TensorFlow Serving's APIs.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ovms::proto::{
    tensorflow::{DataType, TensorProto, TensorShapeProto, tensor_shape_proto::Dim},
    tensorflow_serving::{
        ModelSpec, PredictRequest, prediction_service_client::PredictionServiceClient,
    },
};
use serde_json::{Value, json};

use crate::support::{
    Server, fixture,
    grpc::{Grpc, error, to_floats},
    http::post,
};

/// Sends strings in `string_val`; returns the only output.
fn predict(
    server: &Server,
    model: &str,
    input: &str,
    shape: &[i64],
    strings: &[&[u8]],
) -> Result<TensorProto, String> {
    let grpc = Grpc::connect(server);
    let dim = |&size| Dim {
        size,
        ..Dim::default()
    };
    let tensor = TensorProto {
        dtype: DataType::DtString.into(),
        tensor_shape: Some(TensorShapeProto {
            dim: shape.iter().map(dim).collect(),
            unknown_rank: false,
        }),
        string_val: strings.iter().map(|it| it.to_vec().into()).collect(),
        ..TensorProto::default()
    };
    let request = PredictRequest {
        model_spec: Some(ModelSpec {
            name: model.to_owned(),
            ..ModelSpec::default()
        }),
        inputs: [(input.to_owned(), tensor)].into(),
        ..PredictRequest::default()
    };
    let mut client = PredictionServiceClient::new(grpc.channel.clone());
    let answer = grpc.wait(async move { client.predict(request).await });
    let outputs = answer.map_err(|status| error(&status))?.outputs;
    Ok(outputs.into_values().next().expect("there is one"))
}

/// Sends an input in the column format; returns the only output.
fn column(server: &Server, model: &str, value: &Value) -> Result<Value, String> {
    let path = format!("/v1/models/{model}:predict");
    let answer = post(
        server,
        &path,
        json!({ "inputs": value }).to_string().as_bytes(),
    );
    if answer.status == 200 {
        Ok(answer.json()["outputs"].take())
    } else {
        Err(answer.error())
    }
}

fn star(extension: &str) -> Vec<u8> {
    fs::read(fixture(&format!("images/star.{extension}"))).unwrap()
}

fn lengths(tensor: &TensorProto) -> Vec<i64> {
    let shape = tensor.tensor_shape.as_ref().expect("outputs have one");
    shape.dim.iter().map(|dim| dim.size).collect()
}

fn b64(bytes: &[u8]) -> Value {
    json!({ "b64": BASE64_STANDARD.encode(bytes) })
}

#[test]
fn strings_that_are_no_text_come_back_as_base64() {
    let server = Server::shared("passthrough_string");
    let strings = json!([{"b64": "/w=="}, "ü", {"b64": "YQ\r\n=="}, {"b64": "YW=="}]);
    let output = column(server, "passthrough_string", &strings).unwrap();
    assert_eq!(output, json!([{"b64": "/w=="}, "ü", "a", "a"]));
    // Rows of bytes that the name of their output makes strings.
    let server = Server::shared("text");
    let output = column(server, "text", &json!([{"b64": "/3g="}, "x"])).unwrap();
    assert_eq!(output, json!([{"b64": "/3g="}, "x"]));
}

#[test]
fn images_are_decoded() {
    let server = Server::shared("image_range");
    let files = [star("png"), star("jpg")];
    let output = predict(
        server,
        "image_range",
        "image",
        &[2],
        &[&files[0], &files[1]],
    )
    .unwrap();
    assert_eq!(lengths(&output), [2, 8, 6, 3]);
    assert_eq!(to_floats(&output.tensor_content).len(), 288);
    let first = column(server, "image_range", &json!([b64(&files[0])])).unwrap();
    let first: Vec<f32> = serde_json::from_value::<Vec<Vec<Vec<Vec<f32>>>>>(first)
        .unwrap()
        .concat()
        .concat()
        .concat();
    assert_eq!(first, to_floats(&output.tensor_content)[..144]);
}

#[test]
fn each_error_has_its_code_and_text() {
    let images = Server::shared("image_any");
    let png = star("png");
    let image = |shape: &[i64], files: &[&[u8]]| {
        predict(images, "image_any", "image", shape, files).unwrap_err()
    };
    let mut texts = vec![
        image(&[1], &[b"no image"]),
        image(&[1], &[b""]),
        image(&[1, 1], &[&png]),
        image(&[2], &[&png]),
    ];
    for value in [
        json!([b64(b"no image")]),
        json!([b64(b"")]),
        json!([[b64(&png)]]),
    ] {
        texts.push(column(images, "image_any", &value).unwrap_err());
    }
    let strings = Server::shared("passthrough_string");
    texts.push(predict(strings, "passthrough_string", "in", &[3], &[b"a"]).unwrap_err());
    texts.push(column(strings, "passthrough_string", &json!([["a"]])).unwrap_err());
    let dummy = Server::shared("dummy");
    texts.push(predict(dummy, "dummy", "b", &[1], &[b"a"]).unwrap_err());
    texts.push(column(dummy, "dummy", &json!(["a"])).unwrap_err());
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Image parsing failed - image 0: found neither JPEG nor PNG; input name: image
    InvalidArgument: String val is empty - image 0; input name: image
    InvalidArgument: Invalid number of shape dimensions - Expected number of binary input shape dimensions: 1; Actual: 2; input name: image
    InvalidArgument: Invalid input batch size - Expected: 2 as declared; Actual: 1; input name: image
    400: Image parsing failed - image 0: found neither JPEG nor PNG; input name: image
    400: String val is empty - image 0; input name: image
    400: Invalid number of shape dimensions - Expected number of binary input shape dimensions: 1; Actual: 2; input name: image
    InvalidArgument: Invalid number of values in tensor proto container - Expected: 3; Actual: 1; input name: in
    400: Invalid number of shape dimensions - Expected: (-1); Actual: (1,1); input name: in
    Unimplemented: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    501: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    ");
}
