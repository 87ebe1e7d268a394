//! Flags of `ovms bench` as typed; their comments are the help.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;

use super::{
    condition::FailCondition,
    levels::{Levels, NamedShape},
};
use crate::{
    completions::{names, usual},
    error::Failure,
    infer::{ImageArgs, InputArgs, RequestArgs, ServerArgs, duration, model_name},
};

const AFTER_HELP: &str = "\
LEVELS are numbers, ranges, or lists of both: 8; 1,4,16; 1:64 doubles from 1 to 64, as does 1:64:2x \
with an explicit factor; 100:500:100 goes up in steps of 100.

Each level is measured in windows of --interval until three in a row agree within 10 % in rate and \
mean latency; the figures are those of these three. If no three agree within --max-trials windows, \
the figures are those of the last three, and a note says so.

Inputs are given as for `ovms infer`; see `ovms infer --help`. By default they are random, with the \
datatypes and shapes of the model's metadata.

A condition of --fail-if is a METRIC, one of < <= > >=, and a number: p50, p90, p95, p99, or max in \
us, ms, or s; rate in requests per second; errors as a number, or in % of all requests. Other \
conditions are `unstable` and, with --against, `worse`, or 'worse>5%' for more than that.

Examples:
  ovms bench resnet
  ovms bench resnet --concurrency 1:64 --html report.html
  ovms bench resnet --rate 100:2000:100 --poisson --output csv
  ovms bench resnet -i '@photos/*.jpg' --in-turn
  ovms bench vad -i audio=@frame.npy --sequence 50 --concurrency 16
  ovms bench ocr --requests recorded.jsonl --rate 20 --fail-if 'p99>200ms'
  ovms bench resnet --api tfs-rest --shape 0:1,3,224,224 --save after.json
  ovms bench resnet --against before.json --fail-if 'worse>5%'
  ovms bench --against before.json after.json

Exit codes: 0 done; 1 a condition holds, requests failed, or no request was answered within the \
windows; 64 usage; 69 the server cannot be reached; 130 Ctrl-C; 143 SIGTERM. What was measured until \
then is reported.";

/// Usual maximum number of windows of a level.
const MAX_TRIALS: u16 = 10;

/// Flags of `ovms bench`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    /// Name of the model, pipeline or graph
    ///
    /// With --against, it may be a report of --save: the two reports are compared, without a server.
    #[arg(value_parser = model_name, add = names::servables())]
    pub(super) model: String,

    #[command(flatten)]
    pub(super) load: LevelArgs,
    #[command(flatten)]
    pub(super) measurement: MeasurementArgs,
    #[command(flatten)]
    pub(super) traffic: TrafficArgs,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    pub(super) image: ImageArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) output: BenchOutputArgs,
    #[command(flatten)]
    pub(super) verdict: VerdictArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LevelArgs {
    /// Number of requests in flight, one level after another [default: 1]
    ///
    /// A closed loop: each response triggers the next request.
    #[arg(
        long,
        alias = "concurrency-range",
        value_name = "LEVELS",
        conflicts_with = "rate"
    )]
    pub(super) concurrency: Option<Levels>,

    /// Requests per second, one level after another
    ///
    /// An open loop: requests are sent when they are due, whatever the server does. Latency counts
    /// from that moment, so that a request that is sent late has waited.
    #[arg(long, alias = "request-rate-range", value_name = "LEVELS")]
    pub(super) rate: Option<Levels>,

    /// Send at random times, as many independent clients would
    ///
    /// Intervals are exponentially distributed around the mean of the rate.
    #[arg(long, requires = "rate")]
    pub(super) poisson: bool,

    /// Maximum number of requests in flight with --rate
    ///
    /// Further requests wait; the wait counts as latency.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 512,
        value_parser = clap::value_parser!(u16).range(1..),
        requires = "rate"
    )]
    pub(super) max_in_flight: u16,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct MeasurementArgs {
    /// Length of a window
    #[arg(
        long,
        alias = "measurement-interval",
        value_name = "TIME",
        value_parser = duration_with_unit,
        default_value = "2s"
    )]
    pub(super) interval: Duration,

    /// Send the request for TIME and measure latencies
    ///
    /// A single window, without a check of stability. A number without a unit is in seconds, here and in --max-time.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = TypedDuration::read,
        conflicts_with_all = ["interval", "windows", "stability", "max_trials"]
    )]
    pub(super) duration: Option<TypedDuration>,

    /// Number of consecutive windows that must agree
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(super) windows: u16,

    /// Percent of their mean within which windows agree
    #[arg(
        long,
        alias = "stability-percentage",
        value_name = "PERCENT",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(super) stability: u16,

    /// Maximum number of windows per level [default: 10, or --windows if that is more]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(super) max_trials: Option<u16>,

    /// Time limit for all levels together
    #[arg(long, value_name = "TIME", value_parser = TypedDuration::read, default_value = "10m")]
    pub(super) max_time: TypedDuration,

    /// Number of warm-up requests, which are not measured
    ///
    /// They are sent at the start of each level.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) warmup: u64,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct TrafficArgs {
    /// File with one request per line; - is standard input
    ///
    /// A line is an object of inputs by name, as for `ovms infer --stream`. A value "@cat.png" is
    /// read from that file, as with `-i`; relative paths start at the folder of FILE. `weight` sets
    /// how often a line is sent relative to the others, by default 1. With --sequence, the lines are
    /// the steps, in order.
    #[arg(long, value_name = "FILE")]
    pub(super) requests: Option<PathBuf>,

    /// Send values of an input one per request, not as a batch
    ///
    /// `-i '@photos/*.png'`, or an `-i` for each: requests cycle through the values. With
    /// --sequence, they are the steps, in order.
    #[arg(long, requires = "inputs", conflicts_with = "requests")]
    pub(super) in_turn: bool,

    /// Shape of an input with dynamic dimensions
    ///
    /// The same as `-i NAME::DIMS=`. Can be repeated.
    #[arg(long, value_name = "NAME:DIMS", conflicts_with = "requests")]
    pub(super) shape: Vec<NamedShape>,

    /// Send sequences of N requests to a stateful model
    ///
    /// Each request in flight belongs to its own sequence, with its own id; one that ends is followed
    /// by the next.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "stream"
    )]
    pub(super) sequence: Option<u32>,

    /// Send requests over streams, one per request in flight
    ///
    /// KServe only. Over kserve-rest, each request has its own stream, of server-sent events.
    #[arg(long)]
    pub(super) stream: bool,

    /// Responses per request of a stream: a number, or `end` [default: 1, or end over REST]
    ///
    /// `end` is for generators: each request has its own stream, and its answer is all that comes
    /// until the server ends it. The time to the first response is measured as well.
    #[arg(long, value_name = "N|end", requires = "stream", value_parser = responses)]
    pub(super) responses: Option<Responses>,
}

