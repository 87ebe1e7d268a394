//! The command line of `ovms serve`: the table of flags as arguments.

mod elsewhere;
mod overridden;

use std::{
    any::TypeId,
    borrow::Cow,
    ffi::OsString,
    path::{Path, PathBuf},
};

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

use self::elsewhere::elsewhere;
pub(crate) use self::overridden::overridden;
use super::path_behind;
use crate::{
    completions::{names, usual},
    error::Failure,
    spelling::{hyphenated, spelled},
    ui::{self, OutputFormat},
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
    move |text| {
        let most = u32::MAX;
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

/// Returns the flags of `serve` as the help spells them, without those of an empty value and their earlier
/// values: the last value counts, and that is none.
pub(crate) fn normalized(args: &[OsString]) -> Vec<OsString> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut kept: Vec<TypedArg<'_>> = Vec::new();
    for arg in typed(&command, args) {
        let is_empty = arg.value().is_some_and(|value| value.is_empty());
        match arg.flag.filter(|flag| is_empty && is_text(flag)) {
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

/// Returns whether a flag takes text, unless an empty value is meaningful.
fn is_text(flag: &Arg) -> bool {
    let value = flag.get_value_parser().type_id();
    let is_number = value == TypeId::of::<u32>()
        || value == TypeId::of::<u64>()
        || value == TypeId::of::<usize>()
        || value == TypeId::of::<ByteSize>();
    takes_text(flag) && !MEANT.contains(&flag.get_id().as_str()) && !is_number
}

/// Flags of the C++ server that are absent, by purpose; a guess at another flag would mislead.
const ABSENT: [(&str, &str); 6] = [
    (
        "downloading models",
        "extra_quantization_params gguf_filename overwrite_models pull source_loras source_model \
         task weight-format",
    ),
    (
        "graphs of large language models",
        "cache_size draft_source_model dynamic_split_fuse enable_prefix_caching \
         enable_tool_guided_generation kv_cache_precision max_num_batched_tokens max_num_seqs \
         max_prompt_len model_distribution_policy pipeline_type reasoning_parser tool_parser",
    ),
    ("graphs of embeddings", "normalize pooling truncate"),
    ("graphs that rerank", "max_allowed_chunks"),
    (
        "graphs that generate images",
        "default_num_inference_steps default_resolution guidance_scale max_num_images_per_prompt \
         max_num_inference_steps max_resolution num_images_per_prompt num_inference_steps \
         resolution",
    ),
    ("graphs of generative models", "vocoder"),
];

/// Returns the purpose of an absent flag of the C++ server.
fn absent(name: &str) -> Option<&'static str> {
    let name = hyphenated(name);
    let is_one = |names: &str| names.split(' ').any(|other| hyphenated(other) == name);
    let found = ABSENT.iter().find(|(_, names)| is_one(names));
    found.map(|(what, _)| *what)
}

/// Flags that name what is served, or what is done instead: a path beside them means nothing.
const SOURCES: [&str; 6] = [
    "model_path",
    "config_path",
    "demo",
    "list_models",
    "add_to_config",
    "remove_from_config",
];

/// Flag of a folder of models, of which there is one.
const REPOSITORY: &str = "model_repository_path";

/// Returns the failure for two folders of models. Of other flags the last one counts; whoever names two of these means
/// both, as for Triton.
fn two_repositories(first: &str, second: &str) -> Failure {
    let text = format!(
        "--model-repository-path is given twice, as {first} and {second}; expected one folder"
    );
    let folders = [first, second].map(ui::shell_word).join(" ");
    Failure::usage(text).hint(format!("`ovms serve {folders}` serves the models of both"))
}

/// Returns whether a word is meant as the path of a model: it is there, looks like one, or leads.
fn is_path(text: &str, leads: bool) -> bool {
    !text.starts_with('-') && (leads || text.contains(['/', '.']) || Path::new(text).exists())
}

/// Rejects arguments that are neither flags of `serve` nor paths of models, all at once and in the format
/// expected by start scripts.
pub(crate) fn refuse_unmatched(args: &[OsString]) -> Result<(), Failure> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut unmatched = Vec::new();
    let mut paths = 0;
    // Flags with `true`, `false`, or a path behind a blank.
    let mut parted = Vec::new();
    let mut optional = None;
    let (mut has_flags, mut takes_paths) = (false, true);
    let mut repository: Option<String> = None;
    for arg in typed(&command, args) {
        let (text, flag) = (&*arg.text, arg.flag);
        let before = optional.take();
        let leads = !has_flags;
        has_flags |= text.starts_with('-');
        if let Some(flag) = flag {
            takes_paths &= !SOURCES.contains(&flag.get_id().as_str());
            if flag.get_id() == REPOSITORY {
                let value = arg.value().unwrap_or_default().into_owned();
                match &repository {
                    Some(first) if *first != value => return Err(two_repositories(first, &value)),
                    _ => repository = Some(value),
                }
            }
            optional = flag
                .get_long()
                .filter(|_| !takes_text(flag) && !text.contains('='));
            continue;
        }
        match (before, text) {
            (Some(flag), "true" | "false" | "True" | "False") => parted.push(format!(
                "write `--{flag}={text}` in place of `--{flag} {text}`"
            )),
            (Some(flag), path) if !path.starts_with('-') => {
                parted.extend(path_behind(flag, path));
            }
            _ => {}
        }
        let name = text.split('=').next().unwrap_or_default();
        let is_common =
            matches!(text, "-h" | "-q") || matches!(name, "--help" | "--version" | "--quiet");
        if !is_common {
            let is_path = is_path(text, leads);
            paths += usize::from(is_path);
            unmatched.push(text.to_owned());
        }
    }
    if unmatched.is_empty() || (takes_paths && paths == unmatched.len()) {
        return Ok(());
    }
    let list: String = unmatched.iter().map(|arg| format!("{arg}, ")).collect();
    let text = format!("error parsing options - unmatched arguments: {list}");
    let failure = Failure::usage_verbatim(text);
    let mut failure = parted.into_iter().fold(failure, Failure::hint);
    for arg in &unmatched {
        let name = arg.trim_start_matches('-');
        let name = name.split('=').next().unwrap_or(name);
        if let Some(what) = absent(name).filter(|_| arg.starts_with("--")) {
            failure = failure.hint(format!(
                "`--{name}` is absent from this server on purpose: it is for {what}; \
                 docs/moving.md lists what is absent"
            ));
            continue;
        }
        if let Some(hint) = elsewhere(name).filter(|_| arg.starts_with("--")) {
            failure = failure.hint(hint);
            continue;
        }
        let known = command.get_arguments().filter_map(|arg| arg.get_long());
        let slip = |known: &&str| arg.starts_with('-') && is_slip(name, known);
        let common = ovms::error::nearest(name, ["help", "version"]).filter(slip);
        let near = common.or_else(|| ovms::error::nearest(name, known).filter(slip));
        failure =
            failure.may_hint(near.map(|name| format!("for `{arg}`, did you mean `--{name}`?")));
    }
    Err(failure.hint("`ovms serve --help` lists the flags"))
}

/// Returns whether a flag may be a typo of another. Names of flags have words in common, so even the nearest
/// one may be far.
fn is_slip(typed: &str, known: &str) -> bool {
    2 * strsim::osa_distance(typed, known) <= known.len()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{normalized, refuse_unmatched, whole};

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
        assert_eq!(refused(&[&mixed, "a"]), None);
    }

    fn refused(args: &[&str]) -> Option<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        refuse_unmatched(&args).err().map(|failure| failure.text())
    }

    #[test]
    fn flags_of_graphs_that_are_absent_are_no_spelling_mistakes() {
        let all = super::ABSENT.iter().flat_map(|(_, names)| names.split(' '));
        for name in all {
            let reported = refused(&[&format!("--{name}")]).unwrap();
            let hint =
                format!("hint: `--{name}` is absent from this server on purpose: it is for ");
            assert!(reported.contains(&hint), "{reported}");
            assert!(!reported.contains("did you mean"), "{reported}");
        }
        insta::assert_snapshot!(refused(&["--pooling", "LAST"]).unwrap(), @"
        error parsing options - unmatched arguments: --pooling, LAST, 
        hint: `--pooling` is absent from this server on purpose: it is for graphs of embeddings; docs/moving.md lists what is absent
        hint: `ovms serve --help` lists the flags
        ");
    }

    #[test]
    fn a_path_beside_what_names_a_model_is_a_stranger() {
        for paths in [
            &["flowers.onnx"][..],
            &["flowers"],
            &["./a/", "b.xml", "--port", "1"],
            &["--port=1", "/models"],
            &["--stateful", "s3://bucket/model"],
            &["a.onnx", "--model-name", "b"],
        ] {
            assert_eq!(refused(paths), None, "{paths:?}");
        }
        let first =
            |args: &[&str]| refused(args).map(|text| text.lines().next().unwrap().to_owned());
        for (args, expected) in [
            (&["--port=1", "flowers"][..], "flowers, "),
            (&["a.onnx", "--model-path", "b"], "a.onnx, "),
            (&["--demo", "a.onnx"], "a.onnx, "),
            (&["a.onnx", "--prt", "1"], "a.onnx, --prt, 1, "),
        ] {
            let expected = format!("error parsing options - unmatched arguments: {expected}");
            assert_eq!(first(args), Some(expected), "{args:?}");
        }
    }

    #[test]
    fn flags_of_other_servers_have_their_counterparts() {
        insta::assert_snapshot!(
            refused(&["--model-repository=/m", "--grpc_port=1", "--api-keys", "f"]).unwrap(),
            @"
        error parsing options - unmatched arguments: --model-repository=/m, --grpc_port=1, --api-keys, f, 
        hint: `--model-repository-path DIR` names a folder of models
        hint: `--port` is the gRPC port
        hint: `--auth FILE` names clients with keys and rights; `ovms key new` makes one
        hint: `ovms serve --help` lists the flags
        "
        );
    }

    #[test]
    fn flags_of_triton_have_hints() {
        for name in [
            "log-info",
            "log-error",
            "http-max-input-size",
            "enable-peer-access",
            "allow-sagemaker",
            "log-verbose",
            "id",
            "grpc-keepalive-time",
            "reuse-grpc-port",
            "metrics-interval-ms",
            "host-policy",
            "model-namespacing",
            "http-header-forward-pattern",
            "model-load-retry-count",
            "min-supported-compute-capability",
            "grpc-infer-response-compression-level",
            "python-workers",
        ] {
            let said = refused(&[&format!("--{name}=1")]).unwrap();
            assert_eq!(said.matches("hint: ").count(), 2, "{said}");
            assert!(!said.contains("did you mean"), "{said}");
        }
    }

    #[test]
    fn two_folders_of_models_are_refused() {
        let two = [
            "--model-repository-path",
            "/a",
            "--model_repository_path=/b c",
        ];
        insta::assert_snapshot!(refused(&two).unwrap(), @"
        error: --model-repository-path is given twice, as /a and /b c; expected one folder
        hint: `ovms serve /a '/b c'` serves the models of both
        ");
        assert_eq!(
            refused(&[
                "--model-repository-path",
                "/a",
                "--model-repository-path=/a"
            ]),
            None
        );
        // Of others the last one counts.
        assert_eq!(refused(&["--port=1", "--port=2"]), None);
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
        insta::assert_snapshot!(refused(&["--idle-timeout", "10"]).unwrap(), @"
        error parsing options - unmatched arguments: --idle-timeout, 10, 
        hint: `--idle-timeout-seconds` is for connections; idle sequences have `--sequence-cleaner-poll-wait-minutes`
        hint: `ovms serve --help` lists the flags
        ");
    }

    #[test]
    fn strangers_are_listed_with_the_nearest_flag() {
        assert_eq!(
            refused(&["--port", "9000", "--demo", "--model-path=x"]),
            None
        );
        assert_eq!(refused(&["--port", "--odd-value-of-port"]), None);
        insta::assert_snapshot!(
            refused(&["--modelname", "x", "--port=1", "--qqq=1"]).unwrap(),
            @"
        error parsing options - unmatched arguments: --modelname, x, --qqq=1, 
        hint: for `--modelname`, did you mean `--model-name`?
        hint: `ovms serve --help` lists the flags
        "
        );
    }
}
