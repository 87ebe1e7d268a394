//! Compiles the `.proto` files of this folder with protox, so that no `protoc` is needed.
//!
//! Raw tensor contents become `Bytes`, so that they stay slices of the received message.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The program finds the library of the interpreter that it was built with.
    #[cfg(feature = "python")]
    {
        python_library()?;
        // Where the system looks anyway, a path would only be in the way of packages.
        if !is_of_system() {
            pyo3_build_config::add_libpython_rpath_link_args();
        }
    }

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
    let graphs = [
        "proto/mediapipe/calculator.proto",
        "proto/mediapipe/calculators.proto",
        "proto/mediapipe/generative.proto",
        "proto/mediapipe/handlers.proto",
        "proto/mediapipe/openvino.proto",
    ];
    for file in files.iter().chain(&imported).chain(&graphs) {
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

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(false)
        .open_files(graphs.map(|file| file.trim_start_matches("proto/")))?;
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

/// Tells whether the library of the interpreter is where every program's libraries are looked for.
#[cfg(feature = "python")]
fn is_of_system() -> bool {
    let folder = pyo3_build_config::get().lib_dir();
    folder.is_some_and(|folder| ["/usr/lib", "/lib"].iter().any(|it| folder.starts_with(it)))
}

/// Sees to it that the interpreter has a library to link with: else the linker's words for it come
/// at the end of the build.
#[cfg(feature = "python")]
fn python_library() -> Result<(), String> {
    let python = pyo3_build_config::get();
    let (Some(folder), Some(name)) = (python.lib_dir(), python.lib_name()) else {
        return Ok(());
    };
    let has = |end: &str| {
        PathBuf::from(folder)
            .join(format!("lib{name}.{end}"))
            .exists()
    };
    if has("so") || has("dylib") || has("a") {
        return Ok(());
    }
    let interpreter = python.executable().unwrap_or("Python");
    Err(format!(
        "{interpreter} has no library to link with: expected lib{name}.so in {folder}; install \
         Debian's libpython3-dev, name another interpreter with PYO3_PYTHON, or build with \
         --no-default-features, which leaves Python nodes out"
    ))
}
