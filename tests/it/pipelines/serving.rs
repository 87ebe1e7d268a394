//! Pipelines over all interfaces: inference, metadata, lists.

use ovms::proto::{
    kserve::{ModelInferRequest, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest},
    tensorflow::DataType,
    tensorflow_serving::{
        GetModelMetadataRequest, GetModelStatusRequest, SignatureDefMap, model_spec::VersionChoice,
    },
};
use prost::Message;
use serde_json::json;

use crate::support::{
    grpc::{self, Grpc, to_floats, wanted},
    http::{get, post},
    pipelines::{Config, dl, infer, reported, request, ten},
    tfs::{self, Tfs},
};

const X: &str = "b=request.x";
const ONES: [f32; 10] = [1.0; 10];
const THREES: [f32; 10] = [3.0; 10];

/// Returns a configuration of a chain of two models, which adds 2.
fn chain() -> Config {
    let mut config = Config::of(&["dummy"]);
    let nodes = [
        dl("one", "dummy", X, "a=y"),
        dl("two", "dummy", "b=one.y", "a=y"),
    ];
    config.pipeline("chain", "x", &nodes, "out=two.y");
    config
}

fn metadata(client: &Grpc, name: &str, version: &str) -> ModelMetadataResponse {
    let request = ModelMetadataRequest {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let mut kserve = client.client.clone();
    client
        .wait(async move { kserve.model_metadata(request).await })
        .unwrap()
}

/// Formats inputs and outputs: `x FP32 [1, 10] -> out FP32 [1, 10]`.
fn tensors(metadata: &ModelMetadataResponse) -> String {
    let write = |tensors: &[ovms::proto::kserve::model_metadata_response::TensorMetadata]| {
        let tensors = tensors
            .iter()
            .map(|tensor| format!("{} {} {:?}", tensor.name, tensor.datatype, tensor.shape));
        tensors.collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} -> {}",
        write(&metadata.inputs),
        write(&metadata.outputs)
    )
}

#[test]
fn plans_of_every_form_give_what_their_models_give() {
    let mut config = Config::of(&["dummy", "add", "two_outputs"]);
    let dummy = |name: &str, input: &str| dl(name, "dummy", input, "a=y");
    let chain = [
        dummy("one", X),
        dummy("two", "b=one.y"),
        dummy("three", "b=two.y"),
    ];
    config.pipeline("chain", "x", &chain, "out=three.y");
    // Listed before those that it gets its inputs from.
    let diamond = [
        dl("sum", "add", "input1=left.y input2=right.y", "sum=y"),
        dummy("left", X),
        dummy("middle", X),
        dummy("right", "b=middle.y"),
    ];
    config.pipeline("diamond", "x", &diamond, "out=sum.y");
    config.pipeline(
        "many",
        "x",
        &[dummy("one", X), dummy("two", "b=one.y")],
        "second=two.y first=one.y again=one.y itself=request.x",
    );
    let twice = dl("both", "add", "input1=request.x input2=request.x", "sum=y");
    config.pipeline("twice", "x", &[twice], "out=both.y");
    config.pipeline("straight", "x", &[], "out=request.x");
    let last = dl("node", "two_outputs", "x=request.x", "twice=y total=y");
    config.pipeline("alias", "x", &[last], "out=node.y");

    let server = config.serve();
    let client = Grpc::connect(&server);
    for (name, answer) in [
        ("chain", "out [1,10] 8"),
        ("diamond", "out [1,10] 13"),
        (
            "many",
            "again [1,10] 6; first [1,10] 6; itself [1,10] 5; second [1,10] 7",
        ),
        ("twice", "out [1,10] 10"),
        ("straight", "out [1,10] 5"),
    ] {
        assert_eq!(infer(&client, ten(name, 5.0)), answer, "{name}");
    }
    let rows = request("alias", &[("x", &[2, 4], &[1.0; 8])]);
    let answer = client.answered(rows);
    assert_eq!(answer.outputs[0].shape, [2], "the sum, not twice");
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [4.0, 4.0]);

    insta::assert_snapshot!(
        ["chain", "many", "twice", "straight", "alias"]
            .map(|name| tensors(&metadata(&client, name, "")))
            .join("\n"), @"
        x FP32 [1, 10] -> out FP32 [1, 10]
        x FP32 [1, 10] -> again FP32 [1, 10], first FP32 [1, 10], itself UNDEFINED [], second FP32 [1, 10]
        x FP32 [1, 10] -> out FP32 [1, 10]
        x UNDEFINED [] -> out UNDEFINED []
        x FP32 [-1, 4] -> out FP32 [-1]
        ");
    // What nobody decides is as the client has it.
    let other = grpc::raw("straight", "x", "INT16", &[3], &[1, 0, 2, 0, 3, 0]);
    let answer = client.answered(other);
    assert_eq!(answer.outputs[0].datatype, "INT16");
    assert_eq!(answer.outputs[0].shape, [3]);
    assert_eq!(answer.raw_output_contents[0][..], [1, 0, 2, 0, 3, 0]);
    // Models are there as they are without pipelines.
    assert_eq!(
        infer(&client, request("dummy", &[("b", &[1, 10], &[1.0; 10])])),
        "a [1,10] 2"
    );
}

