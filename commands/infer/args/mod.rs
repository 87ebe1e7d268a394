//! Flags of `ovms infer` as typed; their comments are the help.

mod request;

use std::{fmt, path::PathBuf, time::Duration};

use clap::{
    Arg, Args as _, Command, Id,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use ovms::{
    client::{
        Api,
        input::{Argument, ElementSource, FileKind, InputError},
    },
    tls::ClientTlsOptions,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::{failure, job::URL, sequence::SequenceArgs, stream::StreamArgs};
use crate::{completions::names, error::Failure};

pub(super) use request::{LoadArgs, distinct};
pub(crate) use request::{parameter, preset_meant};
pub(super) use {request::Format, request::OutputArgs, request::TextFormat};
pub(crate) use {request::ImageArgs, request::InputArgs, request::RequestArgs};

/// Text at the end of the short help.
const AFTER_SHORT_HELP: &str = "\
Examples:
  ovms infer resnet -i @cat.png --preset imagenet --top 5
  ovms infer adder -i a='[1, 2]' -i b=@b.npy --output json

`ovms infer --help` has all flags, the values of inputs, and more examples.";

const AFTER_HELP: &str = "\
Values of inputs:
  [1, 2.5]        JSON: a number, true, false, a string, or lists of them; a
                  flat list takes the model's shape; for strings, anything but
                  a list is taken as it is
  @file.npy       a NumPy array, converted within a kind (FP64 to FP32)
  @file.npz       the array of the input's name; without NAME=, every array is
                  an input
  @file.png|jpg   an image, resized and laid out as the model expects; several
                  for one input form a batch, as do the files of a quoted
                  pattern: '@photos/*.png'
  @file.wav       audio from -1 to 1 at its own sample rate (not resampled);
                  with --sequence, in steps of the model's length; @file.pcm
                  is raw 16-bit audio, and @file.f32 raw FP32
  @file.json      JSON; without NAME=, an object with the inputs by name
  @file.txt       a string as it is, or numbers separated by blanks or commas
  @file.bin       the bytes of the tensor, little endian
  -               JSON from standard input, a response of --output json, a
                  .npy file, or an image
  -:pcm16, -:f32  raw samples from standard input, 16-bit (as arecord writes)
                  or FP32; a WAV header, if there is one, sets the format
  -:OUTPUT        an output of such a response; also @file.json:OUTPUT and
                  @file.npz:ARRAY
  @-.bin          standard input as a file of this kind
  (nothing)       filled by --zeros or --random: x::8,10= is a random x of
                  shape 8,10

NAME can be omitted for a model with one input. DTYPE is BOOL, INT8 to INT64, UINT8 to UINT64, \
FP16, BF16, FP32, FP64 or BYTES, and overrides the model's: arrays are converted to it, and images \
as BYTES are sent as they are, for the server to decode.

Examples:
  ovms infer resnet -i @cat.png --preset imagenet --top 5
  ovms infer resnet -i x:FP32=@batch.npy --output npy > scores.npy
  ovms infer adder -i a='[1, 2]' -i b='[3, 4]' --output json
  ovms infer a -i @page.png --output json | ovms infer b -i crops=-:boxes
  ovms infer resnet --random --duration 10s --concurrency 16
  ovms infer vad -i frames=@frames.npy --sequence --output npy > speech.npy
  arecord -f S16_LE -r 16000 | ovms infer vad -i -:pcm16 --sequence --each
  id=$(ovms infer vad -i @first.npy --start --output json | jq .sequence_id)
  ovms infer generator -i prompt='once upon' --stream
  ovms infer --status
  ovms infer resnet --status --wait 60
  ovms infer resnet --metadata --output json
  ovms infer vad --sequences --url http://localhost:8000
  ovms infer adder --zeros --api kserve-rest --print-curl | sh

Exit codes: 0 done; 1 refused by the server, or failed; 64 usage; 69 the server cannot be \
reached; 130 Ctrl-C; 143 SIGTERM. A load reports what was measured until then.";

/// Usage lines, one for each mode.
const USAGE: &str = "\
ovms infer [OPTIONS] <MODEL>
       ovms infer [OPTIONS] <--status|--metadata|--sequences> [MODEL]";

/// Flags of `ovms infer`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = AFTER_SHORT_HELP, after_long_help = AFTER_HELP)]
pub(crate) struct InferArgs {
    /// Name of the model; optional with --status or --metadata
    #[arg(value_parser = model_name, required_unless_present_any = ["status", "metadata"], add = names::servables())]
    pub(super) model: Option<String>,

    #[command(flatten)]
    pub(super) question: QuestionArgs,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    pub(super) image: ImageArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) sequence: SequenceArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(flatten)]
    pub(super) wait: WaitArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Instead of a request")]
pub(super) struct QuestionArgs {
    /// Show the versions of the model and their states
    ///
    /// Without MODEL, of all models of the server.
    #[arg(long, conflicts_with_all = of_a_request())]
    pub(super) status: bool,

    /// Show the inputs and outputs of the model
    ///
    /// Without MODEL, of all models of the server. -1 is a dynamic dimension.
    #[arg(long, conflicts_with_all = of_a_request(), conflicts_with = "status")]
    pub(super) metadata: bool,

    /// Show the live sequences of the model
    ///
    /// With the steps of each, how long it has been idle, and whether its state is in the server or only in the store.
    /// Needs REST, since it is a management path. At most 1000 are shown.
    #[arg(
        long,
        conflicts_with_all = of_a_request(),
        conflicts_with_all = ["status", "metadata"]
    )]
    pub(super) sequences: bool,

    /// Print the request as a curl or grpcurl command; send nothing
    ///
    /// The command is quoted for a shell. Elements are written one by one, unless --raw or --binary
    /// is given or their datatype requires raw bytes. The server is only asked for datatypes and
    /// shapes, and not at all if each input has its own. A sequence becomes one command per step. A
    /// terminal does not show bodies above 8 KiB; a file or a pipe gets the whole command. Also works
    /// with --status, --metadata, and --sequences.
    #[arg(long, conflicts_with = "load")]
    pub(super) print_curl: bool,

    /// Show credentials in the output of --print-curl
    ///
    /// By default, headers with credentials are shown as `***`.
    #[arg(long = "show-secrets", requires = "print_curl")]
    pub(super) show_secrets: bool,
}

