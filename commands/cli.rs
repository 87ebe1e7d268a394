//! Root of the command line: subcommands, and arguments that mean `serve` without it.

use std::{env, ffi::OsString};

use clap::{
    Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    bench, completions, doctor,
    error::Failure,
    error_format::{self, ErrorFormat, taken},
    graph, infer, key, man, pipeline,
    quiet::{is_quiet, with_quiet_in_front},
    serve, setup, spelling, ui,
};

/// Beginning of the short help, which has to fit 24 lines.
const ABOUT: &str = "\
OpenVINO Model Server: serve models, and work with them by hand
Start with `ovms setup`, then `ovms serve --demo`, or `ovms serve model.onnx`.";

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Arguments that begin with a server flag mean `serve`: `ovms --port 9000 …` is `ovms serve --port \
9000 …`.

Examples:
  ovms setup
  ovms serve --demo
  ovms serve model.onnx
  ovms infer --status

Exit codes: 0 done; 1 failed; 2 done with warnings; 64 usage; 69 the server cannot be reached; 70 \
a bug in ovms; 72 the OpenVINO runtime is missing; 130 Ctrl-C; 143 SIGTERM. The help of \
each command says what they mean there.";

/// OpenVINO Model Server: serve models, and work with them by hand
#[derive(Debug, Parser)]
#[command(
    name = "ovms",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    about = ABOUT,
    long_about = "OpenVINO Model Server: serve models, and work with them by hand",
    after_long_help = AFTER_HELP
)]
pub(crate) struct Cli {
    /// Suppress progress and informational messages
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Format of the error on stderr
    ///
    /// With `json`, the error that ends the command is one object in the last line of stderr: its text, its kind, the
    /// code of the server, the exit code, and hints. Warnings and notes before it stay text.
    // It is taken before the rest is read.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = ErrorFormat::Text,
        value_name = "FORMAT",
        help_heading = "Output",
        hide_short_help = true
    )]
    error_format: ErrorFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve models, pipelines and graphs over gRPC and REST
    #[command(args_override_self = true)]
    Serve(Box<serve::ServeArgs>),
    /// Send inference requests to a server, or ask what it serves
    Infer(Box<infer::InferArgs>),
    /// Measure a server under load: rate, latencies, errors
    Bench(Box<bench::BenchArgs>),
    /// Create, draw, check and try pipelines
    #[command(subcommand, after_help = pipeline::AFTER_HELP)]
    Pipeline(pipeline::PipelineCommand),
    /// Create, draw, check and try graphs with Python nodes
    #[command(subcommand, after_help = graph::AFTER_HELP)]
    Graph(graph::GraphCommand),
    /// Find or install the OpenVINO runtime
    Setup(setup::SetupArgs),
    /// Create API keys for the identities of a server
    #[command(subcommand, after_help = key::AFTER_HELP)]
    Key(key::KeyCommand),
    /// Diagnose the installation
    Doctor(doctor::DoctorArgs),
    /// Print or install a shell completion script
    Completions(completions::CompletionsArgs),
    /// Show a manual page, or write all of them
    Man(man::ManArgs),
    /// Open a runtime and print its version; run by `setup`
    #[command(hide = true)]
    ProbeRuntime(setup::ProbeArgs),
    /// Run a program until stdin is closed; run by `setup`
    #[command(hide = true)]
    Supervise(setup::SuperviseArgs),
    /// Start the interpreter and describe it; run by `doctor`
    #[command(hide = true)]
    ProbePython,
}

