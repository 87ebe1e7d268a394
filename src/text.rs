//! Texts that are cut to a length, for errors, logs, and tables.

/// Returns the beginning of a text, up to a number of characters.
pub fn first_chars(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Cuts a text to a number of characters; an ellipsis stands for the rest.
pub fn cut_chars(text: &str, max: usize) -> String {
    with_ellipsis(first_chars(text, max), text)
}

/// Cuts a text to a number of bytes, at the end of a character; an ellipsis stands for the rest.
pub fn cut_bytes(text: &str, max: usize) -> String {
    let mut ends = (0..=max.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    with_ellipsis(&text[..end.unwrap_or(0)], text)
}

/// Adds an ellipsis to the beginning of a text, unless it is all of it.
fn with_ellipsis(beginning: &str, text: &str) -> String {
    if beginning.len() < text.len() {
        format!("{beginning}…")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{cut_bytes, cut_chars, first_chars};

    #[test]
    fn only_a_text_that_is_too_long_is_cut() {
        assert_eq!(cut_bytes("", 0), "");
        assert_eq!(cut_bytes("abc", 4), "abc");
        assert_eq!(cut_bytes("abc", 3), "abc");
        assert_eq!(cut_bytes("abcd", 3), "abc…");
        assert_eq!(cut_bytes("a", 0), "…");
        assert_eq!(cut_chars("", 0), "");
        assert_eq!(cut_chars("abc", 4), "abc");
        assert_eq!(cut_chars("abc", 3), "abc");
        assert_eq!(cut_chars("abcd", 3), "abc…");
        assert_eq!(cut_chars("a", 0), "…");
    }

    #[test]
    fn characters_stay_whole() {
        // Each has two bytes.
        assert_eq!(cut_bytes("aüüü", 4), "aü…");
        assert_eq!(cut_bytes("aüüü", 5), "aüü…");
        assert_eq!(cut_bytes("aüüü", 7), "aüüü");
        assert_eq!(cut_bytes("ü", 1), "…");
        assert_eq!(cut_chars("aüüü", 3), "aüü…");
        assert_eq!(cut_chars("aüüü", 4), "aüüü");
    }

    #[test]
    fn a_beginning_has_no_ellipsis() {
        assert_eq!(first_chars("aüüü", 0), "");
        assert_eq!(first_chars("aüüü", 2), "aü");
        assert_eq!(first_chars("aüüü", 4), "aüüü");
        assert_eq!(first_chars("aüüü", 5), "aüüü");
    }
}
