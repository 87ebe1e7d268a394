//! Spelling of the command line: `_` and `-` are equal in flags, whichever of them the help has, and most values are
//! UTF-8.

use std::{
    collections::HashMap,
    env,
    error::Error,
    ffi::{OsStr, OsString},
    num::{IntErrorKind, ParseFloatError, ParseIntError},
    os::unix::ffi::OsStrExt,
};

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Returns a name with hyphens in place of underscores.
pub(crate) fn hyphenated(name: &str) -> String {
    name.replace('_', "-")
}

/// Returns a word of the command line that is a flag, spelled as the flag itself.
pub(crate) fn spelled(word: &OsStr, long: &str) -> OsString {
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=');
    let mut spelled = OsString::from(format!("--{long}"));
    spelled.push(OsStr::from_bytes(value.map_or(&[], |at| &bytes[at..])));
    spelled
}

/// Spells the flags of a command line as their commands do, up to a `--`. What no command has stays as it is
/// typed, for the error.
pub(crate) fn normalized(command: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let mut known = HashMap::new();
    collect(command, &mut known);
    let flags = args.iter_mut().take_while(|arg| arg.as_os_str() != "--");
    for arg in flags {
        let text = arg.to_str().and_then(|text| text.strip_prefix("--"));
        let name = text.map(|text| text.split('=').next().unwrap_or_default());
        let long = name.and_then(|name| known.get(&hyphenated(name)));
        if let Some(long) = long {
            *arg = spelled(arg, long);
        }
    }
    args
}

/// Collects the flags of a command and its subcommands by their names with hyphens.
fn collect(command: &Command, known: &mut HashMap<String, String>) {
    for arg in command.get_arguments() {
        let names = arg.get_long().into_iter();
        let names = names.chain(arg.get_all_aliases().unwrap_or_default());
        for name in names.filter(|name| name.contains(['-', '_'])) {
            known.insert(hyphenated(name), name.to_owned());
        }
    }
    let inner = command.get_subcommands();
    inner.for_each(|inner| collect(inner, known));
}

/// Writes an error of the command line. A number that cannot be read is described in the words of the other errors, not
/// in those of the standard library.
pub(crate) fn rendered(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let Some(source) = error.source() else {
        return text;
    };
    let is_negative = matches!(
        error.get(ContextKind::InvalidValue),
        Some(ContextValue::String(value)) if value.starts_with('-')
    );
    let expected = match source
        .downcast_ref::<ParseIntError>()
        .map(ParseIntError::kind)
    {
        Some(IntErrorKind::PosOverflow) => "the number is too large",
        Some(IntErrorKind::NegOverflow) => "the number is too small",
        Some(_) if is_negative => "expected a whole number from 0 on",
        Some(_) => "expected a whole number",
        None if source.is::<ParseFloatError>() => "expected a number",
        None => return text,
    };
    match text.rsplit_once(&source.to_string()) {
        Some((before, after)) => format!("{before}{expected}{after}"),
        None => text,
    }
}