/// Parses the arguments and runs the subcommand.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let (args, error_format) = taken(args.into_iter().collect());
    error_format.set();
    error_format::refuse_in_front(&args)?;
    let args = with_subcommand(args);
    let command = Cli::command();
    let args = with_quiet_in_front(&command, args);
    let mut args = without_help_for_help(&command, args);
    let name = 1 + args.iter().skip(1).take_while(|arg| is_quiet(arg)).count();
    let is_serve = args.get(name).is_some_and(|name| name == "serve");
    if is_serve {
        let flags = serve::normalized(&args[name + 1..]);
        args.splice(name + 1.., flags);
    } else {
        args = spelling::normalized(&command, args);
    }
    let flags = args.get(name + 1..).unwrap_or_default();
    let parsed = match is_serve {
        true => serve::refuse_unmatched(flags).and_then(|()| parse(&args)),
        false => refuse_version_of_model(args.get(name), flags).and_then(|()| parse(&args)),
    };
    let cli = parsed.inspect_err(|failure| {
        if is_serve && !failure.is_quiet() && serve::asks_for_document(flags) {
            // Its reader has the failure on stderr, whether this succeeds or not.
            let _ = ui::print(serve::document_of(failure));
        }
    })?;
    if cli.quiet {
        ui::be_quiet();
    }
    if let Some(note) = serve::overridden(flags).filter(|_| is_serve) {
        ui::note(&note);
    }
    match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Infer(args) => infer::run(*args),
        Command::Bench(args) => bench::run(*args),
        Command::Pipeline(command) => pipeline::run(command),
        Command::Graph(command) => graph::run(command),
        Command::Setup(args) => setup::run(&args),
        Command::Key(command) => key::run(command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::ProbeRuntime(args) => setup::probe(&args),
        Command::Supervise(args) => setup::supervise(&args),
        Command::ProbePython => doctor::probe_python(),
    }
}

pub(crate) fn parse(args: &[OsString]) -> Result<Cli, Failure> {
    let command = with_defaults_apart(without_empty_variables(Cli::command()));
    let command = with_short_help(command);
    let command = with_whole_headers(command, args);
    let matches = command.try_get_matches_from(args);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.map_err(|error| explain(spelling::without_hidden(&Cli::command(), error), args))
}

/// Puts `serve` before arguments that begin with a server flag, so that start scripts of other
/// servers run as they are.
pub(crate) fn with_subcommand(mut args: Vec<OsString>) -> Vec<OsString> {
    let ours = ["--help", "--version"];
    let means_serve = args
        .iter()
        .skip(1)
        .find(|arg| !is_quiet(arg))
        .is_some_and(|first| {
            let is_flag = first.len() > 2 && first.as_encoded_bytes().starts_with(b"--");
            is_flag && !ours.iter().any(|it| first == it)
        });
    if means_serve {
        args.insert(1, "serve".into());
    }
    args
}

/// Refuses `--version` of a command that takes the version of a model, where it stands beside what only a request
/// has: whoever writes that does not ask for the version of the program.
fn refuse_version_of_model(name: Option<&OsString>, flags: &[OsString]) -> Result<(), Failure> {
    let takes_model = name.is_some_and(|name| name == "infer" || name == "bench");
    let flags: Vec<_> = flags.iter().map(|flag| flag.to_string_lossy()).collect();
    let asks_for_help = flags.iter().any(|flag| flag == "--help" || flag == "-h");
    let is_version =
        |flag: &str| matches!(flag, "--version" | "-V") || flag.starts_with("--version=");
    let mut places = flags.iter().take_while(|flag| *flag != "--");
    let Some(place) = places.position(|flag| is_version(flag)) else {
        return Ok(());
    };
    let is_alone = flags.len()
        == 1 + flags
            .iter()
            .filter(|flag| matches!(&***flag, "-q" | "--quiet"))
            .count();
    if !takes_model || asks_for_help || is_alone {
        return Ok(());
    }
    let number = match flags[place].split_once('=') {
        Some((_, number)) => Some(number),
        None => flags.get(place + 1).map(|flag| &**flag),
    };
    let number = number.filter(|number| number.parse::<u64>().is_ok());
    let (flag, number) = (&flags[place], number.unwrap_or("N"));
    let text = format!("`{flag}` prints the version of the program; no request is sent");
    Err(Failure::usage(text).hint(format!(
        "`--model-version {number}` asks for a version of the model"
    )))
}

