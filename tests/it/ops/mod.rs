//! Operation of a server: checks, logs, metrics, the dashboard, start and stop.

mod config_schema;
mod dashboard;
mod http_logs;
mod identities;
mod metrics;
mod quotas;
mod sheets;
mod shutdown;
mod start_errors;
mod tls;
mod tls_errors;
mod traces;
mod traces_export;
mod traces_settings;
mod unix_sockets;

/// Path of inferences of the model `dummy`.
const INFER: &str = "/v2/models/dummy/infer";

/// A valid request for it.
const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;
