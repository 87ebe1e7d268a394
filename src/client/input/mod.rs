//! Inputs as people give them: values in JSON, files, images, or nothing at all.
//!
//! An [`Argument`] is read from its text without a server. [`Inputs::load`] reads the files, and
//! [`Inputs::tensors`] makes tensors of them once the model's inputs are known: datatype and
//! shape come from there unless the argument has its own.

mod argument;
mod assemble;
mod audio;
mod content;
mod convert;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod image;
mod line;
mod pattern;
mod piped;
mod remark;
mod table;
mod target;

pub use argument::{Argument, ArgumentError, ElementSource};
pub use assemble::{InputTurn, Inputs, MAX_OF_FILES, WholeInput, samples_of_a_step};
pub use audio::{SampleForm, SampleRest, SoundCut, SoundError, SoundForm, SoundStream};
pub use content::FileKind;
pub use convert::Fill;
pub use error::{InputError, ValueProblem};
pub use image::{ImageLayout, ImageOptions};
pub use line::{LineProblem, RequestLine};
pub use piped::PipedProblem;
pub use remark::{DtypeConversion, InputRemark};
