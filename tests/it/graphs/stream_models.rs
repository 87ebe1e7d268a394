//! `ModelStreamInfer` to models, stateful models and pipelines: each request is answered like a
//! unary call, in order, on one stream.

use std::{collections::HashMap, fs};

use ovms::proto::kserve::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};
use serde_json::json;
use tonic::codec::CompressionEncoding;

use super::shared;
use crate::support::{
    Server, eventually,
    grpc::{Grpc, dummy, error, floats, raw, to_floats},
    http::get,
    model,
    pipelines::{Config, dl, request, ten},
    streams::{Came, Talk, with_id},
};

const OK: &str = "end: Ok: ";

fn named(name: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: name.to_owned(),
        ..dummy()
    }
}

fn versioned(version: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_version: version.to_owned(),
        ..dummy()
    }
}

fn of_numbers(id: usize) -> ModelInferRequest {
    let number = f32::from(u16::try_from(id % 1000).unwrap());
    with_id(
        id,
        raw("dummy", "b", "FP32", &[1, 10], &floats(&[number; 10])),
    )
}

/// Adds the pipeline of these tests, and a model with state.
pub(super) fn add_graphs(config: &mut Config) {
    let total = config.model("running_total", &model("running_total"));
    total["stateful"] = true.into();
    config.pipeline(
        "twice",
        "in",
        &[
            dl("first", "dummy", "b=request.in", "a=a"),
            dl("second", "dummy", "b=first.a", "a=a"),
        ],
        "out=second.a",
    );
}

#[test]
fn every_request_is_answered_with_its_id_and_all_outputs() {
    let server = Server::shared("two_outputs");
    let grpc = Grpc::connect(server);
    let metadata = ovms::proto::kserve::ModelMetadataRequest {
        name: "two_outputs".to_owned(),
        version: String::new(),
    };
    let metadata = grpc
        .wait(grpc.client.clone().model_metadata(metadata))
        .unwrap();
    let input = &metadata.inputs[0];
    let shape: Vec<i64> = input.shape.iter().map(|&length| length.max(1)).collect();
    let elements = usize::try_from(shape.iter().product::<i64>()).unwrap();
    let ask = raw(
        "two_outputs",
        &input.name,
        &input.datatype,
        &shape,
        &floats(&vec![1.0; elements]),
    );
    let unary = grpc.answered(with_id("a", ask.clone()));
    assert_eq!(unary.outputs.len(), 2);
    let mut talk = Talk::open(&grpc);
    for _ in 0..3 {
        assert_eq!(talk.ask(with_id("a", ask.clone())).response(), unary);
    }
    assert_eq!(talk.rest(), [OK]);
}

#[test]
fn answers_come_in_the_order_of_the_requests_also_beside_errors() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let talk = Talk::open(&grpc);
    let no_input = ModelInferRequest {
        inputs: Vec::new(),
        raw_input_contents: Vec::new(),
        ..dummy()
    };
    let limit = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(60_000_000)),
    };
    let with_parameters = ModelInferRequest {
        parameters: HashMap::from([
            ("timeout".to_owned(), limit.clone()),
            ("OVMS_MP_TIMESTAMP".to_owned(), limit),
        ]),
        ..dummy()
    };
    for (id, request) in [
        versioned("7"),
        dummy(),
        no_input,
        named("stranger"),
        versioned("x"),
        versioned("1"),
        raw("dummy", "b", "FP32", &[1, 10], &[0]),
        named(""),
        with_parameters,
    ]
    .into_iter()
    .enumerate()
    {
        talk.send(with_id(id, request));
    }
    insta::assert_snapshot!(talk.rest().join("\n"), @r"
    error: Model with requested version is not found
    response 1
    error: Invalid number of inputs - Expected: 1; Actual: 0; the model has: b
    error: Subsequent request with incorrect servable name; validate subsequent requests
    error: invalid model version format in request
    response 5
    error: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 1 bytes; input name: b
    error: Subsequent request with incorrect servable name; validate subsequent requests
    response 8
    end: Ok:
    ");
}

