//! Line of bash: its words, and what bash replaces when a key completes the last one.

use std::{env, io, path::Path};

use clap::Command;
use clap_complete::engine::complete;

use crate::ui::shell_word;

/// Mark of the cursor: from a private range of Unicode, so that nobody types it.
const MARK: char = '\u{e000}';

/// Line up to the cursor.
#[derive(Debug)]
pub(super) struct BashLine {
    /// Words without quotes; the last one has the cursor at its end.
    pub(super) words: Vec<String>,
    /// Beginning of the last word that bash leaves as it is.
    kept: String,
    /// Quote that is open at the cursor, or nothing.
    quote: &'static str,
}

impl BashLine {
    /// Reads the line that the script of bash has passed on.
    pub(super) fn of_environment() -> Option<Self> {
        Self::read(&env::var("_OVMS_LINE").ok()?, &env::var("_OVMS_WORD").ok()?)
    }

    /// Reads a line that ends with the text that bash replaces: the last word, from the last open
    /// quote, or the last character that bash cuts words at.
    fn read(line: &str, replaced: &str) -> Option<Self> {
        let (words, quote) = split(line)?;
        let (mut before, _) = split(line.strip_suffix(replaced)?)?;
        Some(Self {
            words,
            kept: before.pop()?,
            quote,
        })
    }

    /// Writes what bash may insert, a line each.
    pub(super) fn write_complete(
        &self,
        command: &mut Command,
        folder: Option<&Path>,
        answer: &mut dyn io::Write,
    ) -> io::Result<()> {
        let words = self.words.iter().map(Into::into).collect();
        for candidate in complete(command, words, self.words.len() - 1, folder)? {
            if let Some(text) = self.insertion(&candidate.get_value().to_string_lossy()) {
                writeln!(answer, "{text}")?;
            }
        }
        Ok(())
    }

    /// Returns the text to insert for a word, quoted as the line goes on.
    fn insertion(&self, word: &str) -> Option<String> {
        let rest = word.strip_prefix(&self.kept)?;
        match self.quote {
            "'" => (!rest.contains('\'')).then(|| rest.to_owned()),
            // Nothing keeps the history from being put in place of this one.
            "\"" if rest.contains('!') => None,
            "\"" => {
                let escaped = |text: String, it: &str| text.replace(it, &format!("\\{it}"));
                Some(
                    ["\\", "\"", "$", "`"]
                        .into_iter()
                        .fold(rest.to_owned(), escaped),
                )
            }
            _ if rest.is_empty() => Some(String::new()),
            _ => Some(shell_word(rest)),
        }
    }
}

/// Splits a line into words, and finds the quote that is open at its end.
fn split(line: &str) -> Option<(Vec<String>, &'static str)> {
    ["", "'", "\""].into_iter().find_map(|quote| {
        let mut words = shlex::split(&format!("{line}{MARK}{quote}"))?;
        // Not so within a comment.
        let last = words.last()?.strip_suffix(MARK)?.to_owned();
        *words.last_mut()? = last;
        Some((words, quote))
    })
}

#[cfg(test)]
mod tests {
    use super::{BashLine, split};

    #[test]
    fn words_are_those_of_the_shell() {
        let (words, quote) = split(r#"ovms infer 'a b' "c\"d\e" x\ y --input=f:o"#).unwrap();
        let expected = ["ovms", "infer", "a b", r#"c"d\e"#, "x y", "--input=f:o"];
        assert_eq!((&words[..], quote), (&expected.map(str::to_owned)[..], ""));
        for (line, last, quote) in [
            ("ovms infer ", "", ""),
            ("ovms 'a b", "a b", "'"),
            ("ovms \"a $b", "a $b", "\""),
            ("ovms \"it's", "it's", "\""),
            ("ovms a\\", "a", ""),
            ("ovms ''", "", ""),
            ("", "", ""),
        ] {
            let (words, open) = split(line).unwrap();
            assert_eq!(
                (words.last().unwrap().as_str(), open),
                (last, quote),
                "{line}"
            );
        }
        assert_eq!(split("ovms # infer"), None);
    }

    #[test]
    fn a_word_is_inserted_as_the_line_goes_on() {
        for (line, replaced, word, expected) in [
            ("ovms infer ", "", "dummy", Some("dummy")),
            ("ovms infer ", "", "a b", Some("'a b'")),
            ("ovms infer a\\ ", "a\\ ", "a b", Some("'a b'")),
            ("ovms infer ", "", "x;$(id)", Some("'x;$(id)'")),
            ("ovms infer a:", "", "a:b", Some("b")),
            ("ovms infer b", "b", "a", Some("a")),
            ("ovms infer a:", "", "b", None),
            ("ovms infer m -i ", "", "y:0=", Some("y:0=")),
            ("ovms infer m -i ", "", "a b=", Some("'a b='")),
            ("ovms infer m --input=x", "x", "--input=xy=", Some("xy=")),
            ("ovms infer m -i b=@p", "@p", "b=@p.png", Some("@p.png")),
            ("ovms infer 'a ", "a ", "a b", Some("a b")),
            ("ovms infer 'a ", "a ", "a 'c'", None),
            (
                "ovms infer \"a",
                "a",
                "a $b`\"\\",
                Some("a \\$b\\`\\\"\\\\"),
            ),
            ("ovms infer \"a", "a", "a!!", None),
            (
                "ovms infer m --output-name='",
                "",
                "--output-name=a b",
                Some("a b"),
            ),
        ] {
            let text = BashLine::read(line, replaced).unwrap().insertion(word);
            assert_eq!(text.as_deref(), expected, "{line} {word}");
        }
    }
}
