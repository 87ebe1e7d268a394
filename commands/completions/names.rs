//! Names to complete an argument with: from the server of the line, or from a file on it.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};

use clap_complete::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter,
    engine::ValueCompleter,
};
use ovms::{
    client::{
        Address, Api, Client, ClientOptions, ModelId, ModelMetadata, ModelStatus, TensorMetadata,
        header, input::Argument,
    },
    config::{self, Defaults, FileConfig},
    task,
    tls::{ClientTls, ClientTlsOptions},
};
use reqwest::header::HeaderMap;

use super::shells::Line;
use crate::{graph, infer::CredentialArgs, pipeline::config_of, ui};

/// Time limit for finding names, as a shell waits for them.
const LIMIT: Duration = Duration::from_millis(130);

/// Variable with another limit, in milliseconds.
const LIMIT_VARIABLE: &str = "OVMS_COMPLETE_MS";

/// Variable with a configuration file, whose servables are offered if no server responds.
const CONFIG: &str = "OVMS_CONFIG";

/// Name with a short description.
type Name = (String, String);

/// Completes an argument with the servables of the server, or of the file of `OVMS_CONFIG`.
pub(crate) fn servables() -> ArgValueCandidates {
    candidates(|line, deadline| {
        let file = env::var(CONFIG).ok().filter(|path| !path.is_empty());
        let Some(file) = file else {
            return served(line, deadline);
        };
        // Time is left for reading the file.
        let left = deadline.saturating_duration_since(Instant::now());
        served(line, deadline.checked_sub(left / 4)?).or_else(|| {
            let file = read(&file)?;
            let pipelines = file.pipelines.iter().map(|it| it.name.clone());
            let graphs = file.graphs.iter().map(|it| it.name.clone());
            let others = named(pipelines, "pipeline").chain(named(graphs, "graph"));
            Some(models_of(&file).chain(others).collect())
        })
    })
}

/// Completes an argument with the versions of the model on the line.
pub(crate) fn versions() -> ArgValueCandidates {
    candidates(|line, deadline| {
        // The version on the line is being typed.
        let model = ModelId {
            version: None,
            ..model(line)?
        };
        let versions = ask(line, deadline, async |client| {
            client.model_status(&model).await.ok()
        });
        let versions = versions?.versions.into_iter();
        Some(versions.map(|it| (it.version, it.state)).collect())
    })
}

/// Completes an argument with the outputs of the model on the line.
pub(crate) fn outputs() -> ArgValueCandidates {
    candidates(|line, deadline| Some(tensors(metadata(line, deadline)?.outputs)))
}

/// Completes an argument with the inputs of the model, pipeline or graph on the line that it does not
/// have yet, and with files behind `@`.
pub(crate) fn inputs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else {
            return Vec::new();
        };
        if let Some((head, path)) = typed.split_once('@')
            && (head.is_empty() || head.ends_with('='))
        {
            let files = PathCompleter::any().complete(OsStr::new(path)).into_iter();
            return files.map(|it| it.add_prefix(format!("{head}@"))).collect();
        }
        // A value is being typed.
        if typed.contains(['=', '[', '{', '"']) {
            return Vec::new();
        }
        let typed = typed.to_owned();
        find(move |line, deadline| {
            let mut inputs: Vec<Name> = if let Some(path) = line.text("path") {
                named(graph::inputs(Path::new(path), line.text("name"))?, "input").collect()
            } else if let Some(config) = line.text("config") {
                let (file, name) = (read(config)?, line.text("name")?);
                let pipeline = file.pipelines.into_iter().find(|it| it.name == name)?;
                named(pipeline.inputs, "input").collect()
            } else {
                tensors(metadata(line, deadline)?.inputs)
            };
            let given = line.texts("inputs").filter_map(|it| it.parse().ok());
            let given: Vec<Argument> = given.collect();
            inputs.retain(|(name, _)| {
                let is_named = |it: &Argument| it.name.as_ref() == Some(name);
                // Not those of which something would be taken for a datatype, a shape or a value.
                let argument = format!("{name}=0").parse();
                name.starts_with(&typed)
                    && argument.is_ok_and(|it| is_named(&it))
                    && !given.iter().any(is_named)
            });
            let inputs = inputs.into_iter();
            Some(inputs.map(|(name, about)| (name + "=", about)).collect())
        })
    })
}

/// Completes an argument with the pipelines of the file on the line.
pub(crate) fn pipelines() -> ArgValueCandidates {
    candidates(|line, _| {
        let file = config_of(line.text("config")?.into());
        let pipelines = read(file.to_str()?)?.pipelines.into_iter();
        Some(named(pipelines.map(|it| it.name), "pipeline").collect())
    })
}

/// Completes an argument with the graphs of the file on the line.
pub(crate) fn graphs() -> ArgValueCandidates {
    candidates(|line, _| {
        let graphs = read(line.text("path")?)?.graphs.into_iter();
        Some(named(graphs.map(|it| it.name), "graph").collect())
    })
}

/// Completes an argument with the models of the file on the line.
pub(crate) fn models() -> ArgValueCandidates {
    candidates(|line, _| {
        let file = line.text("config").or_else(|| line.text("config_path"));
        Some(models_of(&read(file?)?).collect())
    })
}