/// Drops `--help` after `help`: both ask for the same.
fn without_help_for_help(command: &Clap, mut args: Vec<OsString>) -> Vec<OsString> {
    let mut command = command;
    let mut names = args.iter().enumerate().skip(1);
    let help = loop {
        match names.find(|(_, arg)| !is_quiet(arg)) {
            Some((place, name)) if name == "help" => break place,
            Some((_, name)) => match command.find_subcommand(name) {
                Some(inner) if inner.has_subcommands() => command = inner,
                _ => return args,
            },
            None => return args,
        }
    };
    let mut place = 0;
    args.retain(|arg| {
        place += 1;
        place <= help || !(arg == "--help" || arg == "-h")
    });
    args
}

/// Takes a header of the command line as it is. Only the variable has one per line: a value from a script
/// must not become another header.
fn with_whole_headers(command: Clap, args: &[OsString]) -> Clap {
    let is_header = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        arg == "--header" || arg.starts_with("--header=")
    };
    if !args.iter().any(is_header) {
        return command;
    }
    ["infer", "bench"]
        .into_iter()
        .fold(command, |command, name| {
            command.mut_subcommand(name, |command| {
                command.mut_arg("header", |it| {
                    it.value_delimiter(None).value_parser(infer::secret_pair)
                })
            })
        })
}

/// Makes empty environment variables count as unset.
pub(crate) fn without_empty_variables(command: Clap) -> Clap {
    let is_empty = |name: &std::ffi::OsStr| env::var_os(name).is_some_and(|it| it.is_empty());
    command.mut_subcommands(|command| {
        command.mut_args(|arg| match arg.get_env() {
            Some(name) if is_empty(name) => arg.env(None::<&str>),
            _ => arg,
        })
    })
}

/// Moves defaults in words, such as `[default: none]`, to the end of an argument's long help, in a
/// paragraph of their own like defaults that are values.
fn with_defaults_apart(command: Clap) -> Clap {
    let command = command.mut_subcommands(with_defaults_apart);
    command.mut_args(|arg| {
        let Some(short) = arg.get_help().map(ToString::to_string) else {
            return arg;
        };
        let Some((words, default)) = short.split_once(" [default: ") else {
            return arg;
        };
        let long = arg.get_long_help().map(ToString::to_string);
        let more = long.as_deref().and_then(|long| long.strip_prefix(&*short));
        let long = format!("{words}{}\n\n[default: {default}", more.unwrap_or_default());
        arg.long_help(long)
    })
}

/// Arguments of `infer` in its short help.
const INFER_SHORT: &[&str] = &[
    "model", "status", "metadata", "inputs", "zeros", "preset", "output", "save", "top", "labels",
    "sequence", "stream", "duration", "url", "api", "help",
];

/// Flags of `bench` in its short help.
const BENCH_SHORT: &[&str] = &[
    "model",
    "concurrency",
    "rate",
    "poisson",
    "max_time",
    "sequence",
    "stream",
    "requests",
    "inputs",
    "shape",
    "output",
    "save",
    "html",
    "against",
    "fail_if",
    "url",
    "api",
    "help",
];

/// Leaves what is rarely used out of the short help of `infer` and `bench`. That of `serve` is with its flags.
fn with_short_help(command: Clap) -> Clap {
    let short = |command: Clap, shown: &'static [&str]| {
        command.mut_args(|arg| {
            let is_short = shown.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_short)
        })
    };
    command
        .mut_subcommand("infer", |infer| short(infer, INFER_SHORT))
        .mut_subcommand("bench", |bench| short(bench, BENCH_SHORT))
}

