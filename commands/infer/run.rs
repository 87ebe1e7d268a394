//! Exchange with the server: connect, get the model's inputs, send, and use the response.

use std::{path::PathBuf, time::Instant};

use ovms::{
    client::{
        Api, Client, ClientError, ClientOptions, ModelId, ModelMetadata, ModelStatus, Request,
        TensorForm, TensorMetadata, VersionStatus,
        load::{LoadPlan, LoadTarget, Until},
        output, speaks_tls,
    },
    tensor::{Dim, TensorMap},
};

use super::{
    args::{Format, InferArgs, LoadArgs, OutputArgs, TextFormat},
    call_failure, curl, explain, failure,
    feed::RequestPlan,
    handshake,
    job::Job,
    listing::Inspection,
    load, outputs,
    ranking::{Ranking, the_scores},
    refusal::image_named,
    saved,
    sequence::{self, Sequence, Whole},
    stream,
    wait::{Wait, failed_to_load, states},
};
use crate::{
    error::{Failure, FailureKind},
    stopped::Signals,
    ui::{self, OutputFormat, counted, visible},
};

/// Runs `ovms infer`.
pub(crate) fn run(args: InferArgs) -> Result<(), Failure> {
    // Files and standard input are read here, where Ctrl-C still ends the process by itself.
    let limit = args.wait.wait;
    let wait = |server: &ClientOptions, model: Option<&ModelId>| {
        limit.map(|limit| Wait {
            limit,
            server: server.clone(),
            model: model.cloned(),
        })
    };
    if let Some(inspection) = Inspection::new(&args)? {
        let wait = wait(&inspection.server, inspection.model.as_ref());
        return runtime()?.block_on(after(wait, inspection.run()));
    }
    let job = Job::new(args)?;
    let wait = wait(&job.server, Some(&job.model));
    runtime()?.block_on(after(wait, job.run()))
}

/// Does the work once its servables are ready.
async fn after(
    wait: Option<Wait>,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    if let Some(wait) = &wait {
        unless_interrupted(wait.done()).await?;
    }
    work.await
}

pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

impl Job {
    async fn run(self) -> Result<(), Failure> {
        if self.is_printed {
            return unless_interrupted(curl::request(self)).await;
        }
        let opened = unless_interrupted(self.open()).await;
        let (client, model) = opened.map_err(|failure| self.not_tried_again(failure))?;
        if self.sequence.is_some() && model.is_of_graph() {
            return Err(failure::sequence_of_graph(&self.model.name));
        }
        self.check_given(&model)?;
        if let Some(plan) = &self.stream {
            let base = self.request(&model)?;
            return stream::run(&client, base, &self.inputs, &model, plan, &self.server).await;
        }
        let request = self.request(&model)?;
        let (show, save) = match &self.task {
            Task::Measure { plan, is_json } => {
                return load::run(&client, &request, *plan, *is_json).await;
            }
            Task::Show { show, save } => (show, save),
        };
        let shows_each = matches!(&self.sequence, Some(Sequence::All(plan)) if plan.shows_each());
        let only = match show.needs_one_output() && !shows_each {
            true if self.may_be_detections(show, &model) => None,
            true if matches!(show, Show::Top { .. }) => Some(the_scores(&self.outputs, &model)?),
            true => Some(the_output(&self.outputs, &model)?),
            false => None,
        };
        self.check_answer(&model, only.as_deref())?;
        let sent = match &self.sequence {
            Some(Sequence::All(plan)) => {
                sequence::run(&client, request, &self.inputs, &model, plan).await?
            }
            _ => {
                let sent = self.send(&client, &request, &model);
                let mut sent = unless_interrupted(sent).await?;
                sent.files = self.inputs.image_files(&model);
                Some(sent)
            }
        };
        let Some(sent) = sent else {
            return Ok(());
        };
        // What cannot be saved leaves nothing on stdout.
        let saved = match save {
            Some(path) => saved::save(&sent.answer, &sent.files, path)?,
            None => Vec::new(),
        };
        outputs::show(&sent, show, only.as_deref(), &model.properties)?;
        saved.iter().for_each(|note| ui::note(note));
        if let (Show::Top { .. }, Some(path)) = (show, save)
            && saved::is_csv(path)
        {
            let path = path.display();
            ui::note(&format!(
                "note: {path} has all scores; `--output csv > {path}` has the ranking"
            ));
        }
        sent.left.map_or(Ok(()), Err)
    }

    /// Returns whether the highest scores are those of boxes, which several outputs have.
    fn may_be_detections(&self, show: &Show, model: &ModelMetadata) -> bool {
        // The steps of a sequence have another axis.
        let is_whole = matches!(self.sequence, Some(Sequence::All(_)));
        let is_asked = |output: &&TensorMetadata| {
            self.outputs.is_empty() || self.outputs.contains(&output.name)
        };
        matches!(show, Show::Top { .. })
            && !is_whole
            && output::may_be_detections(model.outputs.iter().filter(is_asked))
    }

