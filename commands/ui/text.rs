//! Text fitted to the width of a terminal.

use std::{borrow::Cow, time::Duration};

use comfy_table::Table;
use unicode_width::UnicodeWidthStr;

use super::Look;

/// Default width if the terminal reports none.
const USUAL: usize = 80;

/// Maximum number of names in a hint.
const MAX_NAMES: usize = 20;

/// Minimum width for breaking lines.
pub(super) const NARROWEST: usize = 40;

/// Returns the width of stdout in columns, if it is a terminal that lines can be broken for.
pub(crate) fn columns() -> Option<usize> {
    columns_for(Look::of_stdout())
}

fn columns_for(look: Look) -> Option<usize> {
    (look != Look::Plain).then(terminal).flatten()
}

/// Returns the width of the terminal, if it is one that lines can be broken for.
fn terminal() -> Option<usize> {
    let width = Table::new().width().map(usize::from);
    width.filter(|width| *width >= NARROWEST)
}

/// Returns the width of an image on stdout in columns: that of the terminal, up to the default one.
pub(crate) fn image_columns() -> usize {
    terminal().map_or(USUAL, |width| width.min(USUAL))
}

/// Cuts a line to the width of the terminal.
pub(crate) fn clipped(line: &str) -> String {
    // Room for the spinner before it, and for the `^C` of whoever interrupts behind it.
    let room = Table::new()
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

/// Breaks a text at blanks into lines of limited width; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, columns: Option<usize>) -> Vec<String> {
    match columns {
        Some(columns) => broken(text, columns, 0),
        None => vec![text.to_owned()],
    }
}

/// Breaks a line in the same way, with further lines indented.
fn broken(line: &str, width: usize, indent: usize) -> Vec<String> {
    // The blanks at the beginning stay with the first word.
    let start = line.len() - line.trim_start().len();
    let (blanks, words) = line.split_at(start);
    let mut words = words.split(' ');
    let mut lines = vec![blanks.to_owned() + words.next().unwrap_or_default()];
    for word in words {
        let last = lines.last_mut().expect("there is one from the start");
        match last.width() + 1 + word.width() <= width {
            true => last.extend([" ", word]),
            false => lines.push(" ".repeat(indent) + word),
        }
    }
    lines
}

/// Breaks the lines of a text between words at the width of the terminal; continuation lines are
/// indented.
pub(crate) fn filled(text: &str, look: Look) -> String {
    match columns_for(look) {
        Some(width) => filled_to(text, width),
        None => text.to_owned(),
    }
}

fn filled_to(text: &str, width: usize) -> String {
    const INDENT: usize = 4;
    let lines = text.lines().flat_map(|line| broken(line, width, INDENT));
    lines.map(|line| line + "\n").collect()
}

/// Returns a number with its noun: `1 model`, `2 models`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns a number of items with the time taken and the rate: `6 steps in 0.50 s, 12.0 steps/s`.
pub(super) fn pace(number: usize, noun: &str, took: Duration) -> String {
    let (items, rate) = (counted(number, noun), rate(number, noun, took));
    format!("{items} in {:.2} s, {rate}", took.as_secs_f64())
}

/// Returns the rate of items per second: `12.0 steps/s`.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
pub(super) fn rate(number: usize, noun: &str, took: Duration) -> String {
    let rate = number as f64 / took.as_secs_f64().max(1e-9);
    let places = if rate < 100.0 { 1 } else { 0 };
    format!("{rate:.places$} {noun}s/s")
}

/// Lists names in backticks, up to a maximum number of them.
pub(crate) fn quoted_names<T: AsRef<str>>(names: &[T]) -> String {
    let shown = names.iter().take(MAX_NAMES);
    let mut shown: Vec<String> = shown.map(|name| format!("`{}`", name.as_ref())).collect();
    if names.len() > MAX_NAMES {
        shown.push(format!("and {} more", names.len() - MAX_NAMES));
    }
    shown.join(", ")
}

