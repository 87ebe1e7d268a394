//! One input as it is typed: `NAME:DTYPE:SHAPE=VALUE`, of which only the value is needed.

use std::{
    env,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{FileKind, pattern::is_pattern};
use crate::tensor::DataType;

/// One input as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Argument {
    /// The name; may be left out for a model with one input.
    pub name: Option<String>,
    /// The datatype to send in place of the model's.
    pub dtype: Option<DataType>,
    /// The shape to send in place of what model and value give.
    pub shape: Option<Vec<usize>>,
    /// Source of the elements.
    pub source: ElementSource,
}

/// Source of the elements of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ElementSource {
    /// The argument itself: JSON, or plain text for a string.
    Inline(String),
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// Kind of the file.
        kind: FileKind,
        /// The output, or array, to take of several.
        output: Option<String>,
    },
    /// Standard input. Where many values come, one in each line.
    Stdin {
        /// Kind of the contents; if left out, JSON, or what the first bytes show.
        kind: Option<FileKind>,
        /// The output, or array, to take of several.
        output: Option<String>,
    },
    /// No contents: zeros or random values, whichever was asked for.
    #[default]
    Fill,
}

impl ElementSource {
    /// Returns the file, if it is one.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::File { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// Error of parsing an [`Argument`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A file of a kind that is not read.
    #[error(
        "found the file `{0}`, expected a name that ends in .npy, .npz, .png, .jpg, .jpeg, .wav, \
         .pcm, .f32, .json, .txt, .csv or .bin"
    )]
    FileKind(String),
    /// A folder.
    #[error("found the folder `{0}`, expected a file; `-i 'NAME=@{slash}*.png'` takes its images", slash = with_slash(.0))]
    Folder(String),
    /// A pattern that does not show the kind of its files.
    #[error(
        "found the pattern `{0}`, expected one that ends in the kind of its files, such as `*.png`: .npy, .npz, .png, \
         .jpg, .jpeg, .wav, .pcm, .f32, .json, .txt, .csv or .bin"
    )]
    PatternKind(String),
    /// An image or a sound of a format that is not read.
    #[error(
        "found the file `{path}`, whose format is not read, expected {expected}; `{command}` converts it"
    )]
    OtherFormat {
        /// The file.
        path: String,
        /// The formats that are read, with the ends of their names.
        expected: &'static str,
        /// The command of another program.
        command: String,
    },
    /// A file that may be raw samples, which are read from files of other names.
    #[error(
        "found the file `{0}`, expected a name that ends in .pcm (samples of 16 bits) or .f32 (of FP32), little endian, \
         one channel; `-i -:pcm16 < {0}` and `-i -:f32 < {0}` take it as it is"
    )]
    RawSamples(String),
    /// Standard input as a file, without its kind.
    #[error(
        "found `@-`, expected the kind of what comes, such as `@-.csv`, `@-.txt`, `@-.wav`, or `@-.bin`; `-` takes JSON, \
         .npy, .npz, and images by their first bytes"
    )]
    StdinKind,
    /// A table or an array that another program keeps in a form of its own.
    #[error(
        "found the file `{path}`, whose format is not read, expected .npy or .csv; `{command}` in Python writes it"
    )]
    OtherTable {
        /// The file.
        path: String,
        /// Python code that writes it in a form that is read.
        command: &'static str,
    },
    /// Missing name after `@`.
    #[error("found no file name after `@`")]
    NoFile,
    /// Missing name after `-:`.
    #[error("found no name of an output after `-:`")]
    NoOutput,
    /// Raw samples of a form that is not read.
    #[error(
        "found `-:{0}`, expected `-:pcm16` or `-:f32`: samples of 16 bits or of FP32, little endian, one channel"
    )]
    Samples(String),
    /// Empty argument.
    #[error("found nothing, expected `NAME=VALUE`")]
    Empty,
}

impl Argument {
    /// Makes the input that each line of a source gives, by name if it has one.
    pub fn of_lines(name: Option<String>) -> Self {
        Self {
            name,
            source: ElementSource::Stdin {
                kind: None,
                output: None,
            },
            ..Self::default()
        }
    }
}

impl FromStr for Argument {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        if text.is_empty() {
            return Err(ArgumentError::Empty);
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) if !is_value(text) => (key, value),
            _ => ("", text),
        };
        let (name, dtype, shape) = parts(key);
        Ok(Self {
            name: (!name.is_empty()).then(|| name.to_owned()),
            dtype,
            shape,
            source: value.parse()?,
        })
    }
}

/// Returns whether the whole text is a value, though it may have an equals sign inside.
fn is_value(text: &str) -> bool {
    text.starts_with(['@', '[', '{', '"'])
}

