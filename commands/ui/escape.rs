//! Escapes for text that is shown on a terminal.

use std::borrow::Cow;

/// Returns whether a character controls the display instead of being shown: control characters,
/// and changes of the text direction.
pub(crate) fn steers(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text for a line, with each control character escaped as in `\u{1b}`. Names come from
/// files and servers.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, steers)
}

/// Returns a text of several lines in the same way, with line feeds and tabs as they are.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |it| steers(it) && !matches!(it, '\n' | '\t'))
}

/// Returns a text of several lines in the same way, with further lines indented so that they
/// cannot be taken for something else.
pub(crate) fn visible_below(text: &str, indent: usize) -> String {
    visible_lines(text).replace('\n', &format!("\n{}", " ".repeat(indent)))
}

/// Returns a text as one word for a shell, in quotes if it needs them.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+:@%,=".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn escaped(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_meant(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::{shell_word, visible, visible_below, visible_lines};

    #[test]
    fn words_are_quoted_for_shells() {
        for (text, expected) in [
            ("http://a:1/b", "http://a:1/b"),
            ("größe", "größe"),
            ("", "''"),
            ("a b", "'a b'"),
            ("~", "'~'"),
            ("it's $HOME\n", "'it'\\''s $HOME\n'"),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        let hostile = "a\u{1b}[31m\u{9b}2J\u{202e}b\u{2066}\u{7f}\r\n\tc";
        let names = r"a\u{1b}[31m\u{9b}2J\u{202e}b\u{2066}\u{7f}\u{d}";
        assert_eq!(visible(hostile), format!(r"{names}\u{{a}}\u{{9}}c"));
        assert_eq!(visible_lines(hostile), format!("{names}\n\tc"));
        assert_eq!(visible_below(hostile, 2), format!("{names}\n  \tc"));
        assert_eq!(visible("größe 形 שלום"), "größe 形 שלום");
    }
}
