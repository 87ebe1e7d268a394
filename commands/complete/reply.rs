//! Format of the response to the scripts: a line with the kind, and a line per name.
//!
//! The first line is `names`, or `inputs` if no space is to follow, and the number of characters
//! in the word before the value. Each further line is a name, and a description after a tab; bash
//! shows none and gets none.

use std::borrow::Cow;

use super::{
    names::{Name, Names},
    position::Position,
    words::Quote,
};
use crate::ui;

/// Characters besides letters and digits with no special meaning to bash within a word.
const PLAIN: &str = "_-./:=@%+,";

/// Form of the typed word and of the names to offer.
#[derive(Debug)]
pub(super) enum Typed {
    /// The shell quotes by itself, and names stand for the value alone.
    Plain,
    /// Names stand for what comes after the last character that ends a word.
    Bash {
        word: String,
        quote: Quote,
        breaks: String,
    },
    /// Names stand for the whole word.
    Powershell,
}

/// Writes the answer; `None` if nothing is left of it.
pub(super) fn write(position: &Position, names: Names, typed: &Typed) -> Option<String> {
    let (kind, end) = match names.are_inputs {
        true => ("inputs", "="),
        false => ("names", ""),
    };
    let mut text = format!("{kind} {}\n", position.head.chars().count());
    let first = text.len();
    for Name { name, about } in names.names {
        // Nothing that steers a terminal gets there, and what looks like a flag cannot be typed.
        if name.is_empty() || name.starts_with('-') || name.chars().any(ui::steers) {
            continue;
        }
        let value = format!("{name}{end}");
        match typed {
            Typed::Plain => text.extend([&value, "\t", &ui::visible(&about), "\n"]),
            Typed::Powershell => {
                let word = format!("{}{value}", position.head);
                let word = powershell(&word);
                text.extend([&word, "\t", &ui::visible(&about), "\n"]);
            }
            Typed::Bash {
                word,
                quote,
                breaks,
            } => {
                if let Some(rest) = bash(position, &value, word, *quote, breaks) {
                    text.extend([&rest, "\n"]);
                }
            }
        }
    }
    (text.len() > first).then_some(text)
}

/// Returns the insertion of bash after the last character that ends a word.
fn bash(
    position: &Position,
    value: &str,
    typed: &str,
    quote: Quote,
    breaks: &str,
) -> Option<String> {
    if !value.starts_with(&position.value) {
        return None;
    }
    match quote {
        Quote::None => {
            let kept = unquoted_breaks(typed, breaks);
            let whole = format!("{}{}", position.head, backslashed(value));
            whole.strip_prefix(&typed[..kept]).map(str::to_owned)
        }
        // Only if the quotes are around the value, or the whole word.
        Quote::Single | Quote::Double => {
            let mark = if quote == Quote::Single { '\'' } else { '"' };
            let (before, _) = typed.split_once(mark)?;
            let inside = match before {
                "" => format!("{}{value}", position.head),
                head if head == position.head => value.to_owned(),
                _ => return None,
            };
            match quote {
                // Nothing keeps the history from being put in place of this one.
                Quote::Double if value.contains('!') => None,
                Quote::Double => Some(inside.chars().flat_map(in_double).collect()),
                _ => (!inside.contains('\'')).then_some(inside),
            }
        }
    }
}

/// Returns the length of a word up to the last character in it that ends a word for bash.
fn unquoted_breaks(typed: &str, breaks: &str) -> usize {
    let mut kept = 0;
    let mut characters = typed.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if breaks.contains(character) {
            kept = at + character.len_utf8();
        }
    }
    kept
}

/// Writes a text as one word for bash.
fn backslashed(text: &str) -> String {
    let quoted = text.chars().flat_map(|character| {
        let is_plain = character.is_ascii_alphanumeric()
            || PLAIN.contains(character)
            || (!character.is_ascii() && !character.is_whitespace());
        let backslash = (!is_plain).then_some('\\');
        backslash.into_iter().chain([character])
    });
    quoted.collect()
}

fn in_double(character: char) -> impl Iterator<Item = char> {
    let backslash = matches!(character, '"' | '\\' | '$' | '`').then_some('\\');
    backslash.into_iter().chain([character])
}