/// Number of responses that answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responses {
    Count(u64),
    End,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct BenchOutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = BenchFormat::Table, value_name = "FORMAT")]
    pub(super) output: BenchFormat,

    /// Show a latency histogram of each level, even of several
    #[arg(long)]
    pub(super) histogram: bool,

    /// Write a report with plots to this HTML file
    ///
    /// The file is self-contained, so it can be mailed or kept as an artifact.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Write the report as JSON to this file, for --against
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
}

/// Format of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BenchFormat {
    /// A table of levels
    Table,
    /// The report as one JSON object
    Json,
    /// A line per level
    Csv,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Verdict")]
pub(super) struct VerdictArgs {
    /// Compare with a report of --save
    ///
    /// The verdict is better, worse, or no difference. A change counts if its 95 % confidence
    /// interval excludes 0: Welch's t-interval over the windows of both reports. Settings that differ
    /// are listed; `--fail-if worse` requires the same model, protocol, and inputs.
    #[arg(long, value_name = "FILE")]
    pub(super) against: Option<PathBuf>,

    /// Exit with 1 if this holds at any level, such as 'p99>20ms'
    ///
    /// Can be repeated.
    #[arg(long, value_name = "CONDITION", add = usual(&["unstable", "worse"]))]
    pub(super) fail_if: Vec<FailCondition>,

    /// Exit with 0 even if requests failed
    #[arg(long)]
    pub(super) allow_errors: bool,
}

impl VerdictArgs {
    /// Returns whether the exit code depends on a comparison.
    pub(super) fn is_by_comparison(&self) -> bool {
        let mut conditions = self.fail_if.iter();
        conditions.any(|it| matches!(it, FailCondition::Worse { .. }))
    }

    /// Returns whether a file is the report to compare with.
    pub(super) fn is_against(&self, path: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let against = self.against.as_deref().and_then(whole);
        against.is_some() && against == whole(path)
    }
}

/// Duration, and whether it has a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypedDuration {
    pub(super) length: Duration,
    has_unit: bool,
}

/// Longest duration without a unit that is more likely meant in seconds than in milliseconds.
const MAX_UNITLESS: Duration = Duration::from_secs(120);

