//! Remarks about values that are sent as something else than they may seem.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{SampleRest, SoundCut};
use crate::tensor::{DataType, ShapeText};

/// Array that was converted, since the model's input has another datatype of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DtypeConversion {
    /// The name of the input.
    pub input: String,
    /// The file of the array; `None` if it came by standard input.
    pub path: Option<PathBuf>,
    /// The datatype of the array.
    pub found: DataType,
    /// The datatype of the input.
    pub expected: DataType,
}

impl fmt::Display for DtypeConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            input,
            path,
            found,
            expected,
        } = self;
        match path {
            Some(path) => write!(
                f,
                "{} has {found}; sent as {expected} for input `{input}`",
                path.display()
            ),
            None => write!(f, "input `{input}` was given {found}; sent as {expected}"),
        }
    }
}

/// Value that is sent as something else than it may seem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRemark {
    /// An array has another datatype.
    Converted(DtypeConversion),
    /// Elements in a row are cut into steps, and the last one is padded with zeros.
    Padded {
        /// The name of the input.
        input: String,
        /// The number of steps, if it is known before they are sent.
        steps: Option<usize>,
        /// The number of zeros.
        zeros: usize,
    },
    /// Elements in a row end within a step, and others are to follow in another request.
    Unfinished {
        /// The name of the input.
        input: String,
        /// The number of elements that are missing.
        missing: usize,
        /// The number of elements of a step.
        step: usize,
        /// The sampling rate, if it is known.
        rate: Option<u32>,
    },
    /// A sound is sent that is shorter than its header says, or whose header was never finished.
    Cut {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
        /// Length that is there, and the one that the header says.
        cut: SoundCut,
    },
    /// Samples without a header have bytes behind the last one.
    Rest {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
        /// The bytes.
        rest: SampleRest,
    },
    /// Something else than a chunk follows the samples of a WAV file, and is left out.
    GoesOn {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
    },
    /// Samples are far outside of -1 to 1.
    Loud {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
        /// Text of how far from 0 they are at most, so far.
        most: String,
    },
    /// The channels of a sound are mixed into one.
    Mixed {
        /// The number of channels.
        channels: usize,
    },
    /// A sound has another sampling rate than speech mostly has, and nobody said that the model takes it.
    UnusualRate {
        /// The rate in Hz.
        rate: u32,
    },
    /// An image is sent as the bytes of its file, since the datatype of the input is unknown.
    Encoded {
        /// The name of the input.
        input: String,
    },
    /// Numbers are sent as a text, since the datatype of the input is unknown.
    NumbersAsText {
        /// The name of the input.
        input: String,
        /// The value that is sent as numbers where a datatype stands before it.
        value: String,
    },
    /// Mean, scale, order of channels, or layout are given for an image that the server decodes.
    Unprepared {
        /// The name of the input.
        input: String,
    },
    /// Mean, scale, order of channels, or layout are given for inputs of which none is an image.
    NoImage,
    /// The scale is a factor, such as 1/255, and values are divided by it.
    Factor,
    /// Mean and scale are small, as those of values from 0 to 1.
    OfUnit {
        /// The name of the input.
        input: String,
    },
    /// Mean or scale are given for an image, and the server has some of its own.
    PreparedTwice {
        /// The name of the input.
        input: String,
    },
    /// An image is sent with red before blue to a server that takes blue first.
    OtherColors {
        /// The name of the input.
        input: String,
    },
    /// Elements are no numbers.
    NotNumbers {
        /// The name of the input.
        input: String,
        /// The number of them.
        count: usize,
    },
    /// Elements are infinite.
    Infinite {
        /// The name of the input.
        input: String,
        /// The number of them.
        count: usize,
    },
    /// An array is sent in a shape of more dimensions, which is that of the model.
    Reshaped {
        /// The name of the input.
        input: String,
        /// The shape of the array.
        found: Vec<usize>,
        /// The shape that is sent.
        sent: Vec<usize>,
    },
    /// An image of 16 bits a channel is sent with 8.
    Narrowed {
        /// The file.
        file: String,
    },
    /// A first line of the numbers from 0 on is sent as a row of a table.
    CountedLine {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
    },
    /// Columns of a table are left out, since they are no inputs, as others are.
    Columns {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
        /// The names of the columns.
        names: Vec<String>,
    },
    /// The first line of a table has the names of its columns, and is left out.
    Headed {
        /// The file; `None` if it came by standard input.
        path: Option<PathBuf>,
        /// The first name.
        first: String,
    },
    /// The server decodes an image of 16 bits a channel, and does not scale its values.
    Wide {
        /// The file.
        file: String,
        /// The greatest value that the datatype of the model takes.
        most: u16,
    },
    /// An image is sent without its transparency.
    Opaque {
        /// The file.
        file: String,
    },
    /// An image is sent as its pixels lie in the file, and EXIF says that they are to be turned.
    Turned {
        /// The file.
        file: String,
    },
    /// Values that were scaled are rounded to whole numbers.
    Rounded {
        /// The name of the input.
        input: String,
        /// Datatype of the input.
        dtype: DataType,
    },
}