/// Writes a text as one word for PowerShell.
fn powershell(text: &str) -> Cow<'_, str> {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./:=".contains(it);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    // All of these end what an apostrophe begins.
    let is_quote = |it: &char| matches!(it, '\'' | '\u{2018}'..='\u{201b}');
    let doubled = text
        .chars()
        .flat_map(|it| is_quote(&it).then_some(it).into_iter().chain([it]));
    Cow::Owned(format!("'{}'", doubled.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::{Typed, backslashed, powershell, write};
    use crate::complete::{
        names::{Name, Names},
        position::{self, Position},
        words::Line,
    };

    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn names(names: &[&str], are_inputs: bool) -> Names {
        let name = |name: &&str| Name {
            name: (*name).to_owned(),
            about: "FP32\u{1b}".to_owned(),
        };
        Names {
            are_inputs,
            names: names.iter().map(name).collect(),
        }
    }

    fn at(line: &Line) -> Position {
        let words = line.words.iter().map(Into::into).collect();
        position::find(words, line.at).expect("the cursor is in an argument")
    }

    /// Returns the insertion of bash after the last character that ends a word.
    fn inserted(before: &str, offered: &[&str]) -> String {
        let line = Line::read(before, "");
        let position = at(&line);
        let are_inputs = position.argument == "inputs";
        let typed = Typed::Bash {
            word: line.typed,
            quote: line.quote,
            breaks: BREAKS.to_owned(),
        };
        write(&position, names(offered, are_inputs), &typed).unwrap_or_default()
    }

    #[test]
    fn bash_gets_the_end_of_the_word_as_it_is_typed() {
        for (before, offered, expected) in [
            ("ovms infer ", &["a", "b"][..], "names 0\na\nb\n"),
            ("ovms infer a", &["ab", "ba"], "names 0\nab\n"),
            ("ovms infer b", &["a"], ""),
            ("ovms infer ", &["a b", "c$d"], "names 0\na\\ b\nc\\$d\n"),
            ("ovms infer a:", &["a:b"], "names 0\nb\n"),
            ("ovms infer a\\ ", &["a b"], "names 0\na\\ b\n"),
            ("ovms infer m -i ", &["x", "y:0"], "inputs 0\nx=\ny:0=\n"),
            ("ovms infer m --input=x", &["xy"], "inputs 8\nxy=\n"),
            ("ovms infer m --input ", &["x"], "inputs 0\nx=\n"),
            ("ovms infer 'a ", &["a b", "a 'c'"], "names 0\na b\n"),
            ("ovms infer \"a ", &["a $b"], "names 0\na \\$b\n"),
            ("ovms infer \"a", &["a!!", "a`b"], "names 0\na\\`b\n"),
            ("ovms infer m --output-name='", &["a b"], "names 14\na b\n"),
            ("ovms infer 'm' --output-name ", &["a"], "names 0\na\n"),
        ] {
            assert_eq!(inserted(before, offered), expected, "{before}");
        }
    }

    #[test]
    fn names_that_no_line_can_have_are_left_out() {
        let odd = ["", "-flag", "\u{1b}[31m", "two\nlines", "\u{202e}x"];
        assert_eq!(inserted("ovms infer ", &odd), "");
        let line = Line::read("ovms infer ", "");
        assert_eq!(write(&at(&line), names(&odd, false), &Typed::Plain), None);
    }

    #[test]
    fn other_shells_get_descriptions_and_power_shell_whole_words() {
        let line = Line::read("ovms infer m --input=", "");
        let position = at(&line);
        let of = |typed| write(&position, names(&["a b", "c"], true), &typed).unwrap();
        let about = r"FP32\u{1b}";
        assert_eq!(
            of(Typed::Plain),
            format!("inputs 8\na b=\t{about}\nc=\t{about}\n")
        );
        assert_eq!(
            of(Typed::Powershell),
            format!("inputs 8\n'--input=a b='\t{about}\n--input=c=\t{about}\n")
        );
    }

    #[test]
    fn quoting_leaves_no_character_that_means_something() {
        assert_eq!(backslashed("a/b.c-d_1:0"), "a/b.c-d_1:0");
        assert_eq!(backslashed("größe"), "größe");
        assert_eq!(
            backslashed("~#!*?[](){}<>|&;`'\"\\ "),
            r#"\~\#\!\*\?\[\]\(\)\{\}\<\>\|\&\;\`\'\"\\\ "#
        );
        assert_eq!(powershell("a/b:0"), "a/b:0");
        assert_eq!(powershell("it's $x"), "'it''s $x'");
        assert_eq!(powershell("a\u{2019}b"), "'a\u{2019}\u{2019}b'");
    }
}