/// Finds the environment variable that a rejected value comes from.
fn variable(error: &clap::Error) -> Option<String> {
    let (Some(ContextValue::String(arg)), Some(ContextValue::String(value))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) else {
        return None;
    };
    let flag = arg.split_whitespace().next()?;
    let typed = |it: OsString| {
        let it = it.to_string_lossy().into_owned();
        it == flag || it.starts_with(&format!("{flag}="))
    };
    if env::args_os().any(typed) {
        return None;
    }
    let cli = Cli::command();
    let mut args = cli.get_subcommands().flat_map(Clap::get_arguments);
    let arg = args.find(|arg| {
        let is_set = |name: &std::ffi::OsStr| {
            env::var(name).is_ok_and(|set| set.lines().any(|line| line == value))
        };
        flag.strip_prefix("--") == arg.get_long() && arg.get_env().is_some_and(is_set)
    })?;
    Some(arg.get_env()?.to_string_lossy().into_owned())
}

/// Converts an error of clap to a failure; help and version are printed and are no failure.
fn explain(error: clap::Error, args: &[OsString]) -> Failure {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let text = match ui::Look::of_stdout() {
                ui::Look::Boxed => error.render().ansi().to_string(),
                ui::Look::Bare | ui::Look::Plain => error.render().to_string(),
            };
            // Always to stdout: no arguments ask for help as well.
            match ui::print(text) {
                Ok(()) => Failure::done(),
                Err(failure) => failure,
            }
        }
        _ if is_of_header(&error) => {
            let text =
                "invalid value for '--header <KEY=VALUE>' or OVMS_HEADER: expected KEY=VALUE";
            Failure::usage_verbatim(format!("error parsing options: {text}"))
                .hint("the value is not shown, since it may be a secret")
        }
        _ => {
            let text = spelling::rendered(&error);
            let text = text.trim_end().trim_start_matches("error: ");
            let meant = subcommand_meant(&error);
            let flag = flag_meant(&error, args);
            let shape = shape_meant(&error, args);
            let load = of_load(&error, args);
            let is_other = meant.is_some() || flag.is_some() || shape.is_some() || load.is_some();
            let text = without_odd_tips(text, is_other);
            let variable = variable(&error);
            Failure::usage_verbatim(format!("error parsing options: {text}"))
                .may_hint(meant.map(|command| format!("`{command}` does that")))
                .may_hint(flag.map(|flag| format!("write `{flag}`")))
                .may_hint(
                    shape.map(|shape| format!("write `{shape}`, which fills the other inputs too")),
                )
                .may_hint(load.map(str::to_owned))
                .may_hint(infer::file_meant(&error))
                .may_hint(served(&error))
                .may_hint(in_place_of_end(&error))
                .may_hint(infer::again_alone(&error, args))
                .may_hint(of_directive(&error))
                .may_hint(infer::preset_meant(&error))
                .may_hint(spelling::of_no_text(&error, args))
                .may_hint(
                    variable.map(|name| {
                        format!("the value comes from the environment variable {name}")
                    }),
                )
        }
    }
}

/// Returns the equivalent command for a subcommand known from other programs.
fn subcommand_meant(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    match typed.as_str() {
        "status" | "list" | "models" => Some("ovms infer --status"),
        "metadata" => Some("ovms infer --metadata"),
        "check" => Some("ovms serve --check"),
        "load" | "loadtest" | "load-test" | "benchmark" | "perf" | "perf_analyzer" => {
            Some("ovms bench")
        }
        "top" => Some("ovms infer --top"),
        "run" | "start" => Some("ovms serve"),
        "version" => Some("ovms --version"),
        _ => None,
    }
}

/// Flags of servers and of other clients for an address.
const ADDRESS: [&str; 6] = [
    "--port",
    "--grpc-port",
    "--rest-port",
    "--host",
    "--server",
    "--address",
];

