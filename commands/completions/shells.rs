//! Shells with completions: the script of each, and how it takes candidates.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use clap::{ArgMatches, Command, CommandFactory, builder::ValueParser};
use clap_complete::{
    engine::complete,
    env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh},
};

use crate::{
    cli::{Cli, with_subcommand, without_empty_variables},
    error_format, spelling,
    ui::shell_word,
};

/// Shells by name. Scripts of ours, beside that of Elvish, pass words without quotes on, and keep
/// values begun: behind `name=` comes no space.
pub(super) const SHELLS: Shells<'static> = Shells(&[
    &Scripted(&Bash, include_str!("../../completions/ovms.bash")),
    &Elvish,
    &Scripted(&Fish, include_str!("../../completions/ovms.fish")),
    &Scripted(&Powershell, include_str!("../../completions/ovms.ps1")),
    &Scripted(&Zsh, include_str!("../../completions/_ovms")),
]);

/// Shell with a script of ours.
struct Scripted(&'static dyn EnvCompleter, &'static str);

impl EnvCompleter for Scripted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn io::Write,
    ) -> io::Result<()> {
        script.write_all(self.1.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        mut words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn io::Write,
    ) -> io::Result<()> {
        if let Some(line) = BashLine::of_environment() {
            return line.write_complete(command, folder, answer);
        }
        // The word with the cursor is the last one, and an empty one may not have been passed.
        if let Some(at) = place_of_cursor() {
            words.resize(at + 1, OsString::new());
        }
        let typed = words.pop().unwrap_or_default();
        let mut words = spelling::normalized(command, words);
        let text = typed.to_str().unwrap_or_default();
        let hyphenated = with_hyphens(text);
        if hyphenated == text {
            words.push(typed);
            return self.0.write_complete(command, words, folder, answer);
        }
        // The shell compares candidates with the word at the cursor as it is typed.
        words.push(hyphenated.clone().into());
        let mut found = Vec::new();
        self.0.write_complete(command, words, folder, &mut found)?;
        answer.write_all(as_typed(&String::from_utf8_lossy(&found), &hyphenated, text).as_bytes())
    }
}

/// Returns the place of the word with the cursor, where the shell reports it.
fn place_of_cursor() -> Option<usize> {
    env::var("_CLAP_COMPLETE_INDEX").ok()?.parse().ok()
}

/// Spells the flag at the beginning of lines as it is typed: with underscores.
fn as_typed(lines: &str, hyphenated: &str, typed: &str) -> String {
    let end = typed.find('=').unwrap_or(typed.len());
    let lines = lines.split_inclusive('\n');
    let spelled = lines.map(|line| match line.strip_prefix(&hyphenated[..end]) {
        Some(rest) => format!("{}{rest}", &typed[..end]),
        None => line.to_owned(),
    });
    spelled.collect()
}

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
    fn write_complete(
        mut self,
        command: &mut Command,
        folder: Option<&Path>,
        answer: &mut dyn io::Write,
    ) -> io::Result<()> {
        // bash replaces the word, so that it may get another spelling.
        self.kept = with_hyphens(&self.kept);
        let typed = self.words.pop().unwrap_or_default();
        self.words.push(with_hyphens(&typed));
        let words = self.words.iter().map(Into::into).collect();
        let words = spelling::normalized(command, words);
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

/// Returns a word with hyphens in the flag that it may begin with.
fn with_hyphens(word: &str) -> String {
    match word.split_at(word.find('=').unwrap_or(word.len())) {
        (name, value) if name.starts_with("--") => spelling::hyphenated(name) + value,
        _ => word.to_owned(),
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

/// Arguments of the subcommand that is being typed.
pub(super) struct Line(ArgMatches);

impl Line {
    /// Parses the words that a shell's script has passed on.
    pub(super) fn read() -> Option<Self> {
        Self::of(match BashLine::of_environment() {
            Some(line) => line.words.into_iter().map(Into::into).collect(),
            None => {
                let words = env::args_os().skip_while(|it| it != "--").skip(1);
                let mut words: Vec<OsString> = words.collect();
                let least = place_of_cursor().map_or(0, |at| at + 1);
                words.resize(words.len().max(least), OsString::new());
                words
            }
        })
    }

    fn of(words: Vec<OsString>) -> Option<Self> {
        let (words, _) = error_format::taken(words);
        let words = words.into_iter().map(at_home).collect();
        let root = lenient(without_empty_variables(Cli::command())).ignore_errors(true);
        let words = spelling::normalized(&root, with_subcommand(words));
        let mut matches = root.try_get_matches_from(words).ok()?;
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

/// Returns a word whose `~` the shell expands only when the line is run.
fn at_home(word: OsString) -> OsString {
    let rest = word.to_str().and_then(|word| word.strip_prefix("~/"));
    match (rest, env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest).into(),
        _ => word,
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
    use super::{BashLine, Line, as_typed, split};

    #[test]
    fn a_flag_is_completed_in_the_spelling_that_is_typed() {
        for (typed, found, expected) in [
            (
                "--rest_p",
                "--rest-port\tPort\n--quiet",
                "--rest_port\tPort\n--quiet",
            ),
            (
                "--log_level=D",
                "--log-level=DEBUG:d-e\n",
                "--log_level=DEBUG:d-e\n",
            ),
            (
                "--log_level=",
                "--log-level=A\n--log-level=B",
                "--log_level=A\n--log_level=B",
            ),
        ] {
            let hyphenated = typed.replace('_', "-");
            assert_eq!(as_typed(found, &hyphenated, typed), expected);
        }
    }

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
        let typed = line("ovms --config-path c.json --model-name ");
        assert_eq!(typed.text("config_path"), Some("c.json"));
        let typed = line("ovms --error-format json infer m");
        assert_eq!(typed.text("model"), Some("m"));
    }
}
