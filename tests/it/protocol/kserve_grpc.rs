//! KServe v2 over gRPC: responses to valid requests.

use std::{collections::HashMap, fmt::Write as _};

use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelMetadataRequest, ModelReadyRequest, ServerLiveRequest,
    ServerMetadataRequest, ServerReadyRequest, infer_parameter::ParameterChoice,
    model_metadata_response::TensorMetadata,
};
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    grpc::{Grpc, dummy, error, floats, input, raw, to_floats, typed, wanted},
};

#[test]
fn a_ready_server_is_live_and_ready() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    let live = grpc.wait(grpc.client.clone().server_live(ServerLiveRequest {}));
    let ready = grpc.wait(grpc.client.clone().server_ready(ServerReadyRequest {}));
    assert!(live.unwrap().live);
    assert!(ready.unwrap().ready);
}

#[test]
fn server_metadata_names_product_and_release() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    let metadata = grpc
        .wait(
            grpc.client
                .clone()
                .server_metadata(ServerMetadataRequest {}),
        )
        .unwrap();
    assert_eq!(metadata.name, "OpenVINO Model Server");
    assert_eq!(metadata.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        metadata.extensions,
        [
            "binary_tensor_data",
            "model_configuration",
            "parameters",
            "statistics"
        ]
    );
}

#[test]
fn a_model_is_ready_in_the_versions_that_it_has() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    let ready = |name: &str, version: &str| {
        let request = ModelReadyRequest {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let answer = grpc.wait(grpc.client.clone().model_ready(request));
        let answer = answer.map_or_else(|status| error(&status), |answer| answer.ready.to_string());
        format!("{name} {version:?}: {answer}\n")
    };
    let answers: String = ["", "0", "1", "2", "-1", "x", "1.0", "99999999999999999999"]
        .into_iter()
        .map(|version| ready("dummy", version))
        .chain([ready("stranger", ""), ready("", "")])
        .collect();
    insta::assert_snapshot!(answers, @r#"
    dummy "": true
    dummy "0": true
    dummy "1": true
    dummy "2": NotFound: Model with requested version is not found
    dummy "-1": NotFound: Model with requested version is not found
    dummy "x": InvalidArgument: invalid model version format in request
    dummy "1.0": InvalidArgument: invalid model version format in request
    dummy "99999999999999999999": InvalidArgument: invalid model version format in request
    stranger "": NotFound: Model with requested name is not found
     "": NotFound: Model with requested name is not found
    "#);
}

#[test]
fn model_metadata_shows_tensors_by_name_and_open_dimensions_as_minus_one() {
    let text: String = [
        "dummy",
        "add",
        "two_outputs",
        "scalar",
        "noname",
        "passthrough_string",
    ]
    .into_iter()
    .map(|model| {
        let server = Server::start(model);
        metadata(&Grpc::connect(&server), model, "")
    })
    .collect();
    insta::assert_snapshot!(text, @r#"
    dummy ["1"] on OpenVINO
      in  "b": FP32 [1, 10]
      out "a": FP32 [1, 10]
    add ["1"] on OpenVINO
      in  "input1": FP32 [1, 10]
      in  "input2": FP32 [1, 10]
      out "sum": FP32 [1, 10]
    two_outputs ["1"] on OpenVINO
      in  "x": FP32 [-1, 4]
      out "total": FP32 [-1]
      out "twice": FP32 [-1, 4]
    scalar ["1"] on OpenVINO
      in  "x": FP32 []
      out "y": FP32 []
    noname ["1"] on OpenVINO
      in  "x": FP32 [1, 4]
      out "out_0": FP32 [1, 4]
    passthrough_string ["1"] on OpenVINO
      in  "in": BYTES [-1]
      out "out": BYTES [-1]
    "#);
}

#[test]
fn model_metadata_takes_a_version_as_inference_does() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let first = metadata(&grpc, "dummy", "");
    assert_eq!(metadata(&grpc, "dummy", "1"), first);
    assert_eq!(metadata(&grpc, "dummy", "0"), first);
    let refused: String = [("dummy", "2"), ("dummy", "x"), ("stranger", "")]
        .map(|(name, version)| metadata(&grpc, name, version))
        .concat();
    insta::assert_snapshot!(refused, @"
    NotFound: Model with requested version is not found
    InvalidArgument: invalid model version format in request
    NotFound: Model with requested name is not found
    ");
}

fn metadata(grpc: &Grpc, name: &str, version: &str) -> String {
    let request = ModelMetadataRequest {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let metadata = match grpc.wait(grpc.client.clone().model_metadata(request)) {
        Ok(metadata) => metadata,
        Err(status) => return format!("{}\n", error(&status)),
    };
    let mut text = format!(
        "{} {:?} on {}\n",
        metadata.name, metadata.versions, metadata.platform
    );
    let mut list = |direction: &str, tensors: &[TensorMetadata]| {
        for tensor in tensors {
            let TensorMetadata {
                name,
                datatype,
                shape,
            } = tensor;
            writeln!(text, "  {direction} {name:?}: {datatype} {shape:?}").unwrap();
        }
    };
    list("in ", &metadata.inputs);
    list("out", &metadata.outputs);
    text
}

#[test]
fn raw_contents_of_every_datatype_come_back() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let shape = [1, i64::try_from(ELEMENTS).unwrap()];
        let answer =
            Grpc::connect(&server).answered(raw(row.model, "in", row.datatype, &shape, &row.raw));
        assert_eq!(answer.outputs[0].datatype, row.datatype);
        assert_eq!(answer.outputs[0].shape, shape);
        assert_eq!(answer.raw_output_contents[0], row.raw, "{}", row.datatype);
    }
}

#[test]
fn typed_contents_of_every_datatype_come_back_as_raw_ones() {
    for row in dtypes::rows() {
        let Some(contents) = row.typed else {
            continue;
        };
        let server = Server::start(row.model);
        let shape = [i64::try_from(ELEMENTS).unwrap(), 1];
        let answer =
            Grpc::connect(&server).answered(typed(row.model, "in", row.datatype, &shape, contents));
        assert_eq!(answer.outputs[0].shape, shape);
        assert_eq!(answer.outputs[0].contents, None);
        assert_eq!(answer.raw_output_contents[0], row.raw, "{}", row.datatype);
    }
}

#[test]
fn a_dimension_of_zero_needs_no_data_and_is_run() {
    let server = Server::shared("passthrough_f32");
    let grpc = Grpc::connect(server);
    for shape in [[0, 3], [3, 0], [0, 0]] {
        let answer = grpc.answered(raw("passthrough_f32", "in", "FP32", &shape, b""));
        assert_eq!(answer.outputs[0].shape, shape);
        assert!(answer.raw_output_contents[0].is_empty());
        let mut request = raw("passthrough_f32", "in", "FP32", &shape, b"");
        request.raw_input_contents.clear();
        assert_eq!(grpc.answered(request).outputs[0].shape, shape, "typed");
    }
}

#[test]
fn a_scalar_has_no_dimensions() {
    let server = Server::shared("scalar");
    let answer = Grpc::connect(server).answered(raw("scalar", "x", "FP32", &[], &floats(&[1.5])));
    assert_eq!(answer.outputs[0].shape, [0_i64; 0]);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [3.0]);
}