/// Joins words as in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

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

/// Words that begin a line of a message, with their colours.
const COLOURED: [(&str, &str); 10] = [
    ("error parsing options", "1;31"),
    ("error", "1;31"),
    ("caused by:", "31"),
    ("warning", "1;33"),
    ("not checked", "33"),
    ("hint:", "1;36"),
    ("note:", "1;36"),
    ("= help:", "1;36"),
    ("= note:", "1;36"),
    ("-->", "34"),
];

/// Returns a message with colours for a terminal: the words that begin its lines, and the marks below a line
/// of a file. Control characters in it are escaped already.
pub(crate) fn coloured(text: &str) -> String {
    text.split_inclusive('\n').map(coloured_line).collect()
}

fn coloured_line(line: &str) -> String {
    let painted = |text: &str, colour: &str| format!("\x1b[{colour}m{text}\x1b[0m");
    let bare = line.trim_start().trim_start_matches("| ");
    let before = &line[..line.len() - bare.len()];
    // A word that goes on, as in `errors`, is another one.
    let begins = |word: &str| {
        let rest = bare.strip_prefix(word);
        rest.is_some_and(|rest| word.ends_with([':', '>']) || rest.starts_with([':', '[', ' ']))
    };
    if let Some((word, colour)) = COLOURED.iter().find(|(word, _)| begins(word)) {
        let word = &bare[..word.len()];
        return format!("{before}{}{}", painted(word, colour), &bare[word.len()..]);
    }
    if let Some((bar, marks)) = line.split_once('|')
        && !marks.trim().is_empty()
        && bar.trim().is_empty()
        && marks.trim().chars().all(|mark| mark == '^')
    {
        let blank = &marks[..marks.len() - marks.trim_start().len()];
        let end = &marks[marks.trim_end().len()..];
        return format!("{bar}|{blank}{}{end}", painted(marks.trim(), "1;31"));
    }
    line.to_owned()
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
    use std::time::Duration;

    use super::{
        counted, filled_to, listed, pace, shell_word, visible, visible_below, visible_lines,
        wrapped,
    };

    #[test]
    fn the_words_that_begin_a_line_have_colours() {
        let text = "error: no `error: x`\n  caused by: y\nhint: z\nerrors are plain\n   |   ^^^\n --> a:1\n";
        insta::assert_snapshot!(super::coloured(text).replace('\u{1b}', "ESC"), @r"
        ESC[1;31merrorESC[0m: no `error: x`
          ESC[31mcaused by:ESC[0m y
        ESC[1;36mhint:ESC[0m z
        errors are plain
           |   ESC[1;31m^^^ESC[0m
         ESC[34m-->ESC[0m a:1
        ");
    }

    #[test]
    fn text_is_broken_at_blanks() {
        assert_eq!(wrapped("a bb ccc", None), ["a bb ccc"]);
        assert_eq!(wrapped("a bb ccc", Some(4)), ["a bb", "ccc"]);
        assert_eq!(wrapped("a longword b", Some(4)), ["a", "longword", "b"]);
        assert_eq!(wrapped("", Some(4)), [""]);
    }

    #[test]
    fn the_pace_is_reported() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(
            pace(100, "step", seconds(0.25)),
            "100 steps in 0.25 s, 400 steps/s"
        );
        assert_eq!(
            pace(1, "answer", seconds(0.3)),
            "1 answer in 0.30 s, 3.3 answers/s"
        );
    }

    #[test]
    fn numbers_and_lists_read_as_sentences_do() {
        assert_eq!(counted(1, "model"), "1 model");
        assert_eq!(counted(0, "model"), "0 models");
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn lines_end_between_words() {
        let text = "Path: one → two → three\n  short line\n";
        assert_eq!(
            filled_to(text, 12),
            "Path: one →\n    two →\n    three\n  short line\n"
        );
        assert_eq!(filled_to(text, 80), text);
        assert_eq!(filled_to("", 80), "");
    }

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
