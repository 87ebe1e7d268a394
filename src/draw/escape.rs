//! Names as parts of other texts.

use std::fmt;

use askama::filters::{Escaper, Safe};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns how many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Returns a text without characters that take no column of their own: those are written as in
/// `\u{7}`, so that a name can neither steer a terminal nor hide.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |character| character.width() > Some(0))
}

/// Returns a visible text of ASCII only: all other characters are written as in `\u{e4}`.
pub(super) fn ascii(text: &str) -> String {
    escaped(text, |character| (' '..='~').contains(&character))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_kept(character) {
            true => escaped.push(character),
            false => escaped.extend(character.escape_unicode()),
        }
    }
    escaped
}

/// Writes a text as content or attribute of XML and HTML. What XML has no place for becomes a
/// visible escape.
pub(crate) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.extend(character.escape_unicode()),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Writes a text of several lines as [`xml`] does, and keeps its lines.
pub(crate) fn xml_lines(text: &str) -> Safe<String> {
    let lines: Vec<String> = text.split('\n').map(xml).collect();
    Safe(lines.join("\n"))
}

/// Escaping of every text in templates: no text is markup, or steers anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Markup;

impl Escaper for Markup {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        to.write_str(&xml(text))
    }
}

#[cfg(test)]
mod tests {
    use super::{ascii, visible, xml, xml_lines};

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(
            visible("a\u{1b}[31m\u{202e}b\n"),
            r"a\u{1b}[31m\u{202e}b\u{a}"
        );
        assert_eq!(visible("größe 形"), "größe 形");
        assert_eq!(ascii("größe\n"), r"gr\u{f6}\u{df}e\u{a}");
    }

    #[test]
    fn nothing_that_is_markup_is_left() {
        assert_eq!(
            xml("<script>'\"&\u{0}"),
            "&lt;script&gt;&#39;&quot;&amp;\\u{0}"
        );
    }

    #[test]
    fn lines_stay_apart_and_markup_is_none() {
        assert_eq!(xml_lines("a\n<b>\u{1b}").0, "a\n&lt;b&gt;\\u{1b}");
    }
}
