//! Files on the command line that are not where `-i` takes them.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::ui;

/// Next step for several files, or a folder of them.
const SEVERAL: &str = "repeat `-i` for each file, or give a quoted pattern: `-i '@DIR/*.png'`";

/// Returns how files are given, for those that stand alone or behind the first, and for a folder.
pub(crate) fn file_meant(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let arg = text(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument if arg.starts_with('@') => Some(SEVERAL.to_owned()),
        ErrorKind::UnknownArgument if Path::new(arg).is_file() => {
            let value = ui::shell_word(&format!("@{arg}"));
            Some(format!("`-i {value}` sends that file"))
        }
        ErrorKind::ValueValidation if arg.starts_with("--input ") => {
            let (_, path) = text(ContextKind::InvalidValue)?.split_once('@')?;
            let is_several = path.contains(['*', '?']) || Path::new(path).is_dir();
            is_several.then(|| SEVERAL.to_owned())
        }
        _ => None,
    }
}