/// Returns the arguments that only a request has.
fn of_a_request() -> Vec<Id> {
    let parts: [fn(Command) -> Command; 7] = [
        InputArgs::augment_args,
        ImageArgs::augment_args,
        RequestArgs::augment_args,
        OutputArgs::augment_args,
        SequenceArgs::augment_args,
        StreamArgs::augment_args,
        LoadArgs::augment_args,
    ];
    let command = parts.iter().fold(Command::new(""), |it, part| part(it));
    let ids = command.get_arguments().map(Arg::get_id);
    let is_of_a_question = |id: &&Id| ["model_version", "output"].contains(&id.as_str());
    ids.filter(|id| !is_of_a_question(id)).cloned().collect()
}

/// Takes the input that standard input gives line by line, or sample by sample, from the others.
pub(super) fn of_stdin(inputs: &mut Vec<Argument>) -> Result<Option<Argument>, Failure> {
    let is_stdin = |input: &mut Argument| {
        let ElementSource::Stdin { kind, .. } = &input.source else {
            return false;
        };
        kind.is_none_or(FileKind::is_samples)
    };
    let mut found: Vec<_> = inputs.extract_if(.., is_stdin).collect();
    match (found.pop(), found.is_empty()) {
        (_, false) => Err(failure::input(InputError::StdinTwice, None)),
        (found, true) => Ok(found),
    }
}

/// Header as it is typed; `None` of an empty line.
type TypedHeader = Option<(String, String)>;

/// Reads a header as KEY=VALUE. The error does not contain the text, which may be a secret.
pub(crate) fn secret_pair(text: &str) -> Result<TypedHeader, String> {
    let read = pair(text).map_err(|_| "expected KEY=VALUE".to_owned());
    read.map(Some)
}

/// Reads a line of the environment variable, which may end with a line feed, or have lines between its headers.
fn header_line(text: &str) -> Result<TypedHeader, String> {
    match text.trim().is_empty() {
        true => Ok(None),
        false => secret_pair(text),
    }
}

/// Reads a flag's value as KEY=VALUE.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("found `{text}`, expected KEY=VALUE")),
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct WaitArgs {
    /// Wait up to TIME for MODEL, or the server, to be ready
    ///
    /// Before a request, --status, or --metadata. On timeout, the error says what was seen last. Without MODEL, a model
    /// that failed to load is an error once no other is loading.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "print_curl")]
    pub(super) wait: Option<Duration>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address of the server [default: localhost:9000, or localhost:8000 over REST]
    ///
    /// https:// or grpcs:// means TLS, and unix:PATH is a Unix socket, with any protocol. Without --api, grpc:// or no
    /// scheme means kserve-grpc, and http:// or https:// means kserve-rest.
    #[arg(long, value_name = "HOST:PORT", env = URL, hide_env_values = true)]
    pub(in crate::infer) url: Option<String>,

    /// Protocol [default: kserve-grpc, or kserve-rest for an http:// address]
    #[arg(
        long,
        value_parser = api(),
        value_name = "PROTOCOL",
        env = "OVMS_API",
        hide_env_values = true
    )]
    pub(crate) api: Option<Api>,

    /// Timeout of the connection and of each request
    #[arg(
        long,
        alias = "client-timeout",
        value_name = "TIME",
        value_parser = duration,
        default_value = "30s",
        env = "OVMS_TIMEOUT",
        hide_env_values = true
    )]
    pub(in crate::infer) timeout: Duration,

    /// HTTP header or gRPC metadata to send with each request
    ///
    /// Can be repeated; the environment variable has one per line.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_parser = header_line,
        value_delimiter = '\n',
        env = HEADER_VARIABLE,
        hide_env_values = true
    )]
    pub(in crate::infer) header: Vec<TypedHeader>,

    #[command(flatten)]
    pub(in crate::infer) credentials: CredentialArgs,
    #[command(flatten)]
    pub(in crate::infer) tls: TlsArgs,
}

