//! The command line of `ovms serve`: the table of flags as arguments.

mod empty;
mod typed;
mod unmatched;

use clap::{
    Arg, ArgMatches, Args, Command, FromArgMatches,
    builder::{PossibleValue, PossibleValuesParser},
    value_parser,
};
use ovms::config::{CheckDepth, FLAGS, Flag, FlagKind, Flags, SPELLINGS};
use serde_json::Value;

use crate::{
    completions::{names, usual},
    ui::OutputFormat,
};

pub(crate) use self::{empty::without_empty, unmatched::refuse_unmatched};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The model folder holds one folder for each version: /models/resnet/1/model.xml and model.bin. The \
highest version is served, unless --model_version_policy says otherwise. A folder that holds a model \
and no version folder, or a model file, is version 1.

Environment: GRPC_SERVERS goes before --grpc_workers, API_KEY is used without --api_key_file, and \
OVMS_MODEL_REPOSITORY_PATH without --model_repository_path.

Examples:
  ovms serve --demo
  ovms serve --model_name resnet --model_path /models/resnet --port 9000
  ovms serve --config_path /models/config.json --port 9000 --rest_port 8000
  ovms serve --check --config_path /models/config.json

Exit codes: 0 stopped by SIGINT or SIGTERM, or what was asked for instead is done; 1 the start \
failed, or --check found errors; 2 --check found warnings only; 64 usage; 72 no OpenVINO runtime; \
130 stopped by a second signal.";

/// Arguments of `ovms serve`.
#[derive(Debug)]
pub(crate) struct ServeArgs {
    pub(super) flags: Flags,
    pub(super) output: OutputFormat,
}

/// The flag that says nothing of the server.
#[derive(Debug, Args)]
#[group(skip)]
struct OutputArg {
    /// Output format
    ///
    /// For the flags above: a server has its log there.
    #[arg(
        long,
        value_enum,
        default_value_t = OutputFormat::Table,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    output: OutputFormat,
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let command = command.after_long_help(AFTER_HELP);
        FLAGS.iter().fold(command, |command, flag| {
            let command = match flag.name {
                // Below the flags that it is for.
                "grpc_workers" => OutputArg::augment_args(command),
                _ => command,
            };
            command.arg(argument(flag))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: &Flag| {
            let mut values = matches.get_raw(flag.name)?;
            values.next_back().map(ToOwned::to_owned)
        };
        Ok(Self {
            flags: Flags::default().with(given),
            output: OutputArg::from_arg_matches(matches)?.output,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Makes the argument of a flag.
fn argument(flag: &Flag) -> Arg {
    let least = flag.least;
    let is_optional = matches!(flag.kind, FlagKind::Switch | FlagKind::Check);
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .help_heading(flag.heading)
        .allow_hyphen_values(flag.takes_hyphen)
        .require_equals(is_optional);
    let arg = match flag.kind {
        FlagKind::Switch => arg.value_parser(booleans()).hide_possible_values(true),
        FlagKind::Check => arg.value_parser(|text: &str| text.parse::<CheckDepth>()),
        FlagKind::Choice(words) => arg.value_parser(PossibleValuesParser::new(words)),
        FlagKind::U32 => arg.value_parser(value_parser!(u32).range(i64::from(least)..)),
        FlagKind::U64 => arg.value_parser(value_parser!(u64).range(u64::from(least)..)),
        FlagKind::Usize if least > 0 => arg.value_parser(at_least_one),
        FlagKind::Usize => arg.value_parser(value_parser!(usize)),
        FlagKind::Text => arg,
        FlagKind::Path => arg.value_parser(value_parser!(std::path::PathBuf)),
    };
    let arg = match (flag.default)().filter(|_| !is_optional) {
        Some(Value::String(text)) => arg.default_value(text),
        Some(value) => arg.default_value(value.to_string()),
        None => arg,
    };
    let arg = match is_optional {
        true => arg.num_args(0..=1).default_missing_value("true"),
        false => arg,
    };
    let arg = match flag.name {
        "demo" => arg.conflicts_with_all(["model_name", "model_path", "config_path"]),
        "model_name" => arg.add(names::models()),
        "batch_size" | "shape" => arg.add(usual(&["auto"])),
        "layout" => arg.add(usual(&["NCHW", "NHWC", "CHW", "HWC"])),
        "target_device" => arg.add(usual(&[
            "CPU", "GPU", "NPU", "AUTO", "HETERO", "MULTI", "BATCH",
        ])),
        "log_level" => arg.add(usual(&["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"])),
        _ => arg,
    };
    let lines: Vec<&str> = flag.words.iter().map(|line| line.trim()).collect();
    let paragraphs: Vec<String> = lines
        .split(|line| line.is_empty())
        .map(|lines| lines.join(" "))
        .collect();
    let arg = arg.help(paragraphs[0].clone());
    match paragraphs.len() {
        1 => arg,
        _ => arg.long_help(paragraphs.join("\n\n")),
    }
}

/// Returns a parser of booleans in each spelling of the C++ server.
fn booleans() -> PossibleValuesParser {
    let value = |[name, others @ ..]: [&'static str; 5]| PossibleValue::new(name).aliases(others);
    PossibleValuesParser::new(SPELLINGS.map(value))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("expected a number: {error}")),
    }
}
