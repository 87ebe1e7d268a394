//! Compiles the `.proto` files of this folder with protox, so that no `protoc` is needed.
//!
//! Raw tensor contents become `Bytes`, so that they stay slices of the received message.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The program finds the library of the interpreter that it was built with.
    #[cfg(feature = "python")]
    pyo3_build_config::add_libpython_rpath_link_args();

    let files = [
        "proto/kserve/grpc_predict_v2.proto",
        "proto/tensorflow_serving/prediction_service.proto",
        "proto/tensorflow_serving/model_service.proto",
    ];
    let imported = [
        "proto/tensorflow/framework.proto",
        "proto/tensorflow/error_codes.proto",
        "proto/tensorflow_serving/model.proto",
    ];
    for file in files.iter().chain(&imported) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-changed=proto/build.rs");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(false)
        .open_files(files.map(|file| file.trim_start_matches("proto/")))?;
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
        // Inputs are judged in the order of their names, and answers are the same every time.
        .btree_map(".tensorflow")
        .compile_fds(descriptors)?;
    Ok(())
}
