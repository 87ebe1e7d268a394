//! The flag that goes anywhere on the command line, also between the names of subcommands.

use std::ffi::OsString;

use clap::Command;

/// Returns whether an argument is the one that may stand before a subcommand as well.
pub(crate) fn is_quiet(arg: &OsString) -> bool {
    arg == "--quiet" || arg == "-q"
}

/// Moves `--quiet` between the names of subcommands in front of them: some of these take either arguments or a
/// subcommand, and to clap it would be an argument of theirs.
pub(crate) fn with_quiet_in_front(command: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let leading = args.iter().skip(1).take_while(|arg| is_quiet(arg)).count();
    let mut command = command;
    let (mut quiet, mut between) = (Vec::new(), Vec::new());
    for (place, arg) in args.iter().enumerate().skip(1 + leading) {
        if is_quiet(arg) {
            quiet.push(place);
        } else if let Some(inner) = command.find_subcommand(arg) {
            command = inner;
            between = quiet.clone();
        } else {
            break;
        }
    }
    if between.is_empty() {
        return args;
    }
    let mut place = 0;
    args.retain(|_| {
        place += 1;
        !between.contains(&(place - 1))
    });
    if leading == 0 {
        args.insert(1, "--quiet".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::with_quiet_in_front;
    use crate::cli::{Cli, parse};

    #[test]
    fn a_global_flag_goes_between_the_words() {
        for (typed, expected) in [
            (
                "ovms pipeline new -q detection a b c",
                "ovms --quiet pipeline new detection a b c",
            ),
            (
                "ovms pipeline --quiet new -q detection a",
                "ovms --quiet pipeline new detection a",
            ),
            ("ovms -q graph -q new g", "ovms -q graph new g"),
            // Behind the last name, and where a word is no name, it stays.
            ("ovms pipeline new -q", "ovms pipeline new -q"),
            ("ovms infer -q serve", "ovms infer -q serve"),
            ("ovms -q infer m -q", "ovms -q infer m -q"),
        ] {
            let args = typed.split(' ').map(OsString::from).collect();
            let args = with_quiet_in_front(&Cli::command(), args);
            assert_eq!(args.join(" ".as_ref()), expected, "{typed}");
        }
        let line = ["ovms", "pipeline", "new", "-q", "detection", "a", "b", "c"];
        let line = line.map(OsString::from).to_vec();
        let line = with_quiet_in_front(&Cli::command(), line);
        assert!(parse(&line).is_ok_and(|cli| cli.quiet));
    }
}
