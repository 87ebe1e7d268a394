//! Integration tests: the real program, the real runtime, real sockets.
//!
//! Tests that need the runtime find it through `OPENVINO_INSTALL_DIR`, which `make test` sets, or
//! wherever `ovms setup` finds one; without it they fail and say so.
#![expect(
    clippy::unwrap_used,
    reason = "all of this is tests, which may fail so"
)]

mod bad_clients;
mod bad_input;
mod bad_json;
mod cli_flags;
mod cli_infer;
mod cli_infer_faults;
mod cli_infer_flags;
mod cli_infer_inputs;
mod cli_infer_load;
mod cli_infer_misfits;
mod cli_infer_outputs;
mod cli_models;
mod cli_serve;
mod completions;
mod formats;
mod grpc_services;
mod grpc_wire;
mod kserve_grpc;
mod kserve_rest;
mod layering;
mod limits;
mod loading;
mod readme;
mod rest_binary;
mod round_trip;
mod setup;
mod shutdown;
mod sizes;
mod support;

#[test]
fn every_file_of_this_folder_is_in_the_list_above() {
    let list = include_str!("main.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(module) = name.strip_suffix(".rs") {
            let listed = list.lines().any(|line| line == format!("mod {module};"));
            assert!(
                listed || module == "main",
                "tests/it/{name} is not compiled"
            );
        }
    }
}