/// Returns the flag of `infer` or `bench` for one known from the server or other programs.
fn flag_meant(error: &clap::Error, args: &[OsString]) -> Option<&'static str> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let command = args.iter().skip(1).find(|arg| !is_quiet(arg))?;
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let flag = typed.split('=').next()?;
    if (command == "infer" || command == "bench") && ADDRESS.contains(&flag) {
        return Some("--url HOST:PORT");
    }
    if command == "bench" {
        return match flag {
            "--time" => Some("--duration TIME"),
            _ => None,
        };
    }
    if command != "infer" {
        return None;
    }
    match flag {
        "-m" | "--model" | "--model-name" | "--name" => Some("ovms infer MODEL"),
        "-d" | "-f" | "--data" | "--file" | "--image" => Some("-i @FILE"),
        "--grpc" => Some("--api kserve-grpc"),
        "--http" | "--rest" => Some("--api kserve-rest"),
        "--list" | "--models" => Some("ovms infer --status"),
        "--format" | "--output-format" => Some("--output FORMAT"),
        "--curl" => Some("--print-curl"),
        "--json" => Some("--output json"),
        "--csv" => Some("--output csv"),
        "--npy" => Some("--output npy"),
        "--rate" | "-r" | "--samplerate" => Some("--sample-rate HZ"),
        "--wait-ready" | "--wait-for-ready" | "--wait-seconds" => Some("--wait 60"),
        _ => None,
    }
}

/// Returns the input of `infer` that stands for `--shape` of `bench`.
fn shape_meant(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let command = args.iter().skip(1).find(|arg| !is_quiet(arg))?;
    let is_shape = typed.split('=').next() == Some("--shape");
    if !is_shape || command != "infer" || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let mut following = args.iter().skip_while(|arg| *arg != "--shape").skip(1);
    let value = match typed.split_once('=') {
        Some((_, value)) => Some(value),
        None => following.next().and_then(|value| value.to_str()),
    };
    let (name, dims) = value
        .and_then(|value| value.rsplit_once(':'))
        .unwrap_or(("NAME", "DIMS"));
    let input = ui::shell_word(&format!("{name}::{dims}="));
    Some(format!("-i {input} --random"))
}

/// Returns what to write in place of a flag of Triton's `perf_analyzer`, or of a value as it has them.
fn of_load(error: &clap::Error, args: &[OsString]) -> Option<&'static str> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let command = args.iter().skip(1).find(|arg| !is_quiet(arg))?;
    let arg = text(ContextKind::InvalidArg).filter(|_| command == "bench")?;
    match error.kind() {
        ErrorKind::UnknownArgument => bench::hint_of_flag(arg.split('=').next()?),
        ErrorKind::ValueValidation => {
            bench::hint_of_value(arg.split(' ').next()?, text(ContextKind::InvalidValue)?)
        }
        _ => None,
    }
}

/// Returns what to write for a path that is the value of a flag of `serve` for files, which is true or false.
fn of_directive(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg)?.strip_prefix("--")?;
    let is_path = |it: &str| it.contains(['/', '.']) || std::path::Path::new(it).exists();
    let value = text(ContextKind::InvalidValue).filter(|it| is_path(it))?;
    serve::path_behind(flag.split('[').next()?, value)
}

/// Returns the command that serves a path that stands in place of a subcommand.
fn served(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let path = ui::shell_word(typed);
    let is_there = std::path::Path::new(typed).exists();
    is_there.then(|| format!("`ovms serve {path}` serves it"))
}

