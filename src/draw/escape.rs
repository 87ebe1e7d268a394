//! Names as parts of other texts.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns how many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Returns a text without characters that take no column of their own: those are written as in
/// `\u{7}`, so that a name can neither steer a terminal nor hide.
pub(super) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match character.width() {
            Some(1..) => visible.push(character),
            _ => visible.extend(character.escape_unicode()),
        }
    }
    visible
}

/// Writes characters that are not ASCII as in `\u{e4}`.
pub(super) fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            ascii.extend(character.escape_unicode());
        }
    }
    ascii
}

/// Writes a text as content or attribute of XML and HTML. What XML has no place for becomes a
/// visible escape.
#[must_use]
pub fn xml(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::{ascii, visible, xml};

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(
            visible("a\u{1b}[31m\u{202e}b\n"),
            r"a\u{1b}[31m\u{202e}b\u{a}"
        );
        assert_eq!(visible("größe 形"), "größe 形");
        assert_eq!(ascii("größe"), r"gr\u{f6}\u{df}e");
    }

    #[test]
    fn nothing_that_is_markup_is_left() {
        assert_eq!(
            xml("<script>'\"&\u{0}"),
            "&lt;script&gt;&#39;&quot;&amp;\\u{0}"
        );
    }
}
