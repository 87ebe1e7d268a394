//! The command line of `ovms serve`: the table of flags as arguments.

mod elsewhere;
mod overridden;
mod unmatched;

use std::{any::TypeId, borrow::Cow, ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches,
    builder::{PossibleValue, PossibleValuesParser},
    parser::ValueSource,
    value_parser,
};
use ovms::{
    byte_size::ByteSize,
    config::{CheckDepth, ClosedPorts, FLAGS, Flag, FlagKind, Flags, SPELLINGS},
};
use serde_json::Value;

pub(crate) use self::{overridden::overridden, unmatched::refuse_unmatched};
use crate::{
    completions::{names, usual},
    spelling::{hyphenated, spelled},
    ui::OutputFormat,
};

/// Flags in the short help.
const SHORT: [&str; 11] = [
    "model_name",
    "model_path",
    "model_repository_path",
    "demo",
    "target_device",
    "stateful",
    "config_path",
    "port",
    "rest_port",
    "metrics_enable",
    "check",
];

/// Text at the end of the short help.
const AFTER_SHORT_HELP: &str = "\
Examples:
  ovms serve flowers.onnx
  ovms serve --config-path /models/config.json --port 9000 --rest-port 8000

`ovms serve --help` has all flags.";

/// Text at the end of the help.
const AFTER_HELP: &str = "\
PATH is a model file, a folder with one model or a graph, or a folder of such folders, which is \
watched: models that are added there are served, and removed ones retired. Each is named after its \
file or folder. A folder with a config.json that lists models, graphs, or pipelines is served as \
with --config-path. Flags of a model apply to all of them, and --stateful to those that have state. \
Without --port and --rest-port, gRPC is on port 9000 and REST on 8000, and without addresses the \
server listens on 127.0.0.1.

A model folder has one folder per version: /models/resnet/1/model.xml and model.bin. The highest \
version is served, unless --model-version-policy says otherwise. A model file, or a folder with a \
model and no version folders, is version 1.

Environment: GRPC_SERVERS overrides --grpc-workers; API_KEY and OVMS_MODEL_REPOSITORY_PATH are used \
if --api-key-file and --model-repository-path are not given.

Examples:
  ovms serve --demo
  ovms serve flowers.onnx
  ovms serve /models --target-device AUTO
  ovms serve --model-name resnet --model-path /models/resnet --port 9000
  ovms serve --config-path /models/config.json --port 9000 --rest-port 8000
  ovms serve --check --config-path /models/config.json

Exit codes: 0 stopped by SIGINT or SIGTERM, or done instead of serving; 1 the start failed, or \
--check found errors; 2 --check found only warnings; 64 usage; 72 no OpenVINO runtime; 130 stopped \
by a second signal.";

/// Arguments of `ovms serve`.
#[derive(Debug)]
pub(crate) struct ServeArgs {
    /// Models that are named by their paths.
    pub(super) paths: Vec<PathBuf>,
    pub(super) flags: Flags,
    /// Ports that are typed as 0.
    pub(super) closed: ClosedPorts,
    pub(super) output: OutputFormat,
}

/// Id of the paths of models.
const PATHS: &str = "paths";

