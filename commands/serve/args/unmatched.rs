//! Arguments that are no flags of `ovms serve`.

use std::ffi::OsString;

use clap::{Args as _, Command};

use super::{
    ServeArgs,
    typed::{TypedArg, takes_text, typed},
};
use crate::error::Failure;

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
    ("graphs of generative models", "num_streams vocoder"),
];

/// Returns the purpose of an absent flag of the C++ server.
fn absent(name: &str) -> Option<&'static str> {
    let is_one = |names: &str| names.split(' ').any(|other| other == name);
    let found = ABSENT.iter().find(|(_, names)| is_one(names));
    found.map(|(what, _)| *what)
}

/// Rejects arguments that are no flags of `serve`, all at once and in the format expected by start scripts.
pub(crate) fn refuse_unmatched(args: &[OsString]) -> Result<(), Failure> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut unmatched = Vec::new();
    // Flags with `true` or `false` behind a blank.
    let mut parted = Vec::new();
    let mut optional = None;
    for TypedArg { text, flag, .. } in typed(&command, args) {
        let before = optional.take();
        if let Some(flag) = flag {
            optional = flag
                .get_long()
                .filter(|_| !takes_text(flag) && !text.contains('='));
            continue;
        }
        if let (Some(flag), "true" | "false" | "True" | "False") = (before, &*text) {
            parted.push(format!(
                "write `--{flag}={text}` in place of `--{flag} {text}`"
            ));
        }
        let name = text.split('=').next().unwrap_or_default();
        if !matches!(&*text, "-h" | "-q") && !matches!(name, "--help" | "--version" | "--quiet") {
            unmatched.push(text.into_owned());
        }
    }
    if unmatched.is_empty() {
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
        let known = command.get_arguments().filter_map(|arg| arg.get_long());
        let near = ovms::error::nearest(name, known).filter(|known| is_slip(name, known));
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
    fn strangers_are_listed_with_the_nearest_flag() {
        assert_eq!(
            refused(&["--port", "9000", "--demo", "--model_path=x"]),
            None
        );
        assert_eq!(refused(&["--port", "--odd-value-of-port"]), None);
        insta::assert_snapshot!(
            refused(&["--modelname", "x", "--port=1", "--qqq=1"]).unwrap(),
            @"
        error parsing options - unmatched arguments: --modelname, x, --qqq=1, 
        hint: for `--modelname`, did you mean `--model_name`?
        hint: `ovms serve --help` lists the flags
        "
        );
    }
}