    /// Refuses what cannot be done with the answer, as far as the metadata of the model shows it before.
    fn check_answer(&self, model: &ModelMetadata, only: Option<&str>) -> Result<(), Failure> {
        let Task::Show { show, save } = &self.task else {
            return Ok(());
        };
        if let Some(path) = save {
            let all = model.output_names();
            let outputs = if self.outputs.is_empty() {
                &all
            } else {
                &self.outputs
            };
            saved::check_count(path, outputs.len())?;
        }
        // The steps of a sequence have another axis.
        let is_whole = matches!(self.sequence, Some(Sequence::All(_)));
        if let Show::Top { ranking, .. } = show
            && !is_whole
            && let Some(output) = model.outputs.iter().find(|it| Some(&*it.name) == only)
        {
            ranking.check(output)?;
            if ranking.has_own_labels() {
                check_labels(&self.model.name, model)?;
            }
        }
        Ok(())
    }

    /// Sends one request.
    async fn send(
        &self,
        client: &Client,
        request: &Request,
        model: &ModelMetadata,
    ) -> Result<Whole, Failure> {
        if self.ends_alone {
            ui::note("note: no input was given, so the last step has zeros");
        }
        let sent = Instant::now();
        let (answer, of) = match &self.sequence {
            Some(Sequence::One { control, id, files }) => {
                let (answer, of) = sequence::one(client, request, *control, *id, files).await?;
                (answer, Some(of))
            }
            _ => {
                let answer = client.infer(request).await;
                (answer.map_err(|error| self.refused(error, model))?, None)
            }
        };
        Ok(Whole {
            headline: outputs::headline(&answer, sent.elapsed()),
            answer,
            of,
            files: Vec::new(),
            left: None,
        })
    }

    /// Returns the failure of a request, with the file of an image that the server names by its place.
    fn refused(&self, error: ClientError, model: &ModelMetadata) -> Failure {
        let images = self.inputs.image_files_by_input(model);
        let file = match &error {
            ClientError::Refused(refusal) => image_named(&refusal.message, &images),
            _ => None,
        };
        let failure = call_failure::of_request(error, Some(model));
        file.into_iter().fold(failure, Failure::detail)
    }

    /// Returns the failure with the model's inputs if none were given but some are needed.
    pub(super) fn check_given(&self, model: &ModelMetadata) -> Result<(), Failure> {
        let requests = match (&self.stream, &self.sequence) {
            (Some(plan), _) => Some(&plan.requests),
            (None, Some(Sequence::All(plan))) => Some(&plan.requests),
            _ => None,
        };
        let has_lines = requests.is_some_and(RequestPlan::has_lines);
        let needs_inputs = match &self.stream {
            // Graphs, whose inputs have no types, may do without some or all of them.
            Some(_) => model.inputs.iter().any(|input| input.dtype().is_some()),
            None => !model.inputs.is_empty(),
        };
        if self.inputs.is_empty() && !has_lines && needs_inputs {
            return Err(explain::no_inputs(&self.model.name, model, &self.server));
        }
        Ok(())
    }

    /// Adds that attempts begin with the first step, where no server is there yet.
    fn not_tried_again(&self, failure: Failure) -> Failure {
        let retries = matches!(&self.sequence, Some(Sequence::All(plan)) if plan.retries > 0);
        match retries && failure.kind() == FailureKind::Unreachable {
            true => failure.hint(
                "`--retries` starts with the first step; `--wait 60` waits for a server that is starting",
            ),
            false => failure,
        }
    }

    /// Connects and gets the model's metadata.
    pub(crate) async fn open(&self) -> Result<(Client, ModelMetadata), Failure> {
        let question = async |client: &Client| client.model_metadata(&self.model).await;
        ask(&self.server, Some(&self.model.name), question).await
    }

    pub(super) fn request(&self, model: &ModelMetadata) -> Result<Request, Failure> {
        let mut request = self.base(model)?;
        // Every step of a sequence and every request of a stream has its own.
        let is_one = self.stream.is_none() && !matches!(self.sequence, Some(Sequence::All(_)));
        if is_one {
            let inputs = self.inputs.tensors(model);
            let name = Some(&*self.model.name);
            request.inputs = inputs.map_err(|error| failure::input(error, name))?;
        }
        Ok(request)
    }

