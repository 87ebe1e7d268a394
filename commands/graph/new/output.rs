//! `--output` of `ovms graph new`: the format of stdout, as in other commands.
//!
//! It once was the flag for outputs of the graph, so names of outputs are still accepted.

use std::ffi::OsStr;

use clap::{
    Arg, Command, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};
use ovms::scaffold::ScaffoldStream;

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

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, Command};

    use super::{Chosen, FormatOrStream, parted};
    use crate::ui::OutputFormat;

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