/// The flag that says nothing of the server.
#[derive(Debug, Args)]
#[group(skip)]
struct OutputArg {
    /// Output format
    ///
    /// Of the flags above. A server writes its log to stdout.
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
        let command = command.after_help(AFTER_SHORT_HELP);
        let command = command.after_long_help(AFTER_HELP).arg(
            Arg::new(PATHS)
                .conflicts_with("demo")
                .value_name("PATH")
                .help("Model files, folders of models, or folders of such folders")
                .long_help(
                    "Model files, folders of models, or folders of such folders\n\n\
                     Ports default to 9000 (gRPC) and 8000 (REST), and addresses to 127.0.0.1.",
                )
                .num_args(1)
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf)),
        );
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
        let paths = matches.get_many(PATHS);
        let flags = Flags::default().with(given);
        let is_typed = |name| matches.value_source(name) != Some(ValueSource::DefaultValue);
        Ok(Self {
            paths: paths.unwrap_or_default().cloned().collect(),
            closed: ClosedPorts {
                grpc: flags.port == 0 && is_typed("port"),
                rest: flags.rest_port == 0 && is_typed("rest_port"),
            },
            flags,
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
        .long(hyphenated(flag.name))
        .value_name(flag.value)
        .help_heading(flag.heading)
        .allow_hyphen_values(flag.takes_hyphen)
        .hide_short_help(!SHORT.contains(&flag.name))
        .require_equals(is_optional);
    let arg = match flag.kind {
        FlagKind::Switch => arg.value_parser(booleans()).hide_possible_values(true),
        FlagKind::Check => arg.value_parser(|text: &str| text.parse::<CheckDepth>()),
        FlagKind::Choice(words) => arg.value_parser(PossibleValuesParser::new(words)),
        FlagKind::U32 => arg.value_parser(whole(flag.name, least)),
        FlagKind::U64 => arg.value_parser(value_parser!(u64).range(u64::from(least)..)),
        FlagKind::Usize if least > 0 => arg.value_parser(at_least_one),
        FlagKind::Usize => arg.value_parser(value_parser!(usize)),
        FlagKind::Bytes if least > 0 => arg.value_parser(any_bytes),
        FlagKind::Bytes => arg.value_parser(|text: &str| text.parse::<ByteSize>()),
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
        "dynamic_batching" => arg.add(usual(&["off", "auto"])),
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

/// Returns a parser of whole numbers from a least one on.
fn whole(name: &str, least: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + use<> {
    let units = ["minutes", "seconds", "ms"].into_iter();
    let unit = units.map(|unit| (unit, format!("_{unit}")));
    let unit = unit
        .filter(|(_, ending)| name.ends_with(ending))
        .map(|(unit, _)| unit);
    let of_units = unit
        .map(|unit| format!(" of {unit}"))
        .next()
        .unwrap_or_default();
    // Which port is too high is said by the check of the flags, in its order.
    let most = match name.ends_with("port") {
        true => u16::MAX.into(),
        false => u32::MAX,
    };
    move |text| {
        let number: i128 = text
            .parse()
            .map_err(|_| format!("expected a whole number{of_units} from {least} to {most}"))?;
        let fits = u32::try_from(number).ok().filter(|it| *it >= least);
        fits.ok_or_else(|| format!("{number} is not in {least}..={most}"))
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

fn any_bytes(text: &str) -> Result<ByteSize, String> {
    let read = text.parse::<ByteSize>();
    match read.map_err(|error| error.to_string())? {
        ByteSize(0) => Err("expected at least 1 byte, found 0".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Flag, or anything else.
struct TypedArg<'a> {
    /// Flag and value if they are two words, else one word.
    words: &'a [OsString],
    /// First of these words.
    text: Cow<'a, str>,
    flag: Option<&'a Arg>,
}

impl TypedArg<'_> {
    /// Returns the value, behind `=` or in a word of its own.
    fn value(&self) -> Option<Cow<'_, str>> {
        match self.text.split_once('=') {
            Some((_, value)) => Some(value.into()),
            None => Some(self.words.get(1)?.to_string_lossy()),
        }
    }
}

/// Parts flags from other words. What follows one that takes text is its value, whatever it looks like.
fn typed<'a>(command: &'a Command, args: &'a [OsString]) -> impl Iterator<Item = TypedArg<'a>> {
    let mut rest = args;
    std::iter::from_fn(move || {
        let text = rest.first()?.to_string_lossy();
        let name = text
            .strip_prefix("--")
            .and_then(|long| long.split('=').next())
            .map(hyphenated);
        let mut known = command.get_arguments();
        let flag = known.find(|arg| name.is_some() && arg.get_long().map(hyphenated) == name);
        let takes_next = !text.contains('=') && flag.is_some_and(takes_text);
        let words;
        (words, rest) = rest.split_at(rest.len().min(1 + usize::from(takes_next)));
        Some(TypedArg { words, text, flag })
    })
}

/// Returns whether a flag has a value that may be a word of its own.
fn takes_text(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

/// Flags with a meaningful empty value: the header is left out.
const MEANT: [&str; 3] = ["allowed_origins", "allowed_methods", "allowed_headers"];

/// Returns the flags of `serve` as the help spells them, without those of an empty value, switches that are turned off,
/// and the earlier values of both: the last value counts, and that is none.
pub(crate) fn normalized(args: &[OsString]) -> Vec<OsString> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut kept: Vec<TypedArg<'_>> = Vec::new();
    for arg in typed(&command, args) {
        let is_none = |flag: &&Arg| {
            let value = arg.value();
            value.is_some_and(|value| (value.is_empty() && is_text(flag)) || is_off(flag, &value))
        };
        match arg.flag.filter(is_none) {
            Some(flag) => kept.retain(|earlier| earlier.flag != Some(flag)),
            None => kept.push(arg),
        }
    }
    let words = kept.iter().flat_map(|arg| {
        let (first, rest) = arg.words.split_first()?;
        let first = match arg.flag.and_then(Arg::get_long) {
            Some(long) => spelled(first, long),
            None => first.clone(),
        };
        Some(std::iter::once(first).chain(rest.iter().cloned()))
    });
    words.flatten().collect()
}

/// Returns whether a value turns off a switch that is off unless it is given.
fn is_off(flag: &Arg, value: &str) -> bool {
    let mut rows = FLAGS.iter();
    let row = rows.find(|row| flag.get_id() == row.name);
    let is_off =
        |row: &Flag| row.kind == FlagKind::Switch && (row.default)() == Some(Value::Bool(false));
    SPELLINGS[1].contains(&value) && row.is_some_and(is_off)
}

/// Returns whether a flag takes text, unless an empty value is meaningful.
fn is_text(flag: &Arg) -> bool {
    let value = flag.get_value_parser().type_id();
    let is_number = value == TypeId::of::<u32>()
        || value == TypeId::of::<u64>()
        || value == TypeId::of::<usize>()
        || value == TypeId::of::<ByteSize>();
    takes_text(flag) && !MEANT.contains(&flag.get_id().as_str()) && !is_number
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{normalized, whole};

    fn left(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        normalized(&args).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn a_flag_with_an_empty_text_is_not_given() {
        assert_eq!(left(&["--shape=", "--port=1"]), "--port=1");
        assert_eq!(left(&["--shape", "", "--port", "1"]), "--port 1");
        assert_eq!(left(&["--shape=(1)", "--port=1", "--shape="]), "--port=1");
        assert_eq!(left(&["--shape=", "--shape=(1)"]), "--shape=(1)");
        assert_eq!(left(&["--log-level=", "--log-format="]), "");
        for kept in [
            "--allowed-origins=",
            "--port=",
            "--max-connections=",
            "--stateful=",
            "--unknown=",
            "--un_known=",
            "--shape",
            "--model-name --shape= x",
            "--model-name --rest-port",
        ] {
            let args: Vec<&str> = kept.split(' ').collect();
            assert_eq!(left(&args), kept);
        }
    }

    #[test]
    fn a_switch_that_is_turned_off_is_not_given() {
        for value in ["false", "False", "f", "F", "0"] {
            assert_eq!(left(&[&format!("--demo={value}"), "m"]), "m");
        }
        assert_eq!(left(&["--demo", "m", "--demo=false"]), "m");
        assert_eq!(left(&["--demo=false", "--demo"]), "--demo");
        for kept in [
            "--demo false",
            "--demo=true",
            "--demo=no",
            "--check=false",
            "--grpc-tls=false",
            "--idle-sequence-cleanup=false",
        ] {
            let args: Vec<&str> = kept.split(' ').collect();
            assert_eq!(left(&args), kept);
        }
    }

    #[test]
    fn underscores_and_hyphens_are_equal_in_flags() {
        let typed = |dash: &str| {
            let flags = [
                "--model*name",
                "a-b",
                "--rest*port=1_2",
                "--log*level",
                "--x-y",
            ];
            let flags = flags.map(|flag| flag.replace('*', dash));
            left(&flags.each_ref().map(String::as_str))
        };
        assert_eq!(typed("_"), typed("-"));
        assert!(typed("_").contains(" a-b ") && typed("_").contains("=1_2 "));
        let mixed = format!("--rest-bind{}address", '_');
        assert_eq!(left(&[&mixed, "a"]), "--rest-bind-address a");
    }

    #[test]
    fn whole_numbers_say_what_they_count() {
        let wrong = |name, text| whole(name, 0)(text).unwrap_err();
        assert_eq!(
            wrong("sequence_cleaner_poll_wait_minutes", "0.1"),
            "expected a whole number of minutes from 0 to 4294967295"
        );
        assert_eq!(
            wrong("nireq", "two"),
            "expected a whole number from 0 to 4294967295"
        );
        assert_eq!(wrong("nireq", "-1"), "-1 is not in 0..=4294967295");
        assert_eq!(whole("nireq", 1)("1"), Ok(1));
        for name in ["port", "rest_port", "management_port"] {
            let expected = "expected a whole number from 0 to 65535";
            assert_eq!(wrong(name, "abc"), expected, "{name}");
            assert_eq!(wrong(name, "-1"), "-1 is not in 0..=65535", "{name}");
            assert_eq!(whole(name, 0)("70000"), Ok(70000), "{name}");
        }
    }
}
