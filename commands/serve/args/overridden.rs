//! A path of a model that another one takes the place of.

use std::ffi::OsString;

use clap::{Args, Command};

use super::{ServeArgs, typed};

/// Returns a note if `--model-path` has several values, of which the last one counts, as for the C++ server. Other flags are
/// given again on purpose, behind those of a script.
pub(crate) fn overridden(args: &[OsString]) -> Option<String> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let paths = typed(&command, args).filter_map(|arg| {
        arg.flag.filter(|flag| flag.get_id() == "model_path")?;
        Some(arg.value()?.into_owned())
    });
    let paths: Vec<String> = paths.collect();
    let last = paths.last()?;
    let differs = paths.iter().any(|path| path != last);
    differs.then(|| {
        format!(
            "note: --model-path is given more than once, and only the last one counts: {last}; `ovms serve PATH PATH` serves \
             several models"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{OsString, overridden};

    #[test]
    fn of_several_paths_the_one_that_counts_is_noted() {
        let note = |args: &str| {
            let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
            overridden(&args)
        };
        for args in [
            "a b",
            "--model_path a --model-path=a",
            "--port 1 --port=2 --model_path a",
            "--model_name --model_path --model_path a",
        ] {
            assert_eq!(note(args), None, "{args}");
        }
        insta::assert_snapshot!(
            note("--model_path a --port 1 --model-path=b").unwrap(),
            @"note: --model-path is given more than once, and only the last one counts: b; `ovms serve PATH PATH` serves several models"
        );
    }
}