/// A usual sampling rate of speech.
pub(super) const USUAL_RATE: u32 = 16_000;

impl InputRemark {
    /// Returns whether another remark says nothing new. Of many requests each may have another number of elements that
    /// are no numbers.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NotNumbers { input: one, .. }, Self::NotNumbers { input: other, .. }) => {
                one == other
            }
            (Self::Infinite { input: one, .. }, Self::Infinite { input: other, .. }) => {
                one == other
            }
            (Self::Loud { path: one, .. }, Self::Loud { path: other, .. }) => one == other,
            // They are of all images.
            (Self::Narrowed { .. }, Self::Narrowed { .. })
            | (Self::Wide { .. }, Self::Wide { .. })
            | (Self::Opaque { .. }, Self::Opaque { .. }) => true,
            _ => self == other,
        }
    }

    /// Returns whether the answers will not be what was meant.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::Unfinished { .. }
                | Self::Rest { .. }
                | Self::GoesOn { .. }
                | Self::UnusualRate { .. }
                | Self::PreparedTwice { .. }
                | Self::OtherColors { .. }
                | Self::Turned { .. }
                | Self::Wide { .. }
        )
    }
}

/// Returns the name of a file, or of standard input.
fn place(path: Option<&Path>) -> String {
    path.map_or_else(
        || "standard input".to_owned(),
        |path| path.display().to_string(),
    )
}

