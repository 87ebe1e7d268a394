//! The table of all flags of `ovms serve`. A row has the words of the help, the name, the type, the
//! default (without one the flag is an `Option`), the name of the value, and what else is not as with
//! most flags, by the fields of [`Flag`]. The command line, the keys of models that are flags, and the
//! schema and tables of the manual are made of it or held against it.

mod channel_arguments;
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
        /// Model file, or folder with one model or its versions
        model_path: PathBuf, "PATH";
        /// Folder with one folder per model
        ///
        /// Models that are added to it are served, and removed ones retired.
        model_repository_path: PathBuf, "DIR";
        /// Serve the built-in example, a classifier of drawn shapes
        ///
        /// Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).
        demo: bool = false, "BOOL";
        /// Batch size: a number, a range (1:8), -1 for any, or auto
        ///
        /// With auto, each request sets the batch size. Ignored when --shape is given.
        batch_size: String, "SIZE", takes_hyphen: true, scope: Model, own_form: true;
        /// Input shape, such as '(1,3,224,224)', or auto
        ///
        /// A dimension can be a range, or -1 for any size: '(1:8,3,-1,-1)'. With auto, each request
        /// sets the shape. A JSON object has shapes by input name.
        shape: String, "SHAPE", scope: Model, own_form: true;
        /// Input layout, such as NHWC or NHWC:NCHW
        ///
        /// With NHWC:NCHW, clients send NHWC to a model in NCHW. A JSON object has layouts by input
        /// and output name.
        layout: String, "LAYOUT", scope: ModelIgnored, own_form: true;
        /// Mean to subtract from the input: one number, or per channel
        ///
        /// Such as 123.7 or '(123.7,116.8,103.9)'. Needs --layout; for models with one input.
        mean: String, "NUMBERS", takes_hyphen: true, scope: ModelIgnored, own_form: true;
        /// Scale to divide the input by: one number, or per channel
        ///
        /// Such as 58.4 or '(58.4,57.1,57.4)'. Needs --layout; for models with one input.
        scale: String, "NUMBERS", takes_hyphen: true, scope: ModelIgnored, own_form: true;
        /// Color formats of model and requests, such as RGB:BGR
        ///
        /// With RGB:BGR, clients send BGR to a model in RGB. Formats are RGB, BGR, GRAY, NV12,
        /// NV12_2, I420, and I420_3. Needs --layout; for models with one input.
        color_format: String, "FORMAT", scope: ModelIgnored, own_form: true;
        /// Element types of model and requests, such as fp32:uint8
        ///
        /// With fp32:uint8, clients send bytes to a model of floats. Types are fp64, fp32, fp16,
        /// bf16, int8 to int64, uint1, and uint8 to uint64. Needs --layout; for models with one
        /// input.
        precision: String, "TYPE", scope: ModelIgnored, own_form: true;
        /// Versions to serve, as a JSON object [default: the latest one]
        ///
        /// One of '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}', and
        /// '{"all":{}}'.
        model_version_policy: String, "JSON", scope: Model, own_form: true;
        /// Number of infer requests; 0 lets the device choose
        ///
        /// Each runs one inference at a time.
        nireq: u32 = 0, "N", scope: Model;
        /// Timeout of an inference in milliseconds; 0 disables it
        ///
        /// The client gets an error, and a compiled model that does not return is replaced.
        inference_timeout_ms: u32 = 0, "N", scope: AllModels;
        /// Run queued requests as batches: off, auto, or JSON [default: off]
        ///
        /// With auto, the server measures while loading which batch sizes raise the throughput, and
        /// uses those. JSON sets the limits: '{"max_batch":8,"max_delay_us":500}'.
        dynamic_batching: String, "MODE", scope: ModelIgnored, own_form: true;
        /// Device to run on, such as CPU, GPU, AUTO [default: CPU]
        target_device: String, "DEVICE", scope: Model;
        /// Device properties as JSON, such as '{"NUM_STREAMS":2}'
        plugin_config: String, "JSON", scope: Model, own_form: true;
    }
    "Stateful model" {
        /// Keep the model's state between the requests of a sequence
        stateful: bool = false, "BOOL", scope: ModelIgnored;
        /// Remove idle sequences; needs --stateful [default: true]
        idle_sequence_cleanup: bool, "BOOL", scope: ModelIgnored;
        /// Apply the low-latency transformation; needs --stateful [default: false]
        low_latency_transformation: bool, "BOOL", scope: ModelIgnored;
        /// Choose how to keep states; needs --stateful [default: tensors]
        ///
        /// As tensors, or in an infer request for each sequence (requests).
        state_mode: StateMode, "MODE", scope: ModelIgnored;
        /// Maximum steps per inference; needs --stateful [default: 1]
        ///
        /// Steps of different sequences run together as one inference.
        sequence_batch: u32, "N", least: 1, scope: ModelIgnored;
        /// Maximum number of sequences; needs --stateful [default: 500]
        max_sequence_number: u32, "N", scope: ModelIgnored, own_form: true;
        /// Seconds for sequences to finish; needs --stateful [default: 0]
        ///
        /// When their version is reloaded or retired, or the server stops, sequences may continue
        /// for this long.
        drain_sequences_seconds: u32, "N", scope: ModelIgnored;
        /// Minutes between scans for idle sequences; 0 disables them
        sequence_cleaner_poll_wait_minutes: u32 = 5, "N";
        /// Store for sequences: redis://HOST[:PORT] or file:///FOLDER
        ///
        /// It keeps them across restarts and shares them with other servers. Use rediss:// for TLS.
        sequence_store: String, "URL";
        /// Choose when to store states; needs --sequence-store [default: interval]
        ///
        /// Before each answer (step), at intervals, or only when another server takes over or this
        /// one stops (none).
        sequence_durability: SequenceDurability, "MODE";
        /// Interval in milliseconds at which changed states are stored
        sequence_store_interval_ms: u32 = 1000, "N", least: 1;
        /// Milliseconds that a request waits for the store
        sequence_store_timeout_ms: u32 = 10_000, "N", least: 1;
    }
    "Configuration file" {
        /// Configuration file (JSON) with the models to serve
        ///
        /// Instead of --model-name and --model-path. Pipelines and graphs are listed there as well.
        config_path: PathBuf, "FILE";
        /// Seconds between checks for changed files; 0 disables them
        ///
        /// Of the configuration file and the version folders. With 0, only POST /v1/config/reload
        /// checks them.
        file_system_poll_wait_seconds: u32 = 1, "N";
        /// Seconds between cleanups of custom nodes; 0 disables them
        custom_node_resources_cleaner_interval_seconds: u32 = 300, "N";
    }
    "Runtime" {
        /// Cache folder for compiled models, for a faster start [default: /opt/cache if there is
        /// such a folder]
        ///
        /// Created if missing.
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
        /// Unix socket for gRPC, with or without --port
        ///
        /// Created at the start, and removed at the end.
        grpc_unix_socket: PathBuf, "PATH";
        /// Unix socket for REST, with or without --rest-port
        ///
        /// Created at the start, and removed at the end.
        rest_unix_socket: PathBuf, "PATH";
        /// Permission bits of the Unix sockets, in octal [default: 0600]
        ///
        /// Anyone who may write to a socket may use the server.
        unix_socket_mode: String, "MODE";
        /// gRPC channel arguments: KEY=VALUE, separated by commas
        ///
        /// By their names in gRPC C++, such as
        /// grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000. Unsupported ones are
        /// logged.
        grpc_channel_arguments: String, "LIST";
        /// Maximum number of concurrent streams of a gRPC connection [default: 128]
        grpc_max_concurrent_streams: u32, "N", least: 1;
        /// Disable the web dashboard
        no_dashboard: bool = false, "BOOL";
    }
    "TLS" {
        /// Server certificate chain (PEM); enables TLS
        ///
        /// Reloaded when the file changes. Unix sockets have no TLS.
        tls_cert: PathBuf, "FILE";
        /// Private key of --tls-cert (PEM)
        tls_key: PathBuf, "FILE";
        /// TLS on the gRPC port [default: with --tls-cert, unless --rest-tls is given alone]
        grpc_tls: bool, "BOOL";
        /// TLS on the REST port [default: with --tls-cert, unless --grpc-tls is given alone]
        rest_tls: bool, "BOOL";
        /// TLS on the management port as well
        management_tls: bool = false, "BOOL";
        /// CA certificates (PEM) that client certificates must chain to
        tls_client_ca: PathBuf, "FILE";
        /// Client certificates: off, optional, or required [default: required with --tls-client-ca]
        ///
        /// Needs --tls-client-ca.
        tls_client_auth: ClientAuth, "MODE";
        /// Minimum TLS version
        tls_min_version: TlsVersion = TlsVersion::V12, "VERSION";
        /// Seconds between checks of the TLS files; 0 disables them
        tls_poll_wait_seconds: u32 = 5, "N";
        /// TLS handshake timeout in seconds
        tls_handshake_timeout_seconds: u32 = 10, "N", least: 1;
        /// Maximum concurrent TLS handshakes per port; others wait
        max_tls_handshakes: usize = 256, "N", least: 1;
    }
    "Access" {
        /// Allow cross-origin requests with credentials
        allow_credentials: bool = false, "BOOL";
        /// Access-Control-Allow-Origin of responses; empty omits it
        ///
        /// Responses of management paths have none of these headers.
        allowed_origins: String = "*".to_owned(), "TEXT";
        /// Access-Control-Allow-Methods of responses; empty omits it
        allowed_methods: String = "*".to_owned(), "TEXT";
        /// Access-Control-Allow-Headers of responses; empty omits it
        allowed_headers: String = "*".to_owned(), "TEXT";
        /// Host names at which browsers may use management pages [default: loopback names and the
        /// bound addresses]
        ///
        /// Separated by commas; * allows any name, and 0.0.0.0 any numeric address. For browsers,
        /// /, /dashboard, /metrics, /v1/config, and all paths below them are restricted to these
        /// names and to pages of the server itself. Requests without Origin and Sec-Fetch-Site do
        /// not count as a browser's.
        allowed_hosts: String, "LIST";
        /// File of identities, their credentials, and rights (TOML) [default: anyone may do
        /// anything]
        ///
        /// Credentials are API keys, tokens (JWT), and certificates. The file is reloaded when it
        /// changes. `ovms key new` makes a key.
        auth: PathBuf, "FILE";
        /// File with the API key for /v3; see --auth for other paths
        ///
        /// The key is its first line.
        api_key_file: PathBuf, "FILE";
        /// Let clients register shared memory under PREFIX [default: none]
        ///
        /// Keys of system shared memory must begin with PREFIX, such as /ovms_; / allows any key.
        /// They name objects in /dev/shm, which the server reads and writes with its own rights.
        shared_memory: String, "PREFIX";
        /// Folder of local files that requests to /v3 may refer to [default: none]
        allowed_local_media_path: PathBuf, "DIR";
    }
    "Log" {
        /// Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR
        log_level: String = "INFO".to_owned(), "LEVEL";
        /// Log file, in addition to stdout
        log_path: PathBuf, "FILE";
        /// Log format: text, or one JSON object per line
        log_format: LogFormat = LogFormat::Text, "FORMAT";
        /// Access log file, one line per request; - is stdout [default: none]
        access_log: AccessLogTarget, "FILE", takes_hyphen: true;
        /// Audit log file for management requests; - is stdout [default: none]
        ///
        /// It has one JSON object for each request that reloads, saves or restores sequences,
        /// registers shared memory, or controls models.
        audit_log: PathBuf, "FILE", takes_hyphen: true;
    }
    "Metrics" {
        /// Expose Prometheus metrics at /metrics of the REST port
        metrics_enable: bool = false, "BOOL";
        /// Metric families to expose, separated by commas [default: the usual ones]
        ///
        /// Needs --metrics-enable.
        metrics_list: String, "LIST";
    }
    "Traces" {
        /// URL of an OpenTelemetry collector to send traces to [default:
        /// OTEL_EXPORTER_OTLP_ENDPOINT, else none]
        ///
        /// Such as http://collector:4317. Over gRPC, or over HTTP if OTEL_EXPORTER_OTLP_PROTOCOL is
        /// http/protobuf or the port is 4318. The OTEL variables set everything else, such as
        /// OTEL_TRACES_SAMPLER.
        otlp_endpoint: String, "URL";
        /// Seconds to flush queued spans at shutdown
        otlp_flush_seconds: u32 = 5, "N";
    }
    "Python nodes" {
        /// Virtual environment with the packages of Python nodes [default: the active one]
        python_environment: PathBuf, "DIR";
        /// Hide exceptions of Python nodes from clients
        ///
        /// They are still logged.
        hide_python_errors: bool = false, "BOOL";
    }
    "Limits" {
        /// Maximum size of a message or body: bytes, or 64K, 64M, 1G
        ///
        /// Applies to both the compressed and the decompressed size.
        max_message_size: ByteSize = ByteSize(1 << 30), "BYTES", takes_hyphen: true;
        /// Maximum bytes of all requests and responses in flight [default: a quarter of the memory]
        ///
        /// As received, decompressed, decoded, and queued. Further requests are rejected
        /// (RESOURCE_EXHAUSTED, 503).
        max_bytes_in_flight: ByteSize, "BYTES", least: 1, takes_hyphen: true;
        /// Maximum connections per port; further ones wait
        ///
        /// Idle connections are closed to make room for them.
        max_connections: usize = 4096, "N", least: 1;
        /// Maximum connections per client address; 0 means no limit
        ///
        /// Further ones are closed. A /64 network of IPv6 counts as one address, and so does each
        /// user of a Unix socket. Clients behind a proxy share its address.
        max_connections_per_address: usize = 0, "N";
        /// Limits per client address, such as requests-per-second=100 [default: none]
        ///
        /// Separated by commas: requests-per-second=100, burst=200, concurrent-requests=16,
        /// bytes-in-flight=64M, streams=8, sequences=100. Requests above a limit are rejected
        /// (RESOURCE_EXHAUSTED, 429). With --auth, these are the limits of requests without an
        /// identity; its file has those of identities. See --max-connections-per-address for what
        /// counts as one address.
        client_limits: String, "LIST";
        /// Milliseconds that one step of priority is worth in a queue
        ///
        /// Each step moves a request that much forward in the queue of its model.
        priority_step_ms: u32 = 1000, "N";
        /// Maximum queued requests per model; further ones are rejected
        ///
        /// With UNAVAILABLE (503).
        max_queued_requests: usize = 1024, "N";
        /// Maximum concurrent runs of a custom node; others wait
        max_custom_node_runs: usize = 16, "N", least: 1;
        /// Timeout in seconds for loading a pipeline's custom nodes
        custom_node_load_seconds: u32 = 300, "N", least: 1;
        /// Maximum concurrent runs of a graph; others wait
        max_graph_runs: usize = 256, "N", least: 1;
        /// Timeout in seconds for loading a graph with its Python nodes
        graph_load_seconds: u32 = 300, "N", least: 1;
        /// Maximum open streams; further ones are rejected
        ///
        /// Streams of ModelStreamInfer; rejected with UNAVAILABLE.
        max_streams: usize = 4096, "N", least: 1;
        /// Maximum concurrent runs of Python nodes; others wait
        ///
        /// Of one graph or pipeline; those that sleep count as well.
        max_python_runs: usize = 64, "N", least: 1;
        /// Maximum pixels of an image, checked before it is decoded
        max_image_pixels: u64 = 1 << 26, "N";
        /// Minimum milliseconds between two recoveries of a model
        ///
        /// A recovery replaces a compiled model after failed inferences.
        recovery_interval_ms: u32 = 1000, "N";
        /// Hide the reasons of failed inferences from clients
        ///
        /// They are still logged.
        hide_inference_errors: bool = false, "BOOL";
        /// Maximum number of strings in an input
        max_string_elements: usize = 1 << 20, "N", least: 1;
        /// Maximum number of registered shared memory regions
        ///
        /// Each holds a file open. Further ones are rejected (RESOURCE_EXHAUSTED, 503).
        max_shared_memory_regions: usize = 1024, "N", least: 1;
        /// Timeout in seconds for the next bytes of a request
        read_timeout_seconds: u64 = 60, "N", least: 1;
        /// Timeout in seconds for a client to take 64 KiB of a response
        write_timeout_seconds: u32 = 60, "N", least: 1;
        /// Timeout in seconds for idle connections
        ///
        /// Much shorter when the limit of connections is near.
        idle_timeout_seconds: u32 = 900, "N", least: 1;
        /// Minimum bytes per second of a request body; 0 disables it
        ///
        /// Checked once a body takes longer than --read-timeout-seconds.
        min_receive_rate: ByteSize = ByteSize(1024), "BYTES", takes_hyphen: true;
        /// Seconds that a request waits for a version that is loading
        loading_wait_seconds: u64 = 10, "N";
        /// Seconds that a reload waits for retired versions to unload
        ///
        /// With 0, the response is sent at once.
        reload_wait_seconds: u32 = 2, "N";
        /// Seconds that requests in flight may take at shutdown
        ///
        /// After SIGINT or SIGTERM; a second signal exits at once.
        shutdown_timeout_seconds: u64 = 30, "N";
    }
    "Instead of serving" {
        /// Check flags, files, models, pipelines and graphs, then exit
        ///
        /// Loads everything that a server would, short of compiling: reads each model, queries each
        /// device for its properties, opens all custom node libraries, and imports all handlers.
        /// --check=syntax is faster: it reads only the flags, the configuration file, the graph
        /// files, and the file of --auth. Needs no ports. Exits with 0, with 1 on errors, or with 2
        /// if there are only warnings or something could not be checked.
        check: CheckDepth = CheckDepth::Off, "DEPTH";
        /// List the models below --model-repository-path
        list_models: bool = false, "BOOL";
        /// Print a configuration file for the other flags and paths
        print_config: bool = false, "BOOL";
        /// Add --model-name and --model-path to --config-path
        ///
        /// The file is created if missing.
        add_to_config: bool = false, "BOOL";
        /// Remove --model-name from --config-path
        ///
        /// Comments in the file are kept.
        remove_from_config: bool = false, "BOOL";
    }
    "Checked, without effect (one thread per core serves all connections)" {
        /// Number of gRPC servers, from 1 to the number of cores
        grpc_workers: u32 = 1, "N";
        /// Maximum number of gRPC threads; 0 means no limit [default: 8 for each core]
        grpc_max_threads: u32, "N";
        /// Maximum bytes of gRPC buffers; 0 means no limit
        grpc_memory_quota: ByteSize = ByteSize(1 << 31), "BYTES", takes_hyphen: true;
        /// Number of REST threads, from 2 to 10000 [default: one for each core]
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
