//! Parsed text after the help of a command.
//!
//! Paragraphs are separated by blank lines. One whose first line ends in a colon is a section of
//! verbatim lines; `Exit codes:` and `Environment:` are sections of every manual; the rest extends
//! the description.

use clap::Command;

/// Texts, by their place in a page.
#[derive(Debug, Default)]
pub(super) struct After {
    /// Paragraphs without a heading.
    pub(super) description: Vec<String>,
    /// Sections in their order.
    pub(super) sections: Vec<(String, Block)>,
    /// Exit codes and their meanings.
    pub(super) codes: Vec<(String, String)>,
    /// Texts about variables.
    pub(super) environment: Vec<String>,
}

/// Contents of a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Verbatim lines.
    Lines(Vec<String>),
    /// Wrapped text.
    Text(String),
}

impl After {
    /// Parses the text after the long help of a command.
    pub(super) fn read(command: &Command) -> Self {
        let long = command.get_after_long_help();
        let text = long.or_else(|| command.get_after_help());
        let mut after = Self::default();
        // Without colours.
        let text = text.map(ToString::to_string).unwrap_or_default();
        for paragraph in text.split("\n\n").filter(|it| !it.trim().is_empty()) {
            after.take(paragraph);
        }
        after
    }

    fn take(&mut self, paragraph: &str) {
        let joined = || paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = paragraph.lines();
        let first = lines.next().unwrap_or_default();
        let block: Vec<&str> = lines.collect();
        let is_indented = |lines: &[&str]| lines.iter().all(|line| line.starts_with(' '));
        if let Some(rest) = joined().strip_prefix("Exit codes: ") {
            self.codes = codes(rest);
        } else if let Some(rest) = joined().strip_prefix("Environment: ") {
            self.environment.push(rest.to_owned());
        } else if let (Some(heading), true) = (first.strip_suffix(':'), !block.is_empty()) {
            let block = match is_indented(&block) {
                true => Block::Lines(unindented(&block)),
                false => Block::Text(block.join(" ")),
            };
            self.sections.push((heading.to_owned(), block));
        } else {
            self.description.push(joined());
        }
    }
}

/// Parses `0 done, 1 no such file, or none at all, 64 usage.`: a code is a number after a comma, a
/// semicolon, or nothing.
fn codes(text: &str) -> Vec<(String, String)> {
    let mut codes: Vec<(String, String)> = Vec::new();
    for word in text.split_whitespace() {
        let is_code = word.chars().all(|it| it.is_ascii_digit())
            && codes
                .last()
                .is_none_or(|(_, text)| text.ends_with([',', ';', '.']));
        match codes.last_mut() {
            Some((_, text)) if !is_code => {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(word);
            }
            _ => codes.push((word.to_owned(), String::new())),
        }
    }
    for (_, text) in &mut codes {
        let length = text.trim_end_matches([',', ';', '.']).len();
        text.truncate(length);
    }
    codes
}

/// Removes the common indent of all lines.
fn unindented(lines: &[&str]) -> Vec<String> {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line[least..].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::{After, Block};

    #[test]
    fn paragraphs_go_where_manuals_have_them() {
        let text = "Two lines\nof text.\n\nEnvironment: API_KEY is\nused.\n\nExamples:\n  ovms a\n    \
                    b\n\nExit codes: 0 done, 1 no file,\nor 2 of them; 64 usage.";
        let after = After::read(&Command::new("x").after_help(text));
        assert_eq!(after.description, ["Two lines of text."]);
        assert_eq!(after.environment, ["API_KEY is used."]);
        let lines = ["ovms a", "  b"].map(str::to_owned).to_vec();
        assert_eq!(
            after.sections,
            [("Examples".to_owned(), Block::Lines(lines))]
        );
        let codes = [
            ("0", "done"),
            ("1", "no file, or 2 of them"),
            ("64", "usage"),
        ];
        assert_eq!(
            after.codes,
            codes.map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }
}