    /// Returns the request without its inputs.
    pub(crate) fn base(&self, model: &ModelMetadata) -> Result<Request, Failure> {
        // As far as the server lists its outputs.
        let known = model.output_names();
        let unknown = self.outputs.iter().find(|name| !known.contains(name));
        if let Some(name) = unknown.filter(|_| !known.is_empty()) {
            return Err(failure::unknown_output(name, &known));
        }
        let wants_bytes_over_rest =
            self.server.api == Api::KserveRest && self.form == TensorForm::Bytes;
        let outputs = if self.outputs.is_empty() && wants_bytes_over_rest {
            // Some servers write outputs that are not listed as JSON.
            model.output_names()
        } else {
            self.outputs.clone()
        };
        Ok(Request {
            model: self.model.clone(),
            id: self.id.clone(),
            parameters: self.parameters.clone(),
            inputs: TensorMap::default(),
            outputs,
            model_outputs: model.outputs.clone(),
            form: self.form,
        })
    }
}

/// Connects and asks something, about a model if one is named.
pub(super) async fn ask<T>(
    server: &ClientOptions,
    model: Option<&str>,
    question: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
) -> Result<(Client, T), Failure> {
    let client = match Client::connect(server).await {
        Ok(client) => client,
        Err(error) => return Err(why(error, server, None, model).await),
    };
    match question(&client).await {
        Ok(answer) => Ok((client, answer)),
        Err(error) => Err(why(error, server, Some(&client), model).await),
    }
}

/// Finds the cause of a failed query: the address speaks another protocol, the model has
/// another name, or just the error as it is. `model` is the requested name.
pub(super) async fn why(
    error: ClientError,
    server: &ClientOptions,
    client: Option<&Client>,
    model: Option<&str>,
) -> Failure {
    let unknown = model.filter(|_| is_not_found(&error));
    let may_be_coming = matches!(
        &error, ClientError::Refused(it) if it.is_not_found() || it.is_unavailable()
    );
    if let (Some(name), Some(client), true) = (model, client, may_be_coming)
        && let Some(status) = status(client, name).await
    {
        if status.versions.iter().any(VersionStatus::is_ready) {
            if unknown.is_some() && is_of_version(&error) {
                return call_failure::unknown_version(error, &states(&status));
            }
        } else if let Some(failed) = failed_to_load(&status) {
            return call_failure::not_loaded(error, &failed);
        } else if (status.versions.iter()).any(|version| is_coming(&version.state)) {
            return call_failure::not_yet(error, &states(&status));
        }
    }
    if let (Some(name), Some(client)) = (unknown, client) {
        let known = client.model_names().await;
        let has = known
            .as_ref()
            .is_some_and(|known| known.iter().any(|known| known == name));
        if has && server.api.is_tfs() && is_graph(server, name).await {
            return call_failure::of_graph(error, server.api);
        }
        // A path that a server does not have is not found either.
        if known.is_some() || server.api.is_grpc() {
            return call_failure::unknown_model(error, name, known.as_deref(), server);
        }
    }
    // Whoever speaks another protocol answers something, or hangs up.
    if let ClientError::Timeout { .. } = error {
        return call_failure::client(error);
    }
    let is_strange = match &error {
        ClientError::Unreachable { .. }
        | ClientError::Closed { .. }
        | ClientError::Protocol { .. } => true,
        ClientError::Refused(refusal) => refusal.is_foreign,
        _ => false,
    };
    if is_strange && let Some(with) = speaks_tls(server).await {
        return handshake::has_tls(server, &with.to_string());
    }
    let spoken = Client::spoken_apis(server).await;
    match spoken.first() {
        Some(&api) if !spoken.contains(&server.api) => {
            return call_failure::other_api(&server.address.to_string(), server.api, api);
        }
        None if is_strange => {
            if let Some(found) = Client::foreign_answer(server).await {
                return call_failure::foreign(&error, &server.address, server.api, &found);
            }
        }
        _ => {}
    }
    match (unknown, model) {
        (Some(name), _) => call_failure::unknown_model(error, name, None, server),
        (None, Some(_)) => call_failure::client(error),
        (None, None) => call_failure::no_list(error),
    }
}

/// Returns whether a name that TensorFlow Serving's API does not know is that of a graph, whose metadata over KServe's
/// has no datatypes.
async fn is_graph(server: &ClientOptions, name: &str) -> bool {
    let api = match server.api.is_grpc() {
        true => Api::KserveGrpc,
        false => Api::KserveRest,
    };
    let server = ClientOptions {
        api,
        ..server.clone()
    };
    let Ok(client) = Client::connect(&server).await else {
        return false;
    };
    let model = ModelId {
        name: name.to_owned(),
        ..ModelId::default()
    };
    let metadata = client.model_metadata(&model).await;
    metadata.is_ok_and(|metadata| metadata.is_of_graph())
}

