//! Words of a line of bash, as its parser sees them: `COMP_WORDS` has them cut at `=` and `:` and
//! with their quotes.

/// Open quote at the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// None.
    None,
    /// `'`
    Single,
    /// `"`
    Double,
}

/// Line with the cursor in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Words without quotes; the one with the cursor only up to there.
    pub(super) words: Vec<String>,
    /// Index of the word with the cursor.
    pub(super) at: usize,
    /// Word with the cursor as typed, with quotes.
    pub(super) typed: String,
    /// Open quote at its end.
    pub(super) quote: Quote,
}

impl Line {
    /// Reads the text before and after the cursor.
    pub(super) fn read(before: &str, after: &str) -> Self {
        let (mut words, last) = split(before);
        let at = words.len();
        let (typed, quote) = match last {
            Some(last) => {
                words.push(last.text);
                (last.typed, last.quote)
            }
            None => {
                words.push(String::new());
                (String::new(), Quote::None)
            }
        };
        if quote == Quote::None {
            // What goes on right behind the cursor belongs to its word.
            let rest = after.find(char::is_whitespace).map(|end| &after[end..]);
            let (more, last) = split(rest.unwrap_or_default());
            words.extend(more);
            words.extend(last.map(|last| last.text));
        }
        Self {
            words,
            at,
            typed,
            quote,
        }
    }
}

/// Word at the end of a line.
struct Last {
    text: String,
    typed: String,
    quote: Quote,
}

/// Splits a line into its finished words and the last one.
fn split(line: &str) -> (Vec<String>, Option<Last>) {
    let mut words = Vec::new();
    let mut last: Option<Last> = None;
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        let quote = last.as_ref().map_or(Quote::None, |last| last.quote);
        if quote == Quote::None && character.is_whitespace() {
            words.extend(last.take().map(|last| last.text));
            continue;
        }
        let word = last.get_or_insert(Last {
            text: String::new(),
            typed: String::new(),
            quote,
        });
        word.typed.push(character);
        match (quote, character) {
            (Quote::None, '\'') => word.quote = Quote::Single,
            (Quote::None, '"') => word.quote = Quote::Double,
            (Quote::Single, '\'') | (Quote::Double, '"') => word.quote = Quote::None,
            (Quote::None | Quote::Double, '\\') => {
                let Some(next) = rest.next() else { break };
                word.typed.push(next);
                // Within quotes a backslash is one, but before these.
                if quote == Quote::Double && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.text.push('\\');
                }
                word.text.push(next);
            }
            _ => word.text.push(character),
        }
    }
    (words, last)
}

#[cfg(test)]
mod tests {
    use super::{Line, Quote};

    #[test]
    fn words_are_those_of_the_shell() {
        let line = Line::read(r#"ovms infer 'a b' "c\"d\e" x\ y --input=f:o"#, "");
        let words = ["ovms", "infer", "a b", r#"c"d\e"#, "x y", "--input=f:o"];
        assert_eq!(line.words, words);
        assert_eq!(line.at, 5);
        assert_eq!(line.typed, "--input=f:o");
    }

    #[test]
    fn the_word_at_the_cursor_may_be_empty_or_open() {
        for (before, words, typed, quote) in [
            ("ovms infer ", &["ovms", "infer", ""][..], "", Quote::None),
            ("ovms 'a b", &["ovms", "a b"], "'a b", Quote::Single),
            ("ovms \"a $b", &["ovms", "a $b"], "\"a $b", Quote::Double),
            ("ovms a\\", &["ovms", "a"], "a\\", Quote::None),
            ("ovms ''", &["ovms", ""], "''", Quote::None),
            ("", &[""], "", Quote::None),
        ] {
            let line = Line::read(before, "");
            assert_eq!(line.words, words, "{before}");
            assert_eq!(line.typed, typed, "{before}");
            assert_eq!(line.quote, quote, "{before}");
            assert_eq!(line.at, words.len() - 1, "{before}");
        }
    }

    #[test]
    fn what_stands_behind_the_cursor_counts_but_for_the_rest_of_its_word() {
        let line = Line::read("ovms infer du", "mmy --url 'h:1'");
        assert_eq!(line.words, ["ovms", "infer", "du", "--url", "h:1"]);
        assert_eq!(line.at, 2);
        let line = Line::read("ovms infer ", " --url h:1");
        assert_eq!(line.words, ["ovms", "infer", "", "--url", "h:1"]);
        assert_eq!(line.at, 2);
    }
}