#[test]
fn ten_thousand_requests_go_over_one_stream() {
    const COUNT: usize = 10_000;
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let mut client = grpc.client.clone();
    let requests = futures::stream::iter((0..COUNT).map(of_numbers));
    let mut answers = grpc
        .wait(async move { client.model_stream_infer(requests).await })
        .unwrap();
    for id in 0..COUNT {
        let answer = grpc.runtime.block_on(answers.message()).unwrap().unwrap();
        let answer = answer.infer_response.unwrap();
        assert_eq!(answer.id, id.to_string());
        let number = f32::from(u16::try_from(id % 1000).unwrap());
        assert_eq!(
            to_floats(&answer.raw_output_contents[0]),
            [number + 1.0; 10]
        );
    }
    assert_eq!(grpc.runtime.block_on(answers.message()).unwrap(), None);
}

#[test]
fn of_a_hundred_streams_only_the_wrong_one_fails() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let mut talks: Vec<Talk<'_>> = (0..100).map(|_| Talk::open(&grpc)).collect();
    for round in 0..3 {
        for (index, talk) in talks.iter_mut().enumerate() {
            let wrong = index == 42;
            if wrong && round == 0 {
                assert!(matches!(talk.ask(named("stranger")), Came::End(_)));
            } else if !wrong {
                let answer = talk.ask(of_numbers(index)).response();
                assert_eq!(answer.id, index.to_string());
            }
        }
    }
    talks.remove(42);
    for talk in talks {
        assert_eq!(talk.rest(), [OK]);
    }
}

#[test]
fn compressed_requests_are_taken() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let mut client = grpc
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let requests = futures::stream::iter((0..3).map(of_numbers));
    let mut answers = grpc
        .wait(async move { client.model_stream_infer(requests).await })
        .unwrap();
    for id in 0..3 {
        let answer = grpc.runtime.block_on(answers.message()).unwrap().unwrap();
        assert_eq!(answer.infer_response.unwrap().id, id.to_string());
    }
}

#[test]
fn the_access_log_has_a_line_for_a_stream_and_the_figures_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let flags = ["--metrics_enable", "--access_log", file.to_str().unwrap()];
    let server = Server::start_with("dummy", &flags);
    let grpc = Grpc::connect(&server);
    let mut talk = Talk::open(&grpc);
    for _ in 0..3 {
        talk.ask(dummy()).response();
    }
    assert!(matches!(talk.ask(versioned("x")), Came::Error(_)));
    let bad = raw("dummy", "b", "FP32", &[1, 10], &[0]);
    assert!(matches!(talk.ask(bad), Came::Error(_)));
    assert_eq!(talk.rest(), [OK]);
    let page = get(&server, "/metrics").text();
    for sample in [
        r#"ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 3"#,
        r#"ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"} 1"#,
    ] {
        assert!(page.contains(sample), "{page}");
    }
    let line = eventually("a line in the access log", || {
        let text = fs::read_to_string(&file).ok()?;
        let line = text
            .lines()
            .find(|line| line.contains("ModelStreamInfer"))?;
        Some(line.to_owned())
    });
    let steady = line
        .split(' ')
        .filter(|word| word.contains("ModelStreamInfer") || word.starts_with(['s', 'm', 'v', 'b']));
    insta::assert_snapshot!(steady.collect::<Vec<_>>().join(" "), @"/inference.GRPCInferenceService/ModelStreamInfer status=0 model=dummy version=1 bytes_in=309 bytes_out=364");
}

#[test]
fn requests_of_sequences_enter_them_in_order() {
    let (_, grpc) = shared::connect();
    let step = |id: &str, name: Option<&str>| {
        let choice = |choice| InferParameter {
            parameter_choice: Some(choice),
        };
        let mut parameters = HashMap::from([(
            "sequence_id".to_owned(),
            choice(ParameterChoice::Int64Param(7)),
        )]);
        if let Some(name) = name {
            parameters.insert(name.to_owned(), choice(ParameterChoice::BoolParam(true)));
        }
        ModelInferRequest {
            parameters,
            ..with_id(
                id,
                raw("running_total", "x", "FP32", &[1, 4], &floats(&[1.0; 4])),
            )
        }
    };
    for _ in 0..20 {
        let mut talk = Talk::open(&grpc);
        talk.send(step("0", Some("sequence_start")));
        for id in 1..30 {
            talk.send(step(&id.to_string(), None));
        }
        talk.send(step("30", Some("sequence_end")));
        talk.send(step("31", None));
        for id in 0..31_u16 {
            let answer = talk.next().response();
            assert_eq!(answer.id, id.to_string());
            let total = to_floats(&answer.raw_output_contents[0])[0];
            assert_eq!(total, f32::from(id + 1));
        }
        let reported = talk.rest();
        assert_eq!(
            reported,
            ["error: Sequence with provided ID does not exist", OK]
        );
    }
}