/// Returns the states of a model that the server has.
async fn status(client: &Client, name: &str) -> Option<ModelStatus> {
    let models = client.models().await.ok()?;
    models.into_iter().find(|model| model.name == name)
}

fn is_coming(state: &str) -> bool {
    matches!(state, "START" | "LOADING")
}

fn is_of_version(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.message.contains("requested version"))
}

fn is_not_found(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.is_not_found())
}

/// Finds the one output that is requested, or that the model has.
pub(crate) fn the_output(asked: &[String], model: &ModelMetadata) -> Result<String, Failure> {
    let all = model.output_names();
    if let [only] = asked
        && !all.is_empty()
        && !all.contains(only)
    {
        return Err(failure::unknown_output(only, &all));
    }
    let candidates = if asked.is_empty() { &all } else { asked };
    match candidates {
        [only] => Ok(only.clone()),
        several => Err(failure::several_outputs(several)),
    }
}

/// Waits for a future until Ctrl-C is pressed.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        result = work => result,
        signal = signals.next() => Err(signal.bare_failure()),
    }
}

/// Use of the response.
#[derive(Debug)]
pub(super) enum Task {
    /// Single response, shown and saved.
    Show { show: Show, save: Option<PathBuf> },
    /// Many responses, counted.
    Measure { plan: LoadPlan, is_json: bool },
}

/// Form of a single response.
#[derive(Debug)]
pub(super) enum Show {
    Table,
    Json,
    Csv,
    /// Single output as a NumPy file.
    Npy,
    /// Bytes of a single output.
    Raw,
    /// Highest scores of a single output.
    Top {
        ranking: Ranking,
        format: TextFormat,
    },
}

impl Show {
    /// Returns whether this shows exactly one output.
    pub(super) const fn needs_one_output(&self) -> bool {
        match self {
            Self::Table | Self::Json | Self::Csv => false,
            Self::Npy | Self::Raw | Self::Top { .. } => true,
        }
    }
}

impl Task {
    pub(super) fn new(load: &LoadArgs, output: OutputArgs) -> Result<Self, Failure> {
        if load.repeat.is_some() || load.duration.is_some() {
            let is_json = output.output.of_many("a measurement")? == OutputFormat::Json;
            let plan = LoadPlan {
                target: LoadTarget::Concurrency(load.concurrency.unwrap_or(1).into()),
                warmup: load.warmup.unwrap_or(0),
                until: Until::Limits {
                    requests: load.repeat,
                    duration: load.duration,
                },
            };
            return Ok(Self::Measure { plan, is_json });
        }
        let format = output.output;
        let of_ranking = match output.ranking.is_given() {
            true => format.of_text("a ranking")?,
            false => TextFormat::Table,
        };
        let show = match (format, output.ranking.read()?) {
            (Format::Table, None) => Show::Table,
            (Format::Json, None) => Show::Json,
            (Format::Csv, None) => Show::Csv,
            (Format::Npy, None) => {
                ui::refuse_bytes_on_terminal("a .npy file")?;
                Show::Npy
            }
            (Format::Raw, None) => {
                ui::refuse_bytes_on_terminal("a raw tensor")?;
                Show::Raw
            }
            (_, Some(ranking)) => Show::Top {
                ranking,
                format: of_ranking,
            },
        };
        if let Some(path) = &output.save {
            saved::check_place(path)?;
        }
        Ok(Self::Show {
            show,
            save: output.save,
        })
    }
}

/// Refuses the forms that need a single output.
pub(super) fn no_single_output(what: &str) -> Failure {
    let text = format!("{what} has no form as `--output npy` or `--output raw`");
    Failure::usage(text)
}

/// Refuses labels of a model that are more or fewer than the scores of each of its outputs.
fn check_labels(name: &str, model: &ModelMetadata) -> Result<(), Failure> {
    let found = model.properties.label_count();
    let scores = |output: &TensorMetadata| match output.shape.0.last() {
        Some(&Dim::Fixed(scores)) => Some(scores),
        _ => None,
    };
    let all: Option<Vec<usize>> = model.outputs.iter().map(scores).collect();
    match (found, all) {
        (1.., Some(all)) if !all.is_empty() && !all.contains(&found) => {}
        _ => return Ok(()),
    }
    let of = |output: &TensorMetadata| {
        let scores = scores(output).unwrap_or_default();
        let (name, scores) = (visible(&output.name), counted(scores, "score"));
        format!("output `{name}` has {scores}")
    };
    let expected: Vec<String> = model.outputs.iter().map(of).collect();
    let (name, found) = (visible(name), counted(found, "label"));
    let text = format!("model `{name}` has {found}, {}", expected.join(", "));
    Err(Failure::failed(text).hint(
        "correct `labels.txt` next to the model on the server, or give other labels with --labels FILE",
    ))
}