/// Takes hidden subcommands out of those that an error lists or suggests.
pub(crate) fn without_hidden(command: &Command, mut error: clap::Error) -> clap::Error {
    let is_shown = |name: &String| {
        let found = command.find_subcommand(name);
        found.is_none_or(|found| !found.is_hide_set())
    };
    for kind in [
        ContextKind::ValidSubcommand,
        ContextKind::SuggestedSubcommand,
    ] {
        let Some(ContextValue::Strings(mut names)) = error.remove(kind) else {
            continue;
        };
        names.retain(is_shown);
        if !names.is_empty() {
            error.insert(kind, ContextValue::Strings(names));
        }
    }
    // An empty list of tips is an empty line.
    let tips = error.get(ContextKind::Suggested);
    if matches!(tips, Some(ContextValue::StyledStrs(tips)) if tips.is_empty()) {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Flags whose values are not shown.
const SECRETS: [&str; 3] = ["--api-key", "--bearer", "--header"];

/// Returns which word or variable has bytes that are no text, and what to do with a file of such a name.
pub(crate) fn of_no_text(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::InvalidUtf8 {
        return None;
    }
    // Not the program itself, and more than one word if some of them may be so, as paths may.
    let are_so = |place: &usize| *place > 0 && args[*place].to_str().is_none();
    let places: Vec<usize> = (0..args.len()).filter(are_so).collect();
    let Some(&place) = places.first() else {
        let set = env::vars_os().filter(|(_, value)| value.to_str().is_none());
        let mut names = set.filter_map(|(name, _)| name.into_string().ok());
        let name = names.find(|name| name.starts_with("OVMS_"))?;
        return Some(format!("the environment variable {name} is not UTF-8"));
    };
    let is_secret = |word: &OsString| {
        let word = hyphenated(&word.to_string_lossy());
        SECRETS.iter().any(|flag| word.starts_with(flag))
    };
    let may_be_secret = |place: usize| is_secret(&args[place]) || is_secret(&args[place - 1]);
    if places.iter().any(|place| may_be_secret(*place)) {
        return None;
    }
    if let [_, _, ..] = places[..] {
        let words = places.iter().map(|place| args[*place].to_string_lossy());
        let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
        let text = words.join(" and ");
        return Some(format!(
            "{text} are not UTF-8, which only names of files may be"
        ));
    }
    let word = args[place].to_string_lossy();
    let of_file = match word.contains('@') {
        true => {
            ": a file of such a name is read from standard input, as with `-i @-.png < FILE`, or by a pattern, as \
             `-i '@DIR/*.png'`"
        }
        false => "",
    };
    Some(format!("`{word}` is not UTF-8{of_file}"))
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::{OsStr, OsString},
        os::unix::ffi::OsStrExt,
    };

    use clap::{Arg, Command, error::ErrorKind};

    use super::{normalized, of_no_text, rendered, without_hidden};

    #[test]
    fn numbers_that_cannot_be_read_are_described_in_words() {
        let command = Command::new("ovms")
            .arg(
                Arg::new("n")
                    .long("n")
                    .value_parser(clap::value_parser!(u64).range(1..)),
            )
            .arg(
                Arg::new("f")
                    .long("f")
                    .value_parser(clap::value_parser!(f64)),
            );
        for (word, end) in [
            ("--n=many", "': expected a whole number"),
            ("--n=-1", "': expected a whole number from 0 on"),
            ("--n=99999999999999999999", "': the number is too large"),
            ("--n=0", "': 0 is not in 1..18446744073709551615"),
            ("--f=invalid float literal", "': expected a number"),
        ] {
            let error = command.clone().try_get_matches_from(["ovms", word]);
            let text = rendered(&error.unwrap_err());
            let line = text.lines().next().unwrap_or_default();
            assert!(line.ends_with(end), "{text}");
            assert!(line.starts_with("error: invalid value '"), "{text}");
        }
    }

    #[test]
    fn hidden_subcommands_are_neither_listed_nor_suggested() {
        let hidden = Command::new("supervise").hide(true);
        let command = Command::new("ovms")
            .subcommand_required(true)
            .subcommand(Command::new("serve"))
            .subcommand(hidden);
        let text = |args: &[&str]| {
            let error = command.clone().try_get_matches_from(args).unwrap_err();
            rendered(&without_hidden(&command, error))
        };
        let listed = text(&["ovms"]);
        assert!(listed.contains("[subcommands: serve, help]"), "{listed}");
        let suggested = text(&["ovms", "superwise"]);
        let start = "error: unrecognized subcommand 'superwise'\n\nUsage: ovms <COMMAND>\n";
        assert!(suggested.starts_with(start), "{suggested}");
        let suggested = text(&["ovms", "serv"]);
        assert!(suggested.contains("exists: 'serve'\n"), "{suggested}");
    }

    #[test]
    fn a_word_that_is_no_text_is_shown_unless_it_is_a_secret() {
        let error = clap::Error::new(ErrorKind::InvalidUtf8);
        let hint = |before: &str, word: &[u8]| {
            let word = OsStr::from_bytes(word).to_owned();
            of_no_text(&error, &["ovms".into(), before.into(), word])
        };
        let shown = hint("-i", b"x=@caf\xe9.png").unwrap();
        assert!(
            shown.starts_with("`x=@caf\u{fffd}.png` is not UTF-8: a file"),
            "{shown}"
        );
        assert_eq!(
            hint("infer", b"\xff").as_deref(),
            Some("`\u{fffd}` is not UTF-8")
        );
        let odd = |word: &[u8]| OsStr::from_bytes(word).to_owned();
        let program = [odd(b"/\xff/ovms"), "--cacert".into(), odd(b"/\xe9")];
        assert_eq!(
            of_no_text(&error, &program).as_deref(),
            Some("`/\u{fffd}` is not UTF-8")
        );
        let both = [&program[..], &["-i".into(), odd(b"x=@\xff")]].concat();
        assert_eq!(
            of_no_text(&error, &both).as_deref(),
            Some("`/\u{fffd}` and `x=@\u{fffd}` are not UTF-8, which only names of files may be")
        );
        assert_eq!(hint("--api_key", b"\xff"), None);
        assert_eq!(hint("-q", b"--header=a=\xff"), None);
        let other = clap::Error::new(ErrorKind::UnknownArgument);
        assert_eq!(
            of_no_text(&other, &[OsStr::from_bytes(b"\xff").to_owned()]),
            None
        );
    }

    #[test]
    fn underscores_and_hyphens_are_equal_in_known_flags() {
        let inner = Command::new("run")
            .arg(Arg::new("a").long("save-state").alias("keep-state"))
            .arg(Arg::new("b").long("rest_port"));
        let command = Command::new("ovms").subcommand(inner);
        for (typed, expected) in [
            ("run --save_state x_y", "run --save-state x_y"),
            ("run --save_state=x_y", "run --save-state=x_y"),
            ("run --save-state=x", "run --save-state=x"),
            ("run --keep_state", "run --keep-state"),
            ("run --rest-port=1", "run --rest_port=1"),
            ("run --other_flag", "run --other_flag"),
            ("run -- --save_state", "run -- --save_state"),
            ("run a_b", "run a_b"),
        ] {
            let args = typed.split(' ').map(OsString::from).collect();
            let read = normalized(&command, args).join(" ".as_ref());
            assert_eq!(read, expected);
        }
    }
}
