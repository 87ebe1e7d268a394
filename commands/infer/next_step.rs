//! Next step for inputs that are not read or not sent.

use std::fmt::Display;

use image::ImageError;
use ovms::{
    client::input::{SoundError, ValueProblem},
    tensor::{DataType, images::DecodeError},
};
use serde_json::error::Category;

use crate::ui::shell_word;

/// Returns the next step for a sound that is not read.
pub(super) fn of_sound(problem: &SoundError) -> Option<String> {
    Some(match problem {
        SoundError::CutHeader => {
            "copy or record it again; samples without a header are read by `-i -:pcm16 < FILE`"
                .to_owned()
        }
        SoundError::NoSound(_) => {
            "`-i NAME=@FILE` takes it by the end of its name, and `-i NAME=-` by its beginning"
                .to_owned()
        }
        SoundError::Read(_) => return None,
        SoundError::NoHeader => {
            format!("{CONVERTED}; samples without a header are read by `-i -:pcm16 < FILE`")
        }
        _ => format!(
            "{CONVERTED}; in a pipe, `ffmpeg -i FILE -f s16le -ar RATE -ac 1 -` makes samples for `-i -:pcm16`"
        ),
    })
}

/// Advice on a sound of a format that is not read.
const CONVERTED: &str = "`ffmpeg -i FILE -ar RATE -ac 1 sound.wav` converts it, with the rate that the model takes, mostly 16000";

/// Returns whether a JSON value is whole, and a line below it has more.
fn has_more_lines(error: &serde_json::Error) -> bool {
    error.line() > 1 && error.to_string().starts_with("trailing characters")
}

/// Returns the next step for a value that cannot be an element of an input.
pub(super) fn of_value(name: &str, problem: &ValueProblem) -> Option<String> {
    Some(match problem {
        ValueProblem::NoDatatype => format!("write it: `-i {name}:FP32=…`"),
        // What is JSON, but of the wrong values, says what was expected.
        ValueProblem::Json(error) if error.classify() != Category::Data => {
            format!("a value is JSON, such as `-i {name}='[1, 2.5]'`, or a file: `-i {name}=@FILE`")
        }
        ValueProblem::Piped(error) if has_more_lines(error) => format!(
            "several lines are several requests: `--stream -i {name}=-` sends each as one, and `--stream --requests \
             FILE` those of a file"
        ),
        ValueProblem::Piped(_) => {
            format!(
                "`-i {name}=@-.txt` takes standard input as a text, or as numbers with blanks, and `-i {name}=@-.csv` as a \
                 table"
            )
        }
        // They may be samples of a sound.
        ValueProblem::Dtype {
            found: DataType::I16,
            expected,
        } if expected.is_float() => format!(
            "`-i {name}:{expected}=…` converts the array and keeps its values; 16-bit audio is scaled to -1…1 only \
             as `@FILE.wav`, `@FILE.pcm`, or `-:pcm16`"
        ),
        ValueProblem::Dtype { found, expected }
            if *found != DataType::String
                && !matches!(expected, DataType::String | DataType::Bool) =>
        {
            format!("`-i {name}:{expected}=…` converts the array")
        }
        ValueProblem::Range { expected, .. } => {
            format!("correct the value; {expected} takes {}", range(*expected)?)
        }
        ValueProblem::Shape { .. } => {
            format!("nest the lists, or write the shape: `-i {name}::2,3=…`")
        }
        ValueProblem::Nothing => "add `--zeros` or `--random`".to_owned(),
        ValueProblem::NoText => {
            format!("`-i '{name}=\"\"'` is the empty string; `--zeros` and `--random` fill it")
        }
        ValueProblem::Outputs(names) => {
            let first = names.first().map_or("OUTPUT", String::as_str);
            format!("choose one: `-i {name}=-:{first}`")
        }
        ValueProblem::Ranking => "leave out `--top` in the command before".to_owned(),
        ValueProblem::FileName(path) => format!("`-i {name}=@{path}` takes the file"),
        ValueProblem::Sound(_) => {
            "`--sequence` sends a sound in steps as long as the model takes".to_owned()
        }
        ValueProblem::StepLength => {
            format!("write the shape of a step: `-i {name}::1,512=…`")
        }
        ValueProblem::NotOfImages(_) => {
            format!(
                "images are for inputs of 3 or 4 dimensions; `-i {name}=@FILE.npy` sends an array"
            )
        }
        ValueProblem::Image {
            source: DecodeError::Broken(ImageError::Unsupported(_)) | DecodeError::Format,
            ..
        } => "PNG and JPEG are read: convert the image, as `magick FILE image.png` does".to_owned(),
        ValueProblem::Image {
            source: DecodeError::Truncated,
            ..
        } => "copy or download the file again".to_owned(),
        ValueProblem::Pixels { file, .. } => format!(
            "`magick {} -resize 4096x4096 small.png` makes a smaller one; `-i {name}:BYTES=@FILE` leaves it to a server \
             that decodes images, up to its `--max-image-pixels`",
            shell_word(file)
        ),
        ValueProblem::Layout(_) => "`--layout` says where the channels are".to_owned(),
        _ => return None,
    })
}

/// Describes the numbers that a datatype has.
fn range(dtype: DataType) -> Option<String> {
    Some(match dtype {
        DataType::I8 => whole(i8::MIN, i8::MAX),
        DataType::I16 => whole(i16::MIN, i16::MAX),
        DataType::I32 => whole(i32::MIN, i32::MAX),
        DataType::I64 => whole(i64::MIN, i64::MAX),
        DataType::U8 => whole(u8::MIN, u8::MAX),
        DataType::U16 => whole(u16::MIN, u16::MAX),
        DataType::U32 => whole(u32::MIN, u32::MAX),
        DataType::U64 => whole(u64::MIN, u64::MAX),
        DataType::F16 => "numbers up to 65504".to_owned(),
        DataType::Bf16 | DataType::F32 => "numbers up to 3.4e38".to_owned(),
        DataType::Bool | DataType::F64 | DataType::String => return None,
    })
}

fn whole(least: impl Display, greatest: impl Display) -> String {
    format!("whole numbers from {least} to {greatest}")
}
