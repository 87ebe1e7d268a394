//! Settings of the C++ server's network libraries, which this server does not have.

/// Flags that are accepted for the sake of start scripts.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    next_help_heading = "Checked, without effect (one thread for each core serves all connections)"
)]
pub(in crate::serve) struct Args {
    /// Number of gRPC servers, from 1 to the number of cores
    #[arg(long = "grpc_workers", value_name = "N", default_value_t = 1)]
    pub(super) grpc_workers: u32,
    /// Most threads for gRPC; 0 means no cap [default: 8 for each core]
    #[arg(long = "grpc_max_threads", value_name = "N")]
    pub(super) grpc_max_threads: Option<u32>,
    /// Most bytes of buffers for gRPC; 0 means no quota
    #[arg(
        long = "grpc_memory_quota",
        value_name = "BYTES",
        default_value_t = 1 << 31
    )]
    pub(super) grpc_memory_quota: u64,
    /// Number of threads for REST, from 2 to 10000 [default: one for each core]
    #[arg(long = "rest_workers", value_name = "N")]
    pub(super) rest_workers: Option<u32>,
}
