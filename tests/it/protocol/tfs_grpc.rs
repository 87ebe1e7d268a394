//! TensorFlow Serving over gRPC: responses to valid requests.

use ovms::proto::{
    tensorflow::{DataType, TensorInfo, TensorProto},
    tensorflow_serving::{
        ClassificationRequest, GetModelMetadataRequest, GetModelStatusRequest, ModelServerConfig,
        ModelSpec, MultiInferenceRequest, PredictRequest, RegressionRequest, ReloadConfigRequest,
        SignatureDefMap, StatusProto, model_spec::VersionChoice,
    },
};
use prost::Message as _;
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    grpc::{error, floats, to_floats},
    repository,
    tfs::{Tfs, content, dummy, request, shape, spec, tensor},
};

/// Returns the protocol's type of a row, and the same elements in the field of that type.
fn typed(row: &dtypes::Row) -> TensorProto {
    let chunks = |size: usize| row.raw.chunks_exact(size).map(<[u8]>::to_vec);
    let ints = || -> Vec<i32> {
        let size = row.raw.len() / ELEMENTS;
        let signed = row.datatype.starts_with("INT");
        chunks(size)
            .map(|chunk| {
                let mut wide = [0; 4];
                wide[..size].copy_from_slice(&chunk);
                let fill = 32 - 8 * u32::try_from(size).unwrap();
                let shifted = i32::from_le_bytes(wide) << fill;
                if signed {
                    shifted >> fill
                } else {
                    i32::from_le_bytes(wide)
                }
            })
            .collect()
    };
    macro_rules! list {
        ($field:ident, $type:ty) => {
            TensorProto {
                $field: chunks(size_of::<$type>())
                    .map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap()))
                    .collect(),
                ..TensorProto::default()
            }
        };
    }
    let list = match row.datatype {
        "FP32" => list!(float_val, f32),
        "FP64" => list!(double_val, f64),
        "INT64" => list!(int64_val, i64),
        "UINT32" => list!(uint32_val, u32),
        "UINT64" => list!(uint64_val, u64),
        "BOOL" => TensorProto {
            bool_val: row.raw.iter().map(|&byte| byte == 1).collect(),
            ..TensorProto::default()
        },
        "FP16" | "BF16" => TensorProto {
            half_val: ints(),
            ..TensorProto::default()
        },
        _ => TensorProto {
            int_val: ints(),
            ..TensorProto::default()
        },
    };
    TensorProto {
        dtype: wire_type(row).into(),
        tensor_shape: tensor(wire_type(row), &[1, 3]).tensor_shape,
        ..list
    }
}

fn wire_type(row: &dtypes::Row) -> DataType {
    match row.datatype {
        "BOOL" => DataType::DtBool,
        "INT8" => DataType::DtInt8,
        "INT16" => DataType::DtInt16,
        "INT32" => DataType::DtInt32,
        "INT64" => DataType::DtInt64,
        "UINT8" => DataType::DtUint8,
        "UINT16" => DataType::DtUint16,
        "UINT32" => DataType::DtUint32,
        "UINT64" => DataType::DtUint64,
        "FP16" => DataType::DtHalf,
        "BF16" => DataType::DtBfloat16,
        "FP32" => DataType::DtFloat,
        "FP64" => DataType::DtDouble,
        other => panic!("{other} is no row"),
    }
}

#[test]
fn every_datatype_comes_back_as_bytes_and_from_its_field() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let tfs = Tfs::connect(&server);
        for tensor in [content(wire_type(&row), &[1, 3], &row.raw), typed(&row)] {
            let answer = tfs.answered(request(row.model, [("in", tensor)]));
            let out = &answer.outputs["out"];
            assert_eq!(out.dtype(), wire_type(&row));
            assert_eq!(shape(out), [1, 3], "{}", row.datatype);
            assert_eq!(out.tensor_content, row.raw, "{}", row.datatype);
            assert!(answer.model_spec.is_none());
        }
    }
}

