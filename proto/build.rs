//! Compiles the `.proto` files of this folder with protox, so that no `protoc` is needed.
//!
//! Raw tensor contents become `Bytes`, so that they stay slices of the received message.

use std::{env, fs, path::PathBuf};

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

    tonic_prost_build::configure()
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .bytes(".inference.ModelInferResponse.raw_output_contents")
        .bytes(".inference.InferTensorContents.bytes_contents")
        .bytes(".tensorflow.TensorProto.tensor_content")
        .bytes(".tensorflow.TensorProto.string_val")
        // Inputs are validated in the order of their names, and responses are the same every time.
        .btree_map(".tensorflow")
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
