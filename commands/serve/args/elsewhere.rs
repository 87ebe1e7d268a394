//! Flags of other servers, with what is written here in place of them.

use crate::spelling::hyphenated;

/// Returns what is written here for a flag of other servers.
pub(super) fn elsewhere(name: &str) -> Option<&'static str> {
    match hyphenated(name).as_str() {
        "model" => Some("`ovms serve PATH` or `--model-path PATH` names a model"),
        "name" => Some("`--model-name NAME` names a model for its clients"),
        "device" | "gpu" => Some("`--target-device GPU` chooses the device of the models"),
        "threads" | "num-threads" | "workers" => Some(
            "`--plugin-config '{\"INFERENCE_NUM_THREADS\": 4}'` bounds the threads of a model; requests need none to be set",
        ),
        "daemon" | "detach" | "background" => Some(
            "a server stays in the foreground; docs/deployment.md has a service for systemd, and containers",
        ),
        "model-repository" | "model-store" => {
            Some("`--model-repository-path DIR` names a folder of models")
        }
        "num-streams" | "streams" | "instance-group" | "instances" => Some(
            "`--plugin-config '{\"NUM_STREAMS\": 2}'` sets how many inferences of a model run in parallel",
        ),
        "grpc-port" => Some("`--port` is the gRPC port"),
        "http-port" => Some("`--rest-port` is the REST port"),
        "host" | "bind-address" | "http-address" | "grpc-address" => {
            Some("`--grpc-bind-address` and `--rest-bind-address` choose addresses")
        }
        "metrics-address" => Some("`--management-bind-address` is for metrics on a separate port"),
        "grpc-use-ssl" | "grpc-server-cert" | "grpc-server-key" => {
            Some("`--tls-cert` and `--tls-key` are for both ports")
        }
        "grpc-use-ssl-mutual" | "grpc-root-cert" => {
            Some("`--tls-client-ca` is for certificates of clients")
        }
        "http-restricted-api" | "grpc-restricted-protocol" => {
            Some("`--auth FILE` says what each client may do")
        }
        "trace-config" | "trace-file" | "trace-rate" | "trace-level" => Some(
            "`--otlp-endpoint URL` sends traces to a collector, and `OTEL_TRACES_SAMPLER` says of which requests",
        ),
        "idle-timeout" => Some(
            "`--idle-timeout-seconds` is for connections; idle sequences have `--sequence-cleaner-poll-wait-minutes`",
        ),
        "sequence-idle-timeout"
        | "sequence-idle-timeout-seconds"
        | "sequence-timeout"
        | "sequence-timeout-seconds"
        | "idle-sequence-timeout"
        | "max-sequence-idle-microseconds" => Some(
            "`--sequence-cleaner-poll-wait-minutes N` is for idle sequences, which end after N to 2 N minutes",
        ),
        "exit-timeout-secs" => Some("`--shutdown-timeout-seconds` bounds the wait for requests"),
        "log-file" => Some("`--log-path FILE` sets the log file"),
        "repository-poll-secs" => {
            Some("`--file-system-poll-wait-seconds` sets how often folders are checked")
        }
        "load-model" => Some("all models of a folder or of a configuration file are loaded"),
        "allow-metrics" | "metrics-port" => Some(
            "`--metrics-enable` exposes metrics at `/metrics` of the REST port, and `--management-port` on a \
             separate port",
        ),
        "model-control-mode" => Some(
            "folders and files are watched, see `--file-system-poll-wait-seconds`; with 0, only `POST \
             /v1/config/reload` checks them",
        ),
        "strict-readiness" | "exit-on-error" => Some(
            "a server is ready even if a model has failed, but `/v2/models/NAME/ready` of that model is not; `ovms \
             serve --check` finds it before the start",
        ),
        "strict-model-config" | "disable-auto-complete-config" => {
            Some("inputs and outputs are always those of the model file")
        }
        "rate-limit" | "rate-limit-resource" => {
            Some("models are not scheduled by resources; `--auth FILE` has limits of clients")
        }
        "http-thread-count"
        | "model-load-thread-count"
        | "backend-directory"
        | "backend-config"
        | "cache-config"
        | "response-cache-byte-size"
        | "pinned-memory-pool-byte-size"
        | "cuda-memory-pool-byte-size"
        | "grpc-infer-allocation-pool-size"
        | "buffer-manager-thread-count"
        | "enable-peer-access"
        | "allow-http"
        | "allow-grpc" => Some(
            "it is neither there nor needed; docs/triton.md lists the flags of Triton with their counterparts",
        ),
        "http-max-input-size" => Some("`--max-message-size BYTES` bounds messages and bodies"),
        "allow-sagemaker" | "sagemaker-port" | "allow-vertex-ai" | "vertex-ai-port" => Some(
            "the APIs of these clouds are not supported; `--rest-port` serves those of KServe and TensorFlow Serving",
        ),
        "metrics-config" => Some("`--metrics-list` names the metrics to show"),
        "log-verbose" | "verbose" | "debug" => {
            Some("`--log-level DEBUG` logs more, and so does TRACE")
        }
        "log-info" | "log-warning" | "log-error" => Some(
            "`--log-level LEVEL` logs that level and above: TRACE, DEBUG, INFO, WARNING, or ERROR",
        ),
        "id" | "server-id" => Some("servers have no names; omit it, or name replicas in the proxy"),
        "grpc-keepalive-time" | "grpc-keepalive-timeout" => Some(
            "`--grpc-channel-arguments grpc.keepalive_time_ms=60000,grpc.keepalive_timeout_ms=20000` detects dead \
             peers; these are the defaults",
        ),
        "grpc-max-connection-age" | "grpc-max-connection-age-grace" => Some(
            "`--grpc-channel-arguments grpc.max_connection_age_ms=N` limits the age of gRPC connections",
        ),
        "grpc-keepalive-permit-without-calls"
        | "grpc-http2-max-pings-without-data"
        | "grpc-http2-min-recv-ping-interval-without-data"
        | "grpc-http2-max-ping-strikes" => Some(
            "it is not supported; `--idle-timeout-seconds` closes connections without requests",
        ),
        "reuse-grpc-port" | "reuse-http-port" => Some(
            "servers cannot share a port; run several behind a proxy, each with its own ports or \
             `--grpc-unix-socket`, see docs/scaling.md",
        ),
        "metrics-interval-ms" | "allow-cpu-metrics" | "allow-gpu-metrics" => {
            Some("metrics are computed on request, and cover this server alone")
        }
        "host-policy" => Some(
            "`--plugin-config '{\"INFERENCE_NUM_THREADS\": 4}'` bounds the threads of a model; `taskset` and `numactl` \
             choose cores for the server",
        ),
        "model-namespacing" => {
            Some("all repositories share one namespace; a duplicate name is an error")
        }
        "http-header-forward-pattern" | "grpc-header-forward-pattern" => Some(
            "headers of requests are not passed to models; send what a model needs as an input or a parameter",
        ),
        "model-load-retry-count" | "model-load-gpu-limit" => Some(
            "it is neither there nor needed: a model that fails to load is retried automatically",
        ),
        "min-supported-compute-capability" => Some(
            "it is for NVIDIA's GPUs; `--target-device` chooses among CPU, GPU, NPU, and AUTO here",
        ),
        "grpc-infer-response-compression-level" => {
            Some("gRPC responses are not compressed; `tritonclient` works without")
        }
        "python-workers" => Some(
            "`python_workers` is a key of a graph's entry in `mediapipe_config_list`, or an option of its node; see \
             docs/graphs.md",
        ),
        "api-key" | "api-keys" => {
            Some("`--auth FILE` names clients with keys and rights; `ovms key new` makes one")
        }
        _ => None,
    }
}
