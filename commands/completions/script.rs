//! Completion scripts: output of `clap_complete`, preceded by a few lines that ask for names.
//!
//! If there are names, only those are offered; otherwise the static part works as it is.

use clap::{Arg, Command, CommandFactory, ValueHint, builder::PossibleValuesParser};
use clap_complete::Shell;

use crate::{cli::Cli, complete};

/// Lines that ask for names, for each shell. They call the static part, or are called by it.
const BASH: &str = include_str!("hooks/ovms.bash");
const ZSH: &str = include_str!("hooks/ovms.zsh");
const FISH: &str = include_str!("hooks/ovms.fish");
const POWERSHELL: &str = include_str!("hooks/ovms.ps1");

/// The name of the program.
const NAME: &str = "ovms";

/// Values to offer for options that take other ones as well.
const USUAL: [(&str, &[&str]); 7] = [
    (
        "target_device",
        &["CPU", "GPU", "NPU", "AUTO", "HETERO", "MULTI", "BATCH"],
    ),
    ("log_level", &["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"]),
    ("batch_size", &["auto"]),
    ("shape", &["auto"]),
    ("layout", &["NCHW", "NHWC", "CHW", "HWC"]),
    ("python", &["python3"]),
    (
        "subcommand",
        &[
            "serve",
            "infer",
            "pipeline",
            "graph",
            "setup",
            "doctor",
            "completions",
            "man",
        ],
    ),
];

/// Returns the script of a shell.
pub(super) fn write(shell: Shell) -> String {
    let command = described();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command.clone(), NAME, &mut script);
    let script = String::from_utf8(script).expect("scripts are text");
    match shell {
        Shell::Bash => {
            let script = renamed(&script, "\nif [[ \"${BASH_VERSINFO[0]}\" -eq 4");
            let hook = BASH.replace("PATHS", &with_paths(&command).join("|"));
            format!("{script}\n{hook}")
        }
        Shell::Zsh => {
            let script = renamed(&script, "\nif [ \"$funcstack[1]\"");
            format!("{}\n{ZSH}", without_colons(script, &command))
        }
        Shell::Fish => format!("{FISH}\n{}", asking(&script, &command)),
        Shell::PowerShell => {
            let first = "    param($wordToComplete, $commandAst, $cursorPosition)\n";
            script.replacen(first, &format!("{first}\n{POWERSHELL}"), 1)
        }
        _ => script,
    }
}

/// Renames the function of the static part, and drops the end of the script, from `end` on, which
/// registers it.
fn renamed(script: &str, end: &str) -> String {
    let static_part = script.rfind(end).map_or(script, |end| &script[..end + 1]);
    static_part.replacen("_ovms() {", "_ovms_static() {", 1)
}

/// Escapes the colons in names of values, behind which zsh would read on.
fn without_colons(script: String, command: &Command) -> String {
    let script = command.get_subcommands().fold(script, without_colons);
    let names = command.get_arguments().filter_map(Arg::get_value_names);
    let names = names.flatten().filter(|name| name.contains(':'));
    names.fold(script, |script, name| {
        let escaped = name.replace(':', r"\:");
        script.replace(&format!("]:{name}:"), &format!("]:{escaped}:"))
    })
}

/// Returns the command line as shown to people, with hints about its values.
fn described() -> Command {
    let all = Cli::command();
    let visible = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(visible.cloned().map(hinted))
}

fn hinted(command: Command) -> Command {
    command.mut_args(hint).mut_subcommands(hinted)
}

/// Adds a hint whether an argument is a file, a folder, or unknown to a shell.
fn hint(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() {
        return arg;
    }
    let id = arg.get_id().as_str();
    if let Some((_, values)) = USUAL.iter().find(|(usual, _)| *usual == id) {
        return arg.value_parser(PossibleValuesParser::new(*values));
    }
    let names = arg.get_value_names().unwrap_or_default();
    let is_folder = names.iter().any(|name| name.ends_with("DIR"));
    match arg.get_value_hint() {
        ValueHint::AnyPath if is_folder => arg.value_hint(ValueHint::DirPath),
        ValueHint::AnyPath => arg.value_hint(ValueHint::FilePath),
        ValueHint::Unknown if arg.get_possible_values().is_empty() => {
            arg.value_hint(ValueHint::Other)
        }
        _ => arg,
    }
}

/// Returns the subcommands with a positional file or folder, as patterns of bash.
fn with_paths(command: &Command) -> Vec<String> {
    let mut found = Vec::new();
    for inner in command.get_subcommands() {
        let name = inner.get_name();
        let is_path = |arg: &Arg| {
            let hint = arg.get_value_hint();
            matches!(hint, ValueHint::FilePath | ValueHint::DirPath)
        };
        if inner.get_positionals().any(is_path) {
            found.push(format!("\"{name} \"*"));
        }
        let below = with_paths(inner).into_iter();
        found.extend(below.map(|pattern| pattern.replacen('"', &format!("\"{name} "), 1)));
    }
    found
}

/// Makes the options of fish with names as values ask for them.
fn asking(script: &str, command: &Command) -> String {
    let asked: Vec<(String, String)> = complete::OPTIONS
        .iter()
        .filter_map(|(path, id)| {
            let (first, inner) = path.split_once(' ').unwrap_or((path, ""));
            let mut of = command.find_subcommand(first)?;
            let mut condition = format!("-n \"__fish_ovms_using_subcommand {first}");
            if !inner.is_empty() {
                of = of.find_subcommand(inner)?;
                condition.extend(["; and __fish_seen_subcommand_from ", inner]);
            }
            let mut options = of.get_arguments();
            let long = options.find(|arg| arg.get_id() == id)?.get_long()?;
            Some((condition + "\"", format!(" -l {long} ")))
        })
        .collect();
    let line = |line: &str| {
        let asks = |(condition, long): &(String, String)| {
            line.contains(condition.as_str()) && line.contains(long.as_str())
        };
        match asked.iter().any(asks) {
            true => format!("{line} -a \"(__ovms_names)\"\n"),
            false => format!("{line}\n"),
        }
    };
    script.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::write;
    use crate::complete;

    #[test]
    fn every_script_has_its_lines_that_ask() {
        for (shell, asks) in [
            (Shell::Bash, "complete bash -- "),
            (Shell::Zsh, "complete zsh --at "),
            (Shell::Fish, "complete fish --at "),
            (Shell::PowerShell, "complete powershell --at "),
        ] {
            let script = write(shell);
            assert_eq!(script.matches(asks).count(), 1, "{shell}");
            assert!(!script.contains("probe-runtime"), "{shell}");
        }
        let fish = write(Shell::Fish);
        let asking = fish.matches("-a \"(__ovms_names)\"").count();
        assert_eq!(asking, complete::OPTIONS.len());
        for shell in [Shell::Bash, Shell::Zsh] {
            let script = write(shell);
            assert_eq!(script.matches("\n_ovms() {").count(), 1, "{shell}");
            assert_eq!(script.matches("_ovms_static() {").count(), 1, "{shell}");
        }
    }

    #[test]
    fn bash_knows_where_files_stand() {
        let bash = write(Shell::Bash);
        for pattern in [
            "\"pipeline show \"*",
            "\"graph run \"*",
            "\"pipeline new chain \"*",
        ] {
            assert!(bash.contains(pattern), "{pattern}");
        }
    }
}
