//! Checked flags, with their files read before anything is sent.

use std::io;

use ovms::{
    client::{
        Address, Api, ClientError, ClientOptions, ModelId, TensorForm, header,
        input::{Fill, Inputs},
        session::StepControl,
    },
    request::Parameters,
    tls::{ClientTls, ClientTlsOptions},
};

use super::{
    args::{
        HEADER_VARIABLE, ImageArgs, InferArgs, InputArgs, RequestArgs, ServerArgs, TlsArgs,
        distinct, of_variable,
    },
    call_failure, failure,
    run::{Show, Task},
    sequence::Sequence,
    stream,
};
use crate::{error::Failure, ui};

/// Environment variable with the address of the server.
pub(super) const URL: &str = "OVMS_URL";

/// Work to be done.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) server: ClientOptions,
    pub(crate) model: ModelId,
    pub(crate) inputs: Inputs,
    /// Requested outputs; empty for all.
    pub(super) outputs: Vec<String>,
    pub(super) id: String,
    pub(super) parameters: Parameters,
    pub(super) form: TensorForm,
    /// Indicates that a flag chose the form.
    pub(super) is_form_given: bool,
    /// Prints the request instead of sending it.
    pub(super) is_printed: bool,
    /// Includes credentials in the printed request.
    pub(super) shows_secrets: bool,
    pub(super) task: Task,
    /// Sequence of the request, if it is part of one.
    pub(super) sequence: Option<Sequence>,
    /// Indicates that the last request of a sequence was given no input, so that it has zeros.
    pub(super) ends_alone: bool,
    /// Plan of the stream, if there is one.
    pub(super) stream: Option<stream::Plan>,
}

impl Job {
    /// Makes the job of a load, which sends by itself: only [`Self::open`] and [`Self::base`] are for it.
    pub(crate) fn of_load(
        model: String,
        server: ServerArgs,
        request: RequestArgs,
        inputs: Inputs,
    ) -> Result<Self, Failure> {
        let server = self::server(server, 1)?;
        let (form, is_form_given) = form(&request, server.api)?;
        if server.api.is_tfs() {
            refuse_beyond_tfs(&request, server.api)?;
        }
        Ok(Self {
            server,
            model: ModelId {
                name: model,
                version: request.model_version.map(|version| version.to_string()),
            },
            inputs,
            outputs: distinct(request.output_name),
            id: request.id.unwrap_or_default(),
            parameters: request.param,
            form,
            is_form_given,
            is_printed: false,
            shows_secrets: false,
            task: Task::Show {
                show: Show::Table,
                save: None,
            },
            sequence: None,
            ends_alone: false,
            stream: None,
        })
    }

    /// Checks the flags and reads their files.
    pub(super) fn new(mut args: InferArgs) -> Result<Self, Failure> {
        let format = args.output.output;
        let is_printed = args.question.print_curl;
        let task = match args.stream.stream || is_printed {
            // It has forms of its own.
            true => Task::Show {
                show: Show::Table,
                save: None,
            },
            false => Task::new(&args.load, args.output)?,
        };
        let server = server(args.server, 1)?;
        let (form, is_form_given) = form(&args.request, server.api)?;
        if server.api.is_tfs() {
            refuse_beyond_tfs(&args.request, server.api)?;
        }
        let sequence = Sequence::new(
            &args.sequence,
            &mut args.inputs.inputs,
            &args.request.param,
            &server.headers,
            format,
            server.api,
        )?;
        let stream = stream::Plan::new(
            &args.stream,
            args.sequence.axis,
            &mut args.inputs.inputs,
            format,
            server.api,
        )?;
        let ends_alone = ends_alone(sequence.as_ref(), &args.inputs);
        args.inputs.zeros |= ends_alone;
        let mut inputs = inputs(args.inputs, args.image)?;
        if matches!(&sequence, Some(Sequence::All(plan)) if plan.stays_open) {
            inputs = inputs.as_part();
        }
        let request = args.request;
        let version = request.model_version;
        Ok(Self {
            server,
            model: ModelId {
                // Without a name there is a question, and no request.
                name: args.model.unwrap_or_default(),
                version: version.map(|version| version.to_string()),
            },
            inputs,
            outputs: distinct(request.output_name),
            id: request.id.unwrap_or_default(),
            parameters: request.param,
            form,
            is_form_given,
            is_printed,
            shows_secrets: args.question.show_secrets,
            task,
            sequence,
            ends_alone,
            stream,
        })
    }
}

/// Returns whether the last request of a sequence has nothing to send but its end.
fn ends_alone(sequence: Option<&Sequence>, inputs: &InputArgs) -> bool {
    let is_end = matches!(
        sequence,
        Some(Sequence::One {
            control: StepControl::End,
            ..
        })
    );
    is_end && inputs.inputs.is_empty() && !inputs.zeros && !inputs.random
}

