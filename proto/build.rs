//! Compiles the `.proto` files of this folder with protox, so that no `protoc` is needed.
//!
//! Raw tensor contents become `Bytes`, so that they stay slices of the received message.

use std::{env, fs, path::PathBuf};

/// Answers that REST has as JSON, whose members are in the order of the fields.
const JSON: [&str; 19] = [
    ".inference.InferBatchStatistics",
    ".inference.InferStatistics",
    ".inference.ModelConfig",
    ".inference.ModelDynamicBatching",
    ".inference.ModelInput",
    ".inference.ModelMetadataResponse",
    ".inference.ModelOutput",
    ".inference.ModelSequenceBatching",
    ".inference.ModelStatistics",
    ".inference.ModelTransactionPolicy",
    ".inference.ReloadFailure",
    ".inference.RepositoryIndexResponse",
    ".inference.ServerMetadataResponse",
    ".inference.StatisticDuration",
    ".inference.SystemSharedMemoryStatusResponse.RegionStatus",
    ".tensorflow.TensorInfo",
    ".tensorflow.TensorShapeProto",
    ".tensorflow.serving.ModelVersionStatus",
    ".tensorflow.serving.StatusProto",
];

/// Fields of theirs that a function of `lib.rs` writes: enums by their names, and numbers as texts.
const WRITTEN: [(&str, &str); 7] = [
    (".inference.ModelInput.data_type", "data_type"),
    (".inference.ModelOutput.data_type", "data_type"),
    (".tensorflow.TensorInfo.dtype", "dtype"),
    (".tensorflow.TensorShapeProto.Dim.size", "digits"),
    (".tensorflow.serving.ModelVersionStatus.state", "state"),
    (".tensorflow.serving.ModelVersionStatus.version", "digits"),
    (".tensorflow.serving.StatusProto.error_code", "code"),
];

const CAMEL_CASE: &str = "#[serde(rename_all = \"camelCase\")]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "kserve/grpc_predict_v2.proto",
        "tensorflow_serving/prediction_service.proto",
        "tensorflow_serving/model_service.proto",
    ];
    let imported = [
        "tensorflow/framework.proto",
        "tensorflow/error_codes.proto",
        "tensorflow_serving/model.proto",
    ];
    let graphs = [
        "mediapipe/calculator.proto",
        "mediapipe/calculators.proto",
        "mediapipe/generative.proto",
        "mediapipe/handlers.proto",
        "mediapipe/openvino.proto",
    ];
    for file in files.iter().chain(&imported).chain(&graphs) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-changed=build.rs");

    let mut compiler = protox::Compiler::new(["."])?;
    compiler
        .include_imports(true)
        .include_source_info(false)
        .open_files(files)?;
    let descriptors = compiler.file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Server reflection serves these bytes as they stand.
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    let mut messages = tonic_prost_build::configure();
    for message in JSON {
        messages = messages.type_attribute(message, "#[derive(serde::Serialize)]");
    }
    for (field, function) in WRITTEN {
        let attribute = format!("#[serde(serialize_with = \"crate::json::{function}\")]");
        messages = messages.field_attribute(field, attribute);
    }
    messages
        .field_attribute(
            ".inference.ModelConfig.dynamic_batching",
            "#[serde(skip_serializing_if = \"Option::is_none\")]",
        )
        .field_attribute(
            ".inference.ModelConfig.sequence_batching",
            "#[serde(skip_serializing_if = \"Option::is_none\")]",
        )
        .field_attribute(
            ".inference.ModelMetadataResponse.properties",
            "#[serde(skip_serializing_if = \"::std::collections::BTreeMap::is_empty\")]",
        )
        .field_attribute(
            ".inference.ServerMetadataResponse.reload_failure",
            "#[serde(skip_serializing_if = \"Option::is_none\")]",
        )
        .type_attribute(".tensorflow.TensorInfo", CAMEL_CASE)
        .type_attribute(".tensorflow.TensorShapeProto", CAMEL_CASE)
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .bytes(".inference.ModelInferResponse.raw_output_contents")
        .bytes(".inference.InferTensorContents.bytes_contents")
        .bytes(".tensorflow.TensorProto.tensor_content")
        .bytes(".tensorflow.TensorProto.string_val")
        // Test servers have the methods that they answer, and no others.
        .generate_default_stubs(true)
        // Inputs are validated in the order of their names, and responses are the same every time.
        .btree_map(".tensorflow")
        .btree_map(".inference.ModelMetadataResponse")
        .compile_fds(descriptors)?;

    let mut compiler = protox::Compiler::new(["."])?;
    compiler
        .include_imports(true)
        .include_source_info(false)
        .open_files(graphs)?;
    // Graph files are read with these: other messages than those of services, so they are kept apart.
    fs::write(
        out.join("mediapipe.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::Config::new()
        // Options are found by the names of their types.
        .enable_type_names()
        .btree_map(["."])
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
