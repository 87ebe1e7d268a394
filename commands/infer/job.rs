//! The flags as meant: checked, and with their files read, before anything is sent.

use std::{fs, io, path::PathBuf};

use ovms::{
    client::{
        Address, Api, ClientError, Form, ModelId, Options, bench, header,
        input::{ChannelOrder, Fill, Inputs, Picture},
    },
    request::Parameters,
};

use super::{
    args::{Args, Format, InputArgs, LoadArgs, OutputArgs, PictureArgs, RequestArgs, ServerArgs},
    failure,
};
use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) server: Options,
    pub(super) model: ModelId,
    pub(super) inputs: Inputs,
    /// The outputs asked for; empty for all.
    pub(super) outputs: Vec<String>,
    pub(super) id: String,
    pub(super) parameters: Parameters,
    pub(super) form: Form,
    pub(super) task: Task,
}

/// What the answer is for.
#[derive(Debug)]
pub(super) enum Task {
    /// One answer, shown and saved.
    Show { show: Show, save: Option<PathBuf> },
    /// Many answers, counted.
    Measure { plan: bench::Plan, is_json: bool },
}

/// How one answer is shown.
#[derive(Debug)]
pub(super) enum Show {
    Table,
    Json,
    /// One output as a file of NumPy.
    Npy,
    /// The bytes of one output.
    Raw,
    /// The best scores of one output.
    Top {
        count: usize,
        labels: Vec<String>,
        is_json: bool,
    },
}

impl Job {
    /// Checks the flags and reads what they name.
    pub(super) fn new(args: Args) -> Result<Self, Failure> {
        let task = Task::new(&args.load, args.output)?;
        let concurrency = match &task {
            Task::Show { .. } => 1,
            Task::Measure { plan, .. } => plan.concurrency,
        };
        let server = server(args.server, concurrency)?;
        let form = form(&args.request, server.api)?;
        let inputs = inputs(args.inputs, args.picture)?;
        let RequestArgs {
            model_version,
            output_name,
            id,
            param,
            ..
        } = args.request;
        Ok(Self {
            server,
            model: ModelId {
                name: args.model,
                version: model_version.map(|version| version.to_string()),
            },
            inputs,
            outputs: output_name,
            id: id.unwrap_or_default(),
            parameters: param,
            form,
            task,
        })
    }
}

impl Show {
    /// Tells whether this shows one output and no more.
    pub(super) const fn needs_one_output(&self) -> bool {
        match self {
            Self::Table | Self::Json => false,
            Self::Npy | Self::Raw | Self::Top { .. } => true,
        }
    }
}

impl Task {
    fn new(load: &LoadArgs, output: OutputArgs) -> Result<Self, Failure> {
        let OutputArgs {
            output: format,
            save,
            top,
            labels,
        } = output;
        if load.repeat.is_some() || load.duration.is_some() {
            let is_json = match format {
                Format::Table => false,
                Format::Json => true,
                Format::Npy | Format::Raw => return Err(no_single_output("a measurement")),
            };
            let plan = bench::Plan {
                requests: load.repeat,
                duration: load.duration,
                concurrency: load.concurrency.unwrap_or(1).into(),
                warmup: load.warmup.unwrap_or(0),
            };
            return Ok(Self::Measure { plan, is_json });
        }
        let show = match (format, top) {
            (Format::Table, None) => Show::Table,
            (Format::Json, None) => Show::Json,
            (Format::Npy, None) => {
                ui::refuse_bytes_on_terminal("a .npy file")?;
                Show::Npy
            }
            (Format::Raw, None) => {
                ui::refuse_bytes_on_terminal("a raw tensor")?;
                Show::Raw
            }
            (Format::Table | Format::Json, Some(count)) => Show::Top {
                count: count as usize,
                labels: labels.map_or(Ok(Vec::new()), |path| read_labels(&path))?,
                is_json: format == Format::Json,
            },
            (Format::Npy | Format::Raw, Some(_)) => return Err(no_single_output("a ranking")),
        };
        Ok(Self::Show { show, save })
    }
}

fn no_single_output(what: &str) -> Failure {
    let text = format!("{what} has no form as `--output npy` or `--output raw`");
    Failure::new(FailureKind::Usage, text).hint("use `--output table` or `--output json`")
}

fn read_labels(path: &std::path::Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read the labels of {}", path.display());
        Failure::new(FailureKind::Failed, text).caused_by(&error)
    })?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

fn server(args: ServerArgs, concurrency: usize) -> Result<Options, Failure> {
    let api = Api::from(args.api);
    let url = args.url.unwrap_or_else(|| "localhost".to_owned());
    let address = Address::parse(&url, api).map_err(|error| {
        let text = format!("cannot use the address `{url}`");
        Failure::new(FailureKind::Usage, text).caused_by(&error)
    })?;
    let headers = args
        .header
        .iter()
        .map(|(name, value)| header(name, value))
        .collect::<Result<_, _>>()
        .map_err(|error| failure::client(ClientError::Request(error)))?;
    Ok(Options {
        address,
        api,
        timeout: args.timeout,
        headers,
        concurrency,
    })
}

fn form(args: &RequestArgs, api: Api) -> Result<Form, Failure> {
    let (flag, other, needed) = match api {
        Api::KserveGrpc if args.binary => ("--binary", "--raw", Api::KserveRest),
        Api::KserveGrpc if args.json_data => ("--json-data", "--typed", Api::KserveRest),
        Api::KserveRest if args.raw => ("--raw", "--binary", Api::KserveGrpc),
        Api::KserveRest if args.typed => ("--typed", "--json-data", Api::KserveGrpc),
        Api::KserveGrpc | Api::KserveRest => {
            return Ok(if args.typed || args.json_data {
                Form::Values
            } else {
                Form::Bytes
            });
        }
    };
    let text = format!("`{flag}` is for `--api {needed}`");
    Err(Failure::new(FailureKind::Usage, text).hint(format!("over {api} it is `{other}`")))
}

fn inputs(args: InputArgs, picture: PictureArgs) -> Result<Inputs, Failure> {
    let fill = match (args.zeros, args.random) {
        (true, _) => Some(Fill::Zeros),
        (_, true) => Some(Fill::Random(args.seed)),
        _ => None,
    };
    let picture = Picture {
        layout: picture.layout,
        mean: picture.mean,
        scale: picture.scale,
        order: if picture.bgr {
            ChannelOrder::Bgr
        } else {
            ChannelOrder::Rgb
        },
    };
    Inputs::load(args.inputs, fill, picture, &mut io::stdin().lock())
        .map_err(|error| failure::input(error, None))
}
