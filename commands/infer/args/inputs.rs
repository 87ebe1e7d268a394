//! Inputs of a request, and the conversion of images.

use ovms::client::input::{Argument, ImageLayout};

use crate::completions::{names, usual};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// Input value: JSON, @FILE, or - for standard input
    ///
    /// Datatype and shape default to the model's. Can be repeated.
    #[arg(
        short,
        long = "input",
        value_name = "[NAME[:DTYPE[:SHAPE]]=]VALUE",
        allow_negative_numbers = true,
        add = names::inputs()
    )]
    pub(in crate::infer) inputs: Vec<Argument>,

    /// Fill all other inputs with zeros
    ///
    /// Dynamic dimensions become 1.
    #[arg(long)]
    pub(in crate::infer) zeros: bool,

    /// Fill all other inputs with random values
    ///
    /// Floating-point values are in [0, 1), integers from 0 to 100. Dynamic dimensions become 1.
    #[arg(long, conflicts_with = "zeros")]
    pub(in crate::infer) random: bool,

    /// Seed of the random values
    #[arg(long, value_name = "N", requires = "random")]
    pub(in crate::infer) seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Images")]
pub(crate) struct ImageArgs {
    /// Layout of images: NCHW, NHWC, CHW or HWC
    ///
    /// Defaults to that of the model's shape: the dimension of size 3 or 1 is the channels.
    #[arg(long, add = usual(&["NCHW", "NHWC", "CHW", "HWC"]))]
    pub(in crate::infer) layout: Option<ImageLayout>,

    /// Mean to subtract from the values, which are 0 to 255: one number, or one per channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(in crate::infer) mean: Vec<f64>,

    /// Scale to divide the values by after that: one number, or one per channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(in crate::infer) scale: Vec<f64>,

    /// Send channels as BGR; means and scales follow this order
    #[arg(long)]
    pub(in crate::infer) bgr: bool,
}
