//! Argument with the cursor, and the rest of the command line.
//!
//! The command line's own parser finds it: a marker is put at the cursor, and the argument
//! whose value contains the marker is the one.

use std::ffi::{OsStr, OsString};

use clap::{ArgMatches, Command, CommandFactory, builder::ValueParser};

use crate::cli::{Cli, with_subcommand, without_empty_variables};

/// Marker of the cursor: from a private range of Unicode, so that nobody types it.
const MARK: &str = "\u{e000}ovms\u{e001}";

/// Position of the cursor.
#[derive(Debug)]
pub(super) struct Position {
    /// Subcommands, as in `pipeline show`.
    pub(super) command: String,
    /// Id of the argument.
    pub(super) argument: String,
    /// Part of the word before the value: `--input=`, or empty.
    pub(super) head: String,
    /// Part of the value that is typed.
    pub(super) value: String,
    matches: ArgMatches,
}

/// Finds the argument with the word `at` as a value.
pub(super) fn find(mut words: Vec<OsString>, at: usize) -> Option<Position> {
    if at == 0 {
        return None;
    }
    // Some shells do not pass an empty word at the end.
    if words.len() <= at {
        words.resize(at + 1, OsString::new());
    }
    let word = words[at].to_str()?.to_owned();
    // A flag that is being typed.
    if word.starts_with('-') && !(word.starts_with("--") && word.contains('=')) {
        return None;
    }
    words[at].push(MARK);
    let root = lenient(without_empty_variables(Cli::command())).ignore_errors(true);
    let mut root = root.try_get_matches_from(with_subcommand(words)).ok()?;
    let (mut command, mut matches) = root.remove_subcommand()?;
    while let Some((name, inner)) = matches.remove_subcommand() {
        command = format!("{command} {name}");
        matches = inner;
    }
    let (argument, value) = marked(&matches)?;
    let head = word.strip_suffix(&value)?.to_owned();
    Some(Position {
        command,
        argument,
        head,
        value,
        matches,
    })
}

impl Position {
    /// Returns the last value of an argument, from the line or the environment.
    pub(super) fn text(&self, argument: &str) -> Option<&str> {
        self.texts(argument).last()
    }

    /// Returns the values of an argument except the one with the cursor.
    pub(super) fn texts(&self, argument: &str) -> impl Iterator<Item = &str> {
        raw(&self.matches, argument)
            .filter_map(OsStr::to_str)
            .filter(|value| !value.ends_with(MARK))
    }
}

/// Accepts any text as any value, so that a wrong one does not end the search.
fn lenient(command: Command) -> Command {
    command
        .mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.value_parser(ValueParser::os_string()),
            false => arg,
        })
        .mut_subcommands(lenient)
}

/// Finds the value with the marker.
fn marked(matches: &ArgMatches) -> Option<(String, String)> {
    matches.ids().find_map(|id| {
        let value = raw(matches, id.as_str()).find_map(|value| value.to_str()?.strip_suffix(MARK));
        Some((id.to_string(), value?.to_owned()))
    })
}

fn raw<'a>(matches: &'a ArgMatches, id: &str) -> impl Iterator<Item = &'a OsStr> + use<'a> {
    // Fails for names that the command does not have, and for groups of arguments.
    let values = matches.try_get_raw(id).ok().flatten();
    values.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Position, find};

    /// Finds the position of `|` in words.
    fn at(line: &[&str]) -> Option<Position> {
        let at = line.iter().position(|word| word.ends_with('|')).unwrap();
        let words = line.iter().map(|word| word.trim_end_matches('|').into());
        find(words.collect(), at)
    }

    fn argument(line: &[&str]) -> Option<String> {
        at(line).map(|it| format!("{}: {}: {}_{}", it.command, it.argument, it.head, it.value))
    }

    #[test]
    fn the_cursor_is_in_the_argument_that_the_parser_would_give_the_word_to() {
        for (line, expected) in [
            (&["ovms", "infer", "|"][..], "infer: model: _"),
            (&["./ovms", "infer", "du|"], "infer: model: _du"),
            (&["ovms", "-q", "infer", "du|"], "infer: model: _du"),
            (&["ovms", "infer", "--quiet", "|"], "infer: model: _"),
            (
                &["ovms", "infer", "--url", "h:1", "|", "--top", "x"],
                "infer: model: _",
            ),
            (&["ovms", "infer", "m", "-i", "|"], "infer: inputs: _"),
            (
                &["ovms", "infer", "m", "--input=x|"],
                "infer: inputs: --input=_x",
            ),
            (
                &[
                    "ovms",
                    "infer",
                    "--top",
                    "no number",
                    "--output-name",
                    "|",
                    "m",
                ],
                "infer: output_name: _",
            ),
            (
                &["ovms", "infer", "m", "--model-version", "|"],
                "infer: model_version: _",
            ),
            (
                &["ovms", "pipeline", "show", "c.json", "|"],
                "pipeline show: name: _",
            ),
            (
                &["ovms", "pipeline", "show", "|"],
                "pipeline show: config: _",
            ),
            (
                &["ovms", "graph", "run", "g", "-i", "a|"],
                "graph run: inputs: _a",
            ),
            (
                &["ovms", "--config_path", "c.json", "--model_name", "|"],
                "serve: model_name: _",
            ),
        ] {
            assert_eq!(argument(line).as_deref(), Some(expected), "{line:?}");
        }
    }

    #[test]
    fn flags_and_what_is_no_command_line_have_no_position() {
        for line in [
            &["ovms|"][..],
            &["ovms", "in|"],
            &["ovms", "infer", "-|"],
            &["ovms", "infer", "-i|"],
            &["ovms", "infer", "--inp|"],
            &["ovms", "infer", "--no-such-flag", "|"],
            &["ovms", "infer", "--help", "|"],
            &["ovms", "infer", "m", "n", "|"],
            &["ovms", "no-such-command", "|"],
        ] {
            assert_eq!(argument(line), None, "{line:?}");
        }
        assert!(find(Vec::<OsString>::new(), 3).is_none());
    }

    #[test]
    fn the_other_words_are_known() {
        let line = ["ovms", "infer", "-i", "a=1", "m", "-i", "|", "--url", "h:1"];
        let position = at(&line).unwrap();
        assert_eq!(position.text("model"), Some("m"));
        assert_eq!(position.text("url"), Some("h:1"));
        assert_eq!(position.text("model_version"), None);
        assert_eq!(position.text("no_such_argument"), None);
        assert_eq!(position.texts("inputs").collect::<Vec<_>>(), ["a=1"]);
    }
}
