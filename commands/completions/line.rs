//! Arguments of the line that is being typed.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use clap::{ArgMatches, Command, CommandFactory, builder::ValueParser};

use super::bash::BashLine;
use crate::cli::{Cli, with_subcommand, without_empty_variables};

/// Arguments of the subcommand that is being typed.
pub(super) struct Line(ArgMatches);

impl Line {
    /// Parses the words that a shell's script has passed on.
    pub(super) fn read() -> Option<Self> {
        Self::of(match BashLine::of_environment() {
            Some(line) => line.words.into_iter().map(Into::into).collect(),
            None => env::args_os().skip_while(|it| it != "--").skip(1).collect(),
        })
    }

    fn of(words: Vec<OsString>) -> Option<Self> {
        let root = lenient(without_empty_variables(Cli::command())).ignore_errors(true);
        let mut matches = root.try_get_matches_from(with_subcommand(words)).ok()?;
        while let Some((_, inner)) = matches.remove_subcommand() {
            matches = inner;
        }
        Some(Self(matches))
    }

    /// Returns the last value of an argument, from the line or the environment.
    pub(super) fn text(&self, argument: &str) -> Option<&str> {
        self.texts(argument).last()
    }

    /// Returns the values of an argument; none if the subcommand does not have it.
    pub(super) fn texts(&self, argument: &str) -> impl Iterator<Item = &str> {
        let values = self.0.try_get_raw(argument).ok().flatten();
        values.into_iter().flatten().filter_map(OsStr::to_str)
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

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn arguments_are_known_on_a_line_that_is_not_complete() {
        let line = |text: &str| Line::of(text.split(' ').map(Into::into).collect()).unwrap();
        let typed = line("ovms infer --top x -i a=1 m -i  --url h:1");
        assert_eq!(typed.text("model"), Some("m"));
        assert_eq!(typed.text("url"), Some("h:1"));
        assert_eq!(typed.text("model_version"), None);
        assert_eq!(typed.text("no_such_argument"), None);
        assert_eq!(typed.texts("inputs").collect::<Vec<_>>(), ["a=1", ""]);
        let typed = line("ovms -q pipeline show c.json n");
        assert_eq!(
            (typed.text("config"), typed.text("name")),
            (Some("c.json"), Some("n"))
        );
        let typed = line("ovms --config_path c.json --model_name ");
        assert_eq!(typed.text("config_path"), Some("c.json"));
    }
}
