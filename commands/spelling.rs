//! Spelling of flags: `_` and `-` are equal, whichever of them the help has.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use clap::Command;

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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Arg, Command};

    use super::normalized;

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