#[test]
fn every_interface_takes_any_version() {
    let server = chain().serve();
    let client = Tfs::connect(&server);
    let kserve = &client.grpc;
    for version in ["", "1", "7", "0"] {
        let answer = kserve.answered(ModelInferRequest {
            model_version: version.to_owned(),
            id: "id 1".to_owned(),
            ..ten("chain", 1.0)
        });
        assert_eq!(reported(&answer), "out [1,10] 3");
        assert_eq!(
            (&*answer.model_name, &*answer.model_version, &*answer.id),
            ("chain", "1", "id 1")
        );
        let metadata = metadata(kserve, "chain", version);
        assert_eq!(
            (&*metadata.name, &*metadata.platform),
            ("chain", "OpenVINO")
        );
        assert_eq!(metadata.versions, ["1"]);
        let ready = ModelReadyRequest {
            name: "chain".to_owned(),
            version: version.to_owned(),
        };
        let mut ask = kserve.client.clone();
        let ready = kserve.wait(async move { ask.model_ready(ready).await });
        assert!(ready.unwrap().ready);
    }
    let wrong = ModelInferRequest {
        model_version: "abc".to_owned(),
        ..ten("chain", 1.0)
    };
    assert!(kserve.refused(wrong).starts_with("InvalidArgument"));

    let ones = tfs::content(DataType::DtFloat, &[1, 10], &grpc::floats(&[1.0; 10]));
    for version in [0, 1, 7] {
        let mut request = tfs::request("chain", [("x", ones.clone())]);
        request.model_spec = tfs::spec("chain", version);
        let answer = client.answered(request);
        assert_eq!(to_floats(&answer.outputs["out"].tensor_content), [3.0; 10]);

        let asked = GetModelMetadataRequest {
            model_spec: tfs::spec("chain", version),
            metadata_field: vec!["signature_def".to_owned()],
        };
        let mut prediction = client.prediction.clone();
        let answer = kserve.wait(async move { prediction.get_model_metadata(asked).await });
        let answer = answer.unwrap();
        let spec = answer.model_spec.unwrap();
        assert_eq!(spec.name, "chain");
        assert_eq!(spec.version_choice, Some(VersionChoice::Version(1)));
        let any = &answer.metadata["signature_def"];
        let signatures = SignatureDefMap::decode(&any.value[..]).unwrap();
        let signature = &signatures.signature_def["serving_default"];
        assert!(signature.inputs.contains_key("x") && signature.outputs.contains_key("out"));

        let asked = GetModelStatusRequest {
            model_spec: tfs::spec("chain", version),
        };
        let mut models = client.model.clone();
        let answer = kserve.wait(async move { models.get_model_status(asked).await });
        let versions = answer.unwrap().model_version_status;
        assert_eq!(versions.len(), 1);
        assert_eq!((versions[0].version, versions[0].state), (1, 30));
    }

    let body = json!({"id": "id 2", "inputs": [
        {"name": "x", "shape": [1, 10], "datatype": "FP32", "data": ONES}
    ]});
    let instances = json!({"instances": [{"x": ONES}]});
    for version in ["", "/versions/1", "/versions/7"] {
        let path = format!("/v2/models/chain{version}");
        let answer = post(
            &server,
            &format!("{path}/infer"),
            body.to_string().as_bytes(),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["outputs"][0]["data"], json!(THREES));
        assert_eq!(
            json!([answer["model_name"], answer["model_version"], answer["id"]]),
            json!(["chain", "1", "id 2"])
        );
        let metadata = get(&server, &path).json();
        assert_eq!(metadata["versions"], json!(["1"]));
        assert_eq!(metadata["inputs"][0]["shape"], json!([1, 10]));
        assert_eq!(get(&server, &format!("{path}/ready")).status, 200);

        let path = format!("/v1/models/chain{version}");
        let sent = instances.to_string();
        let answer = post(&server, &format!("{path}:predict"), sent.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json(), json!({"predictions": [THREES]}));
        let metadata = get(&server, &format!("{path}/metadata")).json();
        assert_eq!(metadata["modelSpec"]["version"], "1");
        let status = get(&server, &path).json();
        assert_eq!(
            status["model_version_status"][0]["state"], "AVAILABLE",
            "{status}"
        );
    }
    assert_eq!(get(&server, "/v2/models/stranger/ready").status, 404);
}