impl TypedDuration {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self {
            length: duration(text)?,
            has_unit: text.parse::<f64>().is_err(),
        })
    }

    /// Returns whether it may be meant in milliseconds, as other tools of load take a number.
    fn is_doubtful(self) -> bool {
        !self.has_unit && self.length > MAX_UNITLESS
    }
}

impl MeasurementArgs {
    /// Returns the maximum number of windows of a level, which has as many as must agree.
    pub(super) fn max_windows(&self) -> Result<u16, Failure> {
        let windows = self.windows;
        match self.max_trials {
            Some(most) if most < windows => {
                let text = format!(
                    "`--max-trials {most}` is less than the {windows} windows that must agree (`--windows`)"
                );
                let hint =
                    format!("write `--max-trials {windows}`, or more, or `--windows {most}`");
                Err(Failure::usage(text).hint(hint))
            }
            Some(most) => Ok(most),
            None => Ok(MAX_TRIALS.max(windows)),
        }
    }

    /// Returns what is to be said of durations that take longer than they may be meant to.
    pub(super) fn note(&self) -> Option<String> {
        let all = [
            ("--duration", self.duration),
            ("--max-time", Some(self.max_time)),
        ];
        let (flag, doubtful) = all
            .into_iter()
            .filter_map(|(flag, it)| Some((flag, it?)))
            .find(|(_, it)| it.is_doubtful())?;
        let seconds = doubtful.length.as_secs_f64();
        Some(format!(
            "note: `{flag} {seconds}` has no unit and is {seconds} s; `{flag} {seconds}ms` is in milliseconds"
        ))
    }
}

/// Reads a duration with its unit: a number alone is in seconds for one tool of load and in milliseconds for another.
fn duration_with_unit(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(_) => Err(format!(
            "found `{text}`, expected a number with a unit, such as 500ms or 2s"
        )),
        Err(_) => duration(text),
    }
}

fn responses(text: &str) -> Result<Responses, String> {
    if text == "end" {
        return Ok(Responses::End);
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Responses::Count(count)),
        _ => Err(format!(
            "found `{text}`, expected a number above 0, or `end`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args as _, Command, FromArgMatches as _};

    use super::{MeasurementArgs, Responses, duration_with_unit, responses};
    use crate::error::FailureKind;

    fn measurement(flags: &str) -> MeasurementArgs {
        let words = ["bench"].into_iter().chain(flags.split_whitespace());
        let command = MeasurementArgs::augment_args(Command::new("bench"));
        let matches = command.get_matches_from(words);
        MeasurementArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_level_may_have_as_many_windows_as_must_agree() {
        let most = |flags: &str| measurement(flags).max_windows();
        for (flags, expected) in [
            ("", 10),
            ("--windows 12", 12),
            ("--max-trials 3", 3),
            ("--windows 1 --max-trials 1", 1),
            ("--windows 5 --max-trials 900", 900),
        ] {
            assert_eq!(most(flags).unwrap(), expected, "{flags}");
        }
        insta::assert_snapshot!(most("--max-trials 1").unwrap_err().text(), @r"
        error: `--max-trials 1` is less than the 3 windows that must agree (`--windows`)
        hint: write `--max-trials 3`, or more, or `--windows 1`
        ");
        let error = most("--windows 5 --max-trials 3").unwrap_err();
        assert_eq!(error.kind(), FailureKind::Usage);
    }

    #[test]
    fn a_long_duration_without_a_unit_is_reported() {
        let note = |flags: &str| measurement(flags).note();
        insta::assert_snapshot!(note("--duration 500").unwrap(), @"note: `--duration 500` has no unit and is 500 s; `--duration 500ms` is in milliseconds");
        insta::assert_snapshot!(note("--max-time=900").unwrap(), @"note: `--max-time 900` has no unit and is 900 s; `--max-time 900ms` is in milliseconds");
        for flags in [
            "",
            "--duration 120",
            "--duration 500s",
            "--duration 500ms",
            "--max-time 1h",
        ] {
            assert_eq!(note(flags), None, "{flags}");
        }
    }

    #[test]
    fn windows_have_a_unit() {
        assert_eq!(duration_with_unit("2s"), Ok(Duration::from_secs(2)));
        let error = duration_with_unit("5000").unwrap_err();
        assert_eq!(
            error,
            "found `5000`, expected a number with a unit, such as 500ms or 2s"
        );
    }

    #[test]
    fn responses_are_a_number_or_all() {
        assert_eq!(responses("end"), Ok(Responses::End));
        assert_eq!(responses("3"), Ok(Responses::Count(3)));
        for text in ["0", "", "-1", "all"] {
            let expected = format!("found `{text}`, expected a number above 0, or `end`");
            assert_eq!(responses(text), Err(expected));
        }
    }
}
