//! Spelling of flags: `_` and `-` are equal, and the help has `-`.
//!
//! Scripts for the C++ server have flags with underscores.

use std::{collections::HashSet, ffi::OsString};

use clap::Command;

/// Returns a name with hyphens in place of underscores.
pub(crate) fn hyphenated(name: &str) -> String {
    name.replace('_', "-")
}

/// Returns a word of the command line that is a flag, with hyphens in its name.
pub(crate) fn with_hyphens(word: &OsString) -> OsString {
    let Some(text) = word.to_str() else {
        return word.clone();
    };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", hyphenated(name)).into(),
        None => hyphenated(text).into(),
    }
}

/// Puts hyphens into the flags of a command line, up to a `--`. What no subcommand has stays as it is
/// typed, for the error.
pub(crate) fn normalized(command: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let has_underscore = |arg: &OsString| {
        let text = arg.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        name.starts_with("--") && name.contains('_')
    };
    if !args.iter().any(has_underscore) {
        return args;
    }
    let mut known = HashSet::new();
    collect(command, &mut known);
    let flags = args.iter_mut().take_while(|arg| *arg != "--");
    for arg in flags.filter(|arg| has_underscore(arg)) {
        let typed = with_hyphens(arg);
        let text = typed.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        if known.contains(name.trim_start_matches("--")) {
            *arg = typed;
        }
    }
    args
}

/// Collects the names of all flags of a command and its subcommands.
fn collect(command: &Command, known: &mut HashSet<String>) {
    for arg in command.get_arguments() {
        let names = arg.get_long_and_visible_aliases().unwrap_or_default();
        let hidden = arg.get_all_aliases().unwrap_or_default();
        known.extend(names.into_iter().chain(hidden).map(str::to_owned));
    }
    command.get_subcommands().for_each(|inner| collect(inner, known));
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Arg, Command};

    use super::normalized;

    #[test]
    fn underscores_are_hyphens_in_known_flags() {
        let inner = Command::new("run").arg(Arg::new("a").long("save-state").alias("keep-state"));
        let command = Command::new("ovms").subcommand(inner);
        for (typed, expected) in [
            ("run --save_state x_y", "run --save-state x_y"),
            ("run --save_state=x_y", "run --save-state=x_y"),
            ("run --keep_state", "run --keep-state"),
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