#[test]
fn version_label_and_signature_do_not_choose() {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let choices = [
        None,
        Some(VersionChoice::Version(0)),
        Some(VersionChoice::Version(1)),
        Some(VersionChoice::VersionLabel("stable".to_owned())),
    ];
    for version_choice in choices {
        let answer = tfs.answered(PredictRequest {
            model_spec: Some(ModelSpec {
                name: "dummy".to_owned(),
                version_choice,
                signature_name: "predict_images".to_owned(),
            }),
            ..dummy()
        });
        assert_eq!(to_floats(&answer.outputs["a"].tensor_content), [2.0; 10]);
    }
}

#[test]
fn the_filter_selects_outputs() {
    let server = Server::shared("two_outputs");
    let tfs = Tfs::connect(server);
    let outputs = |filter: &[&str]| {
        let x = content(DataType::DtFloat, &[2, 4], &floats(&[1.0; 8]));
        let answer = tfs.answered(PredictRequest {
            output_filter: filter.iter().map(|&name| name.to_owned()).collect(),
            ..request("two_outputs", [("x", x)])
        });
        answer
            .outputs
            .into_iter()
            .map(|(name, tensor)| (name, shape(&tensor), to_floats(&tensor.tensor_content)))
            .collect::<Vec<_>>()
    };
    let total = ("total".to_owned(), vec![2], vec![4.0; 2]);
    let twice = ("twice".to_owned(), vec![2, 4], vec![2.0; 8]);
    assert_eq!(outputs(&[]), [total.clone(), twice.clone()]);
    assert_eq!(outputs(&["twice"]), std::slice::from_ref(&twice));
    assert_eq!(outputs(&["twice", "total"]), [total, twice]);
}

#[test]
fn scalars_and_empty_dimensions_are_run() {
    let server = Server::shared("scalar");
    let tfs = Tfs::connect(server);
    // No shape is the shape of a scalar.
    let x = TensorProto {
        dtype: DataType::DtFloat.into(),
        float_val: vec![2.5],
        ..TensorProto::default()
    };
    let y = &tfs.answered(request("scalar", [("x", x)])).outputs["y"];
    assert_eq!(
        (shape(y), to_floats(&y.tensor_content)),
        (vec![], vec![5.0])
    );

    let server = Server::shared("passthrough_f32");
    let tfs = Tfs::connect(server);
    let empty = tensor(DataType::DtFloat, &[0, 10]);
    let out = &tfs
        .answered(request("passthrough_f32", [("in", empty)]))
        .outputs["out"];
    assert_eq!(shape(out), [0, 10]);
    assert!(out.tensor_content.is_empty());
}

#[test]
fn compressed_requests_take_the_general_path() {
    let server = Server::start("dummy");
    let tfs = Tfs::connect(&server);
    let mut client = tfs
        .prediction
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let answer = tfs
        .grpc
        .wait(async move { client.predict(dummy()).await })
        .unwrap();
    assert_eq!(to_floats(&answer.outputs["a"].tensor_content), [2.0; 10]);
}

#[test]
fn metadata_is_the_signature() {
    let server = Server::start("two_outputs");
    let tfs = Tfs::connect(&server);
    for version in [0, 1] {
        let mut client = tfs.prediction.clone();
        let request = GetModelMetadataRequest {
            model_spec: spec("two_outputs", version),
            metadata_field: vec!["signature_def".to_owned()],
        };
        let answer = tfs
            .grpc
            .wait(async move { client.get_model_metadata(request).await })
            .unwrap();
        assert_eq!(answer.model_spec, spec("two_outputs", 1));
        assert_eq!(answer.metadata.len(), 1);
        let any = &answer.metadata["signature_def"];
        assert_eq!(
            any.type_url,
            "type.googleapis.com/tensorflow.serving.SignatureDefMap"
        );
        let signatures = SignatureDefMap::decode(&any.value[..]).unwrap();
        assert_eq!(signatures.signature_def.len(), 1);
        let signature = &signatures.signature_def["serving_default"];
        assert_eq!(signature.method_name, "");
        let info = |name: &str, shape: &[i64]| TensorInfo {
            name: name.to_owned(),
            dtype: DataType::DtFloat.into(),
            tensor_shape: tensor(DataType::DtFloat, shape).tensor_shape,
        };
        assert_eq!(
            signature.inputs,
            [("x".to_owned(), info("x", &[-1, 4]))].into()
        );
        assert_eq!(
            signature.outputs,
            [
                ("total".to_owned(), info("total", &[-1])),
                ("twice".to_owned(), info("twice", &[-1, 4])),
            ]
            .into()
        );
    }
}

