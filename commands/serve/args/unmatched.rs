//! Words of the command line that are neither flags of `ovms serve` nor paths beside which nothing else is named.

use std::{ffi::OsString, path::Path};

use clap::{Args, Command};

use super::{ServeArgs, elsewhere::elsewhere, takes_text, typed};
use crate::{error::Failure, serve::path_behind, spelling::hyphenated, ui};

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

/// Flags that name what is served, or what is done instead: no path stands beside them. The first that is given is the
/// one to leave out.
const SOURCES: [&str; 6] = [
    "list_models",
    "add_to_config",
    "remove_from_config",
    "demo",
    "config_path",
    "model_path",
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

/// Words that are no flags and no values of flags.
#[derive(Debug, Default)]
struct Strangers {
    /// Paths of models.
    paths: Vec<String>,
    /// All others, and what seems to be the value of one of them.
    others: Vec<String>,
    /// Next steps for those of them that stand behind a flag.
    hints: Vec<String>,
    /// Flags of [`SOURCES`] that are given.
    sources: Vec<String>,
}

impl Strangers {
    /// Sorts the words of a command line. Fails for two folders of models.
    fn find(command: &Command, args: &[OsString]) -> Result<Self, Failure> {
        let mut found = Self::default();
        // The flag before it, if that takes no word, and whether it is unknown and may take one.
        let (mut optional, mut is_value) = (None, false);
        let mut has_flags = false;
        let mut repository: Option<String> = None;
        for arg in typed(command, args) {
            let (text, flag) = (&*arg.text, arg.flag);
            let before = optional.take();
            let follows_unknown = std::mem::take(&mut is_value);
            let leads = !has_flags;
            has_flags |= text.starts_with('-');
            if let Some(flag) = flag {
                let id = flag.get_id().as_str();
                if SOURCES.contains(&id) {
                    found.sources.push(id.to_owned());
                }
                if id == REPOSITORY {
                    let value = arg.value().unwrap_or_default().into_owned();
                    match &repository {
                        Some(first) if *first != value => {
                            return Err(two_repositories(first, &value));
                        }
                        _ => repository = Some(value),
                    }
                }
                optional = flag
                    .get_long()
                    .filter(|_| !takes_text(flag) && !text.contains('='));
                continue;
            }
            let name = text.split('=').next().unwrap_or_default();
            if matches!(text, "-h" | "-q") || matches!(name, "--help" | "--version" | "--quiet") {
                continue;
            }
            if !follows_unknown && is_path(text, leads) {
                found.paths.push(text.to_owned());
                continue;
            }
            match (before, text) {
                (Some(flag), "true" | "false" | "True" | "False") => found.hints.push(format!(
                    "write `--{flag}={text}` in place of `--{flag} {text}`"
                )),
                (Some(flag), path) if !path.starts_with('-') => {
                    found.hints.extend(path_behind(flag, path));
                }
                _ => {}
            }
            is_value = text.starts_with('-') && !text.contains('=');
            found.others.push(text.to_owned());
        }
        Ok(found)
    }

    /// Returns the failure for paths beside a flag that names what is served or done in place of them, if there is one.
    fn beside_source(&self) -> Option<Failure> {
        let first = self.paths.first()?;
        let is_given = |source: &&&str| self.sources.iter().any(|it| it == **source);
        let source = SOURCES.iter().find(is_given)?;
        let flag = hyphenated(source);
        let paths = match &self.paths[..] {
            [one] => format!("the path {one}"),
            several => format!("the paths {}", several.join(", ")),
        };
        let text = format!("--{flag} is given beside {paths}; expected one or the other");
        let hint = match *source {
            "demo" => "leave out --demo, which serves a model of its own".to_owned(),
            "config_path" => "leave out --config-path, or add the model to the file: `ovms serve --add-to-config \
                              --config-path FILE --model-name NAME --model-path PATH`"
                .to_owned(),
            "model_path" => "leave out --model-path: `ovms serve PATH PATH` serves several models".to_owned(),
            _ => path_behind(&flag, first)?,
        };
        Some(Failure::usage(text).hint(hint))
    }
}

/// Rejects arguments that are neither flags of `serve` nor paths of models, all at once and in the format
/// expected by start scripts; and paths beside a flag that leaves no place for them.
pub(crate) fn refuse_unmatched(args: &[OsString]) -> Result<(), Failure> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let found = Strangers::find(&command, args)?;
    if found.others.is_empty() {
        return found.beside_source().map_or(Ok(()), Err);
    }
    let list: String = found.others.iter().map(|arg| format!("{arg}, ")).collect();
    let text = format!("error parsing options - unmatched arguments: {list}");
    let failure = Failure::usage_verbatim(text);
    let mut failure = found.hints.into_iter().fold(failure, Failure::hint);
    for arg in &found.others {
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

    use super::refuse_unmatched;

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
    fn a_path_is_a_stranger_beside_what_names_a_model() {
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
            (&["a.onnx", "--prt", "1"], "--prt, 1, "),
            (&["--prt", "a.onnx", "b.onnx"], "--prt, a.onnx, "),
            (&["--demo", "a.onnx", "--prt=1"], "--prt=1, "),
        ] {
            let expected = format!("error parsing options - unmatched arguments: {expected}");
            assert_eq!(first(args), Some(expected), "{args:?}");
        }
        for (args, flag, paths) in [
            (
                &["a.onnx", "--model-path", "b"][..],
                "--model-path",
                "path a.onnx",
            ),
            (&["--demo", "a.onnx", "./b"], "--demo", "paths a.onnx, ./b"),
            (
                &["a.onnx", "--config-path=c"],
                "--config-path",
                "path a.onnx",
            ),
            (
                &["./c", "--config-path=d", "--add-to-config"],
                "--add-to-config",
                "path ./c",
            ),
        ] {
            let expected =
                format!("error: {flag} is given beside the {paths}; expected one or the other");
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
        insta::assert_snapshot!(refused(&["--idle-timeout", "10"]).unwrap(), @"
        error parsing options - unmatched arguments: --idle-timeout, 10, 
        hint: `--idle-timeout-seconds` is for connections; idle sequences have `--sequence-cleaner-poll-wait-minutes`
        hint: `ovms serve --help` lists the flags
        ");
    }
}
