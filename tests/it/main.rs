//! Integration tests: the real program, the real runtime, real sockets.
//!
//! Tests that need the runtime find it through `OPENVINO_INSTALL_DIR`, which `make test` sets, or
//! wherever `ovms setup` finds one; without it they fail with a message.
#![expect(
    clippy::unwrap_used,
    reason = "all of this is tests, which may fail so"
)]

mod attacks;
mod bad_clients;
mod bad_input;
mod bad_json;
mod bad_models;
mod benchmarks;
mod cache;
mod cli_flags;
mod cli_help;
mod cli_help_texts;
mod cli_infer;
mod cli_infer_errors;
mod cli_infer_flags;
mod cli_infer_inputs;
mod cli_infer_load;
mod cli_infer_misfits;
mod cli_infer_outputs;
mod cli_infer_status;
mod cli_infer_stream;
mod cli_infer_tfs;
mod cli_models;
mod cli_serve;
mod cli_summary;
mod completions;
mod completions_names;
mod completions_shells;
mod config_check;
mod config_check_depth;
mod config_directives;
mod config_schema;
mod custom_node_errors;
mod custom_node_examples;
mod custom_node_libraries;
mod custom_nodes;
mod dashboard;
mod dependencies;
mod devices;
mod docs;
mod docs_configuration;
mod doctor;
mod examples;
mod formats;
mod graph_check;
mod graph_config;
mod graph_metrics;
mod graph_models;
mod graph_new;
mod graph_pool;
mod graph_python;
mod graph_python_errors;
mod graph_python_tensors;
mod graph_reload;
mod graph_run;
mod graph_show;
mod graph_states;
mod graph_streams;
mod graph_streams_ends;
mod grpc_services;
mod grpc_wire;
mod handler_output;
mod http_bounds;
mod http_logs;
mod http_refusals;
mod http_stop;
mod http_surface;
mod images;
mod infer_sequence;
mod infer_sequence_ends;
mod kserve_grpc;
mod kserve_rest;
mod layering;
mod layouts;
mod limits;
mod loading;
mod low_latency;
mod manual;
mod metrics;
mod pipeline_check;
mod pipeline_check_files;
mod pipeline_config;
mod pipeline_edits;
mod pipeline_errors;
mod pipeline_examples;
mod pipeline_limits;
mod pipeline_metrics;
mod pipeline_names;
mod pipeline_new;
mod pipeline_new_files;
mod pipeline_parallel;
mod pipeline_parts;
mod pipeline_property;
mod pipeline_python;
mod pipeline_python_reload;
mod pipeline_refusals;
mod pipeline_reload;
mod pipeline_run;
mod pipeline_serving;
mod pipeline_show;
mod pipeline_terminal;
mod readme;
mod reload_config;
mod reload_folders;
mod reload_versions;
mod rest_binary;
mod round_trip;
mod scripting_curl;
mod scripting_exits;
mod scripting_json;
mod scripting_pipes;
mod sequence_cleaner;
mod sequence_drain;
mod sequence_errors;
mod sequence_failure;
mod sequence_metrics;
mod sequence_order;
mod sequence_params;
mod sequence_reload;
mod serve_check;
mod setup;
mod shapes;
mod shutdown;
mod sizes;
mod start_errors;
mod storage;
mod storage_clouds;
mod storage_errors;
mod stream_ends;
mod stream_models;
mod strings;
mod support;
mod terminal;
mod tfs_bytes;
mod tfs_errors;
mod tfs_grpc;
mod tfs_rest;
mod triton_calls;
mod words;

#[test]
fn every_file_of_this_folder_is_in_the_list_above() {
    let list = include_str!("main.rs");
    let folder = concat!(env!("WORKSPACE_ROOT"), "/tests/it");
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