impl fmt::Display for InputRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Converted(conversion) => conversion.fmt(f),
            Self::Padded {
                input,
                steps: Some(steps),
                zeros,
            } => {
                let zeros = Counted(*zeros, "zero");
                match steps {
                    1 => write!(f, "input `{input}` is sent in 1 step, padded with {zeros}"),
                    _ => write!(
                        f,
                        "input `{input}` is sent in {steps} steps, the last padded with {zeros}"
                    ),
                }
            }
            Self::Padded {
                input,
                steps: None,
                zeros,
            } => write!(
                f,
                "the last step of input `{input}` is padded with {}",
                Counted(*zeros, "zero")
            ),
            Self::Unfinished {
                input,
                missing,
                step,
                rate,
            } => {
                let rate = rate.unwrap_or(USUAL_RATE);
                #[expect(clippy::cast_precision_loss, reason = "a step is a fraction of a second")]
                let took = *step as f64 * 1e3 / f64::from(rate);
                write!(
                    f,
                    "{} missing to a whole step of input `{input}`, and zeros take their place, so parts sent in turn \
                     differ from the whole sound; cut parts at multiples of {step} samples ({} ms at {rate} Hz), or pipe \
                     all of it as one input (`-i {input}=-:pcm16`)",
                    match missing {
                        1 => "1 sample is".to_owned(),
                        _ => format!("{missing} samples are"),
                    },
                    (took * 1e3).round() / 1e3,
                )
            }
            Self::Cut { path, cut } => {
                let SoundCut { expected, found } = cut;
                let what = cut.what();
                let has = match path {
                    Some(path) => {
                        write!(f, "{} {what}", path.display())?;
                        "the file has"
                    }
                    None => {
                        write!(f, "the sound {what}")?;
                        "it has"
                    }
                };
                write!(
                    f,
                    ": its header says {expected} bytes of samples, {has} {found}; those are sent"
                )
            }
            Self::Rest { path, rest } => {
                let SampleRest { bytes, sample } = rest;
                match path {
                    Some(path) => write!(f, "{}", path.display())?,
                    None => f.write_str("standard input")?,
                }
                let (bytes, are) = (Counted(*bytes, "byte"), if *bytes == 1 { "is" } else { "are" });
                write!(
                    f,
                    " ends with {bytes} that {are} not a whole sample of {sample} bytes and {are} left out: if a part of a \
                     header was cut off, all samples are shifted, and are noise"
                )
            }
            Self::GoesOn { path } => {
                match path {
                    Some(path) => write!(f, "{}", path.display())?,
                    None => f.write_str("standard input")?,
                }
                f.write_str(
                    " continues after the samples that its header announces, and the rest is left out: several WAV \
                     files in a row are not one sound",
                )
            }
            Self::Loud { path, most } => {
                match path {
                    Some(path) => write!(f, "{}", path.display())?,
                    None => f.write_str("the sound")?,
                }
                write!(
                    f,
                    " has samples up to {most}, far outside of -1 to 1, and is sent as it is: samples of 16 bits are \
                     read with `-:pcm16` or as `@FILE.pcm`"
                )
            }
            Self::Mixed { channels } => write!(
                f,
                "the sound has {channels} channels, which are mixed into one"
            ),
            Self::UnusualRate { rate } => write!(
                f,
                "the sound has {rate} Hz and is sent as it is: a model of another rate, as of speech mostly \
                 {USUAL_RATE} Hz, answers wrongly; `ffmpeg -i in.wav -ar {USUAL_RATE} -ac 1 out.wav` resamples, and \
                 `--sample-rate {rate}` says that the model takes this one"
            ),
            Self::Encoded { input } => write!(
                f,
                "the datatype of input `{input}` is unknown, so the image is sent as the bytes of its file; \
                 `-i {input}:UINT8=@FILE` sends its pixels"
            ),
            Self::NumbersAsText { input, value } => write!(
                f,
                "the datatype of input `{input}` is unknown, so the numbers are sent as a text; \
                 `-i '{input}:FP32={value}'` sends them as numbers"
            ),
            Self::Unprepared { input } => write!(
                f,
                "the image for input `{input}` is sent as the bytes of its file, to which mean, scale, layout, and \
                 order of channels do not apply; without `:BYTES` they do"
            ),
            Self::NoImage => f.write_str(
                "no input is an image: preset, mean, scale, layout, and channel order have no effect",
            ),
            Self::Factor => f.write_str(
                "`--scale` divides: for values from 0 to 1 use `--scale 255`, or `--preset unit`",
            ),
            Self::OfUnit { input } => write!(
                f,
                "mean and scale look as if they were for values from 0 to 1, but pixels of input `{input}` are 0 to \
                 255: multiply both by 255, or use a preset, such as `--preset imagenet`"
            ),
            Self::PreparedTwice { input } => write!(
                f,
                "the server prepares images for input `{input}` with a mean or a scale of its own, so pixels are \
                 prepared twice: leave out `--preset`, `--mean`, and `--scale`"
            ),
            Self::OtherColors { input } => write!(
                f,
                "the server takes images for input `{input}` with blue before red, and this one is sent with red \
                 first: add `--bgr`"
            ),
            Self::NotNumbers { input, count } => {
                write!(f, "input `{input}` has {}", Counted(*count, "NaN"))
            }
            Self::Infinite { input, count } => {
                let numbers = Counted(*count, "infinite number");
                write!(f, "input `{input}` has {numbers}")
            }
            Self::Reshaped { input, found, sent } => write!(
                f,
                "{} is sent as {} for input `{input}`",
                ShapeText(found),
                ShapeText(sent)
            ),
            Self::Narrowed { file } => write!(
                f,
                "{file} has 16 bits a channel, and is sent with 8, as values from 0 to 255"
            ),
            Self::CountedLine { path } => write!(
                f,
                "the first line of {} is sent as numbers: 0, 1, and so on may be names of columns, as pandas writes them \
                 without `header=False`",
                place(path.as_deref())
            ),
            Self::Columns { path, names } => {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                let (columns, are) = match names.len() {
                    1 => ("column", "is no input"),
                    _ => ("columns", "are no inputs"),
                };
                let (names, place) = (names.join(", "), place(path.as_deref()));
                write!(f, "the {columns} {names} of {place} {are}, and left out")
            }
            Self::Headed { path, first } => {
                let place = place(path.as_deref());
                write!(
                    f,
                    "the first line of {place} is taken as the names of columns, from `{first}` on, and left out"
                )
            }
            Self::Wide { file, most } => {
                write!(
                    f,
                    "{file} has 16 bits a channel, which the server takes as values from 0 to {}",
                    u16::MAX
                )?;
                if *most < u16::MAX {
                    write!(f, ", cut off at {most}")?;
                }
                write!(f, ": `magick {file} -depth 8 FILE.png` makes it 0 to 255")
            }
            Self::Opaque { file } => write!(
                f,
                "{file} is partly transparent, and the colors below are used: `magick {file} -background white \
                 -flatten FILE.png` puts it on white"
            ),
            Self::Turned { file } => write!(
                f,
                "the EXIF orientation of {file} is not applied, neither here nor by a server that decodes images: \
                 `mogrify -auto-orient` turns the pixels of a file"
            ),
            Self::Rounded { input, dtype } => write!(
                f,
                "input `{input}` takes {dtype}, so scaled values are rounded to whole numbers; leave out \
                 `--preset` or `--scale` if the model scales by itself"
            ),
        }
    }
}

