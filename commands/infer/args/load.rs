//! Flags for many requests instead of one.

use std::time::Duration;

use clap::ArgGroup;

use crate::infer::duration::duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
#[command(group = ArgGroup::new("load").args(["repeat", "duration"]).multiple(true))]
pub(in crate::infer) struct LoadArgs {
    /// Send the request N times and measure latencies
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["save", "top"]
    )]
    pub(in crate::infer) repeat: Option<u64>,

    /// Send the request repeatedly for this long, such as 10s, and measure latencies
    ///
    /// With --repeat, whichever ends first.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["save", "top"])]
    pub(in crate::infer) duration: Option<Duration>,

    /// Number of concurrent requests [default: 1]
    #[arg(
        long,
        value_name = "C",
        value_parser = clap::value_parser!(u16).range(1..),
        requires = "load"
    )]
    pub(in crate::infer) concurrency: Option<u16>,

    /// Number of warm-up requests, which are not measured
    #[arg(long, value_name = "N", requires = "load")]
    pub(in crate::infer) warmup: Option<u64>,
}