impl ServerArgs {
    /// Returns the API to ask: the one that is named, or else the one of the address.
    pub(crate) fn api(&self) -> Api {
        self.api
            .unwrap_or_else(|| Api::of_scheme(self.url.as_deref().unwrap_or_default()))
    }
}

/// Credentials of the client, for each command that asks a server.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct CredentialArgs {
    /// API key to send, as x-api-key
    ///
    /// Other users of this machine can see command lines; the environment variable hides the key from them.
    #[arg(long, value_name = "KEY", env = API_KEY_VARIABLE, hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// Token (JWT) to send, as authorization: Bearer
    #[arg(long, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
}

impl CredentialArgs {
    /// Adds the headers of the credentials. Errors have no values, which are secrets.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) -> Result<(), Failure> {
        let bearer = self.bearer.as_ref().map(|token| format!("Bearer {token}"));
        for (flag, variable, name, value) in [
            ("--api-key", Some(API_KEY_VARIABLE), API_KEY, &self.api_key),
            ("--bearer", None, AUTHORIZATION, &bearer),
        ] {
            let Some(text) = value else { continue };
            let mut value = HeaderValue::from_str(text).map_err(|_| {
                let is_it = |set: &str| set == text;
                Failure::usage(format!("{flag} has characters that headers do not have"))
                    .hint("it is not shown here, since it is a secret")
                    .may_hint(variable.and_then(|variable| of_variable(variable, is_it)))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

impl fmt::Debug for CredentialArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialArgs(***)")
    }
}

/// Environment variable with headers, one in each line.
pub(in crate::infer) const HEADER_VARIABLE: &str = "OVMS_HEADER";

/// Environment variable with an API key.
const API_KEY_VARIABLE: &str = "OVMS_API_KEY";

/// Returns the hint at a variable, if what it is set to is what is refused.
pub(in crate::infer) fn of_variable(
    name: &str,
    is_it: impl FnOnce(&str) -> bool,
) -> Option<String> {
    let set = std::env::var(name).ok()?;
    is_it(&set).then(|| format!("the value comes from the environment variable {name}"))
}

/// Header of an API key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Flags of TLS, for each command that asks a server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TlsArgs {
    /// CA certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// Client certificate (PEM); needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// Accept any server certificate
    #[arg(long, conflicts_with = "cacert")]
    pub(crate) insecure: bool,
}

impl From<TlsArgs> for ClientTlsOptions {
    fn from(args: TlsArgs) -> Self {
        Self {
            cacert: args.cacert,
            cert: args.cert,
            key: args.key,
            insecure: args.insecure,
        }
    }
}

/// Reads protocols by their names.
fn api() -> impl TypedValueParser<Value = Api> {
    let values = [
        ("kserve-grpc", "KServe v2 over gRPC"),
        ("kserve-rest", "KServe v2 over REST"),
        ("tfs-grpc", "TensorFlow Serving over gRPC"),
        ("tfs-rest", "TensorFlow Serving over REST"),
    ];
    let values = values.map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values).try_map(|name| name.parse())
}

/// Units and their seconds. `ms` is tried before `s` and `m`.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Longest duration: 100 years. The time after a longer one may be none that a clock has.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Reads the name of a model, which the address of a server is not.
pub(crate) fn model_name(text: &str) -> Result<String, String> {
    match text.contains("://") {
        true => Err(format!(
            "found an address, expected the name of a model; `--url {text}` names the server"
        )),
        false => Ok(text.to_owned()),
    }
}

/// Reads a duration above zero, such as `500ms`, `10s`, `1.5m` or `1h`; a number alone is in seconds. One that is longer
/// than anybody waits counts as [`MAX_DURATION`].
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!(
            "found `{text}`, expected a number of seconds, or one with a unit, such as 500ms or 10m"
        )
    };
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    // A sign or an exponent is a number, but no duration that anybody means.
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(expected());
    }
    let number: f64 = number.parse().map_err(|_| expected())?;
    let seconds = (number * unit).min(MAX_DURATION.as_secs_f64());
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err(format!("{}; it has to be above 0", expected())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_DURATION, duration};

    #[test]
    fn durations_are_in_seconds_or_have_a_unit() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("2", 2000),
            ("0.5", 500),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["9223372036854775807", "99999999999999999999h"] {
            assert_eq!(duration(text), Ok(MAX_DURATION), "{text}");
        }
        for text in [
            "", "s", "-1s", "-1", "0", "0s", "1e3s", "10 s", "1d", "infs",
        ] {
            let error = duration(text).unwrap_err();
            let found = format!("found `{text}`, expected a number of seconds, or one with a unit");
            assert!(error.starts_with(&found), "{error}");
            assert_eq!(
                error.ends_with("; it has to be above 0"),
                text.starts_with('0'),
                "{error}"
            );
        }
    }
}
