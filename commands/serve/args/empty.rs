//! Flags with an empty value, as start scripts write them for an unset variable.

use std::{any::TypeId, ffi::OsString};

use clap::{Arg, Args as _, Command};

use super::ServeArgs;

/// Flags with a meaningful empty value: the header is left out.
const MEANT: [&str; 3] = ["allowed_origins", "allowed_methods", "allowed_headers"];

/// Removes the flags of `serve` with an empty value, and their earlier values: the last value
/// counts, and that is none.
pub(crate) fn without_empty(args: &[OsString]) -> Vec<OsString> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let mut kept: Vec<(Option<&str>, &[OsString])> = Vec::new();
    let mut rest = args;
    while let Some((arg, behind)) = rest.split_first() {
        let (name, value) = match arg.to_str().and_then(|arg| arg.strip_prefix("--")) {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            },
            None => ("", None),
        };
        let known = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))
            .filter(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set());
        let length = match known {
            // What follows is its value, whatever it looks like.
            Some(_) if value.is_none() => rest.len().min(2),
            _ => 1,
        };
        let (this, after) = rest.split_at(length);
        rest = after;
        let is_empty = match value {
            Some(value) => value.is_empty(),
            None => behind.first().is_some_and(|value| value.is_empty()),
        };
        if is_empty && known.is_some_and(is_text) {
            kept.retain(|(earlier, _)| *earlier != Some(name));
        } else {
            kept.push((known.is_some().then_some(name), this));
        }
    }
    kept.into_iter()
        .flat_map(|(_, args)| args)
        .cloned()
        .collect()
}

/// Returns whether a flag takes text, unless an empty value is meaningful.
fn is_text(flag: &Arg) -> bool {
    let numbers = [
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ];
    let value = flag.get_value_parser().type_id();
    let long = flag.get_long().unwrap_or_default();
    !MEANT.contains(&long) && !numbers.iter().any(|number| value == *number)
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
