//! Errors of inputs that a model does not take as given.

use std::path::PathBuf;

use super::{PipedProblem, SoundError};
use crate::{
    client::{BoxError, message::TensorMetadata},
    tensor::{DataType, PartialShape, TensorError, images::DecodeError, values::ValueError},
};

/// Error of making tensors of the given inputs.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file, or standard input, cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BoxError,
    },
    /// A sound is not read.
    #[error("cannot read {}", path.display())]
    Sound {
        /// The file, or standard input.
        path: PathBuf,
        /// The reason.
        #[source]
        problem: SoundError,
    },
    /// A pattern of files that no file matches.
    #[error("no file matches `{0}`")]
    NoMatch(String),
    /// A pattern that matches more files than a request may have.
    #[error("more than {most} files match `{pattern}`")]
    TooManyFiles {
        /// The pattern.
        pattern: String,
        /// The most.
        most: usize,
    },
    /// A pattern of files that cannot be read as one.
    #[error("cannot use the pattern `{pattern}`")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        source: glob::PatternError,
    },
    /// Two inputs are to come from standard input.
    #[error("found `-` for two inputs, standard input can be read once")]
    StdinTwice,
    /// Standard input has nothing.
    #[error("standard input is empty")]
    StdinEmpty,
    /// Files that are read together have more bytes than their limit.
    #[error("the files have more than {} MiB together", .0 >> 20)]
    FileSize(u64),
    /// Inputs of which several values are sent one after the other have different numbers of them.
    #[error("found {} for input `{}` and {} for input `{}`", values(first.1), first.0, values(other.1), other.0)]
    Turns {
        /// One input, and the number of its values.
        first: (String, usize),
        /// Another one.
        other: (String, usize),
    },
    /// A sound has another sampling rate than the model takes.
    #[error("{place} has {found} Hz, expected {expected} Hz as the model takes")]
    SampleRate {
        /// The file, or the sound.
        place: String,
        /// The rate of the sound in Hz.
        found: u32,
        /// The rate of the model in Hz.
        expected: u32,
    },
    /// Standard input is longer than what is read.
    #[error("standard input is longer than {} GiB", .0 >> 30)]
    StdinSize(u64),
    /// Standard input is no text.
    #[error("standard input is neither text nor a .npy, .npz, .png, .jpg or .wav file")]
    StdinBytes,
    /// Standard input is an image of a format that is not read.
    #[error("standard input is {0}, whose format is not read, expected a PNG or JPEG image")]
    StdinImage(&'static str),
    /// An answer of another command cannot be used.
    #[error("cannot use the answer of {place}")]
    Answer {
        /// The file, or standard input.
        place: String,
        /// The reason.
        #[source]
        problem: PipedProblem,
    },
    /// An output of an answer, or an array of an archive, is asked for that is not there.
    #[error("{place} has no {kind} `{name}`")]
    NoOutput {
        /// The file, or standard input.
        place: String,
        /// Noun of what it has: an output or an array.
        kind: &'static str,
        /// The name of the output.
        name: String,
        /// The names of those that are there; none if it is no answer.
        known: Vec<String>,
    },
    /// A value without a name for a model with several inputs, or none.
    #[error("found a value without a name, the model has {} inputs", known.len())]
    Nameless {
        /// The names of the model's inputs.
        known: Vec<String>,
    },
    /// A name that the model does not have.
    #[error("the model has no input `{name}`")]
    Unknown {
        /// The name as given.
        name: String,
        /// The names of the model's inputs.
        known: Vec<String>,
    },
    /// An input given more than once.
    #[error("found input `{0}` twice")]
    Twice(String),
    /// Inputs without a value.
    #[error("found no value for {}", names(missing))]
    Missing {
        /// The inputs.
        missing: Vec<TensorMetadata>,
    },
    /// A value that cannot be an element of the input.
    #[error("cannot use the value given for input `{name}`")]
    Value {
        /// The name of the input.
        name: String,
        /// The reason.
        #[source]
        problem: ValueProblem,
    },
}