#[test]
fn outputs_are_those_asked_for_in_that_order() {
    let mut config = Config::of(&["dummy"]);
    let nodes = [
        dl("one", "dummy", X, "a=y"),
        dl("two", "dummy", "b=one.y", "a=y"),
    ];
    config.pipeline("p", "x", &nodes, "first=one.y second=two.y");
    let server = config.serve();
    let client = Tfs::connect(&server);
    let asked = |names: &[&str]| ModelInferRequest {
        outputs: names.iter().map(|name| wanted(name)).collect(),
        ..ten("p", 0.0)
    };
    for (names, answer) in [
        (&["second", "first"][..], "second [1,10] 2; first [1,10] 1"),
        (&["second"], "second [1,10] 2"),
        (&[], "first [1,10] 1; second [1,10] 2"),
    ] {
        assert_eq!(infer(&client.grpc, asked(names)), answer);
    }
    let refused = client.grpc.refused(asked(&["third"]));
    assert!(refused.starts_with("InvalidArgument"), "{refused}");

    let zeros = tfs::content(DataType::DtFloat, &[1, 10], &[0; 40]);
    let mut request = tfs::request("p", [("x", zeros)]);
    request.output_filter = vec!["second".to_owned()];
    let answer = client.answered(request.clone());
    assert_eq!(answer.outputs.len(), 1);
    assert_eq!(
        to_floats(&answer.outputs["second"].tensor_content),
        [2.0; 10]
    );
    request.output_filter = vec!["third".to_owned()];
    let refused = client.refused(request);
    assert!(refused.starts_with("InvalidArgument"), "{refused}");
}

#[test]
fn requests_are_validated_as_those_to_models_are() {
    let server = chain().serve();
    let client = Grpc::connect(&server);
    for (wrong, text) in [
        (request("chain", &[]), "Invalid number of inputs"),
        (
            request("chain", &[("y", &[1, 10], &[0.0; 10])]),
            "Missing input with specific name",
        ),
        (
            request("chain", &[("x", &[1, 9], &[0.0; 9])]),
            "Invalid input shape",
        ),
        (
            request("chain", &[("x", &[10], &[0.0; 10])]),
            "Invalid number of shape dimensions",
        ),
        (
            request("chain", &[("x", &[1, 10], &[0.0; 9])]),
            "Invalid content size of tensor proto",
        ),
        (
            grpc::raw("chain", "x", "INT32", &[1, 10], &[0; 40]),
            "Invalid input precision",
        ),
    ] {
        let refused = client.refused(wrong);
        let expected = format!("InvalidArgument: {text}");
        assert!(refused.starts_with(&expected), "{refused}");
    }
    assert_eq!(infer(&client, ten("chain", 1.0)), "out [1,10] 3");
}

#[test]
fn an_input_that_no_node_uses_is_none() {
    let mut config = Config::of(&["dummy"]);
    config.pipeline(
        "p",
        "idle x rest",
        &[dl("one", "dummy", X, "a=y")],
        "out=one.y",
    );
    let server = config.serve();
    let client = Grpc::connect(&server);
    assert_eq!(
        tensors(&metadata(&client, "p", "")),
        "x FP32 [1, 10] -> out FP32 [1, 10]"
    );
    assert_eq!(
        infer(&client, ten("p", 1.0)),
        reported(&client.answered(ten("p", 1.0)))
    );
    let sent = [("x", &[1, 10][..], &ONES[..]), ("idle", &[1, 10], &ONES)];
    insta::assert_snapshot!(client.refused(request("p", &sent)), @"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 2");
    let listed = get(&server, "/v1/models/p/metadata").json();
    let inputs = &listed["metadata"]["signature_def"]["signatureDef"]["serving_default"]["inputs"];
    assert_eq!(
        inputs.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["x"]
    );
    let body = br#"{"instances":[{"x":[0,1,2,3,4,5,6,7,8,9]}]}"#;
    assert_eq!(post(&server, "/v1/models/p:predict", body).status, 200);
}

#[test]
fn inputs_of_json_are_named() {
    let server = chain().serve();
    let predict = |name: &str, body: serde_json::Value| {
        let path = format!("/v1/models/{name}:predict");
        post(&server, &path, body.to_string().as_bytes())
    };
    for named in [
        json!({"instances": [{"x": ONES}]}),
        json!({"inputs": {"x": [ONES]}}),
    ] {
        assert_eq!(predict("chain", named).status, 200);
    }
    for unnamed in [json!({"instances": [ONES]}), json!({"inputs": [ONES]})] {
        let answer = predict("chain", unnamed.clone());
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(predict("dummy", unnamed).status, 200);
    }
}

#[test]
fn strings_go_through_to_a_model() {
    let mut config = Config::of(&["passthrough_string"]);
    let node = dl("n", "passthrough_string", "in=request.x", "out=y");
    config.pipeline("p", "x", &[node], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let mut bytes = Vec::new();
    for text in ["", "one", "a longer one"] {
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let answer = client.answered(grpc::raw("p", "x", "BYTES", &[3], &bytes));
    assert_eq!(answer.outputs[0].datatype, "BYTES");
    assert_eq!(answer.raw_output_contents[0], bytes);

    let body = json!({"instances": [{"x": "one"}, {"x": "two"}]});
    let answer = post(&server, "/v1/models/p:predict", body.to_string().as_bytes());
    assert_eq!(answer.json(), json!({"predictions": ["one", "two"]}));
}
