//! Flags with an empty value, as start scripts write them for an unset variable.

use std::{any::TypeId, ffi::OsString};

use clap::{Arg, Args as _, Command};

use super::{
    ServeArgs,
    typed::{TypedArg, takes_text, typed},
};

/// Flags with a meaningful empty value: the header is left out.
const MEANT: [&str; 3] = ["allowed_origins", "allowed_methods", "allowed_headers"];

/// Removes the flags of `serve` with an empty value, and their earlier values: the last value
/// counts, and that is none.
pub(crate) fn without_empty(args: &[OsString]) -> Vec<OsString> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut kept: Vec<TypedArg<'_>> = Vec::new();
    for arg in typed(&command, args) {
        let is_empty = match arg.text.split_once('=') {
            Some((_, value)) => value.is_empty(),
            None => arg.words.get(1).is_some_and(|value| value.is_empty()),
        };
        match arg.flag.filter(|flag| is_empty && is_text(flag)) {
            Some(flag) => kept.retain(|earlier| earlier.flag != Some(flag)),
            None => kept.push(arg),
        }
    }
    kept.iter().flat_map(|arg| arg.words).cloned().collect()
}

/// Returns whether a flag takes text, unless an empty value is meaningful.
fn is_text(flag: &Arg) -> bool {
    let value = flag.get_value_parser().type_id();
    let is_number = value == TypeId::of::<u32>()
        || value == TypeId::of::<u64>()
        || value == TypeId::of::<usize>();
    takes_text(flag) && !MEANT.contains(&flag.get_long().unwrap_or_default()) && !is_number
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::without_empty;

    fn left(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        without_empty(&args)
            .join(" ".as_ref())
            .into_string()
            .unwrap()
    }

    #[test]
    fn a_flag_with_an_empty_text_is_not_given() {
        assert_eq!(left(&["--shape=", "--port=1"]), "--port=1");
        assert_eq!(left(&["--shape", "", "--port", "1"]), "--port 1");
        assert_eq!(left(&["--shape=(1)", "--port=1", "--shape="]), "--port=1");
        assert_eq!(left(&["--shape=", "--shape=(1)"]), "--shape=(1)");
        assert_eq!(left(&["--log_level=", "--log_format="]), "");
        for kept in [
            "--allowed_origins=",
            "--port=",
            "--max_connections=",
            "--stateful=",
            "--unknown=",
            "--shape",
            "--model_name --shape= x",
        ] {
            let args: Vec<&str> = kept.split(' ').collect();
            assert_eq!(left(&args), kept);
        }
    }
}