/// Error of converting a value to a tensor of an input.
#[derive(Debug, thiserror::Error)]
pub enum ValueProblem {
    /// Neither the server nor the argument gives the datatype.
    #[error("its datatype is unknown")]
    NoDatatype,
    /// The JSON is broken or of other values.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Standard input as a whole is no JSON.
    #[error(transparent)]
    Piped(serde_json::Error),
    /// A value does not fit the datatype.
    #[error(transparent)]
    Element(#[from] ValueError),
    /// A value does not fit the datatype or shape, for a reason that the text has.
    #[error("{0}")]
    Misfit(String),
    /// An element of an array has no place in the datatype of the input.
    #[error("{value} of {found} does not fit {expected}")]
    Range {
        /// The first such element.
        value: String,
        /// The type of the array.
        found: DataType,
        /// The datatype of the input.
        expected: DataType,
    },
    /// An array is of a type of another kind.
    #[error("found elements of {found}, expected {expected}")]
    Dtype {
        /// The type of the array.
        found: DataType,
        /// The datatype of the input.
        expected: DataType,
    },
    /// The shape allows several ways to arrange the elements, or none.
    #[error("cannot tell how to fill shape {shape} with {}", elements(*count))]
    Shape {
        /// The elements given.
        count: usize,
        /// The shape of the input.
        shape: PartialShape,
    },
    /// The tensor would be too large.
    #[error(transparent)]
    Size(#[from] TensorError),
    /// An answer has several outputs and none of the input's name.
    #[error("found the outputs {}, none of the input's name", .0.join(", "))]
    Outputs(Vec<String>),
    /// Error message of the preceding command.
    #[error("the previous command failed: {0}")]
    Upstream(String),
    /// Top scores of a response.
    #[error("found a ranking, expected an answer with outputs")]
    Ranking,
    /// An image cannot be decoded.
    #[error("cannot decode {file}{}", of_batch(place.as_deref()))]
    Image {
        /// The file.
        file: String,
        /// Number of the image in its batch, from 1 on, and how many there are.
        place: Option<Box<(usize, usize)>>,
        /// The reason.
        source: DecodeError,
    },
    /// An image is larger than what is decoded.
    #[error("{file} has {width}x{height} pixels, expected {most} at most")]
    Pixels {
        /// The file.
        file: String,
        /// Width of the image.
        width: u32,
        /// Height of the image.
        height: u32,
        /// Maximum number of pixels.
        most: u64,
    },
    /// The layout of an image does not fit the shape, or the shape shows none.
    #[error("{0}")]
    Layout(String),
    /// An input whose shape is none of images.
    #[error("cannot tell the layout of an image from shape {0}")]
    NotOfImages(PartialShape),
    /// Images of a batch are of several sizes, or the model takes one image.
    #[error("{0}")]
    Batch(String),
    /// A text that is the name of a file.
    #[error("found the text `{0}`, which is the name of a file")]
    FileName(String),
    /// A sound of another length than the model takes at once.
    #[error("{0}")]
    Sound(String),
    /// A sound for a model that takes any number of samples at once.
    #[error("cannot tell how many samples a step has")]
    StepLength,
    /// The argument has no value, and neither zeros nor random values were asked for.
    #[error("found nothing, and nothing to fill it with")]
    Nothing,
    /// The same of an input of BYTES, where the empty string may be meant.
    #[error("found nothing, and nothing to fill it with")]
    NoText,
}

/// Writes which of a batch an image is.
fn of_batch(place: Option<&(usize, usize)>) -> String {
    let of = |(number, count): &(usize, usize)| format!(", image {number} of {count}");
    place.map_or_else(String::new, of)
}

/// Writes a number of elements.
pub(super) fn elements(count: usize) -> String {
    match count {
        1 => "1 element".to_owned(),
        count => format!("{count} elements"),
    }
}

/// Writes a number of values.
pub(super) fn values(count: usize) -> String {
    match count {
        1 => "1 value".to_owned(),
        count => format!("{count} values"),
    }
}

fn names(inputs: &[TensorMetadata]) -> String {
    let word = |it: &TensorMetadata| match it.is_described() {
        true => format!("input `{}` ({} {})", it.name, it.datatype, it.shape),
        false => format!("input `{}` (type unknown)", it.name),
    };
    inputs.iter().map(word).collect::<Vec<_>>().join(" and ")
}