/// Number with a noun, which has an `s` behind it unless the number is 1.
struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        let ending = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {noun}{ending}")
    }
}

/// Listener of remarks, which hears of each once, however many requests it is in.
#[derive(Clone, Default)]
pub(super) struct RemarkListener {
    report: Option<Arc<Report>>,
    reported: Arc<Mutex<Vec<InputRemark>>>,
    /// Presence of an image in any of many requests; `None` before the first one.
    has_image: Arc<Mutex<Option<bool>>>,
}

type Report = dyn Fn(&InputRemark) + Send + Sync;

impl RemarkListener {
    pub(super) fn new(report: impl Fn(&InputRemark) + Send + Sync + 'static) -> Self {
        Self {
            report: Some(Arc::new(report)),
            reported: Arc::default(),
            has_image: Arc::default(),
        }
    }

    /// Keeps whether one of many requests has an image.
    pub(super) fn see(&self, has_image: bool) {
        let mut seen = self.has_image.lock();
        *seen = Some(has_image || seen.unwrap_or(false));
    }

    /// Returns whether there were requests, none of them with an image.
    pub(super) fn has_seen_no_image(&self) -> bool {
        *self.has_image.lock() == Some(false)
    }

    /// Reports a remark, unless it was reported before.
    pub(super) fn hear(&self, remark: InputRemark) {
        let Some(report) = &self.report else {
            return;
        };
        let mut reported = self.reported.lock();
        if !reported.iter().any(|known| known.covers(&remark)) {
            report(&remark);
            reported.push(remark);
        }
    }
}

impl fmt::Debug for RemarkListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemarkListener")
            .field("reported", &self.reported.lock())
            .finish_non_exhaustive()
    }
}
