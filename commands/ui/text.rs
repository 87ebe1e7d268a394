//! Text that is fitted to the width of a terminal.

use unicode_width::UnicodeWidthStr;

/// The width that is assumed where none is told.
const USUAL: usize = 80;

/// The width below which nothing is broken into lines.
const NARROWEST: usize = 40;

/// Returns the columns of the terminal that stdout is, if it is one for drawing.
pub(crate) fn columns() -> Option<usize> {
    (super::Look::of_stdout() == super::Look::Boxed)
        .then(|| comfy_table::Table::new().width().map(usize::from))
        .flatten()
        .filter(|width| *width >= NARROWEST)
}

/// Returns the columns that a picture on stdout may have: those of the terminal, up to the usual ones.
pub(crate) fn picture_columns() -> usize {
    let width = comfy_table::Table::new().width().map(usize::from);
    let width = width.filter(|width| *width >= NARROWEST);
    width.map_or(USUAL, |width| width.min(USUAL))
}

/// Cuts a line to the columns of the terminal, so that it takes one.
pub(crate) fn clipped(line: &str) -> String {
    // Room for the spinner before it, and for the `^C` of whoever interrupts behind it.
    let room = comfy_table::Table::new()
        .width()
        .map_or(USUAL, usize::from)
        .saturating_sub(5);
    if line.width() <= room {
        return line.to_owned();
    }
    let mut text = String::new();
    for character in line.chars() {
        if text.width() + 1 >= room {
            break;
        }
        text.push(character);
    }
    text.push('…');
    text
}

/// Breaks a text at blanks into lines of so many columns at most; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else {
        return vec![text.to_owned()];
    };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        if last.is_empty() {
            last.push_str(word);
        } else if last.width() + 1 + word.width() <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Returns how much there is of something: `1 model`, `2 models`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Puts words together as in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, listed, wrapped};

    #[test]
    fn text_is_broken_at_blanks() {
        assert_eq!(wrapped("a bb ccc", None), ["a bb ccc"]);
        assert_eq!(wrapped("a bb ccc", Some(4)), ["a bb", "ccc"]);
        assert_eq!(wrapped("a longword b", Some(4)), ["a", "longword", "b"]);
        assert_eq!(wrapped("", Some(4)), [""]);
    }

    #[test]
    fn numbers_and_lists_read_as_sentences_do() {
        assert_eq!(counted(1, "model"), "1 model");
        assert_eq!(counted(0, "model"), "0 models");
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