impl FromStr for ElementSource {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        match text.strip_prefix('@') {
            Some("") => Err(ArgumentError::NoFile),
            Some(path) => {
                let (path, output) = match FileKind::of(Path::new(path)) {
                    Some(_) => (path, None),
                    None => picked(path),
                };
                let output = output.map(str::to_owned);
                let file = at_home(path, env::home_dir());
                match FileKind::of(&file) {
                    Some(kind) if file.file_stem() == Some("-".as_ref()) && !path.contains('/') => {
                        Ok(Self::Stdin {
                            kind: Some(kind),
                            output,
                        })
                    }
                    Some(kind) => Ok(Self::File {
                        path: file,
                        kind,
                        output,
                    }),
                    None if matches!(path, "-" | "/dev/stdin") => Err(ArgumentError::StdinKind),
                    None => Err(unread(&file)),
                }
            }
            None => match (text, text.strip_prefix("-:")) {
                ("", _) => Ok(Self::Fill),
                (_, Some("")) => Err(ArgumentError::NoOutput),
                (_, Some(name)) => match FileKind::of_samples(name) {
                    None if is_like_samples(name) => Err(ArgumentError::Samples(name.to_owned())),
                    kind => Ok(Self::Stdin {
                        kind,
                        output: kind.is_none().then(|| name.to_owned()),
                    }),
                },
                ("-", None) => Ok(Self::Stdin {
                    kind: None,
                    output: None,
                }),
                (text, None) => Ok(Self::Inline(text.to_owned())),
            },
        }
    }
}

