//! `ovms infer`
use crate::error::Failure;
/// x
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_args: Args) -> Result<(), Failure> { Ok(()) }
