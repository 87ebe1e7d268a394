//! Flags for the request except its inputs.

use ovms::request::Parameter;

use super::pair;
use crate::completions::names;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(in crate::infer) struct RequestArgs {
    /// Version of the model [default: the server's choice]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "model",
        add = names::versions()
    )]
    pub(in crate::infer) model_version: Option<u64>,

    /// Request only this output
    ///
    /// Can be repeated; outputs are shown in this order.
    #[arg(long, value_name = "NAME", add = names::outputs())]
    pub(in crate::infer) output_name: Vec<String>,

    /// Request id, which the response repeats (KServe only)
    #[arg(long, value_name = "TEXT")]
    pub(in crate::infer) id: Option<String>,

    /// Send a request parameter
    ///
    /// KServe only. `true` and `false` are booleans and whole numbers are integers; anything else,
    /// and anything in double quotes, is a string. Can be repeated.
    #[arg(
        long,
        visible_alias = "parameter",
        value_name = "KEY=VALUE",
        value_parser = parameter
    )]
    pub(in crate::infer) param: Vec<(String, Parameter)>,

    /// Send tensors as raw bytes over gRPC (default)
    #[arg(long, group = "form")]
    pub(in crate::infer) raw: bool,

    /// Send tensors in typed fields over gRPC
    #[arg(long, group = "form")]
    pub(in crate::infer) typed: bool,

    /// Send and ask for tensors as bytes over kserve-rest (default)
    #[arg(long, group = "form")]
    pub(in crate::infer) binary: bool,

    /// Send and ask for tensors as JSON over REST (over tfs-rest always so)
    #[arg(long, group = "form")]
    pub(in crate::infer) json_data: bool,
}

/// Reads a flag's value as a request parameter.
pub(crate) fn parameter(text: &str) -> Result<(String, Parameter), String> {
    let (key, value) = pair(text)?;
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let parameter = match (quoted, value.as_str()) {
        (Some(text), _) => Parameter::Text(text.to_owned()),
        (None, "true") => Parameter::Bool(true),
        (None, "false") => Parameter::Bool(false),
        (None, text) => match text.parse() {
            Ok(number) => Parameter::Int(number),
            Err(_) => Parameter::Text(value),
        },
    };
    Ok((key, parameter))
}

#[cfg(test)]
mod tests {
    use ovms::request::Parameter;

    use super::{pair, parameter};

    #[test]
    fn parameters_have_the_type_of_their_text() {
        let text = |text: &str| Parameter::Text(text.to_owned());
        for (typed, value) in [
            ("k=true", Parameter::Bool(true)),
            ("k=False", text("False")),
            ("k=-7", Parameter::Int(-7)),
            ("k=\"7\"", text("7")),
            ("k=7.5", text("7.5")),
            ("k=", text("")),
            ("k=a=b", text("a=b")),
        ] {
            assert_eq!(parameter(typed), Ok(("k".to_owned(), value)), "{typed}");
        }
    }

    #[test]
    fn pairs_have_a_key() {
        for text in ["", "k", "=v"] {
            assert_eq!(
                pair(text).unwrap_err(),
                format!("found `{text}`, expected KEY=VALUE")
            );
        }
    }
}
