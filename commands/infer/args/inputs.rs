//! What goes into a request, and how pictures do.

use ovms::client::input::{Argument, ImageLayout};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// Give an input: JSON, @FILE, or - for standard input
    ///
    /// Datatype and shape are the model's unless they are given. Can be repeated.
    #[arg(
        short,
        long = "input",
        value_name = "[NAME[:DTYPE[:SHAPE]]=]VALUE",
        allow_negative_numbers = true
    )]
    pub(in crate::infer) inputs: Vec<Argument>,

    /// Fill the inputs not given with zeros
    ///
    /// A dimension that may vary is 1.
    #[arg(long)]
    pub(in crate::infer) zeros: bool,

    /// Fill the inputs not given with random values
    ///
    /// Numbers with a fraction are from 0 up to 1, whole numbers from 0 to 100. A dimension that
    /// may vary is 1.
    #[arg(long, conflicts_with = "zeros")]
    pub(in crate::infer) random: bool,

    /// Make the random values the same each time
    #[arg(long, value_name = "N", requires = "random")]
    pub(in crate::infer) seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pictures")]
pub(crate) struct ImageArgs {
    /// Lay pictures out as NCHW, NHWC, CHW or HWC
    ///
    /// Told by the model's shape if left out: the dimension of length 3 or 1 is the channels.
    #[arg(long)]
    pub(in crate::infer) layout: Option<ImageLayout>,

    /// Subtract this from the values, which are 0 to 255: one number, or one for each channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(in crate::infer) mean: Vec<f64>,

    /// Divide the values by this after that: one number, or one for each channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(in crate::infer) scale: Vec<f64>,

    /// Send blue first and red last; means and scales follow this order
    #[arg(long)]
    pub(in crate::infer) bgr: bool,
}