/// Reads the flags that lead to the server.
pub(super) fn server(args: ServerArgs, concurrency: usize) -> Result<ClientOptions, Failure> {
    let api = args.api();
    let url = args.url.unwrap_or_else(|| "localhost".to_owned());
    let address = failure::read_address(&url, api).map_err(|error| {
        let failure = failure::address(&url, &error);
        // Flags go first, so it may be there and not be meant.
        match std::env::var(URL) {
            Ok(set) if set == url => failure.hint(format!(
                "it comes from the environment variable {URL}; `--url` overrides it"
            )),
            _ => failure,
        }
    })?;
    let tls = tls(args.tls, &address)?;
    let mut headers = args
        .header
        .iter()
        .flatten()
        .map(|(name, value)| header(name, value))
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let is_it = |set: &str| {
                let mut typed = args.header.iter().flatten();
                let has = |name: &str, value: &str| {
                    let mut lines = set.split('\n');
                    lines.any(|line| line.split_once('=') == Some((name, value)))
                };
                typed.all(|(name, value)| has(name, value))
            };
            call_failure::client(ClientError::Request(error))
                .may_hint(of_variable(HEADER_VARIABLE, is_it))
        })?;
    args.credentials.add_to(&mut headers)?;
    Ok(ClientOptions {
        address,
        api,
        timeout: args.timeout,
        headers,
        concurrency,
        tls,
    })
}

/// Reads the files of TLS, for an address that has it.
fn tls(args: TlsArgs, address: &Address) -> Result<Option<ClientTls>, Failure> {
    let options = ClientTlsOptions::from(args);
    if address.is_tls() {
        return ClientTls::new(options)
            .map(Some)
            .map_err(|error| failure::tls(&error));
    }
    if options == ClientTlsOptions::default() {
        return Ok(None);
    }
    let text = "`--cacert`, `--cert` with `--key`, and `--insecure` are for addresses with TLS";
    Err(Failure::usage(format!("{text}, which {address} is not"))
        .hint("write `--url https://HOST:PORT`, or `--url grpcs://HOST:PORT`"))
}

/// Returns the form, and whether a flag chose it.
fn form(args: &RequestArgs, api: Api) -> Result<(TensorForm, bool), Failure> {
    let given = [
        (args.raw, "--raw"),
        (args.typed, "--typed"),
        (args.binary, "--binary"),
        (args.json_data, "--json-data"),
    ];
    let flag = given
        .iter()
        .find_map(|(given, flag)| given.then_some(*flag));
    let hint = match (api, flag) {
        (Api::KserveGrpc | Api::TfsGrpc, Some("--binary")) => "it is `--raw`",
        (Api::KserveGrpc | Api::TfsGrpc, Some("--json-data")) => "it is `--typed`",
        (Api::KserveRest, Some("--raw")) => "it is `--binary`",
        (Api::KserveRest, Some("--typed")) => "it is `--json-data`",
        (Api::TfsRest, Some("--raw" | "--typed" | "--binary")) => "tensors are always JSON",
        (Api::TfsRest, _) | (_, Some("--typed" | "--json-data")) => {
            return Ok((TensorForm::Values, flag.is_some()));
        }
        _ => return Ok((TensorForm::Bytes, flag.is_some())),
    };
    let flag = flag.unwrap_or_default();
    Err(misfit(flag, api).hint(format!("over {api} {hint}")))
}

fn refuse_beyond_tfs(args: &RequestArgs, api: Api) -> Result<(), Failure> {
    let flag = match (&args.id, args.param.is_empty()) {
        (Some(_), _) => "--id",
        (None, false) => "--param",
        (None, true) => return Ok(()),
    };
    Err(misfit(flag, api).hint("only KServe's requests have a place for it"))
}

pub(super) fn misfit(flag: &str, api: Api) -> Failure {
    Failure::usage(format!("`{flag}` does not fit `--api {api}`"))
}

/// Reads inputs and their files.
pub(crate) fn inputs(args: InputArgs, image: ImageArgs) -> Result<Inputs, Failure> {
    inputs_within(args, image, u64::MAX)
}