/// Returns what is meant by a flag for one request of a sequence beside the flag for all of them.
fn in_place_of_end(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let names = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.as_str()],
        Some(ContextValue::Strings(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let mut all = names(ContextKind::InvalidArg);
    all.extend(names(ContextKind::PriorArg));
    let has = |name| all.contains(&name);
    let of_load = [
        "--repeat <N>",
        "--duration <TIME>",
        "--concurrency <C>",
        "--warmup <N>",
    ];
    let hint = match (has("--sequence"), has("--no-end")) {
        _ if has("--stream") => infer::beside_stream(&all),
        (true, _) if of_load.into_iter().any(has) => {
            "`ovms bench MODEL --sequence N --duration TIME --concurrency C` measures sequences of N steps each"
        }
        (true, _) if has("--start") => {
            "omit `--start`: `--sequence` starts one; to continue one, add `--continue --sequence-id ID`"
        }
        (true, _) if has("--end") => {
            "`--sequence` ends the sequence itself, unless `--no-end` is given"
        }
        (_, true) if has("--end") => {
            "`--end` is the last request of a sequence: leave out one of them"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns whether the error is about a header, whose value must not be shown.
fn is_of_header(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::ValueValidation
        && matches!(
            error.get(ContextKind::InvalidArg),
            Some(ContextValue::String(arg)) if arg.starts_with("--header ")
        )
}

/// Drops the tip to pass an unknown flag as a value, which a typo never means, and all tips if another
/// command is meant.
fn without_odd_tips(text: &str, is_other: bool) -> String {
    let odd = match is_other {
        true => "  tip: ",
        false => "  tip: to pass '-",
    };
    let parts = text.split("\n\n");
    let kept: Vec<&str> = parts.filter(|part| !part.starts_with(odd)).collect();
    kept.join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::{OsStr, OsString},
        os::unix::ffi::OsStrExt,
    };

    use clap::CommandFactory;

    use super::{Cli, refuse_version_of_model, with_subcommand, without_help_for_help};

    #[test]
    fn only_a_leading_server_flag_means_serve() {
        let given = |args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            with_subcommand(args)[1].clone()
        };
        assert_eq!(given(&["ovms", "--port", "9000"]), "serve");
        assert_eq!(given(&["ovms", "--port=9000", "infer"]), "serve");
        assert_eq!(given(&["ovms", "infer", "--port"]), "infer");
        assert_eq!(given(&["ovms", "--quiet", "infer"]), "--quiet");
        assert_eq!(given(&["ovms", "-q", "--port", "9000"]), "serve");
        assert_eq!(given(&["ovms", "--help"]), "--help");
        assert_eq!(given(&["ovms", "-h"]), "-h");
        let path = OsStr::from_bytes(b"--model_path=/m/\xff").to_owned();
        assert_eq!(with_subcommand(vec!["ovms".into(), path])[1], "serve");
    }

    #[test]
    fn help_for_help_is_help() {
        let left = |args: &str| {
            let args = args.split(' ').map(OsString::from).collect();
            let args = without_help_for_help(&Cli::command(), args);
            args.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(left("ovms help --help"), "ovms help");
        assert_eq!(left("ovms -q help -h"), "ovms -q help");
        assert_eq!(left("ovms help infer --help"), "ovms help infer");
        assert_eq!(left("ovms graph help run -h"), "ovms graph help run");
        for kept in [
            "ovms infer help --help",
            "ovms infer --help",
            "ovms graph run help --help",
            "ovms --help help",
            "ovms help --port",
        ] {
            assert_eq!(left(kept), kept);
        }
    }

    #[test]
    fn the_version_beside_a_request_is_that_of_a_model() {
        let refused = |args: &str| {
            let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
            let refused = refuse_version_of_model(args.first(), &args[1..]);
            refused.map_or_else(|failure| failure.hints().join("\n"), |()| String::new())
        };
        for (args, number) in [
            ("infer m --version 1 --zeros", "1"),
            ("infer m --version=12", "12"),
            ("infer m --zeros -V", "N"),
            ("bench --version m", "N"),
        ] {
            let hint = format!("`--model-version {number}` asks for a version of the model");
            assert_eq!(refused(args), hint, "{args}");
        }
        for args in [
            "infer --version",
            "infer -q --version",
            "infer --help --version",
            "infer m -- --version",
            "doctor --url a --version",
            "--version",
        ] {
            assert_eq!(refused(args), "", "{args}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