/// Returns the states from a status call, or its error.
fn status(tfs: &Tfs, model_spec: Option<ModelSpec>) -> String {
    let mut client = tfs.model.clone();
    let request = GetModelStatusRequest { model_spec };
    let answer = tfs
        .grpc
        .wait(async move { client.get_model_status(request).await });
    match answer {
        Ok(answer) => answer
            .model_version_status
            .into_iter()
            .map(|each| {
                let state = each.state();
                let StatusProto { error_message, .. } = each.status.clone().unwrap();
                let code = each.status.unwrap().error_code();
                format!(
                    "{} {} {} {error_message}; ",
                    each.version,
                    state.as_str_name(),
                    code.as_str_name()
                )
            })
            .collect(),
        Err(status) => error(&status),
    }
}

#[test]
fn status_tells_every_version_or_one() {
    let root = repository::of(&[("1", "dummy"), ("2", "broken"), ("10", "dummy")]);
    let flags = ["--model_version_policy", r#"{"all":{}}"#];
    let server = Server::begin("m", root.path(), &flags);
    server.wait_log("loading");
    let tfs = Tfs::connect(&server);
    crate::support::eventually("the end of the load", || {
        let done = status(&tfs, spec("m", 0)).matches("AVAILABLE").count() == 2;
        let failed = status(&tfs, spec("m", 2)).contains("UNKNOWN");
        (done && failed).then_some(())
    });
    let label = Some(ModelSpec {
        version_choice: Some(VersionChoice::VersionLabel("stable".to_owned())),
        ..spec("m", 0).unwrap()
    });
    let answers = [
        status(&tfs, spec("m", 0)),
        status(&tfs, spec("m", 1)),
        status(&tfs, label),
        status(&tfs, spec("m", 3)),
        status(&tfs, spec("m", -1)),
        status(&tfs, spec("stranger", 0)),
        status(&tfs, None),
    ];
    let answers = answers.join("\n");
    let answers = answers.replace(root.path().to_str().unwrap(), "<folder>");
    insta::assert_snapshot!(answers, @"
    1 AVAILABLE OK OK; 2 LOADING UNKNOWN cannot read <folder>/2/model.xml: Error parsing element attribute at offset 748; 10 AVAILABLE OK OK; 
    1 AVAILABLE OK OK; 
    1 AVAILABLE OK OK; 2 LOADING UNKNOWN cannot read <folder>/2/model.xml: Error parsing element attribute at offset 748; 10 AVAILABLE OK OK; 
    NotFound: Model with requested version is not found
    NotFound: Model with requested version is not found
    NotFound: Model with requested name is not found
    InvalidArgument: model_spec missing in request
    ");
}

#[test]
fn a_reload_over_grpc_is_good_and_does_nothing() {
    let server = Server::start("dummy");
    let tfs = Tfs::connect(&server);
    for config in [None, Some(ModelServerConfig {})] {
        let mut client = tfs.model.clone();
        let request = ReloadConfigRequest { config };
        let answer = tfs
            .grpc
            .wait(async move { client.handle_reload_config_request(request).await });
        assert!(answer.unwrap().status.is_none());
    }
    tfs.check_serves();
}

#[test]
fn other_calls_say_that_they_are_not_served() {
    let server = Server::start("dummy");
    let tfs = Tfs::connect(&server);
    let client = || tfs.prediction.clone();
    let answers = [
        error(
            &tfs.grpc
                .wait(client().classify(ClassificationRequest::default()))
                .unwrap_err(),
        ),
        error(
            &tfs.grpc
                .wait(client().regress(RegressionRequest::default()))
                .unwrap_err(),
        ),
        error(
            &tfs.grpc
                .wait(client().multi_inference(MultiInferenceRequest::default()))
                .unwrap_err(),
        ),
    ];
    insta::assert_snapshot!(answers.join("\n"), @r#"
    Unimplemented: Functionality not implemented - Classify; send requests with Predict
    Unimplemented: Functionality not implemented - Regress; send requests with Predict
    Unimplemented: Functionality not implemented - MultiInference; send requests with Predict
    "#);
}
