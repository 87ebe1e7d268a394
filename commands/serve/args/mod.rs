//! Flags of `ovms serve`, in the reference's spelling, one struct for each subject.

mod empty;
mod files;
mod instead;
pub(super) mod model;
mod network;
mod operation;
mod unmatched;
mod unused;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ovms::config::{FlagEnvironment, Flags};

pub(super) use instead::Check;

pub(crate) use self::{empty::without_empty, unmatched::refuse_unmatched};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The model folder holds one folder for each version: /models/resnet/1/model.xml and model.bin. The \
highest version is served, unless --model_version_policy says otherwise. A folder that holds a model \
and no version folder, or a model file, is version 1.

Environment: GRPC_SERVERS goes before --grpc_workers, API_KEY is used without --api_key_file, and \
OVMS_MODEL_REPOSITORY_PATH without --model_repository_path.

Examples:
  ovms serve --demo
  ovms serve --model_name resnet --model_path /models/resnet --port 9000
  ovms serve --config_path /models/config.json --port 9000 --rest_port 8000
  ovms serve --check --config_path /models/config.json

Exit codes: 0 stopped by SIGINT or SIGTERM, or what was asked for instead is done; 1 the start \
failed, or --check found errors; 2 --check found warnings only; 64 usage; 72 no OpenVINO runtime; \
130 stopped by a second signal.";

/// Arguments of `ovms serve`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) model: model::Args,
    #[command(flatten)]
    pub(super) files: files::Args,
    #[command(flatten)]
    pub(super) network: network::Args,
    #[command(flatten)]
    pub(super) operation: operation::Args,
    #[command(flatten)]
    pub(super) instead: instead::Args,
    #[command(flatten)]
    unused: unused::Args,
}

/// Returns a parser of booleans in each spelling of the C++ server.
fn boolean() -> impl TypedValueParser<Value = bool> {
    const YES: [&str; 5] = ["true", "True", "t", "T", "1"];
    const NO: [&str; 5] = ["false", "False", "f", "F", "0"];
    let value = |[name, others @ ..]: [&'static str; 5]| PossibleValue::new(name).aliases(others);
    PossibleValuesParser::new([value(YES), value(NO)]).map(|text| YES.contains(&&*text))
}

impl From<ServeArgs> for Flags {
    fn from(args: ServeArgs) -> Self {
        let ServeArgs {
            model,
            files,
            network,
            operation,
            instead,
            unused,
        } = args;
        Self {
            config_path: files.config_path,
            model_name: model.model_name,
            model_path: model.model_path,
            batch_size: model.batch_size,
            shape: model.shape,
            layout: model.layout,
            mean: model.mean,
            scale: model.scale,
            color_format: model.color_format,
            precision: model.precision,
            model_version_policy: model.model_version_policy,
            nireq: model.nireq,
            inference_timeout_ms: model.inference_timeout_ms,
            target_device: model.target_device,
            plugin_config: model.plugin_config,
            stateful: model.stateful,
            idle_sequence_cleanup: model.idle_sequence_cleanup,
            low_latency_transformation: model.low_latency_transformation,
            max_sequence_number: model.max_sequence_number,
            drain_sequences_seconds: model.drain_sequences_seconds,
            port: network.port,
            rest_port: network.rest_port,
            management_port: network.management_port,
            demo: model.demo,
            grpc_bind_address: network.grpc_bind_address,
            rest_bind_address: network.rest_bind_address,
            management_bind_address: network.management_bind_address,
            grpc_workers: unused.grpc_workers,
            grpc_max_threads: unused.grpc_max_threads,
            grpc_memory_quota: unused.grpc_memory_quota,
            grpc_channel_arguments: network.grpc_channel_arguments,
            rest_workers: unused.rest_workers,
            log_level: operation.log_level,
            log_format: operation.log_format.into(),
            access_log: operation.access_log,
            metrics_enable: operation.metrics_enable,
            metrics_list: operation.metrics_list,
            file_system_poll_wait_seconds: files.file_system_poll_wait_seconds,
            sequence_cleaner_poll_wait_minutes: model.sequence_cleaner_poll_wait_minutes,
            custom_node_resources_cleaner_interval_seconds: files
                .custom_node_resources_cleaner_interval_seconds,
            cache_dir: files.cache_dir,
            cpu_extension: files.cpu_extension,
            no_dashboard: network.no_dashboard,
            allow_credentials: network.allow_credentials,
            allowed_origins: network.allowed_origins,
            allowed_methods: network.allowed_methods,
            allowed_headers: network.allowed_headers,
            allowed_hosts: network.allowed_hosts,
            api_key_file: network.api_key_file,
            allowed_local_media_path: network.allowed_local_media_path,
            max_message_size: operation.max_message_size,
            max_bytes_in_flight: operation.max_bytes_in_flight,
            max_connections: operation.max_connections,
            max_connections_per_address: operation.max_connections_per_address,
            grpc_max_concurrent_streams: network.grpc_max_concurrent_streams,
            max_queued_requests: operation.max_queued_requests,
            max_custom_node_runs: operation.max_custom_node_runs,
            custom_node_load_seconds: operation.custom_node_load_seconds,
            max_graph_runs: operation.max_graph_runs,
            graph_load_seconds: operation.graph_load_seconds,
            max_streams: operation.max_streams,
            python_environment: operation.python_environment,
            hide_python_errors: operation.hide_python_errors,
            max_python_runs: operation.max_python_runs,
            max_image_pixels: operation.max_image_pixels,
            recovery_interval_ms: operation.recovery_interval_ms,
            hide_inference_errors: operation.hide_inference_errors,
            max_string_elements: operation.max_string_elements,
            read_timeout_seconds: operation.read_timeout_seconds,
            write_timeout_seconds: operation.write_timeout_seconds,
            idle_timeout_seconds: operation.idle_timeout_seconds,
            min_receive_rate: operation.min_receive_rate,
            loading_wait_seconds: operation.loading_wait_seconds,
            reload_wait_seconds: operation.reload_wait_seconds,
            shutdown_timeout_seconds: operation.shutdown_timeout_seconds,
            check: instead.check != Check::Off,
            environment: FlagEnvironment {
                grpc_servers: std::env::var("GRPC_SERVERS").ok(),
                api_key: std::env::var("API_KEY").ok(),
            },
        }
    }
}