/// Returns the values of an argument that stand before the word with the cursor, which is the last one.
pub(crate) fn given(argument: &str) -> Vec<String> {
    let line = Line::read();
    let values = line.iter().flat_map(|line| line.texts(argument));
    let mut values: Vec<String> = values.map(str::to_owned).collect();
    values.pop();
    values
}

fn candidates(names: fn(&Line, Instant) -> Option<Vec<Name>>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || find(names))
}

/// Finds names within the time limit.
fn find(
    names: impl FnOnce(&Line, Instant) -> Option<Vec<Name>> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let limit = env::var(LIMIT_VARIABLE).ok().and_then(|it| it.parse().ok());
    let limit = limit.map_or(LIMIT, Duration::from_millis);
    let deadline = Instant::now() + limit;
    let (sender, receiver) = mpsc::sync_channel(1);
    // The process ends without it: what it waits for may be a name server or a lost disk.
    let started = task::thread("complete", move || {
        // Fails if nobody waits any more.
        let _ = sender.send(Line::read().and_then(|line| names(&line, deadline)));
    });
    let found = started
        .ok()
        .and_then(|()| receiver.recv_timeout(limit).ok()?);
    let candidate = |(name, about): Name| {
        // Nothing that steers a terminal gets there, and what looks like a flag cannot be typed.
        if name.is_empty() || name.starts_with('-') || name.contains(ui::steers) {
            return None;
        }
        let about = ui::visible(&about).into_owned();
        Some(CompletionCandidate::new(name).help(Some(about.into())))
    };
    found.into_iter().flatten().filter_map(candidate).collect()
}

fn named(names: impl IntoIterator<Item = String>, about: &str) -> impl Iterator<Item = Name> {
    names.into_iter().map(move |name| (name, about.to_owned()))
}

fn read(path: &str) -> Option<FileConfig> {
    // What is no file might be a pipe, and reading it takes from whom it is meant for.
    let path = Path::new(path);
    path.is_file().then_some(())?;
    config::read(path, &Defaults::default()).ok()
}

/// Returns the models of a configuration file, including rejected ones.
fn models_of(file: &FileConfig) -> impl Iterator<Item = Name> {
    named(file.models.iter().map(|it| it.name().to_owned()), "model")
}

/// Asks the server that the line, or the environment, names.
fn ask<T>(
    line: &Line,
    deadline: Instant,
    question: impl AsyncFnOnce(Client) -> Option<T>,
) -> Option<T> {
    let api = api(line)?;
    let headers = line.texts("header").filter(|text| !text.trim().is_empty());
    let headers = headers.map(|text| {
        let (name, value) = text.split_once('=')?;
        header(name, value).ok()
    });
    let mut headers = headers.collect::<Option<HeaderMap>>()?;
    let text = |name| line.text(name).map(str::to_owned);
    let credentials = CredentialArgs {
        api_key: text("api_key"),
        bearer: text("bearer"),
    };
    credentials.add_to(&mut headers).ok()?;
    let path = |name| line.text(name).map(PathBuf::from);
    let tls = ClientTlsOptions {
        cacert: path("cacert"),
        cert: path("cert"),
        key: path("key"),
        insecure: line.text("insecure") == Some("true"),
    };
    let address = Address::parse(line.text("url").unwrap_or("localhost"), api).ok()?;
    let tls = address.is_tls().then(|| ClientTls::new(tls));
    let options = ClientOptions {
        address,
        api,
        timeout: deadline.saturating_duration_since(Instant::now()),
        headers,
        concurrency: 1,
        tls: tls.transpose().ok()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.ok()?.block_on(async {
        let client = Client::connect(&options).await.ok()?;
        question(client).await
    })
}

fn api(line: &Line) -> Option<Api> {
    match line.text("api") {
        Some(name) => name.parse().ok(),
        None => Some(Api::of_scheme(line.text("url").unwrap_or("localhost"))),
    }
}

fn model(line: &Line) -> Option<ModelId> {
    Some(ModelId {
        name: line.text("model")?.to_owned(),
        version: line.text("model_version").map(str::to_owned),
    })
}

/// Returns the servables of the server with their versions, as in `1 READY, 2 LOADING`.
fn served(line: &Line, deadline: Instant) -> Option<Vec<Name>> {
    ask(line, deadline, async |client| {
        // Their states would be a question for each.
        if api(line)? == Api::TfsGrpc {
            return Some(named(client.model_names().await?, "servable").collect());
        }
        let described = |model: ModelStatus| {
            let versions = model.versions.iter();
            let versions =
                versions.map(|it| format!("{} {}", it.version, it.state).trim().to_owned());
            (model.name, versions.collect::<Vec<_>>().join(", "))
        };
        let models = client.models().await.ok()?;
        Some(models.into_iter().map(described).collect())
    })
}

fn metadata(line: &Line, deadline: Instant) -> Option<ModelMetadata> {
    let model = model(line)?;
    ask(line, deadline, async |client| {
        client.model_metadata(&model).await.ok()
    })
}

fn tensors(tensors: Vec<TensorMetadata>) -> Vec<Name> {
    let described = |tensor: TensorMetadata| {
        let lengths: Vec<String> = tensor.shape.wire().iter().map(i64::to_string).collect();
        let about = format!("{} [{}]", tensor.datatype, lengths.join(","));
        (tensor.name, about)
    };
    tensors.into_iter().map(described).collect()
}