#[test]
fn pipelines_are_streamed_as_models_are() {
    let (_, grpc) = shared::connect();
    let mut talk = Talk::open(&grpc);
    for id in 0..20_u16 {
        talk.send(with_id(
            id,
            request("twice", &[("in", &[1, 10], &[f32::from(id); 10])]),
        ));
    }
    talk.send(with_id("wrong", ten("dummy", 0.0)));
    talk.send(request("twice", &[("in", &[1, 9], &[0.0; 9])]));
    for id in 0..20_u16 {
        let answer = talk.next().response();
        assert_eq!(answer.id, id.to_string());
        let numbers = to_floats(&answer.raw_output_contents[0]);
        assert_eq!(numbers, [f32::from(id) + 2.0; 10]);
    }
    insta::assert_snapshot!(talk.rest().join("\n"), @r"
    error: Subsequent request with incorrect servable name; validate subsequent requests
    error: Invalid input shape - Expected: (1,10); Actual: (1,9); input name: in
    end: Ok:
    ");
}

#[test]
fn a_request_that_cannot_be_read_is_reported_and_the_stream_goes_on() {
    let (_, grpc) = shared::connect();
    let pipeline = request("twice", &[("in", &[1, 10], &[1.0; 10])]);
    for good in [dummy(), pipeline] {
        let bad = in_a_region(good.clone());
        let unary = grpc.infer(bad.clone()).unwrap_err();
        let talk = Talk::open(&grpc);
        for (id, request) in [&bad, &good, &bad, &good].into_iter().enumerate() {
            talk.send(with_id(id, request.clone()));
        }
        let refused = format!("error: {}", unary.message());
        let refused = refused.as_str();
        let expected = [refused, "response 1", refused, "response 3", OK];
        assert_eq!(talk.rest(), expected, "{}", good.model_name);
    }
    let good = raw("pass", "in", "UINT8", &[1], &[7]);
    let mut talk = Talk::open(&grpc);
    talk.ask(good.clone()).response();
    let refused = talk.ask(in_a_region(good.clone())).reported();
    insta::assert_snapshot!(refused, @"error: 'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'in'");
    talk.ask(good.clone()).response();
    assert_eq!(talk.rest(), [OK]);
    // Of the first request the graph has the parameters.
    let refused = Talk::open(&grpc).ask(in_a_region(good)).reported();
    insta::assert_snapshot!(refused, @"end: InvalidArgument: 'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'in'");
}

/// Puts the input of a request into a region of shared memory, without saying how large it is.
fn in_a_region(mut request: ModelInferRequest) -> ModelInferRequest {
    let region = InferParameter {
        parameter_choice: Some(ParameterChoice::StringParam("region".to_owned())),
    };
    let parameters = &mut request.inputs[0].parameters;
    parameters.insert("shared_memory_region".to_owned(), region);
    request
}

#[test]
fn a_model_that_goes_while_its_stream_is_open_is_reported_by_each_request() {
    let mut config = Config::of(&["dummy", "scalar"]);
    let server = config.serve();
    let grpc = Grpc::connect(&server);
    let mut talk = Talk::open(&grpc);
    talk.ask(dummy()).response();
    config.json["model_config_list"] = json!([config.json["model_config_list"][1].clone()]);
    config.write();
    config.reload(&server);
    insta::assert_snapshot!(talk.ask(dummy()).reported(), @"error: Model with requested version is not found");
    assert_eq!(talk.rest(), [OK]);
    let refused = error(&grpc.infer(dummy()).unwrap_err());
    insta::assert_snapshot!(refused, @"NotFound: Model with requested version is not found");
}