#[test]
fn inputs_may_come_in_any_order() {
    let server = Server::shared("add");
    let request = ModelInferRequest {
        model_name: "add".to_owned(),
        inputs: vec![
            input("input2", "FP32", &[1, 10]),
            input("input1", "FP32", &[1, 10]),
        ],
        raw_input_contents: vec![floats(&[0.25; 10]).into(), floats(&[4.0; 10]).into()],
        ..ModelInferRequest::default()
    };
    let answer = Grpc::connect(server).answered(request);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [4.25; 10]);
}

#[test]
fn an_output_listed_twice_is_refused() {
    let server = Server::shared("two_outputs");
    let mut request = raw("two_outputs", "x", "FP32", &[1, 4], &floats(&[1.; 4]));
    request.outputs = vec![wanted("total"), wanted("total")];
    insta::assert_snapshot!(Grpc::connect(server).refused(request), @"InvalidArgument: Invalid output name - Requested output: total is listed twice");
}

#[test]
fn requested_outputs_are_selected_and_in_the_order_asked_for() {
    let server = Server::shared("two_outputs");
    let grpc = Grpc::connect(server);
    let answer = |names: &[&str]| {
        let mut request = raw(
            "two_outputs",
            "x",
            "FP32",
            &[1, 4],
            &floats(&[1., 2., 3., 4.]),
        );
        request.outputs = names.iter().map(|name| wanted(name)).collect();
        let answer = grpc.answered(request);
        let names = answer.outputs.into_iter().map(|output| output.name);
        let values = answer.raw_output_contents.iter().map(|raw| to_floats(raw));
        names.zip(values).collect::<Vec<_>>()
    };
    let twice = ("twice".to_owned(), vec![2., 4., 6., 8.]);
    let total = ("total".to_owned(), vec![10.]);
    assert_eq!(answer(&[]), [total.clone(), twice.clone()], "all, by name");
    assert_eq!(answer(&["twice", "total"]), [twice.clone(), total.clone()]);
    assert_eq!(answer(&["twice"]), [twice]);
    assert_eq!(answer(&["total"]), [total]);
}

