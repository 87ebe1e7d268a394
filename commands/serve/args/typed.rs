//! Arguments of `ovms serve` as typed, before anything is parsed.

use std::{borrow::Cow, ffi::OsString};

use clap::{Arg, Command};

/// Flag, or anything else.
pub(super) struct TypedArg<'a> {
    /// Flag and value if they are two words, else one word.
    pub(super) words: &'a [OsString],
    /// First of these words.
    pub(super) text: Cow<'a, str>,
    pub(super) flag: Option<&'a Arg>,
}

/// Parts flags from other words. What follows one that takes text is its value, whatever it looks like.
pub(super) fn typed<'a>(
    command: &'a Command,
    args: &'a [OsString],
) -> impl Iterator<Item = TypedArg<'a>> {
    let mut rest = args;
    std::iter::from_fn(move || {
        let text = rest.first()?.to_string_lossy();
        let name = text
            .strip_prefix("--")
            .and_then(|long| long.split('=').next());
        let mut known = command.get_arguments();
        let flag = known.find(|arg| name.is_some() && arg.get_long() == name);
        let takes_next = !text.contains('=') && flag.is_some_and(takes_text);
        let words;
        (words, rest) = rest.split_at(rest.len().min(1 + usize::from(takes_next)));
        Some(TypedArg { words, text, flag })
    })
}

/// Returns whether a flag has a value that may be a word of its own.
pub(super) fn takes_text(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}
