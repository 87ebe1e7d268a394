//! The table of all flags of `ovms serve`. A row has the words of the help, the name, the type, the
//! default (without one the flag is an `Option`), the name of the value, and what else is not as with
//! most flags, by the fields of [`Flag`]. The command line, the keys of models that are flags, and the
//! schema and tables of the manual are made of it or held against it.

mod check;
mod error;
mod flag;
mod paths;

use std::{ffi::OsString, path::PathBuf};

use serde_json::Value;

pub use check::{ClosedPorts, FlagEnvironment};
pub use error::FlagError;
pub use flag::{Flag, FlagKind, FlagScope, SPELLINGS};

use self::flag::{
    FlagScope::{AllModels, Model, ModelIgnored},
    FlagValue, flags,
};
use super::settings::{AccessLogTarget, CheckDepth, ClientAuth, LogFormat, TlsVersion};
use crate::{byte_size::ByteSize, openvino::StateMode, store::SequenceDurability};

flags! {
    "Model" {
        /// Name that clients use for the model
        model_name: String, "NAME";
        /// Folder with the model's version folders or with one model, or a model file
        model_path: PathBuf, "PATH";
        /// Folder with one folder per model; new ones are served, and removed ones retired
        model_repository_path: PathBuf, "DIR";
        /// Serve the built-in example, a classifier of drawn shapes
        ///
        /// Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).
        demo: bool = false, "BOOL";
        /// Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request
        ///
        /// Ignored when --shape is given.
        batch_size: String, "SIZE", takes_hyphen: true, scope: Model, own_form: true;
        /// Shape of the input, such as '(1,3,224,224)', '(1:8,3,-1,-1)' or auto; or a JSON object of
        /// shapes by input name
        shape: String, "SHAPE", scope: Model, own_form: true;
        /// Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW;
        /// or a JSON object of layouts by input and output name
        layout: String, "LAYOUT", scope: ModelIgnored, own_form: true;
        /// Numbers to subtract from the input: 123.7, or one for each channel: '(123.7,116.8,103.9)'
        ///
        /// For models with one input; needs --layout.
        mean: String, "NUMBERS", takes_hyphen: true, scope: ModelIgnored, own_form: true;
        /// Numbers to divide the input by: 58.4, or one for each channel: '(58.4,57.1,57.4)'
        ///
        /// For models with one input; needs --layout.
        scale: String, "NUMBERS", takes_hyphen: true, scope: ModelIgnored, own_form: true;
        /// Colors of the model and of requests, such as RGB:BGR for requests in BGR to a model in RGB
        ///
        /// Of RGB, BGR, GRAY, NV12, NV12_2, I420, I420_3. For models with one input; needs --layout.
        color_format: String, "FORMAT", scope: ModelIgnored, own_form: true;
        /// Element types of the model and of requests, such as fp32:uint8 for requests of bytes
        ///
        /// Of fp64, fp32, fp16, bf16, int8 to int64, uint1, uint8 to uint64. For models with one input;
        /// needs --layout.
        precision: String, "TYPE", scope: ModelIgnored, own_form: true;
        /// Versions to serve: '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}' or
        /// '{"all":{}}' [default: the latest one]
        model_version_policy: String, "JSON", scope: Model, own_form: true;
        /// Number of infer requests: inferences that run in parallel; 0 lets the device choose
        nireq: u32 = 0, "N", scope: Model;
        /// Timeout of an inference in milliseconds: the client gets an error, and a compiled model that
        /// does not end is replaced; 0 disables it
        inference_timeout_ms: u32 = 0, "N", scope: AllModels;
        /// Run waiting requests together as batches: off, auto, or
        /// '{"max_batch":8,"max_delay_us":500}' [default: off]
        ///
        /// auto measures at load which sizes raise the throughput, and uses these.
        dynamic_batching: String, "MODE", scope: ModelIgnored, own_form: true;
        /// Device to run on, such as CPU, GPU, AUTO [default: CPU]
        target_device: String, "DEVICE", scope: Model;
        /// Device properties as a JSON object, such as '{"NUM_STREAMS":2}'
        plugin_config: String, "JSON", scope: Model, own_form: true;
    }
    "Stateful model" {
        /// Keep the model's state between the requests of a sequence
        stateful: bool = false, "BOOL", scope: ModelIgnored;
        /// Remove idle sequences; needs --stateful [default: true]
        idle_sequence_cleanup: bool, "BOOL", scope: ModelIgnored;
        /// Apply OpenVINO's low latency transformation; needs --stateful [default: false]
        low_latency_transformation: bool, "BOOL", scope: ModelIgnored;
        /// Keep states as tensors, or in an infer request for each sequence; needs --stateful
        /// [default: tensors]
        state_mode: StateMode, "MODE", scope: ModelIgnored;
        /// Maximum number of steps of different sequences to run as one inference; needs --stateful
        /// [default: 1]
        sequence_batch: u32, "N", least: 1, scope: ModelIgnored;
        /// Maximum number of sequences; needs --stateful [default: 500]
        max_sequence_number: u32, "N", scope: ModelIgnored, own_form: true;
        /// Seconds that sequences may continue when their version is reloaded or retired, or the server
        /// stops; needs --stateful [default: 0]
        drain_sequences_seconds: u32, "N", scope: ModelIgnored;
        /// Minutes between two scans for idle sequences; 0 disables them
        sequence_cleaner_poll_wait_minutes: u32 = 5, "N";
        /// Store that keeps sequences for other servers and for the next start: redis://HOST[:PORT] or
        /// file:///FOLDER
        sequence_store: String, "URL";
        /// Store states before each answer (step), in intervals, or only when another server takes over or
        /// this one stops (none); needs --sequence-store [default: interval]
        sequence_durability: SequenceDurability, "MODE";
        /// Milliseconds between two stores of changed states
        sequence_store_interval_ms: u32 = 1000, "N", least: 1;
        /// Milliseconds that a request waits for the store
        sequence_store_timeout_ms: u32 = 10_000, "N", least: 1;
    }
    "Configuration file" {
        /// JSON file with the models to serve, instead of --model-name and --model-path
        config_path: PathBuf, "FILE";
        /// Seconds between two checks of the file and of the version folders; 0 means only on POST
        /// /v1/config/reload
        file_system_poll_wait_seconds: u32 = 1, "N";
        /// Seconds between two cleanups of custom node resources; 0 disables them
        custom_node_resources_cleaner_interval_seconds: u32 = 300, "N";
    }
    "Runtime" {
        /// Cache folder for compiled models, for a faster start; created if missing [default:
        /// /opt/cache if there is such a folder]
        cache_dir: PathBuf, "DIR", scope: AllModels;
        /// Shared library with custom operations for the CPU
        cpu_extension: PathBuf, "FILE";
    }
    "Network" {
        /// gRPC port; 0 disables gRPC
        port: u32 = 0, "PORT";
        /// REST port; 0 disables REST
        rest_port: u32 = 0, "PORT";
        /// Port for health, metrics, and reload only; 0 disables it
        ///
        /// Serves the operator's part of the REST port over HTTP: health, readiness and model states,
        /// /metrics, /v1/config and /v1/config/reload, and the dashboard. Its connections are counted
        /// separately, so that probes are answered when the other ports are full. The REST port stays
        /// the same.
        management_port: u32 = 0, "PORT";
        /// Addresses or host names for gRPC, separated by commas [default: 0.0.0.0; with --demo
        /// or PATH 127.0.0.1]
        grpc_bind_address: String, "LIST";
        /// Addresses or host names for REST, separated by commas [default: 0.0.0.0; with --demo
        /// or PATH 127.0.0.1]
        rest_bind_address: String, "LIST";
        /// Addresses or host names for management, separated by commas [default: those of REST]
        management_bind_address: String, "LIST";
        /// Unix socket for gRPC, beside --port or instead of it; created, and removed at the end
        grpc_unix_socket: PathBuf, "PATH";
        /// Unix socket for REST, beside --rest-port or instead of it; created, and removed at the end
        rest_unix_socket: PathBuf, "PATH";
        /// Mode of the Unix sockets, in octal: those who may write to them may use the server [default:
        /// 0600]
        unix_socket_mode: String, "MODE";
        /// gRPC channel arguments by their names in gRPC C++, such as
        /// grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; unsupported ones are
        /// logged
        grpc_channel_arguments: String, "LIST";
        /// Maximum number of concurrent streams of a gRPC connection [default: 128]
        grpc_max_concurrent_streams: u32, "N", least: 1;
        /// Disable the web dashboard
        no_dashboard: bool = false, "BOOL";
    }
    "TLS" {
        /// Certificate of the server in PEM, with those that lead to its authority: turns TLS on
        ///
        /// It is read again when the file changes. Unix sockets have no TLS.
        tls_cert: PathBuf, "FILE";
        /// Private key of --tls-cert in PEM
        tls_key: PathBuf, "FILE";
        /// TLS on the gRPC port [default: with --tls-cert, unless --rest-tls is given alone]
        grpc_tls: bool, "BOOL";
        /// TLS on the REST port [default: with --tls-cert, unless --grpc-tls is given alone]
        rest_tls: bool, "BOOL";
        /// TLS on the management port as well
        management_tls: bool = false, "BOOL";
        /// Authorities in PEM whose certificates clients may have
        tls_client_ca: PathBuf, "FILE";
        /// Certificates of clients: off, optional, or required; needs --tls-client-ca [default: required
        /// with --tls-client-ca]
        tls_client_auth: ClientAuth, "MODE";
        /// Minimum version of TLS
        tls_min_version: TlsVersion = TlsVersion::V12, "VERSION";
        /// Seconds between two checks of the files of TLS for changes; 0 disables them
        tls_poll_wait_seconds: u32 = 5, "N";
        /// Timeout in seconds of a TLS handshake
        tls_handshake_timeout_seconds: u32 = 10, "N", least: 1;
        /// Maximum number of concurrent TLS handshakes of each port; further ones wait
        max_tls_handshakes: usize = 256, "N", least: 1;
    }
    "Access" {
        /// Allow cross-origin requests with credentials
        allow_credentials: bool = false, "BOOL";
        /// Access-Control-Allow-Origin header of responses, except those of management; empty omits it
        allowed_origins: String = "*".to_owned(), "TEXT";
        /// Access-Control-Allow-Methods header of the same responses; empty omits it
        allowed_methods: String = "*".to_owned(), "TEXT";
        /// Access-Control-Allow-Headers header of the same responses; empty omits it
        allowed_headers: String = "*".to_owned(), "TEXT";
        /// Host names under which browsers may use management pages, separated by commas [default:
        /// loopback names and the bound addresses]
        ///
        /// A * allows any, and 0.0.0.0 any numeric address. For browsers, /, /dashboard, /metrics,
        /// /v1/config, and all paths below them are restricted to these names and to pages of the
        /// server itself. Requests without Origin and Sec-Fetch-Site do not count as a browser's.
        allowed_hosts: String, "LIST";
        /// Identities with their API keys, tokens (JWT), or certificates, and their rights, in TOML [default:
        /// anyone may do anything]
        ///
        /// It is read again when the file changes. `ovms key new` makes a key.
        auth: PathBuf, "FILE";
        /// File with the API key for /v3, in its first line; --auth has keys for all paths
        api_key_file: PathBuf, "FILE";
        /// Let clients register system shared memory whose keys begin with PREFIX, such as /ovms_; / allows
        /// any key [default: none]
        ///
        /// Keys name objects in /dev/shm, which the server reads and writes with its own rights.
        shared_memory: String, "PREFIX";
        /// Folder of local files that requests to /v3 may refer to [default: none]
        allowed_local_media_path: PathBuf, "DIR";
    }
    "Log" {
        /// Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR
        log_level: String = "INFO".to_owned(), "LEVEL";
        /// Log file, in addition to stdout
        log_path: PathBuf, "FILE";
        /// Format of the log: text, or one JSON object per line
        log_format: LogFormat = LogFormat::Text, "FORMAT";
        /// Access log file, one line per request; - is stdout [default: none]
        access_log: AccessLogTarget, "FILE", takes_hyphen: true;
        /// Audit log file, one JSON object per request that reloads, saves or restores sequences, registers
        /// shared memory, or controls models; - is stdout [default: none]
        audit_log: PathBuf, "FILE", takes_hyphen: true;
    }
    "Metrics" {
        /// Expose Prometheus metrics at /metrics of the REST port
        metrics_enable: bool = false, "BOOL";
        /// Metric families to expose, separated by commas; needs --metrics-enable [default: the usual
        /// ones]
        metrics_list: String, "LIST";
    }
    "Traces" {
        /// Send traces to an OpenTelemetry collector, such as http://collector:4317 [default:
        /// OTEL_EXPORTER_OTLP_ENDPOINT, else none]
        ///
        /// Over gRPC, or over HTTP if OTEL_EXPORTER_OTLP_PROTOCOL has http/protobuf or the port is 4318.
        /// The OTEL variables set everything else, such as OTEL_TRACES_SAMPLER.
        otlp_endpoint: String, "URL";
        /// Seconds that spans which wait may take to be sent when the server stops
        otlp_flush_seconds: u32 = 5, "N";
    }
    "Python nodes" {
        /// Virtual environment with the packages of Python nodes [default: the active one]
        python_environment: PathBuf, "DIR";
        /// Hide exceptions of Python nodes from clients; they are still logged
        hide_python_errors: bool = false, "BOOL";
    }
    "Limits" {
        /// Maximum size of a message or body, compressed and decompressed, in bytes or with a unit: 64K,
        /// 64M, 1G
        max_message_size: ByteSize = ByteSize(1 << 30), "BYTES", takes_hyphen: true;
        /// Maximum bytes of all requests and responses in flight, as received, decompressed, decoded
        /// and queued; further requests are rejected (RESOURCE_EXHAUSTED, 503) [default: a quarter of
        /// the memory]
        max_bytes_in_flight: ByteSize, "BYTES", takes_hyphen: true;
        /// Maximum number of connections of each port; further ones wait, and idle ones are closed for
        /// them
        max_connections: usize = 4096, "N", least: 1;
        /// Maximum number of connections from one address; further ones are closed; 0 means no limit
        ///
        /// A /64 network of IPv6 counts as one address, and so does each user of a Unix socket. Clients
        /// behind a proxy share its address.
        max_connections_per_address: usize = 0, "N";
        /// Limits of each address, such as requests-per-second=100,burst=200,concurrent-requests=16; with
        /// --auth they are those of requests without an identity [default: none]
        ///
        /// Identities have limits in the file of --auth. Further ones are bytes-in-flight=64M, streams=8, sequences=100. What is above one is rejected
        /// (RESOURCE_EXHAUSTED, 429). Addresses count as in --max-connections-per-address.
        client_limits: String, "LIST";
        /// Milliseconds by which each step of priority moves a request in the queue of its model
        priority_step_ms: u32 = 1000, "N";
        /// Maximum number of queued requests of a model; further ones are rejected (UNAVAILABLE, 503)
        max_queued_requests: usize = 1024, "N";
        /// Maximum number of concurrent runs of a custom node; further ones wait
        max_custom_node_runs: usize = 16, "N", least: 1;
        /// Timeout in seconds for loading the custom nodes of a pipeline
        custom_node_load_seconds: u32 = 300, "N", least: 1;
        /// Maximum number of concurrent runs of a graph; further ones wait
        max_graph_runs: usize = 256, "N", least: 1;
        /// Timeout in seconds for loading a graph with its Python nodes
        graph_load_seconds: u32 = 300, "N", least: 1;
        /// Maximum number of open streams (ModelStreamInfer); further ones are rejected (UNAVAILABLE)
        max_streams: usize = 4096, "N", least: 1;
        /// Maximum number of concurrent runs of Python nodes, sleeping ones included; further ones wait
        max_python_runs: usize = 64, "N", least: 1;
        /// Maximum number of pixels of an image, checked before it is decoded
        max_image_pixels: u64 = 1 << 26, "N";
        /// Minimum milliseconds between two replacements of a compiled model after failed inferences
        recovery_interval_ms: u32 = 1000, "N";
        /// Hide the reasons of failed inferences from clients; they are still logged
        hide_inference_errors: bool = false, "BOOL";
        /// Maximum number of strings of an input
        max_string_elements: usize = 1 << 20, "N", least: 1;
        /// Maximum number of registered shared memory regions, each with an open file; further ones are
        /// rejected (RESOURCE_EXHAUSTED, 503)
        max_shared_memory_regions: usize = 1024, "N", least: 1;
        /// Timeout in seconds for the next bytes of a request
        read_timeout_seconds: u64 = 60, "N", least: 1;
        /// Timeout in seconds for a client to take 64 KiB of a response
        write_timeout_seconds: u32 = 60, "N", least: 1;
        /// Timeout in seconds for idle connections; much shorter when the limit of connections is near
        idle_timeout_seconds: u32 = 900, "N", least: 1;
        /// Minimum rate of a request body in bytes per second, after the read timeout; 0 means no
        /// minimum
        min_receive_rate: ByteSize = ByteSize(1024), "BYTES", takes_hyphen: true;
        /// Seconds that a request waits for a version that is loading
        loading_wait_seconds: u64 = 10, "N";
        /// Seconds that the response to a reload waits for retired versions to be unloaded; 0 means it
        /// does not wait
        reload_wait_seconds: u32 = 2, "N";
        /// Seconds that requests in flight may take after SIGINT or SIGTERM; a second signal exits at
        /// once
        shutdown_timeout_seconds: u64 = 30, "N";
    }
    "Instead of serving" {
        /// Check flags, files, models, pipelines and graphs, then exit
        ///
        /// Loads everything that a server would, short of compiling: reads each model, queries each
        /// device for its properties, opens all custom node libraries, and imports all handlers.
        /// The fast form, --check=syntax, reads the flags, the configuration file, the graph files, and
        /// the file of --auth only. Needs no ports. Exits with 0, with 1 on errors, or with 2 if there are only
        /// warnings or something could not be checked.
        check: CheckDepth = CheckDepth::Off, "DEPTH";
        /// List the models below --model-repository-path
        list_models: bool = false, "BOOL";
        /// Print the configuration file of what the other flags and paths would serve
        print_config: bool = false, "BOOL";
        /// Add --model-name with --model-path to the file of --config-path; created if missing
        add_to_config: bool = false, "BOOL";
        /// Remove --model-name from the file of --config-path; comments are kept
        remove_from_config: bool = false, "BOOL";
    }
    "Checked, without effect (one thread for each core serves all connections)" {
        /// Number of gRPC servers, from 1 to the number of cores
        grpc_workers: u32 = 1, "N";
        /// Most threads for gRPC; 0 means no cap [default: 8 for each core]
        grpc_max_threads: u32, "N";
        /// Most bytes of buffers for gRPC; 0 means no quota
        grpc_memory_quota: ByteSize = ByteSize(1 << 31), "BYTES", takes_hyphen: true;
        /// Number of threads for REST, from 2 to 10000 [default: one for each core]
        rest_workers: u32, "N";
    }
}

/// Returns the names of the flags that are given, as far as they are meant.
fn given(flags: &Flags, is_meant: impl Fn(&Flag) -> bool) -> Vec<&'static str> {
    let given = flags.given().into_iter();
    let meant = given.filter(|(flag, _)| is_meant(flag));
    meant.map(|(flag, _)| flag.name).collect()
}

#[cfg(test)]
mod tests;