/// Reads inputs and their files, which may have so many bytes together.
pub(crate) fn inputs_within(
    args: InputArgs,
    image: ImageArgs,
    most: u64,
) -> Result<Inputs, Failure> {
    let fill = match (args.zeros, args.random) {
        (true, _) => Some(Fill::Zeros),
        (_, true) => Some(Fill::Random(args.seed)),
        _ => None,
    };
    let (arguments, image) = (args.inputs, image.options());
    let inputs = Inputs::load_within(arguments, fill, image, &mut io::stdin().lock(), most)
        .and_then(|inputs| inputs.at_rate(args.sample_rate))
        .map_err(|error| failure::input(error, None))?
        .on_remark(|remark| match remark.is_warning() {
            true => ui::warn(&format!("warning: {remark}")),
            false => ui::note(&format!("note: {remark}")),
        });
    for name in inputs.file_names() {
        ui::warn(&format!(
            "note: `{name}` is taken as a text; `-i @{name}` takes the file"
        ));
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use ovms::client::{
        Api, TensorForm,
        load::{LoadPlan, LoadTarget, Until},
    };

    use super::{InferArgs, Job, Task};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: InferArgs,
    }

    fn job(flags: &str) -> Result<Job, String> {
        let words = ["infer", "m"].into_iter().chain(flags.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Job::new(line.args).map_err(|failure| failure.text())
    }

    #[test]
    fn flags_mean_what_they_say() {
        let rest = job("--api kserve-rest --json-data --model-version 3 --random").unwrap();
        assert_eq!(
            (rest.server.api, rest.form),
            (Api::KserveRest, TensorForm::Values)
        );
        assert_eq!(rest.server.address.to_string(), "localhost:8000");
        assert_eq!(rest.model.version.as_deref(), Some("3"));
        let load = job("--repeat 5 --duration 1m --concurrency 7 --warmup 2").unwrap();
        let Task::Measure { plan, is_json } = load.task else {
            panic!("found {:?}, expected a measurement", load.task);
        };
        assert!(!is_json);
        assert_eq!(
            plan,
            LoadPlan {
                target: LoadTarget::Concurrency(7),
                warmup: 2,
                until: Until::Limits {
                    requests: Some(5),
                    duration: Some(Duration::from_secs(60)),
                },
            }
        );
        let timeout = |flags| job(flags).unwrap().server.timeout;
        assert_eq!(timeout("--client-timeout 5"), Duration::from_secs(5));
        for (flags, form) in [
            ("", TensorForm::Bytes),
            ("--typed", TensorForm::Values),
            ("--api kserve-rest --binary", TensorForm::Bytes),
            ("--api tfs-grpc", TensorForm::Bytes),
            ("--api tfs-grpc --typed", TensorForm::Values),
            ("--api tfs-rest", TensorForm::Values),
            ("--api tfs-rest --json-data", TensorForm::Values),
        ] {
            assert_eq!(job(flags).unwrap().form, form, "{flags}");
        }
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused_with_the_next_step() {
        insta::assert_snapshot!(job("--typed --api kserve-rest").unwrap_err(), @r"
        error: `--typed` does not fit `--api kserve-rest`
        hint: over kserve-rest it is `--json-data`
        ");
        insta::assert_snapshot!(job("--binary --api tfs-rest").unwrap_err(), @r"
        error: `--binary` does not fit `--api tfs-rest`
        hint: over tfs-rest tensors are always JSON
        ");
        insta::assert_snapshot!(job("--param a=1 --api tfs-grpc").unwrap_err(), @r"
        error: `--param` does not fit `--api tfs-grpc`
        hint: only KServe's requests have a place for it
        ");
        insta::assert_snapshot!(job("--repeat 2 --output npy").unwrap_err(), @r"
        error: a measurement has no form as `--output npy` or `--output raw`
        hint: use `--output table` or `--output json`
        ");
        insta::assert_snapshot!(job("--url ftp://a").unwrap_err(), @r"
        error: cannot use the address `ftp://a`
          caused by: found the scheme `ftp`, expected `http`, `https`, `grpc` or `grpcs`, or none
        ");
        insta::assert_snapshot!(job("--insecure --url a").unwrap_err(), @"
        error: `--cacert`, `--cert` with `--key`, and `--insecure` are for addresses with TLS, which a:9000 is not
        hint: write `--url https://HOST:PORT`, or `--url grpcs://HOST:PORT`
        ");
        insta::assert_snapshot!(job("--url grpcs://a --cacert missing.pem").unwrap_err(), @"
        error: cannot use --cacert missing.pem
          caused by: cannot read the file
          caused by: No such file or directory (os error 2)
        hint: check the path
        ");
        insta::assert_snapshot!(job("--url a/v2").unwrap_err(), @"
        error: cannot use the address `a/v2`
          caused by: found `/v2` after the host and port, expected nothing
        hint: leave it out: each API has paths of its own
        ");
        insta::assert_snapshot!(job("--header te=x").unwrap_err(), @r"
        error: cannot write the request
          caused by: the header `te` cannot be sent
        hint: the protocol sets it itself, or it has characters that headers do not have
        ");
        insta::assert_snapshot!(job("-i x=@missing.npy").unwrap_err(), @r"
        error: cannot read missing.npy
          caused by: No such file or directory (os error 2)
        ");
    }

    #[test]
    fn the_command_line_refuses_what_makes_no_sense() {
        for (flags, text) in [
            ("--concurrency 2", "--repeat <N>|--duration <TIME>"),
            ("--seed 1", "--random"),
            ("--labels a.txt", "--top <K>"),
            ("--zeros --random", "cannot be used with"),
            ("--raw --typed", "cannot be used with"),
            ("--repeat 2 --top 1", "cannot be used with"),
            ("--status --metadata", "cannot be used with"),
            ("--status --zeros", "cannot be used with"),
            ("--metadata --repeat 2", "cannot be used with"),
            ("--repeat 0", "0 is not in 1.."),
            ("--timeout 5x", "found `5x`, expected a number of seconds"),
            (
                "--layout HCW",
                "found `HCW`, expected NCHW, NHWC, CHW or HWC",
            ),
            ("-i x=@a.gif", "found the file `a.gif`"),
        ] {
            let error = job(flags).unwrap_err();
            assert!(error.contains(text), "{flags}: {error}");
        }
    }
}