/// Returns the file of a path, whose `~` no shell has expanded behind `@`.
fn at_home(path: &str, home: Option<PathBuf>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

/// Returns whether a name is one of raw samples elsewhere, such as `s16le` or `pcm24`, and hardly that of an output.
fn is_like_samples(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = name.strip_suffix("le").or(name.strip_suffix("be"));
    let bare = bare.unwrap_or(&name);
    let begins = ["pcm_f", "pcm_s", "pcm_u", "pcm", "float", "f", "s", "u"];
    let mut bits = begins.iter().filter_map(|begin| bare.strip_prefix(begin));
    bits.any(|bits| matches!(bits, "8" | "16" | "24" | "32" | "64"))
}

/// Images of formats that are not read, by the ends of their names.
const IMAGES: [&str; 15] = [
    "avif", "bmp", "gif", "heic", "heif", "ico", "jp2", "jxl", "pgm", "ppm", "psd", "tga", "tif",
    "tiff", "webp",
];

/// Sounds of formats that are not read.
const SOUNDS: [&str; 10] = [
    "aac", "aif", "aiff", "amr", "flac", "m4a", "mp3", "ogg", "opus", "wma",
];

/// Raw samples, mostly of 16 bits, by the ends of their names elsewhere.
const RAW_SAMPLES: [&str; 6] = ["raw", "s16", "s16le", "sw", "lpcm", "f32le"];

/// Tables and arrays of other forms, by the ends of their names, and what writes them as ones that are read.
const TABLES: [(&[&str], &str); 2] = [
    (
        &["parquet", "feather", "arrow", "xlsx", "xls", "orc"],
        "frame.to_csv(\"rows.csv\", index=False)",
    ),
    (
        &["pkl", "pickle", "joblib", "pt", "pth", "mat", "h5", "hdf5"],
        "numpy.save(\"rows.npy\", array)",
    ),
];

/// Returns the path of a folder with a slash at its end.
fn with_slash(folder: &str) -> String {
    format!("{}/", folder.trim_end_matches('/'))
}

/// Makes the error of a file of a kind that is not read.
fn unread(file: &Path) -> ArgumentError {
    let path = file.display().to_string();
    let ending = file.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    let (expected, program, new) = if IMAGES.contains(&ending.as_str()) {
        ("PNG or JPEG (.png, .jpg, .jpeg)", "magick", "png")
    } else if SOUNDS.contains(&ending.as_str()) {
        ("WAV or raw samples (.wav, .pcm, .f32)", "ffmpeg -i", "wav")
    } else if RAW_SAMPLES.contains(&ending.as_str()) {
        return ArgumentError::RawSamples(path);
    } else if let Some((_, command)) = TABLES
        .iter()
        .find(|(ends, _)| ends.contains(&ending.as_str()))
    {
        return ArgumentError::OtherTable { path, command };
    } else if file.is_dir() {
        return ArgumentError::Folder(path);
    } else if is_pattern(&path) {
        return ArgumentError::PatternKind(path);
    } else {
        return ArgumentError::FileKind(path);
    };
    // A shell takes other characters apart.
    let is_plain = |c: char| c.is_alphanumeric() || "./_-".contains(c);
    let command = match path.chars().all(is_plain) && !path.starts_with('-') {
        true => format!("{program} {path} {}", file.with_extension(new).display()),
        false => format!("{program} FILE.{ending} FILE.{new}"),
    };
    ArgumentError::OtherFormat {
        path,
        expected,
        command,
    }
}

/// Splits the name of an output off a file that may have several.
fn picked(path: &str) -> (&str, Option<&str>) {
    let several = [".json:", ".npz:"].iter();
    let mut ends = several.filter_map(|end| Some(path.find(end)? + end.len()));
    match ends.next() {
        Some(end) if end < path.len() => (&path[..end - 1], Some(&path[end..])),
        _ => (path, None),
    }
}

/// Reads name, datatype and shape from the right, because names may have colons themselves
/// (`input:0`).
fn parts(key: &str) -> (&str, Option<DataType>, Option<Vec<usize>>) {
    let Some((rest, last)) = key.rsplit_once(':') else {
        return (key, None, None);
    };
    if let Some(dtype) = dtype(last) {
        return (rest, Some(dtype), None);
    }
    match (lengths(last), rest.rsplit_once(':')) {
        (shape @ Some(_), Some((name, ""))) => (name, None, shape),
        (shape @ Some(_), Some((name, middle))) if dtype(middle).is_some() => {
            (name, dtype(middle), shape)
        }
        _ => (key, None, None),
    }
}

fn dtype(text: &str) -> Option<DataType> {
    DataType::from_kserve(&text.to_ascii_uppercase())
}

/// Reads lengths with commas between them; nothing is the shape of a scalar.
fn lengths(text: &str) -> Option<Vec<usize>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|length| length.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Argument, ElementSource, FileKind, at_home};
    use crate::tensor::DataType;

    fn inline(text: &str) -> ElementSource {
        ElementSource::Inline(text.to_owned())
    }

    #[test]
    fn arguments_are_read_with_and_without_their_parts() {
        let file = |path: &str, kind| ElementSource::File {
            path: path.into(),
            kind,
            output: None,
        };
        let stdin = |output: Option<&str>| ElementSource::Stdin {
            kind: None,
            output: output.map(str::to_owned),
        };
        type Row<'a> = (
            &'a str,
            &'a str,
            Option<DataType>,
            Option<&'a [usize]>,
            ElementSource,
        );
        let rows: &[Row<'_>] = &[
            ("x=[1,2]", "x", None, None, inline("[1,2]")),
            ("[1,2]", "", None, None, inline("[1,2]")),
            ("5", "", None, None, inline("5")),
            ("true", "", None, None, inline("true")),
            ("-", "", None, None, stdin(None)),
            ("x=-", "x", None, None, stdin(None)),
            ("x=-:y:0", "x", None, None, stdin(Some("y:0"))),
            ("x=-1", "x", None, None, inline("-1")),
            (
                "x=@-.png",
                "x",
                None,
                None,
                ElementSource::Stdin {
                    kind: Some(FileKind::Image),
                    output: None,
                },
            ),
            (
                "-:pcm16",
                "",
                None,
                None,
                ElementSource::Stdin {
                    kind: Some(FileKind::Pcm16),
                    output: None,
                },
            ),
            (
                "-:f32",
                "",
                None,
                None,
                ElementSource::Stdin {
                    kind: Some(FileKind::Float32),
                    output: None,
                },
            ),
            ("-:f0", "", None, None, stdin(Some("f0"))),
            (
                "x=@./-.json",
                "x",
                None,
                None,
                file("./-.json", FileKind::Json),
            ),
            (
                "x=@a:b.json:y.json:0",
                "x",
                None,
                None,
                ElementSource::File {
                    path: "a:b.json".into(),
                    kind: FileKind::Json,
                    output: Some("y.json:0".to_owned()),
                },
            ),
            ("x=-5", "x", None, None, inline("-5")),
            ("x=", "x", None, None, ElementSource::Fill),
            ("text=a=b", "text", None, None, inline("a=b")),
            (r#""a=b""#, "", None, None, inline(r#""a=b""#)),
            (r#"{"x":"a=b"}"#, "", None, None, inline(r#"{"x":"a=b"}"#)),
            ("@a=b.npy", "", None, None, file("a=b.npy", FileKind::Npy)),
            ("x=@a.JPG", "x", None, None, file("a.JPG", FileKind::Image)),
            ("x:FP16=1", "x", Some(DataType::F16), None, inline("1")),
            (
                "x:int8:2,3=",
                "x",
                Some(DataType::I8),
                Some(&[2, 3]),
                ElementSource::Fill,
            ),
            (
                "x:BOOL:=true",
                "x",
                Some(DataType::Bool),
                Some(&[]),
                inline("true"),
            ),
            ("x::4=[1]", "x", None, Some(&[4]), inline("[1]")),
            (
                ":FP32:1=[1]",
                "",
                Some(DataType::F32),
                Some(&[1]),
                inline("[1]"),
            ),
            ("input:0=1", "input:0", None, None, inline("1")),
            (
                "a/b:0:FP32:1=1",
                "a/b:0",
                Some(DataType::F32),
                Some(&[1]),
                inline("1"),
            ),
            ("x:FP31=1", "x:FP31", None, None, inline("1")),
            ("x:FP32:1,b=1", "x:FP32:1,b", None, None, inline("1")),
        ];
        for (text, name, dtype, shape, source) in rows {
            let expected = Argument {
                name: (!name.is_empty()).then(|| (*name).to_owned()),
                dtype: *dtype,
                shape: shape.map(<[usize]>::to_vec),
                source: source.clone(),
            };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_home_is_found_where_no_shell_has() {
        let home = || Some(PathBuf::from("/home/me"));
        assert_eq!(at_home("~/a.csv", home()), PathBuf::from("/home/me/a.csv"));
        for path in ["~", "a~/b.csv", "./~/a.csv", "~other/a.csv"] {
            assert_eq!(at_home(path, home()), PathBuf::from(path));
        }
        assert_eq!(at_home("~/a.csv", None), PathBuf::from("~/a.csv"));
    }

    #[test]
    fn files_of_unknown_kinds_are_refused() {
        for (text, expected) in [
            ("", "found nothing, expected `NAME=VALUE`"),
            ("x=@", "found no file name after `@`"),
            ("x=-:", "found no name of an output after `-:`"),
            (
                "x=@-",
                "found `@-`, expected the kind of what comes, such as `@-.csv`, `@-.txt`, `@-.wav`, or `@-.bin`; `-` takes \
                 JSON, .npy, .npz, and images by their first bytes",
            ),
            (
                "@a.parquet",
                "found the file `a.parquet`, whose format is not read, expected .npy or .csv; \
                 `frame.to_csv(\"rows.csv\", index=False)` in Python writes it",
            ),
            (
                "@a.PKL",
                "found the file `a.PKL`, whose format is not read, expected .npy or .csv; `numpy.save(\"rows.npy\", array)` \
                 in Python writes it",
            ),
            (
                "-:s16le",
                "found `-:s16le`, expected `-:pcm16` or `-:f32`: samples of 16 bits or of FP32, little \
                 endian, one channel",
            ),
            (
                "-:float32",
                "found `-:float32`, expected `-:pcm16` or `-:f32`: samples of 16 bits or of FP32, little \
                 endian, one channel",
            ),
            (
                "x=@a.ods",
                "found the file `a.ods`, expected a name that ends in .npy, .npz, .png, .jpg, \
                 .jpeg, .wav, .pcm, .f32, .json, .txt, .csv or .bin",
            ),
            (
                "b=@/tmp",
                "found the folder `/tmp`, expected a file; `-i 'NAME=@/tmp/*.png'` takes its images",
            ),
            (
                "b=@photos/*",
                "found the pattern `photos/*`, expected one that ends in the kind of its files, such as `*.png`: .npy, \
                 .npz, .png, .jpg, .jpeg, .wav, .pcm, .f32, .json, .txt, .csv or .bin",
            ),
            (
                "@a.raw",
                "found the file `a.raw`, expected a name that ends in .pcm (samples of 16 bits) or .f32 (of FP32), \
                 little endian, one channel; `-i -:pcm16 < a.raw` and `-i -:f32 < a.raw` take it as it is",
            ),
            (
                "x=@photos/a.WebP",
                "found the file `photos/a.WebP`, whose format is not read, expected PNG or JPEG (.png, \
                 .jpg, .jpeg); `magick photos/a.WebP photos/a.png` converts it",
            ),
            (
                "@my photos/*.gif",
                "found the file `my photos/*.gif`, whose format is not read, expected PNG or JPEG (.png, \
                 .jpg, .jpeg); `magick FILE.gif FILE.png` converts it",
            ),
            (
                "@a.mp3",
                "found the file `a.mp3`, whose format is not read, expected WAV or raw samples (.wav, \
                 .pcm, .f32); `ffmpeg -i a.mp3 a.wav` converts it",
            ),
        ] {
            let error = text.parse::<Argument>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
