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
