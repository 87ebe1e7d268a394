//! A flag as data: what the command line, the configuration file, and the manual need of it.

use std::{ffi::OsStr, path::PathBuf, str::FromStr};

use serde::Serialize;
use serde_json::Value;

use crate::{
    byte_size::ByteSize,
    config::settings::{AccessLogTarget, CheckDepth, ClientAuth, LogFormat, TlsVersion},
    openvino::StateMode,
    store::SequenceDurability,
};

/// A flag of `ovms serve`: a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The name, without hyphens before it.
    pub name: &'static str,
    /// Heading of its group in the help.
    pub heading: &'static str,
    /// Name of its value in the help.
    pub value: &'static str,
    /// Lines of its help; an empty one parts paragraphs.
    pub words: &'static [&'static str],
    /// Kind of its values.
    pub kind: FlagKind,
    /// Minimum of a number.
    pub least: u32,
    /// Allows a value to begin with a hyphen.
    pub takes_hyphen: bool,
    /// Reach of the flag.
    pub scope: FlagScope,
    /// Marks a flag whose key has a form of its own in the configuration file.
    pub own_form: bool,
    /// The value if it is not given; `None` if there is none, or it depends on other things.
    pub default: fn() -> Option<Value>,
}

impl Flag {
    /// Settings of most flags.
    pub(super) const PLAIN: Self = Self {
        name: "",
        heading: "",
        value: "",
        words: &[],
        kind: FlagKind::Text,
        least: 0,
        takes_hyphen: false,
        scope: FlagScope::Server,
        own_form: false,
        default: || None,
    };

    /// Returns whether the flag is also a key of a model's entry in the configuration file.
    pub fn is_key(&self) -> bool {
        self.scope != FlagScope::Server
    }
}

/// Kind of a flag's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    /// `true` or `false`; the flag alone is `true`.
    Switch,
    /// `true`, `false`, or a depth; the flag alone is `true`.
    Check,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number of 32 bits.
    U32,
    /// A whole number of 64 bits.
    U64,
    /// A whole number that counts things in memory.
    Usize,
    /// A number of bytes, with a unit or without.
    Bytes,
    /// Any text.
    Text,
    /// A path.
    Path,
}

/// Reach of a flag, and what becomes of it beside a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagScope {
    /// The server; no key of a model.
    Server,
    /// All models: a default for those of a file.
    AllModels,
    /// The model of the flags; refused beside a file.
    Model,
    /// The model of the flags; ignored beside a file, with a warning.
    ModelIgnored,
}

/// A type of values of flags.
pub(super) trait FlagValue: FromStr + Serialize {
    /// The kind of its values.
    const KIND: FlagKind;

    /// Reads a value; `None` for a text that is none.
    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    /// Returns the value as the configuration file has it.
    fn json(&self) -> Value {
        // No path that is no text is one in a file.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Spellings of `true` and of `false` that the C++ server accepts.
pub const SPELLINGS: [[&str; 5]; 2] = [
    ["true", "True", "t", "T", "1"],
    ["false", "False", "f", "F", "0"],
];

impl FlagValue for bool {
    const KIND: FlagKind = FlagKind::Switch;

    fn read(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let place = SPELLINGS.iter().position(|known| known.contains(&text));
        place.map(|place| place == 0)
    }
}

impl FlagValue for CheckDepth {
    const KIND: FlagKind = FlagKind::Check;
}

impl FlagValue for LogFormat {
    const KIND: FlagKind = FlagKind::Choice(&["text", "json"]);
}

impl FlagValue for ClientAuth {
    const KIND: FlagKind = FlagKind::Choice(&["off", "optional", "required"]);
}

impl FlagValue for TlsVersion {
    const KIND: FlagKind = FlagKind::Choice(&["1.2", "1.3"]);
}

impl FlagValue for StateMode {
    const KIND: FlagKind = FlagKind::Choice(&["tensors", "requests"]);
}

impl FlagValue for SequenceDurability {
    const KIND: FlagKind = FlagKind::Choice(&["none", "interval", "step"]);
}

impl FlagValue for AccessLogTarget {
    const KIND: FlagKind = FlagKind::Text;
}

impl FlagValue for u32 {
    const KIND: FlagKind = FlagKind::U32;
}

impl FlagValue for u64 {
    const KIND: FlagKind = FlagKind::U64;
}

impl FlagValue for usize {
    const KIND: FlagKind = FlagKind::Usize;
}

impl FlagValue for ByteSize {
    const KIND: FlagKind = FlagKind::Bytes;
}

impl FlagValue for String {
    const KIND: FlagKind = FlagKind::Text;
}

impl FlagValue for PathBuf {
    const KIND: FlagKind = FlagKind::Path;

    fn read(text: &OsStr) -> Option<Self> {
        Some(text.into())
    }
}

/// Makes [`Flags`] of the rows of the table: a field for each, and the rows as data.
macro_rules! flags {
    (@type $type:ty) => { Option<$type> };
    (@type $type:ty, $default:expr) => { $type };
    (@default $type:ty) => { None::<$type> };
    (@default $type:ty, $default:expr) => {{
        let default: $type = $default;
        default
    }};
    ($($heading:literal {$(
        $(#[doc = $words:literal])+
        $name:ident: $type:ty $(= $default:expr)?, $value:literal $(, $field:ident: $set:expr)*;
    )+})+) => {
        /// All flags, in the order of the help.
        pub static FLAGS: &[Flag] = &[$($(Flag {
            name: stringify!($name),
            heading: $heading,
            value: $value,
            words: &[$($words),+],
            kind: <$type as FlagValue>::KIND,
            default: || {
                let default: Option<$type> = flags!(@default $type $(, $default)?).into();
                default.map(|value| value.json())
            },
            $($field: $set,)*
            ..Flag::PLAIN
        },)+)+];

        /// The flags as typed; `None` is a flag that is not given, where that makes a difference.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each field is the flag of the same name")]
        pub struct Flags {
            $($(pub $name: flags!(@type $type $(, $default)?),)+)+
        }

        impl Default for Flags {
            /// Returns the flags of a command line without any.
            fn default() -> Self {
                Self { $($($name: flags!(@default $type $(, $default)?),)+)+ }
            }
        }

        impl Flags {
            /// Returns these flags with the values whose texts are given in place of their own.
            pub fn with(&self, given: impl Fn(&Flag) -> Option<OsString>) -> Self {
                let mut texts = FLAGS.iter().map(given);
                let mut next = || texts.next().flatten();
                Self {
                    $($($name: next()
                        .and_then(|text| <$type as FlagValue>::read(&text))
                        .map_or_else(|| self.$name.clone(), Into::into),)+)+
                }
            }

            /// Returns the flags of some rows; those of others have their defaults.
            fn only(&self, keeps: impl Fn(&Flag) -> bool) -> Self {
                let usual = Self::default();
                let mut kept = FLAGS.iter().map(keeps);
                let mut next = || kept.next().unwrap_or_default();
                Self {
                    $($($name: if next() { self.$name.clone() } else { usual.$name },)+)+
                }
            }

            /// Returns the flags that are given, as far as they are not their defaults, with their
            /// values.
            pub fn given(&self) -> Vec<(&'static Flag, Value)> {
                let usual = Self::default();
                let values = [$($({
                    let value: Option<$type> = self.$name.clone().into();
                    value.filter(|_| self.$name != usual.$name).map(|value| value.json())
                },)+)+];
                let given = FLAGS.iter().zip(values);
                given.filter_map(|(flag, value)| Some((flag, value?))).collect()
            }
        }
    };
}

pub(super) use flags;
