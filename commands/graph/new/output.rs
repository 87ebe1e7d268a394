//! `--output` of `ovms graph new`: the format of stdout, as in other commands.
//!
//! It once was the flag for outputs of the graph, so names of outputs are still accepted.

use std::ffi::OsStr;

use clap::{
    Arg, Command, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};
use ovms::{error::nearest, scaffold::ScaffoldStream};

use crate::ui::OutputFormat;

/// Value of the flag.
#[derive(Debug, Clone)]
pub(super) enum Chosen {
    /// Format of stdout.
    Format(OutputFormat),
    /// Output of the graph.
    Stream(ScaffoldStream),
}

/// Parser that accepts the formats, which are all that the help lists, and streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormatOrStream;

impl TypedValueParser for FormatOrStream {
    type Value = Chosen;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Chosen, clap::Error> {
        let format = EnumValueParser::<OutputFormat>::new().parse_ref(command, arg, value);
        let Err(refused) = format else {
            return format.map(Chosen::Format);
        };
        let stream = value.to_str().map(str::parse::<ScaffoldStream>);
        stream
            .and_then(Result::ok)
            .map(Chosen::Stream)
            .ok_or(refused)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let formats = OutputFormat::value_variants().iter();
        Some(Box::new(formats.filter_map(ValueEnum::to_possible_value)))
    }
}

/// Splits values into format and streams; the last format counts.
pub(super) fn parted(chosen: Vec<Chosen>) -> (OutputFormat, Vec<ScaffoldStream>) {
    let (mut output, mut streams) = (OutputFormat::Table, Vec::new());
    for it in chosen {
        match it {
            Chosen::Format(format) => output = format,
            Chosen::Stream(stream) => streams.push(stream),
        }
    }
    (output, streams)
}

/// Returns the note that a value was taken for the name of an output.
pub(super) fn meant(name: &str) -> String {
    let formats = OutputFormat::value_variants().iter();
    let formats = formats.filter_map(ValueEnum::to_possible_value);
    let formats: Vec<String> = formats.map(|it| it.get_name().to_owned()).collect();
    let near = nearest(name, formats.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| {
        format!("; did you mean `--output {near}`?")
    });
    format!(
        "note: `--output {name}` is not a format, so it names an output, as `--output-name {name}` does{near}"
    )
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, Command};

    use super::{Chosen, FormatOrStream, meant, parted};
    use crate::ui::OutputFormat;

    #[test]
    fn a_format_with_a_typing_error_is_reported() {
        let note = meant("jsn");
        assert!(note.ends_with("; did you mean `--output json`?"), "{note}");
        let note = meant("token");
        assert!(note.ends_with("as `--output-name token` does"), "{note}");
    }

    #[test]
    fn what_is_no_format_is_a_stream() {
        let arg = Arg::new("output").long("output");
        let arg = arg.action(ArgAction::Append).value_parser(FormatOrStream);
        let command = Command::new("new").arg(arg);
        let given = |args: &[&str]| {
            let matches = command
                .clone()
                .try_get_matches_from([&["new"], args].concat())?;
            let chosen = matches.get_many::<Chosen>("output");
            Ok::<_, clap::Error>(parted(chosen.into_iter().flatten().cloned().collect()))
        };
        let (format, streams) = given(&["--output=json", "--output=token:BYTES"]).unwrap();
        assert_eq!((format, streams.len()), (OutputFormat::Json, 1));
        let (format, streams) = given(&["--output=text"]).unwrap();
        assert_eq!((format, streams.len()), (OutputFormat::Table, 0));
        let refused = given(&["--output=JSON"]).unwrap_err().to_string();
        assert!(
            refused.contains("[possible values: table, json]"),
            "{refused}"
        );
    }
}