#[test]
fn an_unknown_output_is_refused_with_the_known_ones() {
    let server = Server::shared("two_outputs");
    let mut request = raw("two_outputs", "x", "FP32", &[1, 4], &floats(&[0.0; 4]));
    request.outputs = vec![wanted("twice"), wanted("thrice")];
    insta::assert_snapshot!(Grpc::connect(server).refused(request), @"InvalidArgument: Invalid output name - Requested output: thrice; the model has: total, twice");
}

#[test]
fn the_id_is_echoed() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    for id in ["", "7", "request of Ütarbe"] {
        let request = ModelInferRequest {
            id: id.to_owned(),
            ..dummy()
        };
        assert_eq!(grpc.answered(request).id, id);
    }
}

#[test]
fn an_answer_names_the_version_that_ran() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    for version in ["", "0", "1"] {
        let answer = grpc.answered(ModelInferRequest {
            model_version: version.to_owned(),
            ..dummy()
        });
        assert_eq!(answer.model_name, "dummy");
        assert_eq!(answer.model_version, "1", "for {version:?}");
    }
}

#[test]
fn request_parameters_are_tolerated() {
    let server = Server::shared("dummy");
    let parameters: HashMap<String, InferParameter> = [
        ("priority", Some(ParameterChoice::Int64Param(i64::MIN))),
        ("sequence_start", Some(ParameterChoice::BoolParam(true))),
        ("note", Some(ParameterChoice::StringParam("x".to_owned()))),
        ("nothing", None),
    ]
    .map(|(name, parameter_choice)| (name.to_owned(), InferParameter { parameter_choice }))
    .into();
    let mut request = dummy();
    request.inputs[0].parameters = parameters.clone();
    request.outputs = vec![wanted("a")];
    request.outputs[0].parameters = parameters.clone();
    request.parameters = parameters;
    let answer = Grpc::connect(server).answered(request);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
}

#[test]
fn an_output_without_a_name_is_called_out_0() {
    let server = Server::shared("noname");
    let mut request = raw("noname", "x", "FP32", &[1, 4], &floats(&[1.0; 4]));
    request.outputs = vec![wanted("out_0")];
    let answer = Grpc::connect(server).answered(request);
    assert_eq!(answer.outputs[0].name, "out_0");
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 4]);
}

#[test]
fn a_compressed_request_is_accepted() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    let mut client = grpc
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let answer = grpc.wait(client.model_infer(dummy())).unwrap();
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
}

#[test]
fn a_large_input_arrives_whole() {
    const PLANE: usize = 224 * 224;
    let server = Server::shared("fullsize");
    let image: Vec<f32> = [1.0, 2.0, 4.0]
        .into_iter()
        .flat_map(|value| vec![value; PLANE])
        .collect();
    let request = raw(
        "fullsize",
        "image",
        "FP32",
        &[1, 3, 224, 224],
        &floats(&image),
    );
    let answer = Grpc::connect(server).answered(request);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [1.0, 2.0, 4.0]);
}

#[test]
fn requests_in_flight_together_get_each_their_own_answer() {
    let server = Server::start_with("two_outputs", &["--nireq", "2"]);
    let grpc = Grpc::connect(&server);
    let calls: Vec<_> = (0..200_u8)
        .map(|number| {
            let x = floats(&[number.into(), 0.0, 0.0, 1.0]);
            grpc.call(ModelInferRequest {
                id: number.to_string(),
                ..raw("two_outputs", "x", "FP32", &[1, 4], &x)
            })
        })
        .collect();
    for (number, call) in (0..200_u8).zip(calls) {
        let answer = call.wait().unwrap();
        assert_eq!(answer.id, number.to_string());
        assert_eq!(
            to_floats(&answer.raw_output_contents[0]),
            [f32::from(number) + 1.0]
        );
    }
}
